//! The header frame: what a message says beside its payload, for listeners that have it. A line for each property, `name:value`;
//! a line feed is written `\n`, a colon in a name `\c`, and `\` twice.

use thalweg_model::{Properties, PropertyValue, Span};

/// What a header frame says beside properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeaderFields {
    pub(super) expires_in: Option<Span>,
    pub(super) priority: u8,
}

const CONTENT_TYPE: &str = "content-type";
const CORRELATION: &str = "correlation";
const REPLY_TO: &str = "reply-to";
/// In whole seconds, those that are left.
const EXPIRY: &str = "expiry";
const PRIORITY: &str = "priority";

/// Reads a header frame into `properties`, which are empty. What is no property is left out.
pub(super) fn read(frame: &[u8], properties: &mut Properties) -> HeaderFields {
    let mut said = HeaderFields::default();
    let text = std::str::from_utf8(frame).unwrap_or_default();
    for (name, value) in text.split('\n').filter_map(|line| line.split_once(':')) {
        let (name, value) = (unescaped(name), unescaped(value));
        match &*name {
            CONTENT_TYPE => properties.content_type = Some(value.into()),
            CORRELATION => properties.correlation = Some(value.into_bytes().into()),
            REPLY_TO => properties.reply_to = Some(value.into()),
            EXPIRY => said.expires_in = value.parse().ok().map(Span::from_secs),
            PRIORITY => said.priority = value.parse().unwrap_or(0),
            _ => properties
                .user
                .push((name.into(), PropertyValue::Text(value.into()))),
        }
    }
    said
}

/// Appends a header frame. What is no text is left out.
pub(super) fn write(properties: Option<&Properties>, said: HeaderFields, out: &mut Vec<u8>) {
    if let Some(properties) = properties {
        let correlation = properties.correlation.as_deref();
        let correlation = correlation.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let known = [
            (CONTENT_TYPE, properties.content_type.as_deref()),
            (CORRELATION, correlation),
            (REPLY_TO, properties.reply_to.as_deref()),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                put(name, value, out);
            }
        }
        for (name, value) in &properties.user {
            match value {
                PropertyValue::Text(text) => put(name, text, out),
                PropertyValue::Bool(value) => put(name, if *value { "true" } else { "false" }, out),
                PropertyValue::Integer(value) => put(name, &value.to_string(), out),
                PropertyValue::Float(value) => put(name, &value.to_string(), out),
                PropertyValue::Nothing => put(name, "", out),
                PropertyValue::Bytes(_) => {}
            }
        }
    }
    if let Some(expires_in) = said.expires_in {
        put(EXPIRY, &expires_in.secs().to_string(), out);
    }
    if said.priority > 0 {
        put(PRIORITY, &said.priority.to_string(), out);
    }
}

fn put(name: &str, value: &str, out: &mut Vec<u8>) {
    for (text, is_name) in [(name, true), (value, false)] {
        for byte in text.bytes() {
            match byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\\' => out.extend_from_slice(b"\\\\"),
                b':' if is_name => out.extend_from_slice(b"\\c"),
                byte => out.push(byte),
            }
        }
        out.push(if is_name { b':' } else { b'\n' });
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next().map(|code| match code {
                'n' => '\n',
                'c' => ':',
                other => other,
            })),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back() {
        let properties = Properties {
            content_type: Some("text/plain".into()),
            correlation: Some(b"7".as_slice().into()),
            reply_to: Some("a/b".into()),
            user: vec![
                ("k:\\".into(), PropertyValue::Text("1:2\n3\\n".into())),
                ("k:\\".into(), PropertyValue::Text("".into())),
            ],
            ..Properties::default()
        };
        let said = HeaderFields {
            expires_in: Some(Span::from_secs(5)),
            priority: 3,
        };
        let mut frame = Vec::new();
        write(Some(&properties), said, &mut frame);
        let mut read_back = Properties::default();
        assert_eq!(read(&frame, &mut read_back), said);
        assert_eq!(read_back, properties);
        assert_eq!(frame.iter().filter(|byte| **byte == b'\n').count(), 7);
    }

    #[test]
    fn what_is_no_property_is_left_out() {
        let mut properties = Properties::default();
        for frame in [
            &b""[..],
            b"\xFF:1\n",
            b"no colon\nexpiry:soon\npriority:-1\n",
        ] {
            assert_eq!(read(frame, &mut properties), HeaderFields::default());
            assert!(properties.is_empty());
        }
    }
}
