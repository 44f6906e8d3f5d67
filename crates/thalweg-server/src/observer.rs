//! Looking into a running server from other threads.

use crate::access::{LoginCounts, VaultPool};
use crate::config::Config;
use crate::journal::{Journal, JournalStatus};
use crate::lobby::{LobbyCounters, LobbyCounts};
use crate::multicast::{CountsByGroup, MulticastCounts};
use crate::shard::{Connections, LoopCounts, Mailbox, Ports, ToShard};
use crate::stages::Stages;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use thalweg_fronts::Links;
use thalweg_kernel::{Kernel, LinkId};
use thalweg_model::Time;
use thalweg_store::Backup;

const NO_JOURNAL: &str = "this broker has no journal (journal.enabled is false)";

/// Something to do inside a shard's thread.
pub(crate) type Ask = Box<dyn FnOnce(&mut Inside<'_>) + Send>;

/// A shard from inside.
pub struct Inside<'a> {
    pub shard: u16,
    pub kernel: &'a mut Kernel,
    pub links: &'a mut Links,
    pub connections: &'a Connections,
    /// Its sockets of datagrams.
    pub ports: &'a Ports,
    pub now: Time,
    /// Where messages' time went.
    pub stages: &'a Stages,
    /// What its loop did.
    pub counts: LoopCounts,
}

impl Inside<'_> {
    /// What a client said of itself: name and text, in its order, if its protocol has words for it.
    pub fn client_properties(&self, link: LinkId) -> &[(Box<str>, Box<str>)] {
        let link = self.links.get(link);
        link.map_or(&[], |link| link.front.client_properties())
    }
}

/// What is known about the whole server.
pub(crate) struct Overall {
    pub(crate) lobby: Arc<LobbyCounters>,
    pub(crate) ready: AtomicBool,
    /// 0 none, 1 waiting copies are dropped, 2 new sessions are refused.
    pub(crate) pressure: AtomicUsize,
    pub(crate) memory_bytes_max: AtomicUsize,
    pub(crate) started_at: Instant,
    pub(crate) listeners: RwLock<Vec<ListenerView>>,
    /// What is in force, as in [`crate::Server`].
    pub(crate) config: RwLock<Config>,
    pub(crate) multicast: CountsByGroup,
}

/// A listener, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerView {
    pub name: String,
    /// The protocol, as the configuration calls it.
    pub kind: &'static str,
    /// What carries the bytes, likewise.
    pub transport: &'static str,
    /// Address and port, or path.
    pub address: String,
    /// Whether peers without credentials are admitted.
    pub anonymous: bool,
}

/// A window into a running server. Cheap to clone; usable from any thread but a shard's.
#[derive(Clone)]
pub struct Observer {
    pub(crate) shards: Arc<[Mailbox]>,
    pub(crate) overall: Arc<Overall>,
    pub(crate) journal: Option<Arc<Journal>>,
    /// It ends with the shards, even while observers exist.
    pub(crate) logins: Weak<VaultPool>,
}

impl Observer {
    /// Runs `f` inside every shard's thread and collects what it returns, in the order of shards. Shards that do not
    /// answer within two seconds are left out.
    pub fn on_shards<T: Send + 'static>(
        &self,
        f: impl Fn(&mut Inside<'_>) -> T + Send + Sync + 'static,
    ) -> Vec<T> {
        let f = Arc::new(f);
        let (sender, answers) = mpsc::channel();
        for shard in self.shards.iter() {
            let (f, sender) = (f.clone(), sender.clone());
            shard.tell(ToShard::Ask(Box::new(move |inside| {
                let _ = sender.send((inside.shard, f(inside)));
            })));
        }
        drop(sender);
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut collected = Vec::new();
        while let Ok(answer) =
            answers.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            collected.push(answer);
        }
        collected.sort_by_key(|(shard, _)| *shard);
        collected.into_iter().map(|(_, answer)| answer).collect()
    }

    /// How many shards there are.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// What the lobby has seen.
    pub fn lobby(&self) -> LobbyCounts {
        self.overall.lobby.read()
    }

    /// The multicast groups by name, and what was sent to them.
    pub fn multicast(&self) -> &[(String, Arc<MulticastCounts>)] {
        &self.overall.multicast
    }

    /// What was counted of log-ins.
    pub fn logins(&self) -> LoginCounts {
        self.logins
            .upgrade()
            .map_or_else(LoginCounts::default, |pool| pool.counts())
    }

    /// Whether every listener accepts, and what is acknowledged is kept.
    pub fn is_ready(&self) -> bool {
        let failed = self
            .journal
            .as_ref()
            .is_some_and(|journal| journal.has_failed());
        self.overall.ready.load(Ordering::Relaxed) && !failed
    }

    /// How the journal is; nothing if there is none.
    pub fn journal(&self) -> Option<JournalStatus> {
        self.journal.as_ref().map(|journal| journal.status())
    }

    /// Makes a checkpoint of the journal now and waits for it; says what it did, or why there is none.
    pub fn checkpoint(&self) -> Result<String, String> {
        self.journal
            .as_ref()
            .map_or_else(|| Err(NO_JOURNAL.into()), |journal| journal.checkpoint())
    }

    /// Makes a backup of the journal in `target`, a new or empty directory, while everything goes on; waits for it.
    pub fn backup(&self, target: &Path) -> Result<Backup, String> {
        self.journal
            .as_ref()
            .map_or_else(|| Err(NO_JOURNAL.into()), |journal| journal.backup(target))
    }

    /// How short memory is: 0 not at all, 1 copies that would wait are dropped, 2 new sessions are refused.
    pub fn pressure(&self) -> usize {
        self.overall.pressure.load(Ordering::Relaxed)
    }

    /// The process-wide budget for messages, in bytes.
    pub fn memory_bytes_max(&self) -> usize {
        self.overall.memory_bytes_max.load(Ordering::Relaxed)
    }

    /// The listeners, by name.
    pub fn listeners(&self) -> Vec<ListenerView> {
        self.overall
            .listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Every value of the configuration in force ([`Config::values`]).
    pub fn config_values(&self) -> BTreeMap<String, String> {
        self.overall
            .config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
    }

    /// For how long it has been running.
    pub fn uptime(&self) -> Duration {
        self.overall.started_at.elapsed()
    }

    /// The version of this program.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

impl Observer {
    /// Runs `f` inside the thread of the shard where a client's session is, some time soon.
    pub(crate) fn on_home_of(
        &self,
        client: &str,
        f: impl FnOnce(&mut Inside<'_>) + Send + 'static,
    ) {
        let home = thalweg_kernel::home(client, self.shards.len() as u16);
        if let Some(shard) = self.shards.get(usize::from(home.0)) {
            shard.tell(ToShard::Ask(Box::new(f)));
        }
    }

    /// Runs `f` inside the first shard's thread, some time soon.
    pub(crate) fn on_first_shard(&self, f: impl FnOnce(&mut Inside<'_>) + Send + 'static) {
        if let Some(shard) = self.shards.first() {
            shard.tell(ToShard::Ask(Box::new(f)));
        }
    }
}
