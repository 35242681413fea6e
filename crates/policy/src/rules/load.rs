//! When load that a node reports is news. Load goes up and down all the time, so a little of it is news once in a minute and only a
//! lot at once. CPU use swings by all of it whenever a job begins or waits, so it is news at once only where a policy says other things of it.

use landfall_model::{Metrics, Mib, Millis};

use crate::params::Default::Number;
use crate::policy::Policy;
use crate::terms::pull::resource_saturation::INFO;

/// Load that moved by more than one part in so many of the whole is news at once.
const FAR: f64 = 4.0;
/// Load that moved by more than one part in so many of the whole is news once in [`NEAR_EVERY`].
const NEAR: f64 = 32.0;
const NEAR_EVERY: Millis = Millis::secs(60);

/// Whether load moved far enough since it was remembered, `quiet` ago.
fn moved(now: f64, known: f64, whole: f64, quiet: Millis) -> bool {
    (now - known).abs() * if quiet < NEAR_EVERY { FAR } else { NEAR } > whole
}

/// The same for memory in use.
pub fn memory_moved(now: Mib, known: Option<Mib>, whole: Mib, quiet: Millis) -> bool {
    known.is_none_or(|known| moved(now.as_f64(), known.as_f64(), whole.as_f64(), quiet))
}

/// The same for the speed and load of a worker, but for its CPU: where the policy treats workers with more of it in use than some limit
/// otherwise, crossing that by more than a little is news at once, and nothing else is.
pub fn metrics_moved(now: &Metrics, known: Option<&Metrics>, quiet: Millis, policy: Option<&Policy>) -> bool {
    let Some(known) = known else { return true };
    let still = |metrics: &Metrics| (metrics.cpu_count, metrics.cpu_core_score, metrics.ram_total_mib);
    let other = |now: Option<f64>, known: Option<f64>, whole: f64| match (now, known) {
        (Some(now), Some(known)) => moved(now, known, whole, quiet),
        (now, known) => now.is_some() != known.is_some(),
    };
    let crossed = |(now, known): (f64, f64)| {
        let between = |limit: f64| (now < limit) != (known < limit);
        moved(now, known, 100.0, NEAR_EVERY) && policy.is_some_and(|policy| cpu_limits(policy).any(between))
    };
    let speed = |known: Option<f64>| known.unwrap_or_default();
    let ram = |metrics: &Metrics| metrics.ram_free_mib.map(Mib::as_f64);
    still(now) != still(known)
        || now.cpu_usage_pct.is_some() != known.cpu_usage_pct.is_some()
        || (quiet >= NEAR_EVERY && other(now.cpu_usage_pct, known.cpu_usage_pct, 100.0))
        || other(now.disk_mb_s, known.disk_mb_s, speed(known.disk_mb_s))
        || other(now.network_mbit_s, known.network_mbit_s, speed(known.network_mbit_s))
        || other(ram(now), ram(known), now.ram_total_mib.as_f64())
        || now.cpu_usage_pct.zip(known.cpu_usage_pct).is_some_and(crossed)
}

/// CPU use in percent from which a worker is overloaded, for every kind of work.
fn cpu_limits(policy: &Policy) -> impl Iterator<Item = f64> {
    let spec = policy.spec();
    let used = spec.terms.iter().filter(|used| used.enabled && used.name == INFO.name);
    let limits = || INFO.params.iter().filter(|param| param.name.starts_with("cpu_limit"));
    used.flat_map(move |used| limits().map(move |limit| (used, limit))).filter_map(|(used, limit)| {
        let given = used.params.get(limit.name).or_else(|| spec.params.get(limit.name));
        match (given, limit.default) {
            (Some(given), _) => given.as_float().or(given.as_integer().map(|whole| whole as f64)),
            (None, Number(usual)) => Some(usual),
            (None, _) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin, policy_file};

    #[test]
    fn cpu_use_is_news_once_a_minute_and_at_once_where_a_policy_heeds_it() {
        let usual = builtin::policy("resource-aware").unwrap().unwrap();
        let text = include_str!("../../policies/resource-aware.toml")
            .replace("name = \"resource-aware\"", "name = \"own\"")
            .replace("[params]", "[params]\ncpu_limit_pct = 50.0");
        let own = policy_file::load(&text).unwrap();
        let blind = builtin::policy("simple").unwrap().unwrap();
        for (known, now, secs, policy, news) in [
            (10.0, 75.0, 59, &usual, false),
            (10.0, 75.0, 60, &usual, true),
            (10.0, 100.0, 0, &usual, true),
            (10.0, 100.0, 0, &blind, false),
            (10.0, 12.0, 60, &usual, false),
            (10.0, 14.0, 60, &usual, true),
            (10.0, 14.0, 59, &usual, false),
            (88.0, 92.0, 10, &usual, true),
            (92.0, 88.0, 10, &usual, true),
            (89.0, 91.0, 10, &usual, false),
            (82.0, 88.0, 10, &usual, false),
            (78.0, 82.0, 10, &usual, true),
            (88.0, 92.0, 10, &blind, false),
            (48.0, 52.0, 10, &own, true),
            (48.0, 52.0, 10, &usual, false),
        ] {
            let of = |pct| Metrics { cpu_usage_pct: Some(pct), ..Metrics::default() };
            let (now, known) = (of(now), of(known));
            let said = metrics_moved(&now, Some(&known), Millis::secs(secs), Some(policy));
            assert_eq!(said, news, "{known:?} {now:?} after {secs} s");
            assert!(metrics_moved(&now, None, Millis::ZERO, None), "the first is news");
        }
    }
}
