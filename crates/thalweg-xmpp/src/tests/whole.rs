//! What is read in one pass is read as the parser reads it, which gets everything that comes in pieces.

use proptest::prelude::*;

use super::*;
use crate::reader::{Item, Reader};

const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

/// What a reader makes of `stanza`, of which the first `cut` octets come first: the element, the places of everything in it and
/// the octets behind it, or the fault.
fn read(stanza: &[u8], cut: usize) -> String {
    let mut reader = Reader::new(&limits(), Framing::Document);
    let mut tree = Tree::default();
    assert!(matches!(
        reader.next(HEADER, &mut tree),
        Ok(Some((_, Item::Header(_))))
    ));
    reader.set_bytes_max(limits().stanza_bytes_max);
    let mut said = String::new();
    let mut from = 0;
    for until in [cut, stanza.len()] {
        while from < until {
            let mut tree = Tree::default();
            let next = match reader.next(&stanza[from..until], &mut tree) {
                Ok(None) => break,
                Ok(Some((_, Item::Space))) if cut > 0 && from == until => None,
                Ok(Some((len, item))) => Some((
                    len,
                    match item {
                        Item::Element(element) => Some(format!("{element:?}")),
                        Item::Space => None,
                        Item::Header(_) => Some("header".to_owned()),
                        Item::End => Some("end".to_owned()),
                    },
                )),
                Err(fault) => return format!("{said}{fault}"),
            };
            let Some((len, item)) = next else { break };
            from += len;
            if let Some(item) = item {
                said += &format!("{from} {item} {tree:?}\n");
            }
        }
    }
    said
}

/// The same, cut behind the first octet: all of it is the parser's.
fn parsed(stanza: &[u8]) -> String {
    read(stanza, 1.min(stanza.len()))
}

#[test]
fn what_is_read_in_one_pass_is_what_the_parser_reads() {
    for stanza in [
        "<a/>",
        "<a></a>",
        "<a />",
        "<a ></a>",
        "<a></a >",
        "<a b='c' d=\"e'\"/>",
        "<a  b='c'/>",
        "<a b ='c'/>",
        "<a b='c'd='e'/>",
        "<a b='<'/>",
        "<a b='&lt;&amp;&gt;&apos;&quot;>'/>",
        "<a b='&#65;'/>",
        "<a b='&lt'/>",
        "<a b='\t'/>",
        "<a b='1' b='2'/>",
        "<a xmlns='urn:a' xmlns:p='urn:p'><p:b p:c='1' d='2'/></a>",
        "<a xmlns=''/>",
        "<a xmlns:p=''/>",
        "<a xmlns='http://www.w3.org/XML/1998/namespace'/>",
        "<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>",
        "<a xmlns:xmlns='urn:a'/>",
        "<a xmlns='urn:&amp;'/>",
        "<a xml:lang='en'/>",
        "<xmlns:a/>",
        "<p:a/>",
        "<a:b:c/>",
        "<:a/>",
        "<a:/>",
        "<1a/>",
        "<a.-1_/>",
        "<é/>",
        "<a>é\u{FFFD}\u{1F600}</a>",
        "<a>\u{FFFE}</a>",
        "<a>]]></a>",
        "<a>]] ></a>",
        "<a>a > b\n\tc</a>",
        "<a>\r\n</a>",
        "<a>\u{1}</a>",
        "<a>&amp;&nbsp;</a>",
        "<a>&amp</a>",
        "<a><![CDATA[<]]></a>",
        "<a><!-- --></a>",
        "<a><?b?></a>",
        "<a><b></a></b>",
        "<a><b>1</b>2<c/>3</a> <d/>",
        "<a><a><a><a><a><a/></a></a></a></a></a>",
        "</stream:stream>",
    ] {
        assert_eq!(
            read(stanza.as_bytes(), 0),
            parsed(stanza.as_bytes()),
            "{stanza}"
        );
    }
    for bad in [&b"<a>\xff</a>"[..], b"<a b='\xc3'/>", b"<a>\xef\xbf</a>"] {
        assert_eq!(read(bad, 0), parsed(bad), "{}", bad.escape_ascii());
    }
}

#[test]
fn limits_are_the_parsers() {
    for len in 190..=210 {
        for stanza in [
            format!("<{}/>", "a".repeat(len)),
            format!("<a {}='1'/>", "a".repeat(len)),
            format!("<a b='{}'/>", "a".repeat(len)),
            format!("<a>{}</a>", "a".repeat(len + 793)),
        ] {
            assert_eq!(
                read(stanza.as_bytes(), 0),
                parsed(stanza.as_bytes()),
                "{stanza}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn pieces_in_any_order_are_read_alike(
        pieces in "(<a|<b:c|<iq| d='e'| f=\"g\"| xmlns='urn:a'| xmlns:b='urn:b'| b:h='&lt;'|>|/>|</a>|</b:c>|</iq>|text|&amp;|\\]\\]>|é| |=|'){0,14}",
    ) {
        let stanza = format!("<m{pieces}</m>");
        prop_assert_eq!(read(stanza.as_bytes(), 0), parsed(stanza.as_bytes()));
        prop_assert_eq!(read(pieces.as_bytes(), 0), parsed(pieces.as_bytes()));
    }
}
