//! Filter `pull-needs`: declared CPU, RAM and GPU needs fit what the ledger has not given away on the node.

use crate::devices::{MemoryView, enough_qualify};
use crate::filter::{About, FilterInfo};
use crate::refusal::{Finality, Reason, Refusal, cpu_short, devices_short, ram_short};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-needs",
    description: "Admits jobs whose declared CPU, RAM and GPU needs fit the node's free amounts in the ledger.",
    reasons: &[Reason::Needs],
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let devices = !enough_qualify(view.spec, view.node, MemoryView::Committed);
    let gpus = devices.then(|| devices_short(view, MemoryView::Committed, Reason::Needs, Reason::Needs));
    let short = [cpu_short(view, Reason::Needs), ram_short(view, Reason::Needs), gpus];
    // What will never fit is the one to tell: waiting for the others would be in vain.
    short.into_iter().flatten().min_by_key(|refusal| refusal.class != Finality::Never)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal};
    use crate::refusal::Wake;

    const NODE: &str = "cpu_milli = '8 cores'\ncpu_committed_milli = '6 cores'\nram_mib = '16GiB'\n\
                        ram_committed_mib = '8GiB'\n\
                        gpus = [{ vram_mib = '80GiB', vram_committed_mib = '60GiB', milli_committed = 500 },\
                        { vram_mib = '80GiB', model = 'H100' }]";

    #[track_caller]
    fn refused(job: &str, class: Finality, needed: &str, found: &str) {
        let got = refusal(&INFO, job, NODE);
        assert_eq!((got.reason, got.class), (Reason::Needs, class));
        assert_eq!((got.needed.to_string().as_str(), got.found.to_string().as_str()), (needed, found));
        let wake = if class == Finality::Never { Wake::RegistrationChange } else { Wake::PlacementEnded };
        assert_eq!(got.wake, wake);
    }

    #[test]
    fn what_is_free_fits_to_the_last_unit() {
        assert!(admits(&INFO, "", ""));
        assert!(admits(
            &INFO,
            "cpu_milli = '2 cores'\nram_mib = '8GiB'\ngpu_count = 1\nvram_mib = '80GiB'",
            NODE
        ));
        assert!(admits(&INFO, "gpu_count = 1\ngpu_milli = 500\nvram_mib = '20GiB'", NODE));
    }

    #[test]
    fn what_is_taken_may_come_back() {
        refused("cpu_milli = '3 cores'", Finality::NotNow, "3 cores", "2 cores");
        refused("ram_mib = '9GiB'", Finality::NotNow, "9 GiB", "8 GiB");
        refused(
            "gpu_count = 2\nvram_mib = '40GiB'",
            Finality::NotNow,
            "2 GPUs with 40 GiB each",
            "1 that would do, most free memory 80 GiB",
        );
    }

    #[test]
    fn what_the_node_has_not_will_never_do() {
        refused("cpu_milli = '9 cores'", Finality::Never, "9 cores", "2 cores");
        refused("ram_mib = '17GiB'", Finality::Never, "17 GiB", "8 GiB");
        refused("gpu_count = 3", Finality::Never, "3 GPUs", "2");
        refused("gpu_count = 1\ngpu_models = ['A100']", Finality::Never, "a GPU", "0");
    }

    #[test]
    fn what_will_never_fit_is_told_first() {
        refused("cpu_milli = '3 cores'\nram_mib = '17GiB'", Finality::Never, "17 GiB", "8 GiB");
    }

    #[test]
    fn reported_use_is_no_matter_of_the_ledger() {
        assert!(admits(&INFO, "ram_mib = '16GiB'", "ram_mib = '16GiB'\nmemory_used_mb = '16GiB'"));
        let used = "gpus = [{ vram_mib = '80GiB', vram_used_mib = '80GiB' }]";
        assert!(admits(&INFO, "gpu_count = 1\nvram_mib = '80GiB'", used));
    }
}
