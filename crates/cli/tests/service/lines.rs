//! Network namespaces on one bridge: machines of their own as far as the network goes, with lines that a test can cut. They go
//! with the test. Making them needs root.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Tests run beside each other, and so do processes of tests.
static MADE: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Lines {
    /// The namespaces.
    pub(crate) names: Vec<String>,
    bridge: String,
    net: String,
}

fn ip(args: &str) -> Result<(), String> {
    let done = Command::new("ip").args(args.split(' ')).output();
    let done = done.map_err(|error| format!("ip: {error}"))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(format!("ip {args}: {}", String::from_utf8_lossy(&done.stderr)))
    }
}

/// Removes what processes left behind that were killed: namespaces with whatever still runs there, and bridges.
fn clear_up() {
    let listed = |args: &str| {
        let done = Command::new("ip").args(args.split(' ')).output();
        let names = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
        let first = |line: &str| Some(line.split([' ', '@', ':']).next()?.to_owned());
        let owner = |name: &str| name.strip_prefix("lf")?.split_once('x')?.0.parse::<u32>().ok();
        let is_left = |name: &String| {
            owner(name).is_some_and(|owner| !std::path::Path::new(&format!("/proc/{owner}")).exists())
        };
        names.lines().filter_map(first).filter(is_left).collect::<Vec<_>>()
    };
    for name in listed("netns list") {
        let inside = Command::new("ip").args(["netns", "pids", &name]).output();
        let inside =
            inside.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
        for process in inside.split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", process]).output();
        }
        let _ = ip(&format!("netns del {name}"));
    }
    for name in listed("-brief link show type bridge") {
        let _ = ip(&format!("link del {name}"));
    }
}

impl Lines {
    /// So many machines, or why there can be none here.
    pub(crate) fn new(count: usize) -> Result<Self, String> {
        let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        clear_up();
        // Names of devices have 15 letters at most; they say whose they are.
        let short = format!("lf{process}x{made}");
        let net = format!("10.213.{}", (process.wrapping_mul(7) + made) % 251);
        let bridge = format!("{short}br");
        ip(&format!("link add {bridge} type bridge"))?;
        let mut lines = Self { names: Vec::new(), bridge, net };
        ip(&format!("addr add {}.254/24 dev {}", lines.net, lines.bridge))?;
        ip(&format!("link set {} up", lines.bridge))?;
        for place in 0..count {
            let (name, outer) = (format!("{short}n{place}"), format!("{short}v{place}"));
            ip(&format!("netns add {name}"))?;
            lines.names.push(name.clone());
            ip(&format!("link add {outer} type veth peer name inner netns {name}"))?;
            ip(&format!("link set {outer} master {}", lines.bridge))?;
            ip(&format!("link set {outer} up"))?;
            ip(&format!("-n {name} addr add {}/24 dev inner", lines.address(place)))?;
            ip(&format!("-n {name} link set inner up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(lines)
    }

    pub(crate) fn address(&self, place: usize) -> String {
        format!("{}.{}", self.net, place + 1)
    }

    /// Lines that need 50 ms and lose 2 % of what goes over them, or why this kernel has none.
    pub(crate) fn make_bad(&self) -> Result<(), String> {
        self.names.iter().try_for_each(|name| {
            ip(&format!("netns exec {name} tc qdisc add dev inner root netem delay 50ms loss 2%"))
        })
    }

    /// Nothing goes from one of the first to one of the second any more, or does again.
    pub(crate) fn set_cut(&self, from: &[usize], to: &[usize], cut: bool) {
        let verb = if cut { "replace" } else { "del" };
        for &place in from {
            let others = to.iter().filter(|other| **other != place);
            let orders: String =
                others.map(|other| format!("route {verb} blackhole {}/32\n", self.address(*other))).collect();
            let mut child = Command::new("ip")
                .args(["-n", &self.names[place], "-force", "-batch", "-"])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(orders.as_bytes()).unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
        let _ = ip(&format!("link del {}", self.bridge));
    }
}

#[test]
fn what_a_killed_process_left_behind_is_removed() {
    let mut over = Command::new("true").spawn().unwrap();
    over.wait().unwrap();
    let left = format!("lf{}x0", over.id());
    if let Err(why) = ip(&format!("netns add {left}n0")) {
        println!("skipped: this machine gives no namespaces: {why}");
        return;
    }
    ip(&format!("link add {left}br type bridge")).unwrap();
    let _lines = Lines::new(1).unwrap();
    assert!(ip(&format!("netns exec {left}n0 true")).is_err());
    assert!(ip(&format!("link show {left}br")).is_err());
}
