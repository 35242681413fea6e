//! Damaged files are errors or other content, never a panic.

use std::io::{Cursor, Read as _, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use landfall_replay::trace::batch::Kept;
use landfall_replay::trace::convert::{Shape, from_muri, from_openb, from_swf, to_swf};
use landfall_replay::trace::own::{Header, Trace};
use landfall_replay::trace::random::Random;
use landfall_replay::trace::swf::{BadLines, Log};
use landfall_replay::trace::{Source, TraceError, muri, openb, recognise};

const SWF: &str = "; MaxProcs: 8\n1 0 5 100 4 7.25 -1 4 200 -1 1 7 1 3 -1 -1 -1 -1\n\
    2\t60\t-1\t100\t1\t-1\t-1\t-1\t100\t-1\t1\t-1\t-1\t-1\t-1\t-1\t-1\t-1\t0\n";
// Without `count` in the node's row: a digit more there would be a large fleet, not damage.
const OWN: &str = concat!(
    "{\"format\":\"landfall.trace\",\"version\":1,\"description\":\"é\"}\n",
    "{\"node\":{\"id\":\"n-1\",\"cpu_milli\":4000,\"ram_mib\":\"8GiB\",\"gpus\":[{\"count\":2,\"model\":\"A100\",\"vram_mib\":81920}]}}\n",
    "{\"job\":{\"id\":\"a\",\"nodes\":{\"min\":1,\"max\":2},\"walltime_ms\":\"2h\",\"tenant\":\"t\"},\"at_ms\":5,\"run_ms\":7}\n",
    "{\"job\":{\"id\":\"b\",\"gpu_count\":1,\"gpu_milli\":250},\"at_ms\":9,\"after\":[{\"on\":\"a\",\"kind\":\"any\"}],\"join\":\"any\"}\n",
    "{\"change\":{\"node\":\"n-1\",\"to\":\"drain\"},\"at_ms\":20}\n",
);
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
    p0,12000,16384,1,460,V100M16|V100M32,LS,Running,5,9,6\np1,1000,2048,0,0,,BE,Pending,7,8,\n";
const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,131072,0,\n";
const ARRIVALS: &str = "pods 42 3 1 2 0\nnodes 42 1 0\n";
const CURVES: &str = "workload,sc_policy,tune,seed,0,1\nw,06-FGD,1.3,42,0.25,1.5\n";
const MURI: &str = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n\
    0,16,0,5853661,dqn,128,2868294000,46122000,490,446,8,0.5,1\n";

/// Changes a few bytes: other ones, more, fewer, or the rest cut off.
fn damaged(text: &[u8], random: &mut Random) -> Vec<u8> {
    const LIKELY: &[u8] = b"0123456789-+.eE,;{}[]\":\\ \t\n\r\0\xff|";
    let mut bytes = text.to_vec();
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let byte = match random.chance(0.7) {
            true => LIKELY[random.below(LIKELY.len() as u64) as usize],
            false => random.below(256) as u8,
        };
        match random.below(10) {
            0..=3 if at < bytes.len() => bytes[at] = byte,
            4..=6 => bytes.insert(at, byte),
            7..=8 if at < bytes.len() => drop(bytes.remove(at)),
            _ if random.chance(0.2) => bytes.truncate(at),
            _ => bytes.insert(at, b'9'),
        }
    }
    bytes
}

/// Reads with everything that could read it, and goes on with what was read.
fn read_all(bytes: &[u8]) -> Result<(), TraceError> {
    let header = Header::default();
    let shape = Shape::default();
    let _ = recognise(&mut &*bytes);
    let _ = openb::read_arrivals(bytes);
    let _ = openb::read_expected(bytes);
    if let Ok((log, _)) = Log::read_with(bytes, BadLines::Drop) {
        let _ = Kept::of(&log, u64::MAX);
        from_swf(&log, log.processors().unwrap_or(8).min(1000), shape, &header, &mut Vec::new())?;
    }
    if let Ok(trace) = Trace::read(bytes) {
        let _ = to_swf(&trace, shape);
    }
    if let Ok(pods) = openb::read_pods(bytes) {
        from_openb(&[], &pods, &header, &mut Vec::new())?;
    }
    if let Ok(nodes) = openb::read_nodes(bytes) {
        from_openb(&nodes, &[], &header, &mut Vec::new())?;
    }
    if let Ok(jobs) = muri::read(bytes) {
        from_muri(&jobs, shape, &header, &mut Vec::new())?;
    }
    Log::read(bytes).map(|_| ())
}

#[test]
fn two_thousand_damages_of_each_kind() {
    let mut random = Random::new(20_240_601);
    let mut refused = 0;
    for sample in [SWF, OWN, PODS, NODES, ARRIVALS, CURVES, MURI] {
        for _ in 0..2000 {
            refused += usize::from(read_all(&damaged(sample.as_bytes(), &mut random)).is_err());
        }
    }
    assert!(refused > 7000, "most damage is noticed: {refused}");
}

#[test]
fn damaged_compression_is_an_error_or_other_text() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(SWF.repeat(20).as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let mut random = Random::new(5);
    let mut refused = 0;
    for _ in 0..2000 {
        let mut source = Source::new(Cursor::new(damaged(&packed, &mut random))).unwrap();
        let mut text = Vec::new();
        let outcome = source.read_to_end(&mut text).map(|_| ()).and_then(|()| source.finish().map(|_| ()));
        refused += usize::from(outcome.is_err());
        let _ = Log::read(text.as_slice());
    }
    assert!(refused > 1500, "most damage is noticed: {refused}");
}
