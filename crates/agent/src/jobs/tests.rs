//! The rules of the protocol, without processes.

use super::*;
use crate::keeper::wire::Running;
use crate::runtime::tests::{site, start};

fn fence(attempt: u32, epoch: u32) -> Fence {
    Fence { job: JobId::new("job-1").expect("id"), attempt, epoch }
}

fn start_command(attempt: u32, epoch: u32) -> Command {
    let mut start = start("process", &["true"]);
    start.fence = fence(attempt, epoch);
    Command::Start(Box::new(start))
}

fn up() -> Jobs {
    let mut jobs = Jobs::new(site(), 2);
    let hello = Hello {
        pid: 1,
        limits: String::new(),
        enforced: None,
        running: Vec::new(),
        ended: Vec::new(),
        remembers: true,
    };
    assert!(jobs.on_hello(hello, Instant::now()).is_empty());
    jobs
}

pub(super) fn ended(attempt: u32, code: i32, cause: Option<Cause>) -> Ended {
    Ended {
        fence: fence(attempt, 1),
        code,
        cause,
        wall_ms: 10,
        cpu_ms: Some(5),
        peak_ram_bytes: Some((1 << 20) + 1),
        disk_bytes: 7,
        oom: false,
        written: (0, 0),
        kept: None,
        note: Note { retry_on: vec![75], ..Note::default() },
    }
}

fn reports(actions: &[Action]) -> Vec<(u32, Report)> {
    let of = |action: &Action| match action {
        Action::Report(item) | Action::End { report: item, .. } | Action::Refuse { report: item, .. } => {
            Some((item.fence.attempt, item.report.clone()))
        }
        _ => None,
    };
    actions.iter().filter_map(of).collect()
}

fn spawns(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Keeper(Request::Spawn(_)))).count()
}

fn now() -> Instant {
    Instant::now()
}

#[test]
fn a_start_that_was_long_on_its_way_is_ignored_where_two_copies_must_never_run() {
    let asked = now();
    let told = |stops: bool, sent_at_ms: Option<i64>| {
        let mut start = start("process", &["true"]);
        start.fence = fence(1, 1);
        start.stop_after_silence_ms = stops.then_some(5000);
        start.sent_at_ms = sent_at_ms;
        Command::Start(Box::new(start))
    };
    let cases = [
        (true, Some(100_000), 1, "sent since"),
        (true, Some(97_000), 1, "sent three seconds before"),
        (true, Some(95_900), 0, "sent more than four seconds before"),
        (false, Some(95_900), 1, "a job of which two copies may run"),
        (true, None, 1, "a server that does not say when"),
    ];
    for (stops, sent, begun, what) in cases {
        let mut jobs = up();
        jobs.server_clock.set(asked, Some(100_000));
        let late = jobs.on_command(told(stops, sent), asked);
        assert_eq!((spawns(&late), reports(&late)), (begun, Vec::new()), "{what}");
        if begun == 0 {
            assert!(jobs.running().is_empty(), "nobody is told that it is here");
            assert_eq!(
                spawns(&jobs.on_command(told(stops, Some(100_000)), asked)),
                1,
                "when it is said again"
            );
        }
    }
}

#[test]
fn a_start_is_followed_once() {
    let mut jobs = up();
    assert_eq!(spawns(&jobs.on_command(start_command(1, 1), now())), 1);
    assert!(jobs.on_command(start_command(1, 1), now()).is_empty(), "it is being started");
    assert_eq!(reports(&jobs.on_event(Event::Spawned(fence(1, 1)))), vec![(1, Report::Started)]);
    let again = jobs.on_command(start_command(1, 2), now());
    assert_eq!((spawns(&again), reports(&again)), (0, vec![(1, Report::Started)]));
    assert_eq!(jobs.running(), vec![fence(1, 2)], "the newest epoch counts");
    let end = jobs.on_event(Event::Ended(Box::new(ended(1, 3, None))));
    let first = reports(&end);
    assert!(matches!(first[0].1, Report::Exited { code: 3, .. }));
    assert!(jobs.on_command(start_command(1, 2), now()).is_empty(), "its end is on its way");
    assert_eq!(jobs.running(), vec![fence(1, 2)], "named until the server has stored it");
    assert!(jobs.on_stored(&[report(&fence(1, 2), Report::Started)]).is_empty(), "that is not its end");
    let end = ReportItem::new(fence(1, 2), first[0].1.clone());
    let stored = jobs.on_stored(&[end]);
    assert_eq!(stored, vec![Action::Keeper(Request::Forget { fences: vec![fence(1, 2)] })]);
    assert!(jobs.running().is_empty());
    assert_eq!(reports(&jobs.on_command(start_command(1, 2), now())), first, "its end is told again");
    assert!(jobs.on_command(start_command(1, 2), now()).is_empty(), "once");
    assert_eq!(reports(&jobs.on_command(start_command(1, 3), now())), first, "and once to the next server");
}

#[test]
fn older_attempts_are_ignored_and_newer_ones_wait_for_them() {
    let mut jobs = up();
    jobs.on_command(start_command(2, 1), now());
    jobs.on_event(Event::Spawned(fence(2, 1)));
    assert!(jobs.on_command(start_command(1, 9), now()).is_empty());
    let stop_old = Command::Stop { fence: fence(1, 1), grace_ms: 0 };
    assert!(jobs.on_command(stop_old, now()).is_empty());
    let newer = jobs.on_command(start_command(3, 1), now());
    assert_eq!(newer[0], stop(&fence(2, 1), 0, Cause::Stopped));
    assert_eq!(reports(&newer), vec![(3, Report::Refused(StartRefusal::Busy))]);
    jobs.on_event(Event::Ended(Box::new(ended(2, 137, Some(Cause::Stopped)))));
    assert_eq!(spawns(&jobs.on_command(start_command(3, 1), now())), 1, "now there is room");
    assert!(jobs.on_command(start_command(2, 1), now()).is_empty(), "its time is over");
}

#[test]
fn an_older_server_has_no_say() {
    let mut jobs = up();
    jobs.on_command(start_command(1, 5), now());
    jobs.on_event(Event::Spawned(fence(1, 5)));
    let from = |epoch| Command::Stop { fence: fence(1, epoch), grace_ms: 100 };
    assert!(jobs.on_command(from(4), now()).is_empty());
    assert_eq!(jobs.on_command(from(6), now()), vec![stop(&fence(1, 6), 100, Cause::Stopped)]);
}

#[test]
fn a_stop_of_what_is_not_here_is_answered_and_remembered() {
    let mut jobs = up();
    let stop = Command::Stop { fence: fence(1, 1), grace_ms: 0 };
    assert_eq!(reports(&jobs.on_command(stop, now())), vec![(1, Report::Stopped)]);
    assert!(jobs.on_command(start_command(1, 1), now()).is_empty(), "a start that comes late");
    assert_eq!(spawns(&jobs.on_command(start_command(2, 1), now())), 1);
}

#[test]
fn ends_are_told_by_their_cause() {
    let usage = RunUsage {
        peak_ram: Some(Mib::new(2)),
        cpu_time: Some(Millis::new(5)),
        wall: Some(Millis::new(10)),
        disk: Bytes::new(7),
        oom: false,
        speed_ratio: None,
    };
    let exited = |code, failure| Report::Exited { code, failure, usage: Box::new(usage) };
    for (code, cause, told) in [
        (0, None, exited(0, None)),
        (1, None, exited(1, None)),
        (75, None, exited(75, Some(Failure::Transient))),
        (143, Some(Cause::Timeout), exited(143, Some(Failure::Timeout))),
        (137, Some(Cause::Walltime), exited(137, Some(Failure::Timeout))),
        (75, Some(Cause::Timeout), exited(75, Some(Failure::Timeout))),
        (143, Some(Cause::Stopped), Report::Stopped),
        (0, Some(Cause::Checkpointed), Report::Checkpointed),
    ] {
        assert_eq!(verdict(&ended(1, code, cause)), told, "{code} {cause:?}");
    }
}

#[test]
fn work_is_refused_for_a_reason() {
    let refused = |jobs: &mut Jobs| match reports(&jobs.on_command(start_command(9, 1), now()))[..] {
        [(9, Report::Refused(kind))] => Some(kind),
        _ => None,
    };
    let mut jobs = up();
    jobs.draining = true;
    assert_eq!(refused(&mut jobs), Some(StartRefusal::Draining));
    let mut jobs = up();
    jobs.on_keeper_gone();
    assert_eq!(refused(&mut jobs), Some(StartRefusal::Busy));
    let mut jobs = Jobs::new(site(), 0);
    jobs.keeper_up = true;
    jobs.pull = true;
    assert_eq!(refused(&mut jobs), Some(StartRefusal::AtCapacity));
}

#[test]
fn checkpoints() {
    let begin = |leave| {
        let mut jobs = up();
        jobs.on_command(start_command(1, 1), now());
        jobs.on_event(Event::Spawned(fence(1, 1)));
        let command = Command::Checkpoint { fence: fence(1, 1), within_ms: 1000, leave };
        let actions = jobs.on_command(command, now());
        let signal = Request::Signal { fence: fence(1, 1), signal: "USR1".to_owned() };
        assert_eq!(actions[1], Action::Keeper(signal));
        assert_eq!(jobs.saving().len(), 1);
        jobs
    };
    let job = fence(1, 1).job;
    // Saved in time, and goes on.
    let mut jobs = begin(false);
    assert_eq!(reports(&jobs.on_saved(&job)), vec![(1, Report::Checkpointed)]);
    assert!(jobs.saving().is_empty());
    // Saved in time, and leaves before anything is told.
    let mut jobs = begin(true);
    let leaves = stop(&fence(1, 1), LEAVE_GRACE_MS, Cause::Checkpointed);
    assert_eq!(jobs.on_saved(&job), vec![Action::MarkSaved(job.clone()), leaves]);
    // Too late.
    let mut jobs = begin(true);
    let late = now() + Duration::from_secs(2);
    assert_eq!(reports(&jobs.on_time(late, Duration::ZERO)), vec![(1, Report::CheckpointFailed)]);
    assert!(jobs.on_saved(&job).is_empty());
    // Ended by itself meanwhile.
    let mut jobs = begin(true);
    let end = reports(&jobs.on_event(Event::Ended(Box::new(ended(1, 0, None)))));
    assert!(matches!(end[0].1, Report::Exited { code: 0, .. }));
    // Not here at all.
    let command = Command::Checkpoint { fence: fence(7, 1), within_ms: 1, leave: false };
    assert_eq!(reports(&up().on_command(command, now())), vec![(7, Report::CheckpointFailed)]);
}

#[test]
fn a_new_keeper_tells_what_is_left() {
    let mut jobs = up();
    jobs.on_command(start_command(1, 1), now());
    jobs.on_event(Event::Spawned(fence(1, 1)));
    jobs.on_keeper_gone();
    assert_eq!(jobs.running(), vec![fence(1, 1)], "perhaps it still runs");
    let hello = |running, ended| Hello {
        pid: 2,
        limits: String::new(),
        enforced: None,
        running,
        ended,
        remembers: true,
    };
    let still = Running { fence: fence(1, 1), for_ms: 5, note: Note::default(), ahead: false };
    assert_eq!(reports(&jobs.on_hello(hello(vec![still], Vec::new()), now())), vec![(1, Report::Started)]);
    jobs.on_keeper_gone();
    let actions = jobs.on_hello(hello(Vec::new(), Vec::new()), now());
    assert_eq!(reports(&actions), vec![(1, Report::Stopped)], "lost");
    assert!(jobs.running().is_empty() && jobs.on_command(start_command(1, 1), now()).is_empty());
    // What no keeper got to is asked for again.
    jobs.on_command(start_command(2, 1), now());
    jobs.on_keeper_gone();
    let actions = jobs.on_hello(hello(Vec::new(), Vec::new()), now());
    assert_eq!(reports(&actions), vec![(2, Report::Refused(StartRefusal::Busy))]);
    assert_eq!(spawns(&jobs.on_command(start_command(2, 1), now())), 1);
    jobs.on_keeper_gone();
    let actions = jobs.on_hello(hello(Vec::new(), vec![ended(2, 4, None)]), now());
    assert!(matches!(reports(&actions)[..], [(2, Report::Exited { code: 4, .. })]));
}

#[test]
fn walltime_is_minded_only_while_the_server_is_away() {
    let mut jobs = up();
    let mut job = start("process", &["true"]);
    job.walltime_ms = Some(1000);
    jobs.on_command(Command::Start(Box::new(job)), now());
    jobs.on_event(Event::Spawned(fence(1, 1)));
    let late = now() + Duration::from_secs(62);
    assert!(jobs.on_time(late, Duration::ZERO).is_empty());
    assert!(jobs.on_time(now() + Duration::from_secs(30), Duration::from_secs(90)).is_empty());
    assert_eq!(
        jobs.on_time(late, Duration::from_secs(90)),
        vec![stop(&fence(1, 1), LEAVE_GRACE_MS, Cause::Walltime)]
    );
}

#[test]
fn a_start_that_is_told_again_says_how_long_a_job_may_run_now() {
    let mut jobs = up();
    let told = |jobs: &mut Jobs, walltime_ms| {
        let job = landfall_api::agent::Start { walltime_ms, ..start("process", &["true"]) };
        jobs.on_command(Command::Start(Box::new(job)), now())
    };
    told(&mut jobs, Some(1000));
    jobs.on_event(Event::Spawned(fence(1, 1)));
    let away = Duration::from_secs(90);
    let late = now() + Duration::from_secs(62);
    let longer = told(&mut jobs, Some(60_000));
    let request = Request::Walltime { fence: fence(1, 1), walltime_ms: Some(60_000) };
    assert_eq!(longer[0], Action::Keeper(request));
    assert_eq!((reports(&longer), spawns(&longer)), (vec![(1, Report::Started)], 0));
    assert!(jobs.on_time(late, away).is_empty(), "the old one no longer counts");
    assert_eq!(told(&mut jobs, Some(60_000)).len(), 1, "nothing is new");
    told(&mut jobs, Some(500));
    assert_eq!(jobs.on_time(late, away), vec![stop(&fence(1, 1), LEAVE_GRACE_MS, Cause::Walltime)]);
}

#[test]
fn slots_are_asked_for_once() {
    let mut jobs = up();
    assert_eq!(jobs.take_ask(), 0, "not a pull pool");
    jobs.pull = true;
    assert_eq!(jobs.take_ask(), 2);
    assert_eq!(jobs.take_ask(), 0, "the question is on its way");
    // A start may overtake the answer to the question.
    assert_eq!(spawns(&jobs.on_command(start_command(1, 1), now())), 1);
    jobs.on_granted(2, 1);
    assert_eq!(jobs.take_ask(), 1);
    jobs.on_granted(1, 1);
    assert_eq!(jobs.take_ask(), 0, "one runs, one is on its way");
    jobs.forget_expected();
    assert_eq!(jobs.take_ask(), 0, "they may still be on their way");
    jobs.forget_expected();
    assert_eq!(jobs.take_ask(), 1, "it never came");
}

#[test]
fn p40_missing_inputs() {
    let job = |inputs: &[(&str, Option<u64>)]| Offered {
        job: "j".into(),
        inputs: inputs.iter().map(|(digest, size)| ((*digest).to_owned(), *size)).collect(),
    };
    let here = |digest: &str| digest == "a";
    let entry = fetch_entry(&job(&[("a", Some(50)), ("b", Some(200)), ("c", None)]), here);
    assert_eq!((entry.missing_inputs, entry.missing_bytes), (Some(2), Some(200)));
    let entry = fetch_entry(&job(&[]), here);
    assert_eq!((entry.missing_inputs, entry.missing_bytes), (Some(0), Some(0)));
}

#[test]
fn self_tests_never_meet_the_server() {
    let mut jobs = up();
    let actions = jobs.on_command(Command::Probe, now());
    let [Action::Keeper(Request::Spawn(spawn))] = &actions[..] else { panic!("{actions:?}") };
    assert!(jobs.running().is_empty());
    let end = |code| Event::Ended(Box::new(Ended { fence: spawn.fence.clone(), ..ended(1, code, None) }));
    assert!(jobs.on_event(Event::Spawned(spawn.fence.clone())).is_empty());
    assert_eq!(jobs.on_event(end(0)).last(), Some(&Action::Probed(true)));
    assert!(!jobs.on_event(end(0)).contains(&Action::Probed(true)), "once");
}

#[test]
fn what_left_with_its_work_saved_is_stopped_for_whoever_asks_later() {
    let mut jobs = up();
    jobs.on_command(start_command(1, 1), now());
    jobs.on_event(Event::Spawned(fence(1, 1)));
    let end = jobs.on_event(Event::Ended(Box::new(ended(1, 0, Some(Cause::Checkpointed)))));
    assert_eq!(reports(&end), vec![(1, Report::Checkpointed)]);
    let stop = || Command::Stop { fence: fence(1, 1), grace_ms: 0 };
    assert!(jobs.on_command(stop(), now()).is_empty(), "the report is on its way");
    jobs.on_stored(&[report(&fence(1, 1), Report::Checkpointed)]);
    assert_eq!(reports(&jobs.on_command(stop(), now())), vec![(1, Report::Stopped)], "not `checkpointed`");
    assert!(jobs.on_command(stop(), now()).is_empty(), "once");
}

#[test]
fn an_end_that_is_stored_after_the_next_attempt_ended_is_no_longer_named() {
    let mut jobs = up();
    for attempt in [1, 2] {
        jobs.on_command(start_command(attempt, 1), now());
        jobs.on_event(Event::Spawned(fence(attempt, 1)));
        jobs.on_event(Event::Ended(Box::new(ended(attempt, 0, Some(Cause::Stopped)))));
    }
    assert_eq!(jobs.running().len(), 2);
    jobs.on_stored(&[report(&fence(1, 1), Report::Stopped)]);
    jobs.on_stored(&[report(&fence(2, 1), Report::Stopped)]);
    assert!(jobs.running().is_empty());
}

#[test]
fn a_job_whose_checkpoint_is_not_here_starts_afresh_and_says_so() {
    let dir = tempfile::tempdir().expect("dir");
    let resume = |jobs: &mut Jobs| {
        let mut job = start("process", &["true"]);
        job.resume = true;
        let actions = jobs.on_command(Command::Start(Box::new(job)), now());
        let told = |action: &Action| match action {
            Action::Keeper(Request::Spawn(spawn)) => {
                Some(spawn.program.env.iter().any(|(name, _)| name == "LANDFALL_RESUME"))
            }
            _ => None,
        };
        (actions.iter().find_map(told), reports(&jobs.on_event(Event::Spawned(fence(1, 1)))))
    };
    let here = || {
        let mut jobs = up();
        jobs.site.layout = crate::layout::Layout::new(dir.path());
        jobs
    };
    let mut jobs = here();
    assert_eq!(resume(&mut jobs), (Some(false), vec![(1, Report::StartedAfresh)]));
    let again = reports(&jobs.on_command(start_command(1, 1), now()));
    assert_eq!(again, vec![(1, Report::StartedAfresh)]);
    let mut jobs = here();
    let mark = jobs.site.layout.saved_mark("job-1");
    std::fs::create_dir_all(mark.parent().expect("a directory")).expect("made");
    std::fs::write(mark, "").expect("written");
    assert_eq!(resume(&mut jobs), (Some(true), vec![(1, Report::Started)]));
}

#[test]
fn a_keeper_that_cannot_tell_what_began_says_so_once() {
    let mut jobs = Jobs::new(site(), 2);
    let hello = |pid, remembers| Hello {
        pid,
        limits: String::new(),
        enforced: None,
        running: Vec::new(),
        ended: Vec::new(),
        remembers,
    };
    assert!(jobs.on_hello(hello(7, false), now()).is_empty());
    let said = jobs.forgot;
    assert_eq!(said, Some(7));
    assert_eq!(jobs.on_registered(said), vec![Action::NoteForgotten(7)]);
    assert_eq!(jobs.forgot, None, "starts that come from now on are known, so none may be taken for lost");
    jobs.on_hello(hello(8, false), now());
    assert!(jobs.on_registered(said).is_empty(), "that was about another keeper");
    assert_eq!(jobs.forgot, Some(8));
    jobs.on_hello(hello(9, true), now());
    assert_eq!(jobs.forgot, None);
}

fn ahead_command(attempt: u32) -> Command {
    let mut start = start("process", &["true"]);
    (start.fence, start.ahead) = (fence(attempt, 1), true);
    start.array = Some(("job".to_owned(), 1));
    Command::Start(Box::new(start))
}

#[test]
fn what_is_told_ahead_begins_when_the_keeper_says_so_or_the_server_does() {
    let mut jobs = up();
    let told = jobs.on_command(ahead_command(1), now());
    let Action::Keeper(Request::Spawn(spawn)) = &told[0] else { panic!("{told:?}") };
    assert_eq!((spawn.ahead, spawn.array.as_deref()), (true, Some("job")));
    assert_eq!(jobs.running(), vec![fence(1, 1)], "it is named, so nobody takes it for lost");
    assert!(jobs.on_command(ahead_command(1), now()).is_empty(), "told twice");
    let begin = jobs.on_command(start_command(1, 1), now());
    assert_eq!(begin, vec![Action::Keeper(Request::Begin { fence: fence(1, 1) })]);
    assert_eq!(reports(&jobs.on_event(Event::Spawned(fence(1, 1)))), vec![(1, Report::Started)]);
}

#[test]
fn what_is_told_ahead_is_given_back_unless_it_has_begun() {
    let give_back = || Command::GiveBack { fence: fence(1, 1) };
    let returned = vec![(1, Report::Refused(StartRefusal::Returned))];
    let mut jobs = up();
    jobs.on_command(ahead_command(1), now());
    let asked = jobs.on_command(give_back(), now());
    assert_eq!(asked, vec![Action::Keeper(Request::GiveBack { fence: fence(1, 1) })]);
    assert_eq!(reports(&jobs.on_event(Event::Returned(fence(1, 1)))), returned);
    assert!(jobs.running().is_empty());
    assert_eq!(spawns(&jobs.on_command(ahead_command(1), now())), 0, "a late word begins nothing");

    let mut jobs = up();
    jobs.on_command(ahead_command(1), now());
    jobs.on_event(Event::Spawned(fence(1, 1)));
    assert!(jobs.on_command(give_back(), now()).is_empty(), "it has begun");

    let mut jobs = up();
    assert_eq!(reports(&jobs.on_command(give_back(), now())), returned, "it never came");
    assert_eq!(spawns(&jobs.on_command(ahead_command(1), now())), 0, "and does not begin when it comes");
}

#[test]
fn an_agent_that_was_started_anew_knows_what_has_yet_to_begin() {
    let mut jobs = Jobs::new(site(), 2);
    let ahead = Running { fence: fence(1, 1), for_ms: 0, note: Note::default(), ahead: true };
    let hello = Hello {
        pid: 1,
        limits: String::new(),
        enforced: None,
        running: vec![ahead],
        ended: Vec::new(),
        remembers: true,
    };
    assert!(jobs.on_hello(hello, now()).is_empty(), "nothing is said to run");
    assert_eq!(jobs.running(), vec![fence(1, 1)]);
    let begin = jobs.on_command(start_command(1, 2), now());
    assert_eq!(begin, vec![Action::Keeper(Request::Begin { fence: fence(1, 2) })]);
}
