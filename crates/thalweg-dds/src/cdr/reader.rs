//! Values of payloads.

use super::{
    DEPTH_MAX, DISCRIMINATOR, EXTENDED, Fault, ID_BITS, ID_BITS_EXTENDED, LENGTH_FOLLOWS, LIST_END,
    MUST_UNDERSTAND, MUST_UNDERSTAND_EXTENDED, MUST_UNDERSTAND_XCDR2, XCDR1, XCDR2, has_length,
    label_of,
};
use crate::types::{Field, FieldType, Form, PLACEHOLDER, Struct, Types, Union};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value};

pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// What is aligned is so from here.
    pub(super) origin: usize,
    pub(super) is_little: bool,
    pub(super) alignment_max: usize,
    /// Of structures and unions whose text does not say it.
    pub(super) form: Form,
    pub(super) types: &'a Types,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(count).ok_or(Fault::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Fault::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn align(&mut self, size: usize) {
        let alignment = size.min(self.alignment_max);
        self.at = self.origin + (self.at - self.origin).next_multiple_of(alignment);
    }

    /// An aligned number of so many bytes.
    fn word(&mut self, size: usize) -> Result<u64, Fault> {
        self.align(size);
        let bytes = self.take(size)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Ok(match self.is_little {
            true => bytes.iter().rev().fold(0, add),
            false => bytes.iter().fold(0, add),
        })
    }

    fn text(&mut self) -> Result<&'a str, Fault> {
        let length = self.word(4)? as usize;
        let (last, text) = self.take(length)?.split_last().ok_or(Fault::Text)?;
        match last {
            0 => std::str::from_utf8(text).map_err(|_| Fault::Text),
            _ => Err(Fault::Text),
        }
    }

    pub(super) fn object(&mut self, of: &Struct, depth: u32) -> Result<Value, Fault> {
        if depth == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        let form = of.form.unwrap_or(self.form);
        self.counted(form, |reader| {
            let mut object = Map::new();
            if form == Form::Mutable {
                reader.mutable(of, &mut object, depth)?;
                return Ok(Value::Object(object));
            }
            for field in &of.fields {
                if let Some(value) = reader.member(field, depth)?
                    && field.name != PLACEHOLDER
                {
                    object.insert(field.name.clone(), value);
                }
            }
            Ok(Value::Object(object))
        })
    }

    /// Reads what has its length before it in this form, and passes over what a newer version of the type has in addition. What an
    /// older one lacks is not made up.
    fn counted(
        &mut self,
        form: Form,
        read: impl FnOnce(&mut Self) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        if self.alignment_max != XCDR2 || form == Form::Final {
            return read(self);
        }
        let length = self.word(4)? as usize;
        // Nothing of a value is beyond its end, and so nothing is read twice.
        let end = self.at.checked_add(length).ok_or(Fault::Truncated)?;
        let part = self.bytes.get(..end).ok_or(Fault::Truncated)?;
        let whole = std::mem::replace(&mut self.bytes, part);
        let value = read(self);
        (self.bytes, self.at) = (whole, end);
        value
    }

    /// A member of a structure that is not mutable, if it is there.
    fn member(&mut self, field: &Field, depth: u32) -> Result<Option<Value>, Fault> {
        match (field.is_optional, self.alignment_max) {
            (false, _) => self.value(&field.kind, depth).map(Some),
            (true, XCDR2) => match self.word(1)? {
                0 => Ok(None),
                _ => self.value(&field.kind, depth).map(Some),
            },
            (true, _) => match self.header()? {
                Some((id, 0, _)) if id == field.id => Ok(None),
                Some((id, length, _)) if id == field.id => {
                    let read = |reader: &mut Self| reader.value(&field.kind, depth);
                    self.within(length, read).map(Some)
                }
                _ => Err(Fault::Encoding),
            },
        }
    }

    /// Members with headers, in any order. One that is not known is passed over, unless it is said that it must not be.
    fn mutable(
        &mut self,
        of: &Struct,
        object: &mut Map<String, Value>,
        depth: u32,
    ) -> Result<(), Fault> {
        while let Some((id, length, must_understand)) = self.header()? {
            let field = of.fields.iter().find(|it| it.id == id);
            let value = self.within(length, |reader| {
                field.map(|it| reader.value(&it.kind, depth)).transpose()
            })?;
            match (field, value) {
                (Some(field), Some(value)) => {
                    object.insert(field.name.clone(), value);
                }
                _ if must_understand => return Err(Fault::Encoding),
                _ => {}
            }
        }
        Ok(())
    }

    /// The header of a member: its id, the bytes of its value, and whether who does not know it may not read the rest. Nothing at the end
    /// of all members.
    fn header(&mut self) -> Result<Option<(u32, usize, bool)>, Fault> {
        if self.alignment_max == XCDR2 {
            if self.at >= self.bytes.len() {
                return Ok(None);
            }
            let header = self.word(4)? as u32;
            let code = header >> 28 & 7;
            let length = match code {
                0..LENGTH_FOLLOWS => 1 << code,
                LENGTH_FOLLOWS => self.word(4)? as usize,
                // The number of the value's elements is the first of it, and tells its length.
                code => {
                    let count = self.word(4)? as usize;
                    self.at -= 4;
                    count * [1, 4, 8][code as usize - 5] + 4
                }
            };
            let must_understand = header & MUST_UNDERSTAND_XCDR2 != 0;
            return Ok(Some((header & ID_BITS_EXTENDED, length, must_understand)));
        }
        self.align(4);
        let (first, length) = (self.word(2)? as u16, self.word(2)? as usize);
        Ok(match first & ID_BITS {
            LIST_END => None,
            EXTENDED => {
                let (id, length) = (self.word(4)? as u32, self.word(4)? as usize);
                let must_understand = id & MUST_UNDERSTAND_EXTENDED != 0;
                Some((id & ID_BITS_EXTENDED, length, must_understand))
            }
            id => Some((u32::from(id), length, first & MUST_UNDERSTAND != 0)),
        })
    }

    /// Reads a value of so many bytes. In XCDR1 it is aligned as if nothing were before it.
    fn within<T>(
        &mut self,
        length: usize,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let end = self.at.checked_add(length).ok_or(Fault::Truncated)?;
        let part = self.bytes.get(..end).ok_or(Fault::Truncated)?;
        let (whole, origin) = (std::mem::replace(&mut self.bytes, part), self.origin);
        if self.alignment_max == XCDR1 {
            self.origin = self.at;
        }
        let value = read(self);
        (self.bytes, self.origin, self.at) = (whole, origin, end);
        value
    }

    fn union(&mut self, of: &Union, depth: u32) -> Result<Value, Fault> {
        if depth == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        self.counted(of.form.unwrap_or(self.form), |reader| {
            let discriminator = reader.value(&of.discriminator, depth)?;
            let label = label_of(&discriminator, &of.discriminator).ok_or(Fault::Encoding)?;
            let mut object = Map::from_iter([(DISCRIMINATOR.to_owned(), discriminator)]);
            if let Some(case) = of.case_of(label) {
                object.insert(case.name.clone(), reader.value(&case.kind, depth)?);
            }
            Ok(Value::Object(object))
        })
    }

    fn value(&mut self, kind: &FieldType, depth: u32) -> Result<Value, Fault> {
        let float = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
        Ok(match kind {
            FieldType::Bool => Value::Bool(self.word(1)? != 0),
            FieldType::Unsigned(size) => self.word(*size)?.into(),
            FieldType::Signed(size) => {
                let unused = 64 - 8 * *size as u32;
                (((self.word(*size)? << unused) as i64) >> unused).into()
            }
            // As text says the shortest decimal that is this number, not the nearest double.
            FieldType::Float(4) => {
                let value = f32::from_bits(self.word(4)? as u32);
                float(value.to_string().parse().unwrap_or(f64::from(value)))
            }
            FieldType::Float(_) => float(f64::from_bits(self.word(8)?)),
            FieldType::Text => self.text()?.into(),
            FieldType::Enum(names) => {
                let number = self.word(4)? as u32;
                match names.iter().find(|(_, it)| *it == number) {
                    Some((name, _)) => name.as_str().into(),
                    None => number.into(),
                }
            }
            FieldType::Array(of, count) => {
                self.length_of(of)?;
                self.list(of, *count, depth)?
            }
            FieldType::Sequence(of) => {
                self.length_of(of)?;
                let count = self.word(4)? as usize;
                self.list(of, count, depth)?
            }
            FieldType::Struct(name) => {
                let of = self.types.get(name).ok_or(Fault::Depth)?.clone();
                self.object(&of, depth + 1)?
            }
            FieldType::Union(of) => self.union(of, depth + 1)?,
        })
    }

    /// Passes over the length of a list, where there is one.
    fn length_of(&mut self, of: &FieldType) -> Result<(), Fault> {
        if self.alignment_max == XCDR2 && has_length(of) {
            self.word(4)?;
        }
        Ok(())
    }

    fn list(&mut self, kind: &FieldType, count: usize, depth: u32) -> Result<Value, Fault> {
        if *kind == FieldType::Unsigned(1) {
            return Ok(BASE64_STANDARD.encode(self.take(count)?).into());
        }
        // A count that a peer made up costs nothing: each element takes a byte at least, but for structures without fields.
        if count > self.bytes.len() {
            return Err(Fault::Truncated);
        }
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.value(kind, depth)?);
        }
        Ok(Value::Array(list))
    }
}
