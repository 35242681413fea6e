//! Whether a server says that it can store, when it cannot.

use std::process::Command;

use crate::stand::Stand;

/// A small file system; unmounted when it goes.
struct Mounted(std::path::PathBuf);

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
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&data).output();
    if !mount.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("cannot mount a small file system, so there is no full disk to try: {mount:?}");
        return;
    }
    let mounted = Mounted(data.clone());
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
