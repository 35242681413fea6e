//! Names of signals.

use rustix::process::Signal;

/// The signal with a name such as `USR1` or `SIGUSR1`.
pub fn by_name(name: &str) -> Option<Signal> {
    let upper = name.trim().to_ascii_uppercase();
    Some(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "TERM" => Signal::TERM,
        "CONT" => Signal::CONT,
        "TSTP" => Signal::TSTP,
        "WINCH" => Signal::WINCH,
        "URG" => Signal::URG,
        "ALRM" => Signal::ALARM,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_prefix() {
        assert_eq!(by_name("USR1"), Some(Signal::USR1));
        assert_eq!(by_name("sigterm"), Some(Signal::TERM));
        assert_eq!(by_name("KILL"), None, "killing is for stops, which know the cause");
        assert_eq!(by_name(""), None);
    }
}
