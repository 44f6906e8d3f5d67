//! A worker's connection to its broker, for `sub --work`: a blocking socket, the transport filters, and MQTT's client side.
//! A worker says more than `thalweg-client` has words for: when each message is settled and how, and what waits here.
//!
//! Everything it waits for comes through one channel as a [`Happening`]: bytes from the socket, Ctrl-C, work that is done.
//! So it is one loop around [`Link::step`], and nothing in it polls.
//!
//! ```text
//!  socket ── reader thread ──┐
//!  work ──── hands ──────────┼─> happenings ──> Link::step ──> ClientEvent to the worker
//!  Ctrl-C ── signal thread ──┘                      └────────> Step to the worker
//! ```

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_client::BrokerUrl;
use thalweg_mqtt::{
    ClientConnection, ClientEvent, ClientSide, ConnectOut, DisconnectProps, PeerFault, Properties,
    PublishOut, QoS, ReasonCode, RetainHandling, SubAck, SubscribeOptions, WillOut, load,
};
use thalweg_server::transport::client::{TlsClientFiles, TlsConnector, websocket};
use thalweg_server::transport::websocket::WebSocketSettings;
use thalweg_server::transport::{Filtered, Transport};

use crate::brokers::{interrupted, mqtt_broker, name};
use crate::cli::{ConnectArgs, SubArgs};
use crate::failure::{EXIT_USAGE, Failure};
use crate::quantity::spoken;
use crate::socket::Socket;
use crate::subscribe::session_expiry_secs;
use crate::work::Done;

/// What a link tells a command.
#[derive(Debug)]
pub enum Happening {
    /// Bytes from the socket, at least one.
    Bytes(Vec<u8>),
    /// The peer ended the connection, or the network did; the words say how.
    Closed(Option<String>),
    /// Ctrl-C, or a polite request to end.
    Interrupted,
    /// A hand has done what it was given.
    Worked(Done),
}

/// Why [`Link::step`] returned.
#[derive(Debug)]
pub enum Step {
    /// Packets may have come; the events went to the callback.
    Moved,
    /// The time given is over.
    TimedOut,
    Interrupted,
    /// A hand has done what it was given.
    Worked(Done),
}

/// How a worker works, as it says in CONNECT (MQTT 5).
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Messages it takes before it acknowledges the first of them.
    pub receive_max: u16,
    /// Messages it processes side by side.
    pub concurrency: u16,
    /// It acknowledges when a message is processed; otherwise it acknowledges none.
    pub acknowledges: bool,
}

/// What an event handler may do: ask the machine, and append packets to what is sent next.
pub struct Reply<'a> {
    /// The client's side of MQTT.
    pub machine: &'a mut ClientSide,
    pub out: &'a mut Vec<u8>,
}

/// A connection to a broker.
pub struct Link {
    socket: Socket,
    transport: Transport,
    mqtt: ClientConnection,
    happenings: Receiver<Happening>,
    teller: SyncSender<Happening>,
    /// MQTT bytes on their way from the filters; empty between calls.
    received: Vec<u8>,
    /// Wire bytes on their way through the filters; empty between calls.
    wire: Vec<u8>,
    broker: String,
    keep_alive: Duration,
    sent_at: Instant,
    /// Since when an answer to PINGREQ is owed.
    ping_at: Option<Instant>,
}

impl Link {
    /// Connects, introduces us, and waits for the welcome.
    pub fn open(args: &SubArgs, terms: Terms) -> Result<Link, Failure> {
        let sub = args;
        let args = &args.connect;
        check_version(args)?;
        let url = mqtt_broker(args)?;
        let deadline = Instant::now() + args.connect_timeout;
        let socket = match &args.unix {
            Some(path) => Socket::unix(path)?,
            None => Socket::tcp(&url, args.connect_timeout)?,
        };
        let broker = args
            .unix
            .as_ref()
            .map_or_else(|| url.to_string(), |path| path.display().to_string());
        let transport = transport(args, &url)?;
        let (teller, happenings) = sync_channel(HAPPENINGS_LIMIT);
        read_socket(&socket, &teller)?;
        let keep_alive = args
            .keep_alive
            .min(Duration::from_secs(u64::from(u16::MAX)));
        let mut link = Link {
            socket,
            transport,
            mqtt: introduce(sub, &url, terms, keep_alive)?,
            happenings,
            teller,
            received: Vec::new(),
            wire: Vec::new(),
            broker,
            keep_alive,
            sent_at: Instant::now(),
            ping_at: None,
        };
        let session_present = link.be_welcomed(deadline)?;
        if !sub.clean_start && !session_present {
            let id = args.id.as_deref().unwrap_or_default();
            eprintln!("note: the broker kept no session of `{id}`; a new one begins");
        }
        Ok(link)
    }

    /// What may be asked and said now, apart from events.
    pub fn reply(&mut self) -> Reply<'_> {
        Reply {
            machine: &mut self.mqtt.side,
            out: &mut self.mqtt.out,
        }
    }

    /// A way to tell this link what happened elsewhere.
    pub fn teller(&self) -> SyncSender<Happening> {
        self.teller.clone()
    }

    /// Waits for something to happen until the given time, or for ever; shows all events to `on`; sends what was appended.
    /// A disconnect by the broker is a failure.
    pub fn step(
        &mut self,
        until: Option<Instant>,
        on: &mut dyn FnMut(ClientEvent<'_>, &mut Reply<'_>) -> Result<(), Failure>,
    ) -> Result<Step, Failure> {
        self.flush()?;
        if self.mqtt.has_more() {
            self.understand(on)?;
            self.flush()?;
            return Ok(Step::Moved);
        }
        let happening = match self.next(until)? {
            Some(happening) => happening,
            None => return Ok(Step::TimedOut),
        };
        match happening {
            Happening::Bytes(bytes) => {
                self.take(&bytes, on)?;
                self.flush()?;
                Ok(Step::Moved)
            }
            Happening::Closed(words) => Err(self.closed(words)),
            Happening::Interrupted => Ok(Step::Interrupted),
            Happening::Worked(done) => Ok(Step::Worked(done)),
        }
    }

    /// Sends what was appended. Blocks while the broker does not take it.
    pub fn flush(&mut self) -> Result<(), Failure> {
        if self.mqtt.out.is_empty() {
            return Ok(());
        }
        let sent = match &mut self.transport {
            Transport::Plain => self.socket.write_all(&self.mqtt.out),
            Transport::Filtered(filters) => {
                filters
                    .encode(&self.mqtt.out, &mut self.wire)
                    .map_err(|fault| Failure::new(fault.to_string()))?;
                self.socket.write_all(&self.wire)
            }
        };
        self.mqtt.out.clear();
        self.wire.clear();
        self.sent_at = Instant::now();
        // When the broker has hung up, what it said before is worth more than our broken pipe: the reader brings it.
        match sent {
            Err(error) if !is_hang_up(error.kind()) => Err(Failure::new(format!(
                "cannot send to {}: {error}",
                self.broker
            ))),
            _ => Ok(()),
        }
    }

    /// Reports our load with a PINGREQ, which the broker answers like any other. Only a broker that announced reports gets
    /// more than the bare PINGREQ.
    pub fn ping_with(&mut self, report: &load::Report) {
        let Reply { machine, out } = self.reply();
        machine.ping_with(report, out);
        self.ping_at.get_or_insert_with(Instant::now);
    }

    /// Says goodbye and waits until the broker has read everything, so that nothing we sent is lost.
    pub fn close(mut self) -> Result<(), Failure> {
        let Reply { machine, out } = self.reply();
        machine.disconnect(
            ReasonCode::NORMAL_DISCONNECTION,
            &DisconnectProps::default(),
            out,
        );
        self.flush()?;
        if let Transport::Filtered(filters) = &mut self.transport {
            filters.close(&mut self.wire);
            let _ = self.socket.write_all(&self.wire);
        }
        self.socket.shutdown(Shutdown::Write);
        let deadline = Instant::now() + FAREWELL_MAX;
        while let Ok(happening) = self
            .happenings
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if matches!(happening, Happening::Closed(_)) {
                break;
            }
        }
        Ok(())
    }

    /// Waits for the welcome. Returns whether the broker has kept our session.
    fn be_welcomed(&mut self, deadline: Instant) -> Result<bool, Failure> {
        if let Transport::Filtered(filters) = &mut self.transport {
            filters.take_output(&mut self.wire);
        }
        self.flush()?;
        let mut welcome = None;
        while welcome.is_none() {
            let step = self.step(Some(deadline), &mut |event, _| {
                if let ClientEvent::ConnAck(ack) = event {
                    let values = ack.values;
                    if values.reason.is_error() {
                        return Err(refused(
                            values.reason,
                            &ack.properties,
                            values.server_reference,
                        ));
                    }
                    welcome = Some(values.session_present);
                    return Ok(());
                }
                Ok(())
            })?;
            match step {
                Step::TimedOut => {
                    return Err(Failure::new(format!(
                        "{} accepted the connection and says nothing",
                        self.broker
                    ))
                    .mend("Is it an MQTT broker? If its port is for TLS, write mqtts:// in --url, for WebSocket ws:// or wss://"));
                }
                Step::Interrupted => return Err(interrupted()),
                Step::Moved | Step::Worked(_) => {}
            }
        }
        // The broker may want another one. [MQTT-3.2.2-21]
        self.keep_alive = Duration::from_secs(u64::from(self.mqtt.side.offer().keep_alive));
        Ok(welcome.unwrap_or_else(|| unreachable!("the loop ends with a welcome")))
    }

    /// The next happening; `None` when the time is over. Keeps the connection alive meanwhile.
    fn next(&mut self, until: Option<Instant>) -> Result<Option<Happening>, Failure> {
        loop {
            match self.happenings.try_recv() {
                Ok(happening) => return Ok(Some(happening)),
                Err(TryRecvError::Disconnected) => return Err(self.closed(None)),
                Err(TryRecvError::Empty) => {}
            }
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return Ok(None);
            }
            let alarm = self.keep_alive_alarm(now)?;
            let wake = [until, alarm].into_iter().flatten().min();
            let happening = match wake {
                Some(wake) => self
                    .happenings
                    .recv_timeout(wake.saturating_duration_since(now)),
                None => self.happenings.recv().map_err(RecvTimeoutError::from),
            };
            match happening {
                Ok(happening) => return Ok(Some(happening)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.closed(None)),
            }
        }
    }

    /// Pings when it is time to, and gives up a broker that does not answer; returns when to look again.
    fn keep_alive_alarm(&mut self, now: Instant) -> Result<Option<Instant>, Failure> {
        if self.keep_alive.is_zero() {
            return Ok(None);
        }
        if let Some(since) = self.ping_at {
            let answer_by = since + self.keep_alive;
            return match answer_by <= now {
                true => Err(Failure::new(format!(
                    "{} did not answer within {}",
                    self.broker,
                    spoken(self.keep_alive)
                ))
                .mend("The broker or the network is down, or overloaded")),
                false => Ok(Some(answer_by)),
            };
        }
        // A little early, for the way there. [MQTT-3.1.2-20]
        let ping_by = self.sent_at + self.keep_alive * 3 / 4;
        if ping_by > now {
            return Ok(Some(ping_by));
        }
        let Reply { machine, out } = self.reply();
        machine.ping(out);
        self.flush()?;
        self.ping_at = Some(now);
        Ok(Some(now + self.keep_alive))
    }

    /// Takes bytes from the socket through the filters and shows the packets in them to `on`.
    fn take(
        &mut self,
        bytes: &[u8],
        on: &mut dyn FnMut(ClientEvent<'_>, &mut Reply<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        // A filter's fault ends the connection, but the packets that came before it count.
        let mut fault = None;
        match &mut self.transport {
            Transport::Plain => self.received.extend_from_slice(bytes),
            Transport::Filtered(filters) => {
                fault = filters.handle_input(bytes, &mut self.received).err();
                filters.take_output(&mut self.wire);
                if !self.wire.is_empty() {
                    // If it fails the reader will find the connection closed.
                    let _ = self.socket.write_all(&self.wire);
                    self.wire.clear();
                }
            }
        }
        let understood = self.understand(on);
        if understood.is_err() {
            // What we have to say to the broker about it still goes out.
            let _ = self.flush();
        }
        understood?;
        match fault {
            Some(fault) => Err(explain_fault(&fault.to_string(), &self.broker)),
            None => Ok(()),
        }
    }

    fn understand(
        &mut self,
        on: &mut dyn FnMut(ClientEvent<'_>, &mut Reply<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Link {
            mqtt,
            ping_at,
            broker,
            received,
            ..
        } = self;
        let broken = |fault: PeerFault| {
            Failure::new(format!("{broker} broke MQTT: {} [{}]", fault.what, fault.clause))
                .mend("Is it an MQTT broker, this its port for the scheme in --url, and --v a version that it speaks?")
        };
        let understood = mqtt.receive(
            received,
            &mut |machine, out, event| {
                // What follows the welcome is for the command, not for those who waited for the welcome.
                let goes_on = !matches!(event, ClientEvent::ConnAck(_));
                match event {
                    ClientEvent::PingResp => *ping_at = None,
                    ClientEvent::Disconnect(goodbye) => {
                        return Err(ended(
                            goodbye.reason,
                            &goodbye.properties,
                            goodbye.server_reference,
                        ));
                    }
                    event => on(event, &mut Reply { machine, out })?,
                }
                Ok(goes_on)
            },
            broken,
        );
        received.clear();
        understood
    }

    fn closed(&self, words: Option<String>) -> Failure {
        let handshaking =
            matches!(&self.transport, Transport::Filtered(filters) if filters.is_handshaking());
        let broker = &self.broker;
        let failure = match words {
            Some(words) => Failure::new(format!("the connection to {broker} was lost: {words}")),
            None => Failure::new(format!("{broker} closed the connection")),
        };
        failure.mend(if handshaking {
            "The handshake was not finished: does this port speak the scheme in --url? mqtt, mqtts, ws and wss have ports of their own"
        } else {
            "The broker's log says why. MQTT 3 has no words for it; with --v 5 the broker can say more"
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Ends the reader thread.
        self.socket.shutdown(Shutdown::Both);
    }
}

/// Tells `link` when the user presses Ctrl-C or the system asks us to end. A second Ctrl-C ends the program at once.
#[cfg(unix)]
pub fn tell_interrupts(link: &Link) -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let trouble =
        |error: std::io::Error| Failure::new(format!("signals cannot be received: {error}"));
    let asked = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(crate::failure::EXIT_INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, code, asked.clone())
            .map_err(trouble)?;
        signal_hook::flag::register(signal, asked.clone()).map_err(trouble)?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(trouble)?;
    let teller = link.teller();
    thread::spawn(move || {
        for _ in signals.forever() {
            if teller.send(Happening::Interrupted).is_err() {
                break;
            }
        }
    });
    Ok(())
}

/// Ctrl-C ends the program, as systems do it by themselves.
#[cfg(not(unix))]
pub fn tell_interrupts(_: &Link) -> Result<(), Failure> {
    Ok(())
}

/// Asks for the filters, in one packet.
pub fn ask(link: &mut Link, filters: &[String], args: &SubArgs) -> Result<(), Failure> {
    let options = SubscribeOptions {
        qos: args.qos(),
        no_local: args.no_local,
        retain_as_published: false,
        retain_handling: if args.no_retained {
            RetainHandling::DoNotSend
        } else {
            RetainHandling::Send
        },
    };
    let filters: Vec<(&str, SubscribeOptions)> = filters
        .iter()
        .map(|filter| (filter.as_str(), options))
        .collect();
    link.mqtt.subscribe(&filters).map_err(|error| {
        Failure::new(format!("the filters cannot be sent: {error}"))
            .mend("Give fewer filters, or shorter ones")
    })
}

/// Says in words which filters were refused; grants of less than was asked are remarks.
pub fn judge(ack: &SubAck<'_>, filters: &[String], qos: QoS) -> Result<(), Failure> {
    let mut refused = Vec::new();
    for (filter, code) in filters.iter().zip(ack.codes()) {
        if code.is_error() {
            // MQTT 3 has one code for every failure. [MQTT3-3.9.3-2]
            refused.push(format!(
                "`{filter}`: {}",
                reason_in_words(code, &ack.properties)
            ));
        } else if code.byte() < qos as u8 {
            eprintln!("note: the broker grants QoS {} for `{filter}`", code.byte());
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "the broker refuses the subscription to {}",
            refused.join(", ")
        ))),
    }
}

/// Words for a reason code, with what the broker added.
pub fn reason_in_words(reason: ReasonCode, properties: &Properties<'_>) -> String {
    match properties.reason_string() {
        Some(words) => format!("{reason}: {words}"),
        None => reason.to_string(),
    }
}

/// A connection on which we introduce ourselves first.
fn introduce(
    sub: &SubArgs,
    url: &BrokerUrl,
    terms: Terms,
    keep_alive: Duration,
) -> Result<ClientConnection, Failure> {
    let args = &sub.connect;
    let client_id = name(args).unwrap_or_default();
    let will = args.will.will_topic.as_ref().map(|topic| WillOut {
        message: PublishOut {
            topic,
            payload: args.will.will_message.as_bytes(),
            qos: args.will.will_qos,
            retain: args.will.will_retain,
            ..PublishOut::default()
        },
        delay_secs: args.will.will_delay.unwrap_or(0),
    });
    let mut user = vec![(load::CONCURRENCY_PROPERTY, terms.concurrency.to_string())];
    if terms.acknowledges {
        user.push((load::SETTLES_PROPERTY, "processed".to_owned()));
    }
    let connect = ConnectOut {
        version: args.mqtt_version,
        client_id: &client_id,
        clean_start: sub.clean_start,
        keep_alive: keep_alive.as_secs_f64().ceil() as u16,
        will,
        username: url.user.as_deref(),
        password: url.password.as_deref(),
        session_expiry: session_expiry_secs(sub),
        topic_alias_max: TOPIC_ALIAS_MAX,
        receive_max: terms.receive_max,
        user: Some(&user),
        ..ConnectOut::default()
    };
    ClientConnection::open(&connect).map_err(|error| {
        Failure::usage(format!("we cannot introduce ourselves: {error}"))
            .mend("MQTT texts have at most 65,535 bytes")
    })
}

fn check_version(args: &ConnectArgs) -> Result<(), Failure> {
    match args.will.will_delay.is_some() && !args.mqtt_version.is_v5() {
        true => Err(Failure::usage(format!(
            "--will-delay needs MQTT 5, and --v is {}",
            args.mqtt_version
        ))
        .mend("Leave --v out")),
        false => Ok(()),
    }
}

fn transport(args: &ConnectArgs, url: &BrokerUrl) -> Result<Transport, Failure> {
    let files = TlsClientFiles {
        ca: args.ca.clone(),
        identity: args.cert.clone().zip(args.key.clone()),
        insecure: args.insecure,
        ..TlsClientFiles::default()
    };
    if !url.scheme.is_encrypted() && files != TlsClientFiles::default() {
        return Err(Failure::usage(
            "--ca, --cert, --key and --insecure are for encrypted connections",
        )
        .mend("Write mqtts:// or wss:// in --url"));
    }
    let tls = match url.scheme.is_encrypted() {
        true => {
            let connector = TlsConnector::new(&files)
                .map_err(|fault| Failure::new(fault.to_string()).code(EXIT_USAGE))?;
            Some(
                connector
                    .connect(&url.host)
                    .map_err(|fault| Failure::new(fault.to_string()))?,
            )
        }
        false => None,
    };
    let sub_protocol = if args.mqtt_version == thalweg_mqtt::Version::V31 {
        "mqttv3.1"
    } else {
        "mqtt"
    };
    let websocket = url.scheme.is_websocket().then(|| {
        let settings = WebSocketSettings {
            frame_bytes_max: PACKET_BYTES_MAX as usize,
            message_bytes_max: PACKET_BYTES_MAX as usize,
            ..WebSocketSettings::default()
        };
        websocket(
            &url.host_header(),
            &url.path,
            sub_protocol,
            &Arc::new(settings),
        )
    });
    Ok(Filtered::stack(tls, websocket))
}

fn read_socket(socket: &Socket, teller: &SyncSender<Happening>) -> Result<(), Failure> {
    let mut socket = socket
        .try_clone()
        .map_err(|error| Failure::new(format!("the socket cannot be shared: {error}")))?;
    let teller = teller.clone();
    thread::spawn(move || {
        loop {
            let mut buffer = vec![0; READ_BYTES];
            let happening = match socket.read(&mut buffer) {
                Ok(0) => Happening::Closed(None),
                Ok(length) => {
                    buffer.truncate(length);
                    Happening::Bytes(buffer)
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Happening::Closed(Some(error.to_string())),
            };
            let is_last = matches!(happening, Happening::Closed(_));
            if teller.send(happening).is_err() || is_last {
                break;
            }
        }
    });
    Ok(())
}

const fn is_hang_up(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(kind, BrokenPipe | ConnectionReset | ConnectionAborted)
}

fn refused(reason: ReasonCode, properties: &Properties<'_>, elsewhere: Option<&str>) -> Failure {
    let failure = Failure::new(format!(
        "the broker refuses us: {}",
        reason_in_words(reason, properties)
    ));
    match (reason, elsewhere) {
        (_, Some(server)) => failure.mend(format!("It names another server: {server}")),
        (ReasonCode::BadUserNameOrPassword, _) => {
            failure.mend("Give the right ones as mqtt://USER:PASSWORD@HOST in --url")
        }
        (ReasonCode::NotAuthorized, _) => failure.mend(
            "Does the broker want a user and password? Give them as mqtt://USER@HOST in --url, with --password-file",
        ),
        (ReasonCode::UnsupportedProtocolVersion, _) => failure.mend("Try --v 3.1.1"),
        (ReasonCode::ClientIdentifierNotValid, _) => failure.mend("Choose another --id"),
        (ReasonCode::ServerBusy | ReasonCode::ServerUnavailable | ReasonCode::ConnectionRateExceeded, _) => {
            failure.mend("Try again later")
        }
        _ => failure,
    }
}

fn ended(reason: ReasonCode, properties: &Properties<'_>, elsewhere: Option<&str>) -> Failure {
    let failure = Failure::new(format!(
        "the broker ended the connection: {}",
        reason_in_words(reason, properties)
    ));
    match (reason, elsewhere) {
        (_, Some(server)) => failure.mend(format!("It names another server: {server}")),
        (ReasonCode::SessionTakenOver, _) => {
            failure.mend("Another client connected with the same --id")
        }
        (ReasonCode::PacketTooLarge, _) => {
            failure.mend("limits.packet_bytes_max of the broker says how large a packet may be")
        }
        _ => failure,
    }
}

fn explain_fault(words: &str, broker: &str) -> Failure {
    let failure = Failure::new(format!("{broker}: {words}"));
    match words {
        words
            if words.contains("UnknownIssuer")
                || words.contains("unknown issuer")
                || words.contains("not trusted") =>
        {
            failure.mend("Name the authority that signed the broker's certificate with --ca FILE")
        }
        words if words.starts_with("TLS") => failure.mend(
            "Is this the port for TLS? Does the broker want a certificate of us (--cert, --key)?",
        ),
        _ => failure.mend("Is this the port for WebSocket, and the path in --url the listener's?"),
    }
}

/// Most happenings that wait; beyond it the reader of the socket waits, and so, by TCP, the broker.
const HAPPENINGS_LIMIT: usize = 32;
const READ_BYTES: usize = 64 * 1024;
/// Largest packet taken: what MQTT can express.
const PACKET_BYTES_MAX: u32 = 268_435_460;
/// Topics that the broker may shorten towards us.
const TOPIC_ALIAS_MAX: u16 = 64;
/// How long a broker may take to read our goodbye.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
