//! How pools and tenants did over the last hours, noted every few seconds and kept in memory and in a file, so that a restart loses none.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::board::{HistoryView, Series};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::super::app::{App, Shared};
use super::super::auth::Submitter;
use super::super::extract::Params;
use super::super::problem::{Problem, Problems, Reply};
use super::census::{self, Census};
use super::fleet::{Fleet, fleet};
use super::{SAMPLED_EVERY, locked};

/// Notes that are kept: a day.
const KEPT: usize = 86_400 / SAMPLED_EVERY.as_secs() as usize;
/// Pools, and tenants, that are noted; with more of them it would no longer be a plot.
const NOTED_MAX: usize = 64;
/// Points of an answer.
const POINTS_MAX: usize = 480;

/// GPUs, GPUs used, cores, cores used, waiting, running.
type Point = [f32; 6];

#[derive(Debug, Serialize, Deserialize)]
struct Sample {
    at: u64,
    pools: BTreeMap<Arc<str>, Point>,
    tenants: BTreeMap<Arc<str>, Point>,
}

/// Notes of the last hours, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    kept: VecDeque<Sample>,
    /// Lines of the file in which they outlive the server.
    lines: usize,
}

impl Samples {
    fn add(&mut self, sample: Sample) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(sample);
    }

    /// What was noted before the server ended, as far as it is not too old. A line that cannot be read was cut off with the server.
    fn read(text: &str, now: u64) -> Self {
        let mut samples = Self { kept: VecDeque::new(), lines: text.lines().count() };
        let since = now.saturating_sub(KEPT as u64 * SAMPLED_EVERY.as_secs());
        let known = text.lines().filter_map(|line| serde_json::from_str::<Sample>(line).ok());
        known.filter(|sample| (since..=now).contains(&sample.at)).for_each(|sample| samples.add(sample));
        samples
    }
}

fn file(app: &App) -> PathBuf {
    app.config.data_dir.join("history.jsonl")
}

/// Takes in what was noted before the server started.
pub(crate) async fn remember(app: &App) {
    // Where nothing was noted, nothing is missing.
    let Ok(text) = tokio::fs::read_to_string(file(app)).await else { return };
    let now = u64::try_from(app.handle.now().as_millis() / 1000).unwrap_or(0);
    *locked(&app.looks.samples) = Samples::read(&text, now);
}

/// Writes the newest note behind the others; now and then all of them anew, so that the file stays small.
fn write(path: &Path, samples: &mut Samples) -> std::io::Result<()> {
    let line = |sample: &Sample| serde_json::to_string(sample).map_err(std::io::Error::other);
    let Some(newest) = samples.kept.back() else { return Ok(()) };
    if samples.lines < 2 * KEPT {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{}\n", line(newest)?).as_bytes())?;
        samples.lines += 1;
        return Ok(());
    }
    let mut text = String::new();
    for sample in &samples.kept {
        text += &line(sample)?;
        text.push('\n');
    }
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)?;
    std::fs::rename(beside, path)?;
    samples.lines = samples.kept.len();
    Ok(())
}

fn thousandths(amount: u64) -> f32 {
    (amount as f64 / 1000.0) as f32
}

/// Notes how things stand.
pub(crate) async fn sample(app: Arc<App>) {
    // A server that is going down, or too busy, notes nothing.
    let Ok(fleet) = fleet(&app).await else { return };
    if census::count(&app).await.is_err() {
        return;
    }
    let sample = noted(&fleet, &app.looks.census());
    let written = tokio::task::spawn_blocking(move || {
        let mut samples = locked(&app.looks.samples);
        samples.add(sample);
        write(&file(&app), &mut samples)
    });
    if let Ok(Err(error)) = written.await {
        tracing::warn!(%error, "how things stand could not be written down");
    }
}

fn noted(fleet: &Fleet, census: &Census) -> Sample {
    let pools = fleet.pools.iter().take(NOTED_MAX).map(|pool| {
        let point = [
            thousandths(pool.gpu_milli.total),
            thousandths(pool.gpu_milli.used),
            thousandths(pool.cpu_milli.total),
            thousandths(pool.cpu_milli.used),
            census.waiting(&pool.id) as f32,
            census.running(&pool.id) as f32,
        ];
        (Arc::from(pool.id.as_str()), point)
    });
    let tenants = fleet.tenants.iter().take(NOTED_MAX).map(|tenant| {
        let point = [0.0, tenant.gpus as f32, 0.0, 0.0, tenant.jobs as f32, tenant.units];
        (Arc::from(tenant.id.as_str()), point)
    });
    let at = u64::try_from(fleet.at.as_millis() / 1000).unwrap_or(0);
    Sample { at, pools: pools.collect(), tenants: tenants.collect() }
}

fn push(series: &mut Series, point: &Point) {
    let Series { gpus, gpus_used, cpus, cpus_used, waiting, running } = series;
    for (list, value) in [gpus, gpus_used, cpus, cpus_used, waiting, running].into_iter().zip(point) {
        list.push(*value);
    }
}

/// The mean of one name over some notes; what was not there counts as nothing.
fn mean<'a>(notes: impl ExactSizeIterator<Item = Option<&'a Point>>) -> Point {
    let number = notes.len().max(1) as f32;
    let sum = notes.flatten().fold([0.0; 6], |mut sum: Point, point| {
        sum.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
        sum
    });
    sum.map(|value| value / number)
}

impl Samples {
    fn shown(&self, since: u64, sees: impl Fn(&str) -> bool) -> HistoryView {
        let from = self.kept.partition_point(|sample| sample.at < since);
        let chosen: Vec<&Sample> = self.kept.range(from..).collect();
        let step = chosen.len().div_ceil(POINTS_MAX).max(1);
        let mut view = HistoryView::default();
        let pools: std::collections::BTreeSet<&Arc<str>> =
            chosen.iter().flat_map(|it| it.pools.keys()).collect();
        let tenants: std::collections::BTreeSet<&Arc<str>> =
            chosen.iter().flat_map(|it| it.tenants.keys()).filter(|id| sees(id)).collect();
        for part in chosen.chunks(step) {
            view.at.extend(part.last().map(|sample| sample.at));
            for pool in &pools {
                let point = mean(part.iter().map(|sample| sample.pools.get(*pool)));
                push(view.pools.entry(pool.to_string()).or_default(), &point);
            }
            for tenant in &tenants {
                let point = mean(part.iter().map(|sample| sample.tenants.get(*tenant)));
                push(view.tenants.entry(tenant.to_string()).or_default(), &point);
            }
        }
        view
    }
}

/// How far back.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Window {
    /// Hours: 1 to 24, 3 if left out.
    #[param(minimum = 1, maximum = 24)]
    hours: Option<u64>,
}

/// How pools and tenants did over the last hours; a day is kept.
#[utoipa::path(get, path = "/history", tag = "board", params(Window),
    responses((status = 200, description = "Numbers for each instant.", body = HistoryView), Problems))]
pub(crate) async fn history(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(window): Params<Window>,
) -> Reply<HistoryView> {
    let hours = window.hours.unwrap_or(3);
    if !(1..=24).contains(&hours) {
        return Err(Problem::bad("`hours` is 1 to 24", "a day is kept"));
    }
    let now = u64::try_from(app.handle.now().as_millis() / 1000).unwrap_or(0);
    let samples = locked(&app.looks.samples);
    Ok(Json(samples.shown(now.saturating_sub(hours * 3600), |tenant| principal.sees(Some(tenant)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64) -> Sample {
        Sample {
            at,
            pools: [(Arc::from("p"), [8.0, at as f32, 0.0, 0.0, 1.0, 2.0])].into(),
            tenants: [(Arc::from("a"), [0.0; 6]), (Arc::from("b"), [0.0; 6])].into(),
        }
    }

    fn samples(number: u64) -> Samples {
        Samples { kept: (0..number).map(sample).collect(), lines: 0 }
    }

    #[test]
    fn long_stretches_become_means_and_other_tenants_stay_hidden() {
        let view = samples(960).shown(0, |tenant| tenant == "a");
        assert_eq!(view.at.len(), 480);
        assert_eq!((view.at[0], view.pools["p"].gpus_used[0]), (1, 0.5));
        assert_eq!(view.tenants.keys().collect::<Vec<_>>(), ["a"]);
        let late = samples(960).shown(958, |_| true);
        assert_eq!((late.at, late.pools["p"].gpus_used.clone()), (vec![958, 959], vec![958.0, 959.0]));
    }
    #[test]
    fn a_restart_loses_nothing_and_the_file_stays_small() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("history.jsonl");
        // A file that is as long as it may get: the next note writes it anew.
        let mut samples = Samples { lines: 2 * KEPT, ..samples(KEPT as u64) };
        for at in [KEPT as u64, KEPT as u64 + 1] {
            samples.add(sample(at));
            write(&path, &mut samples).unwrap();
        }
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at\": 1").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.lines().count(),
            KEPT + 2,
            "the old ones once, one more, and the one that was cut off"
        );
        let now = KEPT as u64 + 1;
        let at = |samples: &Samples| samples.kept.iter().map(|sample| sample.at).collect::<Vec<_>>();
        assert_eq!(at(&Samples::read(&text, now)), at(&samples));
        // What is older than a day, or from a clock that ran ahead, is not shown.
        assert!(Samples::read(&text, now + 86_401).kept.is_empty());
        assert_eq!(at(&Samples::read(&text, now - 1)).last(), Some(&(now - 1)));
    }
}
