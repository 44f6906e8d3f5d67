//! Outputs that are full lose nothing.

use crate::world::{Dice, Taking, Terms, World};
use thalweg_kernel::Verdict;

#[test]
fn what_does_not_fit_waits_until_there_is_room() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.set_room(client, 2);
    world.consume(client, "q", 1, Taking::default());
    for number in 0..5 {
        world.put(client, "q", &number.to_string());
    }
    assert_eq!(world.texts(client), ["0", "1"]);
    assert_eq!(world.waits("q"), 3);
    world.make_room(client, 1);
    assert_eq!(world.texts(client), ["2"]);
    world.make_room(client, 10);
    assert_eq!(world.texts(client), ["3", "4"]);
}

#[test]
fn an_output_that_is_full_without_warning_loses_nothing_and_no_tag() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.consume(client, "q", 1, Taking::default());
    world.set_room(client, 0);
    for number in 0..3 {
        world.put(client, "q", &number.to_string());
    }
    assert_eq!((world.waits("q"), world.entries_written()), (3, 3));
    world.make_room(client, 10);
    let got = world.got(client);
    assert_eq!(
        got.iter()
            .map(|got| (got.text.as_str(), got.tag))
            .collect::<Vec<_>>(),
        [("0", 1), ("1", 2), ("2", 3)]
    );
}

#[test]
fn another_takes_what_does_not_fit() {
    let mut world = World::new();
    let (full, free) = (world.connect("full"), world.connect("free"));
    world.queue(full, "q", &Terms::default());
    world.consume(full, "q", 1, Taking::blindly());
    world.consume(free, "q", 1, Taking::default());
    world.set_room(full, 0);
    for number in 0..4 {
        world.put(full, "q", &number.to_string());
    }
    assert_eq!(world.texts(free), ["0", "1", "2", "3"]);
}

#[test]
fn a_full_output_gives_back_the_one_message_that_was_asked_for() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "0");
    world.put(client, "q", "1");
    world.set_room(client, 0);
    assert_eq!(world.take(client, "q", true), Ok(None));
    world.make_room(client, 5);
    assert_eq!(world.take(client, "q", true), Ok(Some(1)));
    assert_eq!(world.texts(client), ["0"]);
}

#[test]
fn what_comes_back_while_the_output_is_full_waits_in_its_place() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.set_room(client, 3);
    world.consume(client, "q", 1, Taking::default());
    for number in 0..4 {
        world.put(client, "q", &number.to_string());
    }
    world.got(client);
    world.requeue(client, 2);
    assert_eq!(world.waits("q"), 2);
    world.make_room(client, 9);
    assert_eq!(world.texts(client), ["1", "3"]);
}

#[test]
fn whatever_the_outputs_do_each_message_comes_once_and_in_order() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let mut world = World::new();
        let clients = [world.connect("a"), world.connect("b")];
        world.queue(clients[0], "q", &Terms::durable());
        for client in clients {
            world.set_room(client, dice.roll(3));
            let settles = dice.roll(2) == 0;
            world.consume(
                client,
                "q",
                1,
                Taking {
                    settles,
                    ..Taking::credit(dice.roll(6) as u32)
                },
            );
        }
        let (mut sent, mut got) = (0, vec![Vec::new(), Vec::new()]);
        for _ in 0..200 {
            let at = dice.roll(2);
            match dice.roll(3) {
                0 => world.make_room(clients[at], dice.roll(4)),
                1 => {
                    world.settle(clients[at], 1, 0, true, Verdict::Accept);
                }
                _ => {
                    world.put(clients[0], "q", &sent.to_string());
                    sent += 1;
                }
            }
            for (client, got) in clients.iter().zip(&mut got) {
                got.extend(
                    world
                        .texts(*client)
                        .into_iter()
                        .map(|text| text.parse::<usize>().expect("a number")),
                );
            }
        }
        assert!(
            got.iter().all(|got| got.is_sorted()),
            "seed {seed}: {got:?}"
        );
        let mut all: Vec<_> = got.concat();
        all.extend(
            world
                .drain_texts("q")
                .into_iter()
                .map(|text| text.parse::<usize>().expect("a number")),
        );
        all.sort_unstable();
        assert_eq!(all, (0..sent).collect::<Vec<_>>(), "seed {seed}");
    }
}
