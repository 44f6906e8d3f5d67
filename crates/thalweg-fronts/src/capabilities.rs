//! What each protocol can say of a message, and so what becomes of a message between two of them.
//!
//! *Knows:* the records of all fronts, from the registry, and nothing of their code. *Must never know:* a link, the kernel.
//!
//! Loss is declared, not accidental: [`expected`] is worked out from the records alone, `docs/interop.md` is made of it, and
//! the interop tests hold real clients to it, cell by cell. Each front has its records in its own `capabilities.rs`.

use crate::registry::protocols;
use crate::service::services;
use std::fmt::Write as _;

/// What a protocol can say of a message and of who wants it.
#[derive(Debug)]
pub struct Capabilities {
    /// As users call it.
    pub name: &'static str,
    /// The best it promises, on the way in and on the way out.
    pub reliability: &'static str,
    /// How addresses are written.
    pub syntax: Syntax,
    /// The longest address it can name.
    pub address_bytes_max: Option<usize>,
    /// The longest level of an address.
    pub level_bytes_max: Option<usize>,
    /// What a subscriber is told of.
    pub receives: Receives,
    /// How the publisher can say what the payload is.
    pub content_type: ContentTypeModel,
    /// Properties of the user's own.
    pub properties: PropertyModel,
    /// What ties an answer to its request.
    pub correlation: CorrelationModel,
    /// How a message can say where its answer goes.
    pub reply_to: Option<&'static str>,
    /// How a client asks and is answered, if not by a message that says where its answer goes.
    pub request: Option<&'static str>,
    /// The unit in which it says how long a message lives.
    pub expiry: Option<ExpiryUnit>,
    /// The greatest priority it can say.
    pub priority_max: Option<u8>,
    /// How a publisher makes a message the last value of its address.
    pub last_value_in: Option<&'static str>,
    /// How a subscriber gets last values.
    pub last_value_out: &'static str,
    /// The mark of a message that may have come before.
    pub redelivered: Option<&'static str>,
    /// How a message is sent to a queue, and how one is taken from it.
    pub queue: Option<&'static str>,
    /// How a client joins the group `g` on the filter `a/+`.
    pub group: Option<&'static str>,
}

/// How levels are joined and which wildcards there are.
#[derive(Debug, PartialEq, Eq)]
pub struct Syntax {
    /// What an address looks like.
    pub example: &'static str,
    pub separator: char,
    /// How one level and any number of levels are written.
    pub wildcards: Option<&'static str>,
    /// What is written `%HH` within a level.
    pub escaped: &'static str,
}

/// What a subscriber is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receives {
    Messages,
    /// What an address holds now; a value that another has replaced already may never come.
    Values,
    /// Messages whose payload is a value of the subscriber's type.
    Samples,
}

/// How a publisher says what the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentTypeModel {
    No,
    /// Any media type, as text.
    Text,
    /// A number; only registered media types have one.
    Number,
}

/// Properties of the user's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyModel {
    No,
    /// Text; a name may repeat, and the order counts.
    RepeatableText,
    /// Text; of each name one.
    UniqueText,
    /// Typed; of each name one.
    UniqueTyped,
}

/// What ties an answer to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrelationModel {
    No,
    Bytes,
    /// Short text; bytes go by a header.
    ShortText,
    /// Text; bytes are encoded, and a header says so.
    Text,
}

/// The unit of an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryUnit {
    Seconds,
    /// In these words, and a receiver is told nothing of it.
    Untold(&'static str),
    Milliseconds,
}

/// What is escaped where dots part levels.
pub(crate) const DOTTED_ESCAPES: &str = "`.`, and a level that is `*` or `#` as a whole";

/// A side of a message that a receiver may see otherwise than its publisher meant it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aspect {
    /// Every byte value, nothing at all, a megabyte.
    Payload,
    /// Where it was published, traps included.
    Address,
    /// An address of 300 bytes.
    LongAddress,
    Wildcard,
    /// Messages of one publisher on one address.
    Order,
    /// A media type of the application.
    ContentType,
    /// A media type with a number in CoAP's registry.
    RegisteredType,
    /// Properties that are text.
    TextProperty,
    /// Properties of one name.
    RepeatedProperty,
    /// Properties that are numbers or truth values.
    TypedProperty,
    /// Properties that are bytes.
    BinaryProperty,
    /// Text that ties an answer to its request.
    Correlation,
    BinaryCorrelation,
    /// Where the answer goes.
    Reply,
    /// How long it lives.
    Expiry,
    Priority,
    /// The last value of its address, for those who come later.
    LastValue,
    /// From a queue, after the consumer that had it is gone.
    Redelivery,
}

impl Aspect {
    /// All of them, in the order of the document.
    pub const ALL: [Aspect; 18] = [
        Aspect::Payload,
        Aspect::Address,
        Aspect::LongAddress,
        Aspect::Wildcard,
        Aspect::Order,
        Aspect::ContentType,
        Aspect::RegisteredType,
        Aspect::TextProperty,
        Aspect::RepeatedProperty,
        Aspect::TypedProperty,
        Aspect::BinaryProperty,
        Aspect::Correlation,
        Aspect::BinaryCorrelation,
        Aspect::Reply,
        Aspect::Expiry,
        Aspect::Priority,
        Aspect::LastValue,
        Aspect::Redelivery,
    ];

    /// What the document says of it, as a heading and in a sentence.
    pub const fn title(self) -> (&'static str, &'static str) {
        match self {
            Aspect::Payload => (
                "Payload",
                "Every byte value, nothing at all, and a megabyte.",
            ),
            Aspect::Address => (
                "Address",
                "Empty levels, a `.` in a level, a literal `%2F`, wildcard characters of the other side.",
            ),
            Aspect::LongAddress => (
                "Long address",
                "An address of 300 bytes, no level of it longer than 255.",
            ),
            Aspect::Wildcard => (
                "Wildcards",
                "One level and any number of levels, in the subscriber's own syntax.",
            ),
            Aspect::Order => (
                "Order",
                "Messages of one publisher on one address, to one subscriber.",
            ),
            Aspect::ContentType => (
                "Content type",
                "A media type that somebody made up, as `text/x-thing`.",
            ),
            Aspect::RegisteredType => (
                "Registered content type",
                "A media type that has a number in CoAP's registry, as `application/json`.",
            ),
            Aspect::TextProperty => (
                "User property",
                "A property of the user's own whose value is text.",
            ),
            Aspect::RepeatedProperty => {
                ("Repeated user property", "Several properties of one name.")
            }
            Aspect::TypedProperty => ("Typed user property", "A whole number, a truth value."),
            Aspect::BinaryProperty => ("Binary user property", "Bytes that are no text."),
            Aspect::Correlation => ("Correlation", "Text that ties an answer to its request."),
            Aspect::BinaryCorrelation => ("Binary correlation", "Bytes that do, and are no text."),
            Aspect::Reply => (
                "Reply",
                "The publisher asks, the subscriber answers where it is told to, the answer arrives.",
            ),
            Aspect::Expiry => (
                "Expiry",
                "A lifetime that the publisher gives, seen after the message has waited.",
            ),
            Aspect::Priority => ("Priority", "A priority that the publisher gives."),
            Aspect::LastValue => (
                "Last value",
                "A message that is kept for whoever subscribes later.",
            ),
            Aspect::Redelivery => (
                "Redelivery",
                "From a queue, after a consumer that had not settled it is gone.",
            ),
        }
    }
}

/// What a subscriber sees of what a publisher said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    Exact,
    /// What was said, by a rule.
    Rule(Rule),
    /// Nothing of it; the message itself arrives.
    Dropped,
    /// Nothing, because the publisher cannot say it.
    Unsaid,
    /// Nothing, because the subscriber cannot ask for it.
    Unasked,
}

/// How something is said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The same levels in another syntax.
    OtherSyntax,
    /// The key is cut, a header has all of it.
    CutKey,
    /// Of one name only the first is left.
    FirstOfName,
    AsText,
    /// Bytes in a header of their own.
    CorrelationHeader,
    /// Bytes as base64.
    CorrelationBase64,
    /// The place is written so that it can be answered to.
    ReplyAlias,
    /// Whole seconds that are left.
    SecondsLeft,
    /// Milliseconds that are left.
    MillisecondsLeft,
    /// Kept, and not counted down.
    AsSent,
    /// The newest value for certain, those before it maybe.
    NewestValue,
    /// A media type without a number is bytes.
    OctetStream,
    /// A payload is a value of a type.
    OfType,
}

impl Rule {
    const ALL: [Rule; 13] = [
        Rule::OtherSyntax,
        Rule::CutKey,
        Rule::FirstOfName,
        Rule::AsText,
        Rule::CorrelationHeader,
        Rule::CorrelationBase64,
        Rule::ReplyAlias,
        Rule::SecondsLeft,
        Rule::MillisecondsLeft,
        Rule::AsSent,
        Rule::NewestValue,
        Rule::OctetStream,
        Rule::OfType,
    ];

    /// A short name and the whole rule.
    pub const fn text(self) -> (&'static str, &'static str) {
        match self {
            Rule::OtherSyntax => (
                "other syntax",
                "The same levels, joined by the subscriber's separator; what a level holds that would be read as something \
                 else there is written `%HH`. Written back the address is what it was, byte for byte.",
            ),
            Rule::CutKey => (
                "cut key",
                "A routing key holds 255 bytes. A longer one is cut and ends in a hash of the whole; header `x-address` has \
                 the whole address.",
            ),
            Rule::FirstOfName => (
                "first of a name",
                "Names are unique there: of several properties of one name the first.",
            ),
            Rule::AsText => (
                "as text",
                "Whole numbers in decimal, truth values as `true` and `false`.",
            ),
            Rule::CorrelationHeader => (
                "header",
                "What is no text, or longer than 255 bytes, comes in header `x-correlation-id`, as bytes.",
            ),
            Rule::CorrelationBase64 => (
                "base64",
                "What is no text comes as base64, and header `correlation-id-encoding:base64` says so; said like that it \
                 is taken for bytes, too.",
            ),
            Rule::ReplyAlias => (
                "alias",
                "The place is written in the subscriber's words, where it is something to send to: a queue by its name, \
                 a topic as `$a/<address>` for AMQP, whose servers answer to the default exchange. What the subscriber sends \
                 there arrives, with the correlation.",
            ),
            Rule::SecondsLeft => (
                "seconds left",
                "What is left of it, in whole seconds, rounded up.",
            ),
            Rule::MillisecondsLeft => ("milliseconds left", "What is left of it, in milliseconds."),
            Rule::AsSent => (
                "as sent",
                "As the publisher wrote it, as RabbitMQ does; the message is dropped in time all the same.",
            ),
            Rule::NewestValue => (
                "newest",
                "What comes is in order and ends with the newest; a value that another has replaced before it could leave \
                 does not come, unless the listener keeps a queue for observers (`coap.queue`).",
            ),
            Rule::OctetStream => (
                "bytes",
                "CoAP names media types by numbers; what has none comes as 42, `application/octet-stream`.",
            ),
            Rule::OfType => (
                "of a type",
                "The value of the reader's type that the payload is: JSON with its fields at addresses of `dds.json`, else \
                 CDR. Any other payload does not arrive, and is counted.",
            ),
        }
    }
}

/// What a subscriber of `to` sees of what a publisher of `from` said.
pub fn expected(from: &Capabilities, to: &Capabilities, aspect: Aspect) -> Cell {
    let exact_if = |can_say: bool, can_hear: bool| match (can_say, can_hear) {
        (false, _) => Cell::Unsaid,
        (true, false) => Cell::Dropped,
        (true, true) => Cell::Exact,
    };
    match aspect {
        Aspect::Payload if to.receives == Receives::Samples && from.receives != to.receives => {
            Cell::Rule(Rule::OfType)
        }
        Aspect::Payload => Cell::Exact,
        Aspect::LastValue => exact_if(from.last_value_in.is_some(), true),
        Aspect::Order if to.receives == Receives::Values => Cell::Rule(Rule::NewestValue),
        Aspect::Order => Cell::Exact,
        Aspect::Wildcard if to.syntax.wildcards.is_none() => Cell::Unasked,
        Aspect::Wildcard => Cell::Exact,
        Aspect::Address => in_syntax(from, to),
        Aspect::LongAddress => match (from.address_bytes_max, to.address_bytes_max) {
            (Some(0..300), _) => Cell::Unsaid,
            (_, Some(0..300)) => Cell::Rule(Rule::CutKey),
            _ => in_syntax(from, to),
        },
        Aspect::ContentType => match (from.content_type, to.content_type) {
            (ContentTypeModel::Text, ContentTypeModel::Number) => Cell::Rule(Rule::OctetStream),
            (from, to) => exact_if(from == ContentTypeModel::Text, to == ContentTypeModel::Text),
        },
        Aspect::RegisteredType => exact_if(
            from.content_type != ContentTypeModel::No,
            to.content_type != ContentTypeModel::No,
        ),
        Aspect::TextProperty => exact_if(
            from.properties != PropertyModel::No,
            to.properties != PropertyModel::No,
        ),
        Aspect::RepeatedProperty => match (from.properties, to.properties) {
            (
                PropertyModel::RepeatableText,
                PropertyModel::UniqueText | PropertyModel::UniqueTyped,
            ) => Cell::Rule(Rule::FirstOfName),
            (from, to) => exact_if(
                from == PropertyModel::RepeatableText,
                to == PropertyModel::RepeatableText,
            ),
        },
        Aspect::TypedProperty => match (from.properties, to.properties) {
            (
                PropertyModel::UniqueTyped,
                PropertyModel::RepeatableText | PropertyModel::UniqueText,
            ) => Cell::Rule(Rule::AsText),
            (from, to) => exact_if(
                from == PropertyModel::UniqueTyped,
                to == PropertyModel::UniqueTyped,
            ),
        },
        Aspect::BinaryProperty => exact_if(
            from.properties == PropertyModel::UniqueTyped,
            to.properties == PropertyModel::UniqueTyped,
        ),
        Aspect::Correlation => exact_if(
            from.correlation != CorrelationModel::No,
            to.correlation != CorrelationModel::No,
        ),
        Aspect::BinaryCorrelation => match (from.correlation, to.correlation) {
            (CorrelationModel::No, _) => Cell::Unsaid,
            (_, CorrelationModel::No) => Cell::Dropped,
            (from, to) if from == to => Cell::Exact,
            (_, CorrelationModel::Bytes) => Cell::Exact,
            (_, CorrelationModel::ShortText) => Cell::Rule(Rule::CorrelationHeader),
            (_, CorrelationModel::Text) => Cell::Rule(Rule::CorrelationBase64),
        },
        Aspect::Reply => match exact_if(
            from.reply_to.or(from.request).is_some(),
            to.reply_to.is_some(),
        ) {
            Cell::Exact if from.reply_to != to.reply_to => Cell::Rule(Rule::ReplyAlias),
            cell => cell,
        },
        Aspect::Expiry => match (from.expiry, to.expiry) {
            (None, _) => Cell::Unsaid,
            (_, None | Some(ExpiryUnit::Untold(_))) => Cell::Dropped,
            // The one protocol that gives the publisher's own header back unchanged.
            _ if from.properties == PropertyModel::UniqueTyped
                && to.properties == PropertyModel::UniqueTyped =>
            {
                Cell::Rule(Rule::AsSent)
            }
            (_, Some(ExpiryUnit::Seconds)) => Cell::Rule(Rule::SecondsLeft),
            (_, Some(ExpiryUnit::Milliseconds)) => Cell::Rule(Rule::MillisecondsLeft),
        },
        Aspect::Priority => exact_if(from.priority_max.is_some(), to.priority_max.is_some()),
        Aspect::Redelivery if from.queue.is_none() => Cell::Unsaid,
        // A consumer that does not settle gets no redelivery.
        Aspect::Redelivery => to.redelivered.map_or(Cell::Unasked, |_| Cell::Exact),
    }
}

fn in_syntax(from: &Capabilities, to: &Capabilities) -> Cell {
    if from.syntax == to.syntax {
        Cell::Exact
    } else {
        Cell::Rule(Rule::OtherSyntax)
    }
}

/// A row of the table of capabilities: its head, and what it says of a protocol.
type Row = (&'static str, fn(&Capabilities) -> String);

/// `docs/interop.md`, all of it.
pub fn document() -> String {
    let mut out = String::from(
        "# What becomes of a message between protocols\n\n\
         Made from `capabilities.rs` of each front in `crates/thalweg-fronts/src` by `cargo xtask docs --bless`; the interop tests\n\
         (`cargo xtask interop`) hold real clients to every cell without DDS. Rows publish, columns receive.\n\n\
         From DDS to DDS is from one domain to a second. Its declaration is in `deferred.rs`; `crates/thalweg-dds/tests/bridge/cells.rs`\n\
         holds Cyclone DDS and one client of each other protocol to every cell of its row and its column, `policies.rs` and `services.rs`\n\
         beside it hold two domains to payload and reply. The rest of its meaning is in [protocols/dds.md](protocols/dds.md).\n\n\
         *exact*: what was said. A rule: the same by a rule, [below](#rules). *dropped*: the message arrives without it.\n\
         –: the publisher cannot say it. ×: the subscriber cannot ask for it.\n",
    );
    let records: Vec<&Capabilities> = protocols().flat_map(|it| it.carries).collect();
    let rule_of_columns = format!("|{}\n", "---|".repeat(1 + records.len()));
    for aspect in Aspect::ALL {
        let (title, meaning) = aspect.title();
        let _ = write!(out, "\n## {title}\n\n{meaning}\n\n|");
        for to in &records {
            let _ = write!(out, " | → {}", to.name);
        }
        let _ = write!(out, " |\n{rule_of_columns}");
        for from in &records {
            let _ = write!(out, "| {} →", from.name);
            for to in &records {
                let cell = match expected(from, to, aspect) {
                    Cell::Exact => "exact",
                    Cell::Rule(rule) => rule.text().0,
                    Cell::Dropped => "dropped",
                    Cell::Unsaid => "–",
                    Cell::Unasked => "×",
                };
                let _ = write!(out, " | {cell}");
            }
            out.push_str(" |\n");
        }
    }
    out.push_str("\n## Rules\n\n| rule | what it means |\n|---|---|\n");
    for rule in Rule::ALL {
        let (name, text) = rule.text();
        let _ = writeln!(out, "| {name} | {text} |");
    }
    out.push_str("\n## What each protocol can say\n\n|");
    for record in &records {
        let _ = write!(out, " | {}", record.name);
    }
    let _ = write!(out, " |\n{rule_of_columns}");
    let rows: [Row; 16] = [
        ("at best", |c| c.reliability.to_owned()),
        ("address", |c| c.syntax.example.to_owned()),
        ("wildcards", |c| or_dash(c.syntax.wildcards)),
        ("escaped in a level", |c| c.syntax.escaped.to_owned()),
        ("longest address", |c| {
            let level = c.level_bytes_max.map(|max| format!("{max} bytes a level"));
            c.address_bytes_max
                .map(|max| format!("{max} bytes"))
                .or(level)
                .unwrap_or("–".to_owned())
        }),
        ("user properties", |c| {
            match c.properties {
                PropertyModel::No => "–",
                PropertyModel::RepeatableText => "text, names repeat",
                PropertyModel::UniqueText => "text",
                PropertyModel::UniqueTyped => "typed",
            }
            .to_owned()
        }),
        ("reply to", |c| or_dash(c.reply_to)),
        ("request of its own", |c| or_dash(c.request)),
        ("expiry", |c| {
            match c.expiry {
                None => "–",
                Some(ExpiryUnit::Seconds) => "seconds",
                Some(ExpiryUnit::Untold(unit)) => return format!("{unit}; receivers are not told"),
                Some(ExpiryUnit::Milliseconds) => "milliseconds",
            }
            .to_owned()
        }),
        ("priority", |c| {
            c.priority_max
                .map_or("–".to_owned(), |max| format!("0 to {max}"))
        }),
        ("last value, set by", |c| or_dash(c.last_value_in)),
        ("last value, asked by", |c| c.last_value_out.to_owned()),
        ("delivered before", |c| or_dash(c.redelivered)),
        ("queue `name`", |c| or_dash(c.queue)),
        ("group `g` on `a/+`", |c| or_dash(c.group)),
        ("content filter", |c| {
            let mut services = services();
            let service = services.find(|it| it.name == c.name);
            let filter = service.and_then(|it| it.filter.as_ref().ok());
            or_dash(filter.map(|it| it.place))
        }),
    ];
    for (title, read) in rows {
        let _ = write!(out, "| {title}");
        for record in &records {
            let _ = write!(out, " | {}", read(record));
        }
        out.push_str(" |\n");
    }
    out
}

fn or_dash(text: Option<&'static str>) -> String {
    text.unwrap_or("–").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::AMQP;
    use crate::coap::COAP;
    use crate::deferred::DDS;
    use crate::mqtt::{MQTT_3, MQTT_5};
    use crate::stomp::STOMP;
    use crate::xmpp::XMPP;
    use crate::zmtp::ZMTP;

    fn records() -> impl Iterator<Item = &'static Capabilities> {
        protocols().flat_map(|protocol| protocol.carries)
    }

    #[test]
    fn a_protocol_hears_what_it_said_itself() {
        for record in records() {
            for aspect in Aspect::ALL {
                let heard = expected(record, record, aspect);
                let own = [
                    Rule::SecondsLeft,
                    Rule::MillisecondsLeft,
                    Rule::AsSent,
                    Rule::NewestValue,
                ];
                let can_answer = record.reply_to.is_some();
                let is_untold = matches!(record.expiry, Some(ExpiryUnit::Untold(_)));
                assert!(
                    matches!(heard, Cell::Exact | Cell::Unsaid | Cell::Unasked)
                        || own.map(Cell::Rule).contains(&heard)
                        || (aspect, heard, can_answer) == (Aspect::Reply, Cell::Dropped, false)
                        || (aspect, heard, is_untold) == (Aspect::Expiry, Cell::Dropped, true),
                    "{} {aspect:?}: {heard:?}",
                    record.name
                );
            }
        }
    }

    #[test]
    fn payloads_are_exact_but_for_types_and_order_is_wherever_messages_come() {
        for from in records() {
            for to in records() {
                let is_exact = |aspect| expected(from, to, aspect) == Cell::Exact;
                let has_types = to.name == DDS.name && from.name != DDS.name;
                assert_eq!(is_exact(Aspect::Payload), !has_types);
                assert_eq!(is_exact(Aspect::LastValue), from.name != ZMTP.name);
                assert_eq!(is_exact(Aspect::Order), to.name != COAP.name);
                let has_wildcards = ![COAP.name, ZMTP.name, DDS.name].contains(&to.name);
                assert_eq!(is_exact(Aspect::Wildcard), has_wildcards);
            }
        }
    }

    #[test]
    fn a_few_cells_by_hand() {
        use Rule::{
            CutKey, FirstOfName, OctetStream, OfType, OtherSyntax, ReplyAlias, SecondsLeft,
        };
        for (from, to, aspect, wanted) in [
            (&MQTT_5, &MQTT_3, Aspect::ContentType, Cell::Dropped),
            (&MQTT_3, &MQTT_5, Aspect::ContentType, Cell::Unsaid),
            (
                &MQTT_5,
                &AMQP,
                Aspect::RepeatedProperty,
                Cell::Rule(FirstOfName),
            ),
            (&AMQP, &STOMP, Aspect::BinaryProperty, Cell::Dropped),
            (&AMQP, &STOMP, Aspect::Address, Cell::Rule(OtherSyntax)),
            (&MQTT_3, &AMQP, Aspect::LongAddress, Cell::Rule(CutKey)),
            (&AMQP, &MQTT_3, Aspect::LongAddress, Cell::Unsaid),
            (&MQTT_5, &AMQP, Aspect::Reply, Cell::Rule(ReplyAlias)),
            (&MQTT_3, &AMQP, Aspect::Redelivery, Cell::Exact),
            (&MQTT_5, &COAP, Aspect::ContentType, Cell::Rule(OctetStream)),
            (&COAP, &MQTT_5, Aspect::ContentType, Cell::Unsaid),
            (&COAP, &MQTT_5, Aspect::RegisteredType, Cell::Exact),
            (&COAP, &AMQP, Aspect::Reply, Cell::Rule(ReplyAlias)),
            (&STOMP, &COAP, Aspect::Reply, Cell::Dropped),
            (&COAP, &AMQP, Aspect::LongAddress, Cell::Rule(CutKey)),
            (&AMQP, &COAP, Aspect::Expiry, Cell::Rule(SecondsLeft)),
            (&ZMTP, &MQTT_5, Aspect::Expiry, Cell::Unsaid),
            (&MQTT_5, &ZMTP, Aspect::TextProperty, Cell::Dropped),
            (&ZMTP, &AMQP, Aspect::Address, Cell::Rule(OtherSyntax)),
            (&XMPP, &MQTT_5, Aspect::Expiry, Cell::Rule(SecondsLeft)),
            (&MQTT_5, &XMPP, Aspect::Expiry, Cell::Dropped),
            (&XMPP, &MQTT_5, Aspect::Reply, Cell::Rule(ReplyAlias)),
            (&MQTT_5, &XMPP, Aspect::Reply, Cell::Dropped),
            (&MQTT_5, &XMPP, Aspect::ContentType, Cell::Exact),
            (&MQTT_5, &DDS, Aspect::Payload, Cell::Rule(OfType)),
            (&DDS, &COAP, Aspect::Payload, Cell::Exact),
            (&COAP, &DDS, Aspect::Reply, Cell::Rule(ReplyAlias)),
            (&DDS, &MQTT_5, Aspect::Expiry, Cell::Rule(SecondsLeft)),
            (&MQTT_5, &DDS, Aspect::Expiry, Cell::Dropped),
        ] {
            let cell = expected(from, to, aspect);
            assert_eq!(cell, wanted, "{} {} {aspect:?}", from.name, to.name);
        }
    }
}
