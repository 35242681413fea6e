//! The page as a whole: well formed, complete in itself, harmless, the same every time.

use landfall_model::JobId;

use super::*;
use crate::measures::samples::{b28, busy, machine, packing};
use crate::run::{Ending, Run};

/// Elements without an end.
const VOID: [&str; 1] = ["meta"];

/// Checks that every element ends where it should and every attribute is quoted.
fn check_well_formed(page: &str) {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    let mut open: Vec<&str> = Vec::new();
    while let Some(start) = rest.find('<') {
        assert!(
            !rest[..start].contains('>') || open.last() == Some(&"style"),
            "stray `>` in {:?}",
            &rest[..start]
        );
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "after {open:?}");
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric()), "element {name:?}");
        assert!(attributes.matches('"').count().is_multiple_of(2), "quotes in {tag:?}");
        if !attributes.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

fn comparison() -> Vec<Extract> {
    let runs = ["easy", "sjbf", "new"]
        .into_iter()
        .flat_map(|policy| (1..=3).map(move |seed| busy(policy, seed, 500)));
    runs.map(|run| Extract::of(&run)).collect()
}

fn pages() -> Vec<String> {
    let packed: Vec<Extract> = [("fgd", 95.2), ("best-fit", 92.9)]
        .into_iter()
        .flat_map(|(policy, limit)| (42..45).map(move |seed| Extract::of(&packing(policy, seed, limit))))
        .collect();
    vec![
        of_run(&Extract::of(&b28())),
        of_run(&Extract::of(&busy("easy", 1, 2000))),
        of_run(&Extract::of(&packing("fgd", 42, 95.2))),
        of_run(&Extract::of(&machine(4, Vec::new()))),
        of_run(&Extract::of(&Run::default())),
        of_comparison(&comparison(), None).unwrap(),
        of_comparison(&packed, Some("best-fit")).unwrap(),
    ]
}

#[test]
fn pages_are_well_formed_and_complete_in_themselves() {
    for page in pages() {
        check_well_formed(&page);
        for outside in ["http:", "https:", "<script", "<link", "@import", "url(", "src="] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""), "a number that is none");
    }
}

#[test]
fn the_check_of_form_can_fail() {
    for wrong in [
        "<!DOCTYPE html><p><b></p></b>",
        "<!DOCTYPE html><p>",
        "<!DOCTYPE html><p a=\"></p>",
        "<!DOCTYPE html>a > b<p></p>",
    ] {
        assert!(std::panic::catch_unwind(|| check_well_formed(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn two_reports_of_the_same_runs_are_the_same_bytes() {
    assert!(pages() == pages());
}

#[test]
fn names_from_a_trace_are_text_and_nothing_else() {
    const EVIL: &str = "</title><script>alert('x')</script><b onload=\"y\">&amp;";
    let mut run = b28();
    run.trace = EVIL.to_owned();
    run.policy = EVIL.to_owned();
    run.inputs_sha256.insert(EVIL.to_owned(), EVIL.to_owned());
    run.decisions_sha256 = EVIL.to_owned();
    run.counts.moved.insert(EVIL.to_owned(), 1);
    run.tenants[0].name = EVIL.to_owned();
    run.nodes[0] = EVIL.to_owned();
    run.jobs[0].job = JobId::new(EVIL).unwrap();
    run.jobs[1].ending = Ending::Failed(EVIL.into());
    run.jobs[6].ending = Ending::NeverStarted(EVIL.into());
    run.jobs[6].started = None;
    let extract = Extract::of(&run);
    let both = [extract.clone(), Extract::of(&Run { policy: "other".to_owned(), ..run })];
    for page in [of_run(&extract), of_comparison(&both, None).unwrap()] {
        check_well_formed(&page);
        assert!(!page.contains("<script") && !page.contains("<b ") && !page.contains("onload=\""));
        assert!(page.contains("&lt;script&gt;"));
    }
}

#[test]
fn a_long_run_gives_a_short_report() {
    let page = of_run(&Extract::of(&busy("easy", 9, 20_000)));
    assert!(page.len() < 300_000, "{} bytes", page.len());
    let longest =
        page.lines().filter(|line| line.starts_with("<path")).map(|line| line.matches('H').count()).max();
    assert!(longest.unwrap() <= 800, "at most 400 stretches there and, for a band, back");
}

#[test]
fn a_report_says_what_it_was_made_from() {
    let mut run = b28();
    run.seed = Some(42);
    run.inputs_sha256.insert("trace".to_owned(), "ab".repeat(32));
    run.decisions_sha256 = "cd".repeat(32);
    let page = of_run(&Extract::of(&run));
    for fact in [
        "by-hand",
        "easy",
        "42",
        "SHA-256 of trace",
        &"ab".repeat(32),
        &"cd".repeat(32),
        "Which job held which node",
    ] {
        assert!(page.contains(fact), "{fact}");
    }
    for measure in ["71.15 %", "2.0810", "115.7 s"] {
        assert!(page.contains(measure), "{measure}");
    }
}

#[test]
fn a_comparison_tells_better_from_worse() {
    let runs = [packing("first", 1, 90.0), packing("second", 1, 95.0), packing("third", 1, 85.0)];
    let extracts = runs.map(|run| Extract::of(&run));
    let page = of_comparison(&extracts, Some("first")).unwrap();
    assert!(page.contains("95.00<small class=\"good\">+5.00 points better</small>"), "{page}");
    assert!(page.contains("85.00<small class=\"bad\">−5.00 points worse</small>"));
    assert!(of_comparison(&extracts, Some("fourth")).is_err());
}

#[test]
fn a_comparison_draws_the_mean_against_the_worst() {
    let page = of_comparison(&comparison(), None).unwrap();
    let title = page.find("<h3>Mean against worst</h3>").expect("the plot");
    let figure = &page[title..title + page[title..].find("</figure>").unwrap()];
    assert_eq!(figure.matches("<circle").count(), 3, "{figure}");
    for name in [">easy<", ">sjbf<", ">new<", "Mean bounded slowdown", "Longest wait"] {
        assert!(figure.contains(name), "{name} in {figure}");
    }
    // Packing has no waits, and one policy has nobody to be compared with.
    assert!(!pages()[6].contains("Mean against worst"));
    assert!(!of_comparison(&comparison()[..3], None).unwrap().contains("Mean against worst"));
}
