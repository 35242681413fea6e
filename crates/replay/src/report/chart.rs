//! A drawing that is a file of its own, for pages that are not made here: lines over sizes, both axes by powers of ten.

use super::plot::{Plot, line_style};
use super::scale::Axis;

/// What lines need outside a report, readable on light and on dark paper.
const STYLE: &str = "<style>
svg { font: 12px system-ui, sans-serif; fill: #6b7178; }
.label { font-weight: 600; }
.grid { stroke: #8886; stroke-width: 1; }
.axis { stroke: #888; stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.c0 { stroke: #0072b2; } .c1 { stroke: #d55e00; } .c2 { stroke: #00856a; } .c3 { stroke: #a8478a; }
.c4 { stroke: #a87900; } .c5 { stroke: #3d9bd4; } .c6 { stroke: #5b4fb5; } .c7 { stroke: #4a4f55; }
.d1 { stroke-dasharray: 8 3; } .d2 { stroke-dasharray: 3 3; } .d3 { stroke-dasharray: 8 3 2 3; }
</style>
";

/// An SVG file with a line for each name. What is not above zero has no place on such axes and is left out.
pub fn chart(title: &str, x: &str, y: &str, lines: &[(&str, Vec<(f64, f64)>)]) -> String {
    let points = || lines.iter().flat_map(|(_, points)| points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(1.0, f64::max);
    let along = Axis::powers_from(least(|point| point.0), most(|point| point.0), x);
    let up = Axis::powers_from(least(|point| point.1), most(|point| point.1), y);
    let mut plot = Plot::new(along, up);
    for (place, (_, points)) in lines.iter().enumerate() {
        let shown: Vec<(f64, f64)> = points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
        plot.line(&line_style(place), &shown);
    }
    plot.names(lines.iter().map(|(name, _)| *name));
    let drawing = plot.finish(title);
    let drawing = drawing.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    drawing.replacen(">\n", &format!(">\n{STYLE}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_a_file_of_its_own() {
        let lines =
            [("push", vec![(10.0, 1.0), (1000.0, 100.0)]), ("batch", vec![(10.0, 0.0), (1000.0, 10.0)])];
        let text = chart("Growth", "nodes", "us", &lines);
        assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox"), "{text}");
        for expected in ["<style>", ">push</text>", ">batch</text>", ">nodes</text>", "class=\"line c1 d1\""]
        {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        // A value of zero is left out, not drawn at the floor.
        assert_eq!(text.matches("L").count(), 1, "{text}");
    }
}
