//! Which kind of trace a file is, by what it says.

use std::io::{self, BufRead};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Swf,
    /// Landfall's own.
    Own,
    OpenbPods,
    OpenbNodes,
    OpenbArrivals,
    Muri,
}

impl Kind {
    pub const ALL: [(&'static str, Self); 6] = [
        ("swf", Self::Swf),
        ("landfall", Self::Own),
        ("openb", Self::OpenbPods),
        ("openb-nodes", Self::OpenbNodes),
        ("openb-arrivals", Self::OpenbArrivals),
        ("muri", Self::Muri),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }
}

/// Looks at the first bytes without consuming them; `None` if they are like nothing known.
pub fn recognise(reader: &mut impl BufRead) -> io::Result<Option<Kind>> {
    Ok(kind_of(reader.fill_buf()?))
}

fn kind_of(bytes: &[u8]) -> Option<Kind> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let has = |columns: &[&str]| {
        let names: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
        columns.iter().all(|column| names.contains(&column.as_bytes()))
    };
    match bytes.first()? {
        b'{' => Some(Kind::Own),
        b';' | b'0'..=b'9' | b'-' => Some(Kind::Swf),
        _ if has(&["sn", "cpu_milli"]) => Some(Kind::OpenbNodes),
        _ if has(&["name", "cpu_milli", "num_gpu"]) => Some(Kind::OpenbPods),
        _ if has(&["job_id", "num_gpu", "submit_time"]) => Some(Kind::Muri),
        _ if line.starts_with(b"pods ") || line.starts_with(b"nodes ") => Some(Kind::OpenbArrivals),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_the_first_line() {
        for (text, kind) in [
            ("; Version: 2\n", Some(Kind::Swf)),
            ("\n   15 0 1", Some(Kind::Swf)),
            ("{\"format\":\"landfall.trace\"}", Some(Kind::Own)),
            ("\u{feff}name,cpu_milli,memory_mib,num_gpu,gpu_milli\r\n", Some(Kind::OpenbPods)),
            ("sn,cpu_milli,memory_mib,gpu,model\n", Some(Kind::OpenbNodes)),
            ("job_id,num_gpu,submit_time,iterations\n", Some(Kind::Muri)),
            ("pods 42 1 2", Some(Kind::OpenbArrivals)),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(kind_of(text.as_bytes()), kind, "{text:?}");
        }
        for (name, kind) in Kind::ALL {
            assert_eq!((Kind::by_name(name), kind.name()), (Some(kind), name));
        }
    }
}
