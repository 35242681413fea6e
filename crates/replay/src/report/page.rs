//! The page around plots and tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::text::escape;

/// The style sheet: light and dark, narrow and wide, paper.
const STYLE: &str = include_str!("report.css");

/// A page that grows from top to bottom.
pub(super) struct Page {
    title: String,
    body: String,
}

impl Page {
    pub(super) fn new(title: &str, lead: &str) -> Self {
        let body = format!(
            "<header>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n</header>\n",
            escape(title),
            escape(lead)
        );
        Self { title: title.to_owned(), body }
    }

    /// A heading with what belongs to it, in HTML; on paper they stay on one page.
    pub(super) fn whole(&mut self, title: &str, html: &str) {
        let _ =
            writeln!(self.body, "<section class=\"whole\">\n<h2>{}</h2>\n{html}</section>", escape(title));
    }

    pub(super) fn section(&mut self, title: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(title));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// Facts as pairs of a word and a value.
    pub(super) fn facts(&mut self, facts: &[(String, String)]) {
        self.body.push_str("<dl class=\"facts\">\n");
        for (word, value) in facts {
            let _ = writeln!(self.body, "<div><dt>{}</dt><dd>{}</dd></div>", escape(word), escape(value));
        }
        self.body.push_str("</dl>\n");
    }

    /// The figures that matter most, large.
    pub(super) fn tiles(&mut self, tiles: &[(&str, String, String)]) {
        self.body.push_str("<dl class=\"tiles\">\n");
        for (word, value, remark) in tiles {
            let remark =
                if remark.is_empty() { String::new() } else { format!("<small>{}</small>", escape(remark)) };
            let _ =
                writeln!(self.body, "<div><dt>{}</dt><dd>{}{remark}</dd></div>", escape(word), escape(value));
        }
        self.body.push_str("</dl>\n");
    }

    /// Something already in HTML.
    pub(super) fn html(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// Plots side by side where there is room.
    pub(super) fn plots(&mut self, figures: &[String]) {
        if !figures.is_empty() {
            let _ = writeln!(self.body, "<div class=\"plots\">\n{}</div>", figures.concat());
        }
    }

    pub(super) fn finish(self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n<main>\n{}</main>\n<footer>Landfall {}. The same inputs give this file again, byte for byte.</footer>\n\
             </body>\n</html>\n",
            escape(&self.title),
            self.body,
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// A plot with its title, its key, the sentence that explains it, and perhaps a table. Drawing, key and table are HTML.
pub(super) fn figure(title: &str, key: &str, drawing: &str, caption: &str, table: &str) -> String {
    format!(
        "<figure>\n<h3>{}</h3>\n{key}<div class=\"drawing\">{drawing}</div>\n<figcaption>{}</figcaption>\n{table}</figure>\n",
        escape(title),
        escape(caption)
    )
}

/// What a run was made from and what it decided, by digest.
pub(super) fn digests(inputs: &BTreeMap<String, String>, decisions: &str) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> =
        inputs.iter().map(|(input, digest)| (format!("SHA-256 of {input}"), digest.clone())).collect();
    if !decisions.is_empty() {
        facts.push(("SHA-256 of the decision log".to_owned(), decisions.to_owned()));
    }
    facts
}
