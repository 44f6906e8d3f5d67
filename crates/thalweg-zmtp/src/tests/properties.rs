//! For all messages: what is written is read as it was meant.

use proptest::prelude::*;

use super::*;

/// Bodies about as long as a short frame can be, and others.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![0..20usize, 250..260usize, 60_000..70_000usize];
    len.prop_flat_map(|len| (any::<u8>(), Just(len)).prop_map(|(byte, len)| vec![byte; len]))
}

fn mechanism() -> impl Strategy<Value = ClientMechanism> {
    let all = client_mechanisms();
    (0..all.len()).prop_map(move |at| all[at].clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive_as_they_were_sent(
        mechanism in mechanism(),
        messages in proptest::collection::vec(proptest::collection::vec(body(), 1..4), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut from, mut to) = pair(mechanism, SocketType::Dealer, SocketType::Router);
        let mut wire = Vec::new();
        for frames in &messages {
            for (at, body) in frames.iter().enumerate() {
                from.frame(body, at + 1 < frames.len(), &mut wire);
            }
        }
        let mut arrived = Vec::new();
        let mut gathered = Gathered::default();
        let mut consumed_so_far = 0;
        for until in [cut.index(wire.len()), wire.len()] {
            while let Some((consumed, event)) =
                to.handle_input(&wire[consumed_so_far..until], &mut gathered).expect("valid")
            {
                consumed_so_far += consumed;
                if let Event::Message(message) = event {
                    prop_assert_eq!(message.is_single(), message.frames().count() == 1);
                    arrived.push(message.frames().map(<[u8]>::to_vec).collect::<Vec<_>>());
                }
            }
        }
        prop_assert_eq!(consumed_so_far, wire.len());
        prop_assert_eq!(arrived, messages);
    }

    #[test]
    fn subscriptions_arrive_as_they_were_made(
        mechanism in mechanism(),
        prefix in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let (mut from, mut to) = pair(mechanism, SocketType::Sub, SocketType::Xpub);
        let mut gathered = Gathered::default();
        let mut wire = Vec::new();
        from.subscribe(&prefix, &mut wire);
        let heard = to.handle_input(&wire, &mut gathered);
        prop_assert_eq!(heard, Ok(Some((wire.len(), Event::Subscribe(&prefix)))));
        wire.clear();
        from.cancel(&prefix, &mut wire);
        let heard = to.handle_input(&wire, &mut gathered);
        prop_assert_eq!(heard, Ok(Some((wire.len(), Event::Cancel(&prefix)))));
    }

    #[test]
    fn metadata_are_read_as_they_were_written(
        identity in proptest::collection::vec(1..=255u8, 0..=255),
        more in proptest::collection::vec(("[A-Za-z0-9._+-]{1,20}", proptest::collection::vec(any::<u8>(), 0..20)), 0..4),
    ) {
        let more: Vec<_> = more.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let ours = Announcement { socket_type: SocketType::Dealer, identity: &identity, more: &more };
        let read = Metadata::parse(ours.encode()).expect("valid");
        prop_assert_eq!(read.socket_type(), Some(SocketType::Dealer));
        prop_assert_eq!(read.identity(), &identity);
        prop_assert_eq!(read.iter().skip(2).collect::<Vec<_>>(), more);
    }

    #[test]
    fn any_octets_are_metadata_or_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(metadata) = Metadata::parse(&bytes[..]) {
            let len: usize = metadata.iter().map(|(name, value)| 5 + name.len() + value.len()).sum();
            prop_assert_eq!(len, bytes.len());
        }
    }
}
