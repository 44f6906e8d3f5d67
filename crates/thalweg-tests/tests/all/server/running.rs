//! Operators look in, kick, and stop.

use thalweg_kernel::CloseReason;

use super::home::{Home, wait_until};
use crate::conformance::packet::Version::{V5, V311};
use crate::conformance::packet::*;

#[test]
fn a_client_can_be_kicked_and_its_session_kept_or_forgotten() {
    let home = Home::new(&["shards=3"]);
    for forget in [false, true] {
        let mut talker = home.talker().accepted(&Connect::lasting(V5, "victim"));
        let kicked = home.observer().on_shards(move |inside| {
            let now = inside.now;
            inside
                .kernel
                .kick("victim", CloseReason::Kicked, forget, now, inside.links)
        });
        assert_eq!(kicked.iter().filter(|found| **found).count(), 1);
        talker.expect_disconnect(0x98);
        let connack = home.talker().connect(&Connect::lasting(V5, "victim"));
        assert_eq!(connack.session_present, !forget);
    }
}

#[test]
fn a_server_that_stops_says_good_bye() {
    let home = Home::new(&["shards=3"]);
    let mut modern: Vec<_> = (0..6)
        .map(|number| home.client(&format!("modern{number}")))
        .collect();
    let mut old = home.talker().accepted(&Connect::new(V311, "old"));
    let address = home.address("mqtt");
    let Home {
        server,
        folder: _folder,
    } = home;
    server.stop();
    for talker in &mut modern {
        talker.expect_disconnect(0x8B);
    }
    assert_eq!(old.next_or_end(), None, "MQTT 3 has no word for it");
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn every_message_is_accounted_for() {
    let home = Home::new(&["shards=3", "queue.messages_max=5"]);
    let mut sleeper = home.talker().accepted(&Connect::lasting(V5, "sleeper"));
    sleeper.subscribe("t/#", 1);
    sleeper.send(&disconnect());
    assert_eq!(sleeper.next_or_end(), None);
    let mut sender = home.client("sender");
    for number in 0..8 {
        sender.publish(&format!("t/{number}"), "", 1);
    }
    let books = || {
        home.observer().on_shards(|inside| {
            let (ledger, totals) = (inside.kernel.ledger().clone(), inside.kernel.totals());
            let held = (totals.waiting + totals.in_flight) as u64;
            (
                ledger.routed,
                ledger.delivered + ledger.expired + ledger.dropped_total() + held,
                ledger.dropped_total(),
            )
        })
    };
    wait_until("all copies have arrived", || {
        books().iter().map(|(routed, ..)| routed).sum::<u64>() == 8
    });
    for (routed, found, _) in books() {
        assert_eq!(routed, found);
    }
    assert_eq!(books().iter().map(|(.., dropped)| dropped).sum::<u64>(), 3);
}
