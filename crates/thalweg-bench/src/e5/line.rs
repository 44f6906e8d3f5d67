//! A connection of a publisher or of a worker: a socket that does not block, and MQTT's client side.
//!
//! *Knows:* bytes and packets. *Must never know:* why they are sent.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::epoll;
use socket2::SockRef;
use thalweg_mqtt::load::Report;
use thalweg_mqtt::{
    ClientEvent, ClientSide, ConnectOut, DisconnectProps, PublishOut, QoS, ReasonCode,
    SubscribeOptions, SubscribeOut,
};

/// What the broker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// We are in; whether it takes reports of load in PINGREQ.
    Welcome { takes_reports: bool },
    /// The subscription stands, or does not.
    Subscribed(bool),
    Message {
        header: Header,
        qos: QoS,
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
    stream: TcpStream,
    machine: ClientSide,
    token: u64,
    /// Bytes that came and were not understood yet; what is before `begun` was.
    inbox: Vec<u8>,
    begun: usize,
    /// Bytes that the socket did not take.
    unsent: Vec<u8>,
    waits_to_write: bool,
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
        epoll_of: &impl std::os::fd::AsFd,
        token: u64,
        client: &Introduction<'_>,
        delay: u64,
        now: u64,
    ) -> io::Result<Link> {
        // On a loopback this is done at once; a broker elsewhere costs its round trip before anything is measured.
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(
            epoll_of,
            &stream,
            epoll::EventData::new_u64(token),
            epoll::EventFlags::IN,
        )?;
        let mut line = Link {
            stream,
            machine: ClientSide::new(1 << 20),
            token,
            inbox: Vec::new(),
            begun: 0,
            unsent: Vec::new(),
            waits_to_write: false,
            delay,
            inward: VecDeque::new(),
            outward: VecDeque::new(),
            bytes_out: 0,
        };
        let mut out = Vec::new();
        // The keep alive is not the interval of reports (E, errata 11): a report that is late must not end the session.
        let connect = ConnectOut {
            client_id: client.name,
            keep_alive: 60,
            user: Some(&client.words),
            ..ConnectOut::default()
        };
        line.machine
            .connect(&connect, &mut out)
            .map_err(io::Error::other)?;
        line.send(out, epoll_of, now)?;
        Ok(line)
    }

    /// Subscribes to one filter.
    pub fn subscribe(
        &mut self,
        filter: &str,
        qos: QoS,
        epoll_of: &impl std::os::fd::AsFd,
        now: u64,
    ) -> io::Result<()> {
        let id = self.machine.next_id().unwrap_or(1);
        let options = SubscribeOptions {
            qos,
            ..SubscribeOptions::default()
        };
        let subscribe = SubscribeOut {
            id,
            filters: &[(filter, options)],
            ..SubscribeOut::default()
        };
        let mut out = Vec::new();
        self.machine
            .subscribe(&subscribe, &mut out)
            .map_err(io::Error::other)?;
        self.send(out, epoll_of, now)
    }

    /// Publishes; false if the broker's Receive Maximum does not let us now.
    pub fn publish(
        &mut self,
        topic: &str,
        payload: &[u8],
        qos: QoS,
        epoll_of: &impl std::os::fd::AsFd,
        now: u64,
    ) -> io::Result<bool> {
        let mut id = 0;
        if qos != QoS::AtMostOnce {
            if self.machine.send_quota() == 0 {
                return Ok(false);
            }
            match self.machine.next_id() {
                Some(free) => id = free,
                None => return Ok(false),
            }
        }
        let message = PublishOut {
            qos,
            topic,
            id,
            payload,
            ..PublishOut::default()
        };
        let mut out = Vec::new();
        self.machine
            .publish(&message, &mut out)
            .map_err(io::Error::other)?;
        self.send(out, epoll_of, now)?;
        Ok(true)
    }

    /// Tells that a message is processed: PUBACK, or PUBREC for QoS 2.
    pub fn settle(
        &mut self,
        qos: QoS,
        id: u16,
        epoll_of: &impl std::os::fd::AsFd,
        now: u64,
    ) -> io::Result<()> {
        let mut out = Vec::new();
        match qos {
            QoS::AtMostOnce => return Ok(()),
            QoS::AtLeastOnce => self.machine.puback(id, ReasonCode::Success, &mut out),
            QoS::ExactlyOnce => self.machine.pubrec(id, ReasonCode::Success, &mut out),
        }
        self.send(out, epoll_of, now)
    }

    /// Answers PUBREC with PUBREL, or PUBREL with PUBCOMP.
    pub fn go_on(
        &mut self,
        heard: &Event,
        epoll_of: &impl std::os::fd::AsFd,
        now: u64,
    ) -> io::Result<()> {
        let mut out = Vec::new();
        match heard {
            Event::Received(id) => self.machine.pubrel(*id, ReasonCode::Success, &mut out),
            Event::Released(id) => self.machine.pubcomp(*id, ReasonCode::Success, &mut out),
            _ => return Ok(()),
        }
        self.send(out, epoll_of, now)
    }

    /// Sends a report of load in PINGREQ; false if the broker does not take any, and it was an ordinary one.
    pub fn report(
        &mut self,
        report: &Report,
        epoll_of: &impl std::os::fd::AsFd,
        now: u64,
    ) -> io::Result<bool> {
        let mut out = Vec::new();
        let told = self.machine.ping_with(report, &mut out);
        self.send(out, epoll_of, now)?;
        Ok(told)
    }

    pub fn close(mut self, epoll_of: &impl std::os::fd::AsFd) {
        let mut out = Vec::new();
        self.machine.disconnect(
            ReasonCode::NORMAL_DISCONNECTION,
            &DisconnectProps::default(),
            &mut out,
        );
        let _ = self.stream.write_all(&out);
        let _ = epoll::delete(epoll_of, &self.stream);
    }

    /// Ends without a word, so that the broker's system sees a reset.
    pub fn reset(self, epoll_of: &impl std::os::fd::AsFd) {
        let _ = epoll::delete(epoll_of, &self.stream);
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Stops or goes on to look at the socket: a process that hangs does not read.
    pub fn look(&mut self, looks: bool, epoll_of: &impl std::os::fd::AsFd) {
        let flags = match (looks, self.waits_to_write) {
            (false, _) => epoll::EventFlags::empty(),
            (true, false) => epoll::EventFlags::IN,
            (true, true) => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        };
        // An end of the connection is told even to those that look for nothing, again and again: so they leave altogether.
        let _ = match looks {
            true => epoll::add(
                epoll_of,
                &self.stream,
                epoll::EventData::new_u64(self.token),
                flags,
            ),
            false => epoll::delete(epoll_of, &self.stream),
        };
    }

    /// Reads what is there. `Ok(false)`: the broker has hung up.
    pub fn read(&mut self, now: u64) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    let bytes = chunk.get(..count).unwrap_or_default();
                    match self.delay {
                        0 => self.inbox.extend_from_slice(bytes),
                        delay => self.inward.push_back((now + delay, bytes.to_vec())),
                    }
                    if count < chunk.len() {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn hear(&mut self) -> Option<Event> {
        let bytes = self.inbox.get(self.begun..).unwrap_or_default();
        let (used, heard) = match self.machine.handle_input(bytes) {
            Ok(Some((used, event))) => (used, heard(&event)),
            Ok(None) => {
                self.inbox.drain(..self.begun);
                self.begun = 0;
                return None;
            }
            Err(fault) => (bytes.len(), Event::Ended(fault.what.to_owned())),
        };
        self.begun += used;
        Some(match heard {
            // The machine knows best what was announced.
            Event::Welcome { .. } => Event::Welcome {
                takes_reports: self.machine.offer().load_reports,
            },
            heard => heard,
        })
    }

    /// Lets through what has been on its way for long enough.
    pub fn travel(&mut self, epoll_of: &impl std::os::fd::AsFd, now: u64) -> io::Result<()> {
        while self.inward.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, bytes)) = self.inward.pop_front() {
                self.inbox.extend_from_slice(&bytes);
            }
        }
        while self.outward.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, bytes)) = self.outward.pop_front() {
                self.write(&bytes, epoll_of)?;
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
    pub fn write_on(&mut self, epoll_of: &impl std::os::fd::AsFd) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.unsent);
        self.write(&bytes, epoll_of)
    }

    fn send(
        &mut self,
        bytes: Vec<u8>,
        epoll_of: &impl std::os::fd::AsFd,
        now: u64,
    ) -> io::Result<()> {
        self.bytes_out += bytes.len() as u64;
        if self.delay > 0 {
            self.outward.push_back((now + self.delay, bytes));
            return Ok(());
        }
        self.write(&bytes, epoll_of)
    }

    fn write(&mut self, mut bytes: &[u8], epoll_of: &impl std::os::fd::AsFd) -> io::Result<()> {
        while self.unsent.is_empty() && !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.unsent.extend_from_slice(bytes);
        if self.waits_to_write == self.unsent.is_empty() {
            self.waits_to_write = !self.unsent.is_empty();
            let flags = match self.waits_to_write {
                true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                false => epoll::EventFlags::IN,
            };
            epoll::modify(
                epoll_of,
                &self.stream,
                epoll::EventData::new_u64(self.token),
                flags,
            )?;
        }
        Ok(())
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
                qos: publish.qos,
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
