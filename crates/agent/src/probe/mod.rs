//! Probing: what this machine is, what it can run, how it is doing.

pub mod apple;
mod drm;
pub mod engines;
pub mod estimate;
pub mod ewma;
pub mod gpu;
pub mod live;
mod machine;
pub mod net;
pub mod power;
pub mod score;

pub use machine::{Machine, Programs};

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    /// Writes files below a directory that stands for `/sys` or `/proc`.
    pub(crate) fn put(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
    }
}
