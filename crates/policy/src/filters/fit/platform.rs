//! Filter `platform`: the runtime exists for the node's platform.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::{Name, Platform};

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "platform",
    description: "Admits nodes of a platform that the runtime exists for.",
    reasons: &[Reason::PlatformMismatch],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let platforms = platforms_of(view.spec.runtime.as_str());
    if platforms.contains(&view.node.platform) {
        return None;
    }
    let (needed, found) = (
        Quantity::Names(platforms.iter().filter_map(|platform| Name::new(word(*platform)).ok()).collect()),
        Quantity::word(word(view.node.platform)),
    );
    let refusal = Refusal::never(Reason::PlatformMismatch, needed, found, Wake::Nothing);
    Some(refusal.remedy("use another runtime, or a node of another platform"))
}

/// Platforms that a runtime exists for.
fn platforms_of(runtime: &str) -> &'static [Platform] {
    match runtime {
        "wasm" => &[Platform::Desktop, Platform::Ios, Platform::Android, Platform::Browser],
        "llmcpp" => &[Platform::Desktop, Platform::Ios, Platform::Browser],
        "onnx" => &[Platform::Desktop, Platform::Android],
        "coreml" => &[Platform::Ios],
        _ => &[Platform::Desktop],
    }
}

fn word(platform: Platform) -> &'static str {
    match platform {
        Platform::Desktop => "desktop",
        Platform::Ios => "ios",
        Platform::Android => "android",
        Platform::Browser => "browser",
    }
}
