//! Reports: one HTML file for one run or a comparison, complete in itself. No script, no network; readable on paper.
//!
//! An [`Extract`] is all that a report needs of a run, small even for a long one, so that runs can be dropped early.
//! [`of_run`] and [`of_comparison`] turn extracts into a page; [`chart`] draws a file on its own. The layers below, each knowing only those under it:
//!
//! ```text
//!   single, versus              what is on the page, in which order, and the sentence under each plot
//!   plot, bars, curves, gantt   drawings
//!   scale, svg, table, text     axes and ticks; elements; escaping and numbers
//! ```
//!
//! Every string that comes from a trace passes `text::escape`. The same extracts give the same bytes.

mod bars;
mod chart;
mod curves;
mod distribution;
mod extract;
mod gantt;
mod page;
mod plot;
mod scale;
mod single;
mod svg;
mod table;
mod text;
mod timeline;
mod versus;

#[cfg(test)]
mod tests;

pub use chart::chart;
pub use extract::Extract;
pub use single::of_run;
pub use versus::of_comparison;
