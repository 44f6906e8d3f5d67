//! Presence of clients, as Thalweg publishes it at `$presence/<name>` and `$presence/<protocol>/<name>`.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use futures_core::Stream;
use thalweg_model::presence::{address, is_presence, name_of};

use crate::adaptive::json;
use crate::message::Message;
use crate::subscription::Subscription;
use crate::transport::Refusal;

/// A client came or went, or is or was there when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// The client id that the broker knows it by.
    pub client_id: String,
    /// Nothing but the client says that this is its name: it speaks AMQP or STOMP and has not logged in as the user of that
    /// name. Any other client may say the same.
    pub claimed: bool,
    /// Whether it is connected to the broker.
    pub online: bool,
    /// Protocol and version in readable form: `MQTT 5.0`.
    pub protocol: String,
    /// Since when, by the broker's clock.
    pub since: SystemTime,
    /// Why it is not here any more; nothing while it is, and if the broker has a word that is not known here.
    pub why: Option<Leaving>,
}

/// Why a client is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leaving {
    /// It ended its connection with its protocol's goodbye (DISCONNECT, close, …).
    Goodbye,
    /// Its connection ended without a word.
    Lost,
    /// Timed out: the keep-alive of the client, or an observer that does not answer.
    Silent,
    /// The broker ended it: an operator, a limit, or what it did.
    Cut,
}

impl Leaving {
    /// The broker's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Leaving::Goodbye => "goodbye",
            Leaving::Lost => "lost",
            Leaving::Silent => "silent",
            Leaving::Cut => "cut",
        }
    }
}

/// Presence of other clients: a [`Stream`], or [`PresenceSubscription::next`] in a loop. First the connected clients
/// and those that left a short while ago, then every change. A client may be reported twice.
#[derive(Debug)]
pub struct PresenceSubscription {
    pub(crate) inner: Subscription,
}

impl PresenceSubscription {
    /// The next change; `None` when there will be none.
    pub async fn next(&mut self) -> Option<Presence> {
        std::future::poll_fn(|context| self.poll(context.waker())).await
    }

    /// The next change, if one waits.
    pub fn try_next(&mut self) -> Option<Presence> {
        loop {
            if let Some(presence) = Presence::of(&self.inner.try_next()?) {
                return Some(presence);
            }
        }
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Option<Presence>> {
        loop {
            match self.inner.poll(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                // Messages that cannot be parsed are skipped: a later broker may send more kinds.
                Poll::Ready(Some(message)) => {
                    if let Some(presence) = Presence::of(&message) {
                        return Poll::Ready(Some(presence));
                    }
                }
            }
        }
    }
}

impl Stream for PresenceSubscription {
    type Item = Presence;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Presence>> {
        self.get_mut().poll(context.waker())
    }
}

impl Presence {
    fn of(message: &Message) -> Option<Presence> {
        Presence::read(message.topic(), message.payload())
    }

    fn read(topic: &str, payload: &[u8]) -> Option<Presence> {
        let named = name_of(topic)?;
        let mut told = json::read(std::str::from_utf8(payload).ok()?).ok()?;
        let online = match told.text("state").ok()?.as_str() {
            "online" => true,
            "offline" => false,
            _ => return None,
        };
        let since_ms = told.number("since_ms", 0.0, SINCE_MS_MAX).ok()?;
        let why = match told.text("why").unwrap_or_default().as_str() {
            "goodbye" => Some(Leaving::Goodbye),
            "lost" => Some(Leaving::Lost),
            "silent" => Some(Leaving::Silent),
            "cut" => Some(Leaving::Cut),
            _ => None,
        };
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(since_ms as u64);
        let (client_id, claimed) = (named.name.into_owned(), named.claimed_in.is_some());
        Some(Presence {
            client_id,
            claimed,
            online,
            protocol: told.text("protocol").ok()?,
            since,
            why,
        })
    }
}

/// The filter of clients with this name; `+`: of all.
pub(crate) fn filter(clients: &str) -> Cow<'static, str> {
    match clients {
        "+" => Cow::Borrowed("$presence/#"),
        name => Cow::Owned(address("", name)),
    }
}

/// Why a filter cannot be subscribed at a broker that is known not to tell of presence.
pub(crate) fn refusal(filter: &str, is_thalweg: bool) -> Option<Refusal> {
    (!is_thalweg && is_presence(filter)).then_some(Refusal::Unsupported(
        "the broker does not tell who is online",
    ))
}

/// The year 9999: beyond it a `SystemTime` may overflow.
const SINCE_MS_MAX: f64 = 253_402_300_799_999.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_broker_tells_is_read() {
        let online = br#"{"state":"online","protocol":"MQTT 5.0","since_ms":1763823921123}"#;
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(1_763_823_921_123);
        let here = Presence {
            client_id: "a/b".into(),
            claimed: false,
            online: true,
            protocol: "MQTT 5.0".into(),
            since,
            why: None,
        };
        assert_eq!(
            Presence::read("$presence/a%2Fb", online),
            Some(here.clone())
        );
        let claimed = Presence::read("$presence/stomp/a%2Fb", online);
        assert_eq!(
            claimed,
            Some(Presence {
                claimed: true,
                ..here.clone()
            })
        );
        let gone =
            br#"{"state":"offline","protocol":"MQTT 5.0","since_ms":1763823921123,"why":"silent"}"#;
        let gone = Presence::read("$presence@blue/a%2Fb", gone);
        assert_eq!(
            gone,
            Some(Presence {
                online: false,
                why: Some(Leaving::Silent),
                ..here
            })
        );
        // A later broker's word.
        let later =
            br#"{"state":"offline","protocol":"x","since_ms":0,"why":"bored","user":"ada"}"#;
        assert_eq!(
            Presence::read("$presence/x", later).map(|later| (later.online, later.why)),
            Some((false, None))
        );
    }

    #[test]
    fn what_is_no_presence_is_none() {
        let told = br#"{"state":"online","protocol":"x","since_ms":1}"#;
        assert!(Presence::read("$presence/x", told).is_some());
        for topic in ["presence/x", "$presence/x/y/z", "$presence"] {
            assert_eq!(Presence::read(topic, told), None, "{topic}");
        }
        let broken: [&[u8]; 6] = [
            b"",
            b"online",
            b"\xFF",
            br#"{"state":"away","protocol":"x","since_ms":1}"#,
            br#"{"state":"online","protocol":"x","since_ms":1e300}"#,
            br#"{"state":"online","since_ms":1}"#,
        ];
        for payload in broken {
            assert_eq!(Presence::read("$presence/x", payload), None, "{payload:?}");
        }
    }

    #[test]
    fn a_name_is_one_level_whatever_is_in_it() {
        assert_eq!(
            (&*filter("+"), &*filter("gateway-7"), &*filter("a/#")),
            ("$presence/#", "$presence/gateway-7", "$presence/a%2F%23")
        );
    }
}
