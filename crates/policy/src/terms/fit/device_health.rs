//! `device-health`: takes points from hot phones and phones on battery.

use landfall_model::{DeviceHealth, Platform, Thermal};

use crate::term::{Family, Term, TermInfo, TermKind};
use crate::verdict::{Fact, Facts};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "device-health",
    class: TermKind::Disqualifier,
    range: (-50.0, Some(0.0)),
    unit: "points",
    description: "Takes points from devices that are hot or run on a nearly empty battery.",
    ..TermInfo::of(Family::Fit, |_| Ok(Box::new(HealthPenalty)))
};

struct HealthPenalty;

fn applies(view: &View<'_>) -> bool {
    let runtime = view.spec.runtime.as_str();
    matches!(runtime, "coreml" | "onnx") || matches!(view.node.platform, Platform::Ios | Platform::Android)
}

fn heat(health: &DeviceHealth) -> f64 {
    match health.thermal {
        Some(Thermal::Critical) => 30.0,
        Some(Thermal::Serious) => 15.0,
        Some(Thermal::Fair | Thermal::Nominal) | None => 0.0,
    }
}

fn battery(health: &DeviceHealth) -> f64 {
    match (health.charging, health.battery_pct) {
        (Some(false), Some(..10)) => 20.0,
        (Some(false), Some(..20)) => 10.0,
        _ => 0.0,
    }
}

impl Term for HealthPenalty {
    fn score(&self, view: &View<'_>) -> f64 {
        if applies(view) { -(heat(&view.node.health) + battery(&view.node.health)) } else { 0.0 }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        if applies(view) {
            facts.note("heat_penalty", Fact::Number(heat(&view.node.health)));
            facts.note("battery_penalty", Fact::Number(battery(&view.node.health)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f24_battery() {
        for (battery_pct, charging, want) in [
            (9, Some(false), 20.0),
            (10, Some(false), 10.0),
            (19, Some(false), 10.0),
            (20, Some(false), 0.0),
            (5, Some(true), 0.0),
            (5, None, 0.0),
        ] {
            let health = DeviceHealth { battery_pct: Some(battery_pct), charging, ..DeviceHealth::default() };
            assert_eq!(battery(&health), want, "{battery_pct} {charging:?}");
        }
    }

    #[test]
    fn the_worst_case_is_the_range() {
        let health = DeviceHealth {
            thermal: Some(Thermal::Critical),
            battery_pct: Some(0),
            charging: Some(false),
            ..DeviceHealth::default()
        };
        assert_eq!(-(heat(&health) + battery(&health)), INFO.range.0);
    }
}
