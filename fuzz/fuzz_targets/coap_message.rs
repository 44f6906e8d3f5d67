//! A datagram of anything: what is a message is written again as it was, and its options, its path and its links can be
//! asked for whatever is in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_coap::link_format::{Filter, Links};
use thalweg_coap::uri::{Scheme, Uri};
use thalweg_coap::{Block, Message, Options, option};

fuzz_target!(|datagram: &[u8]| {
    if let Ok(message) = Message::decode(datagram) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, datagram);
        read(&message.options);
        if let Ok(text) = std::str::from_utf8(message.payload) {
            read_links(text);
        }
    }
    if let Ok(text) = std::str::from_utf8(datagram) {
        read_links(text);
        if let Ok(uri) = Uri::parse(text) {
            let again = Uri::parse(&uri.to_string()).expect("we wrote it");
            // One empty level is the same resource as none.
            assert!(again == uri || again.path.is_empty() && uri.path == [""]);
        }
    }
});

fn read(options: &Options<'_>) {
    for (number, value) in *options {
        assert!(options.has(number));
        assert_eq!(
            options.get(number).is_some(),
            options.all(number).count() > 0
        );
        assert!(!option::is_legal_length(number, value.len()) || options.get(number).is_some());
    }
    for number in [option::BLOCK1, option::BLOCK2] {
        if let Some(block) = options.uint(number).and_then(Block::decode) {
            assert_eq!(Some(block.encode()), options.uint(number));
            assert!(block.size() <= 1024);
        }
    }
    if let Some(refused) = options.refused(|number| number != option::ACCEPT) {
        assert!(option::is_critical(refused) && options.has(refused));
    }
    if let Ok(uri) = Uri::of_request(Scheme::Coap, "a", 5683, options) {
        let _ = Uri::parse(&uri.to_string());
    }
}

fn read_links(text: &str) {
    let filter = Filter::parse(text);
    for link in Links::new(text).flatten() {
        let _ = link.attributes().count();
        if let Some(filter) = &filter {
            let _ = filter.matches_link(&link);
        }
    }
}
