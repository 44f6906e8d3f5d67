//! The list of all protocols: the one place that a new one is written down in.

use crate::deferred::{DeferredFront, Effect};
use crate::front::{Front, Outbound, Variant};
use crate::protocol::Protocol;

/// Writes the enum of all fronts and what matches on it, each without a catch-all arm.
macro_rules! fronts {
    (($d:tt) $($(#[$doc:meta])* $Name:ident($Front:ty) of $PROTOCOL:path,)*) => {
        /// A protocol's side of a link.
        pub enum AnyFront {
            $($(#[$doc])* $Name(Box<$Front>),)*
        }

        /// How many kinds there are.
        pub(crate) const KINDS: usize = [$(stringify!($Name)),*].len();

        /// The protocol of each kind.
        const PROTOCOLS: [&Protocol; KINDS] = [$(&$PROTOCOL),*];

        enum Index { $($Name,)* }

        $(
            impl From<$Front> for AnyFront {
                fn from(front: $Front) -> Self {
                    AnyFront::$Name(Box::new(front))
                }
            }

            impl Variant for $Front {
                const INDEX: usize = Index::$Name as usize;
                const PROTOCOL: &'static Protocol = &$PROTOCOL;

                #[inline]
                fn from_any(any: &AnyFront) -> Option<&Self> {
                    if let AnyFront::$Name(front) = any { Some(front) } else { None }
                }

                #[inline]
                fn from_any_mut(any: &mut AnyFront) -> Option<&mut Self> {
                    if let AnyFront::$Name(front) = any { Some(front) } else { None }
                }
            }
        )*

        /// `each_front!(any, front => …)` with the front itself, `each_front!(type of any, F => …)` with its type.
        macro_rules! each_front {
            (type of $d any:expr, $d F:ident => $d body:expr) => {
                match $d any {
                    $($crate::AnyFront::$Name(_) => { type $d F = $Front; $d body })*
                }
            };
            ($d any:expr, $d front:ident => $d body:expr) => {
                match $d any {
                    $($crate::AnyFront::$Name($d front) => $d body,)*
                }
            };
        }
    };
}

fronts! {
    ($)
    /// MQTT of any version.
    Mqtt(crate::mqtt::MqttFront) of crate::mqtt::PROTOCOL,
    /// AMQP 0-9-1.
    Amqp(crate::amqp::AmqpFront) of crate::amqp::PROTOCOL,
    /// STOMP 1.0 to 1.2.
    Stomp(crate::stomp::StompFront) of crate::stomp::PROTOCOL,
    /// CoAP over UDP or DTLS: all peers of one socket.
    CoapDatagrams(crate::deferred::Deferred<crate::coap::CoapFront>) of crate::coap::PROTOCOL,
    /// CoAP over TCP, TLS or WebSocket.
    CoapStream(crate::deferred::Deferred<crate::coap::CoapStreamFront>) of crate::coap::PROTOCOL,
    /// The session that the CoAP fronts of a shard have in common. It has no peer.
    CoapDesk(crate::coap::Desk) of crate::coap::PROTOCOL,
    /// ZMTP 3.0 and 3.1.
    Zmtp(crate::zmtp::ZmtpFront) of crate::zmtp::PROTOCOL,
    /// XMPP 1.0 with XEP-0060.
    Xmpp(crate::xmpp::XmppFront) of crate::xmpp::PROTOCOL,
    /// A front of another crate, by way of [`DeferredFront`].
    Extension(crate::deferred::Extension) of crate::deferred::EXTENSION,
}

#[allow(clippy::single_component_path_imports)] // It makes the macro a path for other modules.
pub(crate) use each_front;

// A link may move to another shard before its session is opened.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<AnyFront>();
};

/// All protocols, in their order, each once.
pub fn protocols() -> impl Iterator<Item = &'static Protocol> {
    let is_first = |at: &usize| {
        let earlier = &PROTOCOLS[..*at];
        earlier.iter().all(|it| it.name != PROTOCOLS[*at].name)
    };
    (0..KINDS).filter(is_first).map(|at| PROTOCOLS[at])
}

/// The protocol of each place in the list.
pub(crate) fn protocol_at(index: usize) -> &'static Protocol {
    PROTOCOLS[index]
}

impl AnyFront {
    /// A front of another crate.
    pub fn extension(front: impl DeferredFront<Note = Effect> + 'static) -> Self {
        AnyFront::Extension(Box::new(crate::deferred::Deferred::boxed(Box::new(front))))
    }

    /// Its place in the list of fronts.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        each_front!(type of self, F => <F as Variant>::INDEX)
    }

    #[inline]
    pub(crate) fn defers(&self) -> bool {
        each_front!(self, front => Front::defers(&**front))
    }

    #[inline]
    pub(crate) fn holds_each(&self) -> bool {
        each_front!(self, front => Front::holds_each(&**front))
    }

    pub(crate) fn outbound(&mut self) -> &mut dyn Outbound {
        each_front!(self, front => &mut **front)
    }

    /// The protocol, in lower case.
    pub fn name(&self) -> &'static str {
        each_front!(self, front => front.name())
    }

    /// Whether it has timers of its own: [`Links::next_timer`] and [`Links::on_timer`].
    pub fn has_timers(&self) -> bool {
        each_front!(self, front => Front::has_timers(&**front))
    }

    /// What the peer says of itself, for operators.
    pub fn client_properties(&self) -> &[(Box<str>, Box<str>)] {
        each_front!(self, front => Front::client_properties(&**front))
    }
}
