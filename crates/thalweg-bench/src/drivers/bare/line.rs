//! A connection: a socket that does not block, MQTT's client side, and bytes on their way.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use thalweg_mqtt::{
    ClientEvent, ClientSide, ConnectOut, PublishOut, QoS, SubscribeOptions, SubscribeOut, Version,
};

use crate::cell::Leg;
use crate::drivers::Fault;

#[derive(Debug)]
pub struct BareConnection {
    stream: TcpStream,
    machine: ClientSide,
    topic: String,
    /// Bytes that came and are not a whole packet yet.
    inbox: Vec<u8>,
    /// Bytes to be written from `begun` on.
    out: Vec<u8>,
    begun: usize,
    waits_to_write: bool,
    /// All of a PUBLISH of QoS 0 before its payload, as the codec writes it for a payload of that size.
    head: (usize, Vec<u8>),
    /// It is in a list of lines to be flushed.
    pub is_dirty: bool,
    /// Messages under way without acknowledgement.
    pub in_flight: u32,
    /// Identifiers of QoS 2 messages that were received and are not released.
    pub recorded: BTreeSet<u16>,
    pub bytes_out: u64,
    pub bytes_in: u64,
}

impl BareConnection {
    /// Connects and sends CONNECT; [`BareConnection::introduced`] reads the answer.
    pub fn open(
        address: SocketAddr,
        leg: &Leg,
        name: &str,
        topic: &str,
        login: Option<&(String, String)>,
    ) -> Result<BareConnection, Fault> {
        let words = |error: io::Error| format!("connecting to {address}: {error}");
        let stream = TcpStream::connect_timeout(&address, ANSWERED_WITHIN).map_err(words)?;
        stream.set_nodelay(true).map_err(words)?;
        stream
            .set_read_timeout(Some(ANSWERED_WITHIN))
            .map_err(words)?;
        let mut line = BareConnection {
            stream,
            machine: ClientSide::new(PACKET_MAX),
            topic: topic.to_owned(),
            inbox: Vec::new(),
            out: Vec::new(),
            begun: 0,
            waits_to_write: false,
            head: (usize::MAX, Vec::new()),
            is_dirty: false,
            in_flight: 0,
            recorded: BTreeSet::new(),
            bytes_out: 0,
            bytes_in: 0,
        };
        let connect = ConnectOut {
            version: if leg.version == 5 {
                Version::V5
            } else {
                Version::V311
            },
            client_id: name,
            // A ping in the middle of a trial would be counted among its bytes.
            keep_alive: 0,
            username: login.map(|(user, _)| user.as_str()),
            password: login.map(|(_, password)| password.as_bytes()),
            ..ConnectOut::default()
        };
        line.machine
            .connect(&connect, &mut line.out)
            .map_err(|error| error.to_string())?;
        // mosquitto does not keep to the Receive Maximum; a load tool has room.
        line.machine.tolerate_excess();
        line.write_all()?;
        Ok(line)
    }

    /// Reads the answer to CONNECT, and sends SUBSCRIBE if there is a filter; then it does not block any more.
    pub fn introduced(&mut self, subscribe: Option<(&str, QoS)>) -> Result<(), Fault> {
        self.hear_until(|event| match event {
            ClientEvent::ConnAck(connack) if connack.values.reason.is_error() => Some(Err(
                format!("the broker refuses: {:?}", connack.values.reason),
            )),
            ClientEvent::ConnAck(_) => Some(Ok(())),
            _ => None,
        })?;
        if let Some((filter, qos)) = subscribe {
            let id = self.machine.next_id().unwrap_or(1);
            let options = SubscribeOptions {
                qos,
                ..SubscribeOptions::default()
            };
            let filters = [(filter, options)];
            let subscribe = SubscribeOut {
                id,
                filters: &filters,
                ..SubscribeOut::default()
            };
            self.machine
                .subscribe(&subscribe, &mut self.out)
                .map_err(|error| error.to_string())?;
            self.write_all()?;
            self.hear_until(|event| match event {
                ClientEvent::SubAck(suback) => {
                    Some(match suback.codes().find(|code| code.is_error()) {
                        Some(code) => Err(format!("the broker refuses the subscription: {code:?}")),
                        None => Ok(()),
                    })
                }
                _ => None,
            })?;
        }
        self.stream
            .set_nonblocking(true)
            .map_err(|error| error.to_string())
    }

    fn hear_until(
        &mut self,
        mut is_it: impl FnMut(&ClientEvent<'_>) -> Option<Result<(), Fault>>,
    ) -> Result<(), Fault> {
        let mut chunk = [0; 4096];
        loop {
            let mut answer = None;
            match self.machine.handle_input(&self.inbox) {
                Err(fault) => {
                    return Err(format!("the broker breaks the protocol: {}", fault.what));
                }
                Ok(Some((used, event))) => {
                    answer = is_it(&event);
                    self.inbox.drain(..used);
                }
                Ok(None) => {
                    let count = self
                        .stream
                        .read(&mut chunk)
                        .map_err(|error| format!("no answer: {error}"))?;
                    if count == 0 {
                        return Err("the broker closes the connection at once".to_owned());
                    }
                    self.inbox
                        .extend_from_slice(chunk.get(..count).unwrap_or_default());
                }
            }
            if let Some(answer) = answer {
                return answer;
            }
        }
    }

    /// Whether the broker has not closed it.
    pub fn is_open(&self) -> bool {
        match self.stream.peek(&mut [0]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Its events go to an epoll under this number.
    pub fn watch(&self, epoll_of: &OwnedFd, number: u64) -> Result<(), Fault> {
        epoll::add(
            epoll_of,
            &self.stream,
            epoll::EventData::new_u64(number),
            epoll::EventFlags::IN,
        )
        .map_err(|error| error.to_string())
    }

    /// Bytes that have not left.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.out.len() - self.begun
    }

    /// Publishes at most once.
    #[inline]
    pub fn publish_once(&mut self, payload: &[u8]) -> Result<(), Fault> {
        if self.head.0 != payload.len() {
            // The codec writes this one; what is before the payload is the same in all others of this size.
            let before = self.out.len();
            let message = PublishOut {
                topic: &self.topic,
                payload,
                ..PublishOut::default()
            };
            self.machine
                .publish(&message, &mut self.out)
                .map_err(|error| error.to_string())?;
            let head = self
                .out
                .get(before..self.out.len() - payload.len())
                .unwrap_or_default();
            self.head.0 = payload.len();
            self.head.1.clear();
            self.head.1.extend_from_slice(head);
            return Ok(());
        }
        self.out.extend_from_slice(&self.head.1);
        self.out.extend_from_slice(payload);
        Ok(())
    }

    /// Publishes at least or exactly once; false if the broker's Receive Maximum is used up.
    pub fn publish(&mut self, payload: &[u8], qos: QoS) -> Result<bool, Fault> {
        if self.machine.send_quota() == 0 {
            return Ok(false);
        }
        let Some(id) = self.machine.next_id() else {
            return Ok(false);
        };
        let message = PublishOut {
            qos,
            topic: &self.topic,
            id,
            payload,
            ..PublishOut::default()
        };
        self.machine
            .publish(&message, &mut self.out)
            .map_err(|error| format!("publishing: {error}"))?;
        Ok(true)
    }

    /// Writes as much as the socket takes, but not much at once: what is large would make others late. The rest follows when
    /// the epoll says so.
    pub fn flush(&mut self, epoll_of: &impl AsFd, number: u64) -> Result<(), Fault> {
        let enough = self.begun.saturating_add(WRITTEN_MAX);
        while self.begun < self.out.len().min(enough) {
            match self.stream.write(
                self.out
                    .get(self.begun..self.out.len().min(enough))
                    .unwrap_or_default(),
            ) {
                Ok(count) => {
                    self.begun += count;
                    self.bytes_out += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("writing: {error}")),
            }
        }
        if self.begun == self.out.len() {
            self.out.clear();
            self.begun = 0;
        } else if self.begun >= COMPACT {
            self.out.drain(..self.begun);
            self.begun = 0;
        }
        if self.waits_to_write == self.out.is_empty() {
            self.waits_to_write = !self.out.is_empty();
            let flags = match self.waits_to_write {
                true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                false => epoll::EventFlags::IN,
            };
            epoll::modify(
                epoll_of,
                &self.stream,
                epoll::EventData::new_u64(number),
                flags,
            )
            .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Reads what is there and tells the packets; answers are written at the next flush. False: the broker has hung up.
    pub fn read(
        &mut self,
        scratch: &mut [u8],
        tell: &mut dyn FnMut(&mut ClientSide, &mut Vec<u8>, &ClientEvent<'_>),
    ) -> Result<bool, Fault> {
        // Not until nothing is left: other connections must be read, too.
        for _ in 0..READS_MAX {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("reading: {error}")),
            };
            self.bytes_in += count as u64;
            let bytes = scratch.get(..count).unwrap_or_default();
            if self.inbox.is_empty() {
                let used = packets(&mut self.machine, &mut self.out, bytes, tell)?;
                self.inbox
                    .extend_from_slice(bytes.get(used..).unwrap_or_default());
            } else {
                self.inbox.extend_from_slice(bytes);
                let used = packets(&mut self.machine, &mut self.out, &self.inbox, tell)?;
                self.inbox.drain(..used);
            }
            if count < scratch.len() {
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn write_all(&mut self) -> Result<(), Fault> {
        self.stream
            .write_all(&self.out)
            .map_err(|error| format!("writing: {error}"))?;
        self.out.clear();
        Ok(())
    }
}

/// Tells whole packets; returns how many bytes they were.
fn packets(
    machine: &mut ClientSide,
    out: &mut Vec<u8>,
    bytes: &[u8],
    tell: &mut dyn FnMut(&mut ClientSide, &mut Vec<u8>, &ClientEvent<'_>),
) -> Result<usize, Fault> {
    let mut used = 0;
    while let Some((count, event)) = machine
        .handle_input(bytes.get(used..).unwrap_or_default())
        .map_err(|fault| format!("the broker breaks the protocol: {}", fault.what))?
    {
        used += count;
        tell(machine, out, &event);
    }
    Ok(used)
}

const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const PACKET_MAX: u32 = 268_435_460;
/// Written bytes that are kept in front of those to be written.
const COMPACT: usize = 64 << 10;
/// Bytes that are written before the next connection has its turn.
const WRITTEN_MAX: usize = 128 << 10;
const READS_MAX: usize = 4;
