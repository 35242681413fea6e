//! SVG elements as text. Coordinates have one decimal; colours and dashes are classes of the style sheet.

use std::fmt::Write as _;

use super::text::escape;

/// A drawing that grows.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where text stands relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.put(format_args!(
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            n(x1),
            n(y1),
            n(x2),
            n(y2)
        ));
    }

    /// A rectangle with an optional explanation that shows under the pointer.
    pub(super) fn rect(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        title: Option<&str>,
    ) {
        let (x, y, width, height) = (n(x), n(y), n(width.max(0.0)), n(height.max(0.0)));
        let open = format!(r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}""#);
        match title {
            None => self.put(format_args!("{open}/>")),
            Some(title) => self.put(format_args!("{open}><title>{}</title></rect>", escape(title))),
        }
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        self.put(format_args!(r#"<circle class="{class}" cx="{}" cy="{}" r="{}"/>"#, n(x), n(y), n(radius)));
    }

    /// A path, given as its commands.
    pub(super) fn path(&mut self, class: &str, commands: &str) {
        self.put(format_args!(r#"<path class="{class}" d="{commands}"/>"#));
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            r#"<text class="{class}" x="{}" y="{}" text-anchor="{anchor}">{}</text>"#,
            n(x),
            n(y),
            escape(text)
        ));
    }

    /// The whole element; `label` tells those who cannot see it what it shows.
    pub(super) fn finish(self, label: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            n(self.width),
            n(self.height),
            escape(label),
            self.body
        )
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// A coordinate: one decimal at most, no negative zero.
pub(super) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0").unwrap_or(&text) {
        "-0" => "0".to_owned(),
        short => short.to_owned(),
    }
}
