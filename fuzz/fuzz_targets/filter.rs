//! A filter of a client's, and a payload of another's: the input is cut at its first line end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use thalweg_filter::{Document, Field, Index, Predicate, Subject, Value};

struct Message<'a> {
    payload: &'a [u8],
    read: OnceCell<Document<'a>>,
}

impl Subject for Message<'_> {
    fn value(&self, field: &Field) -> Value<'_> {
        match field {
            Field::Payload(path) => self
                .read
                .get_or_init(|| Document::read(self.payload))
                .value(path),
            Field::Header(_) => Value::Text("x"),
            Field::Own(_) => Value::Integer(1),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let cut = input.iter().position(|byte| *byte == b'\n');
    let (filter, payload) = input.split_at(cut.unwrap_or(input.len()));
    let message = Message {
        payload: payload.get(1..).unwrap_or_default(),
        read: OnceCell::new(),
    };
    let _ = Document::read(input).value("a.0");
    let Ok(text) = std::str::from_utf8(filter) else {
        return;
    };
    match Predicate::parse(text) {
        Ok(predicate) => {
            let mut index = Index::default();
            index.insert(Some(&predicate), ());
            let mut is_candidate = false;
            index.candidates(&message, |()| is_candidate = true);
            assert!(!predicate.matches(&message) || is_candidate);
            let again = Predicate::parse(predicate.text());
            assert_eq!(again.as_ref(), Ok(&predicate));
        }
        Err(error) => assert!(error.at <= text.len()),
    }
});
