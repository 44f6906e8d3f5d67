//! A broker of several shards without sockets, with all four protocols in front of it and users whose rights can change.
//! A client does one thing at a time, after which everything comes to rest: what has not arrived then never will.

use crate::client::{Look, Machine, Mqtt, NAMES_BROKEN};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use thalweg_amqp::methods::basic;
use thalweg_coap::{Code, Datagrams, Kind, Message, empty};
use thalweg_fronts::amqp::{AmqpFront, AmqpSettings};
use thalweg_fronts::coap::{CoapFront, CoapSettings, PeerSecurity};
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::stomp::{StompFront, StompSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginAsk, Stopped};
use thalweg_kernel::access::{Access, Rules};
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId, home};
use thalweg_model::{Span, Time};

/// The tenant beside the default one.
pub const BLUE: &str = "blue";

/// 2026, so that moments can be told from lengths of time.
const START: Time = Time::from_secs(1_795_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Mqtt3,
    Mqtt5,
    Amqp,
    Stomp,
    Coap,
}

/// A client, connected or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(usize);

struct Shard {
    kernel: Kernel,
    links: Links,
    /// CoAP's, of the default tenant and of [`BLUE`].
    sockets: [LinkId; 2],
}

/// Who a client is and where it connects.
#[derive(Clone, Debug)]
pub struct Hello {
    pub protocol: Protocol,
    pub user: &'static str,
    pub tenant: &'static str,
    pub shard: usize,
    pub mqtt: Mqtt,
}

struct Client {
    hello: Hello,
    /// Every byte that the broker sent to it.
    seen: Vec<u8>,
    /// What it was refused, in the broker's words.
    refusals: Vec<String>,
    end: End,
}

enum End {
    Stream {
        link: Option<LinkId>,
        up: Vec<u8>,
        down: Vec<u8>,
        machine: Box<Machine>,
        is_stalled: bool,
    },
    Peer {
        address: SocketAddr,
        id_last: u16,
    },
}

pub struct World {
    now: Time,
    shards: Vec<Shard>,
    clients: Vec<Client>,
    rights: BTreeMap<&'static str, Rules>,
    amqp: Arc<AmqpSettings>,
    stomp: Arc<StompSettings>,
    mqtt: Arc<MqttSettings>,
    nonce: u64,
}

impl World {
    pub fn new(shards: u16) -> Self {
        let shard = |number| {
            let mut links = Links::new(LinksLimits::default());
            let sockets = ["", BLUE].map(|tenant| {
                let settings = CoapSettings {
                    tenant: tenant.into(),
                    ..CoapSettings::default()
                };
                let front = CoapFront::new(Arc::new(settings), 0xC0A9 + u64::from(number), None);
                links.open(Front::CoapDatagrams(Box::new(front)))
            });
            let kernel = Kernel::new(
                Limits::default(),
                ShardId(number),
                shards,
                7 + u64::from(number),
            );
            Shard {
                kernel,
                links,
                sockets,
            }
        };
        let tenants = || Box::from([Box::from(BLUE)]);
        let mut world = World {
            now: START,
            shards: (0..shards).map(shard).collect(),
            clients: Vec::new(),
            rights: BTreeMap::new(),
            amqp: Arc::new(AmqpSettings {
                tenants: tenants(),
                ..AmqpSettings::default()
            }),
            stomp: Arc::new(StompSettings {
                tenants: tenants(),
                ..StompSettings::default()
            }),
            mqtt: Arc::new(MqttSettings::default()),
            nonce: 1,
        };
        world.wait(Span::ZERO);
        world
    }

    /// The shard on which queues are.
    pub fn queue_shard(&self) -> usize {
        self.shards
            .iter()
            .position(|shard| shard.kernel.has_queues())
            .expect("a shard has the queues")
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Sets the rights of a user, also those of its sessions, as a reload of the rules does.
    pub fn set_rights(&mut self, user: &'static str, rules: Rules) {
        self.rights.insert(user, rules);
        for Shard { kernel, .. } in &mut self.shards {
            kernel.renew_access(|client, user| access_of(&self.rights, client, user));
        }
        self.rest();
    }

    /// A client identifier that is at home on a shard.
    pub fn name_on(&self, stem: &str, shard: usize) -> String {
        let count = self.shards.len() as u16;
        let mut names = (0..).map(|number| format!("{stem}-{number}"));
        names
            .find(|name| usize::from(home(name, count).0) == shard)
            .expect("some name")
    }

    /// Connects a client. AMQP and STOMP clients are on the shard of the queues.
    pub fn connect(&mut self, hello: Hello) -> Who {
        let end = match hello.protocol {
            Protocol::Coap => {
                let port = 40_000 + self.clients.len() as u16;
                End::Peer {
                    address: SocketAddr::from(([127, 0, 0, 1], port)),
                    id_last: 100,
                }
            }
            _ => self.open(&hello),
        };
        self.clients.push(Client {
            hello,
            seen: Vec::new(),
            refusals: Vec::new(),
            end,
        });
        self.rest();
        Who(self.clients.len() - 1)
    }

    fn open(&mut self, hello: &Hello) -> End {
        self.nonce += 1;
        let front = match hello.protocol {
            Protocol::Amqp => Front::Amqp(Box::new(AmqpFront::new(
                self.amqp.clone(),
                self.nonce,
                None,
            ))),
            Protocol::Stomp => Front::Stomp(Box::new(StompFront::new(
                self.stomp.clone(),
                self.nonce,
                None,
            ))),
            _ => Front::Mqtt(Box::new(MqttFront::new(
                self.mqtt.clone(),
                self.nonce,
                None,
            ))),
        };
        let shard = match hello.protocol {
            Protocol::Amqp | Protocol::Stomp => self.queue_shard(),
            _ => usize::from(home(&hello.mqtt.client_id, self.shards.len() as u16).0),
        };
        assert!(
            matches!(hello.protocol, Protocol::Amqp | Protocol::Stomp) || shard == hello.shard,
            "{hello:?}"
        );
        let mut up = Vec::new();
        let machine = Box::new(Machine::connect(hello, &mut up));
        End::Stream {
            link: Some(self.shards[shard].links.open(front)),
            up,
            down: Vec::new(),
            machine,
            is_stalled: false,
        }
    }

    /// Connects again who was disconnected, with the same words.
    fn ensure(&mut self, who: Who) {
        if matches!(&self.clients[who.0].end, End::Stream { link: None, .. }) {
            let hello = self.clients[who.0].hello.clone();
            self.clients[who.0].end = self.open(&hello);
            self.rest();
        }
    }

    /// Connects again, for a session that goes on.
    pub fn resume(&mut self, who: Who) {
        self.clients[who.0].hello.mqtt.is_clean = false;
        self.ensure(who);
    }

    /// The connection breaks.
    pub fn lose(&mut self, who: Who) {
        if let End::Stream { link, .. } = &mut self.clients[who.0].end
            && let Some(link) = link.take()
        {
            let shard = self.shard_of(who);
            let Shard { kernel, links, .. } = &mut self.shards[shard];
            links.close(link, kernel, self.now);
        }
        self.rest();
    }

    /// From now on it does not read what the broker writes.
    pub fn stall(&mut self, who: Who) {
        if let End::Stream { is_stalled, .. } = &mut self.clients[who.0].end {
            *is_stalled = true;
        }
    }

    /// The words with which a client connected.
    pub fn hello_like(&self, who: Who) -> Hello {
        self.clients[who.0].hello.clone()
    }

    fn shard_of(&self, who: Who) -> usize {
        match self.clients[who.0].hello.protocol {
            Protocol::Amqp | Protocol::Stomp => self.queue_shard(),
            _ => self.clients[who.0].hello.shard,
        }
    }

    pub fn protocol(&self, who: Who) -> Protocol {
        self.clients[who.0].hello.protocol
    }

    /// Lets a client that is connected write, and everything come to rest. Who was disconnected connects first.
    pub fn says(&mut self, who: Who, write: impl FnOnce(&mut Machine, &mut Vec<u8>)) {
        self.ensure(who);
        self.now += Span::from_nanos(1000);
        if let End::Stream { up, machine, .. } = &mut self.clients[who.0].end {
            write(machine, up);
        }
        self.rest();
    }

    /// Sends a request of CoAP.
    pub fn asks(&mut self, who: Who, write: impl FnOnce(u16, &mut Vec<u8>)) {
        let client = &mut self.clients[who.0];
        let End::Peer { id_last, .. } = &mut client.end else {
            panic!("no peer of CoAP")
        };
        *id_last += 1;
        let mut datagram = Vec::new();
        write(*id_last, &mut datagram);
        self.now += Span::from_nanos(1000);
        self.sends(who, &datagram);
        self.rest();
    }

    fn sends(&mut self, who: Who, datagram: &[u8]) {
        let Client {
            hello,
            end: End::Peer { address, .. },
            ..
        } = &self.clients[who.0]
        else {
            return;
        };
        let Shard {
            kernel,
            links,
            sockets,
        } = &mut self.shards[hello.shard];
        let socket = sockets[usize::from(!hello.tenant.is_empty())];
        let datagrams = std::iter::once((*address, PeerSecurity::Identified(hello.user), datagram));
        links.handle_datagrams(socket, datagrams, self.now, kernel);
    }

    /// Whether the broker ever sent these bytes to a client.
    pub fn saw(&self, who: Who, text: &str) -> bool {
        self.clients[who.0]
            .seen
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    }

    /// What a client was refused.
    pub fn refusals(&self, who: Who) -> &[String] {
        &self.clients[who.0].refusals
    }

    /// From now on it logs in as somebody else.
    pub fn become_user(&mut self, who: Who, user: &'static str) {
        self.clients[who.0].hello.user = user;
    }

    /// Deliveries that an AMQP client holds unsettled are rejected, for good or to be given to others.
    pub fn reject_all(&mut self, who: Who, requeue: bool) {
        self.says(who, |machine, up| {
            let Machine::Amqp(amqp) = machine else {
                panic!("only AMQP rejects here")
            };
            for delivery_tag in std::mem::take(&mut amqp.held) {
                let reject = basic::Reject {
                    delivery_tag,
                    requeue,
                };
                amqp.side
                    .method(1, &thalweg_amqp::Method::BasicReject(reject), up);
            }
        });
    }

    pub fn wait(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let next = self.shards.iter().map(|shard| {
                let sockets = shard
                    .sockets
                    .iter()
                    .map(|socket| shard.links.datagram_timeout(*socket))
                    .min();
                sockets
                    .unwrap_or(Time::NEVER)
                    .min(shard.kernel.poll_timeout())
            });
            self.now = next.min().unwrap_or(Time::NEVER).min(end).max(self.now);
            for Shard {
                kernel,
                links,
                sockets,
            } in &mut self.shards
            {
                for socket in sockets {
                    if links.datagram_timeout(*socket) <= self.now {
                        links.on_datagram_timeout(*socket, self.now, kernel);
                    }
                }
            }
            self.rest();
            if self.now >= end {
                return;
            }
        }
    }

    /// Everything moves until nothing moves.
    fn rest(&mut self) {
        for _ in 0..10_000 {
            let mut happened = false;
            for at in 0..self.clients.len() {
                happened |= self.feed(Who(at));
                happened |= self.flush(Who(at));
            }
            happened |= self.carry();
            happened |= self.take_datagrams();
            if !happened {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn feed(&mut self, who: Who) -> bool {
        let shard = self.shard_of(who);
        let End::Stream {
            link: Some(link),
            up,
            ..
        } = &mut self.clients[who.0].end
        else {
            return false;
        };
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        if let Some(link) = links.get_mut(*link) {
            link.pause_until = None;
        }
        if up.is_empty() {
            return false;
        }
        let mut used = 0;
        loop {
            let driven = links.drive(*link, &up[used..], self.now, kernel);
            used += driven.consumed;
            if driven.stopped != Stopped::FlushFirst {
                break;
            }
            links.take_dirty(&mut Vec::new());
        }
        up.drain(..used);
        used > 0
    }

    fn flush(&mut self, who: Who) -> bool {
        let shard = self.shard_of(who);
        let Client {
            hello,
            seen,
            refusals,
            end,
        } = &mut self.clients[who.0];
        let End::Stream {
            link: place,
            up,
            down,
            machine,
            is_stalled: false,
        } = end
        else {
            return false;
        };
        let (Some(id), Shard { kernel, links, .. }) = (*place, &mut self.shards[shard]) else {
            return false;
        };
        let Some(link) = links.get_mut(id) else {
            return false;
        };
        let bytes = link.sendable().to_vec();
        link.advance(bytes.len());
        seen.extend_from_slice(&bytes);
        down.extend_from_slice(&bytes);
        let is_done = link.closing && link.waiting() == 0;
        if link.waiting() == 0 {
            links.on_drained(id, self.now, kernel);
        }
        machine.look(Look {
            hello,
            up,
            down,
            refusals,
        });
        if is_done {
            links.close(id, kernel, self.now);
            *place = None;
        }
        !bytes.is_empty() || is_done
    }

    /// Messages between shards, timers, the journal, and who may come in.
    fn carry(&mut self) -> bool {
        let mut happened = false;
        for number in 0..self.shards.len() {
            let Shard { kernel, links, .. } = &mut self.shards[number];
            if kernel.poll_timeout() <= self.now {
                kernel.on_timeout(self.now, links);
                happened = true;
            }
            happened |= kernel.has_work() | links.has_work();
            kernel.work(self.now, links);
            links.work(self.now, kernel);
            for (link, ask) in links.take_logins() {
                happened = true;
                admit(&self.rights, links, kernel, link, ask, self.now);
            }
            links.take_dirty(&mut Vec::new());
            links.take_congested(&mut Vec::new());
            links.take_ended();
            kernel.take_fetches();
            while let Some(batch) = kernel.take_batch(Vec::new()) {
                kernel.on_written(batch.number, 0);
                links.complete(batch.number);
                happened = true;
            }
            for (to, message) in kernel.take_outbox() {
                happened = true;
                let Shard { kernel, links, .. } = &mut self.shards[usize::from(to.0)];
                kernel.on_shard(ShardId(number as u16), message, self.now, links);
            }
        }
        happened
    }

    fn take_datagrams(&mut self) -> bool {
        let mut acknowledgements = Vec::new();
        let mut happened = false;
        for Shard { links, sockets, .. } in &mut self.shards {
            for socket in sockets {
                let mut out = Datagrams::new();
                links.take_datagrams(*socket, &mut out);
                for (to, bytes) in out.iter() {
                    happened = true;
                    let is_its = |client: &Client| matches!(client.end, End::Peer { address, .. } if address == to);
                    let at = self.clients.iter().position(is_its).expect("a peer");
                    self.clients[at].seen.extend_from_slice(bytes);
                    let message = Message::decode(bytes).expect(NAMES_BROKEN);
                    if message.code.class() >= 4 {
                        self.clients[at].refusals.push(message.code.to_string());
                    }
                    if message.kind == Kind::Confirmable && message.code != Code::EMPTY {
                        let mut reply = Vec::new();
                        empty(&mut reply, Kind::Acknowledgement, message.id);
                        acknowledgements.push((Who(at), reply));
                    }
                }
            }
        }
        for (who, reply) in acknowledgements {
            self.sends(who, &reply);
        }
        happened
    }
}

fn access_of(rights: &BTreeMap<&'static str, Rules>, client: &str, user: Option<&str>) -> Access {
    let rules = user
        .and_then(|user| rights.get(user))
        .unwrap_or_else(|| panic!("{client} is nobody: {user:?}"));
    rules.compile(client, user)
}

/// Passwords are not looked at: whoever says it is somebody is.
fn admit(
    rights: &BTreeMap<&'static str, Rules>,
    links: &mut Links,
    kernel: &mut Kernel,
    link: LinkId,
    ask: LoginAsk,
    now: Time,
) {
    let allowed = |client: &str, user: &str| LoginAnswer::Allowed {
        user: Some(user.into()),
        access: access_of(rights, client, Some(user)),
        expires: None,
        data: None,
    };
    match ask {
        LoginAsk::Password {
            client,
            user: Some(user),
            ..
        } => links.on_login(link, allowed(&client, &user), now, kernel),
        LoginAsk::Proven { identity } => {
            links.on_proven(link, &identity, allowed("", &identity), now, kernel)
        }
        other => panic!("{other:?}"),
    }
}
