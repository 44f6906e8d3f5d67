//! `dds://` of clients: a lane of `thalweg-client` at the broker's end of a bridge's stream, in the client's own process.
//!
//! So a client has what the broker has: endpoints that are discovered have their opposites, values of known types are JSON, and
//! services are requests. A message waits until there is a reader, because only that says what type the topic is of.

use crate::bridge::Bridge;
use crate::counts::Counts;
use crate::frame::{self, Decoded, FromBroker, ToBroker};
use crate::settings::DdsSettings;
use std::collections::HashMap;
use std::fs::{DirBuilder, remove_dir, remove_file};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_client::transport::{
    Counters, DeliveryId, Departure, LinkFault, Medium, Opening, Refusal, RequestId, Settled,
    SubscribeWish, SubscriptionId, Welcome,
};
use thalweg_client::{
    Capabilities, Endpoint, Events, Inbound, Outbound, Output, Reliability, Retain, Span, Time,
    Transport,
};
use thalweg_model::{Address, Filter};

/// What a reader that was just found does not get: it has still to find the writer that was made for it.
const STRANGE_FOR: Span = Span::from_millis(300);
/// The address of answers; no topic has it.
const ANSWERS: &str = "$answers";

/// A lane into a domain, with a participant of its own.
pub struct DdsLane {
    _bridge: Bridge,
    socket: Socket,
    payload_max: usize,
    is_up: bool,
    /// What readers of others want, and from when on they hear it.
    wanted: HashMap<String, (Filter, Time)>,
    /// Subscriptions to be confirmed.
    told: Vec<SubscriptionId>,
    /// A message waits for a reader.
    has_waiting: bool,
    /// The time of the last call.
    now: Time,
}

impl DdsLane {
    /// Joins the domain. The client connects to the bridge when it opens the lane.
    pub fn join(settings: DdsSettings) -> io::Result<DdsLane> {
        let (socket, listener) = Socket::new()?;
        listener.set_nonblocking(true)?;
        let payload_max = settings.payload_max;
        let connect = move || {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(false)?;
            Ok(stream)
        };
        let bridge = Bridge::start(settings, Arc::<Counts>::default(), Box::new(connect));
        Ok(DdsLane {
            _bridge: bridge.map_err(io::Error::other)?,
            socket,
            payload_max,
            is_up: false,
            wanted: HashMap::new(),
            told: Vec::new(),
            has_waiting: false,
            now: Time::ZERO,
        })
    }

    /// Whether a reader takes what is published at this address.
    fn is_wanted(&self, address: &str) -> bool {
        let mut wanted = self.wanted.values();
        wanted.any(|(filter, from)| *from <= self.now && filter.matches(address))
    }

    /// Writes a message for readers; they, and nothing else, may be missing.
    fn write(&self, sample: frame::Sample<'_>, tag: u64, out: &mut Output) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if sample.payload.len() > self.payload_max {
            let limit = self.payload_max;
            return Err(Refusal::TooLarge { limit });
        }
        if Address::check(sample.address).is_err() {
            return Err(Refusal::Address);
        }
        if !self.is_wanted(sample.address) {
            return Err(Refusal::Window);
        }
        let message = FromBroker { tag, sample };
        match frame::encode_message(&message, &mut out.bytes) {
            true => Ok(()),
            false => Err(Refusal::Address),
        }
    }

    fn on_frame(&mut self, frame: ToBroker<'_>, events: &mut dyn Events) {
        match frame {
            // What a bridge begins with; later it is about something that only brokers tell.
            ToBroker::Settled(0) => {
                if !std::mem::replace(&mut self.is_up, true) {
                    events.up(&Welcome::default());
                }
            }
            ToBroker::Settled(tag) => events.settled(tag - 1, Settled::Acknowledged),
            ToBroker::Subscribe { address, .. } => {
                if let Ok(filter) = Filter::new(address) {
                    let from = self.now + STRANGE_FOR;
                    self.wanted.entry(address.into()).or_insert((filter, from));
                }
            }
            ToBroker::Unsubscribe { address } => _ = self.wanted.remove(address),
            ToBroker::Publish(sample) if sample.address == ANSWERS => {
                if let Ok(number) = <[u8; 8]>::try_from(sample.correlation) {
                    let request = RequestId(u64::from_le_bytes(number));
                    events.answered(request, Ok(Some(&inbound(&sample))));
                }
            }
            ToBroker::Publish(sample) => events.received(&inbound(&sample)),
            // A client of a service without a server here, and what only a broker keeps.
            ToBroker::Ask(_) | ToBroker::Withdraw { .. } => {}
        }
    }
}

fn inbound<'a>(sample: &frame::Sample<'a>) -> Inbound<'a> {
    Inbound {
        content_type: Some(sample.content_type).filter(|it| !it.is_empty()),
        lifespan: match sample.expires_in {
            0 => Span::FOREVER,
            nanos => Span::from_nanos(nanos),
        },
        ..Inbound::new(sample.address, sample.payload)
    }
}

fn sample_of<'a>(message: &Outbound<'a>) -> frame::Sample<'a> {
    let is_clear = match message.retain {
        Retain::Clear => true,
        Retain::Set => message.payload.is_empty(),
        Retain::No => false,
    };
    frame::Sample {
        is_reliable: message.reliability != Reliability::AtMostOnce,
        retain: match is_clear {
            true => frame::Retain::Clear,
            false => frame::Retain::No,
        },
        address: message.address,
        payload: message.payload,
        ..frame::Sample::default()
    }
}

impl Transport for DdsLane {
    fn protocol(&self) -> &'static str {
        "dds"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliability_max: Reliability::AtLeastOnce,
            wildcards: true,
            keeps_all: true,
            requests: true,
            payload_bytes_max: self.payload_max,
            ..Capabilities::STREAM
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.socket.endpoint
    }

    fn open(&mut self, _: &Opening, _: SocketAddr, now: Time, _: &mut Output) {
        self.closed();
        self.now = now;
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        _: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        self.now = now;
        let mut consumed = 0;
        loop {
            match frame::decode(&input[consumed..], self.payload_max) {
                Decoded::Frame(frame, length) => {
                    self.on_frame(frame, events);
                    consumed += length;
                }
                Decoded::Incomplete => return Ok(consumed),
                Decoded::Wrong => {
                    return Err(LinkFault::temporary("a sample is longer than is allowed"));
                }
            }
        }
    }

    fn poll_timeout(&self) -> Time {
        if !self.told.is_empty() {
            return Time::ZERO;
        }
        let known = self.wanted.values().map(|(_, from)| *from);
        let known = known.filter(|from| self.has_waiting && *from > self.now);
        known.min().unwrap_or(Time::NEVER)
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        _: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        self.now = now;
        for subscription in std::mem::take(&mut self.told) {
            events.subscribed(subscription, Ok(Reliability::AtMostOnce));
        }
        if self.has_waiting && self.wanted.values().any(|(_, from)| *from <= now) {
            self.has_waiting = false;
            events.room();
        }
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        self.now = now;
        let (tag, departure) = match message.reliability {
            Reliability::AtMostOnce => (0, Departure::Gone),
            _ => (message.id + 1, Departure::Awaited),
        };
        let written = self.write(sample_of(message), tag, out);
        self.has_waiting |= written == Err(Refusal::Window);
        written.map(|()| departure)
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        _: Time,
        _: &mut Output,
    ) -> Result<(), Refusal> {
        if wish.filter.starts_with('$') {
            return Err(Refusal::Unsupported("DDS has no groups and no queues"));
        }
        self.told.push(wish.subscription);
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, _: Time, _: &mut Output) {
        self.told.retain(|it| *it != subscription);
    }

    fn settle(&mut self, _: DeliveryId, _: Time, _: &mut Output) {}

    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        self.now = now;
        let correlation = request.0.to_le_bytes();
        let sample = frame::Sample {
            reply_to: ANSWERS,
            correlation: &correlation,
            ..sample_of(message)
        };
        self.write(sample, 0, out)
    }

    fn read(&mut self, _: RequestId, _: &str, _: Time, _: &mut Output) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("DDS has no last values to ask for"))
    }

    fn forget(&mut self, _: RequestId) {}

    /// There is no network between this and the bridge.
    fn probe(&mut self, _: Time, _: &mut Output) -> usize {
        0
    }

    fn close(&mut self, _: Time, _: &mut Output) {}

    fn closed(&mut self) {
        self.is_up = false;
        self.wanted.clear();
        self.told.clear();
        self.has_waiting = false;
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// The path that the client finds the bridge by, in a folder that only its user may read.
struct Socket {
    folder: PathBuf,
    path: PathBuf,
    endpoint: Endpoint,
}

impl Socket {
    fn new() -> io::Result<(Socket, UnixListener)> {
        let process = std::process::id();
        let folder = (0..1000)
            .map(|number| std::env::temp_dir().join(format!("thalweg-dds-{process}-{number}")))
            .find(|folder| DirBuilder::new().mode(0o700).create(folder).is_ok());
        let folder =
            folder.ok_or_else(|| io::Error::other("no folder for a socket can be made"))?;
        let path = folder.join("bridge");
        let endpoint = Endpoint {
            host: String::new(),
            port: 0,
            medium: Medium::Unix(path.clone()),
            is_encrypted: false,
            websocket: None,
        };
        let listener = UnixListener::bind(&path)?;
        let socket = Socket {
            folder,
            path,
            endpoint,
        };
        Ok((socket, listener))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Somebody may have cleaned up before.
        let _ = remove_file(&self.path);
        let _ = remove_dir(&self.folder);
    }
}
