//! One value is read, once.

use super::world::{Event, World, address_at, clear, draft, retained};
use thalweg_kernel::Draft;
use thalweg_model::Span;

#[test]
fn a_value_is_read_from_any_shard() {
    let mut world = World::watched(3);
    let writer = world.connect_on(0);
    for home in 0..3 {
        let address = address_at(home, 3);
        for reader in 0..3 {
            let reader = world.connect_on(reader);
            assert_eq!(world.read(reader, &address), Some(None));
            world.publish(writer, retained(&address, "1"));
            assert_eq!(world.read(reader, &address), Some(Some("1".into())));
            world.publish(writer, clear(&address));
            assert_eq!(world.read(reader, &address), Some(None));
        }
    }
}

#[test]
fn what_nobody_retained_is_not_read() {
    let mut world = World::watched(2);
    let (reader, writer) = (world.connect_on(0), world.connect_on(1));
    for home in 0..2 {
        let address = address_at(home, 2);
        world.publish(writer, retained(&address, "1"));
        world.begin(reader, &address, 1);
        world.say(writer, &address, "2");
        world.events(reader);
        assert_eq!(
            world.read(reader, &address),
            Some(Some("1".into())),
            "home {home}"
        );
    }
}

#[test]
fn a_watched_address_is_read_at_once() {
    let mut world = World::watched(2);
    let (reader, writer) = (world.connect_on(0), world.connect_on(1));
    let address = address_at(1, 2);
    world.begin(reader, &address, 1);
    world.publish(writer, retained(&address, "1"));
    world.events(reader);
    world.is_slow = true;
    assert_eq!(world.read(reader, &address), Some(Some("1".into())));
    world.publish(writer, clear(&address));
    world.deliver_mails();
    world.events(reader);
    world.is_slow = false;
    assert_eq!(world.read(reader, &address), Some(None));
}

#[test]
fn an_expired_value_is_not_read() {
    for home in 0..2 {
        let mut world = World::watched(2);
        let (reader, writer) = (world.connect_on(0), world.connect_on(1));
        let address = address_at(home, 2);
        world.begin(reader, &address, 1);
        world.publish(
            writer,
            Draft {
                expires_in: Some(Span::from_secs(10)),
                ..retained(&address, "1")
            },
        );
        world.events(reader);
        world.now += Span::from_secs(9);
        assert_eq!(world.read(reader, &address), Some(Some("1".into())));
        world.now += Span::from_secs(2);
        assert_eq!(world.read(reader, &address), Some(None));
    }
}

#[test]
fn an_answer_finds_nobody_when_the_reader_has_left() {
    let mut world = World::watched(2);
    let reader = world.connect_on(0);
    let address = address_at(1, 2);
    world.is_slow = true;
    assert!(world.run(0, |kernel, out, now| {
        kernel.read_last_value(reader.session, reader.link, 1, &address, now, out)
    }));
    world.leave(reader);
    // It gets the same number.
    let other = world.connect_on(0);
    assert_eq!(other.session, reader.session);
    world.deliver_mails();
    assert_eq!(
        (world.events(reader), world.events(other)),
        (vec![], vec![])
    );
}

#[test]
fn reading_changes_no_books() {
    let mut world = World::watched(1);
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    world.publish(writer, retained("a", "1"));
    let before = world.kernels[0].ledger().clone();
    world.read(reader, "a");
    world.list(reader, "#", 10);
    assert_eq!(*world.kernels[0].ledger(), before);
}

#[test]
fn a_reader_of_its_own_publish_reads_that() {
    // Both go the same way.
    let mut world = World::watched(2);
    let writer = world.connect_on(0);
    let address = address_at(1, 2);
    world.is_slow = true;
    world.publish(writer, retained(&address, "1"));
    world.run(0, |kernel, out, now| {
        kernel.read_last_value(writer.session, writer.link, 1, &address, now, out)
    });
    world.say(writer, "b", "nobody wants this");
    let _ = draft("b", "");
    world.deliver_mails();
    assert_eq!(world.events(writer), [Event::Read(1, Some("1".into()))]);
}
