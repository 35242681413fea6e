//! Filter `pack-cpu`: CPU asked is free in the ledger.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Reason, cpu_short};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-cpu",
    description: "Admits nodes with enough free CPU.",
    reasons: &[Reason::Cpu],
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(|view: &View<'_>| cpu_short(view, Reason::Cpu))))
};
