//! Random runs with slow mail: what watchers see is in order, without a gap, and in the end what was published last.

use super::world::{Dice, Event, Watch, Who, World, address_at, draft, retained};
use thalweg_kernel::Limits;
use thalweg_model::Filter;

/// A watch and all it saw: `publisher:number`.
struct Seen {
    watch: Watch,
    depth: u16,
    values: Vec<String>,
    is_ready: bool,
    /// Messages that each publisher had published when it became ready.
    since: Vec<u32>,
}

#[test]
fn watchers_miss_nothing_and_see_nothing_twice_or_in_the_wrong_order() {
    for seed in 0..1_500 {
        run(seed, usize::MAX);
    }
}

/// All that one shard reads at once has one time; the order is that of one publisher's messages.
#[test]
fn one_publisher_is_seen_in_order_though_all_happens_in_one_moment() {
    for seed in 0..1_500 {
        run(seed, 1);
    }
}

/// With so many publishers at the most; if it is one, the clock stands.
fn run(seed: u64, publishers: usize) {
    let mut dice = Dice(seed);
    let shards = 1 + dice.roll(3) as u16;
    let kept_filters = [Filter::new("a/#").expect("a filter")].into();
    let mut world = World::watched_with(
        shards,
        Limits {
            kept_filters,
            ..Limits::default()
        },
    );
    let address = address_at(dice.roll(usize::from(shards)) as u16, shards);
    let writers: Vec<Who> = (0..shards)
        .map(|shard| world.connect_on(usize::from(shard)))
        .collect();
    let readers: Vec<Who> = (0..shards)
        .map(|shard| world.connect_on(usize::from(shard)))
        .collect();
    world.clock_stands = publishers == 1;
    let mut published = vec![0; usize::from(shards)];
    let mut seen: Vec<Seen> = Vec::new();
    world.is_slow = true;
    for _ in 0..60 {
        match dice.roll(10) {
            0 => {
                let (reader, depth) = (readers[dice.roll(readers.len())], [1, 1000][dice.roll(2)]);
                let watch = world.watch(reader, &address, depth);
                seen.push(Seen {
                    watch,
                    depth,
                    values: Vec::new(),
                    is_ready: false,
                    since: Vec::new(),
                });
            }
            1..=3 => {
                let number = dice.roll(writers.len().min(publishers));
                published[number] += 1;
                let text = format!("{number}:{}", published[number]);
                let draft = if dice.roll(2) == 0 {
                    draft(&address, &text)
                } else {
                    retained(&address, &text)
                };
                world.publish(writers[number], draft);
            }
            4 => {
                if !seen.is_empty() && dice.roll(3) == 0 {
                    let gone = seen.swap_remove(dice.roll(seen.len()));
                    world.unwatch(gone.watch);
                }
            }
            5 => take(&mut world, &mut seen, seed),
            _ => {
                let ways = world.ways();
                if !ways.is_empty() {
                    let (from, to) = ways[dice.roll(ways.len())];
                    world.carry(from, to);
                }
            }
        }
        hear(&mut world, &readers, &mut seen, &published, seed);
    }
    while let Some(ways) = Some(world.ways()).filter(|ways| !ways.is_empty()) {
        let (from, to) = ways[dice.roll(ways.len())];
        world.carry(from, to);
        hear(&mut world, &readers, &mut seen, &published, seed);
    }
    take(&mut world, &mut seen, seed);
    for seen in &seen {
        judge(seen, &published, seed);
    }
}

/// Records the messages at links.
fn hear(world: &mut World, readers: &[Who], seen: &mut [Seen], published: &[u32], seed: u64) {
    for reader in readers {
        for event in world.events(*reader) {
            match event {
                Event::Ready(cookie, value) => {
                    let Some(it) = seen.iter_mut().find(|it| it.watch.cookie == cookie) else {
                        continue;
                    };
                    assert!(!it.is_ready, "seed {seed}: ready twice");
                    it.is_ready = true;
                    it.since = published.to_vec();
                    it.values.extend(value);
                }
                Event::Changed(_) => {}
                other => panic!("seed {seed}: {other:?}"),
            }
        }
    }
}

fn take(world: &mut World, seen: &mut [Seen], seed: u64) {
    for it in seen {
        let values = world.take_all(it.watch);
        assert!(
            values.is_empty() || it.is_ready,
            "seed {seed}: changed before it was ready"
        );
        it.values.extend(values);
    }
}

fn judge(seen: &Seen, published: &[u32], seed: u64) {
    assert!(seen.is_ready, "seed {seed}: never ready");
    let parsed: Vec<(usize, u32)> = seen.values.iter().map(|value| parse(value)).collect();
    for (publisher, last) in published.iter().enumerate() {
        let numbers: Vec<u32> = parsed
            .iter()
            .filter(|(by, _)| *by == publisher)
            .map(|(_, number)| *number)
            .collect();
        assert!(
            numbers.is_sorted_by(|a, b| a < b),
            "seed {seed}: {publisher} out of order: {:?}",
            seen.values
        );
        if seen.depth > 1 {
            let all = seen.since[publisher] + 1..=*last;
            for number in all {
                assert!(
                    numbers.contains(&number),
                    "seed {seed}: {publisher}:{number} missed: {:?}",
                    seen.values
                );
            }
        }
    }
    let total: u32 = published.iter().sum();
    if published.len() == 1 || published.iter().filter(|count| **count > 0).count() == 1 {
        let publisher = published
            .iter()
            .position(|count| *count == total)
            .unwrap_or_default();
        let last = (total > 0).then_some((publisher, total));
        assert_eq!(
            parsed.last().copied(),
            last,
            "seed {seed}: in the end: {:?}",
            seen.values
        );
    } else if total > 0 {
        let (publisher, number) = *parsed.last().expect("something was published");
        assert_eq!(
            number, published[publisher],
            "seed {seed}: in the end: {:?}",
            seen.values
        );
    }
}

fn parse(value: &str) -> (usize, u32) {
    let (publisher, number) = value.split_once(':').expect("a value");
    (
        publisher.parse().expect("a publisher"),
        number.parse().expect("a number"),
    )
}
