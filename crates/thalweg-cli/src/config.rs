//! `thalweg config`: checks, explains and shows the configuration; and how every command comes by it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;

use thalweg_server::config::{self, Config, Origins, Reload};

use crate::admin_api::AdminApi;
use crate::cli::{ConfigArgs, ConfigCommand};
use crate::failure::{EXIT_USAGE, Failure};

/// Runs the command; documents go to `out`.
pub fn run(command: &ConfigCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check {
            config: args,
            running,
            admin,
        } => {
            let (config, origins) = load(args)?;
            refuse(config.unreadable_files(&origins))?;
            for warning in config.warnings() {
                writeln!(out, "warning: {warning}")?;
            }
            writeln!(out, "the configuration is sound")?;
            if *running {
                compare(&config, &AdminApi::new(admin)?, out)?;
            }
        }
        ConfigCommand::Explain { key, config: args } => {
            let (config, origins) = load(args)?;
            match key {
                Some(key) => {
                    let text = config
                        .explain(&origins, key)
                        .map_err(|error| Failure::usage(error.to_string()))?;
                    out.write_all(text.as_bytes())?;
                }
                None => {
                    for key in config::Key::all() {
                        let text = config
                            .explain(&origins, &key.name)
                            .map_err(|error| Failure::usage(error.to_string()))?;
                        writeln!(out, "{text}")?;
                    }
                }
            }
        }
        ConfigCommand::Show(args) => {
            let (config, origins) = load(args)?;
            out.write_all(config.to_toml(&origins).as_bytes())?;
        }
        ConfigCommand::Reference => out.write_all(config::reference().as_bytes())?,
    }
    Ok(out.flush()?)
}

/// Prints what `config` changes at a running broker.
fn compare(config: &Config, broker: &AdminApi, out: &mut dyn Write) -> Result<(), Failure> {
    let answer = broker.json("/v1/config", &[])?;
    let values: Option<BTreeMap<String, String>> = answer
        .get("values")
        .and_then(|values| serde_json::from_value(values.clone()).ok());
    let values = values.ok_or_else(|| {
        Failure::new(format!("{} does not name its values", broker.shown()))
            .mend("Is it a thalweg broker of this version?")
    })?;
    let changes = config.diff_from(&values);
    for change in &changes {
        let value = |text: &str| match text {
            "" => "not set".to_owned(),
            text => text.to_owned(),
        };
        let (before, after) = (value(&change.before), value(&change.after));
        let applies = change.reload;
        writeln!(out, "{}: {before} -> {after}, {applies}", change.key)?;
    }
    let restart = changes
        .iter()
        .filter(|change| change.reload == Reload::Restart)
        .count();
    writeln!(
        out,
        "{} of {} settings differ from {}: {} with a reload, {restart} with a restart; values of secrets are not compared",
        changes.len(),
        values.len(),
        broker.shown(),
        changes.len() - restart
    )?;
    Ok(())
}

/// The configuration from all its sources: file, environment, command line.
pub fn load(args: &ConfigArgs) -> Result<(Config, Origins), Failure> {
    let mut sets = args.sets.clone();
    sets.extend(
        args.data
            .as_ref()
            .map(|data| format!("data_dir={}", data.display())),
    );
    // Variables that are not UTF-8 cannot be settings, and must not stop us either.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Config::load(args.config.as_deref(), env, &sets).map_err(in_words)
}

/// One failure out of all mistakes.
pub fn in_words(errors: Vec<impl Display>) -> Failure {
    let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Failure::new(words.join(BETWEEN_MISTAKES)).code(EXIT_USAGE)
}

/// What stands between two mistakes, so that each begins a line as the first one does.
const BETWEEN_MISTAKES: &str = "\nerror: ";

fn refuse(errors: Vec<impl Display>) -> Result<(), Failure> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(in_words(errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(sets: &[&str]) -> ConfigArgs {
        ConfigArgs {
            sets: sets.iter().map(ToString::to_string).collect(),
            ..ConfigArgs::default()
        }
    }

    #[test]
    fn every_mistake_is_told_with_how_to_mend_it() {
        let failure = load(&args(&["queue.overflw=x", "limits.connections_max=many"]))
            .expect_err("two mistakes");
        let words = failure.to_string();
        assert!(words.contains("Did you mean queue.overflow?"), "{words}");
        assert!(
            words.contains("\nerror: --set: limits.connections_max"),
            "{words}"
        );
    }

    #[test]
    fn what_is_shown_can_be_loaded_again() {
        let mut shown = Vec::new();
        run(
            &ConfigCommand::Show(args(&["queue.overflow=drop-oldest"])),
            &mut shown,
        )
        .expect("legal");
        let shown = String::from_utf8(shown).expect("text");
        assert!(
            shown.contains("overflow = \"drop-oldest\" # --set"),
            "{shown}"
        );
        let file = Some((std::path::Path::new("shown.toml"), shown.as_str()));
        let (again, _) =
            Config::from_text(file, std::iter::empty(), &[]).expect("what we print is legal");
        let (before, _) = load(&args(&["queue.overflow=drop-oldest"])).expect("legal");
        assert_eq!(again, before);
    }
}
