//! Cases of the specification and properties of dependencies.

use landfall_engine::dag::*;
use landfall_model::{JobId, Name, TenantId};

use TerminalState::{Cancelled, Completed, Failed, Unneeded};

fn id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

fn edge(text: &str) -> Edge {
    let (kind, on) = text.split_once(' ').unwrap();
    let kind = match kind {
        "success" => EdgeKind::Success,
        "failure" => EdgeKind::Failure,
        "any" => EdgeKind::Any,
        "corresponding" => EdgeKind::Corresponding,
        "mutex" => EdgeKind::Mutex,
        other => panic!("{other}"),
    };
    Edge { on: id(on), kind }
}

fn job(name: &str, edges: &[&str]) -> NewJob {
    let edges = edges.iter().map(|text| edge(text)).collect();
    NewJob { id: id(name), element: None, join: Join::All, edges, mutex: Vec::new() }
}

fn any(name: &str, edges: &[&str]) -> NewJob {
    NewJob { join: Join::Any, ..job(name, edges) }
}

fn array(name: &str, count: u32, edges: &[&str]) -> Vec<NewJob> {
    let element = |index| Some(Element { array: id(name), index });
    (0..count)
        .map(|index| NewJob { element: element(index), ..job(&format!("{name}{index}"), edges) })
        .collect()
}

fn submission(jobs: Vec<NewJob>) -> Submission {
    Submission { tenant: None, jobs }
}

fn nobody(_: &JobId) -> Option<Known> {
    None
}

/// Submits and shows each verdict as `name:entry`.
fn submit(graph: &mut Graph, jobs: Vec<NewJob>) -> Vec<String> {
    show(graph.submit(&submission(jobs), nobody).unwrap())
}

fn show(verdicts: Vec<Verdict>) -> Vec<String> {
    let entry = |entry: Entry| match entry {
        Entry::Released => "released".to_owned(),
        Entry::Waiting => "waiting".to_owned(),
        Entry::Cancelled { edge, .. } => format!("cancelled by {}", edge.on),
    };
    verdicts.into_iter().map(|verdict| format!("{}:{}", verdict.job, entry(verdict.entry))).collect()
}

fn ended(graph: &mut Graph, job: &str, state: TerminalState) -> Vec<String> {
    let show = |change| match change {
        Change::Released(job) => format!("{job}:released"),
        Change::Cancelled { job, edge, as_state } => format!("{job}:{as_state:?} by {}", edge.on),
    };
    graph.ended(&id(job), state).into_iter().map(show).collect()
}

fn code(jobs: Vec<NewJob>) -> &'static str {
    let mut graph = Graph::default();
    let refused = graph.submit(&submission(jobs), nobody);
    assert!(graph == Graph::default() || refused.is_ok(), "nothing is stored on failure");
    refused.map_or_else(|error| error.code(), |_| "accepted")
}

#[test]
fn b41_a_failure_cancels_the_chain_in_one_step() {
    let mut graph = Graph::default();
    let chain = vec![job("A", &[]), job("B", &["success A"]), job("C", &["success B"])];
    assert_eq!(submit(&mut graph, chain), ["A:released", "B:waiting", "C:waiting"]);
    assert_eq!(ended(&mut graph, "A", Failed), ["B:Cancelled by A", "C:Cancelled by B"]);
    assert_eq!(graph, Graph::default());
}

#[test]
fn b42_joins_over_failure_edges() {
    let mut graph = Graph::default();
    let dag =
        |join| vec![job("A", &[]), job("B", &[]), NewJob { join, ..job("H", &["failure A", "failure B"]) }];
    submit(&mut graph, dag(Join::Any));
    assert_eq!(ended(&mut graph, "A", Failed), ["H:released"], "B still runs");
    assert!(ended(&mut graph, "B", Completed).is_empty());
    assert_eq!(graph, Graph::default());

    submit(&mut graph, dag(Join::Any));
    let mut tally = DagTally::new(3);
    tally.started();
    assert!(ended(&mut graph, "A", Completed).is_empty());
    assert_eq!(ended(&mut graph, "B", Completed), ["H:Unneeded by B"]);
    [Completed, Completed, Unneeded].into_iter().for_each(|state| tally.ended(state));
    assert_eq!(tally.state(), DagState::Completed);

    submit(&mut graph, dag(Join::All));
    assert_eq!(ended(&mut graph, "A", Completed), ["H:Unneeded by A"], "at once");
}

#[test]
fn b43_arrays_sizes_and_cycles() {
    let mut graph = Graph::default();
    let mut jobs = array("a", 3, &[]);
    jobs.extend(array("b", 5, &["corresponding a"]));
    let verdicts = submit(&mut graph, jobs);
    assert_eq!(verdicts[3..], ["b0:waiting", "b1:waiting", "b2:waiting", "b3:released", "b4:released"]);
    assert_eq!(ended(&mut graph, "a1", Completed), ["b1:released"]);
    assert_eq!(ended(&mut graph, "a0", Failed), ["b0:Cancelled by a"]);
    assert_eq!(ended(&mut graph, "a2", Cancelled), ["b2:Cancelled by a"]);

    let many = |count: usize| (0..count).map(|i| job(&format!("j{i}"), &[])).collect();
    assert_eq!([0, 1000, 1001].map(|count| code(many(count))), ["job_count", "accepted", "job_count"]);

    let members = |jobs| match Graph::default().submit(&submission(jobs), nobody) {
        Err(DagError::Cycle { members }) => members.iter().map(JobId::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(members(vec![job("A", &["any B"]), job("B", &["success A"])]), ["A", "B"]);
    assert_eq!(members(vec![job("A", &["success A"])]), ["A"]);
    let tail = vec![job("d", &["any c"]), job("c", &["any b"]), job("b", &["any a"]), job("a", &["any c"])];
    assert_eq!(members(tail), ["a", "b", "c"], "d only hangs on to the cycle");
    let mut own = array("x", 2, &[]);
    own[0].edges = vec![edge("any x")];
    assert_eq!(members(own), ["x0"], "an element that waits for its own array");
}

#[test]
fn edges_by_the_table() {
    let judged = |kind: &str, state| {
        let mut graph = Graph::default();
        submit(&mut graph, vec![job("p", &[]), job("s", &[&format!("{kind} p")])]);
        ended(&mut graph, "p", state).pop().map_or("waits".into(), |text| text[2..].to_owned())
    };
    for (kind, want) in [
        ("success", ["released", "Cancelled by p", "Cancelled by p"]),
        ("failure", ["Unneeded by p", "released", "Unneeded by p"]),
        ("any", ["released", "released", "released"]),
        ("corresponding", ["released", "Cancelled by p", "Cancelled by p"]),
        ("mutex", ["waits", "waits", "waits"]),
    ] {
        assert_eq!([Completed, Failed, Cancelled].map(|state| judged(kind, state)), want, "{kind}");
    }
}

#[test]
fn join_all_waits_for_the_last_and_any_takes_the_first() {
    let mut graph = Graph::default();
    submit(&mut graph, vec![job("a", &[]), job("b", &[]), job("s", &["any a", "success b"])]);
    assert!(ended(&mut graph, "a", Failed).is_empty());
    assert_eq!(ended(&mut graph, "b", Completed), ["s:released"]);
    submit(&mut graph, vec![job("a", &[]), job("b", &[]), any("s", &["success a", "success b"])]);
    assert!(ended(&mut graph, "a", Failed).is_empty(), "b may still do");
    assert_eq!(ended(&mut graph, "b", Cancelled), ["s:Cancelled by b"]);
}

#[test]
fn predecessors_fall_before_their_successors() {
    let mut graph = Graph::default();
    // `b` also waits for `z` directly, and has the lower id: it must still come after.
    submit(&mut graph, vec![job("p", &[]), job("z", &["success p"]), job("b", &["success z", "success p"])]);
    assert_eq!(ended(&mut graph, "p", Failed), ["z:Cancelled by p", "b:Cancelled by z"]);
}

#[test]
fn a_handler_behind_a_handler_is_not_needed_either() {
    let mut graph = Graph::default();
    let chain =
        || vec![job("a", &[]), job("h", &["failure a"]), job("k", &["success h"]), job("l", &["any h"])];
    submit(&mut graph, chain());
    assert_eq!(ended(&mut graph, "a", Completed), ["h:Unneeded by a", "k:Unneeded by h", "l:released"]);
    submit(&mut graph, chain());
    assert_eq!(ended(&mut graph, "h", Cancelled), ["k:Cancelled by h", "l:released"], "by its user");
}

#[test]
fn an_array_ends_with_its_last_element() {
    let with = |kind: &str| {
        let mut graph = Graph::default();
        let mut jobs = array("a", 3, &[]);
        jobs.push(job("s", &[&format!("{kind} a")]));
        assert_eq!(submit(&mut graph, jobs)[3], "s:waiting");
        graph
    };
    let run = |kind: &str, ends: [TerminalState; 3]| {
        let mut graph = with(kind);
        let changes = [0, 1, 2].map(|i| ended(&mut graph, &format!("a{i}"), ends[i]).join(" "));
        assert_eq!(graph, Graph::default(), "{kind}");
        changes
    };
    assert_eq!(run("success", [Completed; 3]), ["", "", "s:released"]);
    assert_eq!(run("corresponding", [Completed; 3]), ["", "", "s:released"], "no index: the whole array");
    assert_eq!(run("success", [Completed, Failed, Completed]), ["", "s:Cancelled by a", ""], "at once");
    assert_eq!(run("failure", [Failed, Completed, Completed]), ["", "", "s:released"], "once all have ended");
    assert_eq!(run("failure", [Completed, Cancelled, Completed]), ["", "", "s:Unneeded by a"]);
    assert_eq!(run("any", [Failed, Cancelled, Completed]), ["", "", "s:released"]);
}

#[test]
fn what_ended_earlier_is_judged_at_submission() {
    let known = |job: &JobId| {
        let single = |ended| Some(Known::Job { tenant: None, ended });
        match job.as_str() {
            "done" | "e0" => single(Some(Completed)),
            "broken" | "e1" => single(Some(Failed)),
            "runs" => single(None),
            "e" => Some(Known::Array { tenant: None, elements: vec![id("e0"), id("e1")] }),
            "theirs" => Some(Known::Job { tenant: Some(TenantId::new("t").unwrap()), ended: None }),
            _ => None,
        }
    };
    let mut graph = Graph::default();
    let jobs = vec![
        job("r", &["success done", "any broken"]),
        job("w", &["success runs", "success done"]),
        job("c", &["success broken", "success w"]),
        job("d", &["any w", "success c"]),
        any("o", &["success broken", "failure broken"]),
        job("f", &["failure e"]),
        job("g", &["success e"]),
    ];
    let want = ["r:released", "w:waiting", "c:cancelled by broken", "d:cancelled by c", "o:released"];
    let verdicts = show(graph.submit(&submission(jobs), known).unwrap());
    assert_eq!(verdicts[..5], want);
    assert_eq!(verdicts[5..], ["f:released", "g:cancelled by e"]);
    assert_eq!(graph.len(), 1);
    let (join, open) = graph.open_edges(&id("w")).unwrap();
    assert_eq!((join, open.cloned().collect::<Vec<_>>()), (Join::All, vec![edge("success runs")]));

    let later = array("l", 3, &["corresponding e"]);
    let verdicts = show(graph.submit(&submission(later), known).unwrap());
    assert_eq!(verdicts, ["l0:released", "l1:cancelled by e", "l2:released"]);

    let refused = |edges: &[&str]| {
        let before = graph.clone();
        let mut graph = graph.clone();
        let error = graph.submit(&submission(vec![job("n", edges)]), known).unwrap_err();
        assert_eq!(graph, before);
        error.code()
    };
    assert_eq!(refused(&["success theirs"]), "forbidden_dependency");
    assert_eq!(refused(&["success done", "any nothing"]), "unknown_dependency");
    assert_eq!(ended(&mut graph, "runs", Completed), ["w:released"]);
    assert!(ended(&mut graph, "w", Completed).is_empty());
    assert_eq!(graph, Graph::default());
}

#[test]
fn a_cascade_crosses_submissions() {
    let mut graph = Graph::default();
    submit(&mut graph, vec![job("a", &[]), job("b", &["success a"])]);
    let known = |job: &JobId| (job.as_str() != "new").then_some(Known::Job { tenant: None, ended: None });
    graph.submit(&submission(vec![job("c", &["success b", "success a"])]), known).unwrap();
    assert_eq!(ended(&mut graph, "a", Failed), ["b:Cancelled by a", "c:Cancelled by b"]);
}

#[test]
fn mutex_edges_are_locks() {
    let mut graph = Graph::default();
    let mut jobs = vec![job("b", &["mutex a"]), job("a", &[]), job("c", &["mutex x"])];
    jobs.extend(array("x", 2, &[]));
    let verdicts = graph.submit(&submission(jobs), nobody).unwrap();
    let locks = |at: usize| verdicts[at].locks.iter().map(EdgeLock::to_string).collect::<Vec<_>>();
    assert_eq!(locks(0), ["edge:a:b"]);
    assert_eq!(locks(2), ["edge:c:x0", "edge:c:x1"]);
    assert_eq!(verdicts[0].entry, Entry::Released, "a lock is no order");
    assert!(graph.is_empty());
    assert_eq!(code(vec![job("a", &["mutex b"]), job("b", &["mutex a"])]), "duplicate_edge");
    assert_eq!(code(vec![job("a", &["mutex a"])]), "cycle");
}

#[test]
fn faults_are_named() {
    let many: Vec<String> = (0..101).map(|i| format!("any p{i}")).collect();
    let edges: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(code(vec![job("j", &edges)]), "edge_count");
    assert_eq!(code(vec![job("j", &edges[..100])]), "unknown_dependency");
    assert_eq!(code(vec![job("a", &[]), job("b", &["any a", "any a"])]), "duplicate_edge");
    assert_eq!(code(vec![job("a", &[]), job("b", &["any a", "success a"])]), "accepted");
    assert_eq!(code(vec![job("a", &[]), job("a", &[])]), "duplicate_job");
    let locks = |count: usize, bytes: usize| {
        let mutex =
            (0..count).map(|i| Name::new(&format!("{i}{}", "m".repeat(bytes - 1))).unwrap()).collect();
        code(vec![NewJob { mutex, ..job("a", &[]) }])
    };
    assert_eq!([locks(8, 64), locks(9, 2), locks(1, 65)], ["accepted", "mutex", "mutex"]);
    let mut gap = array("x", 2, &[]);
    gap[1].element.as_mut().unwrap().index = 2;
    assert_eq!(code(gap), "bad_array");
}

proptest::proptest! {
    /// Whatever ends in whichever order: every job is released or cancelled once, predecessors first, and nothing is
    /// left over.
    #[test]
    fn everybody_leaves_the_graph_once(
        rows in proptest::collection::vec((proptest::collection::vec((0usize..12, 0u8..3), 0..4), 0u8..2, 0u8..3), 1..12),
    ) {
        let name = |at: usize| format!("j{at:02}");
        let jobs: Vec<NewJob> = rows.iter().enumerate().map(|(at, (edges, join, _))| {
            let mut edges: Vec<String> = edges
                .iter()
                .filter(|(on, _)| *on < at)
                .map(|&(on, kind)| format!("{} {}", ["success", "failure", "any"][kind as usize], name(on)))
                .collect();
            edges.sort();
            edges.dedup();
            let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
            NewJob { join: if *join == 0 { Join::All } else { Join::Any }, ..job(&name(at), &edges) }
        }).collect();
        let mut graph = Graph::default();
        let verdicts = graph.submit(&submission(jobs.clone()), nobody).unwrap();
        let mut queue: Vec<JobId> =
            verdicts.iter().filter(|v| v.entry == Entry::Released).map(|v| v.job.clone()).collect();
        let mut left: Vec<JobId> = Vec::new();
        while let Some(next) = queue.pop() {
            let at: usize = next.as_str()[1..].parse().unwrap();
            let state = [Completed, Failed, Cancelled][rows[at].2 as usize];
            let mut fallen: Vec<JobId> = Vec::new();
            for change in graph.ended(&next, state) {
                match change {
                    Change::Released(job) => queue.push(job),
                    Change::Cancelled { job, .. } => {
                        let later = jobs.iter().find(|new| new.id == job).unwrap();
                        fallen.push(job);
                        proptest::prop_assert!(later.edges.iter().all(|e| graph.open_edges(&e.on).is_none()
                            || later.join == Join::All), "an `any` falls only when all its edges are judged");
                    }
                }
            }
            for (at, job) in fallen.iter().enumerate() {
                let new = jobs.iter().find(|new| new.id == *job).unwrap();
                proptest::prop_assert!(new.edges.iter().all(|edge| !fallen[at..].contains(&edge.on)));
            }
            left.extend(fallen);
            left.push(next);
        }
        left.sort();
        let all: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
        proptest::prop_assert_eq!(left, all);
        proptest::prop_assert_eq!(graph, Graph::default());
    }
}
