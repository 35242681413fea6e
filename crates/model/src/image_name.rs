//! What an image of a container is called in full, so that what a job says and what an engine lists can be compared.

use crate::Name;

/// Most images that are known of one node.
pub const IMAGES_MAX: usize = 128;

/// The full name of an image: with its registry and its tag. `alpine` is `docker.io/library/alpine:latest`, and so is the local image
/// that podman lists as `localhost/alpine`. `None` if it is no name.
pub fn image_name(said: &str) -> Option<Name> {
    let said = said.trim();
    let local = said.strip_prefix("localhost/").unwrap_or(said);
    let full = match local.split_once('/') {
        None => format!("docker.io/library/{local}"),
        Some((host, _)) if host.contains(['.', ':']) => local.to_owned(),
        Some(_) => format!("docker.io/{local}"),
    };
    let last = full.rsplit('/').next().unwrap_or_default();
    let tagged = last.contains([':', '@']);
    let name = if tagged { full } else { format!("{full}:latest") };
    Name::new(&name).ok().filter(|_| !local.is_empty() && !said.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_what_engines_make_of_them() {
        for (said, full) in [
            ("alpine", "docker.io/library/alpine:latest"),
            (" alpine:3.20 ", "docker.io/library/alpine:3.20"),
            ("localhost/alpine", "docker.io/library/alpine:latest"),
            ("team/tool", "docker.io/team/tool:latest"),
            ("docker.io/library/alpine:latest", "docker.io/library/alpine:latest"),
            ("quay.io/a/b", "quay.io/a/b:latest"),
            ("host:5000/a", "host:5000/a:latest"),
            ("a@sha256:00", "docker.io/library/a@sha256:00"),
        ] {
            assert_eq!(image_name(said).map(|name| name.to_string()).as_deref(), Some(full), "{said}");
        }
        for said in ["", "localhost/", "a b", "a\nb"] {
            assert_eq!(image_name(said), None, "{said:?}");
        }
    }
}
