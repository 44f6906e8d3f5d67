//! Exchanges and bindings in the journal.

use super::binding::To;
use super::exchange::Exchange;
use super::maker::StoredMaker;
use super::spec::ExchangeKind;
use crate::Kernel;
use crate::access::Access;
use crate::effects::Safety;
use crate::ids::BindingId;
use crate::journal::terms::{BINDING, EXCHANGE, TermLines, each_line, from_hex};
use thalweg_model::PropertyValue;

impl Kernel {
    pub(super) fn persist_exchange(&mut self, address: &str, exchange: &Exchange, safety: Safety) {
        let mut lines = TermLines::default();
        lines.add("address", address);
        lines.add_number("kind", exchange.kind as u8);
        lines.add_number("auto-delete", exchange.auto_delete);
        lines.add_number("internal", exchange.internal);
        if let Some(alternate) = &exchange.alternate {
            lines.add("alternate", alternate);
        }
        exchange.made_by.write(&mut lines);
        self.journal
            .write_group(exchange.number, EXCHANGE, lines.text(), safety);
    }

    pub(super) fn persist_binding(&mut self, index: BindingId, safety: Safety) {
        let Some(binding) = self.topology.binding(index) else {
            return;
        };
        let mut lines = TermLines::default();
        lines.add("address", &binding.exchange);
        match &binding.to {
            To::Queue(queue) => {
                let Some(queue) = self.queues.get(*queue) else {
                    return;
                };
                lines.add("queue", queue.address());
            }
            To::Exchange(address) => lines.add("exchange", address),
        }
        lines.add("key", &binding.key);
        binding.made_by.write(&mut lines);
        for (name, value) in &binding.arguments {
            lines.add("name", name);
            match value {
                PropertyValue::Nothing => lines.add("nothing", ""),
                PropertyValue::Text(text) => lines.add("text", text),
                PropertyValue::Bool(truth) => lines.add_number("bool", *truth),
                PropertyValue::Integer(number) => lines.add("integer", &number.to_string()),
                PropertyValue::Float(number) => lines.add_number("float", number.to_bits()),
                PropertyValue::Bytes(bytes) => {
                    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    lines.add("bytes", &hex);
                }
            }
        }
        self.journal
            .write_group(binding.number, BINDING, lines.text(), safety);
    }

    // --- a new process

    pub(crate) fn restore_exchange(
        &mut self,
        number: u64,
        text: &str,
        access: &dyn Fn(&str, Option<&str>) -> Access,
    ) {
        let mut made_by = StoredMaker::default();
        let mut exchange = Exchange {
            number,
            ..Exchange::predeclared(ExchangeKind::Direct)
        };
        let mut address = String::new();
        each_line(text, |name, value| match name {
            "address" => address = value,
            "kind" => exchange.kind = kind_of(&value),
            "auto-delete" => exchange.auto_delete = value == "1",
            "internal" => exchange.internal = value == "1",
            "alternate" => exchange.alternate = Some(value.into()),
            _ => made_by.read(name, &value),
        });
        exchange.made_by = made_by.compile(access);
        self.add_exchange(&address, exchange);
    }

    pub(crate) fn restore_binding(
        &mut self,
        number: u64,
        text: &str,
        access: &dyn Fn(&str, Option<&str>) -> Access,
    ) -> Option<()> {
        let mut made_by = StoredMaker::default();
        let (mut exchange, mut key, mut to_queue, mut to_exchange) =
            (String::new(), String::new(), None, None);
        let mut arguments: Vec<(Box<str>, PropertyValue)> = Vec::new();
        each_line(text, |name, value| {
            let mut argument = |value: PropertyValue| {
                if let Some(last) = arguments.last_mut() {
                    last.1 = value;
                }
            };
            match name {
                "address" => exchange = value,
                "key" => key = value,
                "queue" => to_queue = Some(value),
                "exchange" => to_exchange = Some(value),
                "text" => argument(PropertyValue::Text(value.into())),
                "bool" => argument(PropertyValue::Bool(value == "1")),
                "integer" => argument(PropertyValue::Integer(value.parse().unwrap_or(0))),
                "float" => argument(PropertyValue::Float(f64::from_bits(
                    value.parse().unwrap_or(0),
                ))),
                "bytes" => argument(PropertyValue::Bytes(from_hex(&value))),
                "name" => arguments.push((value.into(), PropertyValue::Nothing)),
                _ => made_by.read(name, &value),
            }
        });
        let to = match (to_queue, to_exchange) {
            (Some(address), _) => To::Queue(self.queues.find(&address)?),
            (None, Some(address)) => {
                self.topology.kind_of(&address)?;
                To::Exchange(address.into())
            }
            (None, None) => return None,
        };
        let (kind, _) = self.topology.kind_of(&exchange)?;
        let index = self.add_binding(&exchange, kind, to, &key, &arguments, number);
        self.set_bindings_maker(index, made_by.compile(access));
        Some(())
    }
}

fn kind_of(number: &str) -> ExchangeKind {
    let kinds = [
        ExchangeKind::Direct,
        ExchangeKind::Fanout,
        ExchangeKind::Topic,
        ExchangeKind::Headers,
    ];
    number
        .parse()
        .ok()
        .and_then(|number: usize| kinds.get(number))
        .copied()
        .unwrap_or(ExchangeKind::Direct)
}
