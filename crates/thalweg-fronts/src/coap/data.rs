//! `/ps/data/…`: addresses as resources. GET reads the last value, PUT and POST publish, DELETE clears, FETCH lists.

use super::answer::{Answer, no_value, other_format, session_ended};
use super::collection::not_yet;
use super::desk::Desk;
use super::handler::{Done, Handler, Request};
use super::identity::IdentityId;
use super::queue::{expiry_of, properties_of, reliability_of};
use super::representation::{OPTIONS_MAX, Representation, StampBytes, media_type_of};
use super::resource::{Reserved, Style, Wishes, reserved};
use super::side::Side;
use super::waiting::{Ask, Asked, Condition, Hold, KeptPut, Waiting, accept};
use crate::address::in_tenant;
use crate::front::{Cx, Variant};
use crate::stamp;
use thalweg_coap::{Code, ExchangeId, Response, Value, content_format, option};
use thalweg_kernel::{Draft, ListSpec, Outcome, SessionId, Ticket};
use thalweg_model::{Filter, Message, Reliability, RetainOp, STAMP_OPTION, Time};

/// Addresses that are remembered to have a value. When there are more, all are forgotten and asked for again.
const KNOWN_MAX: usize = 65_536;
/// The Max-Age that a response without one has. RFC 7252 §5.10.5
const MAX_AGE_DEFAULT: u32 = 60;

impl<S: Side> Handler<S> {
    /// A request to an address, or to all of them.
    pub(super) fn on_data(
        &mut self,
        address: Option<&str>,
        style: Style,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        if style == Style::Emqx && !self.settings.emqx_paths {
            return Err(Answer::words(Code::NOT_FOUND, "there is no such topic"));
        }
        let wishes = Wishes::read(&request.options)?;
        match (request.code, address) {
            (Code::FETCH, _) => self.list(address, &wishes, request, cx),
            (Code::GET, None) => self.list(None, &wishes, request, cx),
            // Of an observation it is a content filter.
            (Code::GET, _) if wishes.filter.is_some() && !request.observes => {
                self.list(address, &wishes, request, cx)
            }
            (_, None) => Err(Answer::words(
                Code::METHOD_NOT_ALLOWED,
                "all data are listed by GET or FETCH",
            )),
            // What an empty path names: an empty level alone is no address.
            (_, Some("")) => Err(Answer::words(
                Code::BAD_REQUEST,
                "an address has at least one character",
            )),
            (Code::GET, Some(address)) if request.observes => {
                self.register(address, &wishes, request, cx)
            }
            (Code::GET, Some(address)) => self.get(address, request, cx),
            (Code::PUT | Code::POST, Some(address)) => {
                self.put(address, style, &wishes, request, cx)
            }
            (Code::DELETE, Some(address)) => self.delete(address, &wishes, request, cx),
            _ => Err(Answer::words(
                Code::METHOD_NOT_ALLOWED,
                "data knows GET, FETCH, PUT, POST and DELETE",
            )),
        }
    }

    /// Asks for the last value.
    pub(super) fn get(&mut self, address: &str, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let ask = Ask::read(&request.options, self.topic_format(address, cx));
        let ticket = self.wait(
            Waiting::Get {
                exchange: request.exchange,
                ask,
            },
            cx.now,
        )?;
        self.read(ticket, request.session, address, cx)
    }

    /// What the values of an address are, if its topic says so. Draft §2.2.1
    pub(super) fn topic_format(&self, address: &str, cx: &Cx<'_>) -> Option<u16> {
        let desk = Desk::at(cx.links, self.desk?)?;
        desk.topics.at(address)?.configuration.content_format
    }

    fn read(&mut self, ticket: Ticket, session: SessionId, address: &str, cx: &mut Cx<'_>) -> Done {
        let Cx {
            now, kernel, links, ..
        } = cx;
        if kernel.read_last_value(session, self.link, ticket, address, *now, *links) {
            return Ok(());
        }
        self.waiting.take(ticket);
        Err(forbidden())
    }

    fn put(
        &mut self,
        address: &str,
        style: Style,
        wishes: &Wishes<'_>,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        let is_kept = match reserved(address) {
            Reserved::No => wishes.retain.unwrap_or(style == Style::Data),
            Reserved::Passes => false,
            Reserved::ReadOnly => {
                return Err(Answer::words(
                    Code::FORBIDDEN,
                    "the address is the broker's own",
                ));
            }
        };
        self.check_rate(request, cx.now)?;
        let format = content_format(request);
        self.check_topic(address, format, cx)?;
        let stamp = stamp::read(wishes.stamp, cx.kernel);
        let of_few = match wishes.has_user_properties || stamp.is_some() {
            true => properties_of(wishes, request, stamp, cx),
            false => None,
        };
        if of_few.is_none() && format.is_some() && self.memo.0 != format {
            self.memo.0 = format;
            self.memo.1.content_type = format.map(|format| media_type_of(format).into());
        }
        let reliability = reliability_of(wishes, request);
        let retain = if is_kept {
            RetainOp::Set
        } else {
            RetainOp::None
        };
        let expires_in = expiry_of(wishes, request);
        let condition = Condition::read(&request.options);
        if let Some(condition) = condition {
            let properties = of_few.or_else(|| format.map(|_| self.memo.1.clone()));
            let put = KeptPut {
                identity: request.identity.0,
                condition: Some(condition),
                address: address.into(),
                payload: request.payload.into(),
                reliability,
                retain,
                expires_in,
                priority: wishes.priority,
                properties,
                stamp,
            };
            return self.decide(put, request, cx);
        }
        let is_first_asked = is_kept && !self.known.contains(&self.known_key(address));
        let asked = if is_first_asked {
            self.ask_whether_first(address, request, cx)
        } else {
            None
        };
        let memo = format.map(|_| std::mem::take(&mut self.memo));
        let properties = of_few
            .as_ref()
            .or(memo.as_ref().map(|(_, properties)| properties));
        let draft = Draft {
            address,
            payload: request.payload,
            reliability,
            retain,
            expires_in,
            priority: wishes.priority,
            properties,
            ticket: 0,
            native: None,
            stamp,
        };
        let published = self.publish(request.identity, request.session, draft, cx);
        if let Some(memo) = memo {
            self.memo = memo;
        }
        self.after_put(published, asked, request.exchange, cx)
    }

    /// Whether a publish is what the topic of its address wants. Draft §3.2.1
    fn check_topic(&self, address: &str, format: Option<u16>, cx: &Cx<'_>) -> Done {
        let desk = self.desk.and_then(|desk| Desk::at(cx.links, desk));
        match desk.and_then(|desk| desk.topics.at(address)) {
            Some(topic)
                if topic
                    .configuration
                    .content_format
                    .is_some_and(|wanted| Some(wanted) != format) =>
            {
                Err(Answer::words(
                    Code::UNSUPPORTED_CONTENT_FORMAT,
                    "the topic of this address has another Content-Format",
                ))
            }
            None if !self.settings.auto_create && desk.is_none_or(|desk| !desk.is_known) => {
                Err(not_yet())
            }
            None if !self.settings.auto_create => Err(Answer::words(
                Code::NOT_FOUND,
                "there is no topic with this address: create it at /ps",
            )),
            _ => Ok(()),
        }
    }

    /// Asks for the value that there is before a publish: whether that creates one is known by the answer.
    #[cold]
    fn ask_whether_first(
        &mut self,
        address: &str,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Option<Ticket> {
        let key = self.known_key(address);
        let ticket = self.waiting.insert(
            Waiting::Created {
                exchange: request.exchange,
                batch: None,
                key,
            },
            cx.now,
        )?;
        // A peer that may not read gets 2.04 without the value.
        self.read(ticket, request.session, address, cx)
            .is_ok()
            .then_some(ticket)
    }

    /// Publishes; the batch that the answer must wait for, or why it was not done.
    pub(super) fn publish(
        &mut self,
        identity: IdentityId,
        session: SessionId,
        draft: Draft<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Hold>, Answer> {
        let (batch, outcome) = self.publish_for(identity, session, draft, cx);
        refusal_of(outcome).map_or(Ok(batch), Err)
    }

    /// Publishes; the batch that the answer must wait for, and what came of it.
    pub(super) fn publish_for(
        &mut self,
        identity: IdentityId,
        session: SessionId,
        mut draft: Draft<'_>,
        cx: &mut Cx<'_>,
    ) -> (Option<Hold>, Outcome) {
        let Cx {
            now, kernel, links, ..
        } = cx;
        let is_exactly_once = draft.reliability == Reliability::ExactlyOnce;
        if is_exactly_once {
            self.ticket_last = self.ticket_last.wrapping_add(1).max(1);
            draft.ticket = self.ticket_last;
        }
        links.take_hold();
        let published = kernel.publish(session, draft, *now, *links);
        if is_exactly_once {
            // The machine knows repetitions by itself; receivers get it as it was meant.
            kernel.release(session, self.ticket_last, *links);
        }
        let mut batch = links.take_hold().map(Hold::Batch);
        if published.outcome == Outcome::Asked {
            let question = kernel.question();
            self.asked.insert(question, (*now, Asked::Publish));
            batch = Some(Hold::Question(question));
        }
        if let Some(until) = published.pause_until {
            self.identities.set_busy_until(identity, until);
        }
        (batch, published.outcome)
    }

    /// Answers a publish; `asked` whether it was the first.
    fn after_put(
        &mut self,
        published: Result<Option<Hold>, Answer>,
        asked: Option<Ticket>,
        exchange: ExchangeId,
        cx: &mut Cx<'_>,
    ) -> Done {
        match (published, asked) {
            (Err(answer), asked) => {
                if let Some(ticket) = asked {
                    self.waiting.forget(ticket);
                }
                Err(answer)
            }
            (Ok(batch), None) => {
                self.finish(exchange, Answer::of(Code::CHANGED), batch, cx);
                Ok(())
            }
            (Ok(batch), Some(ticket)) => {
                if let Some(Waiting::Created { batch: of, .. }) = self.waiting.get_mut(ticket) {
                    *of = batch;
                }
                Ok(())
            }
        }
    }

    /// Does a request, or not, when the value that there is is known. Another shard's publisher can come in between.
    fn decide(&mut self, put: KeptPut, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let address = put.address.clone();
        let waiting = Waiting::Condition {
            exchange: request.exchange,
            put: Box::new(put),
        };
        let ticket = self.wait(waiting, cx.now)?;
        self.read(ticket, request.session, &address, cx)
    }

    fn delete(
        &mut self,
        address: &str,
        wishes: &Wishes<'_>,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        if reserved(address) != Reserved::No {
            return Err(Answer::words(
                Code::FORBIDDEN,
                "the address keeps no value of yours",
            ));
        }
        self.check_rate(request, cx.now)?;
        let stamp = stamp::read(wishes.stamp, cx.kernel);
        let reliability = if request.confirmable {
            Reliability::AtLeastOnce
        } else {
            Reliability::AtMostOnce
        };
        if let Some(condition) = Condition::read(&request.options) {
            let put = KeptPut {
                identity: request.identity.0,
                condition: Some(condition),
                address: address.into(),
                payload: Box::default(),
                reliability,
                retain: RetainOp::Clear,
                expires_in: None,
                priority: 0,
                properties: None,
                stamp,
            };
            return self.decide(put, request, cx);
        }
        let key = self.known_key(address);
        self.known.remove(&key);
        let draft = Draft {
            stamp,
            ..bare(address, &[], RetainOp::Clear, reliability)
        };
        let batch = self.publish(request.identity, request.session, draft, cx)?;
        self.finish(request.exchange, Answer::of(Code::DELETED), batch, cx);
        Ok(())
    }

    /// A value that was asked for is there, or is not.
    pub(super) fn on_read(&mut self, ticket: Ticket, value: Option<Message>, cx: &mut Cx<'_>) {
        match self.waiting.take(ticket) {
            Some(Waiting::Get { exchange, ask }) => {
                self.respond_with(exchange, &ask, value.as_ref(), None, cx.now)
            }
            Some(Waiting::Created {
                exchange,
                batch,
                key,
            }) => {
                if self.known.len() >= KNOWN_MAX {
                    self.known.clear();
                }
                self.known.insert(key);
                let code = if value.is_some() {
                    Code::CHANGED
                } else {
                    Code::CREATED
                };
                self.finish(exchange, Answer::of(code), batch, cx);
            }
            Some(Waiting::Condition { exchange, put }) => {
                if let Err(answer) = self.on_decided(exchange, &put, value.as_ref(), cx) {
                    self.respond(exchange, &answer, cx.now);
                }
            }
            _ => {}
        }
    }

    fn on_decided(
        &mut self,
        exchange: ExchangeId,
        put: &KeptPut,
        value: Option<&Message>,
        cx: &mut Cx<'_>,
    ) -> Done {
        let representation = value.map(|value| Representation::of(value, 0, cx.now));
        if put
            .condition
            .as_ref()
            .is_some_and(|condition| !condition.holds(representation.as_ref()))
        {
            return Err(Answer::words(
                Code::PRECONDITION_FAILED,
                "the value is not what If-Match or If-None-Match asks for",
            ));
        }
        let identity = IdentityId(put.identity);
        let Some(session) = self.identities.session(identity) else {
            return Err(session_ended());
        };
        let batch = self.publish(identity, session, put.draft(), cx)?;
        let key = self.known_key(&put.address);
        let code = match (put.retain, value) {
            (RetainOp::Clear, _) => {
                self.known.remove(&key);
                Code::DELETED
            }
            (RetainOp::Set, None) => Code::CREATED,
            _ => Code::CHANGED,
        };
        self.finish(exchange, Answer::of(code), batch, cx);
        Ok(())
    }

    /// Responds with a value as a GET wants it.
    pub(super) fn respond_with(
        &mut self,
        exchange: ExchangeId,
        ask: &Ask,
        value: Option<&Message>,
        offered: Option<Reliability>,
        now: Time,
    ) {
        let Some(value) = value else {
            return self.respond(exchange, &no_value(), now);
        };
        let shown =
            Representation::of(value, self.settings.max_age_secs, now).or_format(ask.format);
        if !ask.accepts(shown.content_format) {
            return self.respond(exchange, &other_format(), now);
        }
        let is_known = ask.has(&shown);
        let mut options = [(option::ETAG, Value::Opaque(&shown.etag)); OPTIONS_MAX + 1];
        let mut count = shown.write(is_known, &mut options);
        if let (Some(slot), Some(offered)) = (options.get_mut(count), offered) {
            *slot = (option::OFFERED, Value::Uint(offered as u32));
            count += 1;
        }
        let options = options.get(..count).unwrap_or_default();
        let (code, payload) = if is_known {
            (Code::VALID, &[][..])
        } else {
            (Code::CONTENT, value.payload())
        };
        self.side.respond(
            exchange,
            &Response {
                code,
                options,
                payload,
            },
            now,
        );
    }

    /// Lists last values: of what is below an address, or of what a filter matches.
    fn list(
        &mut self,
        address: Option<&str>,
        wishes: &Wishes<'_>,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        let mut filter = String::new();
        match (wishes.filter, address) {
            (Some(wanted), _) => in_tenant(&self.settings.tenant, wanted, &mut filter),
            (None, None) => in_tenant(&self.settings.tenant, "#", &mut filter),
            (None, Some(address)) => {
                filter.push_str(address);
                filter.push_str("/#");
            }
        }
        if Filter::check(&filter).is_err() {
            return Err(Answer::words(
                Code::BAD_REQUEST,
                "this is no filter: + is one level, # at the end is any number",
            ));
        }
        let format = accept(&request.options).unwrap_or(content_format::LINK_FORMAT);
        if format != content_format::LINK_FORMAT && format != content_format::CBOR {
            return Err(Answer::words(
                Code::NOT_ACCEPTABLE,
                "lists are application/link-format or application/cbor",
            ));
        }
        let ticket = self.wait(
            Waiting::List {
                exchange: request.exchange,
                format,
            },
            cx.now,
        )?;
        let Cx {
            now, kernel, links, ..
        } = cx;
        let max = self.settings.list_max;
        if kernel.list_last_values(
            request.session,
            self.link,
            ticket,
            ListSpec {
                filter: &filter,
                max,
            },
            *now,
            *links,
        ) {
            return Ok(());
        }
        self.waiting.take(ticket);
        Err(forbidden())
    }

    pub(super) fn on_listed(
        &mut self,
        ticket: Ticket,
        values: &[Message],
        _complete: bool,
        cx: &mut Cx<'_>,
    ) {
        let Some(Waiting::List { exchange, format }) = self.waiting.take(ticket) else {
            return;
        };
        let list = match format {
            content_format::CBOR => cbor_list(values),
            _ => link_list(values, &self.settings.tenant).into_bytes(),
        };
        self.respond(exchange, &Answer::content(format, list), cx.now);
    }
}

impl Representation {
    /// Writes the options of a response that shows this; how many there are.
    pub(super) fn write<'a>(&'a self, is_known: bool, options: &mut [(u16, Value<'a>)]) -> usize {
        let format = self.content_format.filter(|_| !is_known);
        let wanted = [
            Some((option::ETAG, Value::Opaque(&self.etag))),
            format.map(|format| (option::CONTENT_FORMAT, Value::Uint(u32::from(format)))),
            (self.max_age_secs != MAX_AGE_DEFAULT)
                .then_some((option::MAX_AGE, Value::Uint(self.max_age_secs))),
            self.stamp
                .as_ref()
                .and_then(StampBytes::as_slice)
                .map(|bytes| (STAMP_OPTION, Value::Opaque(bytes))),
        ];
        let mut count = 0;
        for (slot, option) in options.iter_mut().zip(wanted.into_iter().flatten()) {
            *slot = option;
            count += 1;
        }
        count
    }
}

/// A publish of which nothing more is to be said.
pub(super) fn bare<'d>(
    address: &'d str,
    payload: &'d [u8],
    retain: RetainOp,
    reliability: Reliability,
) -> Draft<'d> {
    Draft {
        retain,
        ..Draft::new(address, payload, reliability)
    }
}

pub(super) fn forbidden() -> Answer {
    Answer::words(Code::FORBIDDEN, "the access rules do not allow it")
}

/// What a request says that its payload is.
pub(super) fn content_format(request: &Request<'_>) -> Option<u16> {
    request
        .options
        .uint(option::CONTENT_FORMAT)
        .and_then(|format| u16::try_from(format).ok())
}

/// The values' resources as links.
fn link_list(values: &[Message], tenant: &str) -> String {
    let mut prefix = String::new();
    in_tenant(tenant, "", &mut prefix);
    let mut list = String::new();
    for value in values {
        let Some(address) = value.address().strip_prefix(&*prefix) else {
            continue;
        };
        if !list.is_empty() {
            list.push(',');
        }
        list.push('<');
        super::data_uri::write_data_uri(address, &mut list);
        list.push('>');
        if let Some(format) = value
            .properties()
            .and_then(super::representation::format_of)
        {
            list.push_str(&format!(";ct={format}"));
        }
    }
    list
}

/// The values as `[[address, payload, Content-Format or null], …]`.
fn cbor_list(values: &[Message]) -> Vec<u8> {
    const BYTES: u8 = 2 << 5;
    const TEXT: u8 = 3 << 5;
    const ARRAY: u8 = 4 << 5;
    const NULL: u8 = 0xF6;
    let mut out = Vec::new();
    cbor_head(ARRAY, values.len(), &mut out);
    for value in values {
        cbor_head(ARRAY, 3, &mut out);
        cbor_head(TEXT, value.address().len(), &mut out);
        out.extend_from_slice(value.address().as_bytes());
        cbor_head(BYTES, value.payload().len(), &mut out);
        out.extend_from_slice(value.payload());
        match value
            .properties()
            .and_then(super::representation::format_of)
        {
            Some(format) => cbor_head(0, usize::from(format), &mut out),
            None => out.push(NULL),
        }
    }
    out
}

/// Major type and number. RFC 8949 §3
fn cbor_head(major: u8, number: usize, out: &mut Vec<u8>) {
    match number {
        0..24 => out.push(major | number as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, number as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        _ => {
            out.push(major | 26);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
    }
}

/// The error that answers a publish; none if it is accepted.
#[inline]
pub(super) fn refusal_of(outcome: Outcome) -> Option<Answer> {
    match outcome {
        Outcome::Accepted => None,
        outcome => Answer::of_outcome(outcome),
    }
}
