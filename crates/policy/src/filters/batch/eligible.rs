//! Which nodes a job could use at all: every filter of this family but occupancy.

use landfall_model::{JobSpec, Node, World};

use super::{
    block_end, cpu, feature, fingerprint, gpu_count, gpu_memory, gpu_model, memory, state, taken,
    unified_memory,
};
use crate::view::Pass;

/// Whether every filter but occupancy admits the node.
pub(crate) fn is_eligible(spec: &JobSpec, node: &Node, pass: &Pass<'_>) -> bool {
    state::admits(spec, node) && block_end::admits(spec, node, pass.now) && suits(spec, node, pass.world)
}

/// Whether every filter admits the node that looks neither at the clock nor at the node's state or occupancy.
pub(crate) fn suits(spec: &JobSpec, node: &Node, world: &World) -> bool {
    misfits(spec, node, world).next().is_none()
}

/// The reasons of those filters that do not.
pub(crate) fn misfits(spec: &JobSpec, node: &Node, world: &World) -> impl Iterator<Item = &'static str> {
    let checks: [(&'static str, bool); 8] = [
        ("gpu_count", gpu_count::admits(spec, node)),
        ("cpu", cpu::admits(spec, node)),
        ("memory", memory::admits(spec, node)),
        ("unified_memory", unified_memory::admits(spec, node)),
        ("fingerprint", fingerprint::admits(spec, node, world)),
        ("feature", feature::admits(spec, node)),
        ("gpu_model", gpu_model::admits(spec, node)),
        ("gpu_memory", gpu_memory::admits(spec, node)),
    ];
    checks.into_iter().filter(|(_, admits)| !admits).map(|(reason, _)| reason)
}

/// Whether occupancy admits the node.
pub(crate) fn is_free(spec: &JobSpec, node: &Node) -> bool {
    taken::admits(spec, node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::batch::ALL;
    use crate::terms::batch::testing::{with_params, with_view};

    /// One pair per filter of nodes (all but the first) that only this filter refuses: the node's fields, then the job's.
    const PAIRS: [(&str, &str, &str); 11] = [
        ("batch-state", r#"state = "drained""#, "class = 5"),
        ("batch-taken", r#"placements = [{ job = "x" }]"#, "class = 5"),
        ("batch-gpu-model", r#"gpus = [{ model = "A" }]"#, r#"gpu_count = 1, gpu_models = ["B"]"#),
        ("batch-gpu-count", "gpus = [{ count = 2 }]", "gpu_count = 3"),
        ("batch-gpu-memory", "gpus = [{ vram_mib = 2 }]", "gpu_count = 1, vram_mib = 3"),
        ("batch-cpu", "cpu_milli = 1", "cpu_milli = 2"),
        ("batch-memory", "ram_mib = 1", "ram_mib = 2"),
        ("batch-feature", r#"features = ["a"]"#, r#"features = ["b"]"#),
        ("batch-unified-memory", "unified_memory = false", "unified_memory = true"),
        ("batch-fingerprint", "drifted = true", "sensitive = true"),
        ("batch-block-end", r#"block = "b""#, r#"lifecycle = "unbounded""#),
    ];

    #[test]
    fn eligible_and_free_is_what_all_filters_admit() {
        assert_eq!(
            PAIRS.map(|(name, ..)| name),
            ALL.iter().skip(1).map(|info| info.name).collect::<Vec<_>>()[..]
        );
        for (name, node, job) in PAIRS {
            let scenario = format!(
                r#"blocks = [{{ id = "b", ends_in_ms = 1000 }}]
                nodes = [{{ id = "n", {node} }}]
                jobs = [{{ id = "j", {job} }}]"#
            );
            with_view(&scenario, false, |view| {
                let refuses = |info: &&crate::filter::FilterInfo| {
                    with_params("", info.build).unwrap().check(view).is_some()
                };
                let refusing: Vec<_> = ALL.iter().copied().filter(refuses).map(|info| info.name).collect();
                assert_eq!(refusing, [name]);
                assert_eq!(is_eligible(view.spec, view.node, view.pass), name == "batch-taken", "{name}");
                assert_eq!(is_free(view.spec, view.node), name != "batch-taken", "{name}");
            });
        }
    }
}
