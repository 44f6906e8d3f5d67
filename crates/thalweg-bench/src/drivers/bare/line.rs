//! A connection of the fast driver: a socket, and what is under way on it.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use thalweg_mqtt::{ClientEvent, ClientSide, ConnectOut, PeerFault, QoS, Version};

use crate::cell::Leg;
use crate::drivers::Fault;
use crate::drivers::socket::Socket;

#[derive(Debug)]
pub struct BareConnection {
    pub socket: Socket,
    topic: String,
    /// All of a PUBLISH of QoS 0 before its payload, as the codec writes it for a payload of that size.
    head: (usize, Vec<u8>),
    /// It is in a list of lines to be flushed.
    pub is_dirty: bool,
    /// Messages under way without acknowledgement.
    pub in_flight: u32,
    /// Identifiers of QoS 2 messages that were received and are not released.
    pub recorded: BTreeSet<u16>,
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
        let version = match leg.version {
            5 => Version::V5,
            _ => Version::V311,
        };
        let connect = ConnectOut {
            version,
            client_id: name,
            // A ping in the middle of a trial would be counted among its bytes.
            keep_alive: 0,
            username: login.map(|(user, _)| user.as_str()),
            password: login.map(|(_, password)| password.as_bytes()),
            ..ConnectOut::default()
        };
        let words = |error: io::Error| format!("connecting to {address}: {error}");
        let mut socket = Socket::open(address, ANSWERED_WITHIN, &connect).map_err(words)?;
        let stream = &socket.stream;
        stream
            .set_read_timeout(Some(ANSWERED_WITHIN))
            .map_err(words)?;
        socket.write_all().map_err(writing)?;
        Ok(BareConnection {
            socket,
            topic: topic.to_owned(),
            head: (usize::MAX, Vec::new()),
            is_dirty: false,
            in_flight: 0,
            recorded: BTreeSet::new(),
        })
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
            let asked = self.socket.subscribe(filter, qos);
            asked.map_err(|error| error.to_string())?;
            self.socket.write_all().map_err(writing)?;
            self.hear_until(|event| {
                let ClientEvent::SubAck(suback) = event else {
                    return None;
                };
                let refused = suback.codes().find(|code| code.is_error());
                let words = |code| format!("the broker refuses the subscription: {code:?}");
                Some(refused.map_or(Ok(()), |code| Err(words(code))))
            })?;
        }
        let done = self.socket.stream.set_nonblocking(true);
        done.map_err(|error| error.to_string())
    }

    fn hear_until(
        &mut self,
        mut is_it: impl FnMut(&ClientEvent<'_>) -> Option<Result<(), Fault>>,
    ) -> Result<(), Fault> {
        let (mut chunk, mut count) = ([0; 4096], 0);
        let Socket { stream, mqtt, .. } = &mut self.socket;
        loop {
            let (bytes, mut answer) = (chunk.get(..count).unwrap_or_default(), None);
            mqtt.receive(
                bytes,
                &mut |_, _, event| {
                    answer = is_it(&event);
                    Ok(answer.is_none())
                },
                broken,
            )?;
            if let Some(answer) = answer {
                return answer;
            }
            let read = stream.read(&mut chunk);
            count = read.map_err(|error| format!("no answer: {error}"))?;
            if count == 0 {
                return Err("the broker closes the connection at once".to_owned());
            }
        }
    }

    /// Whether the broker has not closed it.
    pub fn is_open(&self) -> bool {
        match self.socket.stream.peek(&mut [0]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Publishes at most once.
    #[inline]
    pub fn publish_once(&mut self, payload: &[u8]) -> Result<(), Fault> {
        if self.head.0 != payload.len() {
            // The codec writes this one; what is before the payload is the same in all others of this size.
            let before = self.socket.mqtt.out.len();
            self.publish(payload, QoS::AtMostOnce)?;
            let out = &self.socket.mqtt.out;
            let head = out.get(before..out.len() - payload.len());
            self.head = (payload.len(), head.unwrap_or_default().to_vec());
            return Ok(());
        }
        self.socket.mqtt.out.extend_from_slice(&self.head.1);
        self.socket.mqtt.out.extend_from_slice(payload);
        Ok(())
    }

    /// Publishes; false if the broker's Receive Maximum is used up.
    pub fn publish(&mut self, payload: &[u8], qos: QoS) -> Result<bool, Fault> {
        self.socket
            .mqtt
            .publish(&self.topic, payload, qos)
            .map_err(|error| format!("publishing: {error}"))
    }

    /// Writes what the socket takes now.
    pub fn flush(&mut self, epoll_of: &impl AsFd, number: u64) -> Result<(), Fault> {
        self.socket.flush(epoll_of, number).map_err(writing)
    }

    /// Reads what is there and tells the packets; answers are written at the next flush. False: the broker has hung up.
    pub fn read(
        &mut self,
        scratch: &mut [u8],
        tell: &mut dyn FnMut(&mut ClientSide, &mut Vec<u8>, &ClientEvent<'_>),
    ) -> Result<bool, Fault> {
        // Not until nothing is left: other connections must be read, too.
        for _ in 0..READS_MAX {
            let read = self.socket.read(scratch);
            let count = match read.map_err(|error| format!("reading: {error}"))? {
                None => return Ok(true),
                Some(0) => return Ok(false),
                Some(count) => count,
            };
            let bytes = scratch.get(..count).unwrap_or_default();
            self.socket.mqtt.receive(
                bytes,
                &mut |side, out, event| {
                    tell(side, out, &event);
                    Ok(true)
                },
                broken,
            )?;
            if count < scratch.len() {
                return Ok(true);
            }
        }
        Ok(true)
    }
}

fn writing(error: io::Error) -> Fault {
    format!("writing: {error}")
}

fn broken(fault: PeerFault) -> Fault {
    format!("the broker breaks the protocol: {}", fault.what)
}

const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const READS_MAX: usize = 4;
