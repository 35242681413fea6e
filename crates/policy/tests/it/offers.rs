//! Acceptance cases of negotiated offers.

use crate::support::{near, of, rank, reasons};

/// The five peers of the specification.
fn five(prefix: &str) -> String {
    let peer = |id: &str, cores: u64, mib: u64, committed: (u64, u64), peer: &str| {
        format!(
            "[[nodes]]\nid='{prefix}{id}'\ncpu_milli='{cores} cores'\nram_mib={mib}\ncpu_committed_milli={}\nram_committed_mib={}\n[nodes.peer]\n{peer}\n",
            committed.0, committed.1
        )
    };
    peer("a", 8, 16_384, (0, 0), "trust=0.9")
        + &peer("b", 4, 8192, (0, 0), "trust=0.7")
        + &peer("c", 2, 4096, (0, 0), "trust=0.5")
        + &peer("d", 8, 16_384, (2500, 5120), "trust=0.8\nqueued=5")
        + &peer("e", 16, 32_768, (0, 0), "trust=0.2")
}

const JOB: &str = "[[jobs]]\nid='j'\ncpu_milli=2000\nram_mib=4096\nmax_cost=1000\n\
    digest='1111111111111111111111111111111111111111111111111111111111111111'\n";

#[test]
fn n1_five_peers() {
    let ranking = rank("offer-standard", &(five("") + JOB), "j");
    for (id, want) in [("a", 0.86), ("b", 0.78), ("c", 0.70), ("d", 0.62625)] {
        near(of(&ranking, id).total.unwrap(), want, id);
    }
    let order: Vec<_> = ranking.candidates.iter().map(|verdict| verdict.candidate.as_str()).collect();
    assert_eq!(order, ["a", "b", "c", "d", "e"]);
    assert_eq!(reasons(of(&ranking, "e")), ["trust"]);
}

fn one(policy: &str, node: &str, peer: &str, job: &str) -> f64 {
    let scenario = format!(
        "[[nodes]]\nid='n'\ncpu_milli=1000\nram_mib=1000\n{node}\n[nodes.peer]\n{peer}\n[[jobs]]\nid='j'\n{job}\n"
    );
    of(&rank(policy, &scenario, "j"), "n").total.unwrap()
}

#[test]
fn n2_to_n5_presets() {
    near(one("offer-standard", "", "trust=1.0", ""), 0.9, "N2 idle");
    near(one("offer-standard", "cpu_committed_milli=100", "trust=0.45\nqueued=12", ""), 0.45, "N2 busy");
    near(one("offer-locality", "", "trust=0.8", ""), 0.55, "N3 unknown");
    near(one("offer-locality", "", "trust=0.6\nrtt_ms=10", ""), 0.647, "N3 near");
    near(one("offer-scope", "", "trust=0.8", ""), 0.41, "N3 scope");
    near(one("offer-scope", "", "trust=0.6\nrtt_ms=10", ""), 0.468, "N3 scope near");
    let peer = "trust=0.5\nqueued=2\nrtt_ms=250\ndata=['x']";
    let half = "region='eu'\ncpu_committed_milli=500";
    let data = "hints={data=['x','y'],prefer_regions=['eu']}";
    near(one("offer-locality", half, peer, data), 0.545, "N4 region");
    let both = "hints={data=['x','y'],prefer_regions=['eu'],prefer_peers=['n']}";
    near(one("offer-locality", half, peer, both), 0.595, "N4 capped");
    let near_peer = "trust=0.6\nqueued=3\nrtt_ms=100\ndata=['x']\nscope='cell'\ncell='k'";
    let wishes = "cell='k'\nhints={data=['x','y','z','w'],prefer_regions=['eu']}";
    near(one("offer-scope", half, near_peer, wishes), 0.57, "N5");
}

#[test]
fn n10_over_budget() {
    let peer = "trust=1.0\nqueued=6";
    let scenario = |job: &str| {
        format!(
            "[[nodes]]\nid='n'\ncpu_milli=1000\nram_mib=1000\n[nodes.peer]\n{peer}\n[[jobs]]\nid='j'\n{job}\n"
        )
    };
    let against = |job: &str| reasons(of(&rank("offer-standard", &scenario(job), "j"), "n"));
    assert_eq!(against("max_cost=12"), ["over_budget"]);
    assert_eq!(against("max_cost=15"), [""; 0]);
    assert_eq!(against(""), [""; 0]);
}

#[test]
fn n13_jitter_may_turn_the_order() {
    for (seed, winner, scores) in [(0, "peer-a", [0.910288, 0.797854]), (1, "peer-b", [0.862591, 0.865467])] {
        let scenario =
            format!("{}{JOB}[policy.params]\njitter_weight=0.10\njitter_seed={seed}\n", five("peer-"));
        let ranking = rank("offer-standard", &scenario, "j");
        assert_eq!(ranking.winner.as_ref().unwrap().as_str(), winner, "seed {seed}");
        near(of(&ranking, "peer-a").total.unwrap(), scores[0], "a");
        near(of(&ranking, "peer-b").total.unwrap(), scores[1], "b");
        let jitter = of(&ranking, "peer-a").term("offer-jitter").unwrap();
        near(of(&ranking, "peer-a").total.unwrap() - jitter.contribution, 0.86, "base and jitter are apart");
    }
}

#[test]
fn n14_ties() {
    let two = |a: &str, b: &str| {
        let scenario = format!(
            "[[nodes]]\nid='a'\ncpu_milli=1000\nram_mib=1000\n[nodes.peer]\n{a}\n[[nodes]]\nid='b'\ncpu_milli=1000\nram_mib=1000\n[nodes.peer]\n{b}\n[[jobs]]\nid='j'\n"
        );
        rank("offer-standard", &scenario, "j").winner.unwrap().to_string()
    };
    assert_eq!(two("trust=0.8\ncost=15", "trust=0.8\ncost=10"), "b");
    assert_eq!(two("trust=0.8\nstart_delay_ms=20000", "trust=0.8\nstart_delay_ms=10000"), "b");
    assert_eq!(two("trust=0.8", "trust=0.8"), "a");
    assert_eq!(
        two("trust=0.8", "trust=0.8000000009"),
        "a",
        "closer than half a billionth of the total is equal"
    );
}

#[test]
fn n22_n26_n29_gates() {
    let against = |peer: &str, job: &str| {
        let scenario = format!(
            "[[nodes]]\nid='n'\ncpu_milli=1000\nram_mib=1000\n[nodes.peer]\n{peer}\n[[jobs]]\nid='j'\n{job}\n"
        );
        reasons(of(&rank("offer-standard", &scenario, "j"), "n"))
    };
    assert_eq!(against("trust=1.0\nprobe_age_ms=90000", ""), [""; 0]);
    assert_eq!(against("trust=1.0\nprobe_age_ms=90001", ""), ["stale_capacity"]);
    assert_eq!(against("trust=0.3", ""), [""; 0]);
    assert_eq!(against("trust=0.29", ""), ["trust"]);
    assert_eq!(against("trust=1.0", "hints={avoid_peers=['n'],prefer_peers=['n']}"), ["avoided"]);
    assert_eq!(against("trust=1.0\nscope='federation'", "max_scope='org'"), ["scope"]);
    assert_eq!(against("trust=1.0", "cpu_milli=1001"), ["does_not_fit"]);
}
