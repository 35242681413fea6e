//! Generated pages: the command line and the settings. `cargo xtask generate` writes them, tests compare them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command};
use crate::commands::service::{agent, server, settings};
use crate::config::{Config, Kind, Origin, SETTINGS, Setting};
use crate::exit::Exit;
use crate::service;

/// Every command that people may use, with its path, such as `token create`.
pub(crate) fn leaves() -> Vec<(String, clap::Command)> {
    fn below(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        for inner in command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help") {
            let path = format!("{path} {}", inner.get_name()).trim().to_owned();
            match inner.has_subcommands() {
                true => below(inner, &path, found),
                false => found.push((path, inner.clone())),
            }
        }
    }
    let (mut command, mut found) = (Cli::command(), Vec::new());
    command.build();
    below(&command, "", &mut found);
    found
}

/// Text within a cell of a table, on one line.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The part of the command line that stands for a setting in a section, such as `--listen`.
fn flag_of<'a>(command: &'a clap::Command, setting: &Setting) -> Option<&'a Arg> {
    let name = setting.key.split_once('.')?.1.replace('_', "-");
    command.get_arguments().find(|argument| argument.get_long() == Some(&name))
}

/// The setting that an argument of a command sets. Names are the same, the command says which section is meant.
fn setting_of(path: &str, argument: &Arg) -> Option<&'static Setting> {
    let sections: &[&str] = match path {
        "server" | "backup" => &["server"],
        "agent" => &["agent"],
        "up" => &["server", "agent"],
        _ => &[],
    };
    let name = argument.get_long()?.replace('-', "_");
    sections.iter().find_map(|section| Setting::of(&format!("{section}.{name}")))
}

fn is_shared(argument: &Arg) -> bool {
    argument.get_help_heading() == Some("Connection")
}

fn row(path: &str, argument: &Arg) -> String {
    let value = match (argument.get_value_names(), argument.get_action()) {
        (Some(names), ArgAction::Set | ArgAction::Append) => {
            names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    let named = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ];
    let named = named.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let shown = format!("{named} {value}");
    let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    assert!(!help.is_empty(), "{path}: {} has no help", argument.get_id());
    let values = argument.get_possible_values();
    if !values.is_empty() && matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        let _ = write!(help, " One of {}.", values.join(", "));
    }
    let defaults = argument.get_default_values();
    if !defaults.is_empty() && !matches!(argument.get_action(), ArgAction::SetTrue | ArgAction::Count) {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        let _ = write!(help, " Default: `{}`.", defaults.join(" "));
    }
    if let Some(setting) = setting_of(path, argument).filter(|_| !is_shared(argument)) {
        let _ = write!(help, " Environment: `{}`.", setting.env);
    }
    format!("| `{}` | {} |\n", cell(&shown), cell(&help))
}

/// What a command says of itself.
fn about(path: &str, command: &clap::Command) -> String {
    cell(&command.get_about().unwrap_or_else(|| panic!("{path} does not say what it does")).to_string())
}

/// How a command is called, as in its help; `connection` stands for the arguments that say where the server is.
fn usage(command: &clap::Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let has = |name: &str| command.get_arguments().any(|argument| argument.get_long() == Some(name));
    let also = match (has("ca-file"), has("config")) {
        (true, _) => " *connection*",
        (false, true) => " `[--config FILE]`",
        (false, false) => "",
    };
    format!("`{}`{also}", cell(usage.trim_start_matches("Usage:")))
}

/// The commands in one table, with what several of them take; then those with more than one argument of their own, each argument where
/// it is first met.
fn commands() -> String {
    let leaves = leaves();
    let link = |path: &str| format!("[`{path}`](#landfall-{})", path.replace(' ', "-"));
    let everywhere = |argument: &Arg| matches!(argument.get_id().as_str(), "json" | "help" | "version");
    let mut list = String::from("| command | what it does |\n|---|---|\n");
    let mut sections = String::new();
    let mut met: Vec<(&str, Vec<String>)> = Vec::new();
    for (path, command) in &leaves {
        let own =
            command.get_arguments().filter(|one| !everywhere(one) && !is_shared(one) && !one.is_hide_set());
        let rows: Vec<String> = own.map(|argument| row(path, argument)).collect();
        let (usage, about) = (usage(command), about(path, command));
        if let [] | [_] = rows.as_slice() {
            let only = rows.concat().trim_matches(['|', ' ', '\n']).replacen(" | ", ": ", 1);
            let usage = usage.replacen("landfall ", "", 1).replace(" [OPTIONS]", "");
            let _ = writeln!(list, "| {usage} | {about}{}{only} |", if only.is_empty() { "" } else { "; " });
            continue;
        }
        let _ = writeln!(list, "| {} | {about} |", link(path));
        let _ = write!(sections, "\n### `landfall {path}`\n\n| {usage} | {about} |\n|---|---|\n");
        // What another command takes in the same words is told there.
        let same = |(_, there): &(&str, Vec<String>)| rows.iter().filter(|row| there.contains(row)).count();
        let like = met.iter().rev().max_by_key(|one| same(one)).filter(|one| same(one) > 2);
        let told = |row: &String| like.is_some_and(|(_, there)| there.contains(row));
        sections.extend(rows.iter().filter(|row| !told(row)).map(String::as_str));
        if let Some((other, there)) = like {
            let name = |row: &String| row[2..].split(" | ").next().map(str::to_owned);
            let names: BTreeSet<_> = rows.iter().map(name).collect();
            let left: Vec<String> =
                there.iter().map(name).filter(|name| !names.contains(name)).flatten().collect();
            let but =
                if left.is_empty() { "all of it".into() } else { format!("except {}", left.join(", ")) };
            let _ = writeln!(sections, "| and what {} takes | {but} |", link(other));
        }
        met.push((path, rows));
    }
    let (_, any) = leaves.iter().find(|(path, _)| path == "jobs").unwrap();
    let shared = any.get_arguments().filter(|argument| everywhere(argument) || is_shared(argument));
    let shared: String = shared.map(|argument| row("jobs", argument)).collect();
    format!(
        "{list}\n### Arguments of many commands\n\nEvery command takes `--json` and `--help`; *connection* in a usage stands for the \
         others.\n\n| argument | meaning |\n|---|---|\n{shared}{sections}"
    )
}

fn exit_codes() -> String {
    let rows = Exit::ALL.map(|(exit, meaning)| format!("| {} | {meaning} |\n", exit.code()));
    let placed = Exit::OF_NEGOTIATION.map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    let head = "| code | meaning |\n|---|---|\n";
    let of = "\nOf a job in a pool that negotiates, that no peer took, `submit --wait` and `submit --dry-run` tell:\n\n";
    format!("{head}{}{of}{head}{}", rows.concat(), placed.concat())
}

#[test]
fn the_command_line_is_on_its_page() {
    let parts = [("commands", commands()), ("exit codes", exit_codes())];
    let kept = landfall_xtask::parts("docs/reference/cli.md", &parts);
    assert!(kept.is_ok(), "{}", kept.unwrap_err());
}

/// The command whose flags set the settings of a section.
fn command_for(setting: &Setting) -> &'static str {
    match setting.key.split_once('.').unwrap().0 {
        "client" | "peer" => "config show",
        section => section,
    }
}

#[test]
fn settings_are_on_their_page() {
    let leaves = leaves();
    let mut rows = String::from(
        "| setting | environment | flag | kind | if nothing is said | meaning |\n|---|---|---|---|---|---|\n",
    );
    for setting in SETTINGS {
        let (_, command) = leaves.iter().find(|(path, _)| path == command_for(setting)).unwrap();
        let flag = flag_of(command, setting)
            .map_or(String::new(), |flag| format!("`--{}`", flag.get_long().unwrap()));
        let kind = match setting.kind {
            Kind::Text | Kind::Secret => "text",
            Kind::Path => "path",
            Kind::Url => "URL",
            Kind::Address => "`HOST:PORT`",
            Kind::Whole => "number",
            Kind::Size => "size",
            Kind::Span => "span",
            Kind::Cores => "cores",
            Kind::Switch => "switch",
            Kind::List => "list",
        };
        let Setting { key, env, default, help, .. } = setting;
        let _ =
            writeln!(rows, "| `{key}` | `{env}` | {flag} | {kind} | {} | {} |", cell(default), cell(help));
    }
    let kept = landfall_xtask::parts("docs/reference/config.md", &[("settings", rows)]);
    assert!(kept.is_ok(), "{}", kept.unwrap_err());
}

/// A value that differs from what is usual.
fn sample(setting: &Setting) -> String {
    match setting.kind {
        // One of a few words each.
        Kind::Text if setting.key == "agent.platform" => "browser".into(),
        Kind::List if setting.key == "agent.accelerators" => "npu".into(),
        Kind::List if setting.key == "agent.sliced_gpus" => "3".into(),
        Kind::List if setting.key == "peer.bootstrap" => "/ip4/127.0.0.1/tcp/9".into(),
        Kind::List if setting.key == "peer.trust" => "id=0.5".into(),
        Kind::List if setting.key == "peer.settings" => "base_price=12".into(),
        Kind::Url => "http://127.0.0.1:9".into(),
        Kind::Address => "127.0.0.1:9".into(),
        Kind::Whole => "77".into(),
        Kind::Size => "77MiB".into(),
        Kind::Span => "77s".into(),
        Kind::Cores => "1.5".into(),
        Kind::Switch => "true".into(),
        Kind::List => "1-2".into(),
        Kind::Path => format!("/nowhere/{}", setting.key),
        Kind::Text | Kind::Secret => "word".into(),
    }
}

#[test]
fn every_setting_can_be_given_by_its_flag() {
    let leaves = leaves();
    let mut given = 0;
    for setting in SETTINGS {
        let path = command_for(setting);
        let (_, command) = leaves.iter().find(|(name, _)| name == path).unwrap();
        let Some(flag) = flag_of(command, setting) else { continue };
        given += 1;
        let mut line: Vec<String> =
            format!("landfall {path} --{}", flag.get_long().unwrap()).split(' ').map(str::to_owned).collect();
        if setting.kind != Kind::Switch {
            line.push(sample(setting));
        }
        // A certificate and its key go together.
        match setting.key {
            "server.tls_cert" => line.extend(["--tls-key".into(), "k".into()]),
            "server.tls_key" => line.extend(["--tls-cert".into(), "c".into()]),
            _ => {}
        }
        let flags = match Cli::try_parse_from(&line).unwrap().command {
            Command::Server(args) => args.flags(),
            Command::Agent(args) => args.flags(),
            Command::Config(settings::Command::Show(args)) => args.flags(),
            other => panic!("{other:?}"),
        };
        let config = Config::of(None, |_| None, &flags).unwrap();
        // An agent's own server, token and authorities come before the shared ones and are said by the same flags.
        let key =
            if is_shared(flag) { setting.key.replace("agent.", "client.") } else { setting.key.to_owned() };
        assert_eq!(
            (config.text(&key), config.origin(&key)),
            (Some(sample(setting).as_str()), Origin::Flag),
            "{line:?}"
        );
    }
    assert!(given > 15, "{given}");
}

#[test]
fn every_setting_is_read_by_somebody() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "lf_x\n").unwrap();
    let value = |setting: &Setting| match setting.key {
        // These are opened.
        "client.token_file" | "agent.token_file" => token.display().to_string(),
        _ => sample(setting),
    };
    let env = |name: &str| SETTINGS.iter().find(|setting| setting.env == name).map(value);
    let config = Config::of(None, env, &[]).unwrap();
    server::server_config(&config, None).unwrap();
    agent::agent_config(&config).unwrap();
    // There are no certificates, which is noticed only after the setting was read.
    let _ = service::client(&config);
    let asked = config.asked.lock().unwrap().clone();
    let unread: BTreeSet<&str> =
        SETTINGS.iter().map(|setting| setting.key).filter(|key| !asked.contains(*key)).collect();
    assert!(unread.is_empty(), "{unread:?} can be set and nobody looks");
}
