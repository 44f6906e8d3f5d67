//! Payloads in items of XEP-0060, which are elements of XML.
//!
//! | payload | element |
//! |---|---|
//! | an element in a namespace, as XMPP allows it | itself, octet for octet |
//! | JSON | `<json xmlns='urn:xmpp:json:0'>`, XEP-0335 |
//! | other text | `<text xmlns='urn:thalweg:payload:0'>` |
//! | anything else | `<data xmlns='urn:thalweg:payload:0' encoding='base64'>` |
//!
//! What stands in one of the last three is taken out again when it comes in, so that every payload comes back as it was.
//! `type` is the media type, where there is one that the element does not say.
//!
//! *Must never know:* a link, the kernel.

use std::cell::RefCell;
use thalweg_xmpp::payload::{JSON, JSON_TYPE, PAYLOAD, XML_TYPE, put_payload, read_payload};
use thalweg_xmpp::{Element, Limits, Tree, is_xml_text, parse_document, put_text};

/// Appends the octets that an item's element stands for, and returns their media type. `None`: it is `<data>` and no base64.
pub fn read(element: Element<'_>, out: &mut Vec<u8>) -> Option<Option<Box<str>>> {
    let media_type = read_payload(element, out)?;
    // It was parsed with its stanza, and is written for this shard's subscribers next.
    if is_payload(element) && element.raw().as_bytes() == &**out && out.len() <= ELEMENT_BYTES_MAX {
        LAST.with_borrow_mut(|last| {
            last.begin(out, media_type.as_deref());
            last.element.extend_from_slice(out);
        });
    }
    Some(media_type)
}

/// Appends the element that stands for a payload.
pub fn write(payload: &[u8], media_type: Option<&str>, out: &mut Vec<u8>) {
    if payload.len() > ELEMENT_BYTES_MAX {
        return write_anew(payload, media_type, out);
    }
    LAST.with_borrow_mut(|last| {
        let is_same = *last.payload == *payload && last.media_type.as_deref() == media_type;
        if !is_same || last.element.is_empty() {
            last.begin(payload, media_type);
            write_anew(payload, media_type, &mut last.element);
        }
        out.extend_from_slice(&last.element);
    });
}

fn write_anew(payload: &[u8], media_type: Option<&str>, out: &mut Vec<u8>) {
    let Ok(text) = std::str::from_utf8(payload) else {
        return put_payload(payload, media_type, out);
    };
    if media_type.is_none_or(|known| known == XML_TYPE) && is_own_element(text) {
        return out.extend_from_slice(payload);
    }
    let is_json = media_type == Some(JSON_TYPE) || media_type.is_none() && looks_like_json(text);
    if !is_json || !is_xml_text(text) {
        return put_payload(payload, media_type, out);
    }
    out.extend_from_slice(format!("<json xmlns='{JSON}'>").as_bytes());
    put_text(text, out);
    out.extend_from_slice(b"</json>");
}

/// Octets of the greatest payload that is written as the element that it is, and that is kept with its element.
const ELEMENT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// One for each shard, which is a thread.
    static LAST: RefCell<Last> = RefCell::default();
}

/// The element that was written last. A message is written for all its subscribers in one go.
#[derive(Default)]
struct Last {
    payload: Vec<u8>,
    media_type: Option<Box<str>>,
    element: Vec<u8>,
}

impl Last {
    /// Another payload, whose element is not written yet. The buffers are used again.
    fn begin(&mut self, payload: &[u8], media_type: Option<&str>) {
        self.payload.clear();
        self.payload.extend_from_slice(payload);
        self.element.clear();
        if self.media_type.as_deref() != media_type {
            self.media_type = media_type.map(Into::into);
        }
    }
}

/// Whether a payload is one element that may stand in an item as it is, and is read back as it is.
fn is_own_element(text: &str) -> bool {
    let looks_like_it =
        text.starts_with('<') && text.ends_with('>') && text.len() <= ELEMENT_BYTES_MAX;
    looks_like_it && parses_as_element(text)
}

fn parses_as_element(text: &str) -> bool {
    let limits = Limits {
        stanza_bytes_max: ELEMENT_BYTES_MAX,
        ..Limits::default()
    };
    let mut tree = Tree::default();
    parse_document(text.as_bytes(), &limits, &mut tree)
        .is_some_and(|element| element.raw().len() == text.len() && is_payload(element))
}

/// Whether an element is the payload itself, wherever it stands.
fn is_payload(element: Element<'_>) -> bool {
    let is_wrapper = element.namespace() == PAYLOAD || element.is("json", JSON);
    element.is_self_contained() && !element.namespace().is_empty() && !is_wrapper
}

/// Whether a text is likely to be JSON. Nothing depends on it but how it is wrapped.
fn looks_like_json(text: &str) -> bool {
    let text = text.trim();
    [('{', '}'), ('[', ']')]
        .into_iter()
        .any(|(first, last)| text.starts_with(first) && text.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(payload: &[u8], media_type: Option<&str>) -> String {
        let mut out = Vec::new();
        write(payload, media_type, &mut out);
        String::from_utf8(out).expect("XML is UTF-8")
    }

    fn back(xml: &str) -> (Vec<u8>, Option<Box<str>>) {
        let mut tree = Tree::default();
        let item = format!("<item xmlns='http://jabber.org/protocol/pubsub'>{xml}</item>");
        let item = parse_document(item.as_bytes(), &Limits::default(), &mut tree);
        let mut out = Vec::new();
        let child = item.expect(xml).children().next().expect(xml);
        let media_type = read(child, &mut out).expect(xml);
        (out, media_type)
    }

    #[test]
    fn payloads_are_wrapped_by_what_they_are() {
        for (payload, media_type, expected) in [
            (
                &b"21.5"[..],
                None,
                "<text xmlns='urn:thalweg:payload:0'>21.5</text>",
            ),
            (
                b"a<b\r\n",
                Some("text/plain"),
                "<text xmlns='urn:thalweg:payload:0' type='text/plain'>a&lt;b&#13;&#10;</text>",
            ),
            (
                b"{\"t\":1}",
                None,
                "<json xmlns='urn:xmpp:json:0'>{&quot;t&quot;:1}</json>",
            ),
            (
                b"1",
                Some("application/json"),
                "<json xmlns='urn:xmpp:json:0'>1</json>",
            ),
            (
                b"\xff\0",
                None,
                "<data xmlns='urn:thalweg:payload:0' encoding='base64'>/wA=</data>",
            ),
            (
                b"\0",
                None,
                "<data xmlns='urn:thalweg:payload:0' encoding='base64'>AA==</data>",
            ),
            (
                b"<a xmlns='urn:a'><b/></a>",
                None,
                "<a xmlns='urn:a'><b/></a>",
            ),
            (
                b"<a/>",
                None,
                "<text xmlns='urn:thalweg:payload:0'>&lt;a/&gt;</text>",
            ),
            (b"", None, "<text xmlns='urn:thalweg:payload:0'></text>"),
        ] {
            assert_eq!(written(payload, media_type), expected);
        }
    }

    #[test]
    fn what_looks_like_our_elements_comes_back_as_it_was() {
        for payload in [
            "<text xmlns='urn:thalweg:payload:0'>x</text>",
            "<json xmlns='urn:xmpp:json:0'>1</json>",
            "<?xml version='1.0'?><a xmlns='u'/>",
            "<a xmlns='u'/>\n",
            "<a:b/>",
            "<!DOCTYPE a><a xmlns='u'/>",
        ] {
            assert_eq!(
                back(&written(payload.as_bytes(), None)).0,
                payload.as_bytes()
            );
        }
    }

    #[test]
    fn a_payload_is_written_once_for_all_its_subscribers() {
        let element = "<a xmlns='u'/>";
        assert_eq!(written(element.as_bytes(), None), element);
        LAST.with_borrow_mut(|last| last.element = b"kept".into());
        assert_eq!(written(element.as_bytes(), None), "kept");
        assert_ne!(written(element.as_bytes(), Some("text/plain")), "kept");
        // What has just been read need not be parsed again.
        let (payload, media_type) = back(element);
        LAST.with_borrow_mut(|last| last.element = b"kept".into());
        assert_eq!(written(&payload, media_type.as_deref()), "kept");
        assert_ne!(written(b"", None), "kept");
        assert_eq!(written(element.as_bytes(), None), element);
    }

    proptest! {
        #[test]
        fn every_payload_comes_back(
            payload in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                any::<String>().prop_map(String::into_bytes),
                "(<a xmlns='urn:a'>|</a>|<b/>|x|&lt;|\r){0,4}".prop_map(String::into_bytes),
            ],
            media_type in proptest::option::of("(text/plain|application/json|application/xml|a/b)"),
        ) {
            let (read, _) = back(&written(&payload, media_type.as_deref()));
            prop_assert_eq!(read, payload);
        }

        #[test]
        fn media_types_come_back_with_what_is_not_xml(payload in proptest::collection::vec(128u8.., 1..9), media_type in "[a-z]{1,5}/[a-z]{1,5}") {
            let (_, read) = back(&written(&payload, Some(&media_type)));
            prop_assert_eq!(read.as_deref(), Some(&*media_type));
        }
    }
}
