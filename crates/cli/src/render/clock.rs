//! Instants and spans of the real world for people.

use landfall_model::Millis;

/// A span as people say it, without the milliseconds beyond a second: `340 ms`, `12 s`, `3 min 20 s`.
pub(crate) fn span(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { Millis::secs(ms / 1000).to_string() }
}

/// How long ago something was, or that it is still to come.
pub(crate) fn ago(at_ms: u64, now_ms: u64) -> String {
    match now_ms.checked_sub(at_ms) {
        Some(past) if past < 1000 => "now".into(),
        Some(past) => format!("{} ago", span(past)),
        None => format!("in {}", span(at_ms - now_ms)),
    }
}

/// An instant as date and time, in UTC.
pub(crate) fn date(at_ms: u64) -> String {
    let (days, secs) = (at_ms / 86_400_000, at_ms / 1000 % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", secs / 3600, secs % 3600 / 60, secs % 60)
}

/// The instant of a date as [`date`] writes it; seconds, time and `Z` may be left out, and `T` may stand between.
pub(crate) fn parse_date(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let numbers = |text: &str, mark: char| -> Option<Vec<u64>> {
        text.split(mark).map(|part| part.parse().ok()).collect()
    };
    let (&[year, month, day], time) = (&numbers(day, '-')?[..], numbers(time, ':')?) else { return None };
    let (&hour, &minute, second) = (time.first()?, time.get(1)?, time.get(2).copied().unwrap_or(0));
    if !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 59 || time.len() > 3 {
        return None;
    }
    let days = (year - 1970) * 365 + (year - 1969) / 4 - (year - 1901) / 100 + (year - 1601) / 400;
    // Few days to look through, and the same arithmetic as for writing.
    let days = (days..days + 366).find(|days| civil(*days) == (year, month, day))?;
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000)
}

/// Year, month and day of a number of days since 1970. Years are counted from March, so that a leap day is the last one.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Memory in MiB as people say it.
pub(crate) fn mib(amount: u64) -> String {
    match amount {
        0..1024 => format!("{amount} MiB"),
        _ if amount.is_multiple_of(1024) => format!("{} GiB", amount / 1024),
        _ => format!("{:.1} GiB", amount as f64 / 1024.0),
    }
}

/// Thousandths of a core as cores.
pub(crate) fn cores(milli: u64) -> String {
    super::text::number(milli as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_at_most_two_units() {
        let shown = [0, 340, 12_000, 60_000, 200_000, 18_600_000, 7_200_000, 792_000_000];
        let want = ["0 ms", "340 ms", "12 s", "1 min", "3 min 20 s", "5 h 10 min", "2 h", "9 d 4 h"];
        assert_eq!(shown.map(span), want);
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (ms, want) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_709_251_199_000, "2024-02-29 23:59:59Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00Z"),
            (1_794_813_774_000, "2026-11-16 07:22:54Z"),
        ] {
            assert_eq!(date(ms), want);
            assert_eq!(parse_date(want), Some(ms));
        }
        assert_eq!(parse_date("2026-11-16T07:22Z"), Some(1_794_813_720_000));
        assert_eq!(parse_date("2026-11-16"), Some(1_794_787_200_000));
        for bad in
            ["", "2026", "2026-02-30", "2026-13-01", "2026-01-01T24:00", "1969-12-31", "2026-01-01T1:2:3:4"]
        {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn past_and_future_are_told_apart() {
        assert_eq!(ago(1000, 1500), "now");
        assert_eq!(ago(1000, 6000), "5 s ago");
        assert_eq!(ago(6000, 1000), "in 5 s");
    }
}
