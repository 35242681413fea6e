//! Aligned tables, by the width that characters have on a terminal.

use anstyle::Style;

use super::style::{PLAIN, STRONG};
use super::text::{clean, width};

const GAP: usize = 2;

/// Where a cell stands in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A column: its title in one or more lines.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    title: Vec<String>,
    align: Align,
}

impl Column {
    /// A column of words.
    pub(crate) fn left(title: &str) -> Self {
        Self { title: vec![clean(title)], align: Align::Left }
    }

    /// A column of numbers.
    pub(crate) fn right(title: &str) -> Self {
        Self { title: vec![clean(title)], align: Align::Right }
    }

    /// A column of numbers under a long name, broken between its words so that it takes less room.
    pub(crate) fn narrow(title: &str) -> Self {
        Self { title: broken(&clean(title)), align: Align::Right }
    }

    /// Columns that the title takes.
    pub(crate) fn width(&self) -> usize {
        self.title.iter().map(|line| width(line)).max().unwrap_or(0)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: clean(text.as_ref()), style }
    }

    /// Columns that the cell takes.
    pub(crate) fn width(&self) -> usize {
        width(&self.text)
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, PLAIN)
    }
}

/// Rows of cells under titles.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new(), indent: 0 }
    }

    /// A table with these titles; `>` before one sets its column to the right, as numbers are.
    pub(crate) fn of(titles: &[&str]) -> Self {
        let column = |title: &&str| match title.strip_prefix('>') {
            Some(title) => Column::right(title),
            None => Column::left(title),
        };
        Self::new(titles.iter().map(column).collect())
    }

    /// Moves the table to the right.
    pub(crate) fn indent(mut self, columns: usize) -> Self {
        self.indent = columns;
        self
    }

    /// Adds a row; cells that are missing stay empty.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Columns that the whole table takes.
    pub(crate) fn width(&self) -> usize {
        let widths = self.widths();
        self.indent + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        let of = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(Cell::width);
            cells.max().unwrap_or(0).max(column.width())
        };
        self.columns.iter().enumerate().map(of).collect()
    }

    /// The table as lines, without spaces at their ends.
    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let lines = self.columns.iter().map(|column| column.title.len()).max().unwrap_or(0);
        for line in 0..lines {
            // Titles stand on the last line, next to what they name.
            let title = |column: &Column| {
                let above = lines - column.title.len();
                let text = line.checked_sub(above).and_then(|at| column.title.get(at)).cloned();
                Cell { text: text.unwrap_or_default(), style: STRONG }
            };
            let cells: Vec<Cell> = self.columns.iter().map(title).collect();
            self.line(&mut text, &cells, &widths);
        }
        for row in &self.rows {
            self.line(&mut text, row, &widths);
        }
        text
    }

    fn line(&self, text: &mut String, cells: &[Cell], widths: &[usize]) {
        let last = cells.iter().rposition(|cell| !cell.text.is_empty());
        let Some(last) = last else {
            text.push('\n');
            return;
        };
        text.push_str(&" ".repeat(self.indent));
        for (at, (cell, column)) in cells.iter().zip(&self.columns).enumerate().take(last + 1) {
            let pad = widths[at] - cell.width();
            let (before, after) = match column.align {
                Align::Left if at == last => (0, 0),
                Align::Left => (0, pad),
                Align::Right => (pad, 0),
            };
            let Cell { text: content, style } = cell;
            text.push_str(&" ".repeat(if at == 0 { before } else { before + GAP }));
            if !content.is_empty() {
                text.push_str(&format!("{style}{content}{style:#}"));
            }
            text.push_str(&" ".repeat(after));
        }
        text.push('\n');
    }
}

/// Columns that a column and the gap before it take.
pub(crate) fn with_gap(columns: usize) -> usize {
    columns + GAP
}

/// Breaks a name such as `MissingPathsRule` or `bytes_missing` between its words into short lines.
fn broken(name: &str) -> Vec<String> {
    /// About as wide as the numbers below.
    const NARROW: usize = 9;
    let mut words: Vec<String> = Vec::new();
    let mut after_lower = false;
    for c in name.chars() {
        let starts = (c.is_uppercase() && after_lower)
            || words.last().is_some_and(|word| word.ends_with(['-', '_', ' ']));
        if starts || words.is_empty() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
        after_lower = c.is_lowercase();
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if width(line) + width(&word) <= NARROW => line.push_str(&word),
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(table: &Table) -> String {
        anstream::adapter::strip_str(&table.render()).to_string()
    }

    #[test]
    fn wide_characters_stay_aligned() {
        let mut table = Table::of(&["node", ">total"]);
        for (name, total) in [("gpu-1", "9.5"), ("节点", "100.0"), ("🚀 box", "1.0"), ("👩‍🚀", "2.0")]
        {
            table.row(vec![name.into(), total.into()]);
        }
        let text = plain(&table);
        assert_eq!(
            text, "node    total\ngpu-1     9.5\n节点    100.0\n🚀 box    1.0\n👩‍🚀        2.0\n",
            "\n{text}"
        );
        assert!(text.lines().all(|line| width(line) == 13), "\n{text}");
    }

    #[test]
    fn lines_have_no_trailing_space_and_short_rows_are_fine() {
        let mut table = Table::of(&["a", "b", ">c"]).indent(2);
        table.row(vec!["long cell".into(), "x".into()]);
        table.row(vec!["s".into(), "".into(), "1".into()]);
        table.row(vec![]);
        let text = plain(&table);
        assert_eq!(text, "  a          b  c\n  long cell  x\n  s             1\n\n");
    }

    #[test]
    fn long_titles_break_between_words_and_stand_on_the_last_line() {
        assert_eq!(broken("MissingPathsRule"), ["Missing", "PathsRule"]);
        assert_eq!(broken("bytes_missing"), ["bytes_", "missing"]);
        assert_eq!(broken("fit"), ["fit"]);
        assert_eq!(broken("CPUTime"), ["CPUTime"]);
        let mut table = Table::new(vec![Column::left("job"), Column::narrow("MissingPathsRule")]);
        table.row(vec!["j".into(), "1.0".into()]);
        assert_eq!(plain(&table), "       Missing\njob  PathsRule\nj          1.0\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = Table::of(&["a"]);
        table.row(vec!["x\u{1b}[2J".into()]);
        assert!(!plain(&table).contains('\u{1b}'));
    }

    #[test]
    fn an_empty_table_is_its_titles() {
        assert_eq!(plain(&Table::of(&["a", ">b"])), "a  b\n");
        assert_eq!(plain(&Table::of(&[])), "");
    }
}
