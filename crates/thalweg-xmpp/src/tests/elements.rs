//! Contents of an element, and the copied parts of it.

use super::*;

#[test]
fn names_attributes_and_text_are_read_without_escapes() {
    let mut tree = Tree::default();
    let message = parse(
        "<m xmlns='urn:a' xmlns:b=\"urn:b&amp;c\" to='a&apos;&#x62;\n' b:to = 'other' ><b:x/>one &lt;<y>no</y><![CDATA[two &lt;\r\n]]>\r\n&#233;</m >",
        &mut tree,
    );
    assert!(message.is("m", "urn:a"));
    assert_eq!(message.attribute("to").as_deref(), Some("a'b "));
    let attributes: Vec<_> = message
        .attributes()
        .map(|(name, ns, _)| (name, ns))
        .collect();
    assert_eq!(
        attributes,
        [("to", "urn:a"), ("to", "urn:b&c")].map(|(n, ns)| if ns == "urn:a" {
            (n, "")
        } else {
            (n, ns)
        })
    );
    assert_eq!(message.text(), "one <two &lt;\n\né");
    let children: Vec<_> = message
        .children()
        .map(|c| (c.name(), c.namespace(), c.raw()))
        .collect();
    assert_eq!(
        children,
        [("x", "urn:b&c", "<b:x/>"), ("y", "urn:a", "<y>no</y>")]
    );
    assert_eq!(
        message
            .child("y", "urn:a")
            .map(|y| y.text().into_owned())
            .as_deref(),
        Some("no")
    );
    assert!(message.child("y", "urn:b").is_none());
    assert!(message.content().starts_with("<b:x/>one"));
}

#[test]
fn what_is_self_contained_is_copied_as_it_is() {
    for (text, child) in [
        (
            "<m xmlns='urn:a'><e xmlns='urn:e' a = \"1\"><f/></e></m>",
            "<e xmlns='urn:e' a = \"1\"><f/></e>",
        ),
        (
            "<m xmlns='urn:a'><e xmlns='urn:e'/></m>",
            "<e xmlns='urn:e'/>",
        ),
        (
            "<m xmlns:p='urn:a'><p:e xmlns:p='urn:e' xml:lang='en'/></m>",
            "<p:e xmlns:p='urn:e' xml:lang='en'/>",
        ),
    ] {
        let mut tree = Tree::default();
        let element = parse(text, &mut tree).children().next().expect(text);
        assert!(element.is_self_contained(), "{text}");
        let mut out = Vec::new();
        element.put(&mut out);
        assert_eq!(String::from_utf8(out).as_deref(), Ok(child));
    }
}

#[test]
fn what_is_not_gets_the_declarations_that_it_lacks() {
    for (text, child) in [
        (
            "<m xmlns='urn:a'><e><f/></e></m>",
            "<e xmlns='urn:a'><f/></e>",
        ),
        ("<m><e/></m>", "<e xmlns=''/>"),
        (
            "<m xmlns='urn:a' xmlns:p='urn:p' xmlns:q='urn:&amp;'><p:e><f xmlns='urn:f' q:a='1'/></p:e></m>",
            "<p:e xmlns:p='urn:p' xmlns:q='urn:&amp;'><f xmlns='urn:f' q:a='1'/></p:e>",
        ),
    ] {
        let mut tree = Tree::default();
        let element = parse(text, &mut tree).children().next().expect(text);
        assert!(!element.is_self_contained(), "{text}");
        let mut out = Vec::new();
        element.put(&mut out);
        assert_eq!(String::from_utf8(out.clone()).as_deref(), Ok(child));
        let mut again = Tree::default();
        let copy = parse(child, &mut again);
        assert!(copy.is_self_contained());
        assert!(copy.is(element.name(), element.namespace()));
    }
}

#[test]
fn namespaces_end_with_their_element() {
    let mut tree = Tree::default();
    let text = "<m><a xmlns='urn:a' xmlns:p='urn:1'><p:x/></a><b/></m>";
    let names: Vec<_> = parse(text, &mut tree)
        .descendants()
        .map(|e| (e.name(), e.namespace()))
        .collect();
    assert_eq!(names, [("a", "urn:a"), ("x", "urn:1"), ("b", "")]);
    for text in [
        "<m><a xmlns:p='urn:1'/><p:b/></m>",
        "<m xmlns:a='u' xmlns:b='u' a:x='' b:x=''/>",
        "<m xmlns:a='u' xmlns:a='v'/>",
        "<m/><m/>",
        " <m/>",
        "text",
        "",
    ] {
        let mut tree = Tree::default();
        assert!(
            parse_document(text.as_bytes(), &Limits::default(), &mut tree).is_none(),
            "{text}"
        );
    }
}
