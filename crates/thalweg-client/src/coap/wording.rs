//! Translation between Thalweg's terms and CoAP's, for datagrams and streams.

use std::borrow::Cow;
use std::fmt::Write;

use thalweg_coap::link_format::Links;
use thalweg_coap::{Code, OptionOut, Options, Value, content_format, option};
use thalweg_model::syntax::read_level;
use thalweg_model::{Address, Reliability, STAMP_OPTION, Span, Stamp};

use super::CoapSettings;
use crate::message::Retain;
use crate::plugin::Asked;
use crate::transport::{Events, Inbound, Outbound, Refusal, RequestId, Settled};

/// No answer at all, whatever it would be. RFC 7967 §2.1
pub(super) const NO_ANSWER: u32 = 26;

/// Options that need no memory of their own.
const INLINE: usize = 12;

/// A list of options, in ascending order of their numbers.
pub(super) struct OptionList<'o> {
    inline: [OptionOut<'o>; INLINE],
    len: usize,
    /// All of them, if they are more.
    many: Vec<OptionOut<'o>>,
}

impl<'o> OptionList<'o> {
    pub(super) fn new() -> Self {
        OptionList {
            inline: [(0, Value::Uint(0)); INLINE],
            len: 0,
            many: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, number: u16, value: Value<'o>) {
        if self.many.is_empty() {
            if let Some(place) = self.inline.get_mut(self.len) {
                *place = (number, value);
                self.len += 1;
                return;
            }
            self.many.extend_from_slice(&self.inline);
        }
        self.many.push((number, value));
    }

    fn text(&mut self, number: u16, text: &'o str) {
        self.push(number, Value::Opaque(text.as_bytes()));
    }

    pub(super) fn as_slice(&self) -> &[OptionOut<'o>] {
        match self.many.is_empty() {
            true => self.inline.get(..self.len).unwrap_or_default(),
            false => &self.many,
        }
    }
}

/// Options of a request besides its payload, in reused memory.
#[derive(Debug)]
pub(super) struct Wording {
    settings: CoapSettings,
    /// Over a stream everything is sure.
    is_stream: bool,
    /// The server recognizes repetitions by stamps.
    pub(super) stamps: bool,
    stamp: Option<([u8; 16], usize)>,
    /// Levels that had to be decoded, and queries; each ends where the next begins.
    text: String,
    ends: Vec<usize>,
    /// The path that is said last: most messages go where the one before went.
    last_path: Option<LastPath>,
}

/// A path that is at the front of [`Wording::text`].
#[derive(Debug)]
struct LastPath {
    address: String,
    resource: Resource,
    /// Its levels, those of the base included, and their bytes.
    levels: usize,
    bytes: usize,
}

/// Resource that a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    /// The data of an address.
    Data,
    /// The responder of an address.
    Rpc,
}

impl Wording {
    pub(super) fn new(settings: CoapSettings, is_stream: bool) -> Self {
        Wording {
            settings,
            is_stream,
            stamps: false,
            stamp: None,
            text: String::new(),
            ends: Vec::new(),
            last_path: None,
        }
    }

    pub(super) fn settings(&self) -> &CoapSettings {
        &self.settings
    }

    /// The path of an address, a level each. Fails if it is no address, or cannot be said.
    fn levels(&mut self, address: &str, resource: Resource) -> Asked {
        if let Some(said) = self
            .last_path
            .as_ref()
            .filter(|said| said.address == address && said.resource == resource)
        {
            self.text.truncate(said.bytes);
            self.ends.truncate(said.levels);
            return Ok(());
        }
        let said = self.last_path.take();
        self.text.clear();
        self.ends.clear();
        Address::check(address).map_err(|_| Refusal::Address)?;
        let queue = queue(address).filter(|_| !self.settings.is_plain());
        let base = match (resource, queue) {
            (_, Some(_)) => "q",
            (Resource::Data, _) => &self.settings.base,
            (Resource::Rpc, _) => &self.settings.rpc_base,
        };
        let (text, ends) = (&mut self.text, &mut self.ends);
        let mut add = |level: &str| {
            text.push_str(level);
            ends.push(text.len());
        };
        for level in base.split('/').filter(|level| !level.is_empty()) {
            add(level);
        }
        for level in queue.unwrap_or(address).split('/') {
            let level: Cow<'_, str> = read_level(level);
            // RFC 7252 §5.10, table 4
            if level.len() > 255 {
                return Err(Refusal::Address);
            }
            add(&level);
        }
        let mut address_said = said.map(|said| said.address).unwrap_or_default();
        address_said.clear();
        address_said.push_str(address);
        let (levels, bytes) = (self.ends.len(), self.text.len());
        self.last_path = Some(LastPath {
            address: address_said,
            resource,
            levels,
            bytes,
        });
        Ok(())
    }

    fn query(&mut self, query: std::fmt::Arguments<'_>) {
        let start = self.text.len();
        let _ = self.text.write_fmt(query);
        match self.text.len() - start {
            0..=255 => self.ends.push(self.text.len()),
            // Longer than a query may be: left out.
            _ => self.text.truncate(start),
        }
    }

    fn piece(&self, at: usize) -> &str {
        let start = at
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        self.ends
            .get(at)
            .and_then(|end| self.text.get(start..*end))
            .unwrap_or_default()
    }

    /// Code and options of a request to the responder of an address.
    pub(super) fn question(&mut self, message: &Outbound<'_>) -> Asked<(Code, OptionList<'_>)> {
        let question = Outbound {
            reliability: Reliability::AtLeastOnce,
            retain: Retain::No,
            ..*message
        };
        self.message(&question, Resource::Rpc, false)
    }

    /// The code and options of a publish.
    pub(super) fn publish(
        &mut self,
        message: &Outbound<'_>,
        is_unanswered: bool,
    ) -> Asked<(Code, OptionList<'_>)> {
        self.message(message, Resource::Data, is_unanswered)
    }

    fn message(
        &mut self,
        message: &Outbound<'_>,
        resource: Resource,
        is_unanswered: bool,
    ) -> Asked<(Code, OptionList<'_>)> {
        self.levels(message.address, resource)?;
        self.stamp = message.stamp.filter(|_| self.stamps).map(Stamp::to_bytes);
        let path = self.ends.len();
        if !self.settings.is_plain() {
            if message.priority != 4 {
                self.query(format_args!("priority={}", message.priority));
            }
            // A body in blocks goes confirmably, and over a stream everything is sure: both say more than is meant.
            if (self.is_stream || !is_unanswered) && message.reliability == Reliability::AtMostOnce
            {
                self.query(format_args!("qos=0"));
            }
            for (name, value) in message.properties.iter() {
                self.query(format_args!("h.{name}={value}"));
            }
        }
        let this = &*self;
        let mut options = OptionList::new();
        for level in 0..path {
            options.text(option::URI_PATH, this.piece(level));
        }
        let is_clear = message.retain == Retain::Clear;
        // 0 is text/plain in UTF-8. RFC 7252 §12.3
        let text = message.is_text.then_some(0);
        let format = message.content_type.map_or(text, content_format::number);
        if let Some(format) = format.filter(|_| !is_clear) {
            options.push(option::CONTENT_FORMAT, Value::Uint(u32::from(format)));
        }
        // The short form of `?expiry=`, which Thalweg reads.
        if message.lifespan != Span::FOREVER && !self.settings.is_plain() {
            options.push(
                option::MAX_AGE,
                Value::Uint(u32::try_from(message.lifespan.secs_ceil()).unwrap_or(u32::MAX)),
            );
        }
        for query in path..this.ends.len() {
            options.text(option::URI_QUERY, this.piece(query));
        }
        if is_unanswered {
            options.push(option::NO_RESPONSE, Value::Uint(NO_ANSWER));
        }
        if let Some((bytes, len)) = &this.stamp {
            let bytes = bytes.get(..*len).unwrap_or_default();
            options.push(STAMP_OPTION, Value::Opaque(bytes));
        }
        let is_post = resource == Resource::Rpc || queue(message.address).is_some();
        let code = match (is_clear, is_post) {
            (true, _) => Code::DELETE,
            (false, true) => Code::POST,
            (false, false) => Code::PUT,
        };
        Ok((code, options))
    }

    /// The options of a GET; `queries` are added for Thalweg only.
    pub(super) fn get(
        &mut self,
        address: &str,
        queries: &[std::fmt::Arguments<'_>],
    ) -> Asked<OptionList<'_>> {
        self.levels(address, Resource::Data)?;
        let path = self.ends.len();
        let queries = match self.settings.is_plain() {
            true => &[],
            false => queries,
        };
        for query in queries {
            self.query(*query);
        }
        let this = &*self;
        let mut options = OptionList::new();
        for level in 0..path {
            options.text(option::URI_PATH, this.piece(level));
        }
        for query in path..this.ends.len() {
            options.text(option::URI_QUERY, this.piece(query));
        }
        Ok(options)
    }
}

/// The name in a queue's address.
fn queue(address: &str) -> Option<&str> {
    address
        .strip_prefix("$q/")
        .filter(|name| !name.is_empty() && !name.contains('/'))
}

/// The options of the first question to a server: whether it recognizes repetitions by stamps.
pub(super) fn hello() -> [OptionOut<'static>; 3] {
    [
        (option::URI_PATH, Value::Opaque(b".well-known")),
        (option::URI_PATH, Value::Opaque(b"core")),
        (option::URI_QUERY, Value::Opaque(b"rt=x-stamps")),
    ]
}

/// A response or a notification.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) code: Code,
    pub(super) options: &'a Options<'a>,
    pub(super) payload: &'a [u8],
}

impl Answer<'_> {
    /// Whether the answer to [`hello`] names this resource type. RFC 6690 §4.1: a server without filtering lists
    /// everything.
    pub(super) fn announces(&self, resource_type: &str) -> bool {
        let Ok(text) = std::str::from_utf8(self.payload) else {
            return false;
        };
        let names_it = |types: &str| types.split(' ').any(|one| one == resource_type);
        let is_it = |link: thalweg_coap::link_format::Link<'_>| {
            link.attribute("rt").is_some_and(|types| names_it(&types))
        };
        self.code == Code::CONTENT && Links::new(text).filter_map(Result::ok).any(is_it)
    }

    /// The representation as a message.
    pub(super) fn inbound<'m>(&'m self, address: &'m str) -> Inbound<'m> {
        let format = self.options.uint(option::CONTENT_FORMAT);
        let format = format.and_then(|format| u16::try_from(format).ok());
        let stamp = self.options.get(STAMP_OPTION);
        // Max-Age says when to ask again, not when the message has no worth any more.
        Inbound {
            reliability: Reliability::AtLeastOnce,
            content_type: format.and_then(content_format::media_type),
            stamp: stamp.and_then(|bytes| Stamp::from_bytes(bytes).ok()),
            ..Inbound::new(address, self.payload)
        }
    }

    /// Tells the answer to a question.
    pub(super) fn tell_answer(&self, request: RequestId, events: &mut dyn Events) {
        let nobody = || Refusal::Denied("nobody listens there".to_owned());
        match self.code {
            code if code.is_success() => events.answered(request, Ok(Some(&self.inbound("")))),
            Code::NOT_FOUND => events.answered(request, Err(nobody())),
            _ => events.answered(request, Err(self.refusal())),
        }
    }

    /// Tells a last value that was asked for.
    pub(super) fn tell_value(&self, request: RequestId, events: &mut dyn Events) {
        let value = Inbound {
            is_last_value: true,
            ..self.inbound("")
        };
        match self.code {
            code if code.is_success() => {
                events.answered(request, Ok(Some(&value).filter(|_| !self.is_nothing())));
            }
            Code::NOT_FOUND => events.answered(request, Ok(None)),
            _ => events.answered(request, Err(self.refusal())),
        }
    }

    /// Whether this is a representation of nothing yet: 2.05 without payload and tag.
    pub(super) fn is_nothing(&self) -> bool {
        let is_marked = self.options.has(option::ETAG) || self.options.has(option::CONTENT_FORMAT);
        self.payload.is_empty() && !is_marked
    }

    /// Outcome of a publish with this response.
    pub(super) fn outcome(&self) -> Settled {
        match self.code.is_success() {
            true => Settled::Acknowledged,
            false => Settled::Refused(self.refusal()),
        }
    }

    /// Maps an error response to a refusal.
    pub(super) fn refusal(&self) -> Refusal {
        let code = self.code;
        let words = match std::str::from_utf8(self.payload).unwrap_or_default() {
            "" => code.to_string(),
            words => format!("{code}: {words}"),
        };
        match code {
            Code::REQUEST_ENTITY_TOO_LARGE => Refusal::TooLarge {
                limit: self.options.uint(option::SIZE1).unwrap_or(0) as usize,
            },
            Code::TOO_MANY_REQUESTS | Code::SERVICE_UNAVAILABLE => Refusal::Busy(words),
            // It had no room for so many bodies and dropped the blocks before; from the beginning again. RFC 7959 §2.9.2
            Code::REQUEST_ENTITY_INCOMPLETE => Refusal::Busy(words),
            Code::GATEWAY_TIMEOUT => Refusal::NoAnswer,
            _ => Refusal::Denied(words),
        }
    }

    /// Pause that a busy server asks for: Max-Age, at most half a minute. RFC 8516 §3, RFC 7252 §5.9.3.4
    pub(super) fn pause(&self) -> Option<Span> {
        let is_busy = matches!(
            self.code,
            Code::TOO_MANY_REQUESTS | Code::SERVICE_UNAVAILABLE
        );
        let secs = self.options.uint(option::MAX_AGE).unwrap_or(60);
        is_busy.then(|| Span::from_secs(u64::from(secs).min(30)))
    }
}
