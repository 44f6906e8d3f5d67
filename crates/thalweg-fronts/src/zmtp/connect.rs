//! From the greeting to an open session.

use super::{CONSUMER, LINE, Role, Stage, ZmtpDial, ZmtpFront, ZmtpSettings, dialect};
use crate::front::{Cx, Step, Variant};
use crate::login::{WANTS_MORE, refused};
use crate::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    ConsumeSpec, Grants, OpenRefusal, OpenSession, QueueLimits, QueueSpec, Refusal, SessionId,
    queue_address,
};
use thalweg_model::{Filter, Span};
use thalweg_zmtp::{
    Announcement, ClientMechanism, ClientSide, CurveServer, HEADER_FRAME, HandshakeEvent,
    PeerFault, ServerMechanisms, ServerSide, SocketType, Version, connection_seed, key_to_z85,
};

/// What libzmq takes for a wrong login, and does not try again. [27#Reply]
const WRONG_LOGIN: &str = "400";
/// What it takes for "try again later".
const LATER: &str = "300";

/// A handshake, and what came of the login in it.
pub(super) struct Handshake {
    side: Side,
    is_greeted: bool,
    /// The login was handed on and is not answered yet.
    is_waiting: bool,
    /// The user, for messages.
    claimed: Box<str>,
    allowed: Option<Allowed>,
    /// The peer, while it is found out what it may do.
    met: Option<Peer>,
    /// Who the peer is, and octets of what said so, while the link is asked to move.
    arrived: Option<(usize, Peer)>,
}

/// Who a peer is, and what it may do.
type Allowed = (Option<Box<str>>, Access);

/// Which end of the connection is ours.
enum Side {
    Accepted(ServerSide),
    Dialed(ClientSide),
}

/// What came out of one step.
enum Came {
    Nothing,
    /// A question is open.
    Waits,
    Step(usize),
    Login(usize, Box<str>, Box<[u8]>),
    Peer(usize, Peer),
    Refusal(usize, String),
    Fault(PeerFault),
}

/// What a peer says of itself.
struct Peer {
    version: Version,
    socket_type: SocketType,
    /// Its routing id; empty if it has none.
    identity: Box<[u8]>,
    /// The service that it announces. libzmq does not send the routing id of a REP.
    service: Option<Box<[u8]>>,
    curve_key: Option<[u8; 32]>,
    takes_header: bool,
}

/// What an end announces that takes header frames.
const HEADERS: [(&str, &[u8]); 1] = [(HEADER_FRAME, b"1")];

/// The property of a peer's metadata that names what it serves.
const SERVICE: &str = "X-Service";

impl Handshake {
    /// NULL and PLAIN are always offered: the server decides whether a peer without a name is admitted.
    pub(super) fn new(settings: &ZmtpSettings, nonce: u64) -> Self {
        let curve = settings.curve.as_ref().map(|curve| CurveServer {
            keys: curve.keys.clone(),
            seed: connection_seed(&curve.random, nonce),
        });
        let mechanisms = ServerMechanisms {
            null: true,
            plain: true,
            curve,
        };
        let side = ServerSide::new(settings.limits.clone(), mechanisms);
        Handshake::begin(Side::Accepted(side))
    }

    /// With a peer that binds, which is asked for nothing.
    pub(super) fn dialed(dial: &ZmtpDial) -> Self {
        let ours = Announcement {
            identity: &dial.identity,
            more: &HEADERS,
            ..Announcement::of(dial.socket_type)
        };
        let limits = dial.settings.limits.clone();
        Handshake::begin(Side::Dialed(ClientSide::new(
            limits,
            ClientMechanism::Null,
            &ours,
        )))
    }

    fn begin(side: Side) -> Self {
        Handshake {
            side,
            is_greeted: false,
            is_waiting: false,
            claimed: "".into(),
            allowed: None,
            met: None,
            arrived: None,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn handle_input(&mut self, input: &[u8], out: &mut Vec<u8>) -> Came {
        let is_first = !std::mem::replace(&mut self.is_greeted, true);
        let step = match &mut self.side {
            Side::Accepted(side) => {
                if is_first {
                    side.greet(out);
                }
                side.handle_input(input, out)
            }
            Side::Dialed(side) => {
                if is_first {
                    side.greet(out);
                }
                side.handle_input(input, out)
            }
        };
        match step {
            Ok(None) => Came::Nothing,
            Ok(Some((len, HandshakeEvent::Consumed))) => Came::Step(len),
            Ok(Some((len, HandshakeEvent::Login(login)))) => {
                self.is_waiting = true;
                self.claimed = String::from_utf8_lossy(login.username).into();
                Came::Login(len, self.claimed.clone(), login.password.into())
            }
            Ok(Some((len, HandshakeEvent::Peer(peer)))) => Came::Peer(
                len,
                Peer {
                    version: peer.version,
                    socket_type: peer.socket_type,
                    identity: peer.metadata.identity().into(),
                    service: peer.metadata.get(SERVICE).map(Into::into),
                    curve_key: peer.curve_key,
                    takes_header: peer.metadata.get(HEADER_FRAME) == Some(HEADERS[0].1),
                },
            ),
            Ok(Some((len, HandshakeEvent::Error(reason)))) => {
                Came::Refusal(len, reason.escape_ascii().to_string())
            }
            Err(fault) => Came::Fault(fault),
        }
    }
}

impl ZmtpFront {
    pub(super) fn shake_hands(cx: &mut Cx<'_>, input: &[u8]) -> Step {
        if let Some(step) = ZmtpFront::arrive(cx, input) {
            return step;
        }
        let came = ZmtpFront::write(cx.links, cx.id, |front, out| match &mut front.stage {
            Stage::Handshake(handshake) if handshake.is_waiting => Came::Waits,
            Stage::Handshake(handshake) => handshake.handle_input(input, out),
            Stage::Open(..) | Stage::Closed => Came::Nothing,
        });
        match came {
            Some(Came::Waits) => Step::Hold,
            None | Some(Came::Nothing) => Step::NeedMore,
            Some(Came::Step(len)) => Step::Consumed(len),
            Some(Came::Login(len, user, password)) => {
                ZmtpFront::ask_password(cx, Some((user, password)));
                Step::Consumed(len)
            }
            Some(Came::Peer(len, peer)) => ZmtpFront::settle(cx, len, peer),
            Some(Came::Refusal(len, reason)) => {
                ZmtpFront::give_up(cx, &format!("the peer refuses: {reason}"));
                Step::Consumed(len)
            }
            Some(Came::Fault(fault)) => {
                ZmtpFront::fail(cx, &fault);
                Step::Hold
            }
        }
    }

    /// Those that use queues here stay where all queues are; others may be on any shard.
    fn settle(cx: &mut Cx<'_>, len: usize, peer: Peer) -> Step {
        let uses_topics = Role::of(peer.socket_type).is_some_and(|(role, _)| role.uses_topics());
        if uses_topics
            && let Some(front) = ZmtpFront::of(cx.links, cx.id)
            && front.dial.is_none()
            && let Stage::Handshake(handshake) = &mut front.stage
        {
            handshake.arrived = Some((len, peer));
            return Step::Rehome(front.nonce.max(1));
        }
        ZmtpFront::on_peer(cx, peer);
        Step::Consumed(len)
    }

    /// Goes on where a link is once it has moved. It may be asked without the input that moves with it.
    fn arrive(cx: &mut Cx<'_>, input: &[u8]) -> Option<Step> {
        let Stage::Handshake(handshake) = &mut ZmtpFront::of(cx.links, cx.id)?.stage else {
            return None;
        };
        let (len, peer) = handshake.arrived.take()?;
        if input.len() < len {
            handshake.arrived = Some((len, peer));
            return Some(Step::NeedMore);
        }
        ZmtpFront::on_peer(cx, peer);
        Some(Step::Consumed(len))
    }

    fn ask_password(cx: &mut Cx<'_>, said: Option<(Box<str>, Box<[u8]>)>) {
        let nonce = ZmtpFront::of(cx.links, cx.id).map_or(0, |front| front.nonce);
        let (user, password) = said.unzip();
        let client = cx.kernel.unused_client_id(nonce);
        cx.ask_password(client, user, password);
    }

    /// A peer that has shown its password is admitted; one that has shown a key is the key's user; others are
    /// anonymous.
    fn on_peer(cx: &mut Cx<'_>, peer: Peer) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let Stage::Handshake(handshake) = &mut front.stage else {
            return;
        };
        if let Some(allowed) = handshake.allowed.take() {
            return ZmtpFront::open(cx, &peer, allowed);
        }
        if let Some(dial) = &front.dial {
            let identity = dial.user.clone();
            handshake.is_waiting = true;
            handshake.claimed = identity.clone();
            handshake.met = Some(peer);
            return cx.ask_login(LoginAsk::Proven { identity });
        }
        let curve = front.settings.curve.as_ref();
        let users = curve.and_then(|curve| curve.users.as_ref());
        let user = match (peer.curve_key, users) {
            (Some(key), Some(users)) => match users.get(&key) {
                Some(user) => Some(user.clone()),
                None => {
                    let why = format!("no user has the key {}", key_to_z85(&key));
                    return ZmtpFront::refuse(cx, WRONG_LOGIN, &why);
                }
            },
            _ => None,
        };
        if let (None, Some(access)) = (&user, front.anonymous.clone()) {
            return ZmtpFront::open(cx, &peer, (None, access));
        }
        handshake.is_waiting = true;
        handshake.met = Some(peer);
        match user {
            Some(identity) => {
                handshake.claimed = identity.clone();
                cx.ask_login(LoginAsk::Proven { identity });
            }
            None => ZmtpFront::ask_password(cx, None),
        }
    }

    pub(super) fn on_verdict(cx: &mut Cx<'_>, answer: LoginAnswer) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let Stage::Handshake(handshake) = &mut front.stage else {
            return;
        };
        if !std::mem::take(&mut handshake.is_waiting) {
            return;
        }
        let (reason, why) = match answer {
            LoginAnswer::Allowed { user, access, .. } => {
                if let Some(peer) = handshake.met.take() {
                    return ZmtpFront::open(cx, &peer, (user, access));
                }
                handshake.allowed = Some((user, access));
                ZmtpFront::write(cx.links, cx.id, |front, out| {
                    if let Stage::Handshake(handshake) = &mut front.stage
                        && let Side::Accepted(side) = &mut handshake.side
                    {
                        side.welcome(out);
                    }
                });
                return;
            }
            LoginAnswer::Continue { .. } => (WRONG_LOGIN, WANTS_MORE),
            LoginAnswer::Refused(LoginRefusal::Busy) => (LATER, LoginRefusal::Busy.words()),
            LoginAnswer::Refused(refusal) => (WRONG_LOGIN, refusal.words()),
        };
        let why = format!("access refused for user '{}': {why}", handshake.claimed);
        ZmtpFront::refuse(cx, reason, &why);
    }

    /// Refuses a login or a peer, and ends the link.
    fn refuse(cx: &mut Cx<'_>, reason: &str, why: &str) {
        ZmtpFront::write(cx.links, cx.id, |front, out| {
            if let Stage::Handshake(handshake) = &mut front.stage
                && let Side::Accepted(side) = &mut handshake.side
            {
                side.error(reason, out);
            }
        });
        ZmtpFront::give_up(cx, why);
    }

    /// Opens the session of a peer that may come in, and says so.
    fn open(cx: &mut Cx<'_>, peer: &Peer, (user, access): Allowed) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let Some((role, ours)) = Role::of(peer.socket_type) else {
            let name = peer.socket_type.name();
            let why = format!(
                "a {name} socket connected; PUB, SUB, XPUB, XSUB, PUSH, PULL, REQ, REP, DEALER and ROUTER are served"
            );
            return ZmtpFront::refuse(cx, WRONG_LOGIN, &why);
        };
        let settings = front.settings.clone();
        let client = cx.kernel.unused_client_id(front.nonce);
        let open = OpenSession {
            user: user.map(Into::into),
            grants: Grants {
                high_water: settings.high_water,
                hears_refusals: false,
                ..Grants::of_listener(settings.publish_rate, settings.safety)
            },
            ..OpenSession::of_link(&client, cx.id, access, dialect(peer.version))
        };
        let session = match cx.open_session(open) {
            Ok(opened) => opened.session,
            Err(refusal) => {
                let reason = match refusal {
                    OpenRefusal::TooManySessions
                    | OpenRefusal::Overloaded
                    | OpenRefusal::Outdated => LATER,
                    OpenRefusal::OtherUser | OpenRefusal::Denied => WRONG_LOGIN,
                };
                return ZmtpFront::refuse(cx, reason, refused(refusal));
            }
        };
        let now = cx.now;
        ZmtpFront::write(cx.links, cx.id, |front, out| {
            let Stage::Handshake(handshake) = &mut front.stage else {
                return;
            };
            let ours = Announcement {
                more: if peer.takes_header { &HEADERS } else { &[] },
                ..Announcement::of(ours)
            };
            let traffic = match &mut handshake.side {
                Side::Accepted(side) => side.ready(&ours, out),
                Side::Dialed(side) => side.traffic(),
            };
            let Some(mut traffic) = traffic else {
                return;
            };
            match &front.dial {
                _ if role != Role::Publisher => {}
                // Subscribes to everything: a publisher drops what is not subscribed to.
                None => traffic.subscribe(b"", out),
                Some(dial) => {
                    for prefix in &dial.prefixes {
                        traffic.subscribe(prefix, out);
                    }
                }
            }
            if peer.version == Version::V31 && settings.heart_beat > Span::ZERO {
                front.ping_due = now + settings.heart_beat;
            }
            front.said = vec![("socket_type".into(), peer.socket_type.name().into())];
            if !peer.identity.is_empty() {
                let identity = String::from_utf8_lossy(&peer.identity);
                front.said.push(("identity".into(), identity.into()));
            }
            front.has_header |= peer.takes_header;
            front.stage = Stage::Open(traffic, role);
        });
        cx.start(session);
        if let (Role::Subscriber, true) = (role, settings.invert_matching) {
            let all = Filter::prefix("").ok();
            let all = all.map(|filter| filter.as_str().into());
            return ZmtpFront::subscribe(cx, session, all.as_slice());
        }
        if role == Role::Worker {
            let window = match peer.socket_type {
                SocketType::Rep => 1,
                _ => settings.worker_window,
            };
            let dial = ZmtpFront::of(cx.links, cx.id).and_then(|front| front.dial.clone());
            let service = match &dial {
                Some(dial) => &dial.service,
                None => peer.service.as_ref().unwrap_or(&peer.identity),
            };
            return ZmtpFront::serve(cx, service, window);
        }
        if let Err(refusal) = ZmtpFront::use_queue(cx, role, &settings) {
            let why = format!("the queue '{}' cannot be used: {refusal:?}", settings.queue);
            ZmtpFront::give_up(cx, &why);
        }
    }

    /// Makes the queue of PUSH and PULL unless there is one, and takes from it for a PULL.
    fn use_queue(cx: &mut Cx<'_>, role: Role, settings: &ZmtpSettings) -> Result<(), Refusal> {
        let (Role::Pusher | Role::Puller, Some(session)) = (role, cx.session()) else {
            return Ok(());
        };
        let address = queue_address("", &settings.queue);
        ZmtpFront::make_queue(cx, session, &address)?;
        match role {
            Role::Puller => ZmtpFront::consume(cx, session, &address, None),
            _ => Ok(()),
        }
    }

    /// Makes a queue that outlives the broker unless there is one of that address.
    pub(super) fn make_queue(
        cx: &mut Cx<'_>,
        session: SessionId,
        address: &str,
    ) -> Result<(), Refusal> {
        if cx.kernel.inspect_queue(session, address) != Err(Refusal::NoQueue) {
            return Ok(());
        }
        let spec = QueueSpec {
            address,
            durable: true,
            exclusive: false,
            is_named_by_broker: false,
            auto_delete: false,
            limits: QueueLimits::default(),
        };
        let made = cx.kernel.declare_queue(session, &spec, cx.now, cx.links);
        made.map(|_| ())
    }

    /// Takes from a queue or a group. With a window the peer settles what it is given, and has so many at once; without, it is
    /// settled when it is sent.
    pub(super) fn consume(
        cx: &mut Cx<'_>,
        session: SessionId,
        source: &str,
        window: Option<u32>,
    ) -> Result<(), Refusal> {
        let spec = ConsumeSpec {
            source,
            line: LINE,
            consumer: CONSUMER,
            credit: window.unwrap_or(0),
            settles: window.is_some(),
            exclusive: false,
            priority: 0,
            no_local: false,
            filter: None,
        };
        cx.kernel.consume(session, &spec, cx.now, cx.links)
    }
}
