//! Tables.

use std::fmt::Write as _;

use super::text::escape;

/// Rows longer than this fold away.
const OPEN_ROWS_MAX: usize = 14;

#[derive(Debug, Clone)]
pub(super) enum Cell {
    /// Words, to the left.
    Words(String),
    /// A number, to the right.
    Number(String),
    /// A number with a remark under it, marked as good, bad or neither.
    Judged(String, String, &'static str),
    /// Nothing to say.
    Empty,
}

pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with these headings.
    pub(super) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as it is.
    pub(super) fn show(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
        for (place, head) in self.head.iter().enumerate() {
            let words = self
                .rows
                .first()
                .and_then(|row| row.get(place))
                .is_some_and(|cell| matches!(cell, Cell::Words(_)));
            let class = if words { "" } else { " class=\"n\"" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (place, cell) in row.iter().enumerate() {
                let _ = match cell {
                    Cell::Words(text) if place == 0 => write!(out, "<th scope=\"row\">{}</th>", escape(text)),
                    Cell::Words(text) => write!(out, "<td>{}</td>", escape(text)),
                    Cell::Number(text) => write!(out, "<td class=\"n\">{}</td>", escape(text)),
                    Cell::Judged(text, remark, class) => {
                        write!(
                            out,
                            "<td class=\"n\">{}<small class=\"{class}\">{}</small></td>",
                            escape(text),
                            escape(remark)
                        )
                    }
                    Cell::Empty => write!(out, "<td class=\"n\">–</td>"),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    /// The table, folded away if it is long; nothing if it is empty.
    pub(super) fn fold(&self, summary: &str) -> String {
        match self.rows.len() {
            0 => String::new(),
            rows if rows <= OPEN_ROWS_MAX => self.show(),
            _ => self.folded(summary),
        }
    }

    /// The table, folded away.
    pub(super) fn folded(&self, summary: &str) -> String {
        format!("<details><summary>{}</summary>\n{}</details>\n", escape(summary), self.show())
    }
}
