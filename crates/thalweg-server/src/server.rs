//! A whole server: shards, lobby, vault, and the small thread that looks after memory and `$SYS`.

use crate::access::{VAULT_QUEUE_LIMIT_DEFAULT, VAULT_THREADS_DEFAULT, Vault, VaultPool};
use crate::config::Config;
use crate::door::Door;
use crate::keeper::{Duties, Keeper, memory_budget};
use crate::listen::{Listener, ListenerSpec};
use crate::lobby::{Arrival, Deliver, Lobby, LobbyHandle, LobbyReload};
use crate::observer::{Observer, Overall};
use crate::settings::{self, ShardSettings};
use crate::shard::{Mailbox, Shard, ShardParts, ToShard};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_kernel::ShardId;

/// Why a server cannot start, or a configuration cannot be taken over: what is wrong and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A running server. Dropping it stops it.
pub struct Server {
    observer: Observer,
    vault: Arc<Vault>,
    /// Keeps the fake salts of unknown users stable; see `secret.rs`.
    secret: [u8; 32],
    lobby: Option<LobbyHandle>,
    listening: Vec<(String, String)>,
    shards: Vec<JoinHandle<()>>,
    keeper: Option<Keeper>,
    /// What is in force, which may differ from the file in what needs a restart.
    config: Config,
}

impl Server {
    /// Starts everything; when it returns, all listeners accept. All faults at once, not only the first.
    pub fn start(config: Config) -> Result<Server, Vec<StartError>> {
        let secret = crate::secret::recall(&config.data_dir);
        let vault = Vault::load(&settings::access_settings(&config, secret)).map_err(|errors| all(&errors));
        let (vault, listeners) = match (vault, bind_all(&config)) {
            (Ok(vault), Ok(listeners)) => (Arc::new(vault), listeners),
            (vault, listeners) => return Err(vault.err().into_iter().chain(listeners.err()).flatten().collect()),
        };
        keep_secret(&config, &secret);
        let duties = duties(&config, listeners.iter().map(|listener| &**listener.spec()));
        let listening =
            listeners.iter().map(|listener| (listener.spec().name.to_string(), address_of(listener))).collect();
        let one = |what: &str, error: &dyn fmt::Display| {
            vec![StartError(format!("{what}: {error}; the operating system is at fault, check its limits"))]
        };
        let pool = VaultPool::new(vault.clone(), VAULT_THREADS_DEFAULT, VAULT_QUEUE_LIMIT_DEFAULT)
            .map_err(|error| one("cannot start the vault's threads", &error))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = config.shard_count(cores);
        let (mailboxes, shards) = start_shards(&config, count, &vault, Arc::new(pool))
            .map_err(|error| one("cannot start the shards' threads", &error))?;
        let deliver = Box::new(Usher { shards: mailboxes.clone(), next: AtomicUsize::new(0) });
        let lobby = Lobby::start(listeners, settings::lobby_settings(&config), deliver)
            .map_err(|error| one("cannot start the lobby's thread", &error))?;
        let memory_bytes_max = config.limits.memory_bytes_max.unwrap_or_else(memory_budget);
        let overall = Arc::new(Overall {
            lobby: lobby.counters().clone(),
            ready: AtomicBool::new(true),
            pressure: AtomicUsize::new(0),
            memory_bytes_max: AtomicUsize::new(memory_bytes_max),
            started_at: Instant::now(),
        });
        let observer = Observer { shards: mailboxes, overall };
        let keeper = Keeper::start(observer.clone(), duties).map_err(|error| one("cannot start a thread", &error))?;
        Ok(Server { observer, vault, secret, lobby: Some(lobby), listening, shards, keeper: Some(keeper), config })
    }

    /// A window into it.
    pub fn observer(&self) -> Observer {
        self.observer.clone()
    }

    /// The listeners by name, and where they listen; port 0 has become a real one.
    pub fn listening(&self) -> &[(String, String)] {
        &self.listening
    }

    /// Takes over what may change while it runs: limits, access files, certificates, MQTT settings. Listeners that are
    /// new or elsewhere are opened, those that are gone are closed; what needs a restart stays as it is. No connection is dropped. On
    /// an error everything stays as it was.
    pub fn reload(&mut self, config: Config) -> Result<(), Vec<StartError>> {
        let config = config.within_run_of(&self.config);
        let mut change = Vec::new();
        let mut add = Vec::new();
        let mut errors = Vec::new();
        for (name, listener) in config.enabled_listeners() {
            let open = self.config.listeners.get(name).filter(|old| old.enabled);
            match settings::listener_spec(&config, name, listener) {
                Err(what) => errors.push(StartError(format!("listener {name}: {what}"))),
                Ok(spec) if open.is_some_and(|old| old.bind == listener.bind) => change.push(spec),
                Ok(spec) => match Listener::bind(spec) {
                    Ok(bound) => add.push(bound),
                    Err(fault) => errors.push(StartError(fault.to_string())),
                },
            }
        }
        let access = settings::access_settings(&config, self.secret);
        if errors.is_empty() {
            self.vault.reload(&access).map_err(|errors| all(&errors))?;
        } else {
            // Only to name all faults at once.
            errors.extend(Vault::load(&access).err().iter().flat_map(|errors| all(errors)));
            return Err(errors);
        }
        keep_secret(&config, &self.secret);
        let is_gone = |name: &&str| config.listeners.get(*name).is_none_or(|listener| !listener.enabled);
        let remove = self.config.enabled_listeners().map(|(name, _)| name).filter(is_gone).map(Into::into).collect();
        self.listening.retain(|(name, _)| !is_gone(&name.as_str()));
        for listener in &add {
            let name = listener.spec().name.to_string();
            self.listening.retain(|(known, _)| *known != name);
            self.listening.push((name, address_of(listener)));
        }
        if let Some(keeper) = &self.keeper {
            keeper.change(duties(&config, change.iter().chain(add.iter().map(|listener| &**listener.spec()))));
        }
        // The shards first: a new listener's first connection must find its settings there.
        let settings = ShardSettings::new(&config, self.shards.len(), anonymous_is_free(&self.vault));
        for shard in self.observer.shards.iter() {
            shard.tell(ToShard::Settings(Box::new(settings.clone())));
        }
        if let Some(lobby) = &self.lobby {
            lobby.reload(LobbyReload { settings: Some(settings::lobby_settings(&config)), change, add, remove });
        }
        let memory_bytes_max = config.limits.memory_bytes_max.unwrap_or_else(memory_budget);
        self.observer.overall.memory_bytes_max.store(memory_bytes_max, Ordering::Relaxed);
        self.config = config;
        Ok(())
    }

    /// Says good-bye to every client and ends all threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.observer.overall.ready.store(false, Ordering::Relaxed);
        if let Some(lobby) = self.lobby.take() {
            lobby.stop();
        }
        drop(self.keeper.take());
        for shard in self.observer.shards.iter() {
            shard.tell(ToShard::Stop);
        }
        for thread in self.shards.drain(..) {
            // A panic was reported by its own thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Shows connections to their home shards.
struct Usher {
    shards: Arc<[Mailbox]>,
    next: AtomicUsize,
}

impl Deliver for Usher {
    fn deliver(&self, key: u64, arrival: Arrival) {
        let count = self.shards.len() as u64;
        let shard = match key {
            // No name yet: whoever's turn it is will name it, and be its home.
            0 => self.next.fetch_add(1, Ordering::Relaxed) as u64 % count,
            key => (key - 1) % count,
        };
        self.shards[shard as usize].tell(ToShard::Arrival(Box::new(arrival)));
    }
}

fn all<E: fmt::Display>(errors: &[E]) -> Vec<StartError> {
    errors.iter().map(|error| StartError(error.to_string())).collect()
}

fn bind_all(config: &Config) -> Result<Vec<Listener>, Vec<StartError>> {
    let mut listeners = Vec::new();
    let mut errors = Vec::new();
    for (name, listener) in config.enabled_listeners() {
        match settings::listener_spec(config, name, listener) {
            Err(what) => errors.push(StartError(format!("listener {name}: {what}"))),
            Ok(spec) => match Listener::bind(spec) {
                Ok(bound) => listeners.push(bound),
                Err(fault) => errors.push(StartError(fault.to_string())),
            },
        }
    }
    if errors.is_empty() { Ok(listeners) } else { Err(errors) }
}

fn address_of(listener: &Listener) -> String {
    match (listener.local_address(), &listener.spec().bind) {
        (Some(address), _) => address.to_string(),
        (None, crate::listen::Bind::Unix { path, .. }) => path.display().to_string(),
        (None, crate::listen::Bind::Tcp(address)) => address.to_string(),
    }
}

/// Keeps the secret if anything will be derived from it that peers can compare over restarts: the salts of SCRAM.
fn keep_secret(config: &Config, secret: &[u8; 32]) {
    if config.access.scram && config.access.password_file.is_some() && !config.access.jwt.required {
        crate::secret::keep(&config.data_dir, secret);
    }
}

fn duties<'a>(config: &Config, specs: impl Iterator<Item = &'a ListenerSpec>) -> Duties {
    Duties {
        sys_every: config.sys.interval.map(|span| Duration::from_nanos(span.nanos())),
        acceptors: specs.filter_map(|spec| Some((spec.name.clone(), spec.tls.clone()?))).collect(),
    }
}

/// Whether the anonymous may do everything, so that nobody has to be asked about them.
fn anonymous_is_free(vault: &Vault) -> bool {
    vault.rules(None).compile("", None).is_allow_all()
}

type Started = (Arc<[Mailbox]>, Vec<JoinHandle<()>>);

fn start_shards(config: &Config, count: usize, vault: &Vault, pool: Arc<VaultPool>) -> std::io::Result<Started> {
    let mut mailboxes = Vec::new();
    let mut halves = Vec::new();
    for _ in 0..count {
        let (poll, waker) = Shard::poll()?;
        let (sender, mail) = mpsc::channel();
        let sleeping = Arc::new(AtomicBool::new(false));
        mailboxes.push(Mailbox::new(sender, waker, sleeping.clone()));
        halves.push((poll, mail, sleeping));
    }
    let settings = ShardSettings::new(config, count, anonymous_is_free(vault));
    let seed = crate::random::u64();
    let mut threads = Vec::new();
    for (number, (poll, mail, sleeping)) in halves.into_iter().enumerate() {
        let mut door = Door::new(pool.clone(), mailboxes[number].clone());
        door.set_settings(settings.door.clone());
        let parts = ShardParts {
            id: ShardId(number as u16),
            settings: settings.clone(),
            poll,
            mail,
            sleeping,
            shards: mailboxes.clone(),
            door,
            seed,
        };
        let thread = std::thread::Builder::new().name(format!("shard-{number}"));
        threads.push(thread.spawn(move || Shard::new(parts).run())?);
    }
    Ok((mailboxes.into(), threads))
}
