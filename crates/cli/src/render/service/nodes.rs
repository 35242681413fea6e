//! Nodes as a table and as a page.

use landfall_api::node::{GpuView, NodeView};
use landfall_model::Tier;

use super::super::clock::{ago, cores, mib};
use super::super::style::{DIM, PLAIN, STRONG, WARN};
use super::super::table::{Cell, Table};
use super::super::text::{clean, cut, labelled, short};
use super::jobs::colour;
use crate::answer::Page;
use crate::commands::service::nodes::{Listed, One};

/// Images that the page of a node names.
const IMAGES_SHOWN: usize = 4;

pub(crate) fn list(listed: &Listed, _: Page) -> String {
    if listed.nodes.is_empty() {
        return format!(
            "no nodes\n{DIM}landfall agent --server URL --token-file FILE adds the machine it runs on{DIM:#}\n"
        );
    }
    // Most clusters have neither.
    let grouped = listed.nodes.iter().any(|node| node.group.is_some());
    let lent = listed.nodes.iter().any(|node| node.lent_to.is_some());
    let mut titles = vec!["node", "state", "pool"];
    titles.extend(lent.then_some("lent to"));
    titles.extend(grouped.then_some("group"));
    titles.extend([">cpu", ">memory", "gpus", ">jobs", ">heard", ""]);
    let mut table = Table::of(&titles);
    for node in &listed.nodes {
        let mut cells = vec![
            cut(&clean(&node.id), 32).into(),
            Cell::styled(&node.state, colour(&node.state)),
            Cell::from(&node.pool),
        ];
        let said = |text: Option<&str>| Cell::styled(text.unwrap_or_default(), PLAIN);
        cells.extend(lent.then(|| said(node.lent_to.as_deref())));
        cells.extend(grouped.then(|| said(node.group.as_deref())));
        cells.extend([
            format!("{} of {}", cores(node.cpu_committed_milli), cores(node.cpu_milli)).into(),
            format!("{} of {}", mib(node.ram_committed_mib), mib(node.ram_mib)).into(),
            Cell::from(gpus(&node.gpus)),
            node.jobs.len().to_string().into(),
            ago(node.heard_at_ms, listed.now_ms).into(),
            Cell::styled(cut(&clean(&remark(node, listed.now_ms)), 40), WARN),
        ]);
        table.row(cells);
    }
    table.render()
}

/// What deserves a second look about a node.
fn remark(node: &NodeView, now_ms: u64) -> String {
    let why = node.why.as_deref().unwrap_or_default();
    if let Some(at) = node.maintenance_at_ms.filter(|at| *at > now_ms) {
        let then = format!("out of service {}", ago(at, now_ms));
        return if why.is_empty() { then } else { format!("{then}: {why}") };
    }
    if !why.is_empty() {
        return why.to_owned();
    }
    let remark = match (node.approval.as_str(), node.accepting, node.connected) {
        ("pending", ..) => "waits for approval",
        ("suspended", ..) => "suspended",
        _ if node.drifted => "configuration drifted",
        _ if !node.doubted.is_empty() => "tells figures that do not count",
        (_, false, _) => "takes no work",
        (_, _, false) => "no agent connected",
        _ if node.hollow => "hollow: nothing runs here",
        _ if node.limits.as_ref().is_some_and(|limits| !limits.memory) => "limits are not enforced",
        _ => "",
    };
    remark.to_owned()
}

/// GPUs by model, with how many are in use.
pub(crate) fn gpus(gpus: &[GpuView]) -> String {
    let mut models: Vec<(&str, usize, usize)> = Vec::new();
    for gpu in gpus {
        let model = gpu.model.as_deref().unwrap_or("gpu");
        let busy = usize::from(gpu.milli_committed > 0 || gpu.vram_committed_mib > 0 || gpu.holder.is_some());
        match models.iter_mut().find(|(name, ..)| *name == model) {
            Some((_, all, used)) => {
                *all += 1;
                *used += busy;
            }
            None => models.push((model, 1, busy)),
        }
    }
    models.iter().map(|(model, all, used)| format!("{used} of {all} {model}")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn one(one: &One, page: Page) -> String {
    let (node, now) = (&one.node, one.now_ms);
    let style = colour(&node.state);
    let mut text =
        format!("{STRONG}node {}{STRONG:#}  {style}{}{style:#}\n", clean(&node.id), clean(&node.state));
    let mut line = |label: &str, content: &str| {
        if !content.is_empty() {
            text += &labelled(&format!("  {label:<11} "), &clean(content), page.text_width());
        }
    };
    let region = node.region.as_ref().map(|name| format!(", region {name}")).unwrap_or_default();
    let lent = node.lent_to.as_ref().map(|pool| format!(", on loan to {pool}")).unwrap_or_default();
    line("pool", &format!("{}{region}{lent}", node.pool));
    line("block", &block(one));
    line("group", node.group.as_deref().unwrap_or_default());
    line("doubted", &node.doubted.join(", "));
    line("remark", &remark(node, now));
    line("since", &ago(node.since_ms, now));
    let version = node.agent_version.as_ref().map(|version| format!(", agent {version}")).unwrap_or_default();
    line("heard", &format!("{}{version}", ago(node.heard_at_ms, now)));
    let busy = node.cpu_usage_pct.map(|pct| format!(", {} % busy", short(pct.round()))).unwrap_or_default();
    line(
        "cpu",
        &format!("{} of {} cores held by jobs{busy}", cores(node.cpu_committed_milli), cores(node.cpu_milli)),
    );
    let free =
        node.ram_free_mib.map(|amount| format!(", {} free on the machine", mib(amount))).unwrap_or_default();
    line("memory", &format!("{} of {} held by jobs{free}", mib(node.ram_committed_mib), mib(node.ram_mib)));
    if !node.platform.is_empty() && node.platform != "desktop" {
        line("platform", &node.platform);
    }
    let charge = node.battery_pct.map(|pct| {
        let charging = match node.charging {
            Some(true) => ", charging",
            Some(false) => ", not charging",
            None => "",
        };
        format!("battery {pct} %{charging}")
    });
    let heat = node.thermal.as_ref().map(|thermal| format!("heat {thermal}"));
    let power = node.power_w.map(|watts| format!("draws {} W", short(watts)));
    line("condition", &[heat, charge, power].into_iter().flatten().collect::<Vec<_>>().join(", "));
    if let Some(fingerprint) = &node.fingerprint {
        let drifted =
            if node.drifted { ", not what it should be: `landfall return` takes it as right" } else { "" };
        line("fingerprint", &format!("{}{drifted}", fingerprint.get(..12).unwrap_or(fingerprint)));
    }
    line("warm", &node.cache.join(", "));
    let more = node.images.len().saturating_sub(IMAGES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let first: Vec<&str> = node.images.iter().take(IMAGES_SHOWN).map(String::as_str).collect();
    line("images", &(first.join(", ") + &more));
    line("limits", node.limits.as_ref().map(|limits| limits.how.as_str()).unwrap_or_default());
    line("runtimes", &node.runtimes.join(", "));
    line("estimates", &estimates(node));
    line("jobs", &node.jobs.join(", "));
    if node.karma != 0 {
        line("karma", &node.karma.to_string());
    }
    line(
        "cooldown",
        &node.cooldown_until_ms.filter(|until| *until > now).map(|at| ago(at, now)).unwrap_or_default(),
    );
    if !node.gpus.is_empty() {
        text += &format!("\n{}", gpu_table(&node.gpus).render());
    }
    if let Some(good_for) = &one.good_for {
        text.push('\n');
        if !good_for.dispatchable {
            text += &labelled("takes no work now: ", &clean(&good_for.reasons.join(", ")), page.text_width());
        }
        if good_for.workloads.is_empty() {
            text += &format!(
                "{DIM}no workload that the server knows would run here (landfall workloads list){DIM:#}\n"
            );
        } else {
            let mut table =
                Table::of(&["good for", "level", ">score", ">speed", ">fit", ">headroom", ">tokens/s"]);
            for row in &good_for.workloads {
                table.row(vec![
                    Cell::from(&row.workload),
                    Cell::from(&row.level),
                    short(row.composite).into(),
                    short(row.speed).into(),
                    short(row.fit).into(),
                    short(row.headroom).into(),
                    row.estimate.map(short).unwrap_or_default().into(),
                ]);
            }
            text += &table.render();
        }
    }
    text
}

/// The block of a node: which jobs it serves, who sells it, and when it ends.
fn block(one: &One) -> String {
    let id = one.node.block.as_deref().unwrap_or_default();
    let Some(lease) = &one.lease else { return id.to_owned() };
    let ends = match lease.ends_at() {
        Some(at) => format!("ends {}", ago(u64::try_from(at.as_millis()).unwrap_or_default(), one.now_ms)),
        None => "without end".to_owned(),
    };
    let tier = match lease.tier {
        Tier::Fast => "FAST",
        Tier::Flex => "FLEX",
    };
    format!("{id}: {tier} of {}, {ends}", lease.provider)
}

/// What the agent of a node expects of it.
fn estimates(node: &NodeView) -> String {
    let Some(told) = &node.performance_estimates else { return String::new() };
    let bandwidth = told.gpu_bandwidth_gb_s.map(|speed| format!("GPU memory {} GB/s", short(speed)));
    let tokens =
        told.estimated_llm_tok_s.map(|rate| format!("{} tokens/s of a reference model", short(rate)));
    let most = told.max_concurrent_containers;
    let containers = (most > 0).then(|| format!("{most} containers at once"));
    [bandwidth, tokens, containers].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Who has a device, or which of its slices are taken.
fn held(gpu: &GpuView) -> String {
    match &gpu.slices {
        Some(slices) if slices.is_empty() => "in slices, all free".to_owned(),
        Some(slices) => format!("in slices, taken {}", slices.join(", ")),
        None => gpu.holder.clone().unwrap_or_default(),
    }
}

fn gpu_table(gpus: &[GpuView]) -> Table {
    let mut table = Table::of(&[">gpu", "model", ">memory held", ">compute held", "job"]).indent(2);
    for gpu in gpus {
        let all = gpu.vram_mib.map_or_else(|| "?".to_owned(), mib);
        table.row(vec![
            gpu.index.to_string().into(),
            Cell::from(match (gpu.model.as_deref().unwrap_or("unknown"), &gpu.capability) {
                (model, Some(capability)) => format!("{model} ({capability})"),
                (model, None) => model.to_owned(),
            }),
            format!("{} of {all}", mib(gpu.vram_committed_mib)).into(),
            format!("{} %", gpu.milli_committed / 10).into(),
            Cell::styled(held(gpu), PLAIN),
        ]);
    }
    table
}
