//! Field tables: every type, the writer, and refusals.

use super::*;

#[test]
fn a_table_is_read_back_as_it_was_written() {
    let mut buffer = b"before".to_vec();
    let mut writer = TableWriter::new(&mut buffer);
    writer
        .str("product", "Thalweg")
        .bool("yes", true)
        .i64("n", -2)
        .table("capabilities", |c| {
            c.bool("basic.nack", true).array("list", |list| {
                list.str("a").table(|t| {
                    t.i64("x", 1);
                });
                list.array(|inner| {
                    inner.value(FieldValue::Void);
                });
            });
        });
    let table = writer.finish();
    assert_eq!(Table::parse(table.as_bytes()), Ok(table));
    assert_eq!(
        format!("{table:?}"),
        "{\"product\": S:\"Thalweg\", \"yes\": t:true, \"n\": l:-2, \"capabilities\": \
         F:{\"basic.nack\": t:true, \"list\": A:[S:\"a\", F:{\"x\": l:1}, A:[V]]}}"
    );
    assert_eq!(
        table.get("product").and_then(|value| value.as_str()),
        Some("Thalweg")
    );
    assert_eq!(table.get("n").and_then(|value| value.as_i64()), Some(-2));
    assert_eq!(
        table.get("yes").and_then(|value| value.as_bool()),
        Some(true)
    );
    assert_eq!(table.get("no"), None);
    assert_eq!(table.get("yes").and_then(|value| value.as_str()), None);
    let mut copy = Vec::new();
    let mut writer = TableWriter::new(&mut copy);
    writer
        .copy(table, |key| key != "product")
        .value("last", FieldValue::Void);
    let keys: Vec<&str> = writer.finish().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["yes", "n", "capabilities", "last"]);
    assert!(buffer.starts_with(b"before"));
}

#[test]
fn every_type_is_read_in_the_dialect_of_rabbitmq() {
    let input = bytes(
        "01 \"t\" \"t\" 02  01 \"b\" \"b\" FF  01 \"B\" \"B\" FF  01 \"s\" \"s\" FFFE  01 \"U\" \"U\" FFFE  01 \"u\" \"u\" FFFE \
         01 \"I\" \"I\" FFFFFFFD  01 \"i\" \"i\" FFFFFFFD  01 \"l\" \"l\" FFFFFFFFFFFFFFFC  01 \"L\" \"L\" FFFFFFFFFFFFFFFC \
         01 \"f\" \"f\" 3F800000  01 \"d\" \"d\" 3FF0000000000000  01 \"D\" \"D\" 02 0000007B  01 \"S\" \"S\" 00000001 FF \
         01 \"A\" \"A\" 00000002 \"V\" \"V\"  01 \"T\" \"T\" 0000000065000000  01 \"F\" \"F\" 00000000  01 \"x\" \"x\" 00000001 00 \
         01 \"V\" \"V\"",
    );
    let table = Table::parse(&input).expect("it is valid");
    let values: Vec<FieldValue<'_>> = table.iter().map(|(_, value)| value).collect();
    assert_eq!(
        values[..14],
        [
            FieldValue::Bool(true),
            FieldValue::I8(-1),
            FieldValue::U8(255),
            FieldValue::I16(-2),
            FieldValue::I16(-2),
            FieldValue::U16(0xFFFE),
            FieldValue::I32(-3),
            FieldValue::U32(0xFFFF_FFFD),
            FieldValue::I64(-4),
            FieldValue::U64(u64::MAX - 3),
            FieldValue::F32(1.0),
            FieldValue::F64(1.0),
            FieldValue::Decimal {
                scale: 2,
                value: 123
            },
            FieldValue::LongStr(&[0xFF]),
        ]
    );
    let FieldValue::Array(array) = values[14] else {
        panic!("{:?}", values[14])
    };
    assert_eq!(
        array.iter().collect::<Vec<_>>(),
        [FieldValue::Void, FieldValue::Void]
    );
    assert_eq!(values[15], FieldValue::Timestamp(0x6500_0000));
    assert_eq!(values[16], FieldValue::Table(Table::default()));
    assert_eq!(values[17..], [FieldValue::Bytes(&[0]), FieldValue::Void]);
    // Written again: the same, but for `U` and a truth value that is not 0 or 1.
    let mut again = Vec::new();
    TableWriter::new(&mut again).copy(table, |_| true);
    let mut expected = input.clone();
    let at = expected
        .windows(2)
        .position(|pair| pair == b"UU")
        .expect("it is there")
        + 1;
    expected[at] = b's';
    expected[3] = 1;
    assert_eq!(again, expected);
}

#[test]
fn whole_numbers_of_any_width_are_numbers() {
    for value in [
        FieldValue::I8(5),
        FieldValue::U8(5),
        FieldValue::I16(5),
        FieldValue::U16(5),
        FieldValue::I32(5),
    ] {
        assert_eq!(value.as_i64(), Some(5));
    }
    for value in [FieldValue::U32(5), FieldValue::I64(5), FieldValue::U64(5)] {
        assert_eq!(value.as_i64(), Some(5));
    }
    for value in [
        FieldValue::U64(u64::MAX),
        FieldValue::F64(5.0),
        FieldValue::LongStr(b"5"),
        FieldValue::Bool(true),
    ] {
        assert_eq!(value.as_i64(), None);
    }
}

#[test]
fn broken_tables_are_refused() {
    for (input, what) in [
        ("05 \"ab\"", Malformed::Truncated),
        ("01 \"k\"", Malformed::Truncated),
        ("01 \"k\" \"S\" 00000005 \"abc\"", Malformed::Truncated),
        ("01 \"k\" \"S\" FFFFFFFF \"abc\"", Malformed::Truncated),
        ("01 \"k\" \"l\" 00000000", Malformed::Truncated),
        ("01 \"k\" \"D\" 00", Malformed::Truncated),
        ("01 \"k\" \"A\" 00000001 \"I\"", Malformed::Truncated),
        ("01 \"k\" \"F\" 00000001 01", Malformed::Truncated),
        ("01 FF \"V\"", Malformed::Utf8),
        ("01 \"k\" \"z\"", Malformed::FieldType(b'z')),
        ("01 \"k\" \"A\" 00000001 \"z\"", Malformed::FieldType(b'z')),
    ] {
        assert_eq!(Table::parse(&bytes(input)), Err(what), "{input}");
    }
}

/// Entries with tables or arrays in one another, the table itself counted.
fn nested(depth: usize, letter: u8) -> Vec<u8> {
    let mut inner = Vec::new();
    for level in 2..=depth {
        let mut outer = if letter == b'F' || level == depth {
            b"\x01k".to_vec()
        } else {
            Vec::new()
        };
        outer.push(letter);
        outer.extend((inner.len() as u32).to_be_bytes());
        outer.extend(inner);
        inner = outer;
    }
    inner
}

#[test]
fn a_bomb_of_tables_is_refused_before_the_stack_ends() {
    for letter in *b"FA" {
        assert!(Table::parse(&nested(Table::DEPTH_MAX, letter)).is_ok());
        assert_eq!(
            Table::parse(&nested(Table::DEPTH_MAX + 1, letter)),
            Err(Malformed::Depth)
        );
        assert_eq!(Table::parse(&nested(8_000, letter)), Err(Malformed::Depth));
    }
}

#[test]
fn keys_that_do_not_fit_the_wire_are_left_out() {
    let long = "k".repeat(256);
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer
        .str(&long, "x")
        .str(&long[1..], "y")
        .table(&long, |_| {})
        .array(&long, |_| {});
    assert_eq!(writer.finish().iter().count(), 1);
}
