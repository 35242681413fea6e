//! Filter `ram`: RAM asked is free in the ledger.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Reason, ram_short};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "ram",
    description: "Admits nodes with enough free RAM.",
    reasons: &[Reason::RamShort],
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(|view: &View<'_>| ram_short(view, Reason::RamShort))))
};
