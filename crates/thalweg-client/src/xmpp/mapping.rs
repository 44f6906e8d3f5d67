//! Translation between XMPP and the client's terms: nodes, items, errors.

use crate::transport::{LinkFault, Refusal};
use thalweg_model::octets;
use thalweg_xmpp::payload::read_payload;
use thalweg_xmpp::{Element, PeerFault, Stanza, ns, put_attribute};

/// Whether the broker says that a notification may have come before.
pub(super) fn is_redelivered(message: Element<'_>) -> bool {
    let headers = message.child("headers", "http://jabber.org/protocol/shim");
    headers.is_some_and(|headers| {
        headers.children().any(|header| {
            header.attribute("name").as_deref() == Some("Redelivered") && header.text() == "true"
        })
    })
}

/// Reads the first item of a node, or what has become of it; whether there was one.
pub(super) fn read_items(
    items: Element<'_>,
    namespace: &str,
    then: impl FnOnce(&str, &[u8], Option<&str>),
) -> bool {
    let Some(item) = items
        .children()
        .find(|child| child.namespace() == namespace)
    else {
        return false;
    };
    let (mut address, mut octets) = (String::new(), Vec::new());
    let node = items.attribute("node").unwrap_or_default();
    octets::read(node.as_bytes(), &mut address);
    let mut content_type = None;
    if let Some(element) = item.children().next() {
        content_type = read_payload(element, &mut octets).unwrap_or_else(|| {
            // Text that is not base64 is taken as it is.
            octets.extend_from_slice(element.text().as_bytes());
            None
        });
    }
    then(&address, &octets, content_type.as_deref());
    true
}

pub(super) fn refusal(stanza: Stanza<'_>) -> Refusal {
    let Some(error) = stanza.element.child("error", ns::CLIENT) else {
        return Refusal::Denied("an error without a condition".into());
    };
    let names: Vec<&str> = error
        .children()
        .filter(|child| child.name() != "text")
        .map(Element::name)
        .collect();
    let words = names.join(", ");
    match error.attribute("type").as_deref() {
        Some("wait") => Refusal::Busy(words),
        _ => Refusal::Denied(words),
    }
}

/// The node of a filter, and the depth of a subscription to it.
pub(super) fn node_of(filter: &str) -> Result<(String, &'static str), Refusal> {
    let (above, depth) = match filter {
        _ if filter.starts_with("$share/") => {
            return Err(Refusal::Unsupported(
                "XMPP has no groups; $q/NAME takes from a queue",
            ));
        }
        _ if filter.ends_with("/+") => (&filter[..filter.len() - 2], "1"),
        _ if filter.ends_with("/#") => (&filter[..filter.len() - 2], "all"),
        _ => (filter, "0"),
    };
    if above.is_empty() || above.contains(['+', '#']) {
        return Err(Refusal::Unsupported(
            "XMPP has wildcards only behind the name of a node: a/+, a/#",
        ));
    }
    Ok((node(above), depth))
}

pub(super) fn node(address: &str) -> String {
    let mut node = Vec::with_capacity(address.len());
    octets::write(address, &mut node);
    String::from_utf8_lossy(&node).into_owned()
}

/// ` name='value'`.
pub(super) fn attribute(name: &str, value: &str) -> String {
    let mut out = Vec::new();
    put_attribute(name, value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn link_fault(fault: &PeerFault) -> LinkFault {
    let finals = [
        PeerFault::LOGIN_REFUSED,
        PeerFault::NO_MECHANISM,
        PeerFault::NO_TLS,
        PeerFault::SERVER_NOT_PROVEN,
    ];
    LinkFault {
        words: fault.to_string(),
        is_final: finals.contains(fault),
    }
}
