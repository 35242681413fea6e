//! Names in paths and queries.

/// A name as one part of a path or as a value of a query: everything but letters, digits and `-._~` is escaped.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A path with those of the parameters that have a value.
pub fn with_query(path: &str, params: &[(&str, Option<&str>)]) -> String {
    let mut out = path.to_owned();
    let mut mark = '?';
    for (name, value) in params {
        if let Some(value) = value {
            out.push(mark);
            out.push_str(name);
            out.push('=');
            out.push_str(&segment(value));
            mark = '&';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(segment("gpu-1.lab"), "gpu-1.lab");
        assert_eq!(segment("a/b?c#d é"), "a%2Fb%3Fc%23d%20%C3%A9");
        assert_eq!(
            with_query("/jobs", &[("state", Some("a,b")), ("pool", None), ("x", Some("&"))]),
            "/jobs?state=a%2Cb&x=%26"
        );
        assert_eq!(with_query("/jobs", &[("pool", None)]), "/jobs");
    }
}
