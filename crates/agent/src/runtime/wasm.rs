//! Jobs of runtime `wasm`: the command line of `landfall-wasm`, the program that runs a module.

use std::path::Path;

use landfall_api::agent::Start;

use super::Refusal;
use crate::keeper::wire::{Limits, Program};

/// The program, beside `landfall`, in LANDFALL_WASM or in the search path.
pub(crate) const PROGRAM: &str = "landfall-wasm";
/// What there is to say without it.
pub(crate) const MISSING: &str =
    "landfall-wasm is not installed beside landfall; `make install` puts it there";
/// What the program leaves in the outcome file after a time-out.
pub(crate) const OUTCOME_TIMEOUT: &str = "timeout";
/// What the program leaves in the outcome file when memory ran out.
pub(crate) const OUTCOME_MEMORY: &str = "memory";
/// Memory of a module that declared none.
const RAM_MIB: u64 = 256;
/// Memory that the program needs besides the module's own.
const OVERHEAD_MIB: u64 = 128;
/// What the keeper gives the program to notice by itself that its time is over, and to say so.
const NOTICE_MS: u64 = 1_500;

/// Fills in what runs the job's module.
pub(crate) fn run(
    runner: &Path,
    start: &Start,
    outcome: &Path,
    program: &mut Program,
) -> Result<(), Refusal> {
    let module = start.run.module.as_deref().filter(|module| !module.is_empty());
    let module = module.ok_or_else(|| Refusal::malformed("a wasm job needs run.module"))?;
    let ram_mib = if start.share.ram_mib == 0 { RAM_MIB } else { start.share.ram_mib };
    let mut argv = vec![runner.display().to_string(), "--memory-mib".into(), ram_mib.to_string()];
    if let Some(timeout_ms) = start.run.timeout_ms {
        argv.extend(["--timeout-ms".into(), timeout_ms.to_string()]);
        program.timeout_ms = Some(timeout_ms.saturating_add(NOTICE_MS));
    }
    argv.extend(["--outcome".into(), outcome.display().to_string()]);
    for mount in &start.run.mounts {
        let rights = if mount.writable { "rw" } else { "ro" };
        argv.extend(["--dir".into(), mount.source.clone(), mount.target.clone(), rights.into()]);
    }
    // Options end at the first word that is none, and a module may be called like one.
    argv.push(if module.starts_with('-') { format!("./{module}") } else { module.to_owned() });
    argv.extend(start.run.command.iter().cloned());
    program.argv = argv;
    program.limits = program.limits.map(|limits| Limits {
        ram_mib: if limits.ram_mib == 0 { 0 } else { limits.ram_mib + OVERHEAD_MIB },
        ..limits
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::{site, start};
    use landfall_model::life::StartRefusal;

    #[test]
    fn a_module_is_run_with_its_limits() {
        let mut site = site();
        let mut job = start("wasm", &["a"]);
        job.run.module = Some("/m.wasm".into());
        job.run.timeout_ms = Some(5000);
        job.share.ram_mib = 64;
        let refused = site.plan(&job).expect_err("nothing runs it");
        assert_eq!((refused.kind, refused.why.as_str()), (StartRefusal::Unsupported, MISSING));
        site.programs.wasm = Some("/bin/landfall-wasm".into());
        let spawn = site.plan(&job).expect("planned");
        assert_eq!(
            spawn.program.argv.join(" "),
            "/bin/landfall-wasm --memory-mib 64 --timeout-ms 5000 --outcome /d/logs/job-1.1.outcome /m.wasm a"
        );
        assert_eq!(spawn.program.timeout_ms, Some(6500), "the runner says it better, so it comes first");
        assert_eq!(spawn.program.limits, Some(Limits { cpu_milli: 0, ram_mib: 192 }));
        job.run.module = None;
        assert_eq!(site.plan(&job).expect_err("no module").kind, StartRefusal::Malformed);
    }
}
