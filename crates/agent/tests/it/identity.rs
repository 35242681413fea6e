//! A server with another journal: ids mean other jobs, and nothing of before may be taken for them.

use landfall_api::agent::Command;
use landfall_model::life::Report;

use crate::basics::gone;
use crate::server::{Server, shell, up};

/// The server has this journal from now on, and the agent finds out.
async fn turn_to(server: &Server, journal: &str) {
    {
        let mut said = server.said();
        said.journal = journal.to_owned();
        said.deaf = false;
        said.reports.clear();
        said.logs.clear();
        said.lines = None;
    }
    server
        .until("the agent knows", |said| {
            (said.lines.is_some() && said.about.iter().any(|about| about == journal)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn another_journal_means_other_jobs() {
    let (server, agent) = up().await;
    turn_to(&server, "aaaaaaaaaaaaaaaa").await;
    let runs = shell("runs", "echo $$; exec sleep 600");
    let goes_on = shell("goes-on", "echo $$; exec sleep 600");
    let mut pids = Vec::new();
    for start in [&runs, &goes_on] {
        server.start_job(start).await;
        let at = (start.fence.job.as_str().to_owned(), 1, "stdout".to_owned());
        let pid = server.until("it is up", |said| said.logs.get(&at).cloned()).await;
        pids.push(String::from_utf8_lossy(&pid).trim().parse::<u32>().expect("a process id"));
    }
    let ended = shell("ended", "echo first");
    assert_eq!(server.run(&ended).await, 0);
    let checkpoint = agent.dir.path().join("checkpoints/runs/step");
    std::fs::create_dir_all(checkpoint.parent().expect("a directory")).expect("made");
    std::fs::write(&checkpoint, "old").expect("written");
    // This one ends, and the server does not hear of it.
    server.said().deaf = true;
    let unheard = shell("unheard", "exit 3");
    let requests = server.said().requests;
    server.start_job(&unheard).await;
    server.until("it tries in vain", |said| (said.requests > requests + 1).then_some(())).await;

    server.said().adopted = vec![goes_on.fence.clone()];
    turn_to(&server, "bbbbbbbbbbbbbbbb").await;
    assert!(gone(pids[0]) && !gone(pids[1]), "what is not adopted is over before anything else begins");
    assert!(!checkpoint.exists());
    for (name, script, code, said) in
        [("runs", "echo new; exit 5", 5, "new\n"), ("ended", "echo second", 0, "second\n")]
    {
        let again = shell(name, script);
        assert_eq!(server.run(&again).await, code, "{name} is another job now");
        assert_eq!(server.output(&again.fence, "stdout"), said);
    }
    server.send(Command::Stop { fence: goes_on.fence.clone(), grace_ms: 0 }).await;
    server.report(&goes_on.fence, |report| *report == Report::Stopped).await;
    let foreign = server.said().reports.iter().any(|item| item.fence.job == unheard.fence.job);
    assert!(!foreign, "an end of the journal before");
    agent.stop().await.1.expect("a good end");
}
