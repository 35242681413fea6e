//! Rows as files are written: what reads back equal, without the fields that would say nothing new.
//!
//! A node's row tells what the node is and says; what is committed on it is the ledger's business and not told. Every
//! field that a row has is named by a test.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::build::default_runtimes;
use crate::{
    Block, Budget, DeviceHealth, FeatureNeed, Gpu, Job, Metrics, Mib, Needs, Node, NodeState, Peer, Quota,
    Tenant,
};

/// A job's needs as a row.
#[derive(Debug)]
pub struct Written<'a>(pub &'a Job);

/// A node as a row.
#[derive(Debug)]
pub struct WrittenNode<'a>(pub &'a Node);

/// A tenant as a row.
#[derive(Debug)]
pub struct WrittenTenant<'a>(pub &'a Tenant);

/// A block as a row.
#[derive(Debug)]
pub struct WrittenBlock<'a>(pub &'a Block);

/// Writes fields, and leaves out those that are as usual.
struct Fields<M>(M);

impl<M: SerializeMap> Fields<M> {
    fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), M::Error> {
        self.0.serialize_entry(name, value)
    }

    fn unless<T: Serialize + PartialEq>(&mut self, usual: &T, name: &str, value: &T) -> Result<(), M::Error> {
        if value == usual { Ok(()) } else { self.put(name, value) }
    }

    fn some<T: Serialize>(&mut self, name: &str, value: &Option<T>) -> Result<(), M::Error> {
        value.as_ref().map_or(Ok(()), |value| self.put(name, value))
    }
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(job) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &job.id)?;
        if let Some(waits_for) = &job.waits_for {
            map.serialize_entry("waits_for", waits_for)?;
        }
        if let Some(digest) = &job.digest {
            map.serialize_entry("digest", digest)?;
        }
        Needs::of(&job.spec).write(&mut map)?;
        map.end()
    }
}

impl Serialize for WrittenTenant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Tenant { id, share, usage, burst, work_share, budget, quota } = self.0;
        let Budget { gpu_hours, gpu_hours_used, node_hours, node_hours_used, money, money_used } = budget;
        let Quota { max_nodes, max_cpu_milli, max_gpus, max_jobs, gpu_hours_cap } = quota;
        let mut row = Fields(serializer.serialize_map(None)?);
        row.put("id", id)?;
        row.unless(&0.0, "share", share)?;
        row.unless(&0.0, "usage", usage)?;
        row.unless(&1.0, "burst", burst)?;
        row.some("work_share", work_share)?;
        row.some("gpu_hours", gpu_hours)?;
        row.unless(&0.0, "gpu_hours_used", gpu_hours_used)?;
        row.some("node_hours", node_hours)?;
        row.unless(&0.0, "node_hours_used", node_hours_used)?;
        row.some("max_nodes", max_nodes)?;
        row.some("max_cpu_milli", max_cpu_milli)?;
        row.some("max_gpus", max_gpus)?;
        row.some("max_jobs", max_jobs)?;
        row.some("gpu_hours_cap", gpu_hours_cap)?;
        row.some("money", money)?;
        row.unless(&Default::default(), "money_used", money_used)?;
        row.0.end()
    }
}

impl Serialize for WrittenBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Block { id, provider, instance_type, tier, status, start_at, end_at, .. } = self.0;
        let Block { drain_deadline, cost_per_hour, preemptible, .. } = self.0;
        let mut row = Fields(serializer.serialize_map(None)?);
        row.put("id", id)?;
        row.put("provider", provider)?;
        row.some("instance_type", instance_type)?;
        row.put("tier", tier)?;
        row.put("status", status)?;
        row.some("start_at_ms", start_at)?;
        row.some("end_at_ms", end_at)?;
        row.some("drain_deadline_ms", drain_deadline)?;
        row.unless(&Default::default(), "cost_per_hour", cost_per_hour)?;
        row.unless(&false, "preemptible", preemptible)?;
        row.0.end()
    }
}

impl Serialize for WrittenNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = Fields(serializer.serialize_map(None)?);
        self.standing(&mut row)?;
        self.machine(&mut row)?;
        self.worker(&mut row)?;
        self.place(&mut row)?;
        row.0.end()
    }
}

impl WrittenNode<'_> {
    /// Where it belongs and whether it takes work.
    fn standing<M: SerializeMap>(&self, row: &mut Fields<M>) -> Result<(), M::Error> {
        let Node { id, pool, block, region, platform, approval, accepting, state, cooldown_until, .. } =
            self.0;
        row.put("id", id)?;
        row.some("pool", pool)?;
        row.some("block", &block.as_ref().map(|block| &block.id))?;
        row.some("region", region)?;
        row.unless(&Default::default(), "platform", platform)?;
        row.unless(&Default::default(), "approval", approval)?;
        row.unless(&true, "accepting", accepting)?;
        row.unless(&NodeState::Ready, "state", state)?;
        row.some("cooldown_until_ms", cooldown_until)
    }

    /// What it is, has and says about its load.
    fn machine<M: SerializeMap>(&self, row: &mut Fields<M>) -> Result<(), M::Error> {
        let Node { runtimes, cpu_total, ram_total, ram_reported, gpus, gpu_bandwidth_gb_s, .. } = self.0;
        let Node { wasm_limit, active_reported, cache, images, karma, corrections, health, platform, .. } =
            self.0;
        row.unless(&default_runtimes(*platform), "supported_runtimes", runtimes)?;
        row.put("cpu_milli", cpu_total)?;
        row.put("ram_mib", ram_total)?;
        row.some("memory_used_mb", ram_reported)?;
        if !gpus.is_empty() {
            row.put("gpus", &gpus.iter().map(WrittenGpu).collect::<Vec<_>>())?;
        }
        row.some("gpu_bandwidth_gb_s", gpu_bandwidth_gb_s)?;
        row.some("wasm_memory_limit_mb", wasm_limit)?;
        row.unless(&0, "active_jobs", active_reported)?;
        row.unless(&Default::default(), "cache", cache)?;
        row.unless(&Default::default(), "images", images)?;
        // A row holds less than a life of good service may earn; ties only are broken by it.
        row.unless(&0, "karma", &i32::try_from(*karma).unwrap_or(i32::MAX))?;
        row.unless(&Default::default(), "corrections", corrections)?;
        let DeviceHealth { thermal, battery_pct, charging, neural_engine, npu, metal_gpu } = health;
        row.some("thermal", thermal)?;
        row.some("battery_pct", battery_pct)?;
        row.some("charging", charging)?;
        row.unless(&false, "neural_engine", neural_engine)?;
        row.unless(&false, "npu", npu)?;
        row.unless(&false, "metal_gpu", metal_gpu)
    }

    /// What it can do as a worker that asks, and as a peer.
    fn worker<M: SerializeMap>(&self, row: &mut Fields<M>) -> Result<(), M::Error> {
        let Node { metrics, capabilities, features, tenants, max_concurrent, peer, .. } = self.0;
        row.some("metrics", &metrics.as_ref().map(WrittenMetrics))?;
        if let Some(able) = capabilities {
            row.put("architectures", &able.architectures)?;
            row.put("fetch", &able.fetch)?;
            row.put("eval", &able.eval)?;
        }
        let features: Vec<FeatureNeed> =
            features.iter().map(|(name, count)| FeatureNeed { name: name.clone(), count: *count }).collect();
        row.unless(&Vec::new(), "features", &features)?;
        row.unless(&Default::default(), "tenants", tenants)?;
        row.unless(&1, "max_concurrent", max_concurrent)?;
        row.some("peer", &peer.as_deref().map(WrittenPeer))
    }

    /// Where it lies, and what lies inside it.
    fn place<M: SerializeMap>(&self, row: &mut Fields<M>) -> Result<(), M::Error> {
        let Node { group, fingerprint, drifted, links, memory_domains, unified_memory, power, .. } = self.0;
        row.some("group", group)?;
        row.some("fingerprint", fingerprint)?;
        row.unless(&false, "drifted", drifted)?;
        if let Some(links) = links {
            row.put("links", &links.rows().map(WrittenLink).collect::<Vec<_>>())?;
        }
        row.unless(&Vec::new(), "memory_domains", memory_domains)?;
        row.unless(&false, "unified_memory", unified_memory)?;
        row.some("power", power)?;
        row.some("maintenance_at_ms", &self.0.maintenance_at)
    }
}

struct WrittenGpu<'a>(&'a Gpu);

impl Serialize for WrittenGpu<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Gpu { index, model, vram, vram_reported, bandwidth_gb_s, link_group, slices, .. } = self.0;
        let Gpu { capability, .. } = self.0;
        let mut row = Fields(serializer.serialize_map(None)?);
        row.put("index", index)?;
        row.some("model", &model.as_ref().map(|model| &model.name))?;
        row.some("vram_mib", vram)?;
        row.unless(&Mib::ZERO, "vram_used_mib", vram_reported)?;
        row.some("bandwidth_gb_s", bandwidth_gb_s)?;
        row.some("link_group", link_group)?;
        row.some("capability", capability)?;
        row.some("slices", slices)?;
        row.0.end()
    }
}

struct WrittenLink((u16, u16, u32));

impl Serialize for WrittenLink {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self((from, to, gb_s)) = self;
        let mut row = Fields(serializer.serialize_map(None)?);
        row.put("from", from)?;
        row.put("to", to)?;
        row.put("gb_s", gb_s)?;
        row.0.end()
    }
}

struct WrittenMetrics<'a>(&'a Metrics);

impl Serialize for WrittenMetrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Metrics { cpu_count, cpu_core_score, ram_total_mib, ram_free_mib, .. } = self.0;
        let Metrics { cpu_usage_pct, disk_mb_s, network_mbit_s, .. } = self.0;
        let mut row = Fields(serializer.serialize_map(None)?);
        row.put("cpu_count", cpu_count)?;
        row.put("cpu_core_score", cpu_core_score)?;
        row.put("ram_total_mib", ram_total_mib)?;
        row.some("ram_free_mib", ram_free_mib)?;
        row.some("cpu_usage_pct", cpu_usage_pct)?;
        row.some("disk_mb_s", disk_mb_s)?;
        row.some("network_mbit_s", network_mbit_s)?;
        row.0.end()
    }
}

struct WrittenPeer<'a>(&'a Peer);

impl Serialize for WrittenPeer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Peer { trust, queued, cost, start_delay_ms, rtt_ms, scope, cell, data, cpu_measured, .. } =
            self.0;
        let Peer { cpu_own, ram_measured, ram_own, probe_age_ms, storage_free, .. } = self.0;
        let Peer { network_mbit_s, gpu_capability, .. } = self.0;
        let mut row = Fields(serializer.serialize_map(None)?);
        row.put("trust", trust)?;
        row.put("queued", queued)?;
        row.some("cost", cost)?;
        row.some("start_delay_ms", start_delay_ms)?;
        row.some("rtt_ms", rtt_ms)?;
        row.put("scope", scope)?;
        row.some("cell", cell)?;
        row.put("data", data)?;
        row.put("cpu_measured_milli", cpu_measured)?;
        row.put("cpu_own_milli", cpu_own)?;
        row.put("ram_measured_mib", ram_measured)?;
        row.put("ram_own_mib", ram_own)?;
        row.put("probe_age_ms", probe_age_ms)?;
        row.some("storage_free_mib", storage_free)?;
        row.some("network_mbit_s", network_mbit_s)?;
        row.some("gpu_capability", gpu_capability)?;
        row.0.end()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, NodeRow, Rows, decode};
    use super::*;
    use crate::Time;

    /// One row that gives every field a value that is not the usual one; `count` and what is committed are not facts of a node.
    const NODE: &str = r#"{"id": "n", "pool": "p", "block": "b", "region": "eu", "platform": "android",
        "approval": "pending", "accepting": false, "cooldown_until_ms": 5, "state": "draining",
        "supported_runtimes": ["onnx"], "cpu_milli": 4000, "ram_mib": 100, "memory_used_mb": 7,
        "gpus": [{"index": 3, "model": "A100", "vram_mib": 9, "vram_used_mib": 2, "bandwidth_gb_s": 1.5,
        "link_group": 1, "capability": "sm_80", "slices": {"taken": [[1, 0]]}}], "gpu_bandwidth_gb_s": 3.5, "wasm_memory_limit_mb": 6,
        "active_jobs": 2, "cache": ["w"], "images": ["quay.io/a/b:1"], "karma": 9, "corrections": {"onnx": {"factor": 0.5, "samples": 3}},
        "thermal": "fair", "battery_pct": 50, "charging": true, "neural_engine": true, "npu": true, "metal_gpu": true,
        "metrics": {"cpu_count": 4, "cpu_core_score": 5, "ram_total_mib": 90, "ram_free_mib": 80, "cpu_usage_pct": 1.5,
        "disk_mb_s": 2.5, "network_mbit_s": 3.5}, "architectures": ["arm64"], "fetch": true, "eval": true,
        "features": [{"name": "kvm", "count": 2}], "tenants": ["t"], "max_concurrent": 3, "group": "rack",
        "fingerprint": "f", "drifted": true, "links": [{"from": 0, "to": 1, "gb_s": 600}],
        "memory_domains": [{"cpus": 2, "gpus": 1}], "unified_memory": true, "power": {"idle_w": 1, "busy_w": 2},
        "maintenance_at_ms": 77, "peer": {"trust": 0.5, "queued": 1, "cost": 2, "start_delay_ms": 3, "rtt_ms": 4.5,
        "scope": "org", "cell": "c", "data": ["d"], "cpu_measured_milli": 5, "cpu_own_milli": 6, "ram_measured_mib": 7,
        "ram_own_mib": 8, "probe_age_ms": 9, "storage_free_mib": 10, "network_mbit_s": 11, "gpu_capability": "sm_90"}}"#;

    fn rows() -> Rows {
        let mut rows = Rows::default();
        let block = r#"{"id": "b", "provider": "prime", "instance_type": "8xH100", "tier": "FLEX", "status": "selling",
            "start_at_ms": 1, "end_at_ms": 9, "drain_deadline_ms": 8, "cost_per_hour": 5, "preemptible": true}"#;
        let read = rows.block(decode(block, Format::Json).unwrap(), Time::ZERO, "block").unwrap();
        let written = serde_json::to_string(&WrittenBlock(&read)).unwrap();
        let again = rows.block(decode(&written, Format::Json).unwrap(), Time::ZERO, "block").unwrap();
        assert_eq!(again, read, "{written}");
        rows
    }

    fn node(text: &str) -> Node {
        let row: NodeRow = decode(text, Format::Json).unwrap();
        rows().nodes(row, Time::ZERO, "node").unwrap().remove(0)
    }

    #[test]
    fn nodes_and_their_blocks_read_back_equal() {
        for text in
            [NODE, r#"{"id": "n"}"#, r#"{"id": "n", "platform": "ios", "cpu_milli": 1, "gpus": [{}, {}]}"#]
        {
            let read = node(text);
            let written = serde_json::to_string(&WrittenNode(&read)).unwrap();
            assert_eq!(node(&written), read, "{written}");
        }
        let bare = serde_json::to_string(&WrittenNode(&node(r#"{"id": "n"}"#))).unwrap();
        assert_eq!(bare, r#"{"id":"n","cpu_milli":0,"ram_mib":0}"#);
    }

    #[test]
    fn every_field_of_a_node_is_written() {
        let given: serde_json::Value = serde_json::from_str(NODE).unwrap();
        let written = serde_json::to_value(WrittenNode(&node(NODE))).unwrap();
        let names = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(names(&written), names(&given));
    }

    #[test]
    fn tenants_read_back_equal() {
        let tenant =
            |text: &str| Rows::default().tenant(&decode(text, Format::Json).unwrap(), "tenant").unwrap();
        for text in [
            r#"{"id": "t"}"#,
            r#"{"id": "t", "share": 0.5, "usage": 0.25, "burst": 2.0, "work_share": 0.1, "gpu_hours": 1.0,
            "gpu_hours_used": 2.0, "node_hours": 3.0, "node_hours_used": 4.0, "max_nodes": 5.0, "max_cpu_milli": 1500, "max_gpus": 6,
            "max_jobs": 7, "gpu_hours_cap": 8.0, "money": 9.5, "money_used": 0.000001}"#,
        ] {
            let read = tenant(text);
            let written = serde_json::to_string(&WrittenTenant(&read)).unwrap();
            assert_eq!(tenant(&written), read, "{written}");
        }
    }
}
