//! `basic.publish`: where a message goes and what it asks for. Confirms and returns are in `confirm.rs`.

use super::channel::Mode;
use super::fault::Fault;
use super::{AmqpFront, Request, address, properties};
use crate::front::{Cx, Step, Variant};

use crate::native;
use crate::probe::Mark;
use crate::registry::AnyFront;
use crate::stamp;
use thalweg_amqp::methods::basic;
use thalweg_amqp::{BasicProperties, FieldValue, Publish, ReplyCode, Table, TableWriter};
use thalweg_kernel::{Draft, Gathered, Kernel, Outcome, Refusal, SessionId, exchange_address};
use thalweg_model::{
    NativeProperties, Properties, Reliability, RetainOp, STAMP_PROPERTY, Span, Stamp, StampError,
};

/// How long a publisher that cannot be refused waits while the journal is full.
const FULL_PAUSE: Span = Span::from_millis(200);
/// Where the property flags stand in a content header.
const FLAGS_AT: usize = 12;
/// The flag of the delivery mode.
const DELIVERY_MODE: u16 = 1 << 12;
/// The longest expiration that RabbitMQ takes, in milliseconds.
const EXPIRATION_MAX: u64 = u32::MAX as u64;
/// What a publish asks of its address's last value.
const RETAIN_HEADER: &str = "x-retain";

/// Headers that no receiver gets as they came: the keys of blind copies, and the publisher's own stamp.
const HIDDEN: [&str; 2] = ["BCC", STAMP_PROPERTY];

/// Whether a publish is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    Done,
    /// It must be handed in again later.
    Later,
}

/// What its channel does with a publish.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PublishMode {
    Plain,
    Confirmed,
    /// It is part of a transaction.
    Gathered,
}

/// Where the last publish of a channel went, and how its properties were encoded.
#[derive(Debug, Default)]
pub(super) struct Memo {
    exchange: String,
    key: String,
    /// Nothing is remembered while this is `None`; it is empty if no address can be made of the key.
    address: Option<String>,
    /// Its `native` is the last content header that was worth keeping.
    properties: Properties,
}

/// What a publish asks for beside its place.
#[derive(Clone, Copy, Debug)]
struct Wishes {
    reliability: Reliability,
    retain: RetainOp,
    expires_in: Option<Span>,
    priority: u8,
    /// The memo's properties travel with it.
    has_properties: bool,
    stamp: Option<Stamp>,
}

impl Memo {
    #[inline]
    fn is_for(&self, publish: &Publish<'_>) -> bool {
        self.address.is_some()
            && address::is_same(self.key.as_bytes(), publish.routing_key.as_bytes())
            && address::is_same(self.exchange.as_bytes(), publish.exchange.as_bytes())
    }

    /// Keeps a content header as it came.
    #[inline]
    fn keep(&mut self, header: &[u8]) {
        match &mut self.properties.native {
            Some(native) if native.bytes.len() == header.len() => {
                native.bytes.copy_from_slice(header)
            }
            native => {
                *native = Some(NativeProperties {
                    dialect: native::AMQP,
                    bytes: header.into(),
                })
            }
        }
    }

    #[inline]
    fn draft<'a>(&'a self, address: &'a str, wishes: Wishes, payload: &'a [u8]) -> Draft<'a> {
        let Wishes {
            reliability,
            retain,
            expires_in,
            priority,
            has_properties,
            stamp,
        } = wishes;
        let properties = has_properties.then_some(&self.properties);
        Draft {
            address,
            payload,
            reliability,
            retain,
            expires_in,
            priority,
            properties,
            ticket: 0,
            native: None,
            stamp,
        }
    }
}

impl AmqpFront {
    #[inline]
    pub(super) fn on_publish(cx: &mut Cx<'_>, publish: &Publish<'_>) -> Handled {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return Handled::Done;
        };
        let (Some(session), AnyFront::Amqp(front)) = (link.session, &mut link.front) else {
            return Handled::Done;
        };
        let Some(channel) = front.channels.get_mut(publish.ch) else {
            return Handled::Done;
        };
        let kind = match channel.mode {
            Mode::Plain => PublishMode::Plain,
            Mode::Confirm { .. } => PublishMode::Confirmed,
            Mode::Transaction(_) => PublishMode::Gathered,
        };
        // It cannot stay where it is while the kernel has the links.
        let mut memo = channel.memo.take().unwrap_or_default();
        let mut request = Request {
            cx,
            session,
            ch: publish.ch,
            cause: basic::Publish::ID,
            is_in_part: false,
        };
        let published = request.publish(&mut memo, publish, kind);
        match published {
            Ok(outcome) => {
                request.acknowledge(publish, outcome, memo);
                if outcome == Outcome::Full && kind == PublishMode::Plain {
                    // Without confirms the publisher cannot be told. The publish is repeated after a while, and nothing
                    // behind it is read meanwhile.
                    if let Some(link) = cx.links.get_mut(cx.id) {
                        link.pause_until = Some(cx.now + FULL_PAUSE);
                    }
                    return Handled::Later;
                }
            }
            Err(fault) => request.fail(&fault),
        }
        Handled::Done
    }
}

/// A message that waits for room in the journal.
pub(super) struct Postponed {
    ch: u16,
    exchange: Box<str>,
    routing_key: Box<str>,
    mandatory: bool,
    header: Box<[u8]>,
    payload: Box<[u8]>,
    /// Its last frame has so many bytes, which stay in the input meanwhile: an empty input would not be read again.
    last_frame: usize,
}

impl Postponed {
    pub(super) fn bytes(&self) -> usize {
        self.header.len() + self.payload.len()
    }
}

impl AmqpFront {
    /// Keeps a message until it is asked again.
    #[cold]
    pub(super) fn postpone(cx: &mut Cx<'_>, publish: &Publish<'_>, last_frame: usize) {
        let Publish {
            ch,
            exchange,
            routing_key,
            mandatory,
            header,
            payload,
            ..
        } = *publish;
        if let Some(front) = AmqpFront::of(cx.links, cx.id) {
            let (exchange, routing_key) = (exchange.into(), routing_key.into());
            let (header, payload) = (header.into(), payload.into());
            let postponed = Postponed {
                ch,
                exchange,
                routing_key,
                mandatory,
                header,
                payload,
                last_frame,
            };
            front.postponed = Some(Box::new(postponed));
        }
    }

    #[cold]
    pub(super) fn publish_postponed(cx: &mut Cx<'_>) -> Step {
        let Some(postponed) =
            AmqpFront::of(cx.links, cx.id).and_then(|front| front.postponed.take())
        else {
            return Step::Hold;
        };
        let Postponed {
            ch,
            exchange,
            routing_key,
            mandatory,
            header,
            payload,
            last_frame,
        } = &*postponed;
        let publish = Publish {
            ch: *ch,
            exchange,
            routing_key,
            mandatory: *mandatory,
            immediate: false,
            // They were checked when it came.
            properties: BasicProperties::of_header(header).unwrap_or_default(),
            payload,
            header,
        };
        match (
            AmqpFront::on_publish(cx, &publish),
            AmqpFront::of(cx.links, cx.id),
        ) {
            (Handled::Later, Some(front)) => {
                front.postponed = Some(postponed);
                Step::Hold
            }
            _ => Step::Consumed(*last_frame),
        }
    }
}

impl Request<'_, '_> {
    #[inline]
    fn publish(
        &mut self,
        memo: &mut Memo,
        publish: &Publish<'_>,
        kind: PublishMode,
    ) -> Result<Outcome, Fault> {
        let Some(front) = AmqpFront::at(self.cx.links, self.cx.id) else {
            return Ok(Outcome::NoMatch);
        };
        let is_remembered = memo.is_for(publish);
        if !is_remembered {
            front.resolve(memo, publish, self.cx.kernel)?;
        }
        let found = publish.properties.headers.and_then(stamp_in);
        let stamp = stamp::read(found, self.cx.kernel);
        let shown = stamp.map(|stamp| self.cx.kernel.mask_stamp(self.session, stamp));
        if let Some(key) = publish.properties.reply_to {
            front.may_be_answered_at(self.session, key, self.cx.kernel)?;
        }
        let wishes = front.wishes(
            memo,
            publish,
            shown,
            kind == PublishMode::Plain,
            self.cx.kernel,
        )?;
        let further = match publish.properties.headers {
            None => Vec::new(),
            Some(table) => front.further_addresses(table, publish, self.cx.kernel)?,
        };
        let wishes = Wishes { stamp, ..wishes };
        self.cx.links.mark(Mark::FrontIn);
        let mut outcome = self.publish_to(memo, wishes, publish, &further, kind);
        if outcome == Outcome::NoMatch && is_remembered && !publish.exchange.is_empty() {
            // Unroutable: the exchange may have changed since it was remembered.
            let before = memo.address.take();
            let Some(front) = AmqpFront::at(self.cx.links, self.cx.id) else {
                return Ok(outcome);
            };
            front.resolve(memo, publish, self.cx.kernel)?;
            if memo.address != before {
                outcome = self.publish_to(memo, wishes, publish, &further, kind);
            }
        }
        self.cx.links.mark(Mark::KernelPublish);
        match outcome {
            Outcome::Denied => Err(self
                .about_exchange(publish.exchange, "write")
                .fault(Refusal::Denied)),
            Outcome::Full if kind == PublishMode::Gathered => Err(Fault::precondition(
                "the broker is short of memory: the transaction was rolled back",
            )),
            Outcome::Refused if kind == PublishMode::Gathered => Err(Fault::precondition(
                "the connection's transactions are as large as they may be together",
            )),
            outcome => Ok(outcome),
        }
    }

    /// Hands a message to the kernel, at the memo's address and at `further` ones. In a transaction it is not known yet what
    /// becomes of it.
    #[inline]
    fn publish_to(
        &mut self,
        memo: &Memo,
        wishes: Wishes,
        publish: &Publish<'_>,
        further: &[String],
        kind: PublishMode,
    ) -> Outcome {
        let (address, further) = match (memo.address.as_deref().unwrap_or_default(), further) {
            ("", []) => return Outcome::NoMatch,
            // Its own key makes no address; then the first of the others is its place.
            ("", [first, rest @ ..]) => (first.as_str(), rest),
            (address, further) => (address, further),
        };
        let draft = memo.draft(address, wishes, publish.payload);
        if kind == PublishMode::Gathered {
            let kept = if publish.mandatory {
                publish.header.len() + publish.payload.len()
            } else {
                0
            };
            let tx = u32::from(self.ch);
            let gathered =
                self.cx
                    .kernel
                    .publish_in(self.session, tx, &draft, further, kept, self.cx.now);
            if gathered == Gathered::In {
                self.gather(publish);
            }
            return match gathered {
                Gathered::In => Outcome::Accepted,
                Gathered::Short => Outcome::Full,
                Gathered::TooLarge | Gathered::Nowhere => Outcome::Refused,
            };
        }
        let published = match further {
            [] => self
                .cx
                .kernel
                .publish(self.session, draft, self.cx.now, self.cx.links),
            further => self.cx.kernel.publish_to_all(
                self.session,
                draft,
                further,
                self.cx.now,
                self.cx.links,
            ),
        };
        if let (Some(until), Some(link)) =
            (published.pause_until, self.cx.links.get_mut(self.cx.id))
        {
            link.pause_until = Some(until);
        }
        published.outcome
    }
}

impl AmqpFront {
    /// Finds the address of a publish and remembers it.
    #[cold]
    fn resolve(
        &self,
        memo: &mut Memo,
        publish: &Publish<'_>,
        kernel: &Kernel,
    ) -> Result<(), Fault> {
        memo.address = None;
        let address = self.address_of(publish.exchange, publish.routing_key, kernel)?;
        memo.address = Some(address);
        for (kept, new) in [
            (&mut memo.exchange, publish.exchange),
            (&mut memo.key, publish.routing_key),
        ] {
            kept.clear();
            kept.push_str(new);
        }
        Ok(())
    }

    /// The canonical address of a key in an exchange; empty if none can be made of it.
    fn address_of(&self, exchange: &str, key: &str, kernel: &Kernel) -> Result<String, Fault> {
        let mut address = String::new();
        if exchange.is_empty() {
            address::write_default_address(&self.tenant, key, &mut address);
            return Ok(address);
        }
        match kernel.address_in(&exchange_address(&self.tenant, exchange), key, &mut address) {
            Ok(()) => Ok(address),
            Err(Refusal::NoExchange) => {
                Err(self.about("", exchange, "write").fault(Refusal::NoExchange))
            }
            Err(Refusal::Denied) => Err(Fault::new(
                ReplyCode::AccessRefused,
                format!(
                    "cannot publish to internal exchange '{exchange}' in vhost '{}'",
                    self.vhost()
                ),
            )),
            Err(_) => Ok(String::new()),
        }
    }

    /// Refuses a request whose answers would go where its publisher has no business. The kernel does not read our encoding.
    #[cold]
    fn may_be_answered_at(
        &self,
        session: SessionId,
        key: &str,
        kernel: &Kernel,
    ) -> Result<(), Fault> {
        let address = address::reply_address(&self.tenant, key);
        if key == address::DIRECT_REPLY || kernel.may_be_answered_at(session, &address) {
            return Ok(());
        }
        let what = format!("access to the queue '{key}' of reply-to refused");
        Err(Fault::new(ReplyCode::AccessRefused, what))
    }

    /// What the properties ask for; keeps them in the memo if they have to travel.
    #[inline]
    fn wishes(
        &self,
        memo: &mut Memo,
        publish: &Publish<'_>,
        shown: Option<Stamp>,
        is_plain: bool,
        kernel: &Kernel,
    ) -> Result<Wishes, Fault> {
        let p = &publish.properties;
        if publish.immediate {
            return Err(Fault::new(ReplyCode::NotImplemented, "immediate=true"));
        }
        let is_persistent = p.delivery_mode == Some(2);
        let mut wishes = Wishes {
            reliability: match is_persistent || !is_plain {
                true => Reliability::AtLeastOnce,
                false => Reliability::AtMostOnce,
            },
            retain: RetainOp::None,
            expires_in: p.expiration.map(parse_expiration).transpose()?,
            priority: p.priority.unwrap_or(0),
            has_properties: false,
            stamp: None,
        };
        if let Some(user) = p.user_id {
            self.check_user(user)?;
        }
        // Most say nothing but their delivery mode, if that; the reliability says it already.
        let flags = match publish.header.get(FLAGS_AT..FLAGS_AT + 2) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            _ => 0,
        };
        let says_little = match flags {
            0 => is_plain,
            DELIVERY_MODE => is_persistent,
            _ => false,
        };
        if says_little {
            return Ok(wishes);
        }
        wishes.has_properties = true;
        memo.properties.reply_to = None;
        memo.properties.user.clear();
        if p.headers.is_none() && p.reply_to.is_none() {
            memo.keep(publish.header);
        } else {
            self.keep_rewritten(memo, publish, shown)?;
            wishes.retain = p.headers.map_or(RetainOp::None, retain_of);
            if kernel.compares_headers() {
                let kept = memo
                    .properties
                    .native
                    .as_ref()
                    .map_or(publish.header, |native| &native.bytes);
                memo.properties.user = properties::decode(kept).user;
            }
        }
        Ok(wishes)
    }

    /// Keeps a content header, without what its receivers must not see and with what they can use.
    fn keep_rewritten(
        &self,
        memo: &mut Memo,
        publish: &Publish<'_>,
        shown: Option<Stamp>,
    ) -> Result<(), Fault> {
        let p = &publish.properties;
        let mut header = None;
        if p.reply_to == Some(address::DIRECT_REPLY) {
            let Some((queue, _)) = self
                .channels
                .get(publish.ch)
                .and_then(|channel| channel.reply.as_ref())
            else {
                return Err(Fault::precondition("fast reply consumer does not exist"));
            };
            header = Some(with_reply_to(publish.header, p, queue));
        } else if let (Some(key), false) = (p.reply_to, self.tenant.is_empty()) {
            // Others find it by its address, which is not where the default tenant's would be.
            memo.properties.reply_to = Some(address::reply_address(&self.tenant, key).into());
        }
        if p.headers
            .is_some_and(|table| HIDDEN.iter().any(|name| table.get(name).is_some()))
        {
            let whole = header.take().unwrap_or_else(|| publish.header.to_vec());
            header = Some(without_hidden(whole, shown));
        }
        memo.keep(header.as_deref().unwrap_or(publish.header));
        Ok(())
    }

    /// RabbitMQ's check: `user-id` must be the connection's user.
    #[cold]
    fn check_user(&self, claimed: &str) -> Result<(), Fault> {
        let user = self.user_name();
        if claimed == user {
            return Ok(());
        }
        let what =
            format!("user_id property set to '{claimed}' but authenticated user was '{user}'");
        Err(Fault::precondition(what))
    }

    /// The addresses of further keys in the headers `CC` and `BCC`.
    fn further_addresses(
        &self,
        table: Table<'_>,
        publish: &Publish<'_>,
        kernel: &Kernel,
    ) -> Result<Vec<String>, Fault> {
        let mut addresses = Vec::new();
        for name in ["CC", "BCC"] {
            let Some(value) = table.get(name) else {
                continue;
            };
            let unexpected = |value| {
                let kind = super::arguments::type_name(value);
                Fault::precondition(format!(
                    "invalid message: {{unacceptable_type_in_header,\"{name}\",{kind}}}"
                ))
            };
            let FieldValue::Array(keys) = value else {
                return Err(unexpected(value));
            };
            for key in keys.iter() {
                let key = key.as_str().ok_or_else(|| unexpected(key))?;
                if key == publish.routing_key {
                    continue;
                }
                let address = self.address_of(publish.exchange, key, kernel)?;
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        Ok(addresses)
    }
}

/// Milliseconds as decimal text.
#[cold]
fn parse_expiration(text: &str) -> Result<Span, Fault> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let number = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
    let why = if number.is_empty() {
        "no_integer".to_owned()
    } else if number.len() < digits.len() {
        format!("{{leftover_string,\"{}\"}}", &digits[number.len()..])
    } else if digits.len() < text.len() {
        format!("{{value_negative,{text}}}")
    } else {
        match number.parse().ok().filter(|ms| *ms <= EXPIRATION_MAX) {
            Some(ms) => return Ok(Span::from_millis(ms)),
            None => format!("{{value_too_large,{number}}}"),
        }
    };
    Err(Fault::precondition(format!(
        "invalid expiration '{text}': {why}"
    )))
}

fn stamp_in(table: Table<'_>) -> Option<stamp::Found> {
    let value = table.get(STAMP_PROPERTY)?;
    Some(value.as_str().ok_or(StampError).and_then(str::parse))
}

fn retain_of(table: Table<'_>) -> RetainOp {
    match table.get(RETAIN_HEADER) {
        Some(FieldValue::Bool(true)) => RetainOp::Set,
        Some(FieldValue::LongStr(b"set" | b"true")) => RetainOp::Set,
        Some(FieldValue::LongStr(b"clear")) => RetainOp::Clear,
        _ => RetainOp::None,
    }
}

/// The content header with another reply-to.
fn with_reply_to(header: &[u8], properties: &BasicProperties<'_>, queue: &str) -> Vec<u8> {
    let old = properties.reply_to.unwrap_or_default();
    // It is a part of the header: where it begins, and the byte of its length before it.
    let at = (old.as_ptr() as usize).wrapping_sub(header.as_ptr() as usize);
    let mut rewritten = Vec::with_capacity(header.len() + queue.len());
    let (Some(before), Some(after), Ok(len)) = (
        header.get(..at.wrapping_sub(1)),
        header.get(at.wrapping_add(old.len())..),
        u8::try_from(queue.len()),
    ) else {
        return header.to_vec();
    };
    rewritten.extend_from_slice(before);
    rewritten.push(len);
    rewritten.extend_from_slice(queue.as_bytes());
    rewritten.extend_from_slice(after);
    rewritten
}

/// The content header without what receivers must not see, and with the stamp that they may see.
fn without_hidden(header: Vec<u8>, shown: Option<Stamp>) -> Vec<u8> {
    let Some(table) = BasicProperties::of_header(&header)
        .ok()
        .and_then(|properties| properties.headers)
    else {
        return header;
    };
    let old = table.as_bytes();
    let at = (old.as_ptr() as usize).wrapping_sub(header.as_ptr() as usize);
    let mut entries = Vec::with_capacity(old.len());
    let mut writer = TableWriter::new(&mut entries);
    writer.copy(table, |name| !HIDDEN.contains(&name));
    if let Some(shown) = shown {
        writer.str(STAMP_PROPERTY, &shown.to_string());
    }
    let (Some(before), Some(after), Ok(len)) = (
        header.get(..at.wrapping_sub(4)),
        header.get(at.wrapping_add(old.len())..),
        u32::try_from(entries.len()),
    ) else {
        return header;
    };
    [before, &len.to_be_bytes(), &entries, after].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> Vec<u8> {
        [&[text.len() as u8], text.as_bytes()].concat()
    }

    /// A content header with these flags and fields.
    fn header(flags: u16, fields: &[Vec<u8>]) -> Vec<u8> {
        let start = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        [&start[..], &flags.to_be_bytes(), &fields.concat()].concat()
    }

    #[test]
    fn a_reply_to_is_exchanged_and_nothing_else_changes() {
        let with = |reply_to: &str| {
            // Content type, correlation id, reply-to, app id.
            let fields = [
                short("text/plain"),
                short("7"),
                short(reply_to),
                short("app"),
            ];
            header(1 << 15 | 1 << 10 | 1 << 9 | 1 << 3, &fields)
        };
        let before = with(address::DIRECT_REPLY);
        let read = BasicProperties::of_header(&before).expect("it is well-formed");
        assert_eq!(
            with_reply_to(&before, &read, "amq.rabbitmq.reply-to.token"),
            with("amq.rabbitmq.reply-to.token")
        );
    }

    #[test]
    fn blind_copies_are_taken_out_and_nothing_else_changes() {
        let with = |names: &[&str]| {
            let mut entries = Vec::new();
            let mut writer = TableWriter::new(&mut entries);
            for name in names {
                writer.array(name, |array| _ = array.str("key"));
            }
            let table = [&(entries.len() as u32).to_be_bytes()[..], &entries].concat();
            header(
                1 << 15 | 1 << 13 | 1 << 3,
                &[short("text/plain"), table, short("app")],
            )
        };
        assert_eq!(
            without_hidden(with(&["CC", "BCC", "x"]), None),
            with(&["CC", "x"])
        );
        assert_eq!(
            without_hidden(with(&["x", STAMP_PROPERTY, "BCC"]), None),
            with(&["x"])
        );
    }

    #[test]
    fn an_expiration_is_a_number_of_milliseconds() {
        assert_eq!(parse_expiration("0"), Ok(Span::ZERO));
        assert_eq!(parse_expiration("1500"), Ok(Span::from_millis(1500)));
        for (text, why) in [
            ("", "no_integer"),
            ("soon", "no_integer"),
            ("+1", "no_integer"),
            ("-1", "{value_negative,-1}"),
            ("1.5", "{leftover_string,\".5\"}"),
            ("4294967296", "{value_too_large,4294967296}"),
            (
                "99999999999999999999999",
                "{value_too_large,99999999999999999999999}",
            ),
        ] {
            let fault = Fault::precondition(format!("invalid expiration '{text}': {why}"));
            assert_eq!(parse_expiration(text), Err(fault));
        }
    }
}
