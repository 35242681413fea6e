//! The HTTP API against its own description: schemathesis sends thousands of requests made from the OpenAPI document to a
//! running server and compares every answer with what the document promises.
//!
//! schemathesis is a Python package. It is installed here, into a virtual environment beside the build directory, at one
//! pinned version; later runs find it there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The version that is installed.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// What every answer is checked for.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";
const EXAMPLES: &str = "15";
/// Cases can be had again with the seed.
const SEED: &str = "7";
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with the check.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which the check has noticed then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let built = super::target(root);
    let tool = install(&built.join("schemathesis"))?;
    // The same build as that of the tests, which CI has made a moment ago.
    super::tree("test", &["--quiet", "--no-run"], &[])?;
    let binary = built.join("debug").join("landfall");
    let place = built.join("tmp").join(format!("api-{}", std::process::id()));
    std::fs::create_dir_all(&place).map_err(|error| format!("cannot make {}: {error}", place.display()))?;
    let outcome = against_server(&tool, &binary, &place);
    // What is left behind by a failure helps to understand it.
    if outcome.is_ok() {
        let _ = std::fs::remove_dir_all(&place);
    }
    outcome
}

fn against_server(tool: &Path, binary: &Path, place: &Path) -> Result<(), String> {
    let (ready, data, log) = (place.join("ready"), place.join("data"), place.join("server.log"));
    let out =
        std::fs::File::create(&log).map_err(|error| format!("cannot make {}: {error}", log.display()))?;
    let errors = out.try_clone().map_err(|error| error.to_string())?;
    let child = Command::new(binary)
        .args(["server", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data)
        .arg("--ready-file")
        .arg(&ready)
        .env("LANDFALL_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
    let mut server = Server(child);
    let began = Instant::now();
    while !ready.exists() {
        if began.elapsed() > PATIENCE || !matches!(server.0.try_wait(), Ok(None)) {
            return Err(format!("the server does not get ready; see {}", log.display()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let (url, token) = (read(&ready)?, read(&data.join("token"))?);
    let (url, token) = (url.trim(), token.trim());
    // Everything that has an id gets the id 1, so that requests about something known can be made, too.
    let landfall = |args: &[&str]| {
        run(Command::new(binary)
            .args(args)
            .env("LANDFALL_CONFIG", "/dev/null")
            .env("LANDFALL_SERVER", url)
            .env("LANDFALL_TOKEN", token)
            .stdout(Stdio::null()))
    };
    landfall(&["pools", "set", "1", "--dispatch", "pull"])?;
    landfall(&["tenants", "set", "1", "--share", "0.1"])?;
    landfall(&["workloads", "set", "1", "--", "true"])?;
    landfall(&["submit", "--hold", "--pool", "default", "--tenant", "1", "--", "true"])?;
    landfall(&["submit", "--hold", "--pool", "default", "--array", "1-10", "--", "true"])?;
    let known = place.join("known.toml");
    std::fs::write(&known, "[parameters]\n\"path.id\" = \"1\"\n").map_err(|error| error.to_string())?;
    let unknown = place.join("unknown.toml");
    std::fs::write(&unknown, "").map_err(|error| error.to_string())?;
    let mut outcomes = Vec::new();
    for settings in [&unknown, &known] {
        let outcome = Command::new(tool)
            .arg("--config-file")
            .arg(settings)
            .args(["run", "--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", SEED])
            // Streams do not end by themselves.
            .args([
                "--exclude-path-regex",
                "/(events|commands|live|logs|stream|changes)$",
                "--request-timeout",
                "20",
            ])
            .args([
                "--phases",
                "examples,coverage,fuzzing",
                "--suppress-health-check",
                "all",
                "--workers",
                "1",
            ])
            .args(["--warnings", "off", "--header"])
            .arg(format!("Authorization: Bearer {token}"))
            .arg(format!("{url}/openapi.json"))
            .current_dir(place)
            .status();
        outcomes.push(outcome.map_err(|error| format!("cannot run {}: {error}", tool.display()))?);
    }
    if let Ok(Some(ended)) = server.0.try_wait() {
        return Err(format!("the server ended ({ended}); see {}", log.display()));
    }
    if read(&log)?.contains("panicked") {
        return Err(format!("something panicked in the server; see {}", log.display()));
    }
    match outcomes.iter().find(|status| !status.success()) {
        None => Ok(()),
        Some(status) => Err(format!("answers differ from the document ({status}); see {}", place.display())),
    }
}

/// The program, installed if it is not there yet.
fn install(place: &Path) -> Result<PathBuf, String> {
    let (tool, version) = (place.join("bin").join("schemathesis"), place.join("version"));
    if tool.exists() && std::fs::read_to_string(&version).is_ok_and(|text| text == SCHEMATHESIS) {
        return Ok(tool);
    }
    println!("   installing {SCHEMATHESIS} into {}", place.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
    run(Command::new(place.join("bin").join("pip")).args(["install", "--quiet", SCHEMATHESIS]))?;
    std::fs::write(&version, SCHEMATHESIS)
        .map_err(|error| format!("cannot write {}: {error}", version.display()))?;
    Ok(tool)
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})")) }
}
