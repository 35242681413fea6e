//! Which programs on this machine can run jobs: container engines, llama.cpp, `landfall-wasm`, those of templates.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use landfall_model::{IMAGES_MAX, image_name};

use crate::runtime::container::{Engine, EngineKind};
use crate::runtime::llm::Llama;
use crate::runtime::wasm;

/// How long an engine may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Finds an executable file in a search path.
pub fn find(program: &str, search: &str) -> Option<PathBuf> {
    let usable =
        |path: &Path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| usable(path));
    }
    search
        .split(':')
        .filter(|dir| !dir.is_empty())
        .map(|dir| Path::new(dir).join(program))
        .find(|path| usable(path))
}

/// The first container engine that answers. That its program exists says nothing: without its daemon, without rights,
/// without storage it runs no container, and only `info` asks for all of that.
pub async fn container_engine(search: &str) -> Option<Engine> {
    for kind in EngineKind::ALL {
        let Some(path) = find(kind.program(), search) else { continue };
        if let Some(version) = answer(&path).await {
            return Some(Engine { kind, path, version });
        }
        tracing::debug!(program = kind.program(), "the container engine does not answer");
    }
    None
}

async fn answer(path: &Path) -> Option<String> {
    ask(path, &["info"]).await?;
    Some(ask(path, &["--version"]).await.unwrap_or_default())
}

pub(super) async fn ask(path: &Path, args: &[&str]) -> Option<String> {
    let mut command = tokio::process::Command::new(path);
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.env_remove("LANDFALL_TOKEN");
    let output = tokio::time::timeout(ANSWER_WITHIN, command.output()).await.ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Images that an engine has, by their full names and as it lists them, the newest first; `None` if it does not say.
pub async fn images(engine: &Engine) -> Option<Vec<String>> {
    let listed = ask(&engine.path, &["images", "--format", "{{.Repository}}:{{.Tag}}"]).await?;
    let mut names: Vec<String> = Vec::new();
    // What has no name, or no tag any more, no job can ask for.
    for name in listed.lines().filter(|line| !line.contains("<none>")).filter_map(image_name) {
        if names.len() < IMAGES_MAX && !names.iter().any(|known| known == name.as_str()) {
            names.push(name.to_string());
        }
    }
    Some(names)
}

/// llama.cpp, if it is there.
pub fn llama(search: &str) -> Option<Llama> {
    ["llama-cli", "llama-server"].iter().find_map(|program| find(program, search)).map(|path| Llama { path })
}

/// `landfall-wasm`: beside this program, where LANDFALL_WASM says, or in the search path.
pub fn wasm(this: Option<&Path>, search: &str) -> Option<PathBuf> {
    let beside = this.and_then(Path::parent).and_then(Path::to_str);
    let named = std::env::var("LANDFALL_WASM").unwrap_or_default();
    beside
        .and_then(|dir| find(wasm::PROGRAM, dir))
        .or_else(|| find(&named, ""))
        .or_else(|| find(wasm::PROGRAM, search))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn script(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    }

    #[tokio::test]
    async fn only_an_engine_that_answers_counts() {
        let dir = tempfile::tempdir().expect("dir");
        let search = dir.path().to_str().expect("text").to_owned();
        assert_eq!(container_engine(&search).await, None);
        // A client without its daemon: its version it knows.
        script(dir.path(), "docker", r#"[ "$1" = info ] && exit 1; echo "Docker version 27""#);
        assert_eq!(container_engine(&search).await, None);
        script(dir.path(), "nerdctl", r#"[ "$1" = info ] && echo fine || echo "nerdctl version 2""#);
        let engine = container_engine(&search).await.expect("it answers");
        assert_eq!((engine.kind, engine.version.as_str()), (EngineKind::Nerdctl, "nerdctl version 2"));
    }

    #[tokio::test]
    async fn images_are_listed_by_their_full_names() {
        let dir = tempfile::tempdir().expect("dir");
        let many = "for i in $(seq 200); do echo quay.io/a/b:$i; done";
        script(
            dir.path(),
            "podman",
            &format!("echo localhost/mine:1\necho '<none>:<none>'\necho mine:1\n{many}"),
        );
        let engine =
            Engine { kind: EngineKind::Podman, path: dir.path().join("podman"), version: String::new() };
        let names = images(&engine).await.expect("told");
        assert_eq!(names[..2], ["docker.io/library/mine:1", "quay.io/a/b:1"]);
        assert_eq!(names.len(), IMAGES_MAX);
        script(dir.path(), "podman", "exit 1");
        assert_eq!(images(&engine).await, None);
    }

    #[test]
    fn what_runs_modules_is_looked_for_beside_the_program_first() {
        let (beside, elsewhere) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let this = beside.path().join("landfall");
        let search = elsewhere.path().to_str().expect("text");
        assert_eq!(wasm(Some(&this), search), None);
        for dir in [&elsewhere, &beside] {
            script(dir.path(), "landfall-wasm", "true");
            assert_eq!(wasm(Some(&this), search), Some(dir.path().join("landfall-wasm")));
        }
    }

    #[test]
    fn programs_must_be_executable() {
        let dir = tempfile::tempdir().expect("dir");
        let search = dir.path().to_str().expect("text");
        std::fs::write(dir.path().join("llama-cli"), "text").expect("written");
        assert_eq!(llama(search), None);
        script(dir.path(), "llama-server", "true");
        assert_eq!(llama(search).map(|llama| llama.path), Some(dir.path().join("llama-server")));
    }
}
