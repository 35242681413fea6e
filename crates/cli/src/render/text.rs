//! Small helpers for text on a terminal: widths, cutting, wrapping, numbers.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Text without characters that would move the cursor or turn the writing direction.
pub(crate) fn clean(text: &str) -> String {
    let spoils = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(spoils) {
        return text.to_owned();
    }
    text.chars().map(|c| if spoils(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// A text in at most so many columns, cut in the middle because names differ at their ends.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let tail = take(text.chars().rev(), room / 2);
    let head = take(text.chars(), room - width(&tail));
    format!("{head}…{}", tail.chars().rev().collect::<String>())
}

fn take(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    let mut taken = String::new();
    for c in chars {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        taken.push(c);
    }
    taken
}

/// Breaks a text into lines of at most so many columns; a longer word stands alone.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// A text after a label, wrapped and with later lines indented as far as the first begins.
pub(crate) fn labelled(label: &str, text: &str, columns: usize) -> String {
    let indent = width(label);
    let lines = wrap(text, columns.saturating_sub(indent).max(20));
    format!("{label}{}\n", lines.join(&format!("\n{}", " ".repeat(indent))))
}

/// "1 node", "3 nodes".
pub(crate) fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Decimals that show a set of numbers at one precision: none if all are whole, more the smaller they are.
pub(crate) fn decimals(numbers: impl IntoIterator<Item = f64>) -> usize {
    let (mut whole, mut largest) = (true, 0.0_f64);
    for number in numbers {
        whole &= number.fract() == 0.0;
        largest = largest.max(number.abs());
    }
    match largest {
        _ if whole => 0,
        x if x >= 10.0 => 2,
        _ => 4,
    }
}

/// A number with so many decimals, without a minus sign on zero.
pub(crate) fn fixed(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|digit| matches!(digit, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// A number on its own: as many decimals as it needs, six at most.
pub(crate) fn number(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "∞".into() } else { "-∞".into() };
    }
    let text = fixed(number, 6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number on its own, rounded to what people read; a small one keeps its digits.
pub(crate) fn short(value: f64) -> String {
    let rounded = fixed(value, decimals([value]));
    let vanished = value != 0.0 && rounded.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    let text = if vanished { format!("{value:e}") } else { rounded };
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// "a", "a and b", "a, b and c".
pub(crate) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub(crate) fn signed(number: f64, decimals: usize) -> String {
    let text = fixed(number, decimals);
    let is_zero = text.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    if number > 0.0 && !is_zero { format!("+{text}") } else { text }
}

/// A word as JSON spells it.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_names_keep_both_ends_and_their_width() {
        assert_eq!(cut("gpu-box", 10), "gpu-box");
        assert_eq!(cut("abcdefghij", 5), "ab…ij");
        assert!(width(&cut("節点節点節点節点", 7)) <= 7);
        assert!(width(&cut("🚀🚀🚀🚀🚀", 4)) <= 4);
    }

    #[test]
    fn numbers_are_short_and_never_minus_zero() {
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(-0.000_000_1), "0");
        assert_eq!(number(f64::NEG_INFINITY), "-∞");
        assert_eq!(signed(-0.000_01, 2), "0.00");
        assert_eq!(signed(0.000_01, 2), "0.00");
        assert_eq!(signed(1.5, 1), "+1.5");
    }

    #[test]
    fn short_numbers_are_rounded_but_never_to_nothing() {
        assert_eq!(short(2.742_361), "2.7424");
        assert_eq!(short(82.257_639), "82.26");
        assert_eq!(short(100.0), "100");
        assert_eq!(short(0.000_000_3), "3e-7");
        assert_eq!(short(0.0), "0");
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn precision_follows_the_numbers() {
        assert_eq!(decimals([1.0, 200.0]), 0);
        assert_eq!(decimals([0.5, 0.25]), 4);
        assert_eq!(decimals([0.5, 50.0]), 2);
        assert_eq!(decimals([]), 0);
    }

    #[test]
    fn text_that_would_spoil_a_terminal_is_escaped() {
        assert_eq!(clean("a\u{1b}[31mb\u{202e}c"), "a\\u{1b}[31mb\\u{202e}c");
        assert_eq!(clean("gpu 🚀"), "gpu 🚀");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(labelled("hint: ", "a", 80), "hint: a\n");
    }
}
