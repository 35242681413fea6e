//! Pages generated from the catalogue, checked in and verified.

use std::fmt::Write as _;
use std::path::Path;

use landfall_model::{Kind, Needs};
use landfall_policy::params::{Default, ParamInfo, ParamKind};
use landfall_policy::rules::offer;
use landfall_policy::{CHOICE_PARAMS, builtin, catalogue, devices};

const TERMS: &str = "docs/reference/terms.md";
const POLICIES: &str = "docs/reference/policies.md";
const SCENARIO: &str = "docs/reference/scenario.md";
/// Writes all generated files: those of the catalogue here, the others by the tests of the crates that know them.
pub(crate) fn write(_: &Path) -> Result<(), String> {
    keep(true)?;
    // As `ci` builds it, so that nothing is built anew.
    super::tree("test", &["--lib", "--bins", "--quiet", "reference::"], &[(landfall_xtask::WRITE, "1")])
}

/// Fails if a page of the catalogue differs from what would be written; the tests compare the others.
pub(crate) fn check(_: &Path) -> Result<(), String> {
    keep(false)
}

fn keep(write: bool) -> Result<(), String> {
    pages()?.iter().try_for_each(|(file, text)| landfall_xtask::page(file, text, write))
}

fn pages() -> Result<[(&'static str, String); 3], String> {
    Ok([(TERMS, terms()), (POLICIES, policies()?), (SCENARIO, scenario()?)])
}

/// The page with the table of a job's fields made anew.
fn scenario() -> Result<String, String> {
    let mut table = String::from("| field | value | default | meaning |\n|---|---|---|---|\n");
    for field in Needs::FIELDS.iter().filter(|field| field.name != "workload") {
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            field.name,
            value(field.kind),
            field.default,
            field.doc
        );
    }
    landfall_xtask::with_parts(SCENARIO, &[("job fields", table)])
}

fn value(kind: Kind) -> String {
    let ticked = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::Text => "name".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Whole => "whole number".to_owned(),
        Kind::Amount(unit) => unit.to_owned(),
        Kind::Word(words) => ticked(words),
        Kind::List(item) => format!("list: {}", value(*item)),
        Kind::Object(fields) => format!("`{{ {} }}`", fields.join(", ")),
        Kind::Either(plain, fields) => format!("{} or `{{ {} }}`", value(*plain), fields.join(", ")),
    }
}

fn terms() -> String {
    let mut page = String::from(
        "# Terms and filters\n\nGenerated from the catalogue by `cargo xtask generate`. `landfall policy terms` prints the same.\n",
    );
    let mut family = String::new();
    for info in catalogue::terms() {
        let of = format!("{:?}", info.family);
        if of != family {
            let _ = write!(page, "\n## Terms: {of}\n");
            family = of;
        }
        let most = info.range.1.map_or("no bound".to_owned(), |max| max.to_string());
        let unit = if info.unit.is_empty() { String::new() } else { format!(", in {}", info.unit) };
        let _ = write!(
            page,
            "\n### `{}`\n\n{}\n\n{:?}, from {} to {most}{unit}.\n",
            info.name, info.description, info.class, info.range.0
        );
        parameters(&mut page, info.params);
    }
    page.push_str("\n## Filters\n");
    for info in catalogue::filters() {
        let reasons: Vec<String> = info.reasons.iter().map(|reason| format!("`{reason}`")).collect();
        let _ =
            write!(page, "\n### `{}`\n\n{} Reasons: {}.\n", info.name, info.description, reasons.join(", "));
        parameters(&mut page, info.params);
    }
    page.push_str("\n## Choice\n\nParameters that every policy may set under `[params]`.\n");
    parameters(&mut page, &CHOICE_PARAMS);
    page.push_str("\n## Offers\n\nParameters that policies over peers' offers may set under `[params]`.\n");
    parameters(&mut page, &offer::PARAMS);
    page.push_str("\n## Devices\n\nParameters that every policy may set under `[params]`.\n");
    parameters(&mut page, &devices::PARAMS);
    page
}

fn parameters(page: &mut String, params: &[ParamInfo]) {
    if params.is_empty() {
        return;
    }
    page.push_str("\n| parameter | default | values | meaning |\n|---|---|---|---|\n");
    for param in params {
        let default = match param.default {
            Default::Number(x) if x.is_infinite() => "none".to_owned(),
            Default::Number(x) => x.to_string(),
            Default::Whole(x) => x.to_string(),
            Default::Switch(x) => x.to_string(),
            Default::Word(x) => format!("`{x}`"),
        };
        let values = match param.kind {
            ParamKind::Number { min, max } if min <= -1e15 && max >= 1e15 => "any number".to_owned(),
            ParamKind::Number { min, max } if max >= 1e15 => format!("from {min} up"),
            ParamKind::Number { min, max } => format!("{min} to {max}"),
            ParamKind::Whole { min, .. } => format!("whole, from {min} up"),
            ParamKind::Switch => "true, false".to_owned(),
            ParamKind::Word(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            ParamKind::Limit => "a whole number, or `all`".to_owned(),
            ParamKind::Text => "a name".to_owned(),
        };
        let is_number = default.parse::<f64>().is_ok();
        let unit =
            if is_number && !param.unit.is_empty() { format!(" {}", param.unit) } else { String::new() };
        let _ = writeln!(page, "| `{}` | {default}{unit} | {values} | {} |", param.name, param.description);
    }
}

fn policies() -> Result<String, String> {
    let mut page = String::from(
        "# Built-in policies\n\nGenerated by `cargo xtask generate`. `landfall policy show NAME` prints the file of a policy; a copy of it, changed, is \
         a policy of your own.\n",
    );
    for (name, _) in builtin::ALL {
        let policy = builtin::policy(name)
            .ok_or("a listed policy exists")?
            .map_err(|error| format!("{name}: {error}"))?;
        let _ = write!(page, "\n## `{name}`\n\n{}\n", policy.spec().description);
        let filters: Vec<String> =
            policy.spec().filters.iter().map(|used| format!("`{}`", used.name)).collect();
        let _ = write!(page, "\nFilters: {}.\n", filters.join(", "));
        let terms: Vec<String> = policy
            .term_weights()
            .map(|(info, weight)| format!("`{}` × {}", info.name, (weight * 1e6).round() / 1e6))
            .collect();
        if terms.is_empty() {
            page.push_str("\nNo terms: the order of nodes or the draw decides.\n");
        } else {
            let _ = write!(page, "\nTerms: {}.\n", terms.join(", "));
        }
    }
    Ok(page)
}
