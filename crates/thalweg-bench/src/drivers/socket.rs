//! MQTT's client side on a socket that does not block: what the fast driver and the study of groups have in common.
//!
//! *Knows:* bytes to be written, and an epoll. *Must never know:* why they are sent, or what comes back.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::epoll;
use thalweg_mqtt::{ClientConnection, ConnectOut, QoS, SubscribeOptions};

#[derive(Debug)]
pub struct Socket {
    pub stream: TcpStream,
    /// Its bytes are to be written from `begun` on.
    pub mqtt: ClientConnection,
    begun: usize,
    waits_to_write: bool,
    pub bytes_out: u64,
    pub bytes_in: u64,
}

impl Socket {
    /// Connects, which blocks; what is to be said first is not written yet.
    pub fn open(
        address: SocketAddr,
        within: Duration,
        hello: &ConnectOut<'_>,
    ) -> io::Result<Socket> {
        let stream = TcpStream::connect_timeout(&address, within)?;
        stream.set_nodelay(true)?;
        Ok(Socket {
            stream,
            mqtt: ClientConnection::open(hello).map_err(io::Error::other)?,
            begun: 0,
            waits_to_write: false,
            bytes_out: 0,
            bytes_in: 0,
        })
    }

    /// Subscribes to one filter.
    pub fn subscribe(&mut self, filter: &str, qos: QoS) -> io::Result<()> {
        let options = SubscribeOptions {
            qos,
            ..SubscribeOptions::default()
        };
        let filters = [(filter, options)];
        self.mqtt.subscribe(&filters).map_err(io::Error::other)
    }

    /// Its events go to an epoll under this number.
    pub fn watch(&self, epoll_of: &impl AsFd, number: u64) -> io::Result<()> {
        let number = epoll::EventData::new_u64(number);
        Ok(epoll::add(epoll_of, &self.stream, number, self.flags())?)
    }

    fn flags(&self) -> epoll::EventFlags {
        match self.waits_to_write {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        }
    }

    /// Bytes that have not left.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.mqtt.out.len() - self.begun
    }

    /// Writes as much as the socket takes, but not much at once: what is large would make others late. The rest follows when
    /// the epoll says so.
    pub fn flush(&mut self, epoll_of: &impl AsFd, number: u64) -> io::Result<()> {
        let enough = self.begun.saturating_add(WRITTEN_MAX);
        while self.begun < self.mqtt.out.len().min(enough) {
            let piece = self.begun..self.mqtt.out.len().min(enough);
            match self
                .stream
                .write(self.mqtt.out.get(piece).unwrap_or_default())
            {
                Ok(count) => {
                    self.begun += count;
                    self.bytes_out += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.begun == self.mqtt.out.len() {
            self.mqtt.out.clear();
            self.begun = 0;
        } else if self.begun >= COMPACT {
            self.mqtt.out.drain(..self.begun);
            self.begun = 0;
        }
        if self.waits_to_write == self.mqtt.out.is_empty() {
            self.waits_to_write = !self.mqtt.out.is_empty();
            let number = epoll::EventData::new_u64(number);
            epoll::modify(epoll_of, &self.stream, number, self.flags())?;
        }
        Ok(())
    }

    /// Writes everything, however long it takes a socket that blocks.
    pub fn write_all(&mut self) -> io::Result<()> {
        let rest = self.mqtt.out.get(self.begun..).unwrap_or_default();
        self.stream.write_all(rest)?;
        self.mqtt.out.clear();
        self.begun = 0;
        Ok(())
    }

    /// Reads once. Nothing: there is no more now. No byte: the broker has hung up.
    pub fn read(&mut self, scratch: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(scratch) {
                Ok(count) => {
                    self.bytes_in += count as u64;
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Written bytes that are kept in front of those to be written.
const COMPACT: usize = 64 << 10;
/// Bytes that are written before the next connection has its turn.
const WRITTEN_MAX: usize = 128 << 10;
