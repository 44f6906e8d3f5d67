//! For all texts: what is written is read as it was meant.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn text_and_attributes_arrive_as_they_were_sent(text in any::<String>(), value in any::<String>()) {
        let mut xml = b"<m".to_vec();
        put_attribute("id", &value, &mut xml);
        xml.push(b'>');
        put_text(&text, &mut xml);
        xml.extend_from_slice(b"</m>");
        let mut tree = Tree::default();
        let message = parse_document(&xml, &Limits::default(), &mut tree);
        let message = message.ok_or_else(|| TestCaseError::fail(format!("{}", xml.escape_ascii())))?;
        let clean = |text: &str| -> String {
            text.chars().map(|c| if is_xml_text(&c.to_string()) { c } else { '\u{FFFD}' }).collect()
        };
        prop_assert_eq!(message.text(), clean(&text));
        prop_assert_eq!(message.attribute("id").map(|v| v.into_owned()), Some(clean(&value)));
    }

    #[test]
    fn addresses_that_are_read_are_read_again(text in "[a-zA-Z\u{E0}-\u{24F}\u{391}-\u{3C9}.@/ \\\\-]{1,20}") {
        if let Ok(jid) = Jid::parse(&text) {
            prop_assert_eq!(Jid::parse(jid.as_str()), Ok(jid));
        }
    }

    #[test]
    fn a_copy_means_the_same(
        outer in "[ab]", prefix in "[pq]", value in "[a-z<&']{0,5}", inner in "(<c/>|<p:d/>|<q:d xmlns:q='urn:z'/>|t){0,4}",
    ) {
        let mut xml = format!("<{outer} xmlns='urn:o' xmlns:p='urn:p' xmlns:q='urn:q'><{prefix}:x").into_bytes();
        put_attribute("p:v", &value, &mut xml);
        xml.extend_from_slice(format!(">{inner}</{prefix}:x></{outer}>").as_bytes());
        let (mut tree, mut copied) = (Tree::default(), Tree::default());
        let root = parse_document(&xml, &Limits::default(), &mut tree).expect("valid");
        let original = root.children().next().expect("one");
        let mut copy = Vec::new();
        original.put(&mut copy);
        let copy = parse_document(&copy, &Limits::default(), &mut copied).expect("valid");
        prop_assert!(copy.is_self_contained());
        let say = |element: Element<'_>| {
            let own = std::iter::once(element).chain(element.descendants());
            own.map(|e| {
                let attributes: Vec<_> = e.attributes().map(|(n, u, v)| format!("{u} {n} {v}")).collect();
                format!("{} {} {attributes:?} {}", e.namespace(), e.name(), e.text())
            }).collect::<Vec<_>>()
        };
        prop_assert_eq!(say(original), say(copy));
    }
}
