//! One job at a time, smallest score first.

use landfall_replay::machine::{Score, committed};

use crate::tables::job;

#[test]
fn the_chosen_job_is_waited_for_though_a_smaller_one_comes() {
    // The first takes the machine. The second is chosen and waits; the third is shorter, but came too late.
    let jobs = [job(1, 100, 4, 50), job(2, 110, 3, 40), job(3, 120, 2, 5)];
    assert_eq!(committed(&jobs, 4, Score::Sjf), [100, 150, 190]);
}

#[test]
fn those_that_wait_together_go_by_score() {
    // While the second waits, the third and the fourth join; the shorter of them is next.
    let jobs = [job(1, 100, 4, 50), job(2, 110, 4, 40), job(3, 120, 4, 30), job(4, 130, 4, 5)];
    assert_eq!(committed(&jobs, 4, Score::Sjf), [100, 150, 195, 190]);
    assert_eq!(committed(&jobs, 4, Score::Fcfs), [100, 150, 190, 220]);
}

#[test]
fn f1_weighs_length_by_size_and_prefers_who_came_first() {
    // log10(10) · 1 + 870 · log10(1000) = 2611 before log10(1000) · 4 + 870 · log10(1000) = 2622.
    let jobs = [job(1, 500, 4, 600), job(2, 600, 4, 7), job(3, 1000, 4, 1000), job(4, 1000, 1, 10)];
    assert_eq!(committed(&jobs, 4, Score::F1), [500, 1100, 1117, 1107]);
}
