//! Which job held which node when: one row per node, for runs small enough to be seen.

use landfall_model::Time;

use super::plot::fill_style;
use super::scale::Axis;
use super::svg::{Anchor, Svg};
use super::text::{duration, shortened};
use crate::measures::Window;
use crate::run::Run;

/// More nodes than this do not fit a page.
const NODES_MAX: usize = 64;
/// More stays than this cannot be told apart.
const SPANS_MAX: usize = 3000;
const WIDTH: f64 = 1160.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 50.0;
/// Width of a letter in a block, about.
const LETTER: f64 = 6.6;

/// Blocks of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gantt {
    nodes: Vec<String>,
    blocks: Vec<Block>,
    length_s: f64,
}

/// A job on nodes that stand one under the other.
#[derive(Debug, Clone, PartialEq)]
struct Block {
    job: String,
    /// Place of the job, for its colour.
    place: u32,
    first_node: usize,
    nodes: usize,
    from_s: f64,
    until_s: f64,
}

impl Gantt {
    /// Of a run; nothing if it kept no nodes or is too large to be seen.
    pub(super) fn of(run: &Run) -> Option<Self> {
        let fits = (1..=SPANS_MAX).contains(&run.spans.len()) && run.nodes.len() <= NODES_MAX;
        let window = Window::whole(run).filter(|window| fits && window.length_ms() > 0)?;
        let seconds = |at: Time| at.since(window.from).as_secs_f64();
        let mut spans: Vec<_> =
            run.spans.iter().filter(|span| (span.node as usize) < run.nodes.len()).collect();
        spans.sort_by_key(|span| (span.from, span.job, span.until, span.node));
        let mut blocks: Vec<Block> = Vec::new();
        for span in spans {
            let (from_s, until_s, node) = (seconds(span.from), seconds(span.until), span.node as usize);
            match blocks.last_mut() {
                // The node right under those that the job holds in the same time joins them.
                Some(block)
                    if block.place == span.job
                        && block.first_node + block.nodes == node
                        && (block.from_s, block.until_s) == (from_s, until_s) =>
                {
                    block.nodes += 1;
                }
                _ => {
                    let job =
                        run.jobs.get(span.job as usize).map(|job| job.job.to_string()).unwrap_or_default();
                    blocks.push(Block { job, place: span.job, first_node: node, nodes: 1, from_s, until_s });
                }
            }
        }
        Some(Self { nodes: run.nodes.clone(), blocks, length_s: window.length_ms() as f64 / 1000.0 })
    }

    pub(super) fn draw(&self) -> String {
        let row = if self.nodes.len() <= 16 { 26.0 } else { 16.0 };
        let floor = TOP + row * self.nodes.len() as f64;
        let axis = Axis::time(self.length_s);
        let at = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * axis.scale.place(seconds);
        let mut svg = Svg::new(WIDTH, floor + BOTTOM);
        for (place, node) in self.nodes.iter().enumerate() {
            let y = TOP + row * place as f64;
            svg.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
            svg.text("name", (LEFT - 8.0, y + row / 2.0 + 4.0), Anchor::End, &shortened(node, 14));
        }
        for block in &self.blocks {
            let (x, y) = (at(block.from_s), TOP + row * block.first_node as f64);
            let (width, height) = (at(block.until_s) - x, row * block.nodes as f64);
            let title = format!(
                "{}: {} from {}, {} on {}",
                block.job,
                duration(block.until_s - block.from_s),
                duration(block.from_s),
                if block.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", block.nodes) },
                self.nodes[block.first_node]
            );
            let class = format!("block {}", fill_style(block.place as usize));
            svg.rect(&class, (x, y + 1.0), (width.max(1.0), height - 2.0), Some(&title));
            if block.job.chars().count() as f64 * LETTER + 6.0 <= width {
                svg.text("job", (x + width / 2.0, y + height / 2.0 + 4.0), Anchor::Middle, &block.job);
            }
        }
        for tick in &axis.ticks {
            svg.line("axis", (at(tick.at), floor), (at(tick.at), floor + 5.0));
            svg.text("tick", (at(tick.at), floor + 19.0), Anchor::Middle, &tick.text);
        }
        svg.line("axis", (LEFT, floor), (WIDTH - RIGHT, floor));
        svg.text("label", (WIDTH - RIGHT, floor + 42.0), Anchor::End, &axis.label);
        svg.finish("Which job held which node when")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::samples::b28;

    #[test]
    fn neighbouring_nodes_of_a_job_are_one_block() {
        let found = Gantt::of(&b28()).unwrap();
        assert_eq!(found.blocks.len(), 7, "every job of the case holds neighbours");
        assert_eq!(found.blocks.iter().map(|block| block.nodes).sum::<usize>(), 13);
        assert!(found.draw().contains("<title>j2: 1 min 40 s from 3 min 20 s, 3 nodes on n1</title>"));
    }

    #[test]
    fn a_run_too_large_to_be_seen_has_no_drawing() {
        let mut run = b28();
        run.nodes = (0..100).map(|node| format!("n{node}")).collect();
        assert_eq!(Gantt::of(&run), None);
    }
}
