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
/// The same, as they begin a printed name.
const VENDORS: [&str; 2] = ["NVIDIA ", "AMD "];
/// Series words that are often glued to the number.
const SERIES: [&str; 4] = ["rtx", "gtx", "rx", "arc"];
/// Suffixes that are often glued to the number, longest first.
const SUFFIXES: [&str; 4] = ["super", "xtx", "xt", "ti"];
/// Memory slices of a partitioned device.
const MEMORY_SLICES: f64 = 8.0;
/// The word that stands before a virtual GPU's board in old drivers' names, and in the table's keys.
const VIRTUAL: &str = "grid";
/// How far reported memory may be from the size on the box: drivers keep some for themselves.
const MEMORY_TOLERANCE: f64 = 0.12;
/// Words of Apple's chips that make another chip.
const APPLE_SIZES: [&str; 3] = ["pro", "max", "ultra"];
/// Names exactly as drivers print them, vendor left out, that mean another row than their words say.
const PRINTED: [(&str, &str); 3] = [
    // The laptop part is spelled like this, the desktop part with SUPER.
    ("GeForce RTX 2080 Super", "rtx 2080 super laptop"),
    // Sold with either memory under one name: the lower figure.
    ("GeForce RTX 4070", "rtx 4070 gddr6"),
    ("Radeon RX Vega", "rx vega 56"),
];

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
    /// Memory of the device; with several, the agent's memory tells which figure counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Variant>,
}

impl Row {
    /// Whether the name stands for several products, and the figure is the lowest of theirs.
    pub fn is_group(&self) -> bool {
        self.source.starts_with("group:")
    }
}

/// One size of memory under a name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Variant {
    pub memory_gb: f64,
    pub gb_s: f64,
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
    /// The slice's share of the device's memory, if the name is a slice or a virtual GPU.
    pub share: Option<f64>,
    /// Whether the name stands for several products, of which this is the slowest.
    pub group: bool,
}

impl Match {
    /// Bandwidth in GB/s of a device with so much memory, where one name has several.
    pub fn gb_s_with(&self, vram: Option<Mib>) -> f64 {
        let Some(vram) = vram.filter(|_| self.share.is_none() && self.row.memory.len() > 1) else {
            return self.gb_s;
        };
        let off = |variant: &Variant| (vram.as_f64() / 1024.0 / variant.memory_gb - 1.0).abs();
        self.row
            .memory
            .iter()
            .min_by(|a, b| off(a).total_cmp(&off(b)))
            .filter(|nearest| off(nearest) <= MEMORY_TOLERANCE)
            .map_or(self.gb_s, |nearest| nearest.gb_s)
    }
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
    let whole = |row: &'static Row| Match {
        row,
        gb_s: row.gb_s,
        memory_slices: None,
        share: None,
        group: row.is_group(),
    };
    let bare = VENDORS.iter().find_map(|vendor| name.trim().strip_prefix(vendor)).unwrap_or(name.trim());
    if let Some((_, key)) = PRINTED.iter().find(|(printed, _)| *printed == bare) {
        return TABLE.iter().find(|row| row.row.key == *key).map(|key| whole(&key.row));
    }
    if let Some(products) = products_of(name) {
        let known = products.iter().filter_map(|tokens| find(tokens));
        let slowest = known.min_by(|a, b| a.gb_s.total_cmp(&b.gb_s))?;
        return Some(Match { group: true, ..whole(slowest) });
    }
    let mut tokens = tokens_of(name);
    if let Some(at) = tokens.iter().position(|token| token == "mig") {
        // A slice of unknown size must not inherit the whole device's figure.
        let profile = take_slice(&mut tokens, at)?;
        let row = find(&tokens)?;
        let slices = profile.slices_of(memory_gb(row, &tokens))?;
        let share = f64::from(slices) / MEMORY_SLICES;
        let gb_s = row.gb_s * share;
        return Some(Match { gb_s, memory_slices: Some(slices), share: Some(share), ..whole(row) });
    }
    if let Some(gb) = take_virtual(name, &mut tokens) {
        let row = find(&tokens)?;
        let share = (gb / memory_gb(row, &tokens)?).min(1.0);
        return Some(Match { gb_s: row.gb_s * share, share: Some(share), ..whole(row) });
    }
    find(&tokens).map(whole)
}

/// The row of a whole device.
fn find(tokens: &[String]) -> Option<&'static Row> {
    let marks = Marks::of(tokens);
    let has = |tokens: &[String], word: &str| tokens.iter().any(|token| token == word);
    let other_chip = |key: &Key| {
        has(tokens, "apple") && APPLE_SIZES.iter().any(|size| has(tokens, size) && !has(&key.tokens, size))
    };
    TABLE
        .iter()
        .filter(|key| key.marks.include(marks) && occurs_in_order(&key.tokens, tokens) && !other_chip(key))
        .min_by_key(|key| {
            let longest = (key.tokens.len(), key.row.key.chars().count());
            (key.row.is_group(), std::cmp::Reverse(longest), key.row.key.as_str())
        })
        .map(|key| &key.row)
}

/// Memory of a whole device in GB: as its row says, otherwise as its name does.
fn memory_gb(row: &Row, tokens: &[String]) -> Option<f64> {
    let named = || tokens.iter().find_map(|token| token.strip_suffix("gb")?.parse().ok());
    row.memory.first().map(|variant| variant.memory_gb).or_else(named)
}

/// The products of a list in brackets (`Navi 31 [Radeon RX 7900 XT/7900 XTX]`), each as tokens; `None` unless several.
fn products_of(name: &str) -> Option<Vec<Vec<String>>> {
    let has_number = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let (_, list) = name.rsplit_once('[')?;
    let list = list.split_once(']').map_or(list, |(inside, _)| inside);
    let mut products: Vec<String> = Vec::new();
    for part in list.split('/') {
        match products.last_mut().filter(|_| !has_number(part)) {
            // `Max-Q / Mobile`: not another product.
            Some(last) => *last += &format!(" {part}"),
            None => products.push(part.to_owned()),
        }
    }
    let products: Vec<Vec<String>> = products.iter().map(|product| tokens_of(product)).collect();
    let begins_with_number = |token: &String| token.starts_with(|c: char| c.is_ascii_digit());
    let series: Vec<String> =
        products.first()?.iter().take_while(|token| !begins_with_number(token)).cloned().collect();
    (products.len() > 1).then(|| {
        products
            .into_iter()
            .map(|tokens| match tokens.first() {
                Some(first) if begins_with_number(first) => [series.clone(), tokens].concat(),
                _ => tokens,
            })
            .collect()
    })
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
    // No list names a chip of Intel's; their `Pro A40` is not NVIDIA's A40.
    if Marks::of(&tokens) == Marks::default() && !tokens.iter().any(|token| token == "arc") {
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
            let memory = columns.next().map_or(Some(Vec::new()), |sizes| {
                sizes.split(',').map(|size| variant(size, gb_s)).collect::<Option<Vec<_>>>()
            })?;
            let tokens: Vec<String> = key.split(' ').map(str::to_owned).collect();
            Some(Key { marks: Marks::of(&tokens), tokens, row: Row { key, gb_s, category, source, memory } })
        })
        .collect()
}

fn variant(text: &str, whole: f64) -> Option<Variant> {
    let (memory_gb, gb_s) = match text.split_once('=') {
        Some((memory_gb, gb_s)) => (memory_gb, gb_s.parse().ok()?),
        None => (text, whole),
    };
    Some(Variant { memory_gb: memory_gb.parse().ok()?, gb_s })
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

/// A slice as its profile names it: `1g.20gb` has 20 GB, `1g` does not say.
pub struct MigProfile {
    /// Compute slices.
    pub compute: u8,
    /// Memory as the name rounds it.
    pub memory_gb: Option<f64>,
}

impl MigProfile {
    /// Reads `1g.10gb`, `1g`, or such a word behind `mig` in the name of a device.
    pub fn parse(token: &str) -> Option<Self> {
        let (compute, memory_gb) = match token.rsplit_once('.') {
            Some((compute, memory)) => (compute, Some(memory.strip_suffix("gb")?.parse().ok()?)),
            None => (token, None),
        };
        // Part of a slice's compute, such as 1c.3g.20gb, shares the memory of the whole slice.
        let compute = compute.rsplit_once('.').map_or(compute, |(_, slice)| slice);
        let compute = compute.strip_suffix('g')?.parse().ok()?;
        (1..=7).contains(&compute).then_some(Self { compute, memory_gb })
    }

    /// The slice that a device is by its name, such as `NVIDIA A100-SXM4-80GB MIG 1g.10gb`.
    pub fn of_device(name: &str) -> Option<Self> {
        let (_, profile) = name.split_once(" MIG ")?;
        Self::parse(profile.split(['+', ' ']).next()?)
    }

    /// Memory that a job can count on: drivers keep some of what the name says.
    pub fn memory(&self) -> Option<Mib> {
        self.memory_gb.map(|gb| Mib::new((gb * 0.9e9 / f64::from(1 << 20)) as u64))
    }

    /// Memory slices: the share of memory if both sizes are known. Names round sizes, slices are whole.
    fn slices_of(&self, device_gb: Option<f64>) -> Option<u8> {
        match self.memory_gb.zip(device_gb) {
            Some((slice, device)) => {
                Some((slice / device * MEMORY_SLICES).round().clamp(1.0, MEMORY_SLICES) as u8)
            }
            None => match self.compute {
                1 | 2 => Some(self.compute),
                3 | 4 => Some(4),
                7 => Some(8),
                _ => None,
            },
        }
    }
}

/// Removes the words of a slice (`mig 1g.5gb`).
fn take_slice(tokens: &mut Vec<String>, at: usize) -> Option<MigProfile> {
    tokens.remove(at);
    let profile = tokens.iter().position(|token| MigProfile::parse(token).is_some())?;
    MigProfile::parse(&tokens.remove(profile))
}

/// Removes the words of a virtual GPU's size (`A100-1-5C`, `T4-2Q`) and tells its memory in GB; `None` if it is none.
fn take_virtual(name: &str, tokens: &mut Vec<String>) -> Option<f64> {
    let (board, size) = name.trim().rsplit_once('-')?;
    let size = size.strip_suffix("ME").unwrap_or(size);
    let digits = size.strip_suffix(['A', 'B', 'C', 'Q', 'a', 'b', 'c', 'q'])?;
    let gb: u32 = digits.parse().ok()?;
    tokens.pop();
    let slice = board.rsplit_once('-').is_some_and(|(_, slice)| matches!(slice.as_bytes(), [b'1'..=b'7']));
    if slice {
        tokens.pop();
    }
    if !tokens.iter().any(|token| token == VIRTUAL) {
        tokens.insert(0, VIRTUAL.to_owned());
    }
    // The smallest have half a GB and say 0.
    Some(if gb == 0 { 0.5 } else { f64::from(gb) })
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
    fn figures_of_printed_names() {
        let (mut count, mut wrong) = (0, String::new());
        for line in include_str!("../data/gpu_figures.tsv").lines().skip(1).filter(|line| !line.is_empty()) {
            let [name, memory, want] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("three columns: {line}")
            };
            let vram = memory.parse().ok().map(|gib: f64| Mib::new((gib * 1024.0) as u64));
            let got = lookup(name).map(|found| found.gb_s_with(vram));
            let right = match (want.parse::<f64>().ok(), got) {
                (None, None) => true,
                (Some(want), Some(got)) => (got - want).abs() < 1e-6,
                _ => false,
            };
            count += 1;
            if !right {
                wrong += &format!("{name} with {memory} GiB: {got:?}, not {want}\n");
            }
        }
        assert!(wrong.is_empty() && count > 100, "{count} names\n{wrong}");
    }

    #[test]
    fn groups_have_the_figure_of_their_slowest_product() {
        let groups: Vec<&Row> = rows().filter(|row| row.is_group()).collect();
        assert!(groups.len() > 10);
        for row in groups {
            let products = row.source.trim_start_matches("group:").split(',').map(str::trim);
            let slowest = products
                .map(|key| rows().find(|row| row.key == key).unwrap_or_else(|| panic!("{key}")).gb_s)
                .fold(f64::INFINITY, f64::min);
            assert_eq!(row.gb_s, slowest, "{}", row.key);
            assert!(lookup(&row.key).is_some_and(|found| found.group));
        }
        assert!(lookup("Navi 31 [Radeon RX 7900 XT/7900 XTX]").is_some_and(|found| found.group));
        assert!(lookup("GA102 [GeForce RTX 3090]").is_some_and(|found| !found.group));
    }

    #[test]
    fn the_first_size_of_a_row_has_the_rows_figure() {
        for row in rows().filter(|row| !row.memory.is_empty()) {
            assert_eq!(row.memory[0].gb_s, row.gb_s, "{}", row.key);
            assert!(row.memory.iter().all(|variant| variant.memory_gb > 0.0), "{}", row.key);
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
