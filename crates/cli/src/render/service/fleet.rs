//! Pools, tenants and tokens.

use landfall_api::fleet::{CapsView, Settings, TenantUsage, TenantView};
use landfall_api::token::TokenView;
use landfall_model::answer::Fared;
use landfall_model::{Mib, ProviderKind};
use serde_json::Value;

use super::super::clock::{ago, cores, date, mib, span};
use super::super::style::{DIM, STRONG, WARN};
use super::super::table::{Cell, Table};
use super::super::text::{clean, count, labelled, short, word};
use crate::answer::Page;
use crate::commands::service::{pools, providers, tenants, token};

pub(crate) fn pools(listed: &pools::Listed, _: Page) -> String {
    let mut table = Table::of(&["pool", "dispatch", "policy", ">nodes", ">ready", ">waiting", ">running"]);
    for pool in &listed.pools {
        table.row(vec![
            Cell::from(&pool.id),
            Cell::from(&pool.dispatch),
            Cell::from(&pool.policy),
            pool.nodes.to_string().into(),
            pool.nodes_ready.to_string().into(),
            pool.pending.to_string().into(),
            pool.running.to_string().into(),
        ]);
    }
    table.render()
}

pub(crate) fn pool(one: &pools::One, page: Page) -> String {
    let pool = &one.pool;
    let mut text = format!("{STRONG}pool {}{STRONG:#}\n", clean(&pool.id));
    let own = if pool.policy_text.is_some() { " (a file of its own)" } else { "" };
    let mut line = |label: &str, content: &str| {
        text += &labelled(&format!("  {label:<28} "), &clean(content), page.text_width());
    };
    line("dispatch", &pool.dispatch);
    line("policy", &format!("{}{own}", pool.policy));
    if !["", pool.policy.as_str()].contains(&pool.policy_in_force.as_str()) {
        line("policy in force", &pool.policy_in_force);
    }
    if let Some(from) = pool.settings_from {
        line("settings", settings_from(from));
    }
    line("nodes", &format!("{}, {} ready", pool.nodes, pool.nodes_ready));
    line("jobs", &format!("{} waiting, {} running", pool.pending, pool.running));
    if pool.surging {
        line("prices", "raised: many jobs wait");
    }
    if let Some(fared) = &pool.fared {
        let Fared { low, middle, high, ratios } = fared;
        let all = ratios.len();
        line(
            "run times",
            &format!("{middle:.2} of what was expected, 8 of 10 between {low:.2} and {high:.2} (last {all})"),
        );
        // Cut at a quarter, a half, once, twice and four times.
        let below = |power: i32| ratios.partition_point(|ratio| *ratio < 2f64.powi(power));
        let cuts: Vec<usize> = [0].into_iter().chain((-2..3).map(below)).chain([all]).collect();
        let counts: Vec<usize> = cuts.windows(2).map(|cut| cut[1] - cut[0]).collect();
        line("", &format!("less {} more", heights(&counts)));
    }
    // Settings of the other ways to dispatch are kept but not read.
    for table in [pool.dispatch.as_str(), "silence", "price"] {
        let settings = pool.pool.get(table).and_then(Value::as_object);
        for (name, value) in settings.into_iter().flatten() {
            let time = value.as_u64().filter(|ms| name.ends_with("_ms") && *ms >= 1000);
            let time = time.map(|ms| format!(" ({})", span(ms))).unwrap_or_default();
            line(&format!("{table}.{name}"), &format!("{}{time}", plain(value)));
        }
    }
    text
}

/// What a tenant may hold at once, in words.
fn quota(quota: &Value) -> String {
    let cpu = quota["max_cpu_milli"].as_u64().map(|milli| format!("{} cores", cores(milli)));
    let amount =
        |name: &str, what: &str| quota[name].as_f64().map(|most| format!("{} {what}", rounded(most)));
    let limits = [
        amount("max_nodes", "nodes"),
        cpu,
        amount("max_gpus", "GPUs"),
        amount("max_jobs", "jobs"),
        amount("gpu_hours_cap", "GPU-hours"),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if limits.is_empty() { "anything".to_owned() } else { limits.join(", ") }
}

/// A figure with two digits behind the point at most.
fn rounded(figure: f64) -> String {
    short((figure * 100.0).round() / 100.0)
}

/// Money as people read it.
pub(crate) fn money(amount: f64) -> String {
    short((amount * 1e6).round() / 1e6)
}

/// Hours as people read them.
pub(crate) fn hours(hours: f64) -> String {
    if hours > 0.0 && hours < 0.01 { "under 0.01".to_owned() } else { rounded(hours) }
}

/// Which of two settings is in force.
pub(crate) fn settings_from(from: Settings) -> &'static str {
    match from {
        Settings::File => "as the settings file says",
        Settings::Live => "changed live; the settings file wins at the next start",
    }
}

/// Counts as a row of bars, the highest for the largest.
fn heights(counts: &[usize]) -> String {
    const STEPS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    counts.iter().map(|count| STEPS[(count * 8).div_ceil(most)]).collect()
}

/// What a tenant has spent, and of how much.
fn spent(usage: &TenantUsage) -> String {
    match usage.budget {
        Some(budget) => format!("{} of {}", money(usage.spent), money(budget)),
        None => money(usage.spent),
    }
}

pub(crate) fn caps(caps: &CapsView, _: Page) -> String {
    let mut table = Table::of(&["", ">now", ">cap"]);
    let cap = |cap: Option<String>| Cell::from(cap.unwrap_or_else(|| "none".to_owned()));
    let traffic = |bytes: u64| match bytes >> 20 {
        0 => format!("{bytes} B/s"),
        size => format!("{}/s", mib(size)),
    };
    table.row(vec![
        "power".into(),
        format!("{} W", caps.drawn_w).into(),
        cap(caps.power_w.map(|cap| format!("{cap} W"))),
    ]);
    table.row(vec![
        "storage traffic".into(),
        traffic(caps.moved_bytes_s).into(),
        cap(caps.io_bytes_s.map(traffic)),
    ]);
    table.render()
}

pub(crate) fn providers(listed: &providers::Listed, _: Page) -> String {
    if listed.providers.is_empty() {
        return format!(
            "no providers\n{DIM}landfall providers set NAME --help says how to name one{DIM:#}\n"
        );
    }
    let mut table = Table::of(&["provider", "sells", "largest node", "longest lease", "used"]);
    for provider in &listed.providers {
        let sells = match provider.class {
            ProviderKind::Bulk => "whole nodes",
            ProviderKind::Exact => "any number of GPUs",
        };
        let shape = provider.shape;
        let gpus = match shape.gpus {
            0 => String::new(),
            number => format!("{} of {}, ", count(number, "GPU"), shape.vram_mib),
        };
        let node = format!("{gpus}{} cores, {}", cores(shape.cpu_milli.get()), shape.ram_mib);
        let used = if provider.enabled { "yes" } else { "no" };
        table.row(vec![
            Cell::from(provider.name.as_str()),
            sells.into(),
            node.into(),
            span(provider.lease_max_ms.get()).into(),
            used.into(),
        ]);
    }
    table.render()
}

pub(crate) fn tenants(listed: &tenants::Listed, _: Page) -> String {
    if listed.tenants.is_empty() {
        return format!("no tenants\n{DIM}landfall tenants set NAME --share 0.5 makes one{DIM:#}\n");
    }
    let mut names = vec![
        "tenant",
        ">share",
        ">jobs",
        ">nodes",
        ">cores",
        ">gpus",
        ">node-hours",
        ">gpu-hours",
        "may hold",
    ];
    let priced = |tenant: &TenantView| {
        tenant.usage.as_ref().is_some_and(|usage| usage.spent > 0.0 || usage.budget.is_some())
    };
    let priced = listed.tenants.iter().any(priced);
    if priced {
        names.insert(8, ">spent");
    }
    let mut table = Table::of(&names);
    for tenant in &listed.tenants {
        let settings = &tenant.tenant;
        let used =
            |figure: &dyn Fn(&TenantUsage) -> String| tenant.usage.as_ref().map(figure).unwrap_or_default();
        let mut cells = vec![
            Cell::from(&tenant.id),
            plain(&settings["share"]).into(),
            used(&|usage| usage.jobs.to_string()).into(),
            used(&|usage| rounded(usage.nodes)).into(),
            used(&|usage| cores(usage.cpu_milli)).into(),
            used(&|usage| usage.gpus.to_string()).into(),
            used(&|usage| hours(usage.node_hours_used)).into(),
            used(&|usage| hours(usage.gpu_hours_used)).into(),
            quota(&settings["quota"]).into(),
        ];
        if priced {
            cells.insert(8, used(&|usage| spent(usage)).into());
        }
        table.row(cells);
    }
    let also = if priced { "; spent: what jobs cost in that time, those that run included" } else { "" };
    format!(
        "{}{DIM}hours: of runs that ended in the last 90 days{also}; `landfall usage` has more{DIM:#}\n",
        table.render()
    )
}

pub(crate) fn tenant(one: &tenants::One, page: Page) -> String {
    let mut text = format!("{STRONG}tenant {}{STRONG:#}\n", clean(&one.tenant.id));
    let mut line = |label: &str, content: &str| {
        text += &labelled(&format!("  {label:<22} "), &clean(content), page.text_width());
    };
    if let Some(from) = one.tenant.settings_from {
        line("settings", settings_from(from));
    }
    for (name, value) in one.tenant.tenant.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                for (field, value) in inner {
                    line(&format!("{name}.{field}"), &plain(value));
                }
            }
            value if name != "id" => line(name, &plain(value)),
            _ => {}
        }
    }
    if let Some(usage) = &one.tenant.usage {
        let held = format!(
            "{} nodes, {} cores, {}",
            rounded(usage.nodes),
            cores(usage.cpu_milli),
            count(usage.gpus, "GPU")
        );
        line("holds", &held);
        line("jobs", &format!("{} that have not ended", usage.jobs));
        line(
            "used",
            &format!(
                "{} GPU-hours, {} node-hours",
                hours(usage.gpu_hours_used),
                hours(usage.node_hours_used)
            ),
        );
        if let Some(left) = usage.gpu_hours_left {
            line("left", &format!("{} GPU-hours", hours(left)));
        }
        if usage.spent > 0.0 || usage.budget.is_some() {
            line("spent", &format!("{} in the last 90 days, jobs that run included", spent(usage)));
        }
        for (pool, share) in &usage.shares {
            line(&format!("share of {pool}"), &format!("{} %", rounded(share * 100.0)));
        }
    }
    text
}

/// Whom a token is for, and how large its node may be.
fn token_for(token: &TokenView) -> String {
    let most = [
        token.max_cpu_milli.map(|milli| format!("{} cores", cores(milli))),
        token.max_ram_mib.map(|size| Mib::new(size).to_string()),
    ];
    let most = most.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let whom = token.tenant.as_deref().or(token.node.as_deref()).unwrap_or_default();
    if most.is_empty() { whom.to_owned() } else { format!("{whom} (at most {most})") }
}

pub(crate) fn tokens(listed: &token::Listed, _: Page) -> String {
    let mut table = Table::of(&["id", "name", "role", "for", ">made", "works"]);
    for token in &listed.tokens {
        let until = match token.expires_at_ms {
            None => Cell::from("until revoked"),
            Some(at) if at <= listed.now_ms => Cell::styled("expired", WARN),
            Some(at) => Cell::from(format!("until {}", date(at))),
        };
        table.row(vec![
            Cell::from(&token.id),
            Cell::from(&token.name),
            word(token.role).into(),
            token_for(token).into(),
            ago(token.created_at_ms, listed.now_ms).into(),
            until,
        ]);
    }
    table.render()
}

pub(crate) fn token(created: &token::Created, _: Page) -> String {
    let token = &created.token;
    let mut text = format!("token {} ({}, {})\n", clean(&token.id), clean(&token.name), word(token.role));
    match (&created.secret, &created.file) {
        (Some(secret), _) => {
            text += &format!("\n  {STRONG}{}{STRONG:#}\n\n", clean(secret));
            text += &format!(
                "{DIM}this secret is not shown again; use it as LANDFALL_TOKEN or in a --token-file{DIM:#}\n"
            );
        }
        (None, file) => text += &format!("its secret is in {}\n", clean(file.as_deref().unwrap_or_default())),
    }
    text
}

/// A setting in words.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => clean(text),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), short),
        other => clean(&other.to_string()),
    }
}
