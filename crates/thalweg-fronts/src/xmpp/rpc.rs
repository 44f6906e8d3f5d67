//! Requests to clients of any protocol, and theirs to clients of XMPP: IQ stanzas to and from `rpc.DOMAIN/ADDRESS`.
//!
//! A request of the client is published at the address, with an address below the client's own ([`super::chat`]) for the answer and
//! a correlation; the answer is the result. A message for a client that says where an answer goes comes as a request from the address of
//! that answer, its correlation in the id, so that nothing has to be kept for it: the result is published there, with the
//! rights of the client.

use super::chat::{UNAVAILABLE, resource_address};
use super::deliver::again;
use super::pubsub::{
    BAD_REQUEST, FORBIDDEN, NO_ROOM, NOT_ACCEPTABLE, Refused, address_of, node_of,
};
use super::{ASKED_MAX, XmppFront, payload};
use crate::front::{Cx, Variant};
use thalweg_kernel::access::Permission;
use thalweg_kernel::{Content, Delivery, Draft, LastValueWish, Outcome, SessionId, Tag, Wish};
use thalweg_model::{Properties, Reliability};
use thalweg_xmpp::{ErrorType, Jid, Stanza, StanzaError, StanzaKind};

/// Before the domain, for the service of requests.
pub(super) const SERVICE: &str = "rpc.";
/// The level below the address of a resource at which it takes answers.
const ANSWERS: &str = "/rpc";
/// Before a correlation in hexadecimal, in the id of a request to the client.
const CORRELATED: &str = "c-";
const TIMEOUT: Refused = StanzaError::new(ErrorType::Wait, "remote-server-timeout");

/// What the client has asked and is not answered yet.
pub(super) type Calls = crate::calls::Calls<Asked>;

/// The id and the receiver of a request's stanza.
pub(super) struct Asked {
    id: Box<str>,
    to: Box<str>,
}

impl XmppFront {
    /// The node in an address of the service of requests; empty in that of the service itself.
    pub(super) fn rpc_node<'t>(&self, to: &'t str) -> Option<&'t str> {
        let rest = to
            .strip_prefix(SERVICE)?
            .strip_prefix(&*self.settings.domain)?;
        match rest {
            "" => Some(""),
            rest => rest.strip_prefix('/'),
        }
    }

    /// A request to an address, or the client's answer to one.
    pub(super) fn on_rpc(cx: &mut Cx<'_>, stanza: Stanza<'_>, node: &str) {
        let done = match &*stanza.type_() {
            "get" | "set" => XmppFront::call(cx, stanza, node),
            // Other protocols have no error answer: nothing is sent to the requester.
            "result" => return XmppFront::respond(cx, stanza, node),
            _ => return,
        };
        if let Err(refused) = done {
            XmppFront::reply_error(cx, stanza, refused);
        }
    }

    fn call(cx: &mut Cx<'_>, stanza: Stanza<'_>, node: &str) -> Result<(), Refused> {
        let address = address_of(node).ok_or(NOT_ACCEPTABLE)?;
        let (mut body, mut children) = (Vec::new(), stanza.element.children());
        let element = children.next().ok_or(BAD_REQUEST)?;
        if children.next().is_some() {
            return Err(BAD_REQUEST);
        }
        let content_type = payload::read(element, &mut body).ok_or(BAD_REQUEST)?;
        let session = cx.session().ok_or(UNAVAILABLE)?;
        XmppFront::take_answers(cx, session)?;
        let front = XmppFront::of(cx.links, cx.id).ok_or(UNAVAILABLE)?;
        let timeout = front.settings.request_timeout;
        let calls = front.calls.as_mut().ok_or(UNAVAILABLE)?;
        if calls.len() >= ASKED_MAX {
            return Err(NO_ROOM);
        }
        let asked = Asked {
            id: stanza.id().unwrap_or_default().into(),
            to: stanza.to().unwrap_or_default().into(),
        };
        let bytes = asked.id.len() + asked.to.len();
        let number = calls.add(cx.now + timeout, asked, bytes);
        let properties = Properties {
            content_type,
            reply_to: Some(calls.reply_to()),
            correlation: Some(calls.correlation(number).into_bytes().into()),
            ..Properties::default()
        };
        let draft = Draft {
            properties: Some(&properties),
            // A request whose asker no longer waits need not be served.
            expires_in: Some(timeout),
            ..Draft::new(&address, &body, Reliability::AtLeastOnce)
        };
        let kept = front.kept_bytes();
        let refused = match cx.links.count_kept(cx.id, kept, cx.kernel) {
            false => Some(NO_ROOM),
            true => match cx.publish(session, draft) {
                Outcome::Accepted | Outcome::Asked => None,
                Outcome::NoMatch => Some(UNAVAILABLE),
                Outcome::Denied => Some(FORBIDDEN),
                Outcome::BadAddress => Some(NOT_ACCEPTABLE),
                Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => Some(NO_ROOM),
            },
        };
        let question = cx.kernel.question();
        let front = XmppFront::of(cx.links, cx.id);
        let Some(calls) = front.and_then(|front| front.calls.as_mut()) else {
            return Err(UNAVAILABLE);
        };
        match refused {
            None => {
                calls.is_asked_of_shards(number, question);
                Ok(())
            }
            Some(refused) => {
                calls.take(number);
                Err(refused)
            }
        }
    }

    /// Subscribes to the address for answers, unless that is done.
    fn take_answers(cx: &mut Cx<'_>, session: SessionId) -> Result<(), Refused> {
        let front = XmppFront::of(cx.links, cx.id).ok_or(UNAVAILABLE)?;
        if front.calls.is_some() {
            return Ok(());
        }
        let own = Jid::parse(&front.address).map_err(|_| UNAVAILABLE)?;
        let reply_to = resource_address(&front.settings.tenant, &own) + ANSWERS;
        let key = cx.kernel.name_key(front.nonce);
        let access = cx.kernel.session_access(session).ok_or(FORBIDDEN)?;
        if !access.allows(Permission::Subscribe, &reply_to) {
            return Err(FORBIDDEN
                .about("the user may not subscribe to its own address, where answers come to"));
        }
        front.calls = Some(Box::new(Calls::new(&reply_to, key)));
        let wish = Wish {
            filter: &reply_to,
            group: None,
            reliability: Reliability::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Never,
            id: 0,
        };
        cx.kernel.subscribe(session, 0, &[wish], cx.now, cx.links);
        Ok(())
    }

    /// What other shards say of a publish is known: a request that they refuse has no answer.
    pub(super) fn on_call_decided(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        let front = XmppFront::of(cx.links, cx.id).filter(|_| is_refused);
        let Some(calls) = front.and_then(|front| front.calls.as_mut()) else {
            return;
        };
        if let Some(call) = calls.take_refused(question) {
            XmppFront::fail_call(cx, &call, NO_ROOM);
        }
    }

    fn fail_call(cx: &mut Cx<'_>, call: &Asked, error: StanzaError) {
        XmppFront::write(cx.links, cx.id, |front, out| {
            front.put_error(StanzaKind::Iq, &call.id, Some(&call.to), error, out);
        });
    }

    /// Answers requests that were not answered in time.
    pub(super) fn give_up_calls(cx: &mut Cx<'_>) {
        let now = cx.now;
        loop {
            let front = XmppFront::of(cx.links, cx.id);
            let calls = front.and_then(|front| front.calls.as_mut());
            let Some(call) = calls.and_then(|calls| calls.take_due(now)) else {
                return;
            };
            XmppFront::fail_call(cx, &call, TIMEOUT);
        }
    }

    /// Writes the result of a request if this message is the answer to one.
    pub(super) fn put_response(
        &mut self,
        content: &Content<'_>,
        said: &Properties,
        out: &mut Vec<u8>,
    ) -> bool {
        let (Some(calls), Some(correlation)) = (&mut self.calls, &said.correlation) else {
            return false;
        };
        let Some(call) = calls.take_answered(correlation) else {
            return false;
        };
        self.put_long_answer(&call.id, Some(&call.to), out, |_, room, out| {
            (content.payload().len() <= room).then_some(())?;
            if !content.payload().is_empty() {
                payload::write(content.payload(), said.content_type.as_deref(), out);
            }
            Some(())
        });
        true
    }

    /// Writes a message that says where an answer goes as a request; false if that place is no address of XMPP.
    pub(super) fn put_request(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        said: &Properties,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(reply_to) = &said.reply_to else {
            return false;
        };
        let from = format!("{SERVICE}{}/{}", self.settings.domain, node_of(reply_to));
        if Jid::parse(&from).is_err() {
            return false;
        }
        let id = match &said.correlation {
            Some(correlation) => correlation.iter().fold(CORRELATED.to_owned(), |id, octet| {
                id + &format!("{octet:02x}")
            }),
            None => self.new_name().into(),
        };
        let to = self.address.clone();
        let attributes = [
            ("from", &*from),
            ("to", &*to),
            ("type", "set"),
            ("id", &*id),
        ];
        let again = again(delivery.tag as Tag);
        let media_type = said.content_type.as_deref();
        self.side
            .put_again(again, StanzaKind::Iq, &attributes, out, |out| {
                payload::write(content.payload(), media_type, out);
            });
        true
    }

    /// Publishes the client's answer where the request said.
    fn respond(cx: &mut Cx<'_>, stanza: Stanza<'_>, node: &str) {
        let (Some(session), Some(address)) = (cx.session(), address_of(node)) else {
            return;
        };
        let mut body = Vec::new();
        let element = stanza.payload();
        let content_type = element.and_then(|element| payload::read(element, &mut body).flatten());
        let id = stanza.id().unwrap_or_default();
        let correlation = id.strip_prefix(CORRELATED).and_then(octets_of_hex);
        let properties = Properties {
            content_type,
            correlation: correlation.map(Into::into),
            ..Properties::default()
        };
        let draft = Draft {
            properties: Some(&properties),
            ..Draft::new(&address, &body, Reliability::AtLeastOnce)
        };
        // What it is refused for is counted; a result has no answer.
        cx.publish(session, draft);
    }
}

fn octets_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
