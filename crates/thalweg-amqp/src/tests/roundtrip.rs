//! Encoded frames are decoded to the same.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::methods::{basic, channel, connection, exchange, queue};

/// A value that owns what a [`FieldValue`] borrows.
#[derive(Clone, Debug)]
enum Value {
    Bool(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
    Decimal(u8, i32),
    LongStr(Vec<u8>),
    Array(Vec<Value>),
    Timestamp(u64),
    Table(Vec<(String, Value)>),
    Bytes(Vec<u8>),
    Void,
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::U64),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<(u8, i32)>().prop_map(|(scale, value)| Value::Decimal(scale, value)),
        vec(any::<u8>(), 0..40).prop_map(Value::LongStr),
        any::<u64>().prop_map(Value::Timestamp),
        vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        Just(Value::Void),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            vec(("[a-zä-]{0,12}", inner), 0..6).prop_map(Value::Table),
        ]
    })
}

fn entries() -> impl Strategy<Value = Vec<(String, Value)>> {
    vec(("[a-zä.-]{0,20}", value()), 0..8)
}

fn leaf(value: &Value) -> FieldValue<'_> {
    match value {
        Value::Bool(v) => FieldValue::Bool(*v),
        Value::I8(v) => FieldValue::I8(*v),
        Value::U8(v) => FieldValue::U8(*v),
        Value::I16(v) => FieldValue::I16(*v),
        Value::U16(v) => FieldValue::U16(*v),
        Value::I32(v) => FieldValue::I32(*v),
        Value::U32(v) => FieldValue::U32(*v),
        Value::I64(v) => FieldValue::I64(*v),
        Value::U64(v) => FieldValue::U64(*v),
        Value::F32(v) => FieldValue::F32(*v),
        Value::F64(v) => FieldValue::F64(*v),
        Value::Decimal(scale, value) => FieldValue::Decimal {
            scale: *scale,
            value: *value,
        },
        Value::LongStr(v) => FieldValue::LongStr(v),
        Value::Timestamp(v) => FieldValue::Timestamp(*v),
        Value::Bytes(v) => FieldValue::Bytes(v),
        Value::Void | Value::Array(_) | Value::Table(_) => FieldValue::Void,
    }
}

fn write_table(entries: &[(String, Value)], writer: &mut TableWriter<'_>) {
    for (key, value) in entries {
        match value {
            Value::Array(values) => writer.array(key, |writer| write_array(values, writer)),
            Value::Table(entries) => writer.table(key, |writer| write_table(entries, writer)),
            other => writer.value(key, leaf(other)),
        };
    }
}

fn write_array(values: &[Value], writer: &mut ArrayWriter<'_>) {
    for value in values {
        match value {
            Value::Array(values) => writer.array(|writer| write_array(values, writer)),
            Value::Table(entries) => writer.table(|writer| write_table(entries, writer)),
            other => writer.value(leaf(other)),
        };
    }
}

fn same_table(entries: &[(String, Value)], table: Table<'_>) -> bool {
    table.iter().count() == entries.len()
        && entries
            .iter()
            .zip(table.iter())
            .all(|((k, v), (key, value))| k == key && same(v, value))
}

fn same(ours: &Value, theirs: FieldValue<'_>) -> bool {
    match (ours, theirs) {
        (Value::Array(values), FieldValue::Array(array)) => {
            array.iter().count() == values.len()
                && values
                    .iter()
                    .zip(array.iter())
                    .all(|(v, value)| same(v, value))
        }
        (Value::Table(entries), FieldValue::Table(table)) => same_table(entries, table),
        (Value::Array(_) | Value::Table(_), _) => false,
        // Bits, because a NaN is not itself.
        (Value::F32(v), FieldValue::F32(value)) => v.to_bits() == value.to_bits(),
        (Value::F64(v), FieldValue::F64(value)) => v.to_bits() == value.to_bits(),
        (ours, theirs) => leaf(ours) == theirs,
    }
}

#[derive(Clone, Debug)]
struct Properties {
    texts: [Option<String>; 9],
    headers: Option<Vec<(String, Value)>>,
    octets: [Option<u8>; 2],
    correlation_id: Option<Vec<u8>>,
    timestamp: Option<u64>,
}

fn properties() -> impl Strategy<Value = Properties> {
    let texts = proptest::array::uniform9(option::of("[a-zäö/ ]{0,60}"));
    let octets = [option::of(any::<u8>()), option::of(any::<u8>())];
    let id = option::of(vec(any::<u8>(), 0..256));
    (
        texts,
        option::of(entries()),
        octets,
        id,
        option::of(any::<u64>()),
    )
        .prop_map(
            |(texts, headers, octets, correlation_id, timestamp)| Properties {
                texts,
                headers,
                octets,
                correlation_id,
                timestamp,
            },
        )
}

fn borrowed<'p>(p: &'p Properties, table: &'p mut Vec<u8>) -> BasicProperties<'p> {
    let [a, b, c, d, e, f, g, h, i] = p.texts.each_ref().map(Option::as_deref);
    let headers = p.headers.as_ref().map(|entries| {
        let mut writer = TableWriter::new(table);
        write_table(entries, &mut writer);
        writer.finish()
    });
    BasicProperties {
        content_type: a,
        content_encoding: b,
        headers,
        delivery_mode: p.octets[0],
        priority: p.octets[1],
        correlation_id: p.correlation_id.as_deref(),
        reply_to: c,
        expiration: d,
        message_id: e,
        timestamp: p.timestamp,
        kind: f,
        user_id: g,
        app_id: h,
        cluster_id: i,
    }
}

fn there_and_back(method: Method<'_>) {
    let mut out = Vec::new();
    method.encode(&mut out);
    assert_eq!(Method::decode(&out), Ok(method));
    // No shorter and no longer.
    for len in 0..out.len() {
        assert!(
            Method::decode(&out[..len]).is_err(),
            "{method:?} cut to {len}"
        );
    }
    out.push(0);
    assert!(Method::decode(&out).is_err(), "{method:?} and a byte");
}

proptest! {
    #[test]
    fn a_table_comes_back_as_it_was(entries in entries()) {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        write_table(&entries, &mut writer);
        let table = Table::parse(writer.finish().as_bytes()).expect("we wrote it");
        prop_assert!(same_table(&entries, table));
        let mut copy = Vec::new();
        let mut writer = TableWriter::new(&mut copy);
        writer.copy(table, |_| true);
        prop_assert_eq!(writer.finish(), table);
    }

    #[test]
    fn properties_come_back_as_they_were(properties in properties()) {
        let mut table = Vec::new();
        let properties = borrowed(&properties, &mut table);
        let mut out = Vec::new();
        properties.encode(&mut out);
        prop_assert_eq!(BasicProperties::decode(&out), Ok(properties));
        for len in 0..out.len() {
            prop_assert!(BasicProperties::decode(&out[..len]).is_err());
        }
    }

    #[test]
    fn a_message_comes_back_as_it_was(properties in properties(), body in vec(any::<u8>(), 0..9000)) {
        let (mut client, mut server) = pair(ServerLimits { frame_max: 16_384, ..ServerLimits::default() });
        let mut table = Vec::new();
        let properties = borrowed(&properties, &mut table);
        let mut wire = Vec::new();
        let header = ContentHeader::Properties(&properties);
        if client.publish(1, &basic::Publish::default(), header, &body, &mut wire).is_ok() {
            let mut heard = 0;
            server_hears(&mut server, &wire, |_, event| {
                if let Event::Publish(p) = event {
                    assert_eq!((p.properties, p.payload), (properties, &body[..]));
                    assert_eq!(BasicProperties::of_header(p.header), Ok(properties));
                    heard += 1;
                }
            });
            prop_assert_eq!(heard, 1);
        }
    }

    #[test]
    fn methods_come_back_as_they_were(
        a in "[a-zäö.]{0,80}",
        b in "[a-zäö.]{0,80}",
        c in "[a-z]{0,9}",
        entries in entries(),
        bytes in vec(any::<u8>(), 0..300),
        bits in any::<[bool; 5]>(),
        numbers in any::<(u16, u16, u32, u64)>(),
    ) {
        let (a, b, c, bytes) = (&a[..], &b[..], &c[..], &bytes[..]);
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        write_table(&entries, &mut writer);
        let arguments = writer.finish();
        let [v, w, x, y, z] = bits;
        let (short, other, long, delivery_tag) = numbers;
        there_and_back(Method::ConnectionStartOk(connection::StartOk {
            client_properties: arguments, mechanism: a, response: bytes, locale: c,
        }));
        there_and_back(Method::ConnectionTune(connection::Tune { channel_max: short, frame_max: long, heartbeat: other }));
        there_and_back(Method::ConnectionOpen(connection::Open { virtual_host: a }));
        there_and_back(Method::ChannelClose(channel::Close {
            reply_code: short, reply_text: a, class_id: other, method_id: short,
        }));
        there_and_back(Method::ExchangeDeclare(exchange::Declare {
            exchange: a, kind: c, passive: v, durable: w, auto_delete: x, internal: y, no_wait: z, arguments,
        }));
        there_and_back(Method::ExchangeBind(exchange::Bind {
            destination: a, source: b, routing_key: c, no_wait: v, arguments,
        }));
        there_and_back(Method::QueueDeclare(queue::Declare {
            queue: a, passive: v, durable: w, exclusive: x, auto_delete: y, no_wait: z, arguments,
        }));
        there_and_back(Method::BasicConsume(basic::Consume {
            queue: a, consumer_tag: b, no_local: v, no_ack: w, exclusive: x, no_wait: y, arguments,
        }));
        there_and_back(Method::BasicPublish(basic::Publish { exchange: a, routing_key: b, mandatory: v, immediate: w }));
        there_and_back(Method::BasicDeliver(basic::Deliver {
            consumer_tag: c, delivery_tag, redelivered: v, exchange: a, routing_key: b,
        }));
        there_and_back(Method::BasicGetOk(basic::GetOk {
            delivery_tag, redelivered: v, exchange: a, routing_key: b, message_count: long,
        }));
        there_and_back(Method::BasicNack(basic::Nack { delivery_tag, multiple: v, requeue: w }));
        there_and_back(Method::BasicQos(basic::Qos { prefetch_size: long, prefetch_count: short, global: v }));
    }
}

#[test]
fn any_bytes_that_are_a_method_are_written_again_as_a_method() {
    let mut dice = thalweg_wire::testkit::Dice::new(11);
    for (id, name) in methods::NAMES {
        let mut understood = 0;
        for round in 0..200 {
            // Zeros are valid for every argument; some other bytes make it interesting.
            let mut payload = [id.class.to_be_bytes(), id.method.to_be_bytes()].concat();
            let zeros = (0..80)
                .find(|zeros| Method::decode(&[payload.clone(), vec![0; *zeros]].concat()).is_ok());
            payload.resize(4 + zeros.unwrap_or_else(|| panic!("{name}")), 0);
            if round > 0 && payload.len() > 4 {
                let at = 4 + dice.below(payload.len() - 4);
                payload[at] = dice.throw() as u8;
            }
            let Ok(method) = Method::decode(&payload) else {
                continue;
            };
            understood += 1;
            let mut again = Vec::new();
            method.encode(&mut again);
            assert_eq!(
                Method::decode(&again),
                Ok(method),
                "{name}, seed 11, round {round}"
            );
            assert_eq!(method.id(), *id);
        }
        assert!(understood > 0, "{name}");
    }
}

#[test]
fn a_delivery_is_written_as_the_method_is() {
    let long = "\u{e4}".repeat(200);
    for (consumer_tag, exchange, routing_key) in [
        ("", "", ""),
        ("ctag", "", "work"),
        ("c", "amq.topic", "a.b"),
        (&*long, &*long, &*long),
    ] {
        let deliver = basic::Deliver {
            consumer_tag,
            delivery_tag: 0x0102_0304_0506_0708,
            redelivered: exchange.is_empty(),
            exchange,
            routing_key,
        };
        let (mut known, mut written) = (Vec::new(), Vec::new());
        outlet::put_method(0x0A0B, &Method::BasicDeliver(deliver), &mut known);
        outlet::put_deliver(0x0A0B, &deliver, &mut written);
        assert_eq!(written, known);
    }
}
