//! Argument tables of `queue.declare`, `exchange.declare`, bindings and `basic.consume`.

use super::fault::Fault;
use super::properties::neutral_value;
use thalweg_amqp::{FieldValue, Table};
use thalweg_filter::Predicate;
use thalweg_kernel::{DeadLetter, QueueLimits, QueueOverflow, exchange_address};
use thalweg_model::{PropertyValue, Span};

/// A table, and whose arguments it holds, for error texts.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    pub(super) table: Table<'a>,
    /// `queue 'x' in vhost '/'`, or the like.
    pub(super) thing: &'a str,
}

/// The kind of queue that is declared if nothing is said.
pub(super) const CLASSIC: &str = "classic";
pub(super) const QUORUM: &str = "quorum";

/// The limits that a table of arguments says for a queue of this tenant; `thing` names the queue in the error's text.
pub(crate) fn queue_limits(
    table: Table<'_>,
    thing: &str,
    tenant: &str,
) -> Result<QueueLimits, String> {
    let limits = Arguments { table, thing }.queue_limits(tenant);
    limits.map_err(|fault| fault.what)
}

impl<'a> Arguments<'a> {
    fn invalid(&self, name: &str, why: impl AsRef<str>) -> Fault {
        Fault::precondition(format!(
            "invalid arg '{name}' for {}: {}",
            self.thing,
            why.as_ref()
        ))
    }

    /// A whole number that is not negative.
    fn number(&self, name: &str) -> Result<Option<u64>, Fault> {
        let Some(value) = self.table.get(name) else {
            return Ok(None);
        };
        // A number above 63 bits is a number all the same.
        if let FieldValue::U64(value) = value {
            return Ok(Some(value));
        }
        let Some(number) = value.as_i64() else {
            return Err(self.invalid(
                name,
                format!("\"expected integer, got {}\"", type_name(value)),
            ));
        };
        u64::try_from(number)
            .map(Some)
            .map_err(|_| self.invalid(name, format!("{{value_negative,{number}}}")))
    }

    fn millis(&self, name: &str) -> Result<Option<Span>, Fault> {
        Ok(self
            .number(name)?
            .map(|ms| match ms.checked_mul(1_000_000) {
                Some(_) => Span::from_millis(ms),
                None => Span::FOREVER,
            }))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        let Some(value) = self.table.get(name) else {
            return Ok(None);
        };
        match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => {
                let what = format!(
                    "invalid type '{}' for arg '{name}' in {}",
                    type_name(value),
                    self.thing
                );
                Err(Fault::precondition(what))
            }
        }
    }

    fn truth(&self, name: &str) -> Result<Option<bool>, Fault> {
        let Some(value) = self.table.get(name) else {
            return Ok(None);
        };
        match value.as_bool() {
            Some(truth) => Ok(Some(truth)),
            None => Err(self.invalid(name, format!("{{unacceptable_type,{}}}", type_name(value)))),
        }
    }

    /// The limits of a queue of this tenant.
    pub(super) fn queue_limits(&self, tenant: &str) -> Result<QueueLimits, Fault> {
        let idle_expiry = self.millis("x-expires")?;
        if idle_expiry == Some(Span::ZERO) {
            return Err(self.invalid("x-expires", "{value_zero,0}"));
        }
        let priority_max = match self.number("x-max-priority")? {
            None => 0,
            Some(max) => u8::try_from(max).map_err(|_| {
                self.invalid("x-max-priority", format!("{{max_value_exceeded,{max}}}"))
            })?,
        };
        let deliveries_max = match self
            .table
            .get("x-delivery-limit")
            .and_then(|value| value.as_i64())
        {
            // Without bound, as newer clients say it.
            Some(-1) => None,
            _ => self
                .number("x-delivery-limit")?
                .map(|max| u32::try_from(max).unwrap_or(u32::MAX)),
        };
        // Both keep what does not fit into memory on disk.
        if let Some(mode) = self
            .text("x-queue-mode")?
            .filter(|mode| !matches!(*mode, "default" | "lazy"))
        {
            return Err(self.invalid(
                "x-queue-mode",
                format!("\"unsupported queue mode '{mode}'\""),
            ));
        }
        Ok(QueueLimits {
            message_ttl: self.millis("x-message-ttl")?,
            idle_expiry,
            messages_max: self.number("x-max-length")?,
            bytes_max: self.number("x-max-length-bytes")?,
            overflow: match self.text("x-overflow")? {
                None => QueueOverflow::default(),
                Some(name) => {
                    let known = OVERFLOWS
                        .into_iter()
                        .find(|overflow| overflow_name(*overflow) == name);
                    known.ok_or_else(|| self.invalid("x-overflow", "invalid_overflow"))?
                }
            },
            dead_letter: self.dead_letter(tenant)?,
            priority_max,
            // RabbitMQ's queues have no order but that of arrival without `x-max-priority`.
            priority_shares: false,
            single_active: self.truth("x-single-active-consumer")?.unwrap_or(false),
            deliveries_max,
            label: label_of(self.queue_type()?).into(),
        })
    }

    fn dead_letter(&self, tenant: &str) -> Result<Option<DeadLetter>, Fault> {
        let key = self.text("x-dead-letter-routing-key")?.map(Box::from);
        match self.text("x-dead-letter-exchange")? {
            None if key.is_some() => Err(self.invalid(
                "x-dead-letter-routing-key",
                "routing_key_but_no_dlx_defined",
            )),
            None => Ok(None),
            // The default exchange: the key names a queue.
            Some("") => Ok(Some(DeadLetter {
                exchange: "".into(),
                key,
            })),
            Some(exchange) => Ok(Some(DeadLetter {
                exchange: exchange_address(tenant, exchange).into(),
                key,
            })),
        }
    }

    /// What kind of queue it is. Both are the same to us but for what may be declared.
    pub(super) fn queue_type(&self) -> Result<&'a str, Fault> {
        match self.text("x-queue-type")? {
            None | Some(CLASSIC) => Ok(CLASSIC),
            Some(QUORUM) => Ok(QUORUM),
            Some(other) => Err(self.invalid(
                "x-queue-type",
                format!("\"unsupported queue type '{other}'\""),
            )),
        }
    }

    /// What is not possible for quorum queues, and would only be found out on a server that has them.
    pub(super) fn check_quorum(
        &self,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
    ) -> Result<(), Fault> {
        if self.queue_type()? != QUORUM {
            return Ok(());
        }
        let property = match (durable, exclusive, auto_delete) {
            (false, ..) => "non-durable",
            (_, true, _) => "exclusive-owner",
            (_, _, true) => "auto-delete",
            _ => return Ok(()),
        };
        Err(Fault::precondition(format!(
            "invalid property '{property}' for {}",
            self.thing
        )))
    }

    /// The exchange that gets unroutable messages.
    pub(super) fn alternate(&self, tenant: &str) -> Result<Option<String>, Fault> {
        Ok(self
            .text("alternate-exchange")?
            .map(|name| exchange_address(tenant, name)))
    }

    /// Whether a queue that is bound wants the last values first.
    pub(super) fn wants_last_values(&self) -> bool {
        matches!(
            self.table.get("x-last-value"),
            Some(FieldValue::Bool(true) | FieldValue::LongStr(b"true"))
        )
    }

    pub(super) fn consumer_priority(&self) -> Result<i32, Fault> {
        let Some(value) = self.table.get("x-priority") else {
            return Ok(0);
        };
        let Some(priority) = value.as_i64() else {
            return Err(self.invalid(
                "x-priority",
                format!("\"expected integer, got {}\"", type_name(value)),
            ));
        };
        Ok(priority.clamp(i32::MIN.into(), i32::MAX.into()) as i32)
    }

    /// The content filter of a binding or consumer.
    pub(super) fn filter(&self) -> Result<Option<Predicate>, Fault> {
        self.filter_by("x-filter")
    }

    /// The same of a consumer, which may call it as Qpid's clients for JMS do. These leave the text empty for none.
    pub(super) fn selector(&self) -> Result<Option<Predicate>, Fault> {
        const OF_QPID: &str = "x-filter-jms-selector";
        match self.table.get(OF_QPID).map(|value| value.as_str()) {
            None | Some(Some("")) => self.filter(),
            Some(_) => self.filter_by(OF_QPID),
        }
    }

    fn filter_by(&self, name: &str) -> Result<Option<Predicate>, Fault> {
        let Some(value) = self.table.get(name) else {
            return Ok(None);
        };
        let Some(text) = value.as_str() else {
            return Err(Fault::precondition(format!("{name} must be a string")));
        };
        match Predicate::parse(text) {
            Ok(filter) => Ok(Some(filter)),
            Err(error) => Err(Fault::precondition(format!("{name}: {error}"))),
        }
    }

    /// Whether the rule of a headers binding is one.
    pub(super) fn check_rule(&self) -> Result<(), Fault> {
        match self.table.get("x-match").map(|value| value.as_str()) {
            None | Some(Some("all" | "any" | "all-with-x" | "any-with-x")) => Ok(()),
            Some(rule) => Err(Fault::precondition(format!(
                "Invalid x-match field value <<\"{}\">>; expected all, any, all-with-x, or any-with-x",
                rule.unwrap_or_default()
            ))),
        }
    }

    /// In our words, for bindings of headers exchanges.
    pub(super) fn neutral(&self) -> Vec<(Box<str>, PropertyValue)> {
        let entries = self.table.iter();
        entries
            .filter_map(|(name, value)| Some((name.into(), neutral_value(value)?)))
            .collect()
    }
}

const OVERFLOWS: [QueueOverflow; 3] = [
    QueueOverflow::DropHead,
    QueueOverflow::RejectPublish,
    QueueOverflow::RejectPublishDeadLetter,
];

pub(super) fn overflow_name(overflow: QueueOverflow) -> &'static str {
    match overflow {
        QueueOverflow::DropHead => "drop-head",
        QueueOverflow::RejectPublish => "reject-publish",
        QueueOverflow::RejectPublishDeadLetter => "reject-publish-dlx",
    }
}

/// What the kernel calls a kind of queue: nothing, if it is that of queues whose maker names none.
fn label_of(kind: &str) -> &str {
    if kind == CLASSIC { "" } else { kind }
}

/// What RabbitMQ calls the types of table values.
pub(super) fn type_name(value: FieldValue<'_>) -> &'static str {
    match value {
        FieldValue::Bool(_) => "bool",
        FieldValue::I8(_) => "byte",
        FieldValue::U8(_) => "unsignedbyte",
        FieldValue::I16(_) => "short",
        FieldValue::U16(_) => "unsignedshort",
        FieldValue::I32(_) => "signedint",
        FieldValue::U32(_) => "unsignedint",
        FieldValue::I64(_) => "long",
        FieldValue::U64(_) => "unsignedlong",
        FieldValue::F32(_) => "float",
        FieldValue::F64(_) => "double",
        FieldValue::Decimal { .. } => "decimal",
        FieldValue::LongStr(_) => "longstr",
        FieldValue::Array(_) => "array",
        FieldValue::Timestamp(_) => "timestamp",
        FieldValue::Table(_) => "table",
        FieldValue::Bytes(_) => "binary",
        FieldValue::Void => "void",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_amqp::TableWriter;

    fn with<R>(
        write: impl FnOnce(&mut TableWriter<'_>),
        read: impl FnOnce(Arguments<'_>) -> R,
    ) -> R {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        write(&mut writer);
        read(Arguments {
            table: writer.finish(),
            thing: "queue 'q' in vhost '/'",
        })
    }

    fn limits(write: impl FnOnce(&mut TableWriter<'_>)) -> Result<QueueLimits, String> {
        with(write, |arguments| {
            arguments.queue_limits("").map_err(|fault| fault.what)
        })
    }

    #[test]
    fn every_argument_of_a_queue_is_understood() {
        let limits = limits(|table| {
            table
                .value("x-message-ttl", FieldValue::I32(1500))
                .value("x-expires", FieldValue::U16(60_000))
                .value("x-max-length", FieldValue::I64(7))
                .value("x-max-length-bytes", FieldValue::U8(200))
                .str("x-overflow", "reject-publish")
                .str("x-dead-letter-exchange", "dead")
                .str("x-dead-letter-routing-key", "key")
                .value("x-max-priority", FieldValue::I8(9))
                .bool("x-single-active-consumer", true)
                .value("x-delivery-limit", FieldValue::I16(3))
                .str("x-queue-type", "quorum")
                .str("x-queue-mode", "lazy");
        });
        let expected = QueueLimits {
            message_ttl: Some(Span::from_millis(1500)),
            idle_expiry: Some(Span::from_millis(60_000)),
            messages_max: Some(7),
            bytes_max: Some(200),
            overflow: QueueOverflow::RejectPublish,
            dead_letter: Some(DeadLetter {
                exchange: "$x/dead".into(),
                key: Some("key".into()),
            }),
            priority_max: 9,
            priority_shares: false,
            single_active: true,
            deliveries_max: Some(3),
            label: "quorum".into(),
        };
        assert_eq!(limits, Ok(expected));
    }

    #[test]
    fn what_makes_no_sense_is_said_with_the_arguments_name() {
        type Write = fn(&mut TableWriter<'_>);
        let cases: [(&str, Write); 9] = [
            ("x-message-ttl", |table| {
                _ = table.value("x-message-ttl", FieldValue::I64(-1))
            }),
            ("x-message-ttl", |table| _ = table.str("x-message-ttl", "1")),
            ("x-expires", |table| _ = table.i64("x-expires", 0)),
            ("x-max-length", |table| _ = table.bool("x-max-length", true)),
            ("x-max-priority", |table| {
                _ = table.i64("x-max-priority", 256)
            }),
            ("x-overflow", |table| _ = table.str("x-overflow", "spill")),
            ("x-dead-letter-routing-key", |table| {
                _ = table.str("x-dead-letter-routing-key", "k")
            }),
            ("x-single-active-consumer", |table| {
                _ = table.str("x-single-active-consumer", "true")
            }),
            ("x-queue-type", |table| {
                _ = table.str("x-queue-type", "stream")
            }),
        ];
        for (name, write) in cases {
            let said = limits(write).expect_err(name);
            assert!(
                said.contains(&format!("arg '{name}' "))
                    && said.contains(" queue 'q' in vhost '/'"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_life_too_long_to_count_is_for_ever() {
        let limits = limits(|table| _ = table.i64("x-message-ttl", i64::MAX));
        assert_eq!(
            limits.map(|limits| limits.message_ttl),
            Ok(Some(Span::FOREVER))
        );
    }
}
