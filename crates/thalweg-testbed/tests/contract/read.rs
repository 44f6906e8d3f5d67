//! Addresses and deliveries as the protocols write them, read into the vocabulary of the tests.

use crate::peer::{Delivery, Handle};
use thalweg_amqp::FieldValue;
use thalweg_model::octets as address;
use thalweg_testbed::amqp::Got;
use thalweg_testbed::coap::ReceivedMessage;

/// Why a message of AMQP died last.
pub fn amqp_death(got: &Got) -> Option<String> {
    let FieldValue::Array(deaths) = got.headers().get("x-death")? else {
        return None;
    };
    let FieldValue::Table(last) = deaths.iter().next()? else {
        return None;
    };
    Some(last.get("reason")?.as_str()?.to_owned())
}

/// The first frame of an address.
pub fn frame(canonical: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    address::write(canonical, &mut frame);
    frame
}

/// The node of XMPP of an address.
pub fn node(canonical: &str) -> String {
    String::from_utf8(frame(canonical)).expect("text")
}

/// The address of a first frame or a node.
pub fn canonical(name: &[u8]) -> String {
    let mut canonical = String::new();
    address::read(name, &mut canonical);
    canonical
}

/// A SUB's messages have an address in front, a PULL's have not.
pub fn zmtp_delivery(frames: Vec<Vec<u8>>) -> Delivery {
    let (body, first) = match &frames[..] {
        [body] => (body, None),
        [first, body] => (body, Some(first)),
        _ => panic!("{frames:?}"),
    };
    Delivery {
        body: String::from_utf8_lossy(body).into_owned(),
        address: first.map(|first| canonical(first)),
        redelivered: false,
        handle: Handle::None,
    }
}

/// Responses with content, as far as they have any.
pub fn coap_deliveries(heard: Vec<ReceivedMessage>) -> Vec<Delivery> {
    let content = |heard: ReceivedMessage| {
        (heard.code == thalweg_coap::Code::CONTENT && !heard.payload.is_empty()).then(|| Delivery {
            body: String::from_utf8_lossy(&heard.payload).into_owned(),
            address: None,
            redelivered: false,
            handle: Handle::None,
        })
    };
    heard.into_iter().filter_map(content).collect()
}
