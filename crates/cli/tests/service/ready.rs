//! Whether a server says that it can store, when it cannot.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stand::Stand;

/// A small file system; unmounted when it goes.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Over a directory, unless that cannot be had here.
    pub(crate) fn over(dir: &Path, size: &str) -> Option<Self> {
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir).output();
        let mounted = mount.as_ref().is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("cannot mount a small file system, so there is no full disk to try: {mount:?}");
        }
        mounted.then(|| Self(dir.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn on_a_full_disk_a_server_is_not_ready_until_there_is_room() {
    let mut stand = Stand::new();
    stand.kill_server();
    let data = stand.data();
    let Some(mounted) = Mounted::over(&data, "4m") else { return };
    stand.start_server();
    let ready = |stand: &Stand| stand.says("", "GET", "/readyz", &[], None);
    assert_eq!(ready(&stand).0, 200);
    let ballast = data.join("ballast");
    // As much as there is.
    let _ = std::fs::write(&ballast, vec![1; 8 << 20]);
    let mut last = (0, serde_json::Value::Null);
    stand.until("it is not ready", || {
        last = ready(&stand);
        last.0 == 503
    });
    assert_eq!(last.1["code"], "storage", "{}", last.1);
    assert!(last.1["message"].as_str().unwrap().contains("no room"), "{}", last.1);
    std::fs::remove_file(&ballast).unwrap();
    stand.until("it is ready", || ready(&stand).0 == 200);
    stand.submit(&["--", "true"]);
    drop(stand);
    drop(mounted);
}

#[test]
fn what_a_job_writes_while_the_disk_is_full_is_in_its_log_later() {
    let mut stand = Stand::new();
    stand.kill_server();
    let data = stand.data();
    let Some(mounted) = Mounted::over(&data, "4m") else { return };
    stand.start_server();
    stand.agent("n1", &["--cpus", "1"]);
    let (go, wrote) = (stand.path("go"), stand.path("wrote"));
    let script = format!(
        "while ! test -e {}; do sleep 0.05; done; echo much; touch {}",
        go.display(),
        wrote.display()
    );
    let id = stand.submit(&["--", "sh", "-c", &script]);
    stand.wait_for(&id, &["running"]);
    let ballast = data.join("ballast");
    // As much as there is.
    let _ = std::fs::write(&ballast, vec![1; 8 << 20]);
    std::fs::write(&go, "").unwrap();
    stand.until("it has written", || wrote.exists());
    // The agent tried in vain several times, and gave up in this time once.
    std::thread::sleep(std::time::Duration::from_secs(4));
    std::fs::remove_file(&ballast).unwrap();
    stand.wait_for(&id, &["completed"]);
    assert_eq!(stand.run(&["logs", &id]).ok(), "much\n");
    drop(stand);
    drop(mounted);
}
