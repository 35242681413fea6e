//! What an operator may set about buying and releasing capacity, and in which range.

use landfall_model::{Mib, MilliCpu, Millis, Money, ProviderKind, settings};
use serde::{Deserialize, Serialize};

/// How long new capacity is leased, unless the provider grants less.
pub const LEASE: Millis = Millis::secs(86_400);
/// Memory asked of each GPU.
pub const VRAM_PER_GPU: Mib = Mib::gib(80);
/// CPU asked for each GPU.
pub const CPU_PER_GPU: MilliCpu = MilliCpu::cores(8);
/// RAM asked for each GPU.
pub const RAM_PER_GPU: Mib = Mib::gib(64);
/// Wait after every provider failed once; doubled each time they all fail again.
pub const BACK_OFF_FIRST: Millis = Millis::secs(60);
/// Longest wait after failed purchases.
pub const BACK_OFF_MAX: Millis = Millis::secs(900);
/// Price per GPU-hour that is assumed of an exact provider that cannot be reached.
pub const FALLBACK_PRICE: Money = Money::new(500_000);
/// Least CPU of an offer whose price is assumed.
pub const FALLBACK_CPU: MilliCpu = MilliCpu::cores(8);
/// Least RAM of an offer whose price is assumed.
pub const FALLBACK_RAM: Mib = Mib::gib(32);

settings! {
    /// When and what the autoscaler buys and releases.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct AutoscaleSettings {
        /// How often it runs.
        pub autoscale_interval_ms: Millis = Millis::secs(60),
        /// FAST capacity kept per GPU that is used or waited for.
        pub fast_safety_factor: f64 = 1.5,
        /// GPUs that bulk purchases are a multiple of.
        pub unit_gpus: u32 = 8,
        /// A queue of at least one unit for this long makes demand sustained.
        pub consolidation_window_ms: Millis = Millis::secs(900),
        /// FAST capacity is released only while less than this share of it is used.
        pub downscale_utilisation: f64 = 0.3,
        /// FAST GPUs that are never released.
        pub fast_warm_gpus: u32 = 10,
        /// Time between two rounds of releases.
        pub downscale_cooldown_ms: Millis = Millis::secs(600),
        /// How long a block of an exact provider is idle before it may be released.
        pub idle_cooldown_exact_ms: Millis = Millis::secs(300),
        /// How long a block of a bulk provider is idle before it may be released.
        pub idle_cooldown_bulk_ms: Millis = Millis::secs(1800),
        /// Whether a block larger than the surplus may be released.
        pub allow_overshoot: bool = false,
        /// Most that a FLEX GPU-hour may cost, in micro-units.
        pub flex_max_price: Money = Money::new(10_000_000),
        /// Most that a GPU-hour of an exact provider may cost, in micro-units.
        pub exact_max_price: Money = Money::new(4_000_000),
        /// Longest startup of an exact provider that is used.
        pub exact_startup_sla_ms: Millis = Millis::secs(300),
        /// How long a quote may be acted on.
        pub quote_ttl_ms: Millis = Millis::secs(300),
        /// Levels of an order book that are weighed beyond the first that suffices.
        pub book_lookahead: u32 = 5,
    }
}

/// Why the settings of the autoscaler cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SettingsError {
    /// The setting at fault.
    pub field: &'static str,
    /// What is wrong, for people.
    pub message: String,
}

const MONTH_MS: u64 = 30 * 86_400_000;

impl AutoscaleSettings {
    /// How long a block of that class of provider is idle before it may be released.
    pub fn idle_cooldown(&self, class: ProviderKind) -> Millis {
        match class {
            ProviderKind::Exact => self.idle_cooldown_exact_ms,
            ProviderKind::Bulk => self.idle_cooldown_bulk_ms,
        }
    }

    /// GPUs wanted when `gpus` are used or waited for: `⌊gpus · fast_safety_factor⌋`.
    pub fn fast_target(&self, gpus: u64) -> u64 {
        // As billionths, so that 20 · 1.15 is 23 and not a hair less.
        let factor = (self.fast_safety_factor * 1e9).round().max(0.0) as u128;
        u64::try_from(u128::from(gpus).saturating_mul(factor) / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// Refuses settings outside their range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let err = |field, message| Err(SettingsError { field, message });
        let whole: [(&'static str, u64, u64, u64); 12] = [
            ("autoscale_interval_ms", self.autoscale_interval_ms.get(), 1000, 86_400_000),
            ("unit_gpus", self.unit_gpus.into(), 1, 1024),
            ("consolidation_window_ms", self.consolidation_window_ms.get(), 0, MONTH_MS),
            ("fast_warm_gpus", self.fast_warm_gpus.into(), 0, 1_000_000),
            ("downscale_cooldown_ms", self.downscale_cooldown_ms.get(), 0, MONTH_MS),
            ("idle_cooldown_exact_ms", self.idle_cooldown_exact_ms.get(), 0, MONTH_MS),
            ("idle_cooldown_bulk_ms", self.idle_cooldown_bulk_ms.get(), 0, MONTH_MS),
            ("flex_max_price", self.flex_max_price.get(), 1, Money::MAX),
            ("exact_max_price", self.exact_max_price.get(), 1, Money::MAX),
            ("exact_startup_sla_ms", self.exact_startup_sla_ms.get(), 0, MONTH_MS),
            ("quote_ttl_ms", self.quote_ttl_ms.get(), 1000, 86_400_000),
            ("book_lookahead", self.book_lookahead.into(), 0, 1000),
        ];
        for (field, value, least, most) in whole {
            if value < least || value > most {
                return err(field, format!("{field} must be {least} to {most}, not {value}"));
            }
        }
        let fractions = [
            ("fast_safety_factor", self.fast_safety_factor, 0.1, 100.0),
            ("downscale_utilisation", self.downscale_utilisation, 0.0, 1.0),
        ];
        for (field, value, least, most) in fractions {
            // Written so that NaN is refused as well.
            if !(value >= least && value <= most) {
                return err(field, format!("{field} must be {least} to {most}, not {value}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_settings_are_in_range() {
        assert_eq!(AutoscaleSettings::default().validate(), Ok(()));
    }

    #[test]
    fn a_setting_out_of_range_is_named() {
        let refused = |change: fn(&mut AutoscaleSettings)| {
            let mut settings = AutoscaleSettings::default();
            change(&mut settings);
            settings.validate().err().map(|e| e.field)
        };
        assert_eq!(refused(|s| s.unit_gpus = 0), Some("unit_gpus"));
        assert_eq!(refused(|s| s.unit_gpus = 1025), Some("unit_gpus"));
        assert_eq!(refused(|s| s.fast_safety_factor = f64::NAN), Some("fast_safety_factor"));
        assert_eq!(refused(|s| s.fast_safety_factor = f64::INFINITY), Some("fast_safety_factor"));
        assert_eq!(refused(|s| s.downscale_utilisation = 1.01), Some("downscale_utilisation"));
        assert_eq!(refused(|s| s.flex_max_price = Money::ZERO), Some("flex_max_price"));
        assert_eq!(refused(|s| s.quote_ttl_ms = Millis::new(999)), Some("quote_ttl_ms"));
        assert_eq!(refused(|s| s.downscale_utilisation = 1.0), None);
    }

    #[test]
    fn a_target_is_cut_to_whole_gpus_but_never_by_a_rounding_error() {
        let target = |gpus, factor| {
            AutoscaleSettings { fast_safety_factor: factor, ..AutoscaleSettings::default() }.fast_target(gpus)
        };
        assert_eq!([target(5, 1.5), target(11, 1.5), target(16, 1.5)], [7, 16, 24]);
        assert_eq!([target(20, 1.15), target(10, 1.1), target(3, 1.0), target(0, 9.0)], [23, 11, 3, 0]);
        assert_eq!(target(u64::MAX, 100.0), u64::MAX);
    }
}
