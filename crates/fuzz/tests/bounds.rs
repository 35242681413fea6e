//! Inputs that are small and ask for everything: they are refused before they have filled the memory or the stack.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use landfall_fuzz::named;

/// What the process may come to, all inputs together. Each of them would take more than that.
const MEMORY_MAX_MIB: u64 = 400;

fn run(target: &str, input: &[u8]) {
    (named(target).run)(input);
}

/// The most memory that the process has had, where the system tells.
fn most_memory_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? / 1024)
}

/// Gzip of a beginning and of as many repetitions of a mebibyte: packed once, and repeated as members of the file.
fn bomb(beginning: &str, filling: &[u8], mebibytes: usize) -> Vec<u8> {
    let packed = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let member = packed(&filling.repeat((1 << 20) / filling.len()));
    [packed(beginning.as_bytes()), member.repeat(mebibytes)].concat()
}

#[test]
fn a_few_kilobytes_do_not_fill_the_memory() {
    let row = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,\"";
    for input in [
        bomb(row, b"x", 1000),
        bomb("sn,cpu_milli,", b"x", 1000),
        bomb("; MaxProcs: 8\n", b";\n", 1000),
        bomb("; MaxProcs: 8\n", b"1 0 5 100 4 7 -1 4 200 -1 1 7 1 3 -1 -1 -1 -1\n", 1000),
        bomb("pods 1 1\nnodes 1 ", b"7 ", 1000),
        bomb("{\"format\":\"landfall.trace\",\"version\":1}\n", b"\n", 1000),
        bomb("{\"format\":\"landfall.trace\",\"version\":1,\"description\":\"", b"y", 1000),
    ] {
        assert!(input.len() < 6 << 20, "it is small: {}", input.len());
        run("trace", &input);
    }
    for lengths in [
        b"\x9b\x00\x00\x00\xff\xff\xff\xff\xff",
        b"\x5b\x00\x00\x00\xff\xff\xff\xff\xff",
        b"\xbb\x00\x00\x00\xff\xff\xff\xff\xff",
    ] {
        run("events", &[b"\x82\x00".as_slice(), lengths].concat());
        run("state", lengths);
        run("snapshot", &[b"\x00".as_slice(), lengths].concat());
        run("peers", lengths);
    }
    if let Some(most) = most_memory_mib() {
        assert!(most < MEMORY_MAX_MIB, "{most} MiB");
    }
}

#[test]
fn depth_is_no_way_to_the_end_of_the_stack() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let json = [deep("[", "]"), deep("{\"a\":", "}"), deep("{\"needs\":", "}"), deep("{\"jobs\":[", "]}")];
    for text in &json {
        for kind in ["job", "plan", "pool", "command", "heartbeat"] {
            run("bodies", format!("{kind}\n{text}").as_bytes());
            run("agent", format!("{kind}\n{text}").as_bytes());
        }
        run("keeper", text.as_bytes());
        run("keeper-journal", text.as_bytes());
        run("scenario", text.as_bytes());
        run("trace", text.as_bytes());
        run("bodies", format!("job\n{{\"placement\":{{\"hints\":{{\"a\":{text}}}}}}}").as_bytes());
    }
    for text in [
        format!("a = {}", deep("[", "]")),
        format!("a = {}", deep("{ b = ", "}")),
        format!("[{}]", "a.".repeat(100_000)),
    ] {
        run("policy", text.as_bytes());
        run("scenario", text.as_bytes());
    }
    for byte in [b"\x81", b"\x9f", b"\xa1", b"\xbf", b"\xc1"] {
        let deep = byte.repeat(100_000);
        run("events", &[b"\x82\x00".as_slice(), &deep].concat());
        run("state", &deep);
        run("snapshot", &[b"\x00".as_slice(), &deep].concat());
        run("peers", &deep);
    }
}
