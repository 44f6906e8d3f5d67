//! Conversations of `ServerSide` and `ClientSide` over a network that loses, repeats, delays and swaps datagrams, in
//! virtual time; and of either with a peer made of bytes.

mod blocks;
mod damage;
mod departures;
mod examples;
mod guard;
mod insisting;
mod limits;
mod loss;
mod memory;
mod observers;
mod order;
mod responses;

use core::net::SocketAddr;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use thalweg_wire::testkit::Dice;
use thalweg_wire::{Span, Time};

use crate::*;

/// Where the server is.
fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5683))
}

/// Where client `n` is.
fn client_address(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 40_000))
}

/// When it begins: the server's clock counts from 1970.
const START: Time = Time::from_secs(1_795_000_000);

fn millis(n: u64) -> Span {
    Span::from_millis(n)
}

/// Behaviour of the network.
#[derive(Clone, Copy, Default)]
struct Weather {
    /// Of 100 datagrams, how many are lost, and how many come twice.
    lost: usize,
    doubled: usize,
    /// The least and the most time that one takes, in milliseconds.
    delay: [usize; 2],
}

/// A datagram under way: when it arrives, which one it is, from and to whom.
type Flight = Reverse<(Time, u64, SocketAddr, SocketAddr, Vec<u8>)>;

/// Behaviour of a server's application in a test.
trait Application {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    );
    fn on_notice(
        &mut self,
        _server: &mut ServerSide,
        _notice: Notice,
        _now: Time,
        _out: &mut Datagrams,
    ) {
    }
    /// Something that it does by itself at [`Application::next`].
    fn on_time(&mut self, _server: &mut ServerSide, _now: Time, _out: &mut Datagrams) {}
    fn next(&self) -> Time {
        Time::NEVER
    }
}

/// An event at a client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reply {
    Response(RequestId, Code, Vec<u8>),
    Notification(RequestId, Code, Vec<u8>),
    Notice(ClientNotice),
}

/// A server, clients, and the network between them.
struct World<A> {
    now: Time,
    dice: Dice,
    weather: Weather,
    flights: BinaryHeap<Flight>,
    sent: u64,
    server: ServerSide,
    application: A,
    clients: Vec<ClientSide>,
    /// Events of each client that the test has not taken yet.
    heard: Vec<Vec<Reply>>,
    /// Every datagram of the server, and of the clients.
    server_bytes: u64,
}

impl<A: Application> World<A> {
    fn new(
        seed: u64,
        weather: Weather,
        server: ServerSettings,
        client: ClientSettings,
        n: usize,
        app: A,
    ) -> Self {
        let client = Arc::new(client);
        World {
            now: START,
            dice: Dice::new(seed),
            weather,
            flights: BinaryHeap::new(),
            sent: 0,
            server: ServerSide::new(Arc::new(server), seed),
            application: app,
            clients: (0..n)
                .map(|at| ClientSide::new(client.clone(), seed ^ (at as u64 + 1) << 32))
                .collect(),
            heard: vec![Vec::new(); n],
            server_bytes: 0,
        }
    }

    /// Hands datagrams to the network.
    fn carry(&mut self, from: SocketAddr, out: &Datagrams) {
        for (to, bytes) in out.iter() {
            if from == server_address() {
                self.server_bytes += bytes.len() as u64;
            }
            let copies = if self.dice.below(100) < self.weather.doubled {
                2
            } else {
                1
            };
            for _ in 0..copies {
                if self.dice.below(100) >= self.weather.lost {
                    let [least, most] = self.weather.delay;
                    let delay = least + self.dice.below(most - least + 1);
                    self.sent += 1;
                    let at = self.now + millis(delay as u64);
                    self.flights
                        .push(Reverse((at, self.sent, from, to, bytes.to_vec())));
                }
            }
        }
    }

    /// Does something with a client.
    fn client<T>(
        &mut self,
        n: usize,
        act: impl FnOnce(&mut ClientSide, Time, &mut Datagrams) -> T,
    ) -> T {
        let mut out = Datagrams::new();
        let done = act(&mut self.clients[n], self.now, &mut out);
        self.listen(n);
        self.carry(client_address(n), &out);
        done
    }

    fn request(&mut self, n: usize, request: &RequestOut<'_>) -> RequestId {
        self.client(n, |client, now, out| {
            client.request(server_address(), request, now, out)
        })
        .expect("there is room")
    }

    /// Does something with the server.
    fn serve<T>(
        &mut self,
        act: impl FnOnce(&mut A, &mut ServerSide, Time, &mut Datagrams) -> T,
    ) -> T {
        let mut out = Datagrams::new();
        let done = act(&mut self.application, &mut self.server, self.now, &mut out);
        while let Some(notice) = self.server.poll_event() {
            self.application
                .on_notice(&mut self.server, notice, self.now, &mut out);
        }
        self.carry(server_address(), &out);
        done
    }

    fn listen(&mut self, n: usize) {
        while let Some(notice) = self.clients[n].poll_event() {
            self.heard[n].push(Reply::Notice(notice));
        }
    }

    /// Lets the next thing happen; says whether there was one before `until`.
    fn step(&mut self, until: Time) -> bool {
        let arrival = self
            .flights
            .peek()
            .map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let timers = self.clients.iter().map(ClientSide::poll_timeout);
        let own = self.server.poll_timeout().min(self.application.next());
        let next = timers.fold(arrival.min(own), Time::min);
        if next > until {
            return false;
        }
        self.now = self.now.max(next);
        let now = self.now;
        if arrival <= next {
            let Some(Reverse((_, _, from, to, bytes))) = self.flights.pop() else {
                return false;
            };
            if to == server_address() {
                self.serve(|app, server, now, out| {
                    if let Some(Event::Request(request)) =
                        server.handle_datagram(from, &bytes, now, out)
                    {
                        app.on_request(server, request, now, out);
                    }
                });
            } else {
                let n = (0..self.clients.len())
                    .find(|n| client_address(*n) == to)
                    .expect("a client");
                let mut out = Datagrams::new();
                match self.clients[n].handle_datagram(from, &bytes, now, &mut out) {
                    Some(ClientEvent::Response(r)) => {
                        self.heard[n].push(Reply::Response(
                            r.request,
                            r.code,
                            r.payload.into_owned(),
                        ));
                    }
                    Some(ClientEvent::Notification(r)) => {
                        self.heard[n].push(Reply::Notification(
                            r.request,
                            r.code,
                            r.payload.into_owned(),
                        ));
                    }
                    None => {}
                }
                self.listen(n);
                self.carry(client_address(n), &out);
            }
            return true;
        }
        self.serve(|app, server, now, out| {
            if server.poll_timeout() <= now {
                server.handle_timeout(now, out);
            }
            if app.next() <= now {
                app.on_time(server, now, out);
            }
        });
        for n in 0..self.clients.len() {
            if self.clients[n].poll_timeout() <= now {
                self.client(n, |client, now, out| client.handle_timeout(now, out));
            }
        }
        true
    }

    /// Lets everything happen that happens within this time.
    fn run_for(&mut self, span: Span) {
        let until = self.now + span;
        while self.step(until) {}
        self.now = until;
    }

    fn take_heard(&mut self, n: usize) -> Vec<Reply> {
        std::mem::take(&mut self.heard[n])
    }
}

/// An application that has one answer for all.
struct Echoing;

impl Application for Echoing {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let code = if request.code == Code::GET {
            Code::CONTENT
        } else {
            Code::CHANGED
        };
        server.respond(
            request.exchange,
            &Response {
                code,
                options: &[],
                payload: &request.payload,
            },
            now,
            out,
        );
    }
}

/// A server that is fed datagrams by hand.
struct Bench {
    server: ServerSide,
    now: Time,
    out: Datagrams,
}

impl Bench {
    fn new(settings: ServerSettings) -> Self {
        Bench {
            server: ServerSide::new(Arc::new(settings), 42),
            now: START,
            out: Datagrams::new(),
        }
    }

    /// Feeds a datagram of client `n`; gives the request that comes out of it.
    fn feed<'b>(&mut self, n: usize, datagram: &'b [u8]) -> Option<Request<'b>> {
        let event =
            self.server
                .handle_datagram(client_address(n), datagram, self.now, &mut self.out);
        event.map(|Event::Request(request)| request)
    }

    fn respond(&mut self, exchange: ExchangeId, response: &Response<'_>) -> bool {
        self.server
            .respond(exchange, response, self.now, &mut self.out)
    }

    /// Lets time pass, with everything that is due.
    fn wait(&mut self, span: Span) {
        let until = self.now + span;
        while self.server.poll_timeout() <= until {
            self.now = self.now.max(self.server.poll_timeout());
            self.server.handle_timeout(self.now, &mut self.out);
        }
        self.now = until;
    }

    /// Datagrams sent to client `n` since the last call.
    fn sent(&mut self, n: usize) -> Vec<Vec<u8>> {
        let sent = self
            .out
            .iter()
            .filter(|(to, _)| *to == client_address(n))
            .map(|(_, bytes)| bytes.to_vec());
        let sent = sent.collect();
        self.out.clear();
        sent
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.server.poll_event()).collect()
    }

    /// Registers client `n` with a token; answers 2.05 "0".
    fn observe(&mut self, n: usize, token: &[u8]) -> RelationId {
        let get = message(
            Type::Confirmable,
            Code::GET,
            0x1000 + u16::from(token[0]),
            token,
            |encoder| {
                encoder
                    .uint(option::OBSERVE, 0)
                    .option(option::URI_PATH, b"t");
            },
        );
        let request = self.feed(n, &get).expect("a request");
        let relation = self
            .server
            .observe(request.exchange, n as u64, None, self.now)
            .expect("accepted");
        self.respond(
            request.exchange,
            &Response {
                code: Code::CONTENT,
                options: &[],
                payload: b"0",
            },
        );
        relation
    }

    fn notify(&mut self, relation: RelationId, payload: &[u8], delivery: Delivery) -> Notified {
        let body = Arc::new(SharedBody::new(Code::CONTENT, &[], payload));
        self.server
            .notify(relation, &body, delivery, self.now, &mut self.out)
    }

    /// Client `n` acknowledges or rejects whatever confirmable messages came.
    fn answer_all(&mut self, n: usize, kind: Type) -> usize {
        let sent = self.sent(n);
        let mut answered = 0;
        for datagram in &sent {
            let m = decoded(datagram);
            if m.kind == Type::Confirmable {
                let mut answer = Vec::new();
                empty(&mut answer, kind, m.id);
                self.feed(n, &answer);
                answered += 1;
            }
        }
        answered
    }
}

fn message(
    kind: Type,
    code: Code,
    id: u16,
    token: &[u8],
    write: impl FnOnce(&mut Encoder<'_>),
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::start(&mut out, kind, code, id, Token::new(token).expect("short"));
    write(&mut encoder);
    out
}

fn with_payload(mut datagram: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    if !payload.is_empty() {
        datagram.push(0xFF);
        datagram.extend_from_slice(payload);
    }
    datagram
}

/// A PUT to /t with a payload.
fn put(kind: Type, id: u16, payload: &[u8]) -> Vec<u8> {
    let head = message(kind, Code::PUT, id, &[id as u8], |encoder| {
        encoder.option(option::URI_PATH, b"t");
    });
    with_payload(head, payload)
}

fn get(kind: Type, id: u16) -> Vec<u8> {
    message(kind, Code::GET, id, &[id as u8], |encoder| {
        encoder.option(option::URI_PATH, b"t");
    })
}

fn decoded(datagram: &[u8]) -> Message<'_> {
    Message::decode(datagram).expect("the machine writes messages")
}

/// Some bytes that do not repeat soon.
fn body(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..len).map(|_| dice.throw() as u8).collect()
}
