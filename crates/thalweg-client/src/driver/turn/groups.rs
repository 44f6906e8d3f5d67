//! Multicast groups: their sockets, and what their feeds want.

use std::collections::HashMap;
use std::io;
#[cfg(not(target_os = "linux"))]
use std::net::Ipv4Addr;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use mio::net::UdpSocket;
use mio::{Interest, Token};
use thalweg_model::{Filter, Reliability, Span, Time};

use super::{Driver, Entry};
use crate::client::GroupStatus;
use crate::driver::inbox::ByGroup;
use crate::engine::{DeliveryToken, Draft, Notice, Wish};
use crate::events::Event;
use crate::multicast::{Feed, MulticastSettings, Want, granted};
use crate::subscription::SubscribeOptions;
use crate::ticket::lock;
use crate::transport::{RequestId, SubscriptionId};

/// The first place of a group among what the poll watches; lanes are below, farewells far above.
const FIRST_GROUP: usize = usize::MAX / 2;
/// Datagrams that are read of a group before others have their turn.
const DATAGRAMS_PER_TURN: usize = 256;
/// How long an answer to a request for lost datagrams is of use.
const ANSWERED_WITHIN: Span = Span::from_secs(2);

#[derive(Default)]
pub(super) struct Groups {
    feeds: HashMap<SubscriptionId, Feeding>,
    requests: HashMap<RequestId, SubscriptionId>,
    sockets: usize,
}

struct Feeding {
    feed: Feed,
    group: String,
    options: SubscribeOptions,
    /// Subscription to the group's description; it ends when the feed falls back.
    description: Option<SubscriptionId>,
    socket: Option<(Token, UdpSocket)>,
    is_readable: bool,
    /// Bytes that the application has not taken.
    waiting_bytes: usize,
    dropped: u64,
    /// Why it is an ordinary subscription.
    why: String,
}

impl Driver {
    pub(super) fn subscribe_by_group(&mut self, by: ByGroup, now: Time) {
        let feed = match Filter::new(&by.filter) {
            Ok(filter) => Feed::new(filter, granted(by.options.reliability)),
            // It cannot be compared with what the group carries; the broker says what it is.
            Err(_) => {
                let mut feed = Feed::new(
                    Filter::new("+").expect("it is one"),
                    Reliability::AtMostOnce,
                );
                feed.fall_back("the filter is none of addresses");
                feed
            }
        };
        let entry = Entry {
            mailbox: by.mailbox,
            filter: by.filter,
            reply: Some(by.reply),
        };
        self.subscriptions.insert(by.id, entry);
        let address = thalweg_multicast::address(&by.group);
        let feeding = Feeding {
            feed,
            group: by.group,
            options: by.options,
            description: Some(by.description),
            socket: None,
            is_readable: false,
            waiting_bytes: 0,
            dropped: 0,
            why: String::new(),
        };
        self.groups.feeds.insert(by.id, feeding);
        self.engine.subscribe(
            &Wish {
                subscription: by.description,
                way: 0,
                filter: &address,
                reliability: Reliability::AtLeastOnce,
                last_values: true,
                keeps_all: false,
                settle_by_hand: false,
            },
            now,
        );
        self.serve_feed(by.id, now);
    }

    pub(super) fn leave_group(&mut self, id: SubscriptionId, now: Time) {
        if let Some(mut feeding) = self.groups.feeds.remove(&id) {
            feeding.leave(self.poll.registry());
            if let Some(description) = feeding.description {
                self.engine.unsubscribe(description, now);
            }
        }
    }

    /// The application has taken a message.
    pub(super) fn taken_of_group(&mut self, token: DeliveryToken) {
        if let Some(feeding) = self.groups.feeds.get_mut(&token.subscription()) {
            feeding.waiting_bytes = feeding.waiting_bytes.saturating_sub(token.bytes());
        }
    }

    /// Takes what the engine tells of descriptions and requests; returns what is for others.
    pub(super) fn tell_groups(&mut self, notice: Notice, now: Time) -> Option<Notice> {
        let id = match &notice {
            Notice::Delivered { subscription, .. } | Notice::Subscribed { subscription, .. } => {
                let mut feeds = self.groups.feeds.iter();
                feeds
                    .find(|(_, feeding)| feeding.description == Some(*subscription))
                    .map(|(id, _)| *id)
            }
            Notice::Answered { request, .. } => self.groups.requests.remove(request),
            _ => None,
        };
        let Some(id) = id else { return Some(notice) };
        if let Some(Feeding { feed, .. }) = self.groups.feeds.get_mut(&id) {
            match notice {
                Notice::Delivered { token, message, .. } => {
                    feed.described(message.payload(), now);
                    self.engine.settle(token, now);
                }
                Notice::Subscribed { outcome, .. } => match outcome {
                    Ok(_) => feed.asked(now),
                    Err(refusal) => feed.fall_back(refusal.to_string()),
                },
                Notice::Answered {
                    answer: Ok(Some(message)),
                    ..
                } => feed.answered(message.payload(), now),
                // Without an answer it is asked again.
                _ => {}
            }
        }
        self.serve_feed(id, now);
        None
    }

    /// Reads what came, and does what is due; `true` if there may be more.
    pub(super) fn work_on_groups(&mut self, now: Time) -> bool {
        let mut moved = false;
        let ids: Vec<SubscriptionId> = self.groups.feeds.keys().copied().collect();
        for id in ids {
            let Some(feeding) = self.groups.feeds.get_mut(&id) else {
                continue;
            };
            if let Some((_, socket)) = &feeding.socket {
                for _ in 0..DATAGRAMS_PER_TURN {
                    if !feeding.is_readable {
                        break;
                    }
                    match socket.recv(&mut self.scratch) {
                        Ok(length) => {
                            moved = true;
                            let datagram = self.scratch.get(..length).unwrap_or_default();
                            feeding.feed.datagram(datagram, now);
                        }
                        // Of any other error the silence tells.
                        Err(_) => feeding.is_readable = false,
                    }
                }
            }
            if feeding.feed.timeout() <= now {
                feeding.feed.timer(now);
            }
            moved |= self.serve_feed(id, now);
        }
        moved
    }

    /// Something of a group's socket is readable.
    pub(super) fn wake_group(&mut self, token: Token) {
        for feeding in self.groups.feeds.values_mut() {
            let is_it = feeding
                .socket
                .as_ref()
                .is_some_and(|(own, _)| *own == token);
            feeding.is_readable |= is_it;
        }
    }

    /// Does what a feed wants; `true` if the engine has to do something for it.
    fn serve_feed(&mut self, id: SubscriptionId, now: Time) -> bool {
        let mut is_asked = false;
        while let Some(feeding) = self.groups.feeds.get_mut(&id)
            && let Some(want) = feeding.feed.poll()
        {
            match want {
                Want::Join(group) => {
                    let token = Token(FIRST_GROUP + self.groups.sockets);
                    self.groups.sockets += 1;
                    let settings: MulticastSettings = self.plugins.get();
                    let joined = join(group, &settings.interfaces).and_then(|mut socket| {
                        let registry = self.poll.registry();
                        registry.register(&mut socket, token, Interest::READABLE)?;
                        Ok((token, socket))
                    });
                    match joined {
                        Ok(socket) => feeding.socket = Some(socket),
                        Err(error) => feeding.feed.fall_back(format!("joining {group}: {error}")),
                    }
                    feeding.is_readable = true;
                }
                Want::Leave => feeding.leave(self.poll.registry()),
                Want::Ask(address, request) => {
                    let number = {
                        let mut inbox = lock(&self.shared.inbox);
                        inbox.next_id += 1;
                        self.shared.tickets.given(inbox.next_id);
                        inbox.next_id - 1
                    };
                    let until = now + ANSWERED_WITHIN;
                    let draft = Draft {
                        expires: until,
                        ..Draft::new(number, &address, request.as_bytes())
                    };
                    let question = RequestId(self.next_question);
                    self.next_question += 1;
                    self.groups.requests.insert(question, id);
                    self.engine.request(question, &draft, until, now);
                    is_asked = true;
                }
                Want::Deliver(message) => {
                    let bytes = message.payload().len() + message.topic().len();
                    let Some(entry) = self.subscriptions.get(&id) else {
                        continue;
                    };
                    if feeding.waiting_bytes >= self.engine.receive_bytes_max() {
                        feeding.dropped += 1;
                        continue;
                    }
                    feeding.waiting_bytes += bytes;
                    let token = DeliveryToken::of_none(id, bytes);
                    entry.mailbox.put(message, token);
                }
                Want::Stand => {
                    let granted = granted(feeding.options.reliability);
                    self.tell_group(id);
                    let entry = self.subscriptions.get_mut(&id);
                    if let Some(reply) = entry.and_then(|entry| entry.reply.take()) {
                        reply.send(Ok(granted));
                    }
                }
                Want::FallBack(why) => {
                    feeding.why = why;
                    let options = feeding.options.clone();
                    if let Some(description) = feeding.description.take() {
                        self.engine.unsubscribe(description, now);
                    }
                    self.tell_group(id);
                    if let Some(entry) = self.subscriptions.get(&id) {
                        let wish = Wish {
                            subscription: id,
                            way: 0,
                            filter: &entry.filter,
                            reliability: options.reliability,
                            last_values: options.last_values,
                            keeps_all: options.keeps_all,
                            settle_by_hand: false,
                        };
                        self.engine.subscribe(&wish, now);
                    }
                    is_asked = true;
                }
            }
        }
        if is_asked {
            self.engine.turn(now);
        }
        is_asked
    }

    fn tell_group(&self, id: SubscriptionId) {
        if let (Some(events), Some(feeding), Some(entry)) = (
            &self.shared.events,
            self.groups.feeds.get(&id),
            self.subscriptions.get(&id),
        ) {
            events.put(Event::Multicast {
                group: feeding.group.clone(),
                filter: entry.filter.clone(),
                why_not: feeding.why.clone(),
            });
        }
    }

    /// Ends all feeds: the client is being closed.
    pub(super) fn leave_groups(&mut self) {
        let registry = self.poll.registry();
        let feeds = self.groups.feeds.values_mut();
        feeds.for_each(|feeding| feeding.leave(registry));
        self.groups.feeds.clear();
    }
}

impl Groups {
    pub(super) fn timeout(&self) -> Time {
        let feeds = self.feeds.values();
        feeds
            .map(|it| it.feed.timeout())
            .min()
            .unwrap_or(Time::NEVER)
    }

    pub(super) fn status(&self) -> Vec<GroupStatus> {
        let status = |feeding: &Feeding| {
            let mut counts = feeding.feed.counts();
            counts.dropped = feeding.dropped;
            GroupStatus {
                group: feeding.group.clone(),
                is_heard: feeding.feed.is_standing(),
                why_not: feeding.why.clone(),
                counts,
            }
        };
        self.feeds.values().map(status).collect()
    }
}

impl Feeding {
    fn leave(&mut self, registry: &mio::Registry) {
        if let Some((_, mut socket)) = self.socket.take() {
            // It is closed in any case.
            let _ = registry.deregister(&mut socket);
        }
    }
}

/// A socket that receives what is sent to a group and comes by one of the interfaces.
fn join(group: SocketAddr, interfaces: &[IpAddr]) -> io::Result<UdpSocket> {
    let is_of_group = |it: &&IpAddr| it.is_ipv4() == group.is_ipv4();
    let mut interfaces = interfaces.iter().filter(is_of_group).peekable();
    if interfaces.peek().is_none() {
        let version = if group.is_ipv4() { 4 } else { 6 };
        let why = format!("no interface is set for multicast of IPv{version}");
        return Err(io::Error::other(why));
    }
    let socket = bind(group)?;
    for interface in interfaces {
        match (group.ip(), interface) {
            (IpAddr::V4(group), IpAddr::V4(own)) => socket.join_multicast_v4(&group, own)?,
            (IpAddr::V6(group), IpAddr::V6(own)) => {
                socket.join_multicast_v6(&group, index_of(*own)?)?;
            }
            _ => {}
        }
    }
    socket.set_nonblocking(true)?;
    Ok(UdpSocket::from_std(socket))
}

/// The number of the interface that has this address, by which the system joins groups of IPv6.
#[cfg(target_os = "linux")]
fn index_of(own: Ipv6Addr) -> io::Result<u32> {
    let found = nix::ifaddrs::getifaddrs()?
        .find(|it| it.address.and_then(|it| Some(it.as_sockaddr_in6()?.ip())) == Some(own));
    match found {
        Some(found) => Ok(nix::net::if_::if_nametoindex(
            found.interface_name.as_str(),
        )?),
        None => Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            format!("no interface has the address {own}"),
        )),
    }
}

#[cfg(not(target_os = "linux"))]
fn index_of(_: Ipv6Addr) -> io::Result<u32> {
    Err(io::Error::other("groups of IPv6 are joined on Linux only"))
}

/// Bound to the group's own address, so that other datagrams to its port stay away, and shared with others of this machine.
/// An address that holds on one link only would bind the socket to one interface (RFC 4007, 6): there the port is all.
#[cfg(target_os = "linux")]
fn bind(group: SocketAddr) -> io::Result<std::net::UdpSocket> {
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, setsockopt, socket,
        sockopt,
    };
    use std::os::fd::AsRawFd;
    let family = match group {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let fd = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    // The system gives what it allows.
    let _ = setsockopt(&fd, sockopt::RcvBuf, &(4 << 20));
    match group {
        SocketAddr::V4(group) => bind(fd.as_raw_fd(), &SockaddrIn::from(group))?,
        SocketAddr::V6(mut group) => {
            setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
            // The scope is the last four bits (RFC 4291, 2.7): 1 is the interface, 2 the link.
            if group.ip().segments()[0] & 0xF <= 2 {
                group.set_ip(Ipv6Addr::UNSPECIFIED);
            }
            bind(fd.as_raw_fd(), &SockaddrIn6::from(group))?;
        }
    }
    Ok(fd.into())
}

#[cfg(not(target_os = "linux"))]
fn bind(group: SocketAddr) -> io::Result<std::net::UdpSocket> {
    std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, group.port()))
}
