//! BEGIN, COMMIT, ABORT.

use crate::world::{Who, World};
use thalweg_stomp::{AckMode, SendOut, SubscribeOut};

fn send_in(world: &mut World, who: Who, transaction: &str, body: &str) {
    let send = SendOut {
        destination: "/queue/q",
        transaction: Some(transaction),
        body: body.as_bytes(),
        ..SendOut::default()
    };
    world.send_with(who, &send, |_| ());
}

#[test]
fn messages_of_a_transaction_leave_with_its_commit_and_never_after_an_abort() {
    let mut world = World::new();
    let (who, taker) = (world.connect(), world.connect());
    world.listen(taker, "1", "/queue/q");
    world.says(who, |machine, up| machine.begin("t", None, up));
    world.says(who, |machine, up| machine.begin("u", None, up));
    send_in(&mut world, who, "t", "1");
    send_in(&mut world, who, "u", "never");
    send_in(&mut world, who, "t", "2");
    world.send(who, "/queue/q", "beside it");
    assert_eq!(world.texts(taker), ["beside it"]);
    world.says(who, |machine, up| machine.abort("u", Some("a"), up));
    world.hears_receipt(who, "a");
    world.says(who, |machine, up| machine.commit("t", Some("c"), up));
    world.hears_receipt(who, "c");
    assert_eq!(world.texts(taker), ["1", "2"]);
}

#[test]
fn acknowledgements_of_a_transaction_count_from_its_commit_on() {
    let mut world = World::new();
    let who = world.connect();
    let ack = AckMode::ClientIndividual;
    world.subscribe(
        who,
        &SubscribeOut {
            id: Some("1"),
            destination: "/queue/q",
            ack,
            ..SubscribeOut::default()
        },
    );
    for text in ["0", "1", "2"] {
        world.send(who, "/queue/q", text);
    }
    let got = world.messages(who);
    for name in ["kept", "lost"] {
        world.says(who, |machine, up| machine.begin(name, None, up));
    }
    world.ack_in(who, &got[0], Some("kept"));
    world.ack_in(who, &got[1], Some("lost"));
    world.says(who, |machine, up| machine.commit("kept", Some("r"), up));
    world.hears_receipt(who, "r");
    world.says(who, |machine, up| machine.abort("lost", Some("s"), up));
    world.hears_receipt(who, "s");
    world.lose(who);
    let other = world.connect();
    world.listen(other, "1", "/queue/q");
    assert_eq!(
        world.texts(other),
        ["1", "2"],
        "what was aborted was not acknowledged"
    );
}

#[test]
fn a_transaction_ends_with_its_connection() {
    let mut world = World::new();
    let (who, taker) = (world.connect(), world.connect());
    world.listen(taker, "1", "/queue/q");
    world.says(who, |machine, up| machine.begin("t", None, up));
    send_in(&mut world, who, "t", "x");
    world.lose(who);
    assert_eq!(world.texts(taker), [""; 0]);
}

#[test]
fn a_transaction_must_have_begun_and_only_once() {
    for (frame, message) in [
        ("COMMIT\ntransaction:t\nreceipt:r\n\n\0", "Bad transaction"),
        ("ABORT\ntransaction:t\nreceipt:r\n\n\0", "Bad transaction"),
        (
            "SEND\ndestination:/queue/q\ntransaction:t\nreceipt:r\n\nx\0",
            "Bad transaction",
        ),
        (
            "BEGIN\ntransaction:there\nreceipt:r\n\n\0",
            "Duplicate transaction",
        ),
    ] {
        let mut world = World::new();
        let who = world.connect();
        world.says(who, |machine, up| machine.begin("there", None, up));
        world.writes(who, frame.as_bytes());
        assert_eq!(world.hears_error(who, Some("r")).0, message, "{frame}");
    }
}
