//! A server in this process, its folder, and its configuration, which can change.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use thalweg_server::config::Config;
use thalweg_server::{Observer, Server};

use super::talker::{PATIENCE, Talker};
use crate::folder::Folder;

pub struct Home {
    pub server: Server,
    pub folder: Folder,
}

/// The configuration that `sets` make; `{folder}` in them stands for the folder.
pub fn configuration(folder: &Folder, sets: &[&str]) -> Result<Config, Vec<String>> {
    let mut all = vec![
        "shards=2".to_owned(),
        "listeners.mqtt.bind=127.0.0.1:0".into(),
        "listeners.websocket.enabled=false".into(),
        "admin.enabled=false".into(),
        "sys.interval=off".into(),
        "data_dir={folder}/data".into(),
        "journal.segment_bytes=1MiB".into(),
    ];
    all.extend(sets.iter().map(|set| (*set).to_owned()));
    let all: Vec<String> = all
        .iter()
        .map(|set| set.replace("{folder}", &folder.path().display().to_string()))
        .collect();
    match Config::from_text(None, std::iter::empty(), &all) {
        Ok((config, _)) => Ok(config),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

impl Home {
    /// A server with the listener `mqtt` on a port of its own, and the settings in `sets`.
    pub fn new(sets: &[&str]) -> Home {
        Home::in_folder(Folder::new(), sets)
    }

    pub fn in_folder(folder: Folder, sets: &[&str]) -> Home {
        let config = configuration(&folder, sets).unwrap_or_else(|errors| panic!("{errors:?}"));
        let server = Server::start(config).unwrap_or_else(|errors| panic!("{errors:?}"));
        Home { server, folder }
    }

    /// Takes over other settings.
    pub fn reload(&mut self, sets: &[&str]) {
        let config =
            configuration(&self.folder, sets).unwrap_or_else(|errors| panic!("{errors:?}"));
        self.server
            .reload(config)
            .unwrap_or_else(|errors| panic!("{errors:?}"));
    }

    /// Errors of other settings; those in force stay.
    pub fn refused_reload(&mut self, sets: &[&str]) -> String {
        let config =
            configuration(&self.folder, sets).unwrap_or_else(|errors| panic!("{errors:?}"));
        let errors = self
            .server
            .reload(config)
            .expect_err("there is something wrong");
        errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub fn observer(&self) -> Observer {
        self.server.observer()
    }

    /// Where a listener listens.
    pub fn address(&self, listener: &str) -> SocketAddr {
        let listening = self.server.listening();
        let (_, address) = listening
            .iter()
            .find(|(name, _)| name == listener)
            .expect("the listener is open");
        address.parse().expect("it is no unix socket")
    }

    /// A connection to the listener `mqtt`.
    pub fn talker(&self) -> Talker {
        Talker::tcp(self.address("mqtt"))
    }

    /// A client on the listener `mqtt`.
    pub fn client(&self, name: &str) -> Talker {
        self.talker().named(name)
    }
}

/// Polls until the condition holds: for work that the server does in the background.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
