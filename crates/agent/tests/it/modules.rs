//! WebAssembly modules: they run, and their memory and time are bounded.

use landfall_api::agent::Start;
use landfall_model::life::{Failure, Report};

use crate::server::{Agent, helper, is_exit, job, up};

fn module(agent: &Agent, name: &str, text: &str) -> Start {
    let path = agent.dir.path().join(format!("{name}.wasm"));
    std::fs::write(&path, wat::parse_str(text).expect("a module")).expect("written");
    let mut start = job(name, &[]);
    start.runtime = "wasm".into();
    start.run.module = Some(path.to_str().expect("text").to_owned());
    start
}

const HELLO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 8) "hello\n")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 8))
    (i32.store (i32.const 4) (i32.const 6))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))
    (call $exit (i32.const 3))))"#;

/// Grows until it may not, then traps as programs do that cannot get memory.
const HUNGRY: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "_start")
    (loop $more
      (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    unreachable))"#;

const ENDLESS: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "_start") (loop $again (br $again))))"#;

const BROKEN: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "_start") unreachable))"#;

#[tokio::test]
async fn modules_run_within_their_bounds() {
    let beside = helper().with_file_name("landfall-wasm");
    assert!(
        beside.is_file(),
        "build landfall-wasm first: `cargo build -p landfall-wasm`, or test the --workspace"
    );
    let (server, agent) = up().await;
    let hello = module(&agent, "hello", HELLO);
    let mut hungry = module(&agent, "hungry", HUNGRY);
    hungry.share.ram_mib = 8;
    let mut endless = module(&agent, "endless", ENDLESS);
    endless.run.timeout_ms = Some(200);
    let broken = module(&agent, "broken", BROKEN);
    let mut missing = broken.clone();
    missing.fence = crate::server::fence("missing", 1);
    missing.run.module = Some("/no/such/module.wasm".into());
    for start in [&hello, &hungry, &endless, &broken, &missing] {
        server.start_job(start).await;
    }
    assert_eq!(server.exit_code(&hello.fence).await, 3);
    assert_eq!(server.output(&hello.fence, "stdout"), "hello\n");
    match server.report(&hungry.fence, is_exit).await {
        Report::Exited { code: 125, usage, .. } => assert!(usage.oom),
        other => panic!("{other:?}"),
    }
    let said = server.output(&hungry.fence, "stderr");
    assert!(said.contains("out of memory") && said.contains("8 MiB"), "{said}");
    match server.report(&endless.fence, is_exit).await {
        Report::Exited { code: 124, failure: Some(Failure::Timeout), .. } => {}
        other => panic!("{other:?}"),
    }
    assert!(server.output(&endless.fence, "stderr").contains("out of time"));
    assert_eq!(server.exit_code(&broken.fence).await, 134);
    assert_eq!(server.exit_code(&missing.fence).await, 126);
    assert!(server.output(&missing.fence, "stderr").contains("/no/such/module.wasm"));
    agent.stop().await.1.expect("a good end");
}
