//! When two nodes are alike: in everything but who they are and which jobs they run.
//!
//! What is judged of one of them holds for the other, so whoever judges thousands need look at one of each likeness. Every field is
//! named here, so that a new one has to be thought of.

use crate::{Gpu, Node, Placement};

impl Node {
    /// Whether the nodes are alike but for their ids and the names of the jobs they run. `closely` compares what each job holds; otherwise
    /// it is enough that as many jobs hold the same together.
    pub fn is_like(&self, other: &Self, closely: bool) -> bool {
        let Self {
            id: _,
            pool,
            lent_to,
            block,
            region,
            platform,
            approval,
            accepting,
            heartbeat_at,
            cooldown_until,
            state,
            runtimes,
            cpu_total,
            cpu_committed,
            ram_total,
            ram_committed,
            ram_reported,
            gpus,
            gpu_bandwidth_gb_s,
            wasm_limit,
            active_reported,
            placements,
            cache,
            images,
            karma,
            corrections,
            health,
            metrics,
            capabilities,
            features,
            tenants,
            max_concurrent,
            group,
            fingerprint,
            acknowledged,
            drifted,
            links,
            memory_domains,
            unified_memory,
            power,
            maintenance_at,
            peer,
            held_devices,
        } = other;
        // What most often differs comes first.
        self.cpu_committed == *cpu_committed
            && self.ram_committed == *ram_committed
            && self.placements.len() == placements.len()
            && alike(&self.gpus, gpus, Gpu::is_like)
            && self.heartbeat_at == *heartbeat_at
            && self.cpu_total == *cpu_total
            && self.ram_total == *ram_total
            && self.ram_reported == *ram_reported
            && self.active_reported == *active_reported
            && self.metrics == *metrics
            && self.karma == *karma
            && self.held_devices == *held_devices
            && self.gpu_bandwidth_gb_s == *gpu_bandwidth_gb_s
            && self.state == *state
            && self.accepting == *accepting
            && self.approval == *approval
            && self.platform == *platform
            && self.drifted == *drifted
            && self.unified_memory == *unified_memory
            && self.max_concurrent == *max_concurrent
            && self.wasm_limit == *wasm_limit
            && self.cooldown_until == *cooldown_until
            && self.maintenance_at == *maintenance_at
            && self.pool == *pool
            && self.lent_to == *lent_to
            && self.block == *block
            && self.region == *region
            && self.group == *group
            && self.fingerprint == *fingerprint
            && self.acknowledged == *acknowledged
            && self.health == *health
            && self.power == *power
            && self.runtimes == *runtimes
            && self.features == *features
            && self.tenants == *tenants
            && self.cache == *cache
            && self.images == *images
            && self.corrections == *corrections
            && self.capabilities == *capabilities
            && self.memory_domains == *memory_domains
            && self.links == *links
            && self.peer == *peer
            && is_taken(&self.placements) == is_taken(placements)
            && (!closely || alike(&self.placements, placements, Placement::is_like))
    }
}

impl Gpu {
    /// Whether the devices are alike but for the names of the jobs that have them.
    fn is_like(&self, other: &Self) -> bool {
        let Self {
            index,
            model,
            vram,
            vram_committed,
            vram_reported,
            bandwidth_gb_s,
            link_group,
            capability,
            slices,
            holder,
            hold,
            milli_committed,
        } = other;
        self.milli_committed == *milli_committed
            && self.vram_committed == *vram_committed
            && self.vram_reported == *vram_reported
            && self.holder.is_some() == holder.is_some()
            && self.hold.is_some() == hold.is_some()
            && self.index == *index
            && self.vram == *vram
            && self.bandwidth_gb_s == *bandwidth_gb_s
            && self.link_group == *link_group
            && self.model.as_ref().map(|model| &model.name) == model.as_ref().map(|model| &model.name)
            && self.capability == *capability
            && self.slices == *slices
    }
}

impl Placement {
    /// Whether jobs that are placed so hold the same, whoever they are.
    fn is_like(&self, other: &Self) -> bool {
        let Self { job: _, cpu, ram, devices, gpu_shape, exclusive_node, expected_duration, walltime } =
            other;
        self.cpu == *cpu
            && self.ram == *ram
            && self.devices == *devices
            && self.gpu_shape == *gpu_shape
            && self.exclusive_node == *exclusive_node
            && self.expected_duration == *expected_duration
            && self.walltime == *walltime
    }
}

fn alike<T>(ones: &[T], others: &[T], is_like: impl Fn(&T, &T) -> bool) -> bool {
    ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| is_like(one, other))
}

/// Whether some job has the node to itself.
fn is_taken(placements: &[Placement]) -> bool {
    placements.iter().any(|placement| placement.exclusive_node)
}
