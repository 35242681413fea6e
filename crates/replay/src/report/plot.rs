//! Line plots: a frame with two axes, lines, steps and bands in it, and the key that names them.

use std::fmt::Write as _;

use super::scale::Axis;
use super::svg::{Anchor, Svg, n};
use super::text::escape;

/// Width of a drawing in its own units; on a wide screen about one unit is one pixel.
pub(super) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 52.0;
/// Room for a name beside a dot.
const NAME_WIDTH: f64 = 130.0;
const NAME_HEIGHT: f64 = 13.0;
/// Colours of the style sheet.
const COLOURS: usize = 8;

/// Classes of the line with this number: a colour and a dash. More lines than colours: the dashes go on by one, so
/// that no two of the first 64 look alike.
pub(super) fn line_style(place: usize) -> String {
    format!("line c{} d{}", place % COLOURS, (place + place / COLOURS) % COLOURS)
}

/// Class of an area with this number.
pub(super) fn fill_style(place: usize) -> String {
    format!("f{}", place % COLOURS)
}

/// A frame that lines are drawn in.
pub(super) struct Plot {
    svg: Svg,
    x: Axis,
    y: Axis,
}

impl Plot {
    /// An empty frame with its axes.
    pub(super) fn new(x: Axis, y: Axis) -> Self {
        let mut plot = Self { svg: Svg::new(WIDTH, HEIGHT), x, y };
        plot.axes();
        plot
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * self.x.scale.place(value)
    }

    fn at_y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * self.y.scale.place(value)
    }

    fn axes(&mut self) {
        let floor = HEIGHT - BOTTOM;
        for tick in self.y.ticks.clone() {
            let y = self.at_y(tick.at);
            self.svg.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
            self.svg.text("tick", (LEFT - 7.0, y + 4.0), Anchor::End, &tick.text);
        }
        for tick in self.x.ticks.clone() {
            let x = self.at_x(tick.at);
            self.svg.line("axis", (x, floor), (x, floor + 5.0));
            self.svg.text("tick", (x, floor + 19.0), Anchor::Middle, &tick.text);
        }
        self.svg.line("axis", (LEFT, floor), (WIDTH - RIGHT, floor));
        self.svg.text("label", (4.0, 16.0), Anchor::Start, &self.y.label);
        self.svg.text("label", (WIDTH - RIGHT, HEIGHT - 8.0), Anchor::End, &self.x.label);
    }

    pub(super) fn line(&mut self, style: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (place, (x, y)) in points.iter().enumerate() {
            let command = if place == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{} {}", n(self.at_x(*x)), n(self.at_y(*y)));
        }
        self.svg.path(style, &path);
    }

    /// Dots with their names beside them; names that would lie on each other are moved down.
    pub(super) fn points(&mut self, points: &[(&str, f64, f64)]) {
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by(|one, two| points[*two].2.total_cmp(&points[*one].2));
        let mut named: Vec<(f64, f64)> = Vec::new();
        for place in order {
            let (name, x, y) = points[place];
            let (x, y) = (self.at_x(x), self.at_y(y));
            let mut under = y + 4.0;
            // From top to bottom, so whoever is in the way is above.
            for (_, taken) in named.iter().filter(|(other, _)| (other - x).abs() < NAME_WIDTH) {
                under = under.max(taken + NAME_HEIGHT);
            }
            named.push((x, under));
            let right = x < WIDTH - RIGHT - NAME_WIDTH;
            let (aside, anchor) = if right { (8.0, Anchor::Start) } else { (-8.0, Anchor::End) };
            self.svg.dot("f0", (x, y), 4.5);
            self.svg.text("tick", (x + aside, under), anchor, name);
        }
    }

    /// The names of lines, in their order, within the frame.
    pub(super) fn names<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for (place, name) in names.enumerate() {
            let y = TOP + 10.0 + NAME_HEIGHT * place as f64;
            self.svg.line(&line_style(place), (LEFT + 8.0, y - 4.0), (LEFT + 36.0, y - 4.0));
            self.svg.text("tick", (LEFT + 42.0, y), Anchor::Start, name);
        }
    }

    /// A line that keeps each value from one bound to the next.
    pub(super) fn steps(&mut self, style: &str, bounds: &[f64], values: &[f64]) {
        let path = self.step_path(bounds, values);
        self.svg.path(style, &path);
    }

    /// The area between two values over each stretch.
    pub(super) fn band(&mut self, style: &str, bounds: &[f64], low: &[f64], high: &[f64]) {
        let mut path = self.step_path(bounds, high);
        for (place, value) in low.iter().enumerate().rev() {
            let _ = write!(path, "V{}H{}", n(self.at_y(*value)), n(self.at_x(bounds[place])));
        }
        path.push('Z');
        self.svg.path(style, &path);
    }

    fn step_path(&self, bounds: &[f64], values: &[f64]) -> String {
        let mut path = String::new();
        for (place, value) in values.iter().enumerate() {
            let y = n(self.at_y(*value));
            let _ = match place {
                0 => write!(path, "M{} {y}", n(self.at_x(bounds[0]))),
                _ => write!(path, "V{y}"),
            };
            let _ = write!(path, "H{}", n(self.at_x(bounds[place + 1])));
        }
        path
    }

    pub(super) fn finish(self, label: &str) -> String {
        self.svg.finish(label)
    }
}

/// The key: what each line is. A single line needs none.
pub(super) fn key<'a>(names: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut out = String::new();
    for (name, style) in names {
        let _ = write!(
            out,
            "<li><svg class=\"key\" viewBox=\"0 0 36 10\" aria-hidden=\"true\"><path class=\"{style}\" d=\"M1 5H35\"/></svg>{}</li>",
            escape(name)
        );
    }
    format!("<ul class=\"key\">{out}</ul>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_sixty_four_lines_look_different() {
        let styles: BTreeSet<String> = (0..64).map(line_style).collect();
        assert_eq!(styles.len(), 64);
    }

    #[test]
    fn names_of_points_that_lie_close_do_not_lie_on_each_other() {
        let mut plot = Plot::new(Axis::from_zero(10.0, "x"), Axis::from_zero(10.0, "y"));
        plot.points(&[("one", 5.0, 5.0), ("two", 5.1, 5.0), ("far", 0.0, 5.0), ("right", 10.0, 5.0)]);
        let text = plot.finish("points");
        for expected in [
            r#"<circle class="f0" cx="299" cy="136" r="4.5"/>"#,
            r#"x="307" y="140" text-anchor="start">one<"#,
            r#"y="153" text-anchor="start">two<"#,
            r#"x="72" y="140" text-anchor="start">far<"#,
            r#"x="526" y="140" text-anchor="end">right<"#,
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn steps_go_flat_then_up() {
        let mut plot = Plot::new(Axis::from_zero(10.0, "x"), Axis::from_zero(10.0, "y"));
        plot.steps("line", &[0.0, 5.0, 10.0], &[0.0, 10.0]);
        let text = plot.finish("steps");
        assert!(text.contains(r#"d="M64 238H299V34H534""#), "{text}");
    }
}
