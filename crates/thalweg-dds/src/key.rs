//! Keys of known types: the values of the key's fields as one level of an address, and back.
//!
//! `7`, `RED`, or `7,RED` of a key of two fields. Characters with a meaning in addresses or here are written as `%` and
//! two digits.

use crate::cdr;
use crate::types::{Field, FieldType, Form, Known, Struct, Types};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The MD5 of a key, or the key itself if it is always that short; zero where there is none, or none is known.
pub type KeyHash = [u8; 16];

/// Between the fields of a key.
const SEPARATOR: char = ',';
/// Characters that are written as codes, beside those of control.
const CODED: [char; 6] = ['%', SEPARATOR, '/', '+', '#', '$'];

/// The key of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyType {
    /// The type, with the fields of the key and no others.
    only: Struct,
}

impl KeyType {
    /// Nothing if there is no key, or one with fields that have no short text.
    pub fn of(whole: &Struct) -> Option<KeyType> {
        let fields: Vec<_> = whole
            .keys
            .iter()
            .filter_map(|at| whole.fields.get(*at).cloned())
            .collect();
        let has_text = |kind: &FieldType| {
            matches!(
                kind,
                FieldType::Bool
                    | FieldType::Unsigned(_)
                    | FieldType::Signed(_)
                    | FieldType::Text
                    | FieldType::Enum(_)
            )
        };
        let is_usable = !fields.is_empty() && fields.iter().all(|it| has_text(&it.kind));
        is_usable.then(|| KeyType {
            only: Struct {
                name: whole.name.clone(),
                keys: (0..fields.len()).collect(),
                fields,
                form: whole.form,
            },
        })
    }

    /// The level of a value.
    pub fn level(&self, value: &Value) -> Option<String> {
        let mut level = String::new();
        for (at, field) in self.only.fields.iter().enumerate() {
            if at > 0 {
                level.push(SEPARATOR);
            }
            match value.get(&field.name)? {
                Value::String(text) => code(text, &mut level),
                value @ (Value::Bool(_) | Value::Number(_)) => level.push_str(&value.to_string()),
                _ => return None,
            }
        }
        Some(level)
    }

    /// The level of a serialized key, which is what comes when an instance ends.
    pub fn level_of_payload(&self, payload: &[u8], types: &Types) -> Option<String> {
        let value = cdr::to_json(payload, &self.only, types).ok()?;
        self.level(&value)
    }

    /// The level of a key that is short enough to be its own hash.
    pub fn level_of_hash(&self, hash: &KeyHash, types: &Types) -> Option<String> {
        let is_text = |it: &Field| it.kind == FieldType::Text;
        if self.only.fields.iter().any(is_text) {
            return None;
        }
        let only = Struct {
            form: Some(Form::Final),
            ..self.only.clone()
        };
        let payload = [&PLAIN_CDR2_BE[..], hash].concat();
        let value = cdr::to_json(&payload, &only, types).ok()?;
        let level = self.level(&value)?;
        // What does not fit in it is a hash of something longer.
        (self.hash(&level).as_ref() == Some(hash)).then_some(level)
    }

    /// The hash of the key that a level says (DDSI-RTPS 2.5 §9.6.4.8, in XCDR2 as DDS-XTypes 1.3 §7.6.8 has it).
    pub fn hash(&self, level: &str) -> Option<KeyHash> {
        let mut parts = level.split(SEPARATOR);
        let mut key = Vec::new();
        let mut is_short = true;
        for Field { kind, .. } in &self.only.fields {
            let text = decoded(parts.next()?)?;
            match kind {
                FieldType::Text => {
                    let length = u32::try_from(text.len() + 1).ok()?;
                    put_aligned(&mut key, &length.to_be_bytes());
                    key.extend_from_slice(text.as_bytes());
                    key.push(0);
                    is_short = false;
                }
                FieldType::Bool => put_aligned(&mut key, &[u8::from(text == "true")]),
                FieldType::Enum(names) => {
                    let named = names.iter().find(|(name, _)| *name == text);
                    let number = named.map(|(_, number)| *number);
                    let number = number.or_else(|| text.parse().ok())?;
                    put_aligned(&mut key, &number.to_be_bytes());
                }
                FieldType::Unsigned(size) => {
                    let number: u64 = text.parse().ok()?;
                    let whole = number.to_be_bytes();
                    let (rest, bytes) = whole.split_at(8 - size);
                    if rest.iter().any(|byte| *byte != 0) {
                        return None;
                    }
                    put_aligned(&mut key, bytes);
                }
                FieldType::Signed(size) => {
                    let number: i64 = text.parse().ok()?;
                    let unused = 64 - 8 * *size as u32;
                    if (number << unused) >> unused != number {
                        return None;
                    }
                    put_aligned(&mut key, &number.to_be_bytes()[8 - size..]);
                }
                _ => return None,
            }
        }
        if parts.next().is_some() {
            return None;
        }
        if !is_short || key.len() > 16 {
            return Some(md5(&key));
        }
        key.resize(16, 0);
        key.try_into().ok()
    }

    /// The serialized key that a level says.
    pub fn payload(&self, level: &str, types: &Types, is_xcdr2: bool) -> Option<Vec<u8>> {
        let mut parts = level.split(SEPARATOR);
        let mut object = Map::new();
        for Field { name, kind, .. } in &self.only.fields {
            let text = decoded(parts.next()?)?;
            let value = match kind {
                FieldType::Text => Value::String(text),
                FieldType::Enum(names) if names.iter().any(|(name, _)| *name == text) => {
                    Value::String(text)
                }
                _ => serde_json::from_str(&text).ok()?,
            };
            object.insert(name.clone(), value);
        }
        if parts.next().is_some() {
            return None;
        }
        cdr::from_json(&Value::Object(object), &self.only, types, is_xcdr2).ok()
    }
}

/// A type of which whole samples are had, without the hash of their key.
#[derive(Clone, Debug)]
pub struct Keyed {
    known: Known,
    key: KeyType,
}

impl Keyed {
    /// Nothing if the type has no key that [`KeyType`] can have.
    pub fn of(known: Known) -> Option<Keyed> {
        Some(Keyed {
            key: KeyType::of(&known.of)?,
            known,
        })
    }

    pub fn is_same(&self, other: &Keyed) -> bool {
        Arc::ptr_eq(&self.known.of, &other.known.of)
    }

    /// The hash of the key of a sample.
    pub fn hash(&self, payload: &[u8]) -> Option<KeyHash> {
        let value = cdr::to_json(payload, &self.known.of, &self.known.types).ok()?;
        self.key.hash(&self.key.level(&value)?)
    }
}

/// The encoding of XCDR2 in big endian, without options.
const PLAIN_CDR2_BE: [u8; 4] = [0, 6, 0, 0];

/// Appends a number with the alignment that XCDR2 has.
fn put_aligned(key: &mut Vec<u8>, number: &[u8]) {
    key.resize(key.len().next_multiple_of(number.len().min(4)), 0);
    key.extend_from_slice(number);
}

/// RFC 1321: DDS names instances by it, nothing is kept safe by it.
pub(crate) fn md5(text: &[u8]) -> [u8; 16] {
    const TURNS: [[u32; 4]; 4] = [
        [7, 12, 17, 22],
        [5, 9, 14, 20],
        [4, 11, 16, 23],
        [6, 10, 15, 21],
    ];
    let mut bytes = [text, &[0x80]].concat();
    bytes.resize((bytes.len() + 8).next_multiple_of(64) - 8, 0);
    bytes.extend_from_slice(&(text.len() as u64 * 8).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in bytes.chunks_exact(64) {
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64_usize {
            let (mixed, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let word = &block[4 * at..4 * at + 4];
            let word = word
                .iter()
                .rev()
                .fold(0, |sum, it| sum << 8 | u32::from(*it));
            let sine = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(word).wrapping_add(sine);
            let turned = sum.rotate_left(TURNS[step / 16][step % 4]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
        }
        for (sum, one) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(one);
        }
    }
    let mut hash = [0; 16];
    for (four, word) in hash.chunks_exact_mut(4).zip(state) {
        four.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

fn code(text: &str, level: &mut String) {
    for letter in text.chars() {
        if letter.is_control() || CODED.contains(&letter) {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                level.push_str(&format!("%{byte:02X}"));
            }
        } else {
            level.push(letter);
        }
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idl::{Names, add};
    use serde_json::json;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_are_those_of_the_rfc() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(&md5(text.as_bytes())), digest);
        }
    }

    #[test]
    fn short_keys_are_their_own_hash_and_back() {
        let mut types = Types::default();
        let text = "enum Color { RED, BLUE };
            struct Few { @key short id; @key Color color; @key unsigned long long number; @key boolean on; };
            struct Text { @key string name; };
            struct Long { @key long long a; @key long long b; @key octet c; };";
        add(text, &mut Names::default(), &mut types).expect("it is good");
        let key_of = |name| KeyType::of(types.find(name).expect("there")).expect("it has one");
        let few = key_of("Few");
        let hash = few.hash("-2,BLUE,7,false").expect("it is one");
        assert_eq!(
            hex(&hash),
            hex(&md5(b"\xff\xfe\0\0\0\0\0\x01\0\0\0\0\0\0\0\x07\0"))
        );
        assert_eq!(few.level_of_hash(&hash, &types), None);
        for wrong in [
            "-2,BLUE,7",
            "-2,BLUE,7,true,1",
            "40000,RED,1,true",
            "1,RED,-1,true",
        ] {
            assert_eq!(few.hash(wrong), None, "{wrong}");
        }
        let text = key_of("Text").hash("a%2Fb").expect("it is one");
        assert_eq!(text, md5(b"\0\0\0\x04a/b\0"));
        assert_eq!(key_of("Text").level_of_hash(&text, &types), None);
        assert_eq!(key_of("Long").hash("1,2,3").map(|it| hex(&it)), {
            let key = [&1i64.to_be_bytes()[..], &2i64.to_be_bytes(), &[3]].concat();
            Some(hex(&md5(&key)))
        });
    }

    #[test]
    fn a_sample_without_a_hash_has_that_of_its_key() {
        let mut types = Types::default();
        let text = "struct Reading { double value; @key long id; @key short part; };";
        add(text, &mut Names::default(), &mut types).expect("it is good");
        let types = Arc::new(types);
        let keyed = types.known("Reading").and_then(Keyed::of);
        let keyed = keyed.expect("it has a key");
        let value = json!({"value": 1.5, "id": -7, "part": 3});
        let mut hash = [0; 16];
        hash[..6].copy_from_slice(&[0xff, 0xff, 0xff, 0xf9, 0, 3]);
        for is_xcdr2 in [false, true] {
            let of = types.find("Reading").expect("there");
            let payload = cdr::from_json(&value, of, &types, is_xcdr2).expect("it is good");
            assert_eq!(keyed.hash(&payload), Some(hash));
            assert_eq!(keyed.hash(&payload[..8]), None);
        }
        let key = KeyType::of(types.find("Reading").expect("there")).expect("it has one");
        assert_eq!(key.level_of_hash(&hash, &types).as_deref(), Some("-7,3"));
        assert!(types.known("Other").is_none());
    }

    #[test]
    fn keys_are_levels_and_back() {
        let mut types = Types::default();
        let text = "enum Color { RED, BLUE };
            struct Shape { @key string name; long x; @key short id; @key Color color; };
            struct Nested { @key Shape shape; };
            struct Plain { long x; };";
        add(text, &mut Names::default(), &mut types).expect("it is good");
        let shape = types.find("Shape").expect("there");
        let key = KeyType::of(shape).expect("it has one");
        for (name, level) in [("a", "a,-3,BLUE"), ("a/b,c%\n", "a%2Fb%2Cc%25%0A,-3,BLUE")] {
            let value = json!({"name": name, "x": 9, "id": -3, "color": "BLUE"});
            assert_eq!(key.level(&value).as_deref(), Some(level));
            for is_xcdr2 in [false, true] {
                let payload = key.payload(level, &types, is_xcdr2).expect("it is one");
                let again = key.level_of_payload(&payload, &types);
                assert_eq!(again.as_deref(), Some(level));
            }
        }
        for wrong in [
            "a",
            "a,1,RED,2",
            "a,x,RED",
            "a,1,GREEN",
            "%4,1,RED",
            "%FF,1,RED",
        ] {
            assert_eq!(key.payload(wrong, &types, false), None, "{wrong}");
        }
        for other in ["Nested", "Plain"] {
            assert_eq!(KeyType::of(types.find(other).expect("there")), None);
        }
    }
}
