//! Payloads of values.

use super::{
    DEPTH_MAX, DISCRIMINATOR, EXTENDED, Fault, ID_MAX, LENGTH_FOLLOWS, LIST_END, MUST_UNDERSTAND,
    MUST_UNDERSTAND_EXTENDED, MUST_UNDERSTAND_XCDR2, WRITTEN_MAX, XCDR1, XCDR2, has_length,
    label_of,
};
use crate::types::{Field, FieldType, Form, Struct, Types, Union};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

pub(super) struct Writer<'a> {
    pub(super) bytes: Vec<u8>,
    /// What is aligned is so from here.
    pub(super) origin: usize,
    pub(super) alignment_max: usize,
    pub(super) types: &'a Types,
}

impl Writer<'_> {
    fn word(&mut self, value: u64, size: usize) {
        self.align(size);
        self.bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    }

    fn align(&mut self, size: usize) {
        let at = self.bytes.len() - self.origin;
        let padded = self.origin + at.next_multiple_of(size.min(self.alignment_max));
        self.bytes.resize(padded, 0);
    }

    pub(super) fn object(&mut self, value: &Value, of: &Struct, depth: u32) -> Result<(), Fault> {
        if depth == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        if !(value.is_object() || value.is_null()) {
            return Err(Fault::Field(of.name.clone()));
        }
        self.counted(self.has_count(of.form), |writer| {
            for (place, field) in of.fields.iter().enumerate() {
                let value = value.get(&field.name).unwrap_or(&Value::Null);
                let is_there = !(field.is_optional && value.is_null());
                let write =
                    |writer: &mut Self| writer.value(value, &field.kind, &field.name, depth);
                match (of.form, writer.alignment_max) {
                    (Some(Form::Mutable), _) if !is_there => {}
                    (Some(Form::Mutable), _) => {
                        writer.member(field, of.keys.contains(&place), write)?;
                    }
                    _ if !field.is_optional => write(writer)?,
                    (_, XCDR2) => {
                        writer.word(is_there.into(), 1);
                        if is_there {
                            write(writer)?;
                        }
                    }
                    _ if is_there => writer.member(field, false, write)?,
                    _ => writer.member(field, false, |_| Ok(()))?,
                }
            }
            if of.form == Some(Form::Mutable) && writer.alignment_max == XCDR1 {
                writer.align(4);
                writer.word((LIST_END | MUST_UNDERSTAND).into(), 2);
                writer.word(0, 2);
            }
            Ok(())
        })
    }

    /// Whether a value of this form has its length before it.
    fn has_count(&self, form: Option<Form>) -> bool {
        self.alignment_max == XCDR2 && matches!(form, Some(Form::Appendable | Form::Mutable))
    }

    /// Writes a header and what `write` does, which in XCDR1 is aligned as if nothing were before it.
    fn member(
        &mut self,
        field: &Field,
        is_key: bool,
        write: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.align(4);
        let start = self.bytes.len();
        if self.alignment_max == XCDR2 {
            // Who does not know the key does not know the instance.
            let flag = if is_key { MUST_UNDERSTAND_XCDR2 } else { 0 };
            self.word((flag | LENGTH_FOLLOWS << 28 | field.id).into(), 4);
            return self.counted(true, write);
        }
        self.word(0, 4);
        let origin = std::mem::replace(&mut self.origin, start + 4);
        let written = write(self);
        self.origin = origin;
        written?;
        let length = self.bytes.len() - start - 4;
        let short = u16::try_from(length).ok().filter(|_| field.id < ID_MAX);
        if let Some(length) = short {
            let flag = if is_key { MUST_UNDERSTAND } else { 0 };
            self.bytes[start..start + 2].copy_from_slice(&(field.id as u16 | flag).to_le_bytes());
            self.bytes[start + 2..start + 4].copy_from_slice(&length.to_le_bytes());
            return Ok(());
        }
        let flag = if is_key { MUST_UNDERSTAND_EXTENDED } else { 0 };
        let length = u32::try_from(length).map_err(|_| Fault::Length)?;
        let mut header = Vec::with_capacity(12);
        header.extend((EXTENDED | MUST_UNDERSTAND).to_le_bytes());
        header.extend(8_u16.to_le_bytes());
        header.extend((field.id | flag).to_le_bytes());
        header.extend(length.to_le_bytes());
        self.bytes.splice(start..start + 4, header);
        Ok(())
    }

    fn union(&mut self, value: &Value, of: &Union, name: &str, depth: u32) -> Result<(), Fault> {
        if depth == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        let wrong = || Fault::Field(name.to_owned());
        let members = match value {
            Value::Null => None,
            Value::Object(members) => Some(members),
            _ => return Err(wrong()),
        };
        let names = members.into_iter().flat_map(Map::keys);
        let mut named = names.filter(|it| *it != DISCRIMINATOR);
        let (said, other) = (named.next(), named.next());
        let label = match (members.and_then(|it| it.get(DISCRIMINATOR)), said) {
            (Some(value), _) => label_of(value, &of.discriminator),
            (None, Some(said)) => {
                let case = of.cases.iter().find(|it| it.name == *said);
                case.and_then(|it| of.label_of(it))
            }
            (None, None) => label_of(&Value::Null, &of.discriminator),
        };
        let label = label.filter(|_| other.is_none()).ok_or_else(wrong)?;
        let case = of.case_of(label);
        // What it has is that of its case.
        if said.is_some_and(|said| case.is_none_or(|it| it.name != *said)) {
            return Err(wrong());
        }
        self.counted(self.has_count(of.form), |writer| {
            let discriminator = match of.discriminator {
                FieldType::Bool => (label != 0).into(),
                _ => label.into(),
            };
            writer.value(&discriminator, &of.discriminator, name, depth)?;
            let Some(case) = case else {
                return Ok(());
            };
            let value = value.get(&case.name).unwrap_or(&Value::Null);
            writer.value(value, &case.kind, &case.name, depth)
        })
    }

    /// Writes the output of `write`, with its length before it if that is required.
    fn counted(
        &mut self,
        is_counted: bool,
        write: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !is_counted {
            return write(self);
        }
        self.word(0, 4);
        let start = self.bytes.len();
        write(self)?;
        let length = u32::try_from(self.bytes.len() - start).map_err(|_| Fault::Length)?;
        self.bytes[start - 4..start].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn value(
        &mut self,
        value: &Value,
        kind: &FieldType,
        name: &str,
        depth: u32,
    ) -> Result<(), Fault> {
        if self.bytes.len() > WRITTEN_MAX {
            return Err(Fault::Length);
        }
        let wrong = || Fault::Field(name.to_owned());
        let or = |zero: Value| if value.is_null() { zero } else { value.clone() };
        match kind {
            FieldType::Bool => {
                let value = or(false.into()).as_bool().ok_or_else(wrong)?;
                self.word(value.into(), 1);
            }
            FieldType::Unsigned(size) => {
                let value = or(0.into()).as_u64().ok_or_else(wrong)?;
                if *size < 8 && value >> (8 * size) != 0 {
                    return Err(wrong());
                }
                self.word(value, *size);
            }
            FieldType::Signed(size) => {
                let value = or(0.into()).as_i64().ok_or_else(wrong)?;
                let unused = 64 - 8 * *size as u32;
                if (value << unused) >> unused != value {
                    return Err(wrong());
                }
                self.word(value as u64, *size);
            }
            FieldType::Float(4) => {
                let value = or(0.into()).as_f64().ok_or_else(wrong)? as f32;
                self.word(value.to_bits().into(), 4);
            }
            FieldType::Float(_) => {
                let value = or(0.into()).as_f64().ok_or_else(wrong)?;
                self.word(value.to_bits(), 8);
            }
            FieldType::Text => {
                let value = or("".into());
                let text = value.as_str().ok_or_else(wrong)?;
                if text.contains('\0') {
                    return Err(wrong());
                }
                self.word(text.len() as u64 + 1, 4);
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.push(0);
            }
            FieldType::Array(of, count) if **of == FieldType::Unsigned(1) => {
                let value = or(BASE64_STANDARD.encode(vec![0; *count]).into());
                let bytes = bytes_of(&value).filter(|bytes| bytes.len() == *count);
                self.bytes.extend(bytes.ok_or_else(wrong)?);
            }
            FieldType::Sequence(of) if **of == FieldType::Unsigned(1) => {
                let bytes = bytes_of(&or("".into())).ok_or_else(wrong)?;
                self.word(bytes.len() as u64, 4);
                self.bytes.extend(bytes);
            }
            FieldType::Enum(names) => {
                let first = names.first().map_or(0, |(_, number)| *number);
                let number = match value {
                    Value::Null => Some(first),
                    Value::String(text) => {
                        let found = names.iter().find(|(name, _)| name == text);
                        found.map(|(_, number)| *number)
                    }
                    value => value.as_u64().and_then(|it| u32::try_from(it).ok()),
                };
                self.word(number.ok_or_else(wrong)?.into(), 4);
            }
            FieldType::Array(kind, count) => {
                let value = or(vec![Value::Null; *count].into());
                let list = value.as_array().filter(|list| list.len() == *count);
                let list = list.ok_or_else(wrong)?;
                self.list(list, None, kind, name, depth)?;
            }
            FieldType::Sequence(kind) => {
                let value = or(Vec::<Value>::new().into());
                let list = value.as_array().ok_or_else(wrong)?;
                self.list(list, Some(list.len()), kind, name, depth)?;
            }
            FieldType::Struct(of) => {
                let of = self.types.get(of).ok_or(Fault::Depth)?.clone();
                self.object(value, &of, depth + 1)?;
            }
            FieldType::Union(of) => self.union(value, of, name, depth + 1)?,
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// `count` stands before the elements of a sequence.
    fn list(
        &mut self,
        list: &[Value],
        count: Option<usize>,
        kind: &FieldType,
        name: &str,
        depth: u32,
    ) -> Result<(), Fault> {
        let is_counted = self.alignment_max == XCDR2 && has_length(kind);
        self.counted(is_counted, |writer| {
            if let Some(count) = count {
                writer.word(count as u64, 4);
            }
            for value in list {
                writer.value(value, kind, name, depth)?;
            }
            Ok(())
        })
    }
}

/// Arrays and sequences of bytes are base64 in JSON.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(value.as_str()?).ok()
}
