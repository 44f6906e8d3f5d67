//! Keys of known types: the values of the key's fields as one level of an address, and back.
//!
//! `7`, `RED`, or `7,RED` of a key of two fields. Characters with a meaning in addresses or here are written as `%` and
//! two digits.

use crate::cdr;
use crate::types::{FieldType, Struct, Types};
use serde_json::{Map, Value};

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
        let is_usable = !fields.is_empty() && fields.iter().all(|(_, kind)| has_text(kind));
        is_usable.then(|| KeyType {
            only: Struct {
                name: whole.name.clone(),
                fields,
                keys: Vec::new(),
                form: whole.form,
            },
        })
    }

    /// The level of a value.
    pub fn level(&self, value: &Value) -> Option<String> {
        let mut level = String::new();
        for (at, (name, _)) in self.only.fields.iter().enumerate() {
            if at > 0 {
                level.push(SEPARATOR);
            }
            match value.get(name)? {
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

    /// The serialized key that a level says.
    pub fn payload(&self, level: &str, types: &Types, is_xcdr2: bool) -> Option<Vec<u8>> {
        let mut parts = level.split(SEPARATOR);
        let mut object = Map::new();
        for (name, kind) in &self.only.fields {
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
