//! What a GPU's name tells: memory bandwidth and hardware tier.
//!
//! Names are compared by whole tokens, so `RTX A1000` is not an A100 and a laptop part never inherits the desktop
//! part's figure. The table is data (`data/gpus.tsv`), one row per key with its source.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::{Mib, Name};

/// Longest device name looked at, in characters; no real one is near it.
const NAME_CHARS_MAX: usize = 200;
/// Vendor words that do not tell models apart.
const VENDOR_WORDS: [&str; 5] = ["nvidia", "geforce", "amd", "radeon", "intel"];
/// Series words that are often glued to the number.
const SERIES: [&str; 4] = ["rtx", "gtx", "rx", "arc"];
/// Suffixes that are often glued to the number, longest first.
const SUFFIXES: [&str; 4] = ["super", "xtx", "xt", "ti"];
/// Memory slices of a partitioned device.
const MEMORY_SLICES: f64 = 8.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    NvidiaDatacenter,
    NvidiaWorkstation,
    /// NVIDIA consumer parts.
    NvidiaConsumer,
    AmdRadeon,
    AmdInstinct,
    /// Apple silicon.
    Apple,
    /// Intel Arc.
    Intel,
}

impl Category {
    /// All families with their names in the data file.
    pub const ALL: [(&'static str, Category); 7] = [
        ("nvidia-datacenter", Self::NvidiaDatacenter),
        ("nvidia-workstation", Self::NvidiaWorkstation),
        ("nvidia-consumer", Self::NvidiaConsumer),
        ("amd-radeon", Self::AmdRadeon),
        ("amd-instinct", Self::AmdInstinct),
        ("apple", Self::Apple),
        ("intel", Self::Intel),
    ];
}

/// What a class of hardware costs and earns; never part of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HardwareTier {
    /// No GPU.
    CpuOnly,
    /// Small GPUs.
    Entry,
    /// Middling GPUs.
    MidRange,
    HighEnd,
    /// The largest GPUs.
    Enterprise,
}

impl HardwareTier {
    pub fn multiplier(self) -> f64 {
        match self {
            Self::CpuOnly => 0.5,
            Self::Entry => 1.0,
            Self::MidRange => 1.2,
            Self::HighEnd => 1.5,
            Self::Enterprise => 2.0,
        }
    }

    /// The tier of a model by its bandwidth, for models that no list names.
    pub fn by_bandwidth(gb_s: f64) -> Self {
        match gb_s {
            x if x >= 1500.0 => Self::Enterprise,
            x if x >= 700.0 => Self::HighEnd,
            x if x >= 300.0 => Self::MidRange,
            _ => Self::Entry,
        }
    }
}

/// Models whose tier is fixed by name.
const TIER_KEYS: &[(HardwareTier, &[&str])] = &[
    (HardwareTier::Enterprise, &["h100", "a100", "l40s", "rtx 5090", "rtx 4090"]),
    (
        HardwareTier::HighEnd,
        &[
            "a40",
            "a6000",
            "a5000",
            "rtx 5080",
            "rtx 5070 ti",
            "rtx 4080",
            "rtx 4080 super",
            "rtx 4070 ti super",
            "rtx 3090",
            "rtx 3090 ti",
            "rtx 3080 ti",
            "rx 7900 xt",
            "rx 7900 xtx",
            "apple m4 max",
        ],
    ),
    (
        HardwareTier::MidRange,
        &[
            "l4",
            "t4",
            "a4000",
            "rtx 5070",
            "rtx 4070",
            "rtx 4070 super",
            "rtx 4070 ti",
            "rtx 3080",
            "rtx 3070",
            "rtx 3070 ti",
            "rtx 2080 ti",
            "rtx 2080 super",
            "rx 7800 xt",
            "rx 7700 xt",
            "rx 6900 xt",
            "rx 6800 xt",
            "apple m4 pro",
            "apple m3 max",
            "apple m2 max",
        ],
    ),
    (
        HardwareTier::Entry,
        &[
            "rtx 4060",
            "rtx 4060 ti",
            "rtx 3060",
            "rtx 3060 ti",
            "rtx 2070 super",
            "rtx 2060 super",
            "gtx 1080 ti",
            "gtx 1080",
            "gtx 1070",
            "apple m3 pro",
            "apple m2 pro",
        ],
    ),
];

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The key: lower-case tokens with one space between.
    pub key: String,
    /// Memory bandwidth of the whole device in GB/s.
    pub gb_s: f64,
    pub category: Category,
    /// Where the figure comes from.
    pub source: String,
}

/// What the table knows about a name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Match {
    /// The row that matched.
    pub row: &'static Row,
    /// Bandwidth in GB/s, of the slice if the name is one.
    pub gb_s: f64,
    /// Memory slices of eight, if the name is a slice.
    pub memory_slices: Option<u8>,
}

/// A device model: its name as reported, and what the table knows about it, looked up once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Name", into = "Name")]
pub struct GpuModel {
    /// The name as reported.
    pub name: Name,
    /// What the table knows.
    pub known: Option<Match>,
}

impl GpuModel {
    /// Looks a model up.
    pub fn new(name: Name) -> Arc<Self> {
        Arc::new(Self::from(name))
    }
}

impl From<Name> for GpuModel {
    fn from(name: Name) -> Self {
        let known = lookup(name.as_str());
        Self { name, known }
    }
}

impl From<GpuModel> for Name {
    fn from(model: GpuModel) -> Self {
        model.name
    }
}

struct Key {
    row: Row,
    tokens: Vec<String>,
    marks: Marks,
}

static TABLE: LazyLock<Vec<Key>> = LazyLock::new(|| parse(include_str!("../data/gpus.tsv")));

/// All rows of the table.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().map(|key| &key.row)
}

/// Finds the row for a device name.
pub fn lookup(name: &str) -> Option<Match> {
    let mut tokens = tokens_of(name);
    let memory_slices = match tokens.iter().position(|token| token == "mig") {
        None => None,
        // A slice of unknown size must not inherit the whole device's figure.
        Some(at) => Some(take_slice(&mut tokens, at)?),
    };
    let marks = Marks::of(&tokens);
    let best = TABLE
        .iter()
        .filter(|key| key.marks.include(marks) && occurs_in_order(&key.tokens, &tokens))
        .min_by_key(|key| {
        (std::cmp::Reverse((key.tokens.len(), key.row.key.chars().count())), key.row.key.as_str())
    })?;
    let share = memory_slices.map_or(1.0, |slices| f64::from(slices) / MEMORY_SLICES);
    Some(Match { row: &best.row, gb_s: best.row.gb_s * share, memory_slices })
}

/// Rows whose keys look like a name that the table does not know, nearest first.
pub fn near(name: &str, count: usize) -> Vec<&'static Row> {
    /// How much of a name may differ before a suggestion is noise.
    const LIKENESS_MIN: f64 = 0.6;
    let name = tokens_of(name).join(" ");
    let likeness = |row: &Row| strsim::normalized_damerau_levenshtein(&name, &row.key);
    let mut rows: Vec<_> =
        rows().map(|row| (likeness(row), row)).filter(|(near, _)| *near >= LIKENESS_MIN).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.key.cmp(&b.1.key)));
    rows.into_iter().map(|(_, row)| row).take(count).collect()
}

/// The hardware tier of a device, by name if a list names it, otherwise by bandwidth.
pub fn tier(name: &str, gb_s: f64) -> HardwareTier {
    let tokens = tokens_of(name);
    if Marks::of(&tokens) == Marks::default() {
        let listed = TIER_KEYS
            .iter()
            .flat_map(|&(tier, keys)| keys.iter().map(move |key| (tier, key.split(' ').collect::<Vec<_>>())))
            .filter(|(_, key)| occurs_in_order(key, &tokens))
            .max_by_key(|(_, key)| key.len());
        if let Some((tier, _)) = listed {
            return tier;
        }
    }
    HardwareTier::by_bandwidth(gb_s)
}

/// Estimated tokens per second of a 7B model at 4 bits, as agents report it; `None` without GPU.
pub fn estimated_llm_tok_s(gb_s: f64, vram: Option<Mib>) -> f64 {
    const REFERENCE_MODEL_GB: f64 = 4.5;
    const REFERENCE_MODEL: Mib = Mib::new(4608);
    const EFFICIENCY: f64 = 0.55;
    let factor = match vram {
        Some(vram) if vram >= REFERENCE_MODEL => 1.0,
        Some(_) => 0.5,
        None => 0.3,
    };
    (gb_s / REFERENCE_MODEL_GB * EFFICIENCY * factor).round()
}

fn parse(text: &str) -> Vec<Key> {
    text.lines()
        .skip(1)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| {
            let mut columns = line.split('\t');
            let key = columns.next()?.to_owned();
            let gb_s = columns.next()?.parse().ok()?;
            let category = columns.next()?;
            let (_, category) = Category::ALL.into_iter().find(|(name, _)| *name == category)?;
            let source = columns.next()?.to_owned();
            let tokens: Vec<String> = key.split(' ').map(str::to_owned).collect();
            Some(Key { marks: Marks::of(&tokens), tokens, row: Row { key, gb_s, category, source } })
        })
        .collect()
}

/// Marks of parts that are much slower than the same name without the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Marks {
    laptop: bool,
    mobile: bool,
    max_q: bool,
}

impl Marks {
    /// Whether all of the other's marks are among these.
    fn include(self, other: Self) -> bool {
        (self.laptop || !other.laptop) && (self.mobile || !other.mobile) && (self.max_q || !other.max_q)
    }

    fn of(tokens: &[String]) -> Self {
        Self {
            laptop: tokens.iter().any(|token| token == "laptop"),
            mobile: tokens.iter().any(|token| token == "mobile"),
            max_q: tokens.windows(2).any(|pair| pair[0] == "max" && pair[1] == "q"),
        }
    }
}

fn tokens_of(name: &str) -> Vec<String> {
    let lower: String = name.chars().take(NAME_CHARS_MAX).flat_map(char::to_lowercase).collect();
    let plain: String = lower
        .replace("(r)", "")
        .replace("(tm)", "")
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { ' ' })
        .collect();
    plain
        .split_ascii_whitespace()
        .filter(|token| !VENDOR_WORDS.contains(token))
        .flat_map(|token| unglue(token).unwrap_or_else(|| vec![token.to_owned()]))
        .collect()
}

/// Splits `gtx1080ti` into `gtx 1080 ti` and `6800xt` into `6800 xt`; `None` if the token is not glued.
fn unglue(token: &str) -> Option<Vec<String>> {
    let series = SERIES.into_iter().find(|word| token.starts_with(word));
    let rest = series.map_or(token, |word| &token[word.len()..]);
    let suffix = SUFFIXES.into_iter().find(|word| rest.ends_with(word));
    let middle = suffix.map_or(rest, |word| &rest[..rest.len() - word.len()]);
    let digits = middle.strip_prefix(|c: char| c.is_ascii_lowercase()).unwrap_or(middle);
    let is_number = (3..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number || (series.is_none() && suffix.is_none()) {
        return None;
    }
    Some(series.into_iter().chain([middle]).chain(suffix).map(str::to_owned).collect())
}

/// Removes the words of a slice (`mig 1g.5gb`) and tells its memory slices.
fn take_slice(tokens: &mut Vec<String>, at: usize) -> Option<u8> {
    tokens.remove(at);
    let profile = tokens.iter().position(|token| memory_slices_of(token).is_some())?;
    memory_slices_of(&tokens.remove(profile))
}

/// Memory slices of a profile such as `3g.20gb`.
fn memory_slices_of(profile: &str) -> Option<u8> {
    let (compute, memory) = profile.split_once('.').unwrap_or((profile, ""));
    if !memory.is_empty() && !memory.ends_with("gb") {
        return None;
    }
    match compute {
        "1g" => Some(1),
        "2g" => Some(2),
        "3g" | "4g" => Some(4),
        "7g" => Some(8),
        _ => None,
    }
}

fn occurs_in_order(key: &[impl AsRef<str>], name: &[String]) -> bool {
    let mut name = name.iter();
    key.iter().all(|token| name.any(|other| other == token.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gb_s(name: &str) -> Option<f64> {
        lookup(name).map(|found| found.gb_s)
    }

    #[test]
    fn the_table_is_sound() {
        let data_lines = include_str!("../data/gpus.tsv")
            .lines()
            .skip(1)
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
            .count();
        assert_eq!(rows().count(), data_lines, "every row parses");
        assert!(rows().count() >= 120, "{}", rows().count());
        let mut keys: Vec<_> = rows().map(|row| &row.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), data_lines, "no key twice");
        for (_, category) in Category::ALL {
            assert!(rows().any(|row| row.category == category), "{category:?}");
        }
        for row in rows() {
            assert_eq!(
                lookup(&row.key).map(|found| &found.row.key),
                Some(&row.key),
                "every key finds itself"
            );
            assert!((20.0..=20_000.0).contains(&row.gb_s), "{}", row.key);
            assert!(!row.source.is_empty(), "{}", row.key);
        }
    }

    #[test]
    fn real_names_find_their_key() {
        for line in include_str!("../data/gpu_names.tsv").lines().skip(1).filter(|line| !line.is_empty()) {
            let (name, want) = line.split_once('\t').expect("two columns");
            let got = lookup(name).map_or("-", |found| found.row.key.as_str());
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn f27_lookup() {
        for (name, want) in [
            ("NVIDIA GeForce RTX 3090", 936.2),
            ("NVIDIA A100-SXM4-40GB", 1555.0),
            ("NVIDIA H100 PCIe", 2039.0),
            ("NVIDIA GeForce RTX 4070 Ti SUPER", 672.0),
            ("Intel(R) Arc(TM) A770 Graphics", 560.0),
            ("GTX1080Ti", 484.0),
        ] {
            assert_eq!(gb_s(name), Some(want), "{name}");
        }
    }

    #[test]
    fn f28_traps() {
        for (name, wrong) in [
            ("RTX A1000", 2039.0),
            ("T400", 320.0),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", 1008.0),
            ("Apple M10", 68.25),
            ("RX 6800M", 512.0),
        ] {
            assert_ne!(gb_s(name), Some(wrong), "{name}");
        }
        assert_eq!(lookup("A10G").map(|found| found.row.key.as_str()), Some("a10g"));
        assert_eq!(lookup("gtx 1080 max PCIe q").map(|found| found.row.key.as_str()), Some("gtx 1080 max q"));
        let key = |name| lookup(name).map(|found| found.row.key.as_str());
        let parts = ["RTX 6000 Ada", "Quadro RTX 6000", "RTX PRO 6000", "RTX A6000"].map(key);
        for (position, part) in parts.iter().enumerate() {
            assert!(part.is_some() && !parts[..position].contains(part), "{parts:?}");
        }
    }

    #[test]
    fn f31_slices_have_their_share() {
        assert_eq!(gb_s("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), Some(194.375));
        assert_eq!(gb_s("NVIDIA A100-SXM4-40GB MIG 3g.20gb"), Some(1555.0 / 2.0));
        assert_eq!(gb_s("NVIDIA A100-SXM4-40GB MIG 7g.40gb"), Some(1555.0));
    }

    #[test]
    fn slips_have_near_keys_and_noise_has_none() {
        let keys = |name| near(name, 3).into_iter().map(|row| row.key.as_str()).collect::<Vec<_>>();
        assert_eq!(keys("NVIDIA GeForce RTX 3091").first(), Some(&"rtx 3090"));
        assert!(keys("🚀").is_empty());
        assert!(keys("").is_empty());
    }

    #[test]
    fn f33_estimates() {
        assert_eq!(estimated_llm_tok_s(936.2, Some(Mib::gib(24))), 114.0);
        assert_eq!(estimated_llm_tok_s(360.0, Some(Mib::gib(12))), 44.0);
    }

    #[test]
    fn f43_tiers() {
        for (name, want) in [
            ("RTX 4090", HardwareTier::Enterprise),
            ("NVIDIA A100-SXM4-40GB", HardwareTier::Enterprise),
            ("NVIDIA H100 PCIe", HardwareTier::Enterprise),
            ("RTX A6000", HardwareTier::HighEnd),
            ("RTX 4070 Ti Super", HardwareTier::HighEnd),
            ("RTX 3080", HardwareTier::MidRange),
            ("RTX 3060", HardwareTier::Entry),
            ("Apple M4 Max", HardwareTier::HighEnd),
        ] {
            assert_eq!(tier(name, 1.0), want, "{name}");
        }
        assert_eq!(tier("Mystery 9000", 900.0), HardwareTier::HighEnd);
        assert_eq!(tier("NVIDIA GeForce RTX 4090 Laptop GPU", 576.0), HardwareTier::MidRange);
        assert_eq!(HardwareTier::CpuOnly.multiplier(), 0.5);
    }

    #[test]
    fn odd_names_are_simply_unknown() {
        for name in ["", "🚀", "🚀🚀 RTX", "(((((", &"x".repeat(100_000), "\u{202e}4090"] {
            assert_eq!(gb_s(name), None, "{name:.20}");
        }
    }
}
