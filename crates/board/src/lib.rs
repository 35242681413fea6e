//! The board: a web page that shows what a cluster does and why, served by the server.
//!
//! The page itself is written in TypeScript (`web/`) and built by `npm run build`; this crate holds what came of it, or one plain page that
//! says how to get it ([ADR 36](../../../docs/adr/0036-the-board-is-a-page-of-the-server.md)).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its path below `/`.
    pub path: &'static str,
    /// What it contains.
    pub bytes: &'static [u8],
    /// The same, packed by gzip, where that is smaller.
    pub packed: Option<&'static [u8]>,
}

/// The page that is served where the board was not built.
const WITHOUT: Asset = Asset { path: "index.html", bytes: include_bytes!("without.html"), packed: None };

const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Whether the board was there when this was built.
pub const fn is_built() -> bool {
    !ASSETS.is_empty()
}

/// The file at a path; `index.html` is always there.
pub fn asset(path: &str) -> Option<Asset> {
    let found = ASSETS.iter().find(|asset| asset.path == path).copied();
    found.or_else(|| (path == WITHOUT.path).then_some(WITHOUT))
}

impl Asset {
    /// What kind of file it is, for browsers.
    pub fn kind(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("json") => "application/json",
            Some("txt") => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }

    /// Whether its name changes with its content, so that it may be kept for ever.
    pub fn is_fixed(&self) -> bool {
        self.path.starts_with("assets/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_page_and_every_file_is_of_a_known_kind() {
        assert_eq!(asset("index.html").map(|page| page.kind()), Some("text/html; charset=utf-8"));
        assert_eq!(asset("../Cargo.toml"), None);
        for asset in ASSETS {
            assert_ne!(asset.kind(), "application/octet-stream", "{}", asset.path);
            assert!(asset.packed.is_none_or(|packed| packed.len() < asset.bytes.len()), "{}", asset.path);
        }
    }
}
