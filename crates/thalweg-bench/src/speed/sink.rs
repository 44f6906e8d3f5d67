//! A listener that gives its connections to a sink, one at a time, and says what came.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use serde_json::{Value, json};

use super::sinks::{Amqp, Mqtt, Stomp};
use crate::cell::Protocol;

/// A protocol's other end on a stream, as far as a publisher needs one.
pub trait Sink {
    /// Takes whole frames off the beginning of `input`, appends what is to be said, counts messages; returns how many bytes
    /// it took, or None when the connection is over.
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>, messages: &mut u64) -> Option<usize>;
}

#[derive(Debug, Default)]
pub struct Clock {
    /// The first and the last, and how many.
    seen: Option<(Instant, Instant, u64)>,
}

impl Clock {
    /// So many have come now.
    pub fn at(&mut self, messages: u64) {
        if messages == 0 {
            return;
        }
        let now = Instant::now();
        let first = self.seen.map_or(now, |(first, ..)| first);
        if self.seen.is_none_or(|(_, _, before)| before < messages) {
            self.seen = Some((first, now, messages));
        }
    }

    /// A line about it; none if nothing came.
    pub fn line(&self, protocol: &str) -> Option<Value> {
        let (first, last, messages) = self.seen?;
        let seconds = (last - first).as_secs_f64();
        Some(json!({ "sink": protocol, "messages": messages, "seconds": seconds }))
    }
}

/// Serves a protocol at a port of the loopback, for ever, on a thread of its own; where it listens.
pub fn open(
    protocol: Protocol,
    port: u16,
    say: impl Fn(Value) + Send + 'static,
) -> io::Result<SocketAddr> {
    let at = (Ipv4Addr::LOCALHOST, port);
    if protocol == Protocol::Coap {
        let socket = UdpSocket::bind(at)?;
        // As much as the system lets us have; root may have more than `net.core.rmem_max`, but needs a call of its own for it.
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER);
        let address = socket.local_addr()?;
        thread::spawn(move || serve_datagrams(&socket, &say));
        return Ok(address);
    }
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    thread::spawn(move || match protocol {
        Protocol::Amqp => serve(&listener, "amqp", Amqp::default, &say),
        Protocol::Stomp => serve(&listener, "stomp", Stomp::default, &say),
        _ => serve(&listener, "mqtt", Mqtt::default, &say),
    });
    Ok(address)
}

/// Serves one connection after the other, for ever.
fn serve<S: Sink>(
    listener: &TcpListener,
    protocol: &str,
    make: fn() -> S,
    say: &dyn Fn(Value),
) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        let mut clock = Clock::default();
        // A client that resets its connection has ended it as well.
        let _ = connection(stream, make(), &mut clock);
        if let Some(line) = clock.line(protocol) {
            say(line);
        }
    }
}

fn connection<S: Sink>(mut stream: TcpStream, mut sink: S, clock: &mut Clock) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut filled, mut out) = (vec![0; BUFFER], 0, Vec::new());
    let mut messages = 0;
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        match stream.read(room)? {
            0 => return Ok(()),
            read => filled += read,
        }
        let input = buffer.get(..filled).unwrap_or_default();
        let taken = sink.take(input, &mut out, &mut messages);
        stream.write_all(&out)?;
        out.clear();
        clock.at(messages);
        let Some(taken) = taken else { return Ok(()) };
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// Serves datagrams of CoAP, for ever; a run is over when nothing has come for a second. What came in one piece is answered in
/// one, as a server does that is made for it: the sink must not be what is measured.
fn serve_datagrams(socket: &UdpSocket, say: &dyn Fn(Value)) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    // Where the system joins no datagrams they come one by one.
    let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
    let (mut buffer, mut control) = (vec![0; 1 << 16], nix::cmsg_space!(i32));
    let (mut answer, mut ends) = (Vec::new(), Vec::new());
    let (mut clock, mut messages) = (Clock::default(), 0);
    loop {
        let mut slices = [io::IoSliceMut::new(&mut buffer)];
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
        match recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), flags) {
            Ok(came) => {
                let segment = came.cmsgs()?.find_map(|control| match control {
                    ControlMessageOwned::UdpGroSegments(bytes) => usize::try_from(bytes).ok(),
                    _ => None,
                });
                let (length, from) = (came.bytes, came.address);
                let segment = segment.unwrap_or(length).max(1);
                answer.clear();
                ends.clear();
                for datagram in buffer.get(..length).unwrap_or_default().chunks(segment) {
                    messages += u64::from(super::sinks::coap(datagram, &mut answer));
                    ends.push(answer.len());
                }
                clock.at(messages);
                if !answer.is_empty() {
                    answer_all(socket, &answer, &ends, from)?;
                }
            }
            Err(Errno::EAGAIN) => {
                if let Some(line) = clock.line("coap") {
                    say(line);
                }
                (clock, messages) = (Clock::default(), 0);
            }
            // What a client that is gone leaves behind.
            Err(Errno::ECONNREFUSED | Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends answers, each of which ends where it is said; together, if they are of one length.
fn answer_all(
    socket: &UdpSocket,
    answers: &[u8],
    ends: &[usize],
    to: Option<SockaddrStorage>,
) -> io::Result<()> {
    let first = ends.first().copied().unwrap_or_default();
    let mut in_order = ends.iter().enumerate();
    let is_alike = in_order.all(|(at, end)| *end == first * (at + 1));
    let send = |datagram: &[u8], control: &[ControlMessage<'_>]| {
        let (slices, flags) = ([io::IoSlice::new(datagram)], MsgFlags::empty());
        match sendmsg(socket.as_raw_fd(), &slices, control, flags, to.as_ref()) {
            Ok(_) | Err(Errno::ECONNREFUSED) => Ok(()),
            Err(error) => Err(io::Error::from(error)),
        }
    };
    if let Ok(length) = u16::try_from(first)
        && is_alike
        && ends.len() > 1
        && length > 0
    {
        return send(answers, &[ControlMessage::UdpGsoSegments(&length)]);
    }
    let begins = [0].into_iter().chain(ends.iter().copied());
    let datagrams = begins
        .zip(ends)
        .filter_map(|(from, to)| answers.get(from..*to));
    let mut datagrams = datagrams.filter(|datagram| !datagram.is_empty());
    datagrams.try_for_each(|datagram| send(datagram, &[]))
}

const BUFFER: usize = 1 << 20;
const RECEIVE_BUFFER: usize = 32 << 20;
