//! A CoAP client by our own machine on a socket of its own: one request after the other, and observations meanwhile.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_coap::{
    ClientEvent, ClientNotice, ClientSettings, ClientSide, Code, Datagrams, RequestId, RequestOut,
    Transmission, Value, option,
};
use thalweg_wire::{Span, Time};

/// Room for the largest datagram.
const DATAGRAM: usize = 65_536;

/// A client that sends requests and observes.
pub struct Peer {
    side: ClientSide,
    socket: UdpSocket,
    server: SocketAddr,
    began: Instant,
    out: Datagrams,
    notified: VecDeque<Answer>,
    failed: Vec<RequestId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: Code,
    pub payload: Vec<u8>,
    /// Location-Path, level by level.
    pub location: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub code: Code,
    pub confirmable: bool,
    pub path: &'a [&'a str],
    pub queries: &'a [&'a str],
    pub payload: &'a [u8],
}

impl<'a> Ask<'a> {
    pub fn of(code: Code, path: &'a [&'a str], payload: &'a [u8]) -> Self {
        Self {
            code,
            confirmable: true,
            path,
            queries: &[],
            payload,
        }
    }
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

impl Peer {
    /// With the timers of RFC 7252.
    pub fn patient(server: SocketAddr, seed: u64) -> Self {
        Self::new(server, ClientSettings::default(), seed)
    }

    /// Repeats after 150 ms at first, gives up after seven seconds at most, and goes on all the same: for brokers that come
    /// and go.
    pub fn hasty(server: SocketAddr, seed: u64) -> Self {
        let transmission = Transmission {
            ack_timeout: Span::from_millis(150),
            probing_rate: 1 << 20,
            ..Transmission::default()
        };
        let settings = ClientSettings {
            transmission,
            response_within: Span::from_millis(1500),
            ..ClientSettings::default()
        };
        Self::new(server, settings, seed)
    }

    /// As our client is: so many confirmable messages under way at once.
    pub fn with_nstart(server: SocketAddr, nstart: u8) -> Self {
        let transmission = Transmission {
            nstart,
            ..Transmission::default()
        };
        Self::new(
            server,
            ClientSettings {
                transmission,
                ..ClientSettings::default()
            },
            u64::from(nstart),
        )
    }

    fn new(server: SocketAddr, settings: ClientSettings, seed: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback address has free ports");
        Self {
            side: ClientSide::new(Arc::new(settings), seed),
            socket,
            server,
            began: Instant::now(),
            out: Datagrams::new(),
            notified: VecDeque::new(),
            failed: Vec::new(),
        }
    }

    /// The answer; none if the machine has given up.
    pub fn ask(&mut self, ask: &Ask<'_>) -> Option<Answer> {
        let id = self.send(ask, false)?;
        loop {
            match self.turn(None) {
                Some((of, answer)) if of == id => return Some(answer),
                _ if self.failed.contains(&id) => {
                    self.failed.retain(|it| *it != id);
                    return None;
                }
                _ => {}
            }
        }
    }

    /// The answers to requests that are under way at once, in the order of the requests.
    pub fn ask_all(&mut self, asks: &[Ask<'_>]) -> Vec<Answer> {
        let ids: Vec<_> = asks
            .iter()
            .map(|ask| self.send(ask, false).expect("there is room"))
            .collect();
        let mut answers: Vec<Option<Answer>> = vec![None; asks.len()];
        while answers.contains(&None) {
            let answered = self.turn(None);
            assert_eq!(self.failed, [], "none is given up");
            if let Some((id, answer)) = answered
                && let Some(at) = ids.iter().position(|it| *it == id)
            {
                answers[at] = Some(answer);
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// Registers; the first notification is the answer.
    pub fn observe(&mut self, path: &[&str], queries: &[&str]) -> RequestId {
        let ask = Ask {
            queries,
            ..Ask::of(Code::GET, path, &[])
        };
        self.send(&ask, true).expect("a registration can be sent")
    }

    /// The next notification of any observation.
    pub fn notification(&mut self, within: Duration) -> Option<Answer> {
        let deadline = Instant::now() + within;
        while self.notified.is_empty() && Instant::now() < deadline {
            self.turn(Some(deadline));
        }
        self.notified.pop_front()
    }

    /// Whether a request or an observation has failed.
    pub fn has_failed(&self, id: RequestId) -> bool {
        self.failed.contains(&id)
    }

    fn now(&self) -> Time {
        Time::from_nanos(
            u64::try_from(self.began.elapsed().as_nanos()).expect("an hour is less") + 1,
        )
    }

    fn send(&mut self, ask: &Ask<'_>, observe: bool) -> Option<RequestId> {
        let path = ask
            .path
            .iter()
            .map(|level| (option::URI_PATH, Value::Opaque(level.as_bytes())));
        let queries = ask
            .queries
            .iter()
            .map(|query| (option::URI_QUERY, Value::Opaque(query.as_bytes())));
        let options: Vec<_> = path.chain(queries).collect();
        let request = RequestOut {
            code: ask.code,
            confirmable: ask.confirmable,
            options: &options,
            payload: ask.payload,
            observe,
        };
        let now = self.now();
        self.side
            .request(self.server, &request, now, &mut self.out)
            .ok()
    }

    /// Sends pending datagrams and waits for one, at most until the machine's next timer.
    fn turn(&mut self, deadline: Option<Instant>) -> Option<(RequestId, Answer)> {
        for (to, bytes) in self.out.iter() {
            // A datagram that the socket does not accept is lost, as on any network.
            let _ = self.socket.send_to(bytes, to);
        }
        self.out.clear();
        while let Some(notice) = self.side.poll_event() {
            if let ClientNotice::Failed { request, .. } = notice {
                self.failed.push(request);
            }
        }
        if !self.failed.is_empty() && deadline.is_none() {
            return None;
        }
        let due = Duration::from_nanos(self.side.poll_timeout().since(self.now()).nanos());
        let left = deadline.map_or(due, |deadline| {
            due.min(deadline.saturating_duration_since(Instant::now()))
        });
        let wait = left.clamp(Duration::from_micros(100), Duration::from_secs(1));
        self.socket.set_read_timeout(Some(wait)).expect("not zero");
        let mut datagram = vec![0; DATAGRAM];
        let received = self.socket.recv_from(&mut datagram);
        let now = self.now();
        let mut answered = None;
        if let Ok((length, from)) = received {
            let event = self
                .side
                .handle_datagram(from, &datagram[..length], now, &mut self.out);
            let (Some(ClientEvent::Response(response)) | Some(ClientEvent::Notification(response))) =
                &event
            else {
                self.side.handle_timeout(now, &mut self.out);
                return None;
            };
            let location = response
                .options
                .all(option::LOCATION_PATH)
                .map(|level| String::from_utf8_lossy(level).into());
            let answer = Answer {
                code: response.code,
                payload: response.payload.clone().into_owned(),
                location: location.collect(),
            };
            match event {
                Some(ClientEvent::Response(_)) => answered = Some((response.request, answer)),
                _ => self.notified.push_back(answer),
            }
        }
        self.side.handle_timeout(now, &mut self.out);
        // An acknowledgement must not wait for the next request.
        for (to, bytes) in self.out.iter() {
            let _ = self.socket.send_to(bytes, to);
        }
        self.out.clear();
        answered
    }
}
