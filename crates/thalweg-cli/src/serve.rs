//! `thalweg serve`: the broker as a process: configuration, log, signals, exit code.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use thalweg_admin::{AdminHandle, AdminSettings, AdminTokens};
use thalweg_server::config::{Config, Reload};
use thalweg_server::{OnFailure, Server, ServerFailure, StartOptions};
use tracing::{error, info, warn};

use crate::admin_api::secret_in;
use crate::cli::{ConfigArgs, ServeArgs};
use crate::config::{in_words, load};
use crate::dds;
use crate::failure::{EXIT_FAILED, EXIT_INTERRUPTED, Failure};
use crate::log::{self, Level};

/// Runs the broker until it is asked to stop.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let (config, origins) = load(&args.config)?;
    let unreadable = config.unreadable_files(&origins);
    if !unreadable.is_empty() {
        return Err(in_words(unreadable));
    }
    let level = log::start(&config.log)?;
    // Before anything runs, so that no signal is missed, and SIGHUP never ends us.
    let mut signals = signals()?;
    raise_descriptor_limit();
    if rustix::process::geteuid().is_root() {
        warn!("running as root, which the broker does not need: run it as a user of its own");
    }
    for warning in config.warnings() {
        warn!("{warning}");
    }
    let failure = Arc::new(OnceLock::new());
    let mut broker = Broker::start(config, args.repair, failure.clone())?;
    // The journal has failed a moment before that is said here.
    if failure.get().is_none() && broker.server.observer().is_ready() {
        broker.say_ready();
    }
    for signal in signals.forever() {
        match signal {
            SIGHUP => broker.reload(&args.config, &level),
            _ => break,
        }
    }
    info!("stopping: clients are told, then everything ends");
    broker.stop();
    info!("stopped");
    match failure.get() {
        None => Ok(()),
        Some(why) => Err(in_full(why)),
    }
}

fn in_full(failure: &ServerFailure) -> Failure {
    Failure::new(failure.to_string())
        .mend("Look at the system's log and at the disk, then start again: what was acknowledged is there")
}

/// What happens when the journal fails for good: nothing can be acknowledged any more, so the process must not go on. A
/// thread that panics does not come here, because that ends the process at once.
fn on_failure(failure: Arc<OnceLock<ServerFailure>>) -> OnFailure {
    Arc::new(move |why| {
        // The first failure is the one to tell.
        let _ = failure.set(why.clone());
        let why = why.clone();
        // An end in order needs shards that answer; it must come to an end even if they wait for the disk.
        let watch = std::thread::Builder::new()
            .name("last-resort".into())
            .spawn(move || {
                std::thread::sleep(PATIENCE_AFTER_FAILURE);
                eprintln!("{}", in_full(&why));
                std::process::exit(i32::from(EXIT_FAILED));
            });
        let asked = signal_hook::low_level::raise(SIGTERM);
        if watch.is_err() || asked.is_err() {
            std::process::exit(i32::from(EXIT_FAILED));
        }
    })
}

/// Server and admin API, and the configuration they run with.
struct Broker {
    /// Ends before the server that it is a session of.
    dds: Option<dds::Bridge>,
    server: Server,
    admin: Option<AdminHandle>,
    config: Config,
}

impl Broker {
    fn start(
        config: Config,
        repair: bool,
        failure: Arc<OnceLock<ServerFailure>>,
    ) -> Result<Broker, Failure> {
        let options = StartOptions {
            repair,
            on_failure: Some(on_failure(failure)),
            ..StartOptions::default()
        };
        let server = Server::start_with(config.clone(), options)
            .map_err(|errors| in_words(errors).code(EXIT_FAILED))?;
        let admin = match config.admin.enabled {
            true => {
                let settings = admin_settings(&config, &server)?;
                Some(thalweg_admin::start(server.observer(), settings).map_err(Failure::new)?)
            }
            false => None,
        };
        let dds = dds::start(&config, &server)?;
        Ok(Broker {
            dds,
            server,
            admin,
            config,
        })
    }

    /// The line that supervisors and scripts wait for; it comes whatever the log's level is.
    fn say_ready(&self) {
        let mut addresses: Vec<String> = self
            .server
            .listening()
            .iter()
            .map(|(name, address)| format!("{name} on {address}"))
            .collect();
        addresses.extend(
            self.admin
                .as_ref()
                .map(|admin| format!("admin on {}://{}", self.admin_scheme(), admin.local_addr())),
        );
        let addresses = addresses.join(", ");
        match tracing::enabled!(tracing::Level::INFO) && self.config.log.file.is_none() {
            true => info!("ready: {addresses}"),
            false => {
                info!("ready: {addresses}");
                eprintln!("ready: {addresses}");
            }
        }
    }

    fn admin_scheme(&self) -> &'static str {
        if self.server.admin_tls().is_some() {
            "https"
        } else {
            "http"
        }
    }

    /// Reads the configuration again and takes over what can change while clients are connected. On any mistake everything
    /// stays as it was.
    fn reload(&mut self, args: &ConfigArgs, level: &Level) {
        let config = match self.take_over(args) {
            Ok(config) => config,
            Err(failure) => {
                return error!("reload refused, nothing is changed: {}", failure.what());
            }
        };
        let changes = self.config.diff(&config);
        level.set(config.log.level);
        if config.warnings() != self.config.warnings() {
            for warning in config.warnings() {
                warn!("{warning}");
            }
        }
        for change in &changes {
            // Values stay out of the log: some are secrets.
            match change.reload {
                Reload::Now => info!("reloaded: {} applies now", change.key),
                Reload::NewConnections => {
                    info!("reloaded: {} applies to new connections", change.key)
                }
                Reload::Restart => warn!(
                    "reloaded: {} applies when the broker starts again",
                    change.key
                ),
            }
        }
        match changes.len() {
            0 => info!(
                "reloaded: no setting changed; password, access and certificate files were read again"
            ),
            count => info!("reloaded: {count} settings changed"),
        }
        self.config = config;
    }

    fn take_over(&mut self, args: &ConfigArgs) -> Result<Config, Failure> {
        let (config, origins) = load(args)?;
        let unreadable = config.unreadable_files(&origins);
        if !unreadable.is_empty() {
            return Err(in_words(unreadable));
        }
        self.server.reload(config.clone()).map_err(in_words)?;
        Ok(config)
    }

    fn stop(self) {
        // The admin API first: it asks the server, which is about to go.
        if let Some(admin) = self.admin {
            admin.stop();
        }
        if let Some(bridge) = self.dds {
            dds::stop(bridge);
        }
        self.server.stop();
    }
}

fn admin_settings(config: &Config, server: &Server) -> Result<AdminSettings, Failure> {
    let admin = &config.admin;
    let token = |token: &Option<String>, file: &Option<PathBuf>| match file {
        None => Ok(token.clone()),
        Some(file) => secret_in(file).map(Some),
    };
    let tokens = AdminTokens {
        admin: token(&admin.token, &admin.token_file)?,
        read: token(&admin.read_token, &admin.read_token_file)?,
    };
    // Where clients must prove who they are, an account on this machine is no proof.
    let anonymous =
        !config.has_authentication() && config.access.acl_file.is_none() && tokens.read.is_none();
    Ok(AdminSettings {
        bind: admin.bind,
        tokens,
        anonymous,
        tls: server.admin_tls(),
        unix_socket: admin
            .unix_socket
            .clone()
            .map(|path| (path, admin.unix_mode)),
    })
}

/// SIGHUP, and SIGINT and SIGTERM once. The second of these ends the process at once.
fn signals() -> Result<Signals, Failure> {
    let trouble =
        |error: std::io::Error| Failure::new(format!("signals cannot be received: {error}"));
    let is_stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(EXIT_INTERRUPTED),
            is_stopping.clone(),
        )
        .map_err(trouble)?;
        signal_hook::flag::register(signal, is_stopping.clone()).map_err(trouble)?;
    }
    Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(trouble)
}

/// Every connection takes a file descriptor, and systems hand out fewer than they allow.
fn raise_descriptor_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        warn!(
            "the limit of open files stays low: {error}; raise it with `ulimit -n` if many clients are to connect"
        );
    }
}

/// How long an end in order may take once the journal has failed.
const PATIENCE_AFTER_FAILURE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;
    use thalweg_server::EXIT_PANICKED;

    /// What is set up first stays when a command fails, here for its configuration.
    #[test]
    #[ignore = "a child of a_thread_that_panics_ends_the_process"]
    fn child_whose_thread_panics() {
        let cli = Cli::parse_from(["thalweg", "serve", "--set", "no.such=key"]);
        let is_refused = crate::obey(&cli.command).is_err();
        let _ = std::thread::spawn(move || assert!(!is_refused, "a thread died")).join();
    }

    #[test]
    fn a_thread_that_panics_ends_the_process() {
        let program = std::env::current_exe().expect("a running program has a path");
        let child = "serve::tests::child_whose_thread_panics";
        let output = std::process::Command::new(program)
            .args(["--exact", child, "--ignored", "--nocapture"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(EXIT_PANICKED.into()), "{said}");
        assert!(said.contains("a thread died"), "{said}");
    }
}
