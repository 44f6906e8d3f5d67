//! From the greeting to an open session.

use super::{CONSUMER, LINE, Role, Stage, ZmtpFront, ZmtpSettings, dialect};
use crate::front::{Cx, Step, Variant};
use crate::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    ConsumeSpec, Grants, OpenRefusal, OpenSession, QueueLimits, QueueSpec, Refusal, queue_address,
};
use thalweg_model::Span;
use thalweg_zmtp::{
    Announcement, HandshakeEvent, PeerFault, ServerMechanisms, ServerSide, SocketType, Version,
};

/// What libzmq takes for a wrong login, and does not try again. [27#Reply]
const WRONG_LOGIN: &str = "400";
/// What it takes for "try again later".
const LATER: &str = "300";

/// A handshake, and what came of the login in it.
pub(super) struct Handshake {
    side: ServerSide,
    is_greeted: bool,
    /// The login was handed on and is not answered yet.
    is_waiting: bool,
    /// The user, for messages.
    claimed: Box<str>,
    allowed: Option<(Option<Box<str>>, Access)>,
}

/// What came out of one step.
enum Came {
    Nothing,
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
    identity: Box<str>,
}

impl Handshake {
    /// PLAIN is always offered, NULL where peers need no login.
    pub(super) fn new(settings: &ZmtpSettings, takes_strangers: bool) -> Self {
        let mechanisms = ServerMechanisms {
            null: takes_strangers,
            plain: true,
            curve: None,
        };
        Handshake {
            side: ServerSide::new(settings.limits.clone(), mechanisms),
            is_greeted: false,
            is_waiting: false,
            claimed: "".into(),
            allowed: None,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn handle_input(&mut self, input: &[u8], out: &mut Vec<u8>) -> Came {
        if !std::mem::replace(&mut self.is_greeted, true) {
            self.side.greet(out);
        }
        match self.side.handle_input(input, out) {
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
                    identity: String::from_utf8_lossy(peer.metadata.identity()).into(),
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
        let came = ZmtpFront::write(cx.links, cx.id, |front, out| match &mut front.stage {
            Stage::Handshake(handshake) => handshake.handle_input(input, out),
            Stage::Open(..) | Stage::Closed => Came::Nothing,
        });
        match came {
            None | Some(Came::Nothing) => Step::NeedMore,
            Some(Came::Step(len)) => Step::Consumed(len),
            Some(Came::Login(len, user, password)) => {
                let nonce = ZmtpFront::of(cx.links, cx.id).map_or(0, |front| front.nonce);
                cx.ask_login(LoginAsk::Password {
                    client: cx.kernel.unused_client_id(nonce),
                    chosen: false,
                    user: Some(user),
                    password: Some(password),
                });
                Step::Consumed(len)
            }
            Some(Came::Peer(len, peer)) => {
                ZmtpFront::open(cx, &peer);
                Step::Consumed(len)
            }
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
                handshake.allowed = Some((user, access));
                ZmtpFront::write(cx.links, cx.id, |front, out| {
                    if let Stage::Handshake(handshake) = &mut front.stage {
                        handshake.side.welcome(out);
                    }
                });
                return;
            }
            LoginAnswer::Continue { .. } => (
                WRONG_LOGIN,
                "the server wants more than a user name and a password",
            ),
            LoginAnswer::Refused(refusal) => match refusal {
                LoginRefusal::BadUserOrPassword => (WRONG_LOGIN, "user name or password are wrong"),
                LoginRefusal::NotAuthorized | LoginRefusal::ClientId => {
                    (WRONG_LOGIN, "this user may not come in here")
                }
                LoginRefusal::BadMethod => (WRONG_LOGIN, "passwords are not asked for here"),
                LoginRefusal::Busy => (LATER, "too many want to come in; try again later"),
            },
        };
        let why = format!("access refused for user '{}': {why}", handshake.claimed);
        ZmtpFront::refuse(cx, reason, &why);
    }

    /// Refuses a login or a peer, and ends the link.
    fn refuse(cx: &mut Cx<'_>, reason: &str, why: &str) {
        ZmtpFront::write(cx.links, cx.id, |front, out| {
            if let Stage::Handshake(handshake) = &mut front.stage {
                handshake.side.error(reason, out);
            }
        });
        ZmtpFront::give_up(cx, why);
    }

    /// Opens the session of a peer that may come in, and says so.
    fn open(cx: &mut Cx<'_>, peer: &Peer) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let Stage::Handshake(handshake) = &mut front.stage else {
            return;
        };
        let Some((role, ours)) = Role::of(peer.socket_type) else {
            let name = peer.socket_type.name();
            let why = format!(
                "a {name} socket connected; PUB, SUB, XPUB, XSUB, PUSH and PULL are served"
            );
            return ZmtpFront::refuse(cx, WRONG_LOGIN, &why);
        };
        let anonymous = front.anonymous.clone().map(|access| (None, access));
        let Some((user, access)) = handshake.allowed.take().or(anonymous) else {
            return ZmtpFront::refuse(cx, WRONG_LOGIN, "a login is needed");
        };
        let settings = front.settings.clone();
        let open = OpenSession {
            client: &cx.kernel.unused_client_id(front.nonce),
            link: cx.id,
            fresh: true,
            expiry: Span::ZERO,
            in_flight_max: None,
            will: None,
            tenant: &settings.tenant,
            access,
            user: user.map(Into::into),
            dialect: dialect(peer.version),
            known_as: None,
            grants: Grants {
                publish_rate: settings.publish_rate,
                safety: settings.safety,
                high_water: settings.high_water,
                ..Grants::default()
            },
        };
        let opened = match cx.kernel.open_session(open, cx.now, cx.links) {
            Ok(opened) => opened,
            Err(refusal) => {
                let (reason, why) = match refusal {
                    OpenRefusal::TooManySessions => (
                        LATER,
                        "there are as many sessions as there may be; raise the limit",
                    ),
                    OpenRefusal::Overloaded => {
                        (LATER, "the broker is short of memory; try again later")
                    }
                    OpenRefusal::OtherUser => (WRONG_LOGIN, "the session is another user's"),
                    OpenRefusal::Denied => (WRONG_LOGIN, "the rules grant this user nothing"),
                };
                return ZmtpFront::refuse(cx, reason, why);
            }
        };
        cx.set_session(opened.session);
        let now = cx.now;
        ZmtpFront::write(cx.links, cx.id, |front, out| {
            let Stage::Handshake(handshake) = &mut front.stage else {
                return;
            };
            let Some(mut traffic) = handshake.side.ready(&Announcement::of(ours), out) else {
                return;
            };
            if role == Role::Publisher {
                // All of it: a publisher drops what nobody asks for.
                traffic.subscribe(b"", out);
            }
            if peer.version == Version::V31 && settings.heart_beat > Span::ZERO {
                front.ping_due = now + settings.heart_beat;
            }
            front.said = vec![("socket_type".into(), peer.socket_type.name().into())];
            if !peer.identity.is_empty() {
                front.said.push(("identity".into(), peer.identity.clone()));
            }
            front.stage = Stage::Open(traffic, role);
        });
        cx.kernel.start(opened.session, cx.now, cx.links);
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
        let address = queue_address(&settings.tenant, &settings.queue);
        if cx.kernel.inspect_queue(session, &address) == Err(Refusal::NoQueue) {
            let spec = QueueSpec {
                address: &address,
                durable: true,
                exclusive: false,
                is_named_by_broker: false,
                auto_delete: false,
                limits: QueueLimits::default(),
            };
            cx.kernel.declare_queue(session, &spec, cx.now, cx.links)?;
        }
        if role == Role::Puller {
            let spec = ConsumeSpec {
                source: &address,
                line: LINE,
                consumer: CONSUMER,
                credit: 0,
                settles: false,
                exclusive: false,
                priority: 0,
                no_local: false,
            };
            cx.kernel.consume(session, &spec, cx.now, cx.links)?;
        }
        Ok(())
    }
}
