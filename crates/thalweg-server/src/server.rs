//! A whole server: shards, lobby, vault, and the small thread that looks after memory and `$SYS`.

use crate::access::{VAULT_QUEUE_LIMIT_DEFAULT, VAULT_THREADS_DEFAULT, Vault, VaultPool};
use crate::config::{self, Config, Words};
use crate::connector::{Connector, Streams};
use crate::datagram::{self, DatagramSockets, DatagramSpec};
use crate::door::Door;
use crate::journal::{self, Journal, JournalThreads};
use crate::keeper::{Duties, Keeper, Watched, memory_budget};
use crate::listen::{Listener, ListenerSpec};
use crate::lobby::{Deliver, Lobby, LobbyHandle, LobbyReload};
use crate::multicast::{self, Speakers};
use crate::observer::{Ask, Inside, ListenerView, Observer, Overall};
use crate::protocols;
use crate::settings::{self, DtlsAcceptors, Extensions, ShardSettings};
use crate::shard::{Commits, Mailbox, PortParts, Shard, ShardParts, ToShard};
use crate::threads::{self, OnFailure};
use crate::transport::dtls::DtlsAcceptor;
use crate::transport::tls::TlsAcceptor;
use crate::usher::Usher;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_kernel::{Part, ShardId};
use thalweg_model::{Message, Span};
use thalweg_store::committer::CommitterHandle;

/// Why a server cannot start, or a configuration cannot be taken over: what is wrong and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// Options of a start beside the configuration.
#[derive(Default)]
pub struct StartOptions {
    /// Whether a damaged journal is used without what is damaged. What is missing is logged and set aside.
    pub repair: bool,
    /// Called if the journal fails for good, or a thread of the server panics: what needs that part does not work any more,
    /// and the process should end. [`end_process_on_panic`](crate::end_process_on_panic) ends it before a panic comes here.
    pub on_failure: Option<OnFailure>,
    /// What is spoken on each listener of `kind = "extension"`, by its name.
    pub extensions: Extensions,
}

/// A running server. Dropping it stops it.
pub struct Server {
    observer: Observer,
    vault: Arc<Vault>,
    /// Keeps the fake salts of unknown users stable; see `secret.rs`.
    secret: [u8; 32],
    lobby: Option<LobbyHandle>,
    /// Connections that the broker opens itself.
    connector: Option<Connector>,
    speakers: Option<Speakers>,
    listening: Vec<(String, String)>,
    dtls: DtlsAcceptors,
    extensions: Arc<Extensions>,
    /// The admin interface's end of TLS; the server watches its files with those of the listeners.
    admin_tls: Option<Arc<TlsAcceptor>>,
    shards: Vec<JoinHandle<()>>,
    keeper: Option<Keeper>,
    /// Ends last: the shards' last records are still to be written.
    journal: Option<JournalThreads>,
    /// What is in force, which may differ from the file in what needs a restart.
    config: Config,
}

impl Server {
    /// Starts everything; when it returns, all listeners accept. All faults at once, not only the first.
    pub fn start(config: Config) -> Result<Server, Vec<StartError>> {
        Server::start_with(config, StartOptions::default())
    }

    /// The same with options. What the journal holds is taken up before the first connection is accepted.
    pub fn start_with(config: Config, options: StartOptions) -> Result<Server, Vec<StartError>> {
        let extensions = Arc::new(options.extensions);
        let unknown = settings::unknown_extensions(&config, &extensions);
        if !unknown.is_empty() {
            return Err(all(&unknown));
        }
        let secret = crate::secret::recall(&config.data_dir);
        let vault =
            Vault::load(&settings::access_settings(&config, secret)).map_err(|errors| all(&errors));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = config.shard_count(cores);
        let (
            vault,
            Bound {
                streams: listeners,
                datagrams,
                dtls,
            },
        ) = match (vault, bind_all(&config, count)) {
            (Ok(vault), Ok(bound)) => (Arc::new(vault), bound),
            (vault, bound) => {
                return Err(vault
                    .err()
                    .into_iter()
                    .chain(bound.err())
                    .flatten()
                    .collect());
            }
        };
        let admin_tls = settings::admin_tls(&config).map_err(|what| vec![StartError(what)])?;
        let outlets = multicast::open(&config).map_err(|errors| all(&errors))?;
        keep_secret(&config, &secret);
        let mut watched = watched_certificates(
            listeners.iter().map(|listener| &**listener.spec()),
            &dtls,
            admin_tls.as_ref(),
        );
        let mut listening: Vec<(String, String)> = listeners
            .iter()
            .map(|listener| (listener.spec().name.to_string(), address_of(listener)))
            .collect();
        listening.extend(
            datagrams
                .iter()
                .map(|(spec, sockets)| (spec.name.to_string(), sockets.local.to_string())),
        );
        listening.sort();
        let one = |what: &str, error: &dyn fmt::Display| {
            vec![StartError(format!(
                "{what}: {error}; check the operating system's limits"
            ))]
        };
        let on_failure = options.on_failure.unwrap_or_else(|| Arc::new(|_| ()));
        let pool = VaultPool::new(
            vault.clone(),
            VAULT_THREADS_DEFAULT,
            VAULT_QUEUE_LIMIT_DEFAULT,
            |name, work| threads::spawn(name, &on_failure, work),
        )
        .map_err(|error| one("cannot start the vault's threads", &error))?;
        let pool = Arc::new(pool);
        let logins = Arc::downgrade(&pool);
        let journal_settings = settings::journal_settings(&config, options.repair);
        let opened = match &journal_settings {
            Some(settings) => Some(
                journal::open(&config.data_dir, settings).map_err(|what| vec![StartError(what)])?,
            ),
            None => None,
        };
        let halves =
            mailboxes(count).map_err(|error| one("cannot start the shards' threads", &error))?;
        let mailboxes: Arc<[Mailbox]> = halves.iter().map(|half| half.mailbox.clone()).collect();
        let (mut journal, mut committer, mut threads, mut restored) = (None, None, None, None);
        if let (Some(mut opened), Some(settings)) = (opened, &journal_settings) {
            restored = Some((opened.take_parts(count as u16), opened.reader()));
            let started = opened.start(settings, mailboxes.to_vec(), &on_failure);
            let (running, handle, running_threads) =
                started.map_err(|error| one("cannot start the journal's threads", &error))?;
            threads = Some(running_threads);
            committer = Some((running.clone(), handle));
            journal = Some(running);
        }
        let shards = start_shards(
            &config,
            halves,
            pool,
            &committer,
            &dtls,
            &extensions,
            &secret,
            &on_failure,
        )
        .map_err(|error| one("cannot start the shards' threads", &error))?;
        drop(committer);
        if let Some((parts, reader)) = restored {
            restore(&mailboxes, parts, &reader, &vault);
        }
        for (spec, sockets) in datagrams {
            open_ports(&mailboxes, &spec, sockets);
        }
        let usher = || -> Box<dyn Deliver> { Box::new(Usher::new(mailboxes.clone())) };
        let lobby = Lobby::start(
            listeners,
            settings::lobby_settings(&config),
            usher(),
            &on_failure,
        )
        .map_err(|error| one("cannot start the lobby's thread", &error))?;
        let connector = Connector::start(protocols::dials(&config), usher, &on_failure)
            .map_err(|error| one("cannot start a thread that connects", &error))?;
        let memory_bytes_max = config.limits.memory_bytes_max.unwrap_or_else(memory_budget);
        let overall = Arc::new(Overall {
            lobby: lobby.counters().clone(),
            ready: AtomicBool::new(true),
            pressure: AtomicUsize::new(0),
            memory_bytes_max: AtomicUsize::new(memory_bytes_max),
            started_at: Instant::now(),
            listeners: RwLock::new(views(&config, &listening)),
            config: RwLock::new(config.clone()),
            multicast: multicast::counts_of(&config),
        });
        let observer = Observer {
            shards: mailboxes,
            overall,
            journal,
            logins,
        };
        watched.push(watched_access(
            &config,
            secret,
            &vault,
            &observer,
            &dtls,
            &extensions,
        ));
        let duties = Duties {
            sys_every: sys_every(&config),
            watched,
        };
        let keeper = Keeper::start(observer.clone(), duties, &on_failure)
            .map_err(|error| one("cannot start a thread", &error))?;
        let streams = Streams::new(observer.shards.clone());
        let speakers = Speakers::start(&config, outlets, &streams, &observer, &on_failure)
            .map_err(|error| one("cannot start a thread of a multicast group", &error))?;
        let (lobby, keeper, journal) = (Some(lobby), Some(keeper), threads);
        Ok(Server {
            observer,
            vault,
            secret,
            lobby,
            connector: Some(connector),
            speakers: Some(speakers),
            listening,
            dtls,
            extensions,
            admin_tls,
            shards,
            keeper,
            journal,
            config,
        })
    }

    /// A window into it.
    pub fn observer(&self) -> Observer {
        self.observer.clone()
    }

    /// The admin interface's end of TLS; `None` if it speaks plain HTTP.
    pub fn admin_tls(&self) -> Option<Arc<TlsAcceptor>> {
        self.admin_tls.clone()
    }

    /// Opens connections from within the process; not after the server has stopped.
    pub fn streams(&self) -> Streams {
        Streams::new(self.observer.shards.clone())
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
        let mut add_datagrams = Vec::new();
        let mut dtls = DtlsAcceptors::new();
        let mut errors = Vec::new();
        for (name, listener) in config.enabled_listeners() {
            let open = self.config.listeners.get(name).filter(|old| old.enabled);
            if let Some(spec) = settings::datagram_spec(name, listener) {
                if listener.transport.is_encrypted() {
                    match self.renewed_acceptor(name, listener) {
                        Ok(acceptor) => _ = dtls.insert(name.into(), acceptor),
                        Err(what) => errors.push(StartError(format!("listener {name}: {what}"))),
                    }
                }
                if open.is_none_or(|old| old.bind != listener.bind) {
                    match datagram::open(&spec, self.shards.len()) {
                        Ok(sockets) => add_datagrams.push((spec, sockets)),
                        Err(fault) => errors.push(StartError(fault.to_string())),
                    }
                }
                continue;
            }
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
            errors.extend(
                Vault::load(&access)
                    .err()
                    .iter()
                    .flat_map(|errors| all(errors)),
            );
            return Err(errors);
        }
        for acceptor in dtls.values() {
            if let Err(fault) = acceptor.reload() {
                tracing::warn!(%fault, "the files of a DTLS listener have just changed once more and cannot be used");
            }
        }
        keep_secret(&config, &self.secret);
        let is_gone = |name: &&str| {
            config
                .listeners
                .get(*name)
                .is_none_or(|listener| !listener.enabled)
        };
        let remove: Vec<Arc<str>> = self
            .config
            .enabled_listeners()
            .map(|(name, _)| name)
            .filter(is_gone)
            .map(Into::into)
            .collect();
        self.listening.retain(|(name, _)| !is_gone(&name.as_str()));
        let added = add
            .iter()
            .map(|listener| (listener.spec().name.to_string(), address_of(listener)));
        let added_datagrams = add_datagrams
            .iter()
            .map(|(spec, sockets)| (spec.name.to_string(), sockets.local.to_string()));
        for (name, address) in added.chain(added_datagrams) {
            self.listening.retain(|(known, _)| *known != name);
            self.listening.push((name, address));
        }
        if let Some(keeper) = &self.keeper {
            let specs = change
                .iter()
                .chain(add.iter().map(|listener| &**listener.spec()));
            let mut watched = watched_certificates(specs, &dtls, self.admin_tls.as_ref());
            watched.push(watched_access(
                &config,
                self.secret,
                &self.vault,
                &self.observer,
                &dtls,
                &self.extensions,
            ));
            keeper.change(Duties {
                sys_every: sys_every(&config),
                watched,
            });
        }
        // The shards first: a new listener's first connection must find its settings there.
        let settings = ShardSettings::new(&config, self.shards.len(), &dtls, &self.extensions);
        for shard in self.observer.shards.iter() {
            shard.tell(ToShard::Settings(Box::new(settings.clone())));
            for listener in &remove {
                shard.tell(ToShard::ClosePort(listener.clone()));
            }
        }
        for (spec, sockets) in add_datagrams {
            open_ports(&self.observer.shards, &spec, sockets);
        }
        if let Some(lobby) = &self.lobby {
            lobby.reload(LobbyReload {
                settings: Some(settings::lobby_settings(&config)),
                change,
                add,
                remove,
            });
        }
        if let (Some(journal), Some(settings)) = (
            &self.observer.journal,
            settings::journal_settings(&config, false),
        ) {
            journal.set_lazy_interval(settings.lazy_interval);
        }
        let memory_bytes_max = config.limits.memory_bytes_max.unwrap_or_else(memory_budget);
        self.observer
            .overall
            .memory_bytes_max
            .store(memory_bytes_max, Ordering::Relaxed);
        *self
            .observer
            .overall
            .listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner) = views(&config, &self.listening);
        *self
            .observer
            .overall
            .config
            .write()
            .unwrap_or_else(PoisonError::into_inner) = config.clone();
        self.dtls = dtls;
        self.config = config;
        Ok(())
    }

    /// The credentials of a DTLS listener from now on. If the files are the same, peers that are still valid under them
    /// stay; they have been read once to see whether they can be used.
    fn renewed_acceptor(
        &self,
        name: &str,
        listener: &config::Listener,
    ) -> Result<Arc<DtlsAcceptor>, String> {
        let fresh = settings::dtls_acceptor(name, listener)?;
        Ok(self
            .dtls
            .get(name)
            .filter(|known| known.files() == fresh.files())
            .cloned()
            .unwrap_or(fresh))
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
        drop(self.connector.take());
        drop(self.speakers.take());
        drop(self.keeper.take());
        for shard in self.observer.shards.iter() {
            shard.tell(ToShard::Stop);
        }
        for thread in self.shards.drain(..) {
            // A panic was reported by its own thread.
            let _ = thread.join();
        }
        if let Some(mut journal) = self.journal.take() {
            journal.stop();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn all<E: fmt::Display>(errors: &[E]) -> Vec<StartError> {
    errors
        .iter()
        .map(|error| StartError(error.to_string()))
        .collect()
}

/// What is bound: listeners for the lobby, and sockets for the shards.
struct Bound {
    streams: Vec<Listener>,
    datagrams: Vec<(DatagramSpec, DatagramSockets)>,
    dtls: DtlsAcceptors,
}

/// Gives each shard its socket of a datagram listener.
fn open_ports(shards: &[Mailbox], spec: &DatagramSpec, sockets: DatagramSockets) {
    let local = sockets.local;
    for (shard, socket) in shards.iter().zip(sockets.sockets) {
        shard.tell(ToShard::OpenPort(Box::new(PortParts {
            listener: spec.name.clone(),
            socket,
            local,
        })));
    }
}

fn bind_all(config: &Config, shards: usize) -> Result<Bound, Vec<StartError>> {
    let mut streams = Vec::new();
    let mut datagrams = Vec::new();
    let mut dtls = DtlsAcceptors::new();
    let mut errors = Vec::new();
    for (name, listener) in config.enabled_listeners() {
        if let Some(spec) = settings::datagram_spec(name, listener) {
            if listener.transport.is_encrypted() {
                match settings::dtls_acceptor(name, listener) {
                    Ok(acceptor) => _ = dtls.insert(name.into(), acceptor),
                    Err(what) => errors.push(StartError(format!("listener {name}: {what}"))),
                }
            }
            match datagram::open(&spec, shards) {
                Ok(sockets) => datagrams.push((spec, sockets)),
                Err(fault) => errors.push(StartError(fault.to_string())),
            }
            continue;
        }
        match settings::listener_spec(config, name, listener) {
            Err(what) => errors.push(StartError(format!("listener {name}: {what}"))),
            Ok(spec) => match Listener::bind(spec) {
                Ok(bound) => streams.push(bound),
                Err(fault) => errors.push(StartError(fault.to_string())),
            },
        }
    }
    if errors.is_empty() {
        Ok(Bound {
            streams,
            datagrams,
            dtls,
        })
    } else {
        Err(errors)
    }
}

fn address_of(listener: &Listener) -> String {
    match (listener.local_address(), &listener.spec().bind) {
        (Some(address), _) => address.to_string(),
        (None, crate::listen::Bind::Unix { path, .. }) => path.display().to_string(),
        (None, crate::listen::Bind::Tcp(address)) => address.to_string(),
    }
}

/// The listeners as operators see them.
fn views(config: &Config, listening: &[(String, String)]) -> Vec<ListenerView> {
    let view = |(name, address): &(String, String)| {
        let listener = config.listeners.get(name)?;
        Some(ListenerView {
            name: name.clone(),
            kind: listener.kind.word(),
            transport: listener.transport.word(),
            address: address.clone(),
            anonymous: config.admits_strangers(listener),
        })
    };
    let mut views: Vec<ListenerView> = listening.iter().filter_map(view).collect();
    views.sort_by(|one, other| one.name.cmp(&other.name));
    views
}

/// Keeps the secret if anything will be derived from it that peers can compare over restarts: the salts of SCRAM, and the
/// stamps of what the journal keeps.
fn keep_secret(config: &Config, secret: &[u8; 32]) {
    let has_scram =
        config.access.scram && config.access.password_file.is_some() && !config.access.jwt.required;
    if has_scram || config.journal.enabled {
        crate::secret::keep(&config.data_dir, secret);
    }
}

fn sys_every(config: &Config) -> Option<Duration> {
    config
        .sys
        .interval
        .map(|span| Duration::from_nanos(span.nanos()))
}

/// The certificate files of encrypted listeners and of the admin interface.
fn watched_certificates<'a>(
    specs: impl Iterator<Item = &'a ListenerSpec>,
    dtls: &DtlsAcceptors,
    admin: Option<&Arc<TlsAcceptor>>,
) -> Vec<Watched> {
    let tls = specs.filter_map(|spec| {
        Some(Watched::tls(
            &format!("listener {}", spec.name),
            spec.tls.clone()?,
        ))
    });
    let dtls = dtls
        .iter()
        .map(|(name, acceptor)| Watched::dtls(&format!("listener {name}"), acceptor.clone()));
    let admin = admin.map(|acceptor| Watched::tls("the admin interface", acceptor.clone()));
    tls.chain(dtls).chain(admin).collect()
}

/// The files that say who may log in and do what. New ones hold for connected clients at once, as after a reload.
fn watched_access(
    config: &Config,
    secret: [u8; 32],
    vault: &Arc<Vault>,
    observer: &Observer,
    dtls: &DtlsAcceptors,
    extensions: &Arc<Extensions>,
) -> Watched {
    let access = settings::access_settings(config, secret);
    let jwt = &config.access.jwt;
    let files = [
        &config.access.password_file,
        &config.access.acl_file,
        &config.access.ban_file,
        &jwt.secret_file,
        &jwt.public_key_file,
    ];
    let files = files.into_iter().flatten().cloned().collect();
    let (config, vault, shards, dtls, extensions) = (
        config.clone(),
        vault.clone(),
        observer.shards.clone(),
        dtls.clone(),
        extensions.clone(),
    );
    let reload = move || {
        vault.reload(&access).map_err(|errors| {
            errors
                .iter()
                .map(|error| error.to_string())
                .collect::<Vec<_>>()
                .join("; ")
        })?;
        let settings = ShardSettings::new(&config, shards.len(), &dtls, &extensions);
        for shard in shards.iter() {
            shard.tell(ToShard::Settings(Box::new(settings.clone())));
        }
        Ok(())
    };
    Watched::new(
        "password, access rule, ban or token key files".into(),
        files,
        Box::new(reload),
    )
}

/// What a shard's thread is given to listen with, and the others to talk to it.
struct Half {
    poll: mio::Poll,
    mail: mpsc::Receiver<ToShard>,
    sleeping: Arc<AtomicBool>,
    mailbox: Mailbox,
}

fn mailboxes(count: usize) -> std::io::Result<Vec<Half>> {
    let half = |_| {
        let (poll, waker) = Shard::poll()?;
        let (sender, mail) = mpsc::channel();
        let sleeping = Arc::new(AtomicBool::new(false));
        let mailbox = Mailbox::new(sender, waker, sleeping.clone());
        Ok(Half {
            poll,
            mail,
            sleeping,
            mailbox,
        })
    };
    (0..count).map(half).collect()
}

#[allow(clippy::too_many_arguments)] // All that shards are made of comes together here.
fn start_shards(
    config: &Config,
    halves: Vec<Half>,
    pool: Arc<VaultPool>,
    journal: &Option<(Arc<Journal>, CommitterHandle)>,
    dtls: &DtlsAcceptors,
    extensions: &Extensions,
    secret: &[u8; 32],
    on_failure: &OnFailure,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let count = halves.len();
    let mailboxes: Vec<Mailbox> = halves.iter().map(|half| half.mailbox.clone()).collect();
    let settings = ShardSettings::new(config, count, dtls, extensions);
    let seed = crate::random::u64();
    let mut running = Vec::new();
    for (
        number,
        Half {
            poll,
            mail,
            sleeping,
            mailbox,
        },
    ) in halves.into_iter().enumerate()
    {
        let mut door = Door::new(pool.clone(), mailbox);
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
            stamp_key: crate::secret::stamp_key(secret),
            commits: Commits::new(journal.clone(), count),
        };
        running.push(threads::spawn(
            format!("shard-{number}"),
            on_failure,
            move || Shard::new(parts).run(),
        )?);
    }
    Ok(running)
}

/// Has each shard take up its part of what the last run left, and waits until all routes are known everywhere and what
/// is overdue has happened.
fn restore(
    shards: &[Mailbox],
    parts: Vec<Part>,
    read: &(impl Fn(u64, u32) -> Option<Message> + Clone + Send + 'static),
    vault: &Arc<Vault>,
) {
    let mut parts = parts.into_iter();
    // None begins before all have been asked: what one tells another about what it took up must not come before the
    // other's own part, or the other makes anew what it is about to find.
    let all_asked = Arc::new(Barrier::new(shards.len()));
    on_each(shards, || {
        let (part, read, vault) = (
            parts.next().unwrap_or_default(),
            read.clone(),
            vault.clone(),
        );
        let all_asked = Arc::clone(&all_asked);
        Box::new(move |inside: &mut Inside<'_>| {
            all_asked.wait();
            let access = |client: &str, user: Option<&str>| vault.rules(user).compile(client, user);
            inside.kernel.restore(
                part,
                &mut |place, len| read(place, len),
                &access,
                inside.now,
                inside.links,
            );
        })
    });
    // Once each has done so and handed over what it tells the others, everything it told them is in their mailboxes.
    on_each(shards, || Box::new(|_| ()));
    for shard in shards {
        shard.tell(ToShard::Restored);
    }
    // Some of it at a time: what it writes down goes to the committer in between.
    let is_more = Arc::new(AtomicBool::new(true));
    while is_more.swap(false, Ordering::Relaxed) {
        on_each(shards, || {
            let is_more = Arc::clone(&is_more);
            Box::new(move |inside: &mut Inside<'_>| {
                inside.kernel.on_timeout(inside.now, inside.links);
                inside.kernel.work(inside.now, inside.links);
                if inside.kernel.poll_timeout() <= inside.now + Span::from_nanos(1) {
                    is_more.store(true, Ordering::Relaxed);
                }
            })
        });
    }
}

/// Has each shard do something, and waits until all have done it.
fn on_each(shards: &[Mailbox], mut ask: impl FnMut() -> Ask) {
    let (sender, done) = mpsc::channel::<()>();
    for shard in shards {
        let (ask, sender) = (ask(), sender.clone());
        shard.tell(ToShard::Ask(Box::new(move |inside| {
            ask(inside);
            drop(sender);
        })));
    }
    drop(sender);
    // Ends when all senders are gone.
    let _ = done.recv();
}
