//! Runs one WebAssembly module (WASI preview 1) with bounded memory and time. Agents start it for jobs of runtime `wasm`.
//!
//! It is a process of its own like any other job: what the module does to it stays there, and stops, logs and usage
//! work as they do for every job. The environment it was given is the environment of the module.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use wasmtime::{Config, Engine, Linker, Module, ResourceLimiter, Store, Trap};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtxBuilder};

/// Exit code of a module that ran out of time.
const TIMEOUT_EXIT: u8 = 124;
/// Exit code of a module that ran out of memory.
const MEMORY_EXIT: u8 = 125;
/// Exit code when there is no module to run.
const NO_MODULE_EXIT: u8 = 126;
/// Exit code of a module that did something impossible.
const TRAP_EXIT: u8 = 134;
/// What the outcome file says after a time-out; the agent reads it.
const OUTCOME_TIMEOUT: &str = "timeout";
/// What the outcome file says when memory ran out; the agent reads it.
const OUTCOME_MEMORY: &str = "memory";
/// How long a module that sits in a call to the system may take to notice that its time is over.
const NOTICE: Duration = Duration::from_millis(500);

/// A directory that the module may use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dir {
    source: PathBuf,
    target: String,
    writable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Args {
    memory_mib: Option<u64>,
    timeout_ms: Option<u64>,
    outcome: Option<PathBuf>,
    dirs: Vec<Dir>,
    module: PathBuf,
    args: Vec<String>,
}

const USAGE: &str = "\
usage: landfall-wasm [--memory-mib N] [--timeout-ms N] [--outcome FILE] [--dir SOURCE TARGET ro|rw]... MODULE [ARGS]";

fn main() -> ExitCode {
    let words: Result<Vec<String>, _> = std::env::args_os().skip(1).map(|word| word.into_string()).collect();
    match words.map_err(|_| "arguments are UTF-8 text".to_owned()).and_then(|words| parse(&words)) {
        Ok(args) => ExitCode::from(run(&args)),
        Err(message) => {
            eprintln!("landfall-wasm: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[String]) -> Result<Args, String> {
    let mut args = Args::default();
    let mut words = words.iter();
    loop {
        let word = words.next().ok_or("no module is named")?;
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--memory-mib" => args.memory_mib = Some(number(value()?)?),
            "--timeout-ms" => args.timeout_ms = Some(number(value()?)?),
            "--outcome" => args.outcome = Some(value()?.into()),
            "--dir" => {
                let (source, target) = (value()?.into(), value()?.clone());
                args.dirs.push(Dir { source, target, writable: value()? == "rw" });
            }
            _ => {
                args.module = word.into();
                args.args = words.cloned().collect();
                return Ok(args);
            }
        }
    }
}

/// Bounds linear memory and remembers whether the bound was met.
struct Bounds {
    bytes_max: usize,
    refused: bool,
}

/// Tables hold references; this is far more than compilers make and far less than hurts.
const TABLE_ELEMENTS_MAX: usize = 10_000_000;

impl ResourceLimiter for Bounds {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let fits = desired <= self.bytes_max;
        self.refused |= !fits;
        Ok(fits)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }
}

struct Host {
    wasi: WasiP1Ctx,
    bounds: Bounds,
}

fn run(args: &Args) -> u8 {
    let mut config = Config::new();
    config.epoch_interruption(true);
    let loaded =
        Engine::new(&config).and_then(|engine| Ok((Module::from_file(&engine, &args.module)?, engine)));
    let (module, engine) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!(
                "landfall: {}: not a WebAssembly module that can be run: {error:#}",
                args.module.display()
            );
            return NO_MODULE_EXIT;
        }
    };
    let bytes_max = args
        .memory_mib
        .map_or(usize::MAX, |mib| usize::try_from(mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX));
    let wasi = match wasi(args) {
        Ok(wasi) => wasi,
        Err(message) => {
            eprintln!("landfall: {message}");
            return NO_MODULE_EXIT;
        }
    };
    let mut store = Store::new(&engine, Host { wasi, bounds: Bounds { bytes_max, refused: false } });
    store.limiter(|host| &mut host.bounds);
    store.set_epoch_deadline(1);
    if let Some(timeout_ms) = args.timeout_ms {
        let (engine, outcome) = (engine.clone(), args.outcome.clone());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(timeout_ms));
            engine.increment_epoch();
            // A module that waits for the system does not count epochs.
            std::thread::sleep(NOTICE);
            std::process::exit(i32::from(out_of_time(timeout_ms, outcome.as_ref())));
        });
    }
    let result = start(&engine, &module, &mut store);
    let refused = store.data().bounds.refused;
    let Err(error) = result else { return 0 };
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        // Programs that cannot get memory usually abort by themselves; only an end without complaint is their own.
        if !(refused && *code != 0) {
            return (*code & 0xff) as u8;
        }
    }
    if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
        return out_of_time(args.timeout_ms.unwrap_or_default(), args.outcome.as_ref());
    }
    if refused {
        let limit = args.memory_mib.unwrap_or_default();
        eprintln!("landfall: out of memory: the module wanted more than its limit of {limit} MiB");
        note(args.outcome.as_ref(), OUTCOME_MEMORY);
        return MEMORY_EXIT;
    }
    eprintln!("landfall: the module failed: {error:#}");
    TRAP_EXIT
}

fn start(engine: &Engine, module: &Module, store: &mut Store<Host>) -> wasmtime::Result<()> {
    let mut linker: Linker<Host> = Linker::new(engine);
    p1::add_to_linker_sync(&mut linker, |host: &mut Host| &mut host.wasi)?;
    let instance = linker.instantiate(&mut *store, module)?;
    instance.get_typed_func::<(), ()>(&mut *store, "_start")?.call(&mut *store, ())
}

fn wasi(args: &Args) -> Result<WasiP1Ctx, String> {
    let mut builder = WasiCtxBuilder::new();
    let name = args.module.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    builder.inherit_stdio().allow_blocking_current_thread(true).arg(name).args(&args.args);
    for (name, value) in std::env::vars_os() {
        // WASI knows text only.
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            builder.env(name, value);
        }
    }
    for dir in &args.dirs {
        let rights = if dir.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        builder
            .preopened_dir(&dir.source, &dir.target, rights)
            .map_err(|error| format!("cannot open the directory {}: {error}", dir.source.display()))?;
    }
    Ok(builder.build_p1())
}

fn out_of_time(timeout_ms: u64, outcome: Option<&PathBuf>) -> u8 {
    eprintln!("landfall: out of time: the module ran for {timeout_ms} ms");
    note(outcome, OUTCOME_TIMEOUT);
    TIMEOUT_EXIT
}

/// Leaves a word for the agent: an exit code alone could also be the module's own.
fn note(outcome: Option<&PathBuf>, word: &str) {
    if let Some(path) = outcome {
        let _ = std::fs::write(path, word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line() {
        let args =
            parse(&words("--memory-mib 64 --timeout-ms 5 --dir /a /b ro --outcome o m.wasm --memory-mib x"));
        let args = args.expect("understood");
        assert_eq!((args.memory_mib, args.timeout_ms), (Some(64), Some(5)));
        assert_eq!(args.dirs, vec![Dir { source: "/a".into(), target: "/b".into(), writable: false }]);
        assert_eq!(args.module, PathBuf::from("m.wasm"));
        assert_eq!(args.args, ["--memory-mib", "x"], "what follows the module is its own");
        assert!(parse(&words("--memory-mib many m")).is_err());
        assert!(parse(&words("--timeout-ms")).is_err());
        assert!(parse(&[]).is_err());
    }

    #[test]
    fn memory_is_bounded_and_remembered() {
        let mut bounds = Bounds { bytes_max: 100, refused: false };
        assert!(bounds.memory_growing(0, 100, None).expect("asked"));
        assert!(!bounds.refused);
        assert!(!bounds.memory_growing(100, 101, None).expect("asked"));
        assert!(bounds.refused);
    }
}
