//! Text of a page: escaping, durations, shortened names.

/// Makes a string harmless in HTML and SVG, in text and in quoted attributes. Characters that cannot be seen but change
/// what is (controls, and those that turn the direction of writing) become a visible mark.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            _ if char.is_control() => out.push('\u{fffd}'),
            _ => out.push(char),
        }
    }
    out
}

/// The first characters of a name that is too long for its place.
pub(super) fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest.saturating_sub(1)).chain(['…']).collect()
}

/// A span of seconds as people say it, in its two largest units.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return if seconds == libm::trunc(seconds) {
            format!("{seconds:.0} s")
        } else {
            format!("{seconds:.1} s")
        };
    }
    let whole = libm::round(seconds) as u64;
    let (days, hours, minutes, secs) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    let pair = |first: u64, unit: &str, second: u64, lower: &str| match second {
        0 => format!("{first} {unit}"),
        _ => format!("{first} {unit} {second} {lower}"),
    };
    match (days, whole / 3600) {
        (30.., _) => format!("{} d", crate::measures::grouped(days as f64)),
        (1.., _) => pair(days, "d", hours, "h"),
        (_, 1..) => pair(hours, "h", minutes, "min"),
        _ => pair(minutes, "min", secs, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(escape("<b a=\"1\" c='2'>&amp;"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
        assert_eq!(escape("a\u{0}b\u{202e}c\nd"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
    }

    #[test]
    fn long_names_are_cut_at_characters() {
        assert_eq!(shortened("größer", 6), "größer");
        assert_eq!(shortened("größer", 4), "grö…");
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, want) in [
            (0.0, "0 s"),
            (12.34, "12.3 s"),
            (60.0, "1 min"),
            (115.7, "1 min 56 s"),
            (6836.872, "1 h 53 min"),
            (90_000.0, "1 d 1 h"),
            (29_363_626.0, "339 d"),
        ] {
            assert_eq!(duration(seconds), want);
        }
    }
}
