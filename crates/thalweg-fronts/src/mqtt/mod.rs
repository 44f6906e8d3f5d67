//! MQTT 3.1, 3.1.1 and 5.0. Concept map: topic = address (byte for byte), PUBLISH with packet identifier = delivery with
//! tag, PUBACK/PUBCOMP = settled, PUBREC = received, PUBREL = release, `$share/g/f` = filter `f` in group `g`.

mod capabilities;
mod close;
mod connect;
mod deliver;
mod login;
mod publish;
mod settle;
mod subscribe;
mod work;

use crate::LoginAnswer;
use crate::front::{Cx, Front, FrontSettings, Step, Variant};

use crate::probe::Mark;
use crate::registry::AnyFront;
use connect::Opening;
use publish::Handled;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, Safety};
use thalweg_model::Span;
use thalweg_mqtt::{Event, PeerFault, PingReq, QoS, ReasonCode, ServerLimits, ServerSide, Version};
use work::Work;

pub(crate) use capabilities::PROTOCOL;
pub use capabilities::{MQTT_3, MQTT_5};
pub use connect::home_key;

/// What the operator decides about MQTT.
#[derive(Clone, Debug)]
pub struct MqttSettings {
    pub limits: ServerLimits,
    /// The longest keep-alive; clients that ask for more, or for none, are given this. 0 leaves them their choice.
    pub keep_alive_max: u16,
    /// The keep-alive of MQTT 5 clients that ask for none; 0 leaves them without.
    pub keep_alive_default: u16,
    /// How long a session lives on after an MQTT 3 client that did not ask for a clean session.
    pub v3_expiry: Span,
    /// The highest QoS, announced and enforced.
    pub maximum_qos: QoS,
    /// Whether retained messages are kept; announced and enforced.
    pub retain_available: bool,
    /// Whether filters may hold wildcards; announced (the kernel enforces).
    pub wildcard_available: bool,
    /// Whether `$share` works; announced (the kernel enforces).
    pub shared_available: bool,
    /// Whether subscription identifiers work; announced and enforced.
    pub subscription_ids_available: bool,
    /// What to answer to Request Response Information; empty for nothing.
    pub response_information: Box<str>,
    /// If not empty, every client is sent there: "use another server".
    pub server_reference: Box<str>,
    /// Largest topic or filter in bytes.
    pub topic_bytes_max: usize,
    /// Whether a client may come back under a name that we made up; otherwise its session ends with its connection.
    pub assigned_may_return: bool,
    /// Publishes per second of a connection in place of the kernel's limit; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe answers to clients of this listener must be, in place of the kernel's setting.
    pub safety: Option<Safety>,
}

impl Default for MqttSettings {
    fn default() -> Self {
        MqttSettings {
            limits: ServerLimits::default(),
            keep_alive_max: 0,
            keep_alive_default: 0,
            v3_expiry: Span::FOREVER,
            maximum_qos: QoS::ExactlyOnce,
            retain_available: true,
            wildcard_available: true,
            shared_available: true,
            subscription_ids_available: true,
            response_information: "".into(),
            server_reference: "".into(),
            topic_bytes_max: 65_535,
            assigned_may_return: true,
            publish_rate: None,
            safety: None,
        }
    }
}

/// One MQTT connection.
///
/// ```text
///  ExpectConnect --CONNECT--> ExpectVerdict --allowed--> Connected --DISCONNECT, fault--> Closed
///                              |       ^                  |     ^
///                              |continue|                 |AUTH |verdict
///                              v       |                  v     |
///                             ExpectAuth                 ExpectVerdict (input is held meanwhile)
/// ```
pub struct MqttFront {
    machine: ServerSide,
    settings: Arc<MqttSettings>,
    state: State,
    /// Part of the client identifiers that the broker makes up, so that they are unique in the process.
    nonce: u64,
    /// What a peer without credentials may do, if it is admitted.
    anonymous: Option<Access>,
    keep_alive: u16,
    /// The method of enhanced authentication the client began with.
    auth_method: Option<Box<str>>,
    /// CONNECT had the bridge bit: its subscriptions are No Local and Retain As Published, which MQTT 3 has no words for.
    is_bridge: bool,
    /// Session Expiry Interval of CONNECT was zero: DISCONNECT must not raise it.
    expiry_was_zero: bool,
    /// Acknowledgements from the first on that waits for other shards: they leave in the order of their publishes.
    late: VecDeque<publish::Late>,
    /// What it said of its work, if anything.
    work: Option<Box<Work>>,
    /// Why the connection ended, for logs.
    fault: Option<PeerFault>,
}

/// What the connection waits for.
enum State {
    ExpectConnect,
    /// The server is checking who it is; input is held.
    ExpectVerdict(Box<Opening>),
    /// An AUTH packet before CONNACK.
    ExpectAuth(Box<Opening>),
    Connected,
    /// The server is checking who it is once more; input is held.
    ExpectReVerdict,
    Closed,
}

const NO_MEMORY: PeerFault = PeerFault {
    reason: ReasonCode::QuotaExceeded,
    clause: "§4.13.2",
    what: "the broker is short of memory and cannot keep the topics of so many aliases",
};

impl MqttFront {
    /// A connection that has not said anything yet. `nonce` is unique in the process and hard to guess. `anonymous` is
    /// what peers without credentials may do; `None` asks the server about everybody.
    pub fn new(settings: Arc<MqttSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        MqttFront {
            machine: ServerSide::new(settings.limits.clone()),
            settings,
            state: State::ExpectConnect,
            nonce,
            anonymous,
            keep_alive: 0,
            auth_method: None,
            is_bridge: false,
            expiry_was_zero: false,
            late: VecDeque::new(),
            work: None,
            fault: None,
        }
    }
}

impl Front for MqttFront {
    const DELIVERS_MUCH: bool = true;

    #[inline]
    fn step(cx: &mut Cx<'_>, bytes: &[u8]) -> Step {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return Step::Hold;
        };
        if let State::ExpectVerdict(_) | State::ExpectReVerdict | State::Closed = front.state {
            return Step::Hold;
        }
        let input = front.machine.handle_input(bytes);
        cx.links.mark(Mark::WireDecode);
        match input {
            // By reference: it stays where it was decoded.
            Ok(Some((consumed, Event::Publish(ref publish)))) => {
                match MqttFront::on_publish(cx, publish) {
                    Handled::Done => Step::Consumed(consumed),
                    Handled::Later => Step::Hold,
                }
            }
            Ok(Some((consumed, event))) => {
                match event {
                    // As frequent as publishes, so it is not moved for the others' sake.
                    Event::PubAck {
                        id,
                        reason,
                        load: None,
                    } => MqttFront::on_puback(cx, id, reason),
                    event => MqttFront::on_event(cx, event),
                }
                Step::Consumed(consumed)
            }
            Ok(None) => Step::NeedMore,
            Err(fault) => {
                MqttFront::fail(cx, fault);
                Step::Hold
            }
        }
    }

    /// What the peer has us keep is counted.
    #[inline]
    fn after_input(cx: &mut Cx<'_>) {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        let kept = front.machine.alias_bytes();
        if kept > 0
            && !cx.links.count_kept(cx.id, kept, cx.kernel)
            && cx.links.get(cx.id).is_some_and(|link| !link.closing)
        {
            MqttFront::fail(cx, NO_MEMORY);
        }
    }

    fn on_published(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        MqttFront::write(cx.links, cx.id, |front, out| {
            front.acknowledge_late(question, is_refused, out)
        });
    }

    fn on_login(cx: &mut Cx<'_>, _: &str, answer: LoginAnswer) {
        MqttFront::on_verdict(cx, answer);
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected | State::ExpectReVerdict)
    }

    fn holds_input(&self) -> bool {
        matches!(self.state, State::ExpectVerdict(_) | State::ExpectReVerdict)
    }

    fn fault(&self) -> Option<String> {
        self.fault.as_ref().map(ToString::to_string)
    }

    /// One and a half times the keep-alive. [MQTT-3.1.2-22]
    fn silence_max(&self) -> Option<Span> {
        (self.keep_alive > 0).then(|| Span::from_millis(u64::from(self.keep_alive) * 1500))
    }
}

impl FrontSettings for MqttSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(MqttFront::new(self, nonce, anonymous).into())
    }

    /// Only whole packets do. [MQTT-3.1.2-22]
    fn hears_parts(&self) -> bool {
        false
    }
}

impl MqttFront {
    fn on_event(cx: &mut Cx<'_>, event: Event<'_>) {
        match event {
            Event::Connect(connect) => MqttFront::on_connect(cx, *connect),
            // `step` takes it before it comes here.
            Event::Publish(_) => {}
            Event::PubAck {
                id: tag,
                reason,
                load,
            } => {
                if let Some(load) = load {
                    MqttFront::on_load(cx, load);
                }
                MqttFront::on_puback(cx, tag, reason);
            }
            Event::PubRec {
                id: tag,
                reason,
                load,
            } => {
                if let Some(load) = load {
                    MqttFront::on_load(cx, load);
                }
                MqttFront::on_pubrec(cx, tag, reason);
            }
            Event::PubRel { id: ticket, .. } => MqttFront::on_pubrel(cx, ticket),
            Event::PubComp { id: tag, .. } => MqttFront::on_pubcomp(cx, tag),
            Event::Subscribe(subscribe) => MqttFront::on_subscribe(cx, &subscribe),
            Event::Unsubscribe(unsubscribe) => MqttFront::on_unsubscribe(cx, &unsubscribe),
            Event::PassedOver => {}
            Event::PingReq(ping) => {
                MqttFront::write(cx.links, cx.id, |front, out| front.machine.pingresp(out));
                match ping {
                    PingReq::Plain => {}
                    PingReq::Report(report) => MqttFront::on_load(cx, Ok(report)),
                    PingReq::Refused(why) => MqttFront::on_load(cx, Err(why)),
                }
            }
            Event::Disconnect(disconnect) => MqttFront::on_disconnect(cx, &disconnect),
            Event::Auth(auth) => MqttFront::on_auth(cx, &auth),
        }
    }

    /// The peer broke the protocol: tell it, end the link, publish its will.
    pub(crate) fn fail(cx: &mut Cx<'_>, fault: PeerFault) {
        MqttFront::write(cx.links, cx.id, |front, out| {
            front.machine.fault(&fault, out);
            front.fault = Some(fault);
        });
        MqttFront::end(cx, Closing::Cut, None);
    }

    /// Ends the link from our side; what is in the output is still sent.
    pub(crate) fn end(cx: &mut Cx<'_>, how: Closing, expiry: Option<Span>) {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return;
        };
        link.closing = true;
        let AnyFront::Mqtt(front) = &mut link.front else {
            return;
        };
        front.state = State::Closed;
        let session = link.session.take();
        cx.links.mark_dirty(cx.id);
        if let Some(session) = session {
            cx.kernel
                .close_link(session, cx.id, how, expiry, cx.now, cx.links);
        }
    }

    /// The number under which encodings of this connection's family are exchanged unchanged.
    fn dialect(&self) -> u8 {
        match self.machine.version() {
            Version::V31 | Version::V311 => 3,
            Version::V5 => 5,
        }
    }
}
