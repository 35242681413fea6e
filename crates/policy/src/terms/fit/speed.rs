//! `speed`: how fast the job would run here, corrected by what was observed.

use crate::params::{ParamInfo, rule};
use crate::rules::fit::{
    BANDWIDTH_PER_GIB, BandwidthSource, Bandwidths, CPU_BANDWIDTH, Runtime, UNKNOWN_BANDWIDTH,
};
use crate::score::clamp100;
use crate::term::{Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::{Mode, View};

pub(super) const MODEL_SHARE: ParamInfo = ParamInfo::at_least(
    "model_share_of_vram",
    0.7,
    0.0,
    "",
    "Size of a model whose size is not declared, as a share of the memory asked.",
);

rule! { Term Speed {
    llm_efficiency: f64 = at_least(0.55, 0.0, "", "Share of the bandwidth that token generation reaches."),
    llm_target_tok_s: f64 = at_least(40.0, 1e-9, "tok/s", "Tokens per second that earn all points."),
    model_share: f64 = MODEL_SHARE,
    mode_factor_gpu: f64 = at_least(1.0, 0.0, "", "Speed of a model on the GPU."),
    mode_factor_offload: f64 = at_least(0.5, 0.0, "", "Speed of a model that is partly in RAM."),
    mode_factor_cpu: f64 = at_least(0.3, 0.0, "", "Speed of a model without GPU."),
    cpu_bandwidth: f64 = CPU_BANDWIDTH,
    unknown_bandwidth: f64 = UNKNOWN_BANDWIDTH,
    bandwidth_per_gib: f64 = BANDWIDTH_PER_GIB,
    diffusers_target_gb_s: f64 = at_least(1000.0, 1e-9, "GB/s", "Bandwidth that earns diffusers all points."),
    container_speed_per_ratio: f64 = at_least(
        25.0, 0.0, "points",
        "Points of a container per time its cores fit into the machine.",
    ),
    wasm_speed_per_core: f64 = at_least(12.5, 0.0, "points", "Points of a WASM job per core."),
} }

/// Points of a model runtime with and without accelerator, and on top with a Metal GPU.
const ACCELERATED: (f64, f64, f64) = (70.0, 30.0, 15.0);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "speed",
    range: (0.0, Some(100.0)),
    unit: "points",
    description: "How fast the job would run on the node, from bandwidth or cores and from observed runs.",
    params: Speed::PARAMS,
    ..TermInfo::of(Family::Fit, Speed::build)
};

impl Speed {
    fn bandwidth(&self, view: &View<'_>) -> (f64, BandwidthSource) {
        let (cpu, unknown) = (self.cpu_bandwidth, self.unknown_bandwidth);
        Bandwidths { cpu, unknown, per_gib: self.bandwidth_per_gib }.of_pair(view)
    }

    /// Tokens per second before correction.
    fn tok_s(&self, view: &View<'_>) -> f64 {
        let model_mib = view.spec.model_mib_f64(self.model_share);
        let factor = match view.devices.mode {
            Mode::Gpu => self.mode_factor_gpu,
            Mode::Offload => {
                let holds_model = view.gpus().any(|device| device.vram_free().as_f64() >= model_mib);
                if holds_model { self.mode_factor_gpu } else { self.mode_factor_offload }
            }
            Mode::Cpu | Mode::None => self.mode_factor_cpu,
        };
        let (gb_s, _) = self.bandwidth(view);
        // A model of no size is refused at submission; this keeps the quotient finite all the same.
        gb_s / (model_mib / 1024.0).max(1e-9) * self.llm_efficiency * factor
    }

    /// Speed before clamping and correction, in points; for an LLM in tokens per second.
    fn raw(&self, view: &View<'_>) -> f64 {
        let cores = view.node.cpu_total.as_f64() / 1000.0;
        match Runtime::of(view.spec) {
            Runtime::Llmcpp => self.tok_s(view),
            Runtime::Container => {
                let asked =
                    if view.spec.cpu_milli.is_zero() { 1.0 } else { view.spec.cpu_milli.as_f64() / 1000.0 };
                self.container_speed_per_ratio * cores / asked
            }
            Runtime::Wasm => self.wasm_speed_per_core * cores,
            Runtime::Model => {
                let (with, without, metal) = ACCELERATED;
                let base = if has_accelerator(view) { with } else { without };
                base + if view.node.health.metal_gpu { metal } else { 0.0 }
            }
            Runtime::Diffusers => 100.0 * self.bandwidth(view).0 / self.diffusers_target_gb_s,
        }
    }
}

/// coreml wants a Neural Engine; onnx an NPU, or any GPU on a desktop.
fn has_accelerator(view: &View<'_>) -> bool {
    let node = view.node;
    if view.spec.runs_with("coreml") {
        return node.health.neural_engine;
    }
    node.health.npu || (node.platform == landfall_model::Platform::Desktop && !node.gpus.is_empty())
}

impl Term for Speed {
    fn score(&self, view: &View<'_>) -> f64 {
        let corrected = self.raw(view) * view.node.correction(&view.spec.runtime).factor;
        match Runtime::of(view.spec) {
            Runtime::Llmcpp => clamp100(corrected / self.llm_target_tok_s * 100.0),
            _ => clamp100(corrected),
        }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let correction = view.node.correction(&view.spec.runtime);
        let raw = self.raw(view);
        let is_llm = Runtime::of(view.spec) == Runtime::Llmcpp;
        facts.note("estimate_unit", Fact::word(if is_llm { "tok/s" } else { "points" }));
        facts.note("estimate_raw", Fact::Number(raw));
        facts.note("correction", Fact::Number(correction.factor));
        facts.note("samples", Fact::Count(correction.samples));
        facts.note("estimate", Fact::Number(raw * correction.factor));
        if is_llm || Runtime::of(view.spec) == Runtime::Diffusers {
            let (gb_s, source) = self.bandwidth(view);
            facts.note("bandwidth_gb_s", Fact::Number(gb_s));
            facts.note("bandwidth_source", Fact::word(source.word()));
        }
    }
}
