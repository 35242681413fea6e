//! How pools and tenants did over the last hours, noted every few seconds and kept in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::board::{HistoryView, Series};
use serde::Deserialize;
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

#[derive(Debug)]
struct Sample {
    at: u64,
    pools: BTreeMap<Arc<str>, Point>,
    tenants: BTreeMap<Arc<str>, Point>,
}

/// Notes of the last hours, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples(VecDeque<Sample>);

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
    let mut samples = locked(&app.looks.samples);
    if samples.0.len() == KEPT {
        samples.0.pop_front();
    }
    samples.0.push_back(sample);
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
        let from = self.0.partition_point(|sample| sample.at < since);
        let chosen: Vec<&Sample> = self.0.range(from..).collect();
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

/// How pools and tenants did over the last hours, as far as this server has run.
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

    fn samples(number: u64) -> Samples {
        let sample = |at| Sample {
            at,
            pools: [(Arc::from("p"), [8.0, at as f32, 0.0, 0.0, 1.0, 2.0])].into(),
            tenants: [(Arc::from("a"), [0.0; 6]), (Arc::from("b"), [0.0; 6])].into(),
        };
        Samples((0..number).map(sample).collect())
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
}
