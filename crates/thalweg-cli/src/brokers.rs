//! Which brokers a command talks to, by which protocols, and how it comes to them: the command line's side of
//! `thalweg-client`, for `pub`, `sub` and `req`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_client::blocking::Client;
use thalweg_client::mqtt::{Mqtt, MqttSettings};
use thalweg_client::{
    BrokerUrl, BufferSettings, Calibration, ClientError, Lane, LaneState, PeerSettings,
    Reliability, Scheme, Status, TlsFiles, Via, WhenRefused, Will,
};
use thalweg_mqtt::{QoS, Version};

use crate::admin_api::secret_in;
use crate::cli::{ConnectArgs, ViaArg};
use crate::failure::{EXIT_INTERRUPTED, Failure};
use crate::quantity::spoken;

/// What the command wants of the session.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionWish {
    /// Begin anew, or resume.
    pub clean_start: bool,
    /// How long the session outlives the connection.
    pub expiry: Duration,
    /// What we publish ourselves is not wanted (MQTT 5).
    pub no_local: bool,
}

/// A client that is connected, and what was said about the way there.
pub struct Brokers {
    pub client: Client,
    ways: Vec<BrokerUrl>,
    is_peer: bool,
    connect_timeout: Duration,
    /// The choice is to be explained in the end.
    explain: bool,
    /// Since when no lane is up.
    down_since: Option<Instant>,
}

impl Brokers {
    /// Connects, and waits until messages may go. `place` is the topic's own URL, if it was written as one.
    pub fn open(
        args: &ConnectArgs,
        place: Option<&BrokerUrl>,
        wish: SessionWish,
    ) -> Result<Brokers, Failure> {
        let brokers = Brokers::begin(args, place, wish, None)?;
        brokers.wait_until_up()?;
        Ok(brokers)
    }

    /// Begins to connect. What is asked for before [`Brokers::wait_until_up`] is there when the broker lets us in: a session
    /// that it has kept begins to speak at once. In peer mode there need not be a broker.
    pub fn begin(
        args: &ConnectArgs,
        place: Option<&BrokerUrl>,
        wish: SessionWish,
        peer: Option<PeerSettings>,
    ) -> Result<Brokers, Failure> {
        let is_peer = peer.is_some();
        let ways = match is_peer {
            true => peer_ways(args, place)?,
            false => ways(args, place)?,
        };
        let mut builder = Client::builder()
            .via(Via::Auto)
            .keep_alive(args.keep_alive)
            .session(wish.expiry)
            .backoff(RETRY_MIN, RETRY_MAX)
            .connect_timeout(args.connect_timeout)
            // Nobody corrects a password while a command runs.
            .when_refused(WhenRefused::Fail)
            // What is read from a file or a pipe is held back by ourselves.
            .buffer(BufferSettings {
                messages_max: MESSAGES_MAX,
                ..BufferSettings::default()
            })
            .tls(TlsFiles {
                ca: args.ca.clone(),
                identity: args.cert.clone().zip(args.key.clone()),
                insecure: args.insecure,
                ..TlsFiles::default()
            });
        if let Some(url) = ways.iter().find(|url| url.user.is_some()) {
            builder = builder.credentials(
                url.user.clone().unwrap_or_default(),
                url.password.clone().unwrap_or_default(),
            );
        }
        if let Some((server, secret)) = curve_keys(args, &ways)? {
            builder = builder
                .curve(&server, &secret)
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
        if let Some(peer) = peer {
            builder = builder.peer(peer);
        }
        if let Some(file) = &args.calibration {
            builder = builder.calibration(calibration(file)?);
        }
        if let Some(id) = name(args) {
            builder = builder.client_id(id);
        }
        if let Some(topic) = &args.will.will_topic {
            builder = builder.will(Will {
                address: topic.clone(),
                payload: args.will.will_message.clone().into_bytes(),
                reliability: reliability(args.will.will_qos),
                retain: args.will.will_retain,
            });
        }
        for url in &ways {
            builder = match url.scheme.protocol() {
                // What only MQTT knows is said to it alone.
                "mqtt" => builder.transport(Box::new(Mqtt::new(
                    url.endpoint(),
                    mqtt_settings(args, wish),
                ))),
                "dds" => builder.transport(crate::dds::lane(url)?),
                _ => builder
                    .broker(&written(url))
                    .map_err(|error| Failure::usage(error.to_string()))?,
            };
        }
        let client = builder
            .connect_blocking()
            .map_err(|error| Failure::new(error.to_string()))?;
        Ok(Brokers {
            client,
            ways,
            is_peer,
            connect_timeout: args.connect_timeout,
            explain: args.explain,
            down_since: None,
        })
    }

    /// Whether every protocol that may bring messages lets us say when one is done with. Over CoAP, ZeroMQ and DDS it is when
    /// it comes.
    pub fn can_settle(&self) -> bool {
        let settles = |url: &BrokerUrl| !matches!(url.scheme.protocol(), "coap" | "zmtp" | "dds");
        !self.is_peer && self.ways.iter().all(settles)
    }

    /// In peer mode: waits until a peer or a broker subscribes, as messages without a subscriber are dropped.
    pub fn wait_for_subscriber(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + self.connect_timeout;
        while self.is_peer && self.status()?.peers.subscribers == 0 {
            if Instant::now() >= deadline {
                let within = spoken(self.connect_timeout);
                return Err(Failure::new(format!("no peer has subscribed within {within}"))
                    .mend("Start one with `thalweg sub --peer HOST:PORT`, or wait longer with --connect-timeout"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Over DDS: a failure once a message has waited since then for a reader of its topic as long as a connection may take. Nothing but
    /// a reader says what type a message is of, so without one it cannot be sent.
    pub fn check_reader(&self, topic: &str, since: Instant) -> Result<(), Failure> {
        let waited = since.elapsed();
        let waits = self.ways.iter().all(|url| waits_for_reader(url.scheme));
        match waits && waited >= self.connect_timeout {
            true => Err(no_reader(topic, self.connect_timeout)),
            false => Ok(()),
        }
    }

    /// Waits until messages may go, or says why they cannot.
    pub fn wait_until_up(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + self.connect_timeout;
        let mut pause = Duration::from_millis(1);
        loop {
            let status = self.status()?;
            if status.lanes.iter().any(|lane| lane.state == LaneState::Up) {
                return Ok(());
            }
            // Of the two lanes to a place of ZeroMQ one may not be needed.
            let fails = |lane: &Lane| {
                status.lanes.iter().any(|twin| {
                    (twin.protocol, &twin.place) == (lane.protocol, &lane.place)
                        && !twin.trouble.is_empty()
                })
            };
            if status.lanes.iter().all(fails) {
                return Err(self.explain(&status));
            }
            if Instant::now() >= deadline {
                return Err(self.no_answer(&status));
            }
            thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(20));
        }
    }

    /// To be called now and then: a failure once no broker could be reached for as long as a connection may take.
    pub fn check(&mut self) -> Result<(), Failure> {
        let status = self.status()?;
        if status.lanes.iter().any(|lane| lane.state == LaneState::Up) {
            self.down_since = None;
            return Ok(());
        }
        let since = *self.down_since.get_or_insert_with(Instant::now);
        match since.elapsed() > self.connect_timeout {
            true => Err(self.explain(&status)),
            false => Ok(()),
        }
    }

    /// How the client is.
    pub fn status(&self) -> Result<Status, Failure> {
        self.client
            .status()
            .map_err(|error| Failure::new(error.to_string()))
    }

    /// Says goodbye; what is on its way was waited for before.
    pub fn close(self) -> Result<(), Failure> {
        if self.explain {
            match self.client.explain() {
                Ok(explanation) => eprintln!("{explanation}"),
                Err(error) => eprintln!("nothing can be explained: {error}"),
            }
        }
        match self.client.close(FAREWELL_MAX) {
            Ok(()) | Err(ClientError::TimedOut) => Ok(()),
            Err(error) => Err(Failure::new(error.to_string())),
        }
    }

    fn no_answer(&self, status: &Status) -> Failure {
        if status.lanes.iter().any(|lane| !lane.trouble.is_empty()) {
            return self.explain(status);
        }
        let place = self.place();
        let within = spoken(self.connect_timeout);
        if status
            .lanes
            .iter()
            .any(|lane| lane.state == LaneState::Opening)
        {
            return Failure::new(format!("{place} accepted the connection and says nothing within {within}"))
                .mend("Is this the port for the scheme in --url? mqtt, mqtts, ws, wss, coap, amqp, stomp and zmtp have ports of their own");
        }
        Failure::new(format!("no answer from {place} within {within}"))
            .mend("Check the address, and that no firewall is in the way")
    }

    /// Words for what keeps lanes from being up.
    fn explain(&self, status: &Status) -> Failure {
        let lane = status.lanes.iter().find(|lane| !lane.trouble.is_empty());
        let words = lane.map_or("no connection", |lane| lane.trouble.as_str());
        let place = lane.map_or_else(|| self.place(), |lane| lane.place.clone());
        let said = |words: &str| words.to_lowercase();
        match said(words) {
            words if words.contains("refused") && words.contains("connection") => {
                Failure::new(format!("nobody listens on {place}: connection refused"))
                    .mend("Is the broker running? Start one with `thalweg serve`, or name another with --url")
            }
            lower if lower.contains("issuer") || lower.contains("not trusted") => {
                Failure::new(format!("{place}: {words}"))
                    .mend("Name the authority that signed the broker's certificate with --ca FILE")
            }
            lower if lower.contains("user name") || lower.contains("not authorized") || lower.contains("password") => {
                Failure::new(format!("the broker refuses us: {words}")).mend(
                    "Does it want a user and password? Give them as mqtt://USER@HOST in --url, with --password-file",
                )
            }
            lower if lower.contains("no such file") => Failure::new(format!("there is no socket {place}"))
                .mend("Is the broker running, with a listener whose transport is unix and whose bind is this path?"),
            _ => Failure::new(format!("{place}: {words}")).mend(
                "Is this the port for the scheme in --url, and --v a version that the broker speaks? Its log says more",
            ),
        }
    }

    fn place(&self) -> String {
        self.ways
            .iter()
            .map(BrokerUrl::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Whether a message stays here until a receiver takes what is published at its topic.
fn waits_for_reader(scheme: Scheme) -> bool {
    scheme.protocol() == "dds"
}

fn no_reader(topic: &str, within: Duration) -> Failure {
    Failure::new(format!("no DDS reader of {topic} was found within {}", spoken(within))).mend(
        "Is its program running, in this domain and on an interface of THALWEG_DDS__INTERFACES? Wait longer with --connect-timeout",
    )
}

/// What a laboratory measured.
fn calibration(file: &Path) -> Result<Calibration, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", file.display())))?;
    Calibration::from_json(&text).map_err(|error| {
        Failure::usage(format!("{}: {error}", file.display()))
            .mend("Write one with `thalweg bench recommend --data DIR --write-calibration FILE`")
    })
}

/// The brokers' addresses, one for each protocol that may be used.
fn ways(args: &ConnectArgs, place: Option<&BrokerUrl>) -> Result<Vec<BrokerUrl>, Failure> {
    let named = match (place, &args.unix) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "the topic names a broker, and so does --unix",
            ));
        }
        (Some(_), None) if !args.url.is_empty() => {
            return Err(
                Failure::usage("the topic names a broker, and so does --url")
                    .mend("Give one of them"),
            );
        }
        (Some(url), None) => vec![url.clone()],
        (None, Some(path)) => vec![BrokerUrl::at_unix(path.clone())],
        (None, None) if !args.url.is_empty() => args.url.clone(),
        (None, None) => vec![from_environment()?],
    };
    let named = with_password(args, named)?;
    let Some(first) = named.first() else {
        return Ok(named);
    };
    match args.via {
        None => Ok(named),
        Some(ViaArg::Auto) if named.len() > 1 => Ok(named),
        Some(ViaArg::Auto) if first.port == 0 => Ok(named),
        Some(ViaArg::Auto) => {
            let others = [ViaArg::Mqtt, ViaArg::Coap, ViaArg::Amqp, ViaArg::Stomp];
            let more = others
                .iter()
                .filter(|via| via.protocol() != first.scheme.protocol());
            let more: Vec<BrokerUrl> = more.map(|via| beside(first, *via)).collect();
            Ok(named.into_iter().chain(more).collect())
        }
        Some(via) => {
            let of_it: Vec<BrokerUrl> = named
                .iter()
                .filter(|url| url.scheme.protocol() == via.protocol())
                .cloned()
                .collect();
            Ok(if of_it.is_empty() {
                vec![beside(first, via)]
            } else {
                of_it
            })
        }
    }
}

/// The brokers that a peer joins, of which there may be none.
fn peer_ways(args: &ConnectArgs, place: Option<&BrokerUrl>) -> Result<Vec<BrokerUrl>, Failure> {
    if place.is_none() && args.url.is_empty() && args.unix.is_none() {
        return Ok(Vec::new());
    }
    let ways = ways(args, place)?;
    let other = |url: &&BrokerUrl| url.scheme != Scheme::Zmtp || url.unix.is_some();
    match ways.iter().find(other) {
        Some(url) => Err(Failure::usage(format!(
            "a peer reaches brokers by ZeroMQ, and {url} is none"
        ))
        .mend("Write zmtp://HOST:PORT, or leave --url out")),
        None => Ok(ways),
    }
}

/// Gives the password of --password-file to those who have a user and none.
fn with_password(args: &ConnectArgs, mut urls: Vec<BrokerUrl>) -> Result<Vec<BrokerUrl>, Failure> {
    let Some(file) = &args.password_file else {
        return Ok(urls);
    };
    let password = secret_in(file)?.into_bytes();
    let mut wanting = urls
        .iter_mut()
        .filter(|url| url.user.is_some() && url.password.is_none())
        .peekable();
    if wanting.peek().is_none() {
        return Err(Failure::usage(
            "--password-file is given, and no URL has a user without a password",
        )
        .mend("Write the user into --url or THALWEG_URL: mqtt://USER@HOST"));
    }
    wanting.for_each(|url| url.password = Some(password.clone()));
    Ok(urls)
}

/// The broker's public key and our secret one, if they are given.
fn curve_keys(args: &ConnectArgs, ways: &[BrokerUrl]) -> Result<Option<(String, String)>, Failure> {
    let (Some(server), Some(file)) = (&args.curve_server, &args.curve_secret_file) else {
        return Ok(None);
    };
    if ways.iter().all(|url| url.scheme != Scheme::Zmtp) {
        return Err(
            Failure::usage("--curve-server is given, and no URL is ZeroMQ's")
                .mend("Write zmtp://HOST:PORT"),
        );
    }
    Ok(Some((server.clone(), secret_in(file)?)))
}

/// The same host by another protocol, at that one's usual port, as safe.
fn beside(url: &BrokerUrl, via: ViaArg) -> BrokerUrl {
    let scheme = match (via, url.scheme.is_encrypted()) {
        (ViaArg::Coap, false) => Scheme::Coap,
        (ViaArg::Coap, true) => Scheme::Coaps,
        (ViaArg::Amqp, false) => Scheme::Amqp,
        (ViaArg::Amqp, true) => Scheme::Amqps,
        (ViaArg::Stomp, false) => Scheme::Stomp,
        (ViaArg::Stomp, true) => Scheme::Stomps,
        // There is none over TLS, and Thalweg's listener is off until it is mentioned: `auto` does not try it.
        (ViaArg::Zmtp, _) => Scheme::Zmtp,
        (ViaArg::Xmpp, false) => Scheme::Xmpp,
        (ViaArg::Xmpp, true) => Scheme::Xmpps,
        (ViaArg::Mqtt | ViaArg::Auto, false) => Scheme::Mqtt,
        (ViaArg::Mqtt | ViaArg::Auto, true) => Scheme::Mqtts,
    };
    BrokerUrl {
        user: url.user.clone(),
        password: url.password.clone(),
        ..BrokerUrl::at(scheme, &url.host)
    }
}

/// A URL that can be read again; credentials are given apart.
fn written(url: &BrokerUrl) -> String {
    let rest = match (&url.virtual_host, url.path.as_str()) {
        (Some(host), _) => format!("/{}", host.replace('%', "%25").replace('/', "%2f")),
        (None, path) => path.to_owned(),
    };
    format!("{url}{rest}")
}

fn from_environment() -> Result<BrokerUrl, Failure> {
    match std::env::var("THALWEG_URL") {
        Ok(text) if !text.is_empty() => text.parse().map_err(|error| {
            Failure::usage(format!("the environment variable THALWEG_URL: {error}"))
                .mend("Write mqtt://HOST:PORT, or unset it")
        }),
        _ => Ok(BrokerUrl::default()),
    }
}

/// The one MQTT broker that `sub --work` talks to.
pub fn mqtt_broker(args: &ConnectArgs) -> Result<BrokerUrl, Failure> {
    match ways(args, None)?
        .into_iter()
        .find(|url| url.scheme.protocol() == "mqtt")
    {
        Some(url) => Ok(url),
        None => Err(Failure::usage("--work speaks MQTT")
            .mend("Give an MQTT broker as --url, and leave --via out")),
    }
}

fn mqtt_settings(args: &ConnectArgs, wish: SessionWish) -> MqttSettings {
    MqttSettings {
        version: match args.mqtt_version {
            Version::V31 => 3,
            Version::V311 => 4,
            Version::V5 => 5,
        },
        clean_start: Some(wish.clean_start),
        no_local: wish.no_local,
        will_delay_secs: args.will.will_delay.unwrap_or(0),
        packet_bytes_max: PACKET_BYTES_MAX,
        ..MqttSettings::default()
    }
}

/// Our name; MQTT 3.1 knows no empty one.
pub fn name(args: &ConnectArgs) -> Option<String> {
    match &args.id {
        Some(id) => Some(id.clone()),
        None if args.mqtt_version == Version::V31 => {
            Some(format!("thalweg-{:08x}", nonce() as u32))
        }
        None => None,
    }
}

/// The same in our words.
pub fn reliability(qos: QoS) -> Reliability {
    match qos {
        QoS::AtMostOnce => Reliability::AtMostOnce,
        QoS::AtLeastOnce => Reliability::AtLeastOnce,
        QoS::ExactlyOnce => Reliability::ExactlyOnce,
    }
}

/// Is true once the user presses Ctrl-C or the system asks us to end. A second Ctrl-C ends the program at once.
#[cfg(unix)]
pub fn interrupts() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let trouble =
        |error: std::io::Error| Failure::new(format!("signals cannot be received: {error}"));
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(EXIT_INTERRUPTED),
            asked.clone(),
        )
        .map_err(trouble)?;
        signal_hook::flag::register(signal, asked.clone()).map_err(trouble)?;
    }
    Ok(asked)
}

/// Ctrl-C ends the program, as systems do it by themselves.
#[cfg(not(unix))]
pub fn interrupts() -> Result<Arc<AtomicBool>, Failure> {
    Ok(Arc::new(AtomicBool::new(false)))
}

/// Ends the program when the user wants that, also while it reads its input: for commands that have nothing to keep.
pub fn end_when_interrupted(asked: Arc<AtomicBool>) {
    thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            thread::sleep(GLANCE);
        }
        eprintln!("{}", interrupted());
        std::process::exit(i32::from(EXIT_INTERRUPTED));
    });
}

/// What a command says that was stopped before it was done.
pub fn interrupted() -> Failure {
    Failure::new("interrupted").code(EXIT_INTERRUPTED)
}

/// A number that is new each time, good enough for names; not for secrets.
pub fn nonce() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// How long Ctrl-C, and a broker that has gone, may stay unnoticed.
pub const GLANCE: Duration = Duration::from_millis(100);

/// Waits between attempts to connect: a command has little patience.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Messages that wait in memory; more are held back where they come from.
const MESSAGES_MAX: usize = 10_000;
/// Largest packet taken: what MQTT can express.
const PACKET_BYTES_MAX: u32 = 268_435_460;
/// How long a broker may take to read our goodbye.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_comes_from_a_file_for_urls_that_want_one() {
        let file = std::env::temp_dir().join(format!("thalweg-password-{}", std::process::id()));
        std::fs::write(&file, "s3cret\nmore\n").expect("the temporary folder is writable");
        let with = |urls: &[&str]| {
            let args = ConnectArgs {
                password_file: Some(file.clone()),
                ..args(urls, None)
            };
            ways(&args, None)
                .map(|urls| urls.into_iter().map(|url| url.password).collect::<Vec<_>>())
        };
        let secret = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(
            with(&["mqtt://u@h", "amqp://u:own@h"]).ok(),
            Some(vec![secret("s3cret"), secret("own")])
        );
        assert!(with(&["mqtt://h"]).is_err(), "there is no user");
        std::fs::write(&file, "\n").expect("the temporary folder is writable");
        assert!(with(&["mqtt://u@h"]).is_err(), "there is no password");
        std::fs::remove_file(&file).expect("it is there");
        assert!(with(&["mqtt://u@h"]).is_err(), "there is no file");
    }

    #[test]
    fn keys_of_curve_are_for_zeromq_and_the_secret_one_comes_from_a_file() {
        let file = std::env::temp_dir().join(format!("thalweg-curve-{}", std::process::id()));
        std::fs::write(&file, "secret\nmore\n").expect("the temporary folder is writable");
        let keys = |urls: &[&str]| {
            let args = ConnectArgs {
                curve_server: Some("server".into()),
                curve_secret_file: Some(file.clone()),
                ..args(urls, None)
            };
            let ways = ways(&args, None).unwrap_or_else(|failure| panic!("{failure:?}"));
            curve_keys(&args, &ways)
        };
        let both = Some(("server".to_owned(), "secret".to_owned()));
        assert_eq!(keys(&["mqtt://h", "zmtp://h"]).ok(), Some(both));
        assert!(keys(&["mqtt://h"]).is_err(), "they are for nothing");
        std::fs::remove_file(&file).expect("it is there");
        assert!(keys(&["zmtp://h"]).is_err(), "there is no file");
    }

    fn args(urls: &[&str], via: Option<ViaArg>) -> ConnectArgs {
        let url = urls
            .iter()
            .map(|url| url.parse().unwrap_or_else(|error| panic!("{url}: {error}")))
            .collect();
        ConnectArgs {
            url,
            via,
            ..ConnectArgs::default()
        }
    }

    fn found(urls: &[&str], via: Option<ViaArg>) -> Vec<String> {
        ways(&args(urls, via), None)
            .expect("legal")
            .iter()
            .map(BrokerUrl::to_string)
            .collect()
    }

    #[test]
    fn via_says_which_protocols_of_a_host_are_meant() {
        assert_eq!(found(&["mqtt://h:9"], None), ["mqtt://h:9"]);
        assert_eq!(
            found(&["mqtt://h:9"], Some(ViaArg::Auto)),
            [
                "mqtt://h:9",
                "coap://h:5683",
                "amqp://h:5672",
                "stomp://h:61613"
            ]
        );
        assert_eq!(
            found(&["coaps://h"], Some(ViaArg::Auto)),
            [
                "coaps://h:5684",
                "mqtts://h:8883",
                "amqps://h:5671",
                "stomps://h:61614"
            ]
        );
        assert_eq!(
            found(&["mqtt://h:9", "coap://i"], Some(ViaArg::Auto)),
            ["mqtt://h:9", "coap://i:5683"]
        );
        assert_eq!(
            found(&["mqtt://h:9", "coap://i"], Some(ViaArg::Coap)),
            ["coap://i:5683"]
        );
        assert_eq!(
            found(&["mqtt://h:9"], Some(ViaArg::Coap)),
            ["coap://h:5683"]
        );
    }

    #[test]
    fn a_peer_joins_brokers_by_zeromq_or_none() {
        let found = |urls: &[&str]| {
            peer_ways(&args(urls, None), None)
                .map(|ways| ways.len())
                .map_err(|failure| failure.to_string())
        };
        assert_eq!(found(&[]), Ok(0), "the default broker is not meant");
        assert_eq!(found(&["zmtp://h", "zmtp://i"]), Ok(2));
        let refused = found(&["zmtp://h", "mqtt://i"]).expect_err("a peer has no MQTT");
        assert!(refused.contains("mqtt://i"), "{refused}");
    }

    #[test]
    fn a_topic_that_names_its_broker_leaves_no_room_for_another() {
        let place: BrokerUrl = "coap://h/a".parse().expect("legal");
        let found = ways(&args(&[], None), Some(&place)).expect("legal");
        assert_eq!(found, std::slice::from_ref(&place));
        assert!(ways(&args(&["mqtt://i"], None), Some(&place)).is_err());
    }

    #[test]
    fn a_calibration_that_cannot_be_used_says_why() {
        let folder =
            std::env::temp_dir().join(format!("thalweg-calibration-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("writable");
        let file = folder.join("calibration.json");
        let said = |file: &Path| {
            calibration(file)
                .map(drop)
                .expect_err("it is none")
                .to_string()
        };
        assert!(said(&file).contains("cannot be read"), "{}", said(&file));
        std::fs::write(&file, "{\"format\": \"other\"}").expect("writable");
        assert!(
            said(&file).contains("the calibration cannot be used"),
            "{}",
            said(&file)
        );
        std::fs::write(&file, Calibration::built_in().to_json()).expect("writable");
        assert_eq!(
            calibration(&file).map_err(|failure| failure.to_string()),
            Ok(Calibration::built_in())
        );
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "amqp://h:5672/%2f",
            "stomp://[::1]:61613",
            "wss://h:443/a/b?c",
            "coap://h:5683",
            "amqp://h:5672/a%25b",
        ] {
            let url: BrokerUrl = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                written(&url).parse::<BrokerUrl>().as_ref(),
                Ok(&url),
                "{text}"
            );
        }
    }
}
