//! What comes back as it was, and the bytes of other libraries.

use super::*;
use crate::idl;
use crate::types::{Case, Field, Union};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use std::sync::Arc;

fn round(name: &str, value: Value) -> Value {
    let types = Types::of_ros();
    let of = types.get(name).expect("it is built in");
    let [older, newer] = [false, true].map(|is_xcdr2| {
        let payload = from_json(&value, of, &types, is_xcdr2).expect("it can be written");
        assert_eq!(payload.len() % 4, 0);
        to_json(&payload, of, &types).expect("it can be read")
    });
    assert_eq!(older, newer);
    older
}

#[test]
fn values_of_ros_come_back_as_they_were() {
    let text = json!({"data": "Hello 1"});
    assert_eq!(round("std_msgs/msg/String", text.clone()), text);
    let pose = json!({
        "header": {"stamp": {"sec": -1, "nanosec": 5}, "frame_id": "map"},
        "pose": {"position": {"x": 1.5, "y": -2.0, "z": 0.1},
                 "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}},
    });
    assert_eq!(round("geometry_msgs/msg/PoseStamped", pose.clone()), pose);
    let image = json!({"header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}, "height": 1, "width": 3,
        "encoding": "mono8", "is_bigendian": 0, "step": 3, "data": "AAH/"});
    assert_eq!(round("sensor_msgs/msg/Image", image.clone()), image);
    let nothing = json!({});
    assert_eq!(
        round("std_srvs/srv/Empty_Response", nothing.clone()),
        nothing
    );
    // A missing value is zero.
    let twist = round("geometry_msgs/msg/Twist", json!({"linear": {"x": 0.25}}));
    assert_eq!(twist["linear"]["x"], 0.25);
    assert_eq!(twist["angular"]["z"], 0.0);
}

#[test]
fn bytes_are_those_of_the_specification() {
    let types = Types::of_ros();
    let of = types.get("std_msgs/msg/String").expect("built in");
    let payload = from_json(&json!({"data": "Hi"}), of, &types, false).expect("good");
    assert_eq!(payload, [0, 1, 0, 1, 3, 0, 0, 0, b'H', b'i', 0, 0]);
    let big = [0, 0, 0, 0, 0, 0, 0, 3, b'H', b'i', 0];
    assert_eq!(to_json(&big, of, &types), Ok(json!({"data": "Hi"})));
    // XCDR2 aligns to four bytes.
    let mut types = Types::of_ros();
    types
        .add("test/msg/Both", "uint8 a\nfloat64 b\n")
        .expect("good");
    let of = types.get("test/msg/Both").expect("added");
    let mut newer = vec![0, 7, 0, 0, 9, 0, 0, 0];
    newer.extend_from_slice(&1.5f64.to_le_bytes());
    assert_eq!(to_json(&newer, of, &types), Ok(json!({"a": 9, "b": 1.5})));
}

#[test]
fn lists_and_appendable_structures_are_written_as_cyclone_dds_does() {
    let mut types = Types::default();
    let text = include_str!("../../tests/types/plant.idl");
    let mut names = idl::Names::default();
    idl::add(text, &mut names, &mut types).expect("it is good");
    let of = types.find("plant::Shape").expect("there");
    let value = json!({"name": "one", "color": "BLUE", "size": 0.5,
        "parts": [{"at": [1, -2], "words": ["a", "bcd"]}, {"at": [3, 4], "words": []}]});
    // Payload written by Cyclone DDS for Python.
    let older = "00010000040000006f6e650001000000020000000100000000000000feffffffffffffff0200000002000000\
        61000000040000006263640000000000030000000000000004000000000000000000000000000000000000000000e03f";
    let newer = "0009000064000000040000006f6e6500010000004c00000002000000280000000100000000000000feffffff\
        ffffffff1400000002000000020000006100000004000000626364001800000003000000000000000400000000000000\
        0400000000000000000000000000e03f";
    for (is_xcdr2, expected) in [(false, older), (true, newer)] {
        let payload = from_json(&value, of, &types, is_xcdr2).expect("it can be written");
        let text: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, expected);
        assert_eq!(to_json(&payload, of, &types), Ok(value.clone()));
        for length in 0..payload.len() {
            assert!(to_json(&payload[..length], of, &types).is_err(), "{length}");
        }
    }
    // A newer version of the type may have more fields.
    let mut longer = from_json(&json!({}), of, &types, true).expect("it can be written");
    longer[4] += 4;
    longer.extend([9; 4]);
    assert!(to_json(&longer, of, &types).is_ok());
}

#[test]
fn what_is_cut_or_no_value_is_refused() {
    let types = Types::of_ros();
    let of = types
        .get("geometry_msgs/msg/PoseStamped")
        .expect("built in");
    let whole =
        from_json(&json!({"header": {"frame_id": "map"}}), of, &types, false).expect("good");
    for length in 0..whole.len() {
        assert!(to_json(&whole[..length], of, &types).is_err(), "{length}");
    }
    let string = types.get("std_msgs/msg/String").expect("built in");
    assert_eq!(to_json(&[0, 3, 0, 0], string, &types), Err(Fault::Encoding));
    let endless = [0, 1, 0, 0, 255, 255, 255, 255, 0];
    assert_eq!(to_json(&endless, string, &types), Err(Fault::Truncated));
    for wrong in [json!({"data": 5}), json!([1]), json!({"data": "a\0b"})] {
        assert!(from_json(&wrong, string, &types, false).is_err(), "{wrong}");
    }
    let int = types.get("std_msgs/msg/Int32").expect("built in");
    assert!(from_json(&json!({"data": 1u64 << 31}), int, &types, false).is_err());
    assert!(from_json(&json!({"data": -(1i64 << 31)}), int, &types, false).is_ok());
}

/// The types of `plant.idl`.
fn plant() -> Types {
    let mut types = Types::default();
    let text = include_str!("../../tests/types/plant.idl");
    let added = idl::add(text, &mut idl::Names::default(), &mut types);
    added.expect("it is good");
    types
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u32> = hexadecimal
        .chars()
        .filter_map(|it| it.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|it| (it[0] << 4 | it[1]) as u8)
        .collect()
}

#[test]
fn optional_members_unions_and_mutable_structures_are_read_as_cyclone_dds_writes_them() {
    let settings = json!([
        {"name": "n", "limit": 1.5, "step": -3, "tags": ["a", "bcd"], "bits": [0.25]},
        {"name": "none", "step": 1_u64 << 40, "tags": [], "bits": []},
    ]);
    let order = json!({"id": 5, "weight": 2.5, "amount": {"$discriminator": "HIGH", "many": [1.0, 2.0]},
        "code": {"$discriminator": -2, "text": "hm"}, "settings": settings,
        "more": [{"$discriminator": "LOW", "count": 9}, {"$discriminator": "HIGH", "many": []}]});
    let other = json!({"id": 6, "note": "x", "amount": {"$discriminator": "LOW", "count": -7},
        "code": {"$discriminator": -1, "number": 77}, "settings": [], "more": []});
    let plan = json!({"id": 1, "order": order, "setting": settings[0], "flag": true});
    let less = json!({"id": 2, "setting": settings[1], "flag": false});
    // Payloads written by Cyclone DDS for Python, in XCDR1 and in XCDR2.
    let written = [
        (
            "Order",
            &order,
            [
                "0001000005000000017f080001000000080000000000000000000440017f08000200000000000000010000000200000000000000\
             000000000000f03f0000000000000040feff000003000000686d000002000000017f08000a00000008000000020000006e000000\
             017f08000700000008000000000000000000f83f017f08007011010008000000fdffffffffffffff017f08007111010014000000\
             0200000002000000610000000400000062636400017f080072110100100000000100000000000000000000000000d03f027f0000\
             017f08000a0000000c000000050000006e6f6e6500000000017f080070110100080000000000000000010000017f080071110100\
             0400000000000000017f0800721101000400000000000000027f0000020000000000000000000000090000000000000001000000\
             00000000",
                "00090000f00000000500000001000000000000000000044000000000180000000100000002000000000000000000f03f00000000\
             00000040feff000003000000686d00008c00000002000000500000000a000050020000006e00000007000030000000000000f83f\
             70110130fdffffffffffffff71110150140000000200000002000000610000000400000062636400721101700100000000000000\
             0000d03f300000000a000050050000006e6f6e650000000070110130000000000001000071110150040000000000000072110170\
             0000000020000000020000000c000000000000000900000000000000080000000100000000000000",
            ],
        ),
        (
            "Order",
            &other,
            [
                "0001000006000000017f08000100000000000000017f08000200000006000000020000007800000000000000f9ffffffffffffff\
             ffff0000000000004d000000000000000000000000000000",
                "000900003c000000060000000001000002000000780000000c00000000000000f9ffffffffffffffffff00004d00000000000000\
             04000000000000000400000000000000",
            ],
        ),
        (
            "Plan",
            &plan,
            [
                "00030000017f0800000000000400000001000000017f0800010000003801000005000000017f0800010000000800000000000000\
             00000440017f08000200000000000000010000000200000000000000000000000000f03f0000000000000040feff000003000000\
             686d000002000000017f08000a00000008000000020000006e000000017f08000700000008000000000000000000f83f017f0800\
             7011010008000000fdffffffffffffff017f080071110100140000000200000002000000610000000400000062636400017f0800\
             72110100100000000100000000000000000000000000d03f027f0000017f08000a0000000c000000050000006e6f6e6500000000\
             017f080070110100080000000000000000010000017f0800711101000400000000000000017f0800721101000400000000000000\
             027f000002000000000000000000000009000000000000000100000000000000017f0800020000007c000000017f08000a000000\
             08000000020000006e000000017f08000700000008000000000000000000f83f017f08007011010008000000fdffffffffffffff\
             017f080071110100140000000200000002000000610000000400000062636400017f080072110100100000000100000000000000\
             000000000000d03f027f0000017f0800030000000400000001000000027f0000",
                "000b000065010000000000200100000001000040f4000000f0000000050000000100000000000000000004400000000018000000\
             0100000002000000000000000000f03f0000000000000040feff000003000000686d00008c00000002000000500000000a000050\
             020000006e00000007000030000000000000f83f70110130fdffffffffffffff7111015014000000020000000200000061000000\
             04000000626364007211017001000000000000000000d03f300000000a000050050000006e6f6e65000000007011013000000000\
             00010000711101500400000000000000721101700000000020000000020000000c00000000000000090000000000000008000000\
             01000000000000000200004054000000500000000a000050020000006e00000007000030000000000000f83f70110130fdffffff\
             ffffffff711101501400000002000000020000006100000004000000626364007211017001000000000000000000d03f03000000\
             01",
            ],
        ),
        (
            "Plan",
            &less,
            [
                "00030000017f0800000000000400000002000000017f08000200000050000000017f08000a0000000c000000050000006e6f6e65\
             00000000017f080070110100080000000000000000010000017f0800711101000400000000000000017f08007211010004000000\
             00000000027f0000017f0800030000000400000000000000027f0000",
                "000b00004900000000000020020000000200004034000000300000000a000050050000006e6f6e65000000007011013000000000\
             0001000071110150040000000000000072110170000000000300000000",
            ],
        ),
    ];
    let types = plant();
    for (name, value, payloads) in written {
        let of = types.find(&format!("plant::{name}")).expect("there");
        for (payload, is_xcdr2) in payloads.into_iter().zip([false, true]) {
            let payload = bytes_of(payload);
            assert_eq!(to_json(&payload, of, &types).as_ref(), Ok(value));
            let ours = from_json(value, of, &types, is_xcdr2).expect("it can be written");
            assert_eq!(ours[..2], payload[..2]);
            assert_eq!(to_json(&ours, of, &types).as_ref(), Ok(value));
            for length in 0..payload.len() {
                assert!(to_json(&payload[..length], of, &types).is_err(), "{length}");
            }
        }
    }
}

#[test]
fn headers_of_members_are_those_of_the_specification() {
    let mut types = Types::default();
    let text = "@mutable struct Few { @key @id(1) long a; @id(2) @optional octet b; };
        @final struct Plain { octet a; @optional double b; long long c; };";
    idl::add(text, &mut idl::Names::default(), &mut types).expect("good");
    let few = types.find("Few").expect("there");
    let one = json!({"a": 5});
    // The key must be understood, and the list has an end.
    let older = bytes_of("00030000 01400400 05000000 027f0000");
    let newer = bytes_of("000b0000 0c000000 010000c0 04000000 05000000");
    // The length of a value of four bytes may be a code, and what is not known is passed over.
    let shorter = bytes_of("000b0000 10000000 01000020 05000000 09000020 07000000");
    assert_eq!(from_json(&one, few, &types, false), Ok(older.clone()));
    assert_eq!(from_json(&one, few, &types, true), Ok(newer.clone()));
    for payload in [older, newer, shorter.clone()] {
        assert_eq!(to_json(&payload, few, &types), Ok(one.clone()));
    }
    // But not if it must be understood, nor a value that is longer than its header says, nor another encoding.
    let mut strange = shorter.clone();
    strange[19] |= 0x80;
    assert_eq!(to_json(&strange, few, &types), Err(Fault::Encoding));
    let mut short = shorter.clone();
    short[11] = 0;
    assert_eq!(to_json(&short, few, &types), Err(Fault::Truncated));
    let mut plain = shorter;
    plain[1] = 9;
    assert_eq!(to_json(&plain, few, &types), Err(Fault::Encoding));
    // In XCDR1 an optional value is aligned from its header on, and what follows it is not.
    let plain = types.find("Plain").expect("there");
    let value = json!({"a": 1, "b": 0.5, "c": 2});
    let older = bytes_of("00010000 01000000 01000800 000000000000e03f 0200000000000000");
    assert_eq!(from_json(&value, plain, &types, false), Ok(older.clone()));
    assert_eq!(to_json(&older, plain, &types), Ok(value));
    let without = json!({"a": 1, "c": 2});
    let older = bytes_of("00010000 01000000 01000000 0200000000000000");
    assert_eq!(from_json(&without, plain, &types, false), Ok(older));
    let newer = bytes_of("00070000 01000000 0200000000000000");
    assert_eq!(from_json(&without, plain, &types, true), Ok(newer));
}

#[test]
fn a_union_has_the_case_that_is_said_or_named() {
    let types = plant();
    let of = types.find("plant::Order").expect("there");
    for (said, read) in [
        (
            json!({"many": [1.0]}),
            json!({"$discriminator": "HIGH", "many": [1.0]}),
        ),
        (json!(null), json!({"$discriminator": "LOW", "count": 0})),
        (
            json!({"$discriminator": 1}),
            json!({"$discriminator": "HIGH", "many": []}),
        ),
    ] {
        let payload = from_json(&json!({"amount": said}), of, &types, true).expect("good");
        let value = to_json(&payload, of, &types).expect("good");
        assert_eq!(value["amount"], read);
        // One without a label has a number that no label is.
        assert_eq!(value["code"], json!({"$discriminator": 0, "text": ""}));
    }
    for wrong in [
        json!({"many": [], "count": 1}),
        json!({"$discriminator": "LOW", "many": []}),
        json!({"other": 1}),
        json!({"$discriminator": "OTHER"}),
        json!(5),
    ] {
        let fault = from_json(&json!({"amount": wrong}), of, &types, true);
        assert_eq!(fault, Err(Fault::Field("amount".into())), "{wrong}");
    }
}

/// Types and values that differ with each seed.
struct Random {
    state: u64,
    types: Types,
    made: usize,
}

impl Random {
    /// A number below this one.
    fn below(&mut self, end: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) as usize % end
    }

    fn form(&mut self, forms: usize) -> Option<Form> {
        let forms_known = [Form::Final, Form::Appendable, Form::Mutable];
        Some(forms_known[self.below(forms)])
    }

    fn number(&mut self) -> FieldType {
        let size = 1 << self.below(4);
        match self.below(2) {
            0 => FieldType::Signed(size),
            _ => FieldType::Unsigned(size),
        }
    }

    fn enumeration(&mut self) -> FieldType {
        let names = (0..=self.below(3) as u32).map(|it| (format!("E{it}"), it * 3));
        FieldType::Enum(names.collect())
    }

    fn kind(&mut self, depth: usize) -> FieldType {
        let kinds = if depth < 3 { 9 } else { 5 };
        match self.below(kinds) {
            0 => FieldType::Bool,
            1 => self.number(),
            2 => FieldType::Float(4 << self.below(2)),
            3 => FieldType::Text,
            4 => self.enumeration(),
            5 => FieldType::Array(Box::new(self.kind(depth + 1)), 1 + self.below(3)),
            6 => FieldType::Sequence(Box::new(self.kind(depth + 1))),
            7 => FieldType::Struct(self.structure(depth + 1)),
            _ => self.union(depth + 1),
        }
    }

    fn structure(&mut self, depth: usize) -> String {
        let fields = (0..=self.below(4)).map(|place| {
            let field = Field::required(place, &format!("f{place}"), self.kind(depth));
            Field {
                id: (place * [1, 9_000][self.below(2)] + 1 + place) as u32,
                is_optional: self.below(3) == 0,
                ..field
            }
        });
        let fields = fields.collect();
        self.made += 1;
        let name = format!("S{}", self.made);
        let form = self.form(3);
        self.types.insert(Struct {
            name: name.clone(),
            fields,
            keys: Vec::new(),
            form,
        });
        name
    }

    fn union(&mut self, depth: usize) -> FieldType {
        let discriminator = match self.below(3) {
            0 => FieldType::Bool,
            1 => FieldType::Signed(2),
            _ => self.enumeration(),
        };
        let labels: Vec<i64> = match &discriminator {
            FieldType::Enum(names) => names.iter().map(|(_, it)| i64::from(*it)).collect(),
            _ => vec![0, 1],
        };
        let many = 1 + self.below(labels.len());
        let case = |(at, label)| Case {
            name: format!("c{at}"),
            kind: self.kind(depth),
            labels: vec![label],
            is_default: false,
        };
        let cases = labels.into_iter().take(many).enumerate().map(case);
        let cases = cases.collect();
        FieldType::Union(Arc::new(Union {
            discriminator,
            cases,
            form: self.form(2),
        }))
    }

    fn value(&mut self, kind: &FieldType) -> Value {
        match kind {
            FieldType::Bool => (self.below(2) == 1).into(),
            FieldType::Unsigned(_) => self.below(256).into(),
            FieldType::Signed(_) => (self.below(256) as i64 - 128).into(),
            FieldType::Float(_) => (self.below(1000) as f64 / 8.0 - 50.0).into(),
            FieldType::Text => "x".repeat(self.below(9)).into(),
            FieldType::Enum(names) => names[self.below(names.len())].0.clone().into(),
            FieldType::Array(of, count) => self.list(of, *count),
            FieldType::Sequence(of) => {
                let count = self.below(4);
                self.list(of, count)
            }
            FieldType::Struct(name) => {
                let of = self.types.get(name).expect("there").clone();
                let there = of.fields.iter();
                let there = there.filter_map(|it| {
                    let is_there = !it.is_optional || self.below(2) == 0;
                    is_there.then(|| (it.name.clone(), self.value(&it.kind)))
                });
                Value::Object(there.collect())
            }
            FieldType::Union(of) => {
                let said = self.value(&of.discriminator);
                let label = label_of(&said, &of.discriminator).expect("it is of the type");
                let mut object = json!({DISCRIMINATOR: said});
                if let Some(case) = of.case_of(label) {
                    object[&case.name] = self.value(&case.kind);
                }
                object
            }
        }
    }

    fn list(&mut self, of: &FieldType, count: usize) -> Value {
        match of {
            FieldType::Unsigned(1) => BASE64_STANDARD.encode(vec![7; count]).into(),
            of => (0..count).map(|_| self.value(of)).collect(),
        }
    }
}

#[test]
fn values_of_any_type_come_back_as_they_were_and_no_payload_is_harmful() {
    for seed in 0..2000 {
        let (types, made) = (Types::default(), 0);
        let mut random = Random {
            state: seed,
            types,
            made,
        };
        let name = random.structure(0);
        let value = random.value(&FieldType::Struct(name.clone()));
        let of = random.types.get(&name).expect("there").clone();
        for is_xcdr2 in [false, true] {
            let payload = from_json(&value, &of, &random.types, is_xcdr2);
            let mut payload = payload.expect("it is of the type");
            let back = to_json(&payload, &of, &random.types);
            assert_eq!(
                back.as_ref(),
                Ok(&value),
                "seed {seed}: {of:?} as {payload:02x?}"
            );
            for _ in 0..20 {
                let at = random.below(payload.len());
                payload[at] ^= 1 << random.below(8);
                let cut = &payload[..payload.len() - random.below(payload.len() / 2)];
                // What it is then is not said.
                let _ = to_json(cut, &of, &random.types);
            }
        }
    }
}
