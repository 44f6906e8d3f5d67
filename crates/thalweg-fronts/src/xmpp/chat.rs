//! Messages between people (RFC 6121, 5 and 8), which are published like everything else.
//!
//! What is sent to `user@domain` goes into the queue of that name, from which the user's resources take that are available with
//! a priority that is not negative: one of them has it, and while there is none it waits (XEP-0160). A resource also subscribes
//! to [`RESOURCES`]`/user@domain/resource` and, for headlines and what has no text, to `/user@domain`.
//!
//! The payload is the text of the message, for other protocols. The stanza itself is beside it ([`Letter`]).

use super::XmppFront;
use super::deliver::{put_delay, put_headers};
use super::directed::Directed;
use super::presence::{Announced, resources};
use super::pubsub::{Asked, FORBIDDEN, NOT_ACCEPTABLE, Refused};
use super::subscriptions::GROUP;
use crate::address::in_tenant;
use crate::front::{Cx, Variant};
use crate::native::neutral;
use thalweg_kernel::{Content, Delivery, Draft, LastValueWish, Outcome, Tag, Wish, queue_address};
use thalweg_model::place::{Place, place};
use thalweg_model::syntax::write_level;
use thalweg_model::{Details, NativeProperties, Properties, Reliability, Time};
use thalweg_xmpp::{ErrorType, Jid, Stanza, StanzaError, StanzaKind, is_xml_text, ns, put_text};

/// The first level of the addresses of resources.
const RESOURCES: &str = "$jid";

pub(super) const UNAVAILABLE: Refused = StanzaError::new(ErrorType::Cancel, "service-unavailable");
/// XEP-0160 has no other condition for it.
pub(super) const TOO_MANY_WAIT: Refused =
    UNAVAILABLE.about("no more messages are kept for this user (xmpp.offline_messages_max)");
pub(super) const MALFORMED: Refused = StanzaError::new(ErrorType::Modify, "jid-malformed");
const NO_SUCH_DOMAIN: Refused = StanzaError::new(ErrorType::Cancel, "remote-server-not-found");

/// How a client takes messages.
#[derive(Default)]
pub(super) struct Availability {
    /// What came in before has waited.
    since: Time,
    /// It has sent presence, and is subscribed to its own address.
    is_available: bool,
    /// Its priority is not negative: it takes from the user's queue.
    takes: bool,
    /// What it says of itself, while it is available.
    pub(super) announced: Option<Announced>,
    /// What it has said to single addresses, available or not.
    pub(super) directed: Directed,
}

impl Availability {
    pub(super) fn begin(&mut self, now: Time) {
        self.since = now;
    }

    pub(super) fn bytes(&self) -> usize {
        self.announced.as_ref().map_or(0, Announced::bytes) + self.directed.bytes()
    }
}

/// A message, a request to another client, or a presence, as its sender wrote it, but for `to`.
#[derive(Default)]
pub(super) struct Letter<'a> {
    pub from: &'a str,
    /// Attributes, empty where there are none.
    pub type_: &'a str,
    pub id: &'a str,
    pub lang: &'a str,
    /// Elements, each with all its declarations.
    pub content: &'a str,
}

/// Writes a [`Letter`]: its first fields, and the elements of a stanza.
pub(super) fn write_letter(fields: [&str; 4], stanza: Option<Stanza<'_>>) -> Box<[u8]> {
    let most = stanza.map_or(0, |stanza| stanza.element.raw().len() + DECLARED_BYTES);
    let mut letter =
        Vec::with_capacity(fields.iter().map(|field| field.len() + 1).sum::<usize>() + most);
    for field in fields {
        letter.extend_from_slice(field.as_bytes());
        letter.push(FIELD_END);
    }
    for child in stanza.iter().flat_map(|stanza| stanza.element.children()) {
        child.put(&mut letter);
    }
    letter.into()
}

/// The number of native properties that are a [`Letter`]; fronts agree among themselves on the numbers.
pub(super) const NATIVE: u8 = 61;
/// Any other type of a message is handled as `normal`. RFC 6121 §5.2.2
const MESSAGE_TYPES: [&str; 6] = ["", "chat", "error", "groupchat", "headline", "normal"];
/// The type of a letter begins so that is a request to another client, or its answer.
const IQ: &str = "iq:";
/// The same of a presence that is for one address.
pub(super) const PRESENCE: &str = "presence:";
/// Room for what an address of a resource has beside tenant and names.
const ENDS_BYTES: usize = 16;
/// Room for a namespace that is declared around the content of a stanza.
const DECLARED_BYTES: usize = 64;
/// Stands between the fields of a letter; XML cannot have it.
const FIELD_END: u8 = 0;

impl<'a> Letter<'a> {
    pub(super) fn read(native: &'a NativeProperties) -> Option<Letter<'a>> {
        let mut rest = std::str::from_utf8(&native.bytes).ok()?;
        let mut next = || {
            let end = rest.bytes().position(|octet| octet == FIELD_END)?;
            let field = rest.get(..end);
            rest = rest.get(end + 1..)?;
            field
        };
        (native.dialect == NATIVE).then_some(())?;
        Some(Letter {
            from: next()?,
            type_: next()?,
            id: next()?,
            lang: next()?,
            content: rest,
        })
    }
}

impl XmppFront {
    /// A stanza for an address, which is the client's own if there is none.
    pub(super) fn on_message(cx: &mut Cx<'_>, stanza: Stanza<'_>, to: &str) {
        let Err(refused) = XmppFront::route(cx, stanza, to) else {
            return;
        };
        let is_answer = match stanza.kind {
            StanzaKind::Iq => !stanza.is_request(),
            _ => stanza.type_() == "error",
        };
        if !is_answer {
            XmppFront::reply_error(cx, stanza, refused);
        }
    }

    fn route(cx: &mut Cx<'_>, stanza: Stanza<'_>, sent_to: &str) -> Result<(), Refused> {
        let front = XmppFront::of(cx.links, cx.id).ok_or(UNAVAILABLE)?;
        let to = match sent_to {
            "" => Jid::parse(&front.address).map(|own| own.to_bare()),
            to => Jid::parse(to),
        };
        let to = to.map_err(|_| MALFORMED)?;
        let domain = &*front.settings.domain;
        if to.domain() != domain {
            return match to.domain() == &*front.service {
                true => Err(UNAVAILABLE),
                false => Err(NO_SUCH_DOMAIN),
            };
        }
        if to.local().is_none() {
            return Ok(());
        }
        let is_iq = stanza.kind == StanzaKind::Iq;
        let type_ = match is_iq {
            true => format!("{IQ}{}", stanza.type_()).into(),
            false => match stanza.type_() {
                known if MESSAGE_TYPES.contains(&&*known) => known,
                _ => "normal".into(),
            },
        };
        let body = stanza.element.child("body", ns::CLIENT);
        let body = body.filter(|_| !is_iq);
        // The others are worth nothing later, and lost if there is no resource for them.
        let waits = body.is_some() && matches!(&*type_, "" | "normal" | "chat");
        if type_ == "groupchat" {
            return Err(UNAVAILABLE);
        }
        let id = stanza.id().unwrap_or_default();
        let lang = stanza.element.lang().unwrap_or_default();
        let properties = Properties {
            content_type: body.is_some().then(|| "text/plain".into()),
            details: Some(Box::new(Details {
                message_id: (!id.is_empty()).then(|| id.as_ref().into()),
                user_id: front.user().map(Into::into),
                ..Details::default()
            })),
            native: Some(NativeProperties {
                dialect: NATIVE,
                bytes: write_letter([&front.address, &type_, &id, &lang], Some(stanza)),
            }),
            ..Properties::default()
        };
        let tenant = front.settings.tenant.clone();
        let text = body.map(|body| body.text()).unwrap_or_default();
        if waits {
            XmppFront::check_room(cx, id.len() + sent_to.len())?;
        }
        let mut send = |address: &str, reliability| {
            let session = cx.session().ok_or(UNAVAILABLE)?;
            let draft = Draft {
                properties: Some(&properties),
                ..Draft::new(address, text.as_bytes(), reliability)
            };
            match cx.publish(session, draft) {
                Outcome::Accepted => Ok(true),
                Outcome::Asked => {
                    let asked = Asked::Sent {
                        question: 0,
                        id: id.as_ref().into(),
                        to: (!sent_to.is_empty()).then(|| sent_to.into()),
                    };
                    XmppFront::ask_others(cx, asked);
                    Ok(true)
                }
                Outcome::NoMatch => Ok(false),
                Outcome::Denied => Err(FORBIDDEN),
                Outcome::BadAddress => Err(NOT_ACCEPTABLE),
                Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => Err(TOO_MANY_WAIT),
            }
        };
        let reliability = match waits {
            true => Reliability::AtLeastOnce,
            false => Reliability::AtMostOnce,
        };
        if to.resource().is_some() && send(&resource_address(&tenant, &to), reliability)? {
            return Ok(());
        }
        if is_iq {
            return Err(UNAVAILABLE);
        }
        if !waits {
            // A message to a resource that is gone goes to no other one.
            if to.resource().is_none() {
                send(&resource_address(&tenant, &to), reliability)?;
            }
            return Ok(());
        }
        match send(&queue_address(&tenant, to.bare()), reliability)? {
            true => Ok(()),
            false => Err(UNAVAILABLE),
        }
    }

    /// The client is available with this priority, or not any more; whether it was before.
    pub(super) fn set_available(cx: &mut Cx<'_>, priority: Option<i8>) -> bool {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return false;
        };
        let Ok(own) = Jid::parse(&front.address) else {
            return false;
        };
        let settings = front.settings.clone();
        let has_account = front.user().is_some();
        let own_resources = front.user().map(|user| resources(&settings.tenant, user));
        let takes = priority.is_some_and(|priority| priority >= 0);
        let before = &mut front.availability;
        let was_available = std::mem::replace(&mut before.is_available, priority.is_some());
        let took = std::mem::replace(&mut before.takes, takes);
        if !was_available {
            before.begin(cx.now);
        }
        let reliability = front.reliability();
        let wish = |filter, group, reliability| Wish {
            filter,
            group,
            reliability,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Never,
            id: 0,
        };
        let queue = queue_address(&settings.tenant, own.bare());
        let [full, bare] =
            [&own, &own.to_bare()].map(|jid| resource_address(&settings.tenant, jid));
        let (mut wishes, mut ended) = (Vec::new(), Vec::new());
        match (was_available, priority.is_some()) {
            (false, true) => {
                wishes.push(wish(&full, None, reliability));
            }
            (true, false) => {
                ended.push((&*full, None));
                ended.extend(own_resources.as_deref().map(|filter| (filter, None)));
            }
            _ => {}
        }
        match (took, takes) {
            (false, true) => {
                wishes.push(wish(&bare, None, Reliability::AtMostOnce));
                if has_account && settings.offline_messages {
                    let bounded = (&*queue, Some(settings.offline_messages_max));
                    // What it is refused for is said when the client joins those who take from it.
                    _ = cx
                        .kernel
                        .make_queue(session, cx.id, 0, bounded, cx.now, cx.links);
                    wishes.push(wish(&queue, Some(GROUP), reliability));
                }
            }
            (true, false) => ended.extend([(&*bare, None), (&*queue, Some(GROUP))]),
            _ => {}
        }
        if !wishes.is_empty() {
            cx.kernel.subscribe(session, 0, &wishes, cx.now, cx.links);
        }
        if !ended.is_empty() {
            cx.kernel.unsubscribe(session, 0, &ended, cx.now, cx.links);
        }
        was_available
    }

    /// Whether what is published at an address is a message to the client.
    #[inline]
    pub(super) fn is_message_to(&self, address: &str) -> bool {
        address.starts_with('$') && self.is_letter_box(address)
    }

    #[cold]
    fn is_letter_box(&self, address: &str) -> bool {
        if is_resource(address) {
            return true;
        }
        let bare = self.address.split('/').next().unwrap_or_default();
        match place(address) {
            Place::Queue { name, .. } => self.availability.takes && *name == *bare,
            Place::Plain { address, .. } => is_resource(address),
            Place::Exchange { .. } => false,
        }
    }

    pub(super) fn put_message(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) {
        let properties = content.properties();
        let letter = properties
            .and_then(|properties| properties.native.as_ref())
            .and_then(Letter::read);
        let neutral = properties.map(neutral);
        if let (None, Some(said)) = (&letter, neutral.as_deref())
            && (self.put_response(content, said, out)
                || self.put_request(content, delivery, said, out))
        {
            return;
        }
        let details = neutral.as_deref().and_then(|known| known.details.as_ref());
        let id = match &letter {
            Some(letter) => letter.id,
            None => details
                .and_then(|details| details.message_id.as_deref())
                .unwrap_or_default(),
        };
        let (from, type_, lang) = match &letter {
            Some(letter) => (letter.from, letter.type_, letter.lang),
            None => (&*self.settings.domain, "chat", ""),
        };
        let kinds = [(IQ, StanzaKind::Iq), (PRESENCE, StanzaKind::Presence)];
        let (kind, type_) = kinds
            .into_iter()
            .find_map(|(prefix, kind)| Some((kind, type_.strip_prefix(prefix)?)))
            .unwrap_or((StanzaKind::Message, type_));
        let attributes = [
            ("from", from),
            ("to", &*self.address),
            ("type", type_),
            ("id", id),
            ("xml:lang", lang),
        ];
        let arrived = content.message().map(|message| message.ingress());
        let has_waited = arrived.is_some_and(|arrived| arrived < self.availability.since);
        let media_type = neutral
            .as_deref()
            .and_then(|known| known.content_type.as_deref());
        let settings = self.settings.clone();
        let again = super::deliver::again(delivery.tag as Tag);
        self.side.put_again(again, kind, &attributes, out, |out| {
            let text = || std::str::from_utf8(content.payload()).ok();
            if let Some(letter) = &letter {
                out.extend_from_slice(letter.content.as_bytes());
            } else if let Some(text) = text().filter(|text| is_xml_text(text)) {
                out.extend_from_slice(b"<body>");
                put_text(text, out);
                out.extend_from_slice(b"</body>");
            } else {
                super::payload::write(content.payload(), media_type, out);
            }
            put_headers(delivery, out);
            if has_waited || delivery.deliveries > 0 {
                put_delay(content, &settings.domain, out);
            }
        });
    }
}

/// The address to which a resource is subscribed, or of a bare address all resources of a user.
pub(super) fn resource_address(tenant: &str, jid: &Jid) -> String {
    let mut address = String::with_capacity(tenant.len() + jid.as_str().len() + ENDS_BYTES);
    in_tenant(tenant, RESOURCES, &mut address);
    for level in [Some(jid.bare()), jid.resource()].into_iter().flatten() {
        address.push('/');
        address.push_str(&write_level(level));
    }
    address
}

/// Whether an address is one of those.
pub(super) fn is_resource(address: &str) -> bool {
    address
        .strip_prefix(RESOURCES)
        .is_some_and(|rest| rest.starts_with('/'))
}
