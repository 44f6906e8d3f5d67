//! Presence that a client sends to single addresses (RFC 6121, 4.6).
//!
//! It is published as a message to that address is, by the same rights, but does not wait for who is not there. What was said is known
//! as long as the stream lasts: when the client or its connection goes, all who got it are told so, and again what it had said to them
//! if the stream goes on.

use super::XmppFront;
use super::chat::{MALFORMED, PRESENCE, UNAVAILABLE, resource_address, write_letter};
use super::presence::{Announced, properties_of, word_of};
use super::pubsub::{FORBIDDEN, NO_ROOM, NOT_ACCEPTABLE, Refused};
use crate::front::{Cx, Variant};
use std::collections::BTreeMap;
use thalweg_kernel::{Draft, Outcome, SessionId};
use thalweg_model::Reliability;
use thalweg_xmpp::{ErrorType, Jid, Stanza, StanzaError};

/// Octets of addresses and stanzas that are known for one client.
const BYTES_MAX: usize = 64 << 10;
/// What an address costs beside its texts.
const ENTRY_BYTES: usize = 64;
const TOO_MANY: Refused = StanzaError::new(ErrorType::Wait, "resource-constraint")
    .about("presence to single addresses takes more than 64 KiB");

/// What a client has said to single addresses.
#[derive(Default)]
pub(super) struct Directed {
    by_address: BTreeMap<Box<str>, Announced>,
    bytes: usize,
}

impl Directed {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn cost_of(&self, address: &str) -> usize {
        let said = self.by_address.get(address);
        said.map_or(0, |said| cost(address, said))
    }

    fn has_room(&self, address: &str, said: &Announced) -> bool {
        self.bytes - self.cost_of(address) + cost(address, said) <= BYTES_MAX
    }

    fn set(&mut self, address: String, said: Announced) {
        self.bytes -= self.cost_of(&address);
        if said.word.is_empty() {
            self.by_address.remove(&*address);
            return;
        }
        self.bytes += cost(&address, &said);
        self.by_address.insert(address.into(), said);
    }
}

fn cost(address: &str, said: &Announced) -> usize {
    ENTRY_BYTES + address.len() + said.bytes()
}

impl XmppFront {
    /// Sends a presence, or that there is none any more, to a user or a resource.
    pub(super) fn direct(cx: &mut Cx<'_>, stanza: Stanza<'_>, to: &str) -> Result<(), Refused> {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return Err(UNAVAILABLE);
        };
        let to = Jid::parse(to).map_err(|_| MALFORMED)?;
        let address = resource_address(&front.settings.tenant, &to);
        let type_ = format!("{PRESENCE}{}", stanza.type_());
        let id = stanza.id().unwrap_or_default();
        let lang = stanza.element.lang().unwrap_or_default();
        let fields = [&*front.address, &*type_, &*id, &*lang];
        let said = Announced {
            word: word_of(stanza).into(),
            letter: write_letter(fields, Some(stanza)),
        };
        let is_gone = said.word.is_empty();
        if !is_gone && !front.availability.directed.has_room(&address, &said) {
            return Err(TOO_MANY);
        }
        XmppFront::tell(cx, session, &address, said.clone())?;
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.availability.directed.set(address, said);
        }
        XmppFront::count_directed(cx);
        Ok(())
    }

    fn tell(
        cx: &mut Cx<'_>,
        session: SessionId,
        address: &str,
        Announced { word, letter }: Announced,
    ) -> Result<(), Refused> {
        let properties = properties_of(letter);
        // What is there may be gone when a message that has waited arrives; what is gone stays gone.
        let reliability = match word.is_empty() {
            true => Reliability::AtLeastOnce,
            false => Reliability::AtMostOnce,
        };
        let draft = Draft {
            properties: Some(&properties),
            ..Draft::new(address, word.as_bytes(), reliability)
        };
        match cx.publish(session, draft) {
            // Presence has no answer but an error.
            Outcome::Accepted | Outcome::Asked | Outcome::NoMatch => Ok(()),
            Outcome::Denied => Err(FORBIDDEN),
            Outcome::BadAddress => Err(NOT_ACCEPTABLE),
            Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => Err(NO_ROOM),
        }
    }

    /// The stream goes on, after those who got a presence were told that the client has gone.
    pub(super) fn direct_again(cx: &mut Cx<'_>, session: SessionId) {
        let Some(front) = XmppFront::at(cx.links, cx.id) else {
            return;
        };
        let all = front.availability.directed.by_address.clone();
        for (address, said) in all {
            // It was allowed before, and no request waits for an answer.
            _ = XmppFront::tell(cx, session, &address, said);
        }
    }

    /// Tells those who got a presence that the client has gone. `is_over`: it cannot come back.
    pub(super) fn take_leave(cx: &mut Cx<'_>, is_over: bool) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let directed = &mut front.availability.directed;
        let addresses: Vec<Box<str>> = directed.by_address.keys().cloned().collect();
        if addresses.is_empty() {
            return;
        }
        if is_over {
            *directed = Directed::default();
        }
        let type_ = format!("{PRESENCE}unavailable");
        let properties = properties_of(write_letter([&front.address, &type_, "", ""], None));
        for address in &addresses {
            let draft = Draft {
                properties: Some(&properties),
                ..Draft::new(address, b"", Reliability::AtLeastOnce)
            };
            // The broker says it, as for wills: the client was allowed to announce itself, and its session may be gone.
            cx.kernel.publish_own(draft, cx.now, cx.links);
        }
        XmppFront::count_directed(cx);
    }

    fn count_directed(cx: &mut Cx<'_>) {
        let kept = XmppFront::at(cx.links, cx.id).map_or(0, XmppFront::kept_bytes);
        cx.links.count_kept(cx.id, kept, cx.kernel);
    }
}
