//! The program itself, on modules: what they get, what they may do, and how it says that they went too far.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes five bytes of its first argument, three of its environment and what it reads to the standard output; ends with 3.
const SAYS: &str = r#"(module
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func $say (param $at i32) (param $bytes i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (drop (call $args (i32.const 16) (i32.const 1024)))
    (call $say (i32.load (i32.const 20)) (i32.const 5))
    (drop (call $environ (i32.const 16) (i32.const 1024)))
    (call $say (i32.load (i32.const 16)) (i32.const 3))
    (i32.store (i32.const 0) (i32.const 2048))
    (i32.store (i32.const 4) (i32.const 100))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $say (i32.const 2048) (i32.load (i32.const 8)))
    (call $exit (i32.const 3))))"#;

/// Makes the directory `made` in the first directory it was given; ends with the error number, 0 if it could.
const MAKES: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_create_directory" (func $make (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 8) "made")
  (func (export "_start") (call $exit (call $make (i32.const 3) (i32.const 8) (i32.const 4)))))"#;

/// Grows until it may not, then traps as programs do that cannot get memory.
const HUNGRY: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "_start")
    (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    unreachable))"#;

const ENDLESS: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "_start") (loop $again (br $again))))"#;

fn run(dir: &Path, options: &[&str], module: &str, args: &[&str]) -> Output {
    std::fs::write(dir.join("m.wasm"), wat::parse_str(module).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall-wasm"));
    command.env_clear().env("A", "b").current_dir(dir).args(options).arg("m.wasm").args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Not all of them read it, and one that has ended cannot.
    let _ = child.stdin.take().unwrap().write_all(b"input\n");
    child.wait_with_output().unwrap()
}

#[test]
fn a_module_gets_arguments_environment_and_input_and_its_code_is_the_code() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &[], SAYS, &["--one"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--oneA=binput\n", "{output:?}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn directories_are_what_they_were_given_as() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("d")).unwrap();
    let made = dir.path().join("d/made");
    let code = |rights| run(dir.path(), &["--dir", "d", "/d", rights], MAKES, &[]).status.code();
    assert_ne!(code("ro"), Some(0));
    assert!(!made.exists());
    assert_eq!(code("rw"), Some(0));
    assert!(made.exists());
}

#[test]
fn bounds_are_kept_and_the_outcome_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = dir.path().join("outcome");
    for (options, module, code, word) in [
        (["--memory-mib", "8", "--outcome", "outcome"], HUNGRY, 125, "memory"),
        (["--timeout-ms", "200", "--outcome", "outcome"], ENDLESS, 124, "timeout"),
    ] {
        let output = run(dir.path(), &options, module, &[]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(std::fs::read_to_string(&outcome).unwrap(), word);
    }
}
