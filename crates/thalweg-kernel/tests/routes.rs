//! The route table against the plain definition of a match, its memory and its cost.

use std::collections::BTreeMap;
use thalweg_kernel::routes::RouteTable;
use thalweg_model::Filter;

/// Enough randomness for tests; a seed reproduces a run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }

    /// Levels that are easily mistaken for each other, few enough that filters and addresses meet often.
    fn address(&mut self) -> String {
        loop {
            let depth_max = if self.roll(8) == 0 { 40 } else { 5 };
            let depth = 1 + self.roll(depth_max);
            let levels: Vec<_> = (0..depth)
                .map(|_| self.pick(&["", "a", "aa", "$", "$a", "a!", "é"]))
                .collect();
            let address = levels.join("/");
            if !address.is_empty() {
                return address;
            }
        }
    }

    /// An address of which some levels have become wildcards, or the beginning of one, so that it has a chance.
    fn filter(&mut self) -> String {
        let address = self.address();
        if self.roll(4) == 0 {
            let mut end = self.roll(address.len() + 1);
            while !address.is_char_boundary(end) {
                end -= 1;
            }
            if let Ok(prefix) = Filter::prefix(&address[..end]) {
                return prefix.as_str().to_owned();
            }
        }
        let mut levels: Vec<&str> = address.split('/').collect();
        for level in &mut levels {
            if self.roll(3) == 0 {
                *level = "+";
            }
        }
        match self.roll(4) {
            0 => *levels.last_mut().expect("a text has a level") = "#",
            1 => levels.push("#"),
            _ => {}
        }
        levels.join("/")
    }
}

/// Expected content of the table.
#[derive(Default)]
struct Model(BTreeMap<String, Vec<u64>>);

impl Model {
    fn matches(&self, address: &str) -> Vec<u64> {
        let mut sinks: Vec<u64> = self
            .0
            .iter()
            .filter(|(filter, _)| {
                Filter::from_canonical(filter)
                    .expect("legal")
                    .matches(address)
            })
            .flat_map(|(_, sinks)| sinks.iter().copied())
            .collect();
        sinks.sort_unstable();
        sinks
    }

    fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

fn matches(table: &RouteTable<u64>, address: &str) -> Vec<u64> {
    let mut sinks = Vec::new();
    table.for_each_match(address, |&sink| sinks.push(sink));
    sinks.sort_unstable();
    sinks
}

fn contents(table: &RouteTable<u64>) -> BTreeMap<String, Vec<u64>> {
    let mut all = BTreeMap::new();
    table.for_each(|filter, sinks| {
        assert_eq!(table.sinks(filter), sinks, "{filter}");
        assert!(
            all.insert(filter.to_owned(), sinks.to_vec()).is_none(),
            "{filter} twice"
        );
    });
    all
}

#[test]
fn random_tables_match_what_the_plain_definition_matches() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut table = RouteTable::new(seed);
        let mut model = Model::default();
        let mut sink_next = 0;
        for step in 0..400 {
            let growing = (step / 100) % 2 == 0;
            if dice.roll(10) < if growing { 7 } else { 2 } {
                let filter = dice.filter();
                sink_next += 1;
                let position = table.insert(&filter, sink_next);
                let sinks = model.0.entry(filter).or_default();
                sinks.push(sink_next);
                assert_eq!(position, sinks.len() - 1);
            } else if !model.0.is_empty() {
                let at = dice.roll(model.0.len());
                let filter = model.0.keys().nth(at).unwrap().clone();
                let sinks = model.0.get_mut(&filter).unwrap();
                let position = dice.roll(sinks.len());
                let sink = sinks.swap_remove(position);
                let moved = sinks.get(position).copied();
                if sinks.is_empty() {
                    model.0.remove(&filter);
                }
                if dice.roll(2) == 0 {
                    assert_eq!(
                        table.remove_at(&filter, position),
                        Some((sink, moved)),
                        "seed {seed}"
                    );
                } else {
                    assert_eq!(
                        table.remove(&filter, |&held| held == sink),
                        Some(sink),
                        "seed {seed}"
                    );
                }
            }
            assert_eq!(table.len(), model.len(), "seed {seed}");
            assert_eq!(table.filters(), model.0.len(), "seed {seed}");
            for _ in 0..4 {
                let address = dice.address();
                assert_eq!(
                    matches(&table, &address),
                    model.matches(&address),
                    "seed {seed}, address {address:?}"
                );
            }
        }
        assert_eq!(contents(&table), model.0, "seed {seed}");
    }
}

#[test]
fn an_unchanged_stamp_means_an_unchanged_match() {
    for seed in 100..120 {
        let mut dice = Dice(seed);
        let mut table = RouteTable::new(seed);
        let addresses: Vec<String> = (0..40).map(|_| dice.address()).collect();
        let look = |table: &RouteTable<u64>| -> Vec<_> {
            addresses
                .iter()
                .map(|address| (table.stamp(address), matches(table, address)))
                .collect()
        };
        let mut before = look(&table);
        let mut held: Vec<(String, u64)> = Vec::new();
        for sink in 0..300 {
            match dice.roll(3) {
                0 if !held.is_empty() => {
                    let (filter, sink) = held.swap_remove(dice.roll(held.len()));
                    assert_eq!(table.remove(&filter, |&held| held == sink), Some(sink));
                }
                1 if !held.is_empty() => {
                    let at = dice.roll(held.len());
                    let (filter, old) = &mut held[at];
                    let new = *old + 1_000_000;
                    assert!(table.update(filter, |held| std::mem::replace(
                        held,
                        if held == old { new } else { *held }
                    ) == *old));
                    *old = new;
                }
                _ => {
                    let filter = dice.filter();
                    table.insert(&filter, sink);
                    held.push((filter, sink));
                }
            }
            let after = look(&table);
            for (address, (before, after)) in addresses.iter().zip(before.iter().zip(&after)) {
                assert!(after.0 >= before.0);
                assert!(
                    before.1 == after.1 || before.0 != after.0,
                    "seed {seed}, address {address}"
                );
            }
            before = after;
        }
    }
}

#[test]
fn a_change_far_away_leaves_the_stamp_alone() {
    let mut table = RouteTable::new(7);
    let bucket = table.bucket_of("plant/1/temperature");
    assert_eq!(bucket, table.bucket_of("plant/2"));
    let elsewhere = (0..)
        .map(|n| format!("other{n}/x"))
        .find(|other| table.bucket_of(other) != bucket)
        .unwrap();
    let stamp = table.stamp_of(bucket);
    table.insert(&elsewhere, 1u64);
    table.remove("plant/1", |_| true);
    table.update("plant/1", |_| true);
    assert_eq!(table.stamp_of(bucket), stamp);
    table.insert("+/x", 2);
    assert_ne!(table.stamp_of(bucket), stamp);
    assert_eq!(table.stamp("plant/9"), table.stamp_of(bucket));
}

#[test]
fn a_first_level_is_spread_over_all_buckets() {
    let table = RouteTable::<u64>::new(3);
    let mut seen = [0u32; 256];
    for n in 0..25_600 {
        seen[table.bucket_of(&format!("device-{n}/state")) as usize] += 1;
    }
    assert!(
        seen.iter().all(|&count| (40..200).contains(&count)),
        "{seen:?}"
    );
}

#[test]
fn text_that_is_no_filter_harms_nothing() {
    let mut table = RouteTable::new(0);
    let odd = [
        "", "#/", "a/#/b", "a+", "a/b#", "##", "/", "//#", "+#", "\0",
    ];
    for (sink, filter) in odd.iter().enumerate() {
        table.insert(filter, sink);
    }
    for address in ["", "a", "/", "a/b", "//", "$", "a/#/b", "+"] {
        table.for_each_match(address, |_| {});
    }
    for (sink, filter) in odd.iter().enumerate() {
        assert_eq!(table.sinks(filter), [sink], "{filter}");
        assert_eq!(
            table.remove(filter, |&held| held == sink),
            Some(sink),
            "{filter}"
        );
    }
    assert_eq!(table.filters(), 0);
}

#[test]
fn the_deepest_address_and_filter_neither_overflow_nor_crawl() {
    let mut table = RouteTable::new(0);
    let deep_address = "/".repeat(65_535);
    let deep_filter = "+/".repeat(32_767) + "#";
    table.insert(&deep_filter, 1u64);
    table.insert(&deep_address, 2);
    assert_eq!(matches(&table, &deep_address), [1, 2]);
    assert!(table.visits(&deep_address) <= 32_769);
    assert_eq!(contents(&table).len(), 2);
    assert_eq!(table.remove(&deep_filter, |_| true), Some(1));
    assert_eq!(table.visits(&deep_address), 2);
}

#[test]
fn a_hundred_thousand_prefixes_of_one_sink_match_at_the_cost_of_ten() {
    let table = |count: usize| {
        let mut table = RouteTable::new(1);
        for n in 0..count {
            let prefix = Filter::prefix(&format!("sensor/{n:05}")).expect("legal");
            table.insert(prefix.as_str(), 1u64);
        }
        table
    };
    let (few, mut many) = (table(10), table(100_000));
    for address in ["sensor/00003/x", "sensor/00009", "sensor/0000", "elsewhere"] {
        assert_eq!(matches(&few, address), matches(&many, address));
        let (a, b) = (few.visits(address), many.visits(address));
        assert!(
            b <= 2 * a,
            "{address}: {a} visits among ten, {b} among 100,000"
        );
    }
    let nanos_each = |table: &RouteTable<u64>| {
        let start = std::time::Instant::now();
        for n in 0..100_000 {
            let address = ["sensor/00003/x", "sensor/00009", "sensor/00001/y/z"][n % 3];
            table.for_each_match(std::hint::black_box(address), |sink| {
                std::hint::black_box(sink);
            });
        }
        start.elapsed().as_nanos() as u64 / 100_000
    };
    println!(
        "{} ns among ten, {} ns among 100,000; {} bytes each",
        nanos_each(&few),
        nanos_each(&many),
        many.bytes() / many.len()
    );
    for n in 0..100_000 {
        let prefix = Filter::prefix(&format!("sensor/{n:05}")).expect("legal");
        assert_eq!(many.remove(prefix.as_str(), |_| true), Some(1));
    }
    assert_eq!((many.len(), many.filters()), (0, 0));
    assert!(many.bytes() < RouteTable::<u64>::new(1).bytes() + 65_536);
}

#[test]
fn the_longest_prefix_costs_at_most_its_bytes() {
    let mut table = RouteTable::new(0);
    let address = "a".repeat(2_000);
    for end in 0..=address.len() {
        let prefix = Filter::prefix(&address[..end]).expect("legal");
        table.insert(prefix.as_str(), end as u64);
    }
    assert_eq!(matches(&table, &address).len(), 2_001);
    assert!(table.visits(&address) <= 2_003);
}

/// 30 bytes on average; every tenth has a wildcard.
fn fleet_filter(n: usize) -> String {
    match n % 30 {
        0 => format!("fleet/{:03}/device-{n:08}/cmd/#", n % 977),
        10 => format!("fleet/{:03}/device-{n:08}/+/set", n % 977),
        20 => format!("+/+/device-{n:08}/state/+/x",),
        _ => format!("fleet/{:03}/device-{n:08}/state/1", n % 977),
    }
}

fn fleet(count: usize) -> RouteTable<(u32, u32)> {
    let mut table = RouteTable::new(1);
    for n in 0..count {
        table.insert(&fleet_filter(n), (n as u32, 0));
    }
    table
}

#[test]
fn a_million_subscriptions_cost_at_most_130_bytes_each_and_no_more_per_match_than_a_thousand() {
    let small = fleet(1_000);
    let large = fleet(1_000_000);
    assert_eq!(large.filters(), 1_000_000);
    let bytes_each = large.bytes() / large.len();
    println!("{bytes_each} bytes per subscription");
    assert!(bytes_each <= 130, "{bytes_each} bytes per subscription");

    for n in [0, 1, 10, 20, 29, 500, 990] {
        for address in [
            format!("fleet/{:03}/device-{n:08}/state/1", n % 977),
            format!("fleet/{:03}/device-{n:08}/cmd/reboot", n % 977),
            format!("fleet/{:03}/device-{n:08}/state/7/x", n % 977),
            format!("fleet/{:03}/nobody/state", n % 977),
        ] {
            let (few, many) = (small.visits(&address), large.visits(&address));
            assert!(
                many <= 2 * few,
                "{address}: {few} visits among 1,000 filters, {many} among 1,000,000"
            );
        }
    }
}

#[test]
fn memory_is_bounded_just_after_the_tables_have_grown() {
    // 64 pieces grow at 7/8 of a power of two: here nearly all of them have just doubled.
    let mut table = RouteTable::new(5);
    for n in 0..960_000usize {
        table.insert(
            &format!("fleet/{:03}/device-{n:08}/state/1", n % 977),
            (0u32, 0u32),
        );
    }
    let bytes_each = table.bytes() / table.len();
    println!("{bytes_each} bytes per exact subscription");
    assert!(bytes_each <= 130, "{bytes_each}");
}

#[test]
fn a_million_cycles_of_insert_and_remove_leave_nothing_behind() {
    let mut table = RouteTable::new(1);
    let empty = table.bytes();
    const STANDING: usize = 1_000;
    let mut peak = 0;
    for n in 0..1_000_000 {
        table.insert(&fleet_filter(n), n as u64);
        if n >= STANDING {
            let gone = n - STANDING;
            assert_eq!(
                table.remove(&fleet_filter(gone), |&sink| sink == gone as u64),
                Some(gone as u64)
            );
        }
        if n % 50_000 == 0 {
            peak = peak.max(table.bytes());
        }
    }
    assert_eq!(table.len(), STANDING);
    assert!(
        peak < STANDING * 600,
        "{peak} bytes for {STANDING} standing subscriptions"
    );
    for n in 1_000_000 - STANDING..1_000_000 {
        assert!(table.remove(&fleet_filter(n), |_| true).is_some());
    }
    assert_eq!((table.len(), table.filters()), (0, 0));
    // The trie's first chunk of nodes stays, for its root stands there.
    assert!(
        table.bytes() < empty + 65_536,
        "{} bytes held, {empty} when new",
        table.bytes()
    );
    assert_eq!(table.visits("fleet/001/device-00000001/state/1"), 2);
}

#[test]
fn memory_goes_back_after_a_peak() {
    let mut table = fleet(200_000);
    let empty = RouteTable::<(u32, u32)>::new(1).bytes();
    let full = table.bytes();
    for n in 0..200_000 {
        assert!(table.remove(&fleet_filter(n), |_| true).is_some());
    }
    assert!(
        table.bytes() < empty + full / 100,
        "{} of {full} bytes still held",
        table.bytes()
    );
}

#[test]
fn a_hundred_thousand_sinks_on_one_filter_leave_in_constant_time_each() {
    let mut table = RouteTable::new(1);
    // Places of subscribers, as a kernel would keep them.
    let mut positions: Vec<usize> = (0..100_000u32)
        .map(|sink| table.insert("news/+", sink))
        .collect();
    for sink in 0..100_000u32 {
        let at = positions[sink as usize];
        let (removed, moved) = table.remove_at("news/+", at).unwrap();
        assert_eq!(removed, sink);
        if let Some(moved) = moved {
            positions[moved as usize] = at;
        }
    }
    assert!(table.is_empty());
    assert_eq!(table.filters(), 0);
}

#[test]
fn crossing_wildcards_cost_at_most_the_filters_that_fit() {
    let mut table = RouteTable::new(1);
    // Every filter of `a` and `+` over twelve levels: 4,096 filters that all match one address.
    for bits in 0..4096u32 {
        let levels: Vec<_> = (0..12)
            .map(|level| if bits >> level & 1 == 0 { "a" } else { "+" })
            .collect();
        table.insert(&levels.join("/"), u64::from(bits));
    }
    let address = ["a"; 12].join("/");
    assert_eq!(matches(&table, &address).len(), 4096);
    assert!(table.visits(&address) <= 2 * 4096);
    assert!(table.visits(&["b"; 12].join("/")) <= 14);
}
