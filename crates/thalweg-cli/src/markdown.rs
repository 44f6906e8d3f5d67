//! Markdown from the declarations of a command line, for the reference pages of `thalweg` and of `thalweg-bench`, whose own
//! source includes this file.

use std::fmt::Write as _;

use clap::{Arg, ArgAction};

/// Appends every visible subcommand of `command`, with headings from `depth` on; `path` is how `command` is called.
pub fn describe(command: &clap::Command, path: &str, depth: usize, text: &mut String) {
    for command in command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        let path = format!("{path} {}", command.get_name());
        let _ = writeln!(text, "\n{} `{path}`\n", "#".repeat(depth));
        let about = command
            .get_long_about()
            .or_else(|| command.get_about())
            .map(ToString::to_string);
        let _ = writeln!(text, "{}", escaped(&about.unwrap_or_default()));
        if command.has_subcommands() {
            describe(command, &path, depth + 1, text);
            continue;
        }
        // The usage line without styles.
        let usage = command.clone().render_usage().to_string();
        let usage = usage
            .trim_start_matches("Usage:")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let _ = writeln!(text, "\n```text\n{usage}\n```");
        flags(command, text);
        if let Some(after) = command.get_after_help() {
            let _ = writeln!(text, "\n```text\n{}\n```", after.to_string().trim_end());
        }
    }
}

fn flags(command: &clap::Command, text: &mut String) {
    let mut heading = None;
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    // Those without a heading come first, as in --help.
    let mut args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    args.sort_by_key(|arg| arg.get_help_heading().is_some());
    if args.is_empty() {
        return;
    }
    text.push('\n');
    for arg in args {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            let _ = writeln!(text, "\n{}:\n", heading.unwrap_or("Options"));
        }
        let help = arg
            .get_long_help()
            .or_else(|| arg.get_help())
            .map(ToString::to_string)
            .unwrap_or_default();
        let mut line = format!("- `{}`: {}", name(arg), escaped(&help));
        let defaults: Vec<_> = arg
            .get_default_values()
            .iter()
            .filter_map(|value| value.to_str())
            .collect();
        if takes_value(arg) && !defaults.is_empty() && defaults != [""] {
            let _ = write!(line, ". Default: `{}`", defaults.join(" "));
        }
        let _ = writeln!(text, "{line}");
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn name(arg: &Arg) -> String {
    let value = match (takes_value(arg), arg.get_value_names()) {
        (true, Some(names)) => names.iter().map(|name| format!(" <{name}>")).collect(),
        _ => String::new(),
    };
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, None) => value.trim().to_owned(),
    }
}

/// `<`, `*`, `#` and `_` mean something to Markdown.
fn escaped(text: &str) -> String {
    let mut quoted = false;
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        quoted ^= letter == '`';
        if !quoted && matches!(letter, '<' | '*' | '#' | '_' | '[') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
