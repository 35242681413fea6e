//! Pages generated from the catalogue, checked in and verified.

use std::fmt::Write as _;

use landfall_model::{Kind, Needs};

use crate::params::{Default, ParamInfo, ParamKind};
use crate::rules::offer;
use crate::{CHOICE_PARAMS, builtin, catalogue, devices};

#[test]
fn pages_of_the_catalogue_are_up_to_date() {
    let table = [("job fields", job_fields())];
    let write = landfall_xtask::writing();
    let kept = [
        landfall_xtask::page("docs/reference/terms.md", &terms(), write),
        landfall_xtask::page("docs/reference/policies.md", &policies(), write),
        landfall_xtask::parts("docs/reference/scenario.md", &table),
    ];
    assert_eq!(kept, [Ok(()), Ok(()), Ok(())]);
}

fn job_fields() -> String {
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
    table
}

fn value(kind: Kind) -> String {
    match kind {
        Kind::Text => "name".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Whole => "whole number".to_owned(),
        Kind::Number => "number".to_owned(),
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
    let terms: Vec<_> = catalogue::terms().collect();
    for family in terms.chunk_by(|a, b| a.family == b.family) {
        let _ = write!(
            page,
            "\n## Terms: {:?}\n\n| term | class | range | what it says |\n|---|---|---|---|\n",
            family[0].family
        );
        for info in family {
            let most = info.range.1.map_or("no bound".to_owned(), |max| max.to_string());
            let range = format!("{} to {most} {}", info.range.0, info.unit);
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                info.name,
                format!("{:?}", info.class).to_lowercase(),
                range.trim_end(),
                info.description
            );
        }
        page.push_str(&parameters(family.iter().map(|info| (info.name, info.params))));
    }
    page.push_str("\n## Filters\n\n| filter | what it asks | reasons |\n|---|---|---|\n");
    for info in catalogue::filters() {
        let _ = writeln!(page, "| `{}` | {} | {} |", info.name, info.description, ticked(info.reasons));
    }
    page.push_str(&parameters(catalogue::filters().map(|info| (info.name, info.params))));
    page.push_str(
        "\n## Policies\n\nParameters of no single term. Every policy may set those of the choice and of devices under `[params]`, \
         policies over peers' offers also those of offers.\n",
    );
    let others: [(_, &[_]); 3] =
        [("choice", &CHOICE_PARAMS), ("offers", &offer::PARAMS), ("devices", &devices::PARAMS)];
    page.push_str(&parameters(others.into_iter()));
    page
}

fn ticked(words: &[impl std::fmt::Display]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// A table of parameters, each once with everything that has it.
fn parameters<'a>(owners: impl Iterator<Item = (&'a str, &'a [ParamInfo])>) -> String {
    let mut rows: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for (owner, param) in owners.flat_map(|(owner, params)| params.iter().map(move |param| (owner, param))) {
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
            ParamKind::Word(words) => ticked(words),
            ParamKind::Limit => "a whole number, or `all`".to_owned(),
            ParamKind::Text => "a name".to_owned(),
        };
        let unit = if default.parse::<f64>().is_ok() { param.unit } else { "" };
        let said = format!("{} | {values} | {}", format!("{default} {unit}").trim_end(), param.description);
        match rows.iter_mut().find(|(name, as_before, _)| *name == param.name && *as_before == said) {
            Some((.., of)) => of.push(owner),
            None => rows.push((param.name, said, vec![owner])),
        }
    }
    let head = "\n| parameter | of | default | values | meaning |\n|---|---|---|---|---|\n";
    rows.iter().enumerate().fold(String::new(), |table, (place, (name, said, of))| {
        let head = if place == 0 { head } else { "" };
        format!("{table}{head}| `{name}` | {} | {said} |\n", ticked(of))
    })
}

fn policies() -> String {
    let mut page = String::from(
        "# Built-in policies\n\nGenerated by `cargo xtask generate`. `landfall policy show NAME` prints the file of a policy; a copy of it, changed, is \
         a policy of your own.\n",
    );
    for (name, _) in builtin::ALL {
        let policy = builtin::policy(name).expect("listed").expect("right");
        let _ = write!(page, "\n## `{name}`\n\n{}\n", policy.spec().description);
        let filters: Vec<String> =
            policy.spec().filters.iter().map(|used| format!("`{}`", used.name)).collect();
        let _ = write!(page, "\n- Filters: {}.\n", filters.join(", "));
        let terms: Vec<String> = policy
            .term_weights()
            .map(|(info, weight)| format!("`{}` × {}", info.name, (weight * 1e6).round() / 1e6))
            .collect();
        if terms.is_empty() {
            page.push_str("- No terms: the order of nodes or the draw decides.\n");
        } else {
            let _ = writeln!(page, "- Terms: {}.", terms.join(", "));
        }
    }
    page
}
