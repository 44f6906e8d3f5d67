mod documents;
mod naive;
mod syntax;
mod tables;

use crate::{Document, Field, Predicate, Subject, Value};

/// A message of a test: headers, and a payload.
#[derive(Default)]
pub(crate) struct Sample<'a> {
    pub headers: Vec<(&'a str, Value<'a>)>,
    pub payload: &'a [u8],
    read: std::cell::OnceCell<Document<'a>>,
}

impl<'a> Sample<'a> {
    pub fn of(headers: &[(&'a str, Value<'a>)]) -> Self {
        Sample {
            headers: headers.to_vec(),
            ..Sample::default()
        }
    }
}

impl Subject for Sample<'_> {
    fn value(&self, field: &Field) -> Value<'_> {
        match field {
            Field::Header(name) => {
                let known = self.headers.iter().find(|(known, _)| *known == &**name);
                known.map_or(Value::Null, |(_, value)| *value)
            }
            Field::Payload(path) => self
                .read
                .get_or_init(|| Document::read(self.payload))
                .value(path),
            Field::Own(_) => Value::Null,
        }
    }
}

fn parsed(text: &str) -> Predicate {
    Predicate::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Numbers that are the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}
