//! One grammar for what there is: a plural lists, a singular with a name shows one, and verbs follow the plural.
//!
//! `landfall pools` is `landfall pools list`, `landfall pool gpu` is `landfall pools show gpu`, and `landfall jobs show 12` is
//! `landfall job 12`. docs/reference/grammar.md says it for people.

use std::ffi::OsString;

/// A kind of thing: its plural, its singular, and how listing and showing are spelled where commands are made.
struct Noun {
    plural: &'static str,
    singular: &'static str,
    list: &'static [&'static str],
    show: &'static [&'static str],
}

const NOUNS: &[Noun] = &[
    Noun { plural: "jobs", singular: "job", list: &["jobs"], show: &["job"] },
    Noun { plural: "arrays", singular: "array", list: &["arrays"], show: &["job"] },
    Noun { plural: "dags", singular: "dag", list: &["dags", "list"], show: &["dags", "show"] },
    Noun { plural: "nodes", singular: "node", list: &["nodes"], show: &["node"] },
    Noun { plural: "pools", singular: "pool", list: &["pools", "list"], show: &["pools", "show"] },
    Noun { plural: "peers", singular: "peer", list: &["peers", "list"], show: &["peers", "show"] },
    Noun { plural: "tenants", singular: "tenant", list: &["tenants", "list"], show: &["tenants", "show"] },
    Noun {
        plural: "workloads",
        singular: "workload",
        list: &["workloads", "list"],
        show: &["workloads", "show"],
    },
    Noun { plural: "policies", singular: "policy", list: &["policy", "list"], show: &["policy", "show"] },
    Noun { plural: "tokens", singular: "token", list: &["token", "list"], show: &["token"] },
];

/// The words of a command line as its commands are made.
pub(crate) fn settled(words: Vec<OsString>) -> Vec<OsString> {
    let Some(at) = words.iter().skip(1).position(|word| word != "--json").map(|at| at + 1) else {
        return words;
    };
    let text = |place: usize| words.get(place).and_then(|word| word.to_str());
    let Some(noun) = text(at) else { return words };
    let second = text(at + 1);
    let named = second.is_some_and(|word| !word.starts_with('-'));
    let verb = |verb: &str| second == Some(verb);
    let found = NOUNS.iter().find(|known| noun == known.plural || noun == known.singular);
    let Some(Noun { plural, list, show, .. }) = found else { return words };
    // How many words are replaced, and by what.
    let (taken, by): (usize, &[&str]) = match noun == *plural {
        _ if verb("list") => (2, list),
        _ if verb("show") => (2, show),
        true if !named && second != Some("-h") && second != Some("--help") => (1, list),
        true => (1, &list[..1]),
        false if noun == "array" && is_verb(list[0], second) => (1, list),
        // `peer id` is about this server, not about the peer of that name.
        false if show.len() == 2 && is_verb(noun, second.filter(|_| named).or(Some("help"))) => (0, &[]),
        false if named && show.len() == 2 && !is_verb(show[0], second) => (1, show),
        false => (1, &show[..1]),
    };
    let mut settled: Vec<OsString> = words[..at].to_vec();
    settled.extend(by.iter().map(OsString::from));
    settled.extend(words[at + taken..].iter().cloned());
    settled
}

/// Whether a word is a command below another one.
fn is_verb(command: &str, word: Option<&str>) -> bool {
    use clap::CommandFactory as _;
    let whole = crate::cli::Cli::command();
    let below = whole.find_subcommand(command).cloned().map(|mut below| {
        // Made only when it is needed.
        below.build();
        below
    });
    below
        .is_some_and(|below| word.is_some_and(|word| word == "help" || below.find_subcommand(word).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plural_lists_and_a_singular_shows() {
        for (said, meant) in [
            ("jobs", "jobs"),
            ("jobs --all", "jobs --all"),
            ("jobs list --all", "jobs --all"),
            ("jobs show 12", "job 12"),
            ("job 12", "job 12"),
            ("array 12", "job 12"),
            ("array add 12 5", "arrays add 12 5"),
            ("arrays close 12", "arrays close 12"),
            ("dags", "dags list"),
            ("dag 12", "dags show 12"),
            ("dag cancel 12", "dags cancel 12"),
            ("nodes show n1", "node n1"),
            ("pools", "pools list"),
            ("--json pools", "--json pools list"),
            ("pools --server x", "pools list --server x"),
            ("pools --help", "pools --help"),
            ("peers", "peers list"),
            ("peers trust x 1", "peers trust x 1"),
            ("peer id", "peer id"),
            ("pools set gpu", "pools set gpu"),
            ("pool gpu", "pools show gpu"),
            ("pool set gpu", "pools set gpu"),
            ("tenant lab", "tenants show lab"),
            ("workload w", "workloads show w"),
            ("peers", "peers list"),
            ("peers add x", "peers add x"),
            ("peer id", "peer id"),
            ("peer", "peer"),
            ("peer --help", "peer --help"),
            ("peer lab", "peers show lab"),
            ("policies", "policy list"),
            ("policy fit", "policy show fit"),
            ("policy terms", "policy terms"),
            ("tokens", "token list"),
            ("tokens create x", "token create x"),
            ("token list", "token list"),
            ("submit -- pools", "submit -- pools"),
            ("", ""),
        ] {
            let words: Vec<OsString> =
                ["landfall"].into_iter().chain(said.split_whitespace()).map(OsString::from).collect();
            let settled: Vec<String> =
                settled(words).into_iter().skip(1).map(|word| word.into_string().unwrap()).collect();
            assert_eq!(settled.join(" "), meant, "{said}");
        }
    }
}
