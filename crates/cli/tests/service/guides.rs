//! The guides: every command in them runs, in order, and says what the page shows.
//!
//! In a block marked `console`, a line that begins with `$ ` is a command for a shell; what follows is what it prints. `…`
//! stands for anything within a line, a line that is only `…` for any number of lines. A command that ends with ` &` goes on
//! in the background until the page ends, `export` lasts as long; `   # ends with N` behind one tells its exit code, where that is not 0.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// One command of a page and what it prints.
struct Step {
    line: usize,
    command: String,
    code: i32,
    prints: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (line, text) in page.lines().enumerate() {
        match text {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ if text.starts_with("$ ") => {
                let (command, code) = match text[2..].rsplit_once("   # ends with ") {
                    Some((command, code)) => (command.to_owned(), code.trim().parse().unwrap()),
                    None => (text[2..].to_owned(), 0),
                };
                steps.push(Step { line: line + 1, command, code, prints: Vec::new() });
            }
            // A command goes on in the lines that begin with `>`, as in a shell.
            _ if text.starts_with('>') && steps.last().is_some_and(|step| step.prints.is_empty()) => {
                let step = steps.last_mut().unwrap();
                step.command.push('\n');
                step.command.push_str(text.trim_start_matches('>').strip_prefix(' ').unwrap_or_default());
            }
            _ => steps.last_mut().unwrap().prints.push(text.to_owned()),
        }
    }
    steps
}

/// Whether a line is as a pattern with `…` says.
fn matches(pattern: &str, line: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, line) = (squeeze(pattern), squeeze(line));
    let mut rest = line.as_str();
    let parts: Vec<&str> = pattern.split('…').collect();
    for (place, part) in parts.iter().enumerate() {
        let (first, last) = (place == 0, place + 1 == parts.len());
        match rest.find(part) {
            Some(0) if first && last => return rest == *part,
            Some(at) if first && at > 0 => return false,
            Some(_) if last => return rest.ends_with(part),
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Whether all lines are as the page shows them.
fn all_match(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.iter().all(|line| line.trim().is_empty()),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=lines.len()).any(|skipped| all_match(rest, &lines[skipped..]))
        }
        Some((first, rest)) => {
            lines.first().is_some_and(|line| matches(first, line)) && all_match(rest, &lines[1..])
        }
    }
}

/// Everything that a page left running.
struct Left(Vec<Child>, TempDir);

impl Drop for Left {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // The whole group, because a shell does not hand a signal on.
            let _ = Command::new("kill").args(["-TERM", "--", &format!("-{}", child.id())]).status();
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(20) && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        super::stand::end_keepers(self.1.path());
    }
}

fn walk_through(name: &str) {
    use std::os::unix::process::CommandExt as _;
    let path = Path::new("../../docs/guides").join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_landfall")).parent().unwrap().to_owned();
    let search = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut left = Left(Vec::new(), TempDir::new().unwrap());
    let home = left.1.path().to_owned();
    let all = steps(&page);
    assert!(!all.is_empty(), "{name} has no commands");
    let mut exported: Vec<(String, String)> = Vec::new();
    for step in all {
        if let Some((name, value)) = step.command.strip_prefix("export ").and_then(|set| set.split_once('='))
        {
            exported.push((name.to_owned(), value.replace("$PWD", home.to_str().unwrap())));
            continue;
        }
        let (line, background) = match step.command.strip_suffix(" &") {
            Some(line) => (format!("exec {line}"), true),
            None => (step.command.clone(), false),
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", &line])
            .env_clear()
            .env("PATH", &search)
            .env("HOME", &home)
            .env("COLUMNS", "110")
            // Pages show the usual port; tests run beside each other.
            .env("LANDFALL_LISTEN", "127.0.0.1:0")
            .envs(exported.iter().cloned())
            .current_dir(&home)
            .stdin(Stdio::null());
        if name == "peers.md" {
            // Tests keep the machine busy, which peers would take for load of others.
            command.env("LANDFALL_PEER_MEASURED_LOAD", "false");
        }
        if background {
            let log = std::fs::File::create(home.join(format!("line-{}.log", step.line))).unwrap();
            command.stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
            left.0.push(command.spawn().unwrap());
            continue;
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        let place = format!("{name} line {}: {}", step.line, step.command);
        assert_eq!(output.status.code(), Some(step.code), "{place}\n{said}\n{complaint}");
        let said = if step.code == 0 { said } else { format!("{said}{complaint}") };
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            all_match(&step.prints, &lines),
            "{place}\n--- the page shows\n{}\n--- it says\n{said}",
            step.prints.join("\n")
        );
    }
}

#[test]
fn the_submitters_guide_is_true() {
    walk_through("submitters.md");
}

#[test]
fn the_guide_about_machines_is_true() {
    walk_through("machines.md");
}

#[test]
fn the_guide_about_decisions_is_true() {
    walk_through("decisions.md");
}

#[test]
fn what_people_from_elsewhere_read_is_true() {
    walk_through("slurm.md");
    walk_through("hyperqueue.md");
}

#[test]
fn the_guide_about_peers_is_true() {
    walk_through("peers.md");
}

#[test]
fn the_operators_guide_is_true() {
    walk_through("operators.md");
}

#[test]
fn an_operators_first_day_goes_as_it_is_told() {
    walk_through("first-day.md");
}

#[test]
fn an_engineers_evening_goes_as_it_is_told() {
    walk_through("engineers-evening.md");
}

#[test]
fn the_guide_of_the_board_is_true() {
    walk_through("board.md");
}

#[test]
fn patterns_stand_for_what_they_say() {
    assert!(matches("job … accepted", "job  12 accepted"));
    assert!(!matches("job … accepted", "the job 12 accepted"));
    assert!(matches("a … b …", "a x b y"));
    assert!(!matches("a", "a b"));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(all_match(&lines("a\n…\nd"), &["a", "b", "c", "d"]));
    assert!(!all_match(&lines("a\n…\nd"), &["a", "b"]));
}
