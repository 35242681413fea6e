//! GPUs of Apple's machines: what `system_profiler` says of them. It is asked once, since it takes a second and they do not change.

use landfall_api::node::GpuFacts;
use landfall_model::gpu_table;
use serde_json::Value;

use super::engines;

const PROGRAM: &str = "system_profiler";
/// A GPU without memory of its own may use three quarters of the machine's, as Metal allows it.
const SHARE: (u64, u64) = (3, 4);

/// The GPUs, where the program is in the search path.
pub async fn gpus(search: &str) -> Vec<GpuFacts> {
    let Some(path) = engines::find(PROGRAM, search) else { return Vec::new() };
    let args = ["SPDisplaysDataType", "SPHardwareDataType", "-json"];
    let told = engines::ask(&path, &args).await.and_then(|text| serde_json::from_str(&text).ok());
    told.map_or_else(Vec::new, |told: Value| listed(&told))
}

fn listed(told: &Value) -> Vec<GpuFacts> {
    let memory = mib(&told["SPHardwareDataType"][0]["physical_memory"]);
    let rows = told["SPDisplaysDataType"].as_array().map_or(&[][..], Vec::as_slice);
    let is_gpu = |row: &&Value| row["sppci_device_type"].as_str().is_none_or(|kind| kind == "spdisplays_gpu");
    let gpu = |(index, row): (u16, &Value)| {
        let model = row["sppci_model"].as_str().or_else(|| row["_name"].as_str());
        let own = mib(&row["spdisplays_vram"]);
        let unified = model.filter(|model| model.starts_with("Apple")).and(memory);
        GpuFacts {
            index,
            model: model.map(|model| with_cores(model, row)),
            vram_mib: own.or_else(|| unified.map(|mib| mib / SHARE.1 * SHARE.0)),
            ..GpuFacts::default()
        }
    };
    (0..).zip(rows.iter().filter(is_gpu)).map(gpu).collect()
}

/// Some models are sold with more or fewer cores, and are faster or slower for it.
fn with_cores(model: &str, row: &Value) -> String {
    let longer = row["sppci_cores"].as_str().map(|cores| format!("{model} {cores}-core GPU"));
    let known = |name: &str| gpu_table::lookup(name).map(|known| &known.row.key);
    longer
        .filter(|longer| known(longer).is_some_and(|it| Some(it) != known(model)))
        .unwrap_or_else(|| model.to_owned())
}

/// An amount as it is written there, such as `16 GB`.
fn mib(text: &Value) -> Option<u64> {
    let (number, unit) = text.as_str()?.split_once(' ')?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "MB" => Some(number),
        "GB" => number.checked_mul(1024),
        "TB" => number.checked_mul(1 << 20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::probe::gpu;

    /// What a machine prints, from a program that stands in for the real one.
    async fn played(says: &str) -> Vec<(Option<String>, Option<u64>)> {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join(PROGRAM);
        std::fs::write(&path, format!("#!/bin/sh\n[ \"$*\" = 'SPDisplaysDataType SPHardwareDataType -json' ] || exit 1\ncat <<'END'\n{says}\nEND\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
        let found = gpus(dir.path().to_str().expect("text")).await;
        // What the agent tells is what all sources found.
        let all = gpu::of_this_machine(dir.path(), found.clone()).gpus();
        assert!(found.iter().all(|gpu| all.iter().any(|other| other.model == gpu.model)), "{all:?}");
        found.into_iter().map(|gpu| (gpu.model, gpu.vram_mib)).collect()
    }

    #[tokio::test]
    async fn apple_tells_its_gpus_and_their_memory() {
        let silicon = r#"{ "SPDisplaysDataType": [{ "_name": "Apple M1 Pro", "sppci_model": "Apple M1 Pro", "sppci_cores": "16",
            "sppci_bus": "spdisplays_builtin", "sppci_device_type": "spdisplays_gpu", "spdisplays_vendor": "sppci_vendor_Apple" }],
            "SPHardwareDataType": [{ "physical_memory": "16 GB" }] }"#;
        assert_eq!(played(silicon).await, [(Some("Apple M1 Pro".into()), Some(12_288))]);
        let fewer = silicon.replace("M1 Pro", "M4 Max").replace("\"16\"", "\"32\"");
        let found = played(&fewer).await;
        let model = found[0].0.as_deref().expect("a name");
        assert_eq!(gpu_table::lookup(model).expect("known").gb_s_with(None), 410.0, "{model}");
        let older = r#"{ "SPDisplaysDataType": [
            { "sppci_model": "Intel UHD Graphics 630", "spdisplays_vram_shared": "1536 MB" },
            { "sppci_model": "AMD Radeon Pro 5500M", "spdisplays_vram": "8 GB", "sppci_device_type": "spdisplays_gpu" },
            { "sppci_model": "A dock", "sppci_device_type": "spdisplays_dock" }],
            "SPHardwareDataType": [{ "physical_memory": "32 GB" }] }"#;
        let both = [
            (Some("Intel UHD Graphics 630".into()), None),
            (Some("AMD Radeon Pro 5500M".into()), Some(8192)),
        ];
        assert_eq!(played(older).await, both);
        assert!(played("not what it used to say").await.is_empty());
        assert!(gpus("/no/such/dir").await.is_empty());
    }
}
