//! A connection of a publisher or of a worker: a socket, and a network that may take its time.
//!
//! *Knows:* bytes and packets. *Must never know:* why they are sent.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::epoll;
use socket2::SockRef;
use thalweg_model::Reliability;
use thalweg_mqtt::load::Report;
use thalweg_mqtt::{ClientConnection, ClientEvent, ConnectOut, DisconnectProps, QoS, ReasonCode};

use crate::drivers::socket::Socket;
use crate::sim::worker::Acknowledgement;

/// What the broker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// We are in; whether it takes reports of load in PINGREQ.
    Welcome { takes_reports: bool },
    /// The subscription stands, or does not.
    Subscribed(bool),
    Message {
        header: Header,
        reliability: Reliability,
        id: u16,
        dup: bool,
    },
    /// PUBREC for a message of ours.
    Received(u16),
    /// PUBREL for a message to us.
    Released(u16),
    /// It ends the connection, in words.
    Ended(String),
    /// What needs no answer.
    Other,
}

/// What every payload begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of the cell, so that nothing strays.
    pub cell: u32,
    /// The number of the message.
    pub number: u32,
    /// When it should have been sent, in nanoseconds of the run's clock.
    pub intended: u64,
    /// When it was sent.
    pub sent: u64,
}

impl Header {
    /// Bytes of a header, the least that a payload may have.
    pub const BYTES: usize = 24;

    fn read(payload: &[u8]) -> Option<Header> {
        let (cell, rest) = payload.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (intended, rest) = rest.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        Some(Header {
            cell: u32::from_be_bytes(*cell),
            number: u32::from_be_bytes(*number),
            intended: u64::from_be_bytes(*intended),
            sent: u64::from_be_bytes(*sent),
        })
    }

    /// A payload of `bytes` bytes that begins with this header.
    pub fn payload(&self, bytes: usize) -> Vec<u8> {
        let mut payload = Vec::with_capacity(bytes.max(Self::BYTES));
        payload.extend_from_slice(&self.cell.to_be_bytes());
        payload.extend_from_slice(&self.number.to_be_bytes());
        payload.extend_from_slice(&self.intended.to_be_bytes());
        payload.extend_from_slice(&self.sent.to_be_bytes());
        payload.resize(bytes.max(Self::BYTES), b'.');
        payload
    }
}

/// What a client says in CONNECT.
#[derive(Clone, Copy, Debug)]
pub struct Introduction<'a> {
    pub name: &'a str,
    /// User properties: the terms on which it works.
    pub words: &'a [(&'static str, String)],
}

#[derive(Debug)]
pub struct Link {
    socket: Socket,
    token: u64,
    /// Bytes that came and were not looked at yet.
    inbox: Vec<u8>,
    /// Nanoseconds that everything takes on its way, in each direction, besides what the loopback takes.
    delay: u64,
    inward: VecDeque<(u64, Vec<u8>)>,
    outward: VecDeque<(u64, Vec<u8>)>,
    pub bytes_out: u64,
}

impl Link {
    /// Connects and introduces itself as `client`.
    pub fn open(
        address: SocketAddr,
        epoll_of: &impl AsFd,
        token: u64,
        client: &Introduction<'_>,
        delay: u64,
        now: u64,
    ) -> io::Result<Link> {
        // The keep alive is not the interval of reports (E, errata 11): a report that is late must not end the session.
        let connect = ConnectOut {
            client_id: client.name,
            keep_alive: 60,
            user: Some(&client.words),
            ..ConnectOut::default()
        };
        // On a loopback this is done at once; a broker elsewhere costs its round trip before anything is measured.
        let socket = Socket::open(address, Duration::from_secs(5), &connect)?;
        socket.stream.set_nonblocking(true)?;
        socket.watch(epoll_of, token)?;
        let mut link = Link {
            socket,
            token,
            inbox: Vec::new(),
            delay,
            inward: VecDeque::new(),
            outward: VecDeque::new(),
            bytes_out: 0,
        };
        link.send(0, epoll_of, now)?;
        Ok(link)
    }

    /// Subscribes to one filter.
    pub fn subscribe(
        &mut self,
        filter: &str,
        qos: QoS,
        epoll_of: &impl AsFd,
        now: u64,
    ) -> io::Result<()> {
        let before = self.socket.mqtt.out.len();
        self.socket.subscribe(filter, qos)?;
        self.send(before, epoll_of, now)
    }

    /// Publishes; false if the broker's Receive Maximum does not let us now.
    pub fn publish(
        &mut self,
        topic: &str,
        payload: &[u8],
        qos: QoS,
        epoll_of: &impl AsFd,
        now: u64,
    ) -> io::Result<bool> {
        let before = self.socket.mqtt.out.len();
        let is_taken = self.socket.mqtt.publish(topic, payload, qos);
        let is_taken = is_taken.map_err(io::Error::other)?;
        self.send(before, epoll_of, now)?;
        Ok(is_taken)
    }

    /// Acknowledges a message: PUBREC, PUBCOMP or PUBACK.
    pub fn say(&mut self, said: Acknowledgement, epoll_of: &impl AsFd, now: u64) -> io::Result<()> {
        let ClientConnection { side, out, .. } = &mut self.socket.mqtt;
        let before = out.len();
        match said {
            Acknowledgement::Recorded(id) => side.pubrec(id, ReasonCode::Success, out),
            Acknowledgement::Settled(id, Reliability::ExactlyOnce) => {
                side.pubcomp(id, ReasonCode::Success, out);
            }
            Acknowledgement::Settled(id, _) => side.puback(id, ReasonCode::Success, out),
        }
        self.send(before, epoll_of, now)
    }

    /// Answers PUBREC with PUBREL.
    pub fn release(&mut self, id: u16, epoll_of: &impl AsFd, now: u64) -> io::Result<()> {
        let ClientConnection { side, out, .. } = &mut self.socket.mqtt;
        let before = out.len();
        side.pubrel(id, ReasonCode::Success, out);
        self.send(before, epoll_of, now)
    }

    /// Sends a report of load in PINGREQ; false if the broker does not take any, and it was an ordinary one.
    pub fn report(&mut self, report: &Report, epoll_of: &impl AsFd, now: u64) -> io::Result<bool> {
        let ClientConnection { side, out, .. } = &mut self.socket.mqtt;
        let before = out.len();
        let told = side.ping_with(report, out);
        self.send(before, epoll_of, now)?;
        Ok(told)
    }

    pub fn close(mut self, epoll_of: &impl AsFd) {
        let ClientConnection { side, out, .. } = &mut self.socket.mqtt;
        side.disconnect(
            ReasonCode::NORMAL_DISCONNECTION,
            &DisconnectProps::default(),
            out,
        );
        let _ = self.socket.write_all();
        let _ = epoll::delete(epoll_of, &self.socket.stream);
    }

    /// Ends without a word, so that the broker's system sees a reset.
    pub fn reset(self, epoll_of: &impl AsFd) {
        let _ = epoll::delete(epoll_of, &self.socket.stream);
        let _ = SockRef::from(&self.socket.stream).set_linger(Some(Duration::ZERO));
    }

    /// Stops or goes on to look at the socket: a process that hangs does not read.
    pub fn look(&mut self, looks: bool, epoll_of: &impl AsFd) {
        // An end of the connection is told even to those that look for nothing, again and again: so they leave altogether.
        let _ = match looks {
            true => self.socket.watch(epoll_of, self.token),
            false => epoll::delete(epoll_of, &self.socket.stream).map_err(io::Error::from),
        };
    }

    /// Reads what is there. `Ok(false)`: the broker has hung up.
    pub fn read(&mut self, now: u64) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let count = match self.socket.read(&mut chunk)? {
                None => return Ok(true),
                Some(0) => return Ok(false),
                Some(count) => count,
            };
            let bytes = chunk.get(..count).unwrap_or_default();
            match self.delay {
                0 => self.inbox.extend_from_slice(bytes),
                delay => self.inward.push_back((now + delay, bytes.to_vec())),
            }
            if count < chunk.len() {
                return Ok(true);
            }
        }
    }

    pub fn hear(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.inbox);
        let mut next = None;
        let received = self.socket.mqtt.receive(
            &bytes,
            &mut |_, _, event| {
                next = Some(heard(&event));
                Ok(false)
            },
            |fault| Event::Ended(fault.what.to_owned()),
        );
        Some(match received.map_or_else(Some, |()| next)? {
            // The machine knows best what was announced.
            Event::Welcome { .. } => Event::Welcome {
                takes_reports: self.socket.mqtt.side.offer().load_reports,
            },
            heard => heard,
        })
    }

    /// Lets through what has been on its way for long enough.
    pub fn travel(&mut self, epoll_of: &impl AsFd, now: u64) -> io::Result<()> {
        while self.inward.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, bytes)) = self.inward.pop_front() {
                self.inbox.extend_from_slice(&bytes);
            }
        }
        while self.outward.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, bytes)) = self.outward.pop_front() {
                self.socket.mqtt.out.extend_from_slice(&bytes);
                self.write_on(epoll_of)?;
            }
        }
        Ok(())
    }

    /// When something on its way arrives next.
    pub fn arrives_at(&self) -> Option<u64> {
        [self.inward.front(), self.outward.front()]
            .into_iter()
            .flatten()
            .map(|(at, _)| *at)
            .min()
    }

    /// Writes what the socket did not take before.
    pub fn write_on(&mut self, epoll_of: &impl AsFd) -> io::Result<()> {
        self.socket.flush(epoll_of, self.token)
    }

    /// Sends what was written behind the first `before` bytes.
    fn send(&mut self, before: usize, epoll_of: &impl AsFd, now: u64) -> io::Result<()> {
        self.bytes_out += (self.socket.mqtt.out.len() - before) as u64;
        if self.delay > 0 {
            let said = self.socket.mqtt.out.split_off(before);
            self.outward.push_back((now + self.delay, said));
            return Ok(());
        }
        self.write_on(epoll_of)
    }
}

fn reliability(qos: QoS) -> Reliability {
    match qos {
        QoS::AtMostOnce => Reliability::AtMostOnce,
        QoS::AtLeastOnce => Reliability::AtLeastOnce,
        QoS::ExactlyOnce => Reliability::ExactlyOnce,
    }
}

fn heard(event: &ClientEvent<'_>) -> Event {
    match event {
        ClientEvent::ConnAck(connack) if connack.values.reason.is_error() => {
            Event::Ended(format!("refused: {:?}", connack.values.reason))
        }
        ClientEvent::ConnAck(_) => Event::Welcome {
            takes_reports: false,
        },
        ClientEvent::SubAck(suback) => {
            Event::Subscribed(suback.codes().all(|reason| !reason.is_error()))
        }
        ClientEvent::Publish(publish) => match Header::read(publish.payload) {
            Some(header) => Event::Message {
                header,
                reliability: reliability(publish.qos),
                id: publish.id,
                dup: publish.dup,
            },
            None => Event::Other,
        },
        ClientEvent::PubRec(ack) if !ack.reason.is_error() => Event::Received(ack.id),
        ClientEvent::PubRel(ack) => Event::Released(ack.id),
        ClientEvent::Disconnect(disconnect) => {
            Event::Ended(format!("disconnected: {:?}", disconnect.reason))
        }
        _ => Event::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            cell: 7,
            number: 70_000,
            intended: 1 << 40,
            sent: (1 << 40) + 1,
        };
        let payload = header.payload(100);
        assert_eq!((payload.len(), Header::read(&payload)), (100, Some(header)));
        assert_eq!(header.payload(3).len(), Header::BYTES);
        assert_eq!(Header::read(&payload[..23]), None);
    }
}
