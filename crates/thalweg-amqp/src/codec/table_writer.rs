//! Field tables that we make: entries go straight into a buffer.

use super::{
    FieldValue, Table, put_long, put_long_long, put_long_str, put_octet, put_short, put_table,
};

/// Appends the entries of a table to a buffer.
///
/// ```ignore
/// let mut buffer = Vec::new();
/// let mut writer = TableWriter::new(&mut buffer);
/// writer.str("product", "Thalweg").table("capabilities", |c| {
///     c.bool("basic.nack", true);
/// });
/// let table = writer.finish();
/// ```
#[derive(Debug)]
pub struct TableWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
}

/// Appends the values of an array.
#[derive(Debug)]
pub struct ArrayWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> TableWriter<'o> {
    /// Entries go behind what `out` holds already.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        TableWriter { out, start }
    }

    /// The table that was written.
    pub fn finish(self) -> Table<'o> {
        let TableWriter { out, start } = self;
        Table::written(out.get(start..).unwrap_or_default())
    }

    /// One entry. A key of more than 255 bytes does not fit the wire: its entry is left out.
    pub fn value(&mut self, key: &str, value: FieldValue<'_>) -> &mut Self {
        if self.put_key(key) {
            put_value(value, self.out);
        }
        self
    }

    /// An entry with text.
    pub fn str(&mut self, key: &str, value: &str) -> &mut Self {
        self.value(key, FieldValue::LongStr(value.as_bytes()))
    }

    /// An entry with a truth value.
    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.value(key, FieldValue::Bool(value))
    }

    /// An entry with a number.
    pub fn i64(&mut self, key: &str, value: i64) -> &mut Self {
        self.value(key, FieldValue::I64(value))
    }

    /// An entry with a table in it.
    pub fn table(&mut self, key: &str, entries: impl FnOnce(&mut TableWriter<'_>)) -> &mut Self {
        if self.put_key(key) {
            put_nested(b'F', self.out, |out| entries(&mut TableWriter::new(out)));
        }
        self
    }

    /// An entry with an array in it.
    pub fn array(&mut self, key: &str, values: impl FnOnce(&mut ArrayWriter<'_>)) -> &mut Self {
        if self.put_key(key) {
            put_nested(b'A', self.out, |out| values(&mut ArrayWriter { out }));
        }
        self
    }

    /// The entries of another table whose keys `keep` accepts.
    pub fn copy(&mut self, table: Table<'_>, keep: impl Fn(&str) -> bool) -> &mut Self {
        for (key, value) in table.iter().filter(|(key, _)| keep(key)) {
            self.value(key, value);
        }
        self
    }

    fn put_key(&mut self, key: &str) -> bool {
        let Ok(len) = u8::try_from(key.len()) else {
            return false;
        };
        self.out.push(len);
        self.out.extend_from_slice(key.as_bytes());
        true
    }
}

impl ArrayWriter<'_> {
    /// Appends a value with its type.
    pub fn value(&mut self, value: FieldValue<'_>) -> &mut Self {
        put_value(value, self.out);
        self
    }

    /// Appends a text as a long string.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.value(FieldValue::LongStr(value.as_bytes()))
    }

    /// Appends a nested table, which `entries` writes.
    pub fn table(&mut self, entries: impl FnOnce(&mut TableWriter<'_>)) -> &mut Self {
        put_nested(b'F', self.out, |out| entries(&mut TableWriter::new(out)));
        self
    }

    /// Appends a nested array, which `values` writes.
    pub fn array(&mut self, values: impl FnOnce(&mut ArrayWriter<'_>)) -> &mut Self {
        put_nested(b'A', self.out, |out| values(&mut ArrayWriter { out }));
        self
    }
}

/// Writes a type letter, a length, and the output of `inner`.
fn put_nested(letter: u8, out: &mut Vec<u8>, inner: impl FnOnce(&mut Vec<u8>)) {
    out.push(letter);
    let start = out.len();
    put_long(0, out);
    inner(out);
    let len = (out.len() - start - 4) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&len.to_be_bytes());
    }
}

fn put_value(value: FieldValue<'_>, out: &mut Vec<u8>) {
    out.push(value.letter());
    match value {
        FieldValue::Bool(value) => put_octet(value.into(), out),
        FieldValue::I8(n) => put_octet(n as u8, out),
        FieldValue::U8(n) => put_octet(n, out),
        FieldValue::I16(n) => put_short(n as u16, out),
        FieldValue::U16(n) => put_short(n, out),
        FieldValue::I32(n) => put_long(n as u32, out),
        FieldValue::U32(n) => put_long(n, out),
        FieldValue::I64(n) => put_long_long(n as u64, out),
        FieldValue::U64(n) | FieldValue::Timestamp(n) => put_long_long(n, out),
        FieldValue::F32(n) => put_long(n.to_bits(), out),
        FieldValue::F64(n) => put_long_long(n.to_bits(), out),
        FieldValue::Decimal { scale, value } => {
            put_octet(scale, out);
            put_long(value as u32, out);
        }
        FieldValue::LongStr(bytes) | FieldValue::Bytes(bytes) => put_long_str(bytes, out),
        FieldValue::Array(array) => put_long_str(array.as_bytes(), out),
        FieldValue::Table(table) => put_table(table, out),
        FieldValue::Void => {}
    }
}
