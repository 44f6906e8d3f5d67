//! Matching, publishing and balancing in the kernel, without a front.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use crate::Operation;
use thalweg_balance::{Balancer, Choice, GroupStrategy, Head, Parcel, Place, Terms};
use thalweg_filter::Predicate;
use thalweg_kernel::access::Access;
use thalweg_kernel::routes::RouteTable;
use thalweg_kernel::{
    Answer, Change, CloseReason, ConsumeSpec, ConsumerEnd, Content, Delivery, Draft, Effects,
    Grants, Kernel, LastValueWish, Limits, LinkId, Observed, OpenSession, QueueLimits, QueueSpec,
    Sent, SessionId, Settled, ShardId, Tag, Tags, Ticket, Verdict, WatchId, WatchSpec, Wish,
    queue_address,
};
use thalweg_model::{Properties, PropertyValue, Reliability, Span, Time};

pub const OPERATIONS: &[Operation] = &[
    ("match_1000_filters_cold", |count| cold(1_000, count)),
    ("match_100000_filters_cold", |count| cold(100_000, count)),
    ("publish_1000_filters_cached", |count| cached(1_000, count)),
    ("publish_1000_filters_not_cached", |count| {
        not_cached(1_000, count)
    }),
    ("publish_to_queue_settled_when_sent", |count| {
        through_queue(false, 0, 0, count)
    }),
    ("publish_to_queue_and_settle", |count| {
        through_queue(true, 0, 0, count)
    }),
    ("publish_to_queue_of_10_filtered_and_settle", |count| {
        through_queue(true, 10, 0, count)
    }),
    ("publish_to_queue_of_10_filtered_and_wait", |count| {
        through_queue(true, 10, 1, count)
    }),
    ("publish_to_100_watches_and_take", watched),
    ("publish_to_group_of_4", group_of_4),
    ("publish_to_1_of_1_filtered", |count| {
        filtered(1, &device_of, &[], count)
    }),
    ("publish_to_1_of_10000_filtered", |count| {
        filtered(10_000, &device_of, &[], count)
    }),
    ("publish_to_1_filtered_by_3_fields_of_json", |count| {
        filtered(1, &|_| FIELDS.into(), &json(), count)
    }),
    ("choose_of_3", |count| choose(3, count)),
    ("choose_of_1000", |count| choose(1_000, count)),
    ("balance_message_of_3", |count| balance(3, count)),
    ("balance_message_of_10", |count| balance(10, count)),
    ("balance_message_of_1000", |count| balance(1_000, count)),
];

/// Addresses that are published to in turn.
const ADDRESSES: u32 = 64;

/// One filter in ten has a wildcard.
fn filter(number: u32) -> String {
    match number % 10 {
        9 => format!("site-{}/+/device-{}/#", number % 97, number),
        _ => format!(
            "site-{}/hall-{}/device-{}/temperature",
            number % 97,
            number % 7,
            number
        ),
    }
}

fn address(number: u32) -> String {
    format!(
        "site-{}/hall-{}/device-{}/temperature",
        number % 97,
        number % 7,
        number
    )
}

fn addresses(filters: u32) -> Vec<String> {
    // Every tenth of them matches a wildcard filter, the others an exact one.
    (0..ADDRESSES)
        .map(|number| address(number * (filters / ADDRESSES)))
        .collect()
}

/// The table itself: no memory of earlier matches.
fn cold(filters: u32, count: u32) {
    let mut table: RouteTable<u64> = RouteTable::new(7);
    for number in 0..filters {
        table.insert(&filter(number), u64::from(number));
    }
    let addresses = addresses(filters);
    let mut found = 0_u32;
    for address in addresses.iter().cycle().take(count as usize) {
        table.for_each_match(black_box(address), |sink| {
            black_box(sink);
            found += 1;
        });
    }
    assert_eq!(found, count, "each address matches one filter");
}

/// Publishing to addresses whose routes are remembered.
fn cached(filters: u32, count: u32) {
    publish(filters, count, 65_536);
}

/// Publishing to addresses whose routes must be worked out each time: the cache holds one.
fn not_cached(filters: u32, count: u32) {
    publish(filters, count, 1);
}

fn publish(filters: u32, count: u32, route_cache_max: usize) {
    let limits = Limits {
        route_cache_max,
        ..Limits::default()
    };
    let mut kernel = Kernel::new(limits, ShardId(0), 1, 7);
    let mut out = Nowhere(0);
    let now = Time::from_secs(1);
    let subscriber = open(&mut kernel, "subscriber", 0, &mut out);
    let publisher = open(&mut kernel, "publisher", 1, &mut out);
    for number in 0..filters {
        let filter = filter(number);
        let wish = Wish {
            filter: &filter,
            group: None,
            reliability: Reliability::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Never,
            id: 0,
        };
        kernel.subscribe(subscriber, 1, &[wish], now, &mut out);
    }
    let addresses = addresses(filters);
    // Once around, so that what can be remembered is.
    for address in &addresses {
        kernel.publish(publisher, draft(address), now, &mut out);
    }
    let before = out.0;
    for address in addresses.iter().cycle().take(count as usize) {
        kernel.publish(publisher, draft(black_box(address)), now, &mut out);
    }
    assert_eq!(out.0 - before, count, "each address has one receiver");
}

/// Publishing to a queue whose consumer is given each message at once and settles it, if it must. With filters it is the last of so
/// many consumers, and messages pass its filter only. With a credit of one each message waits until the one before is settled.
fn through_queue(settles: bool, filters: u32, credit: u32, count: u32) {
    let mut kernel = Kernel::new(Limits::default(), ShardId(0), 1, 7);
    let mut out = Nowhere(0);
    let now = Time::from_secs(1);
    let consumer = open(&mut kernel, "consumer", 0, &mut out);
    let publisher = open(&mut kernel, "publisher", 1, &mut out);
    let address = queue_address("", "queue");
    let limits = QueueLimits::default();
    let spec = QueueSpec {
        address: &address,
        durable: false,
        exclusive: false,
        is_named_by_broker: false,
        auto_delete: false,
        limits,
    };
    kernel
        .declare_queue(consumer, &spec, now, &mut out)
        .expect("it is new");
    for number in 1..=filters.max(1) {
        let filter = Predicate::parse(&device_of(number)).expect("a filter");
        let spec = ConsumeSpec {
            source: &address,
            line: 1,
            consumer: number,
            credit,
            settles,
            exclusive: false,
            priority: 0,
            no_local: false,
            filter: (filters > 0).then(|| Arc::new(filter)),
        };
        kernel
            .consume(consumer, &spec, now, &mut out)
            .expect("it may");
    }
    let properties = of_device(filters);
    for number in 1..=count {
        let draft = Draft {
            properties: (filters > 0).then_some(&properties),
            ..draft(black_box(&address))
        };
        kernel.publish(publisher, draft, now, &mut out);
        if settles && number > credit {
            let settled = kernel.settle_line(
                consumer,
                1,
                Tags::One(u64::from(number - credit)),
                Verdict::Accept,
                now,
                &mut out,
            );
            assert_eq!(settled, Settled::Known, "each is settled once");
        }
    }
    assert_eq!(out.0, count, "each message has one receiver");
}

/// Publishing to an address that 100 watch; each takes the new value at once.
fn watched(count: u32) {
    let mut kernel = Kernel::new(Limits::default(), ShardId(0), 1, 7);
    let mut out = Nowhere(0);
    let now = Time::from_secs(1);
    let reader = open(&mut kernel, "reader", 0, &mut out);
    let publisher = open(&mut kernel, "publisher", 1, &mut out);
    let address = address(1);
    let watch = |kernel: &mut Kernel, out: &mut Nowhere, cookie| {
        let spec = WatchSpec {
            link: LinkId(0),
            cookie,
            address: &address,
            depth: 1,
            condition: None,
            reliability: Reliability::AtLeastOnce,
        };
        kernel.watch(reader, spec, now, out).expect("it may")
    };
    let watches: Vec<WatchId> = (0..100)
        .map(|cookie| watch(&mut kernel, &mut out, cookie))
        .collect();
    for _ in 0..count {
        kernel.publish(publisher, draft(black_box(&address)), now, &mut out);
        for watch in &watches {
            let change = kernel.take_watched(*watch, now);
            assert!(
                matches!(change, Some(Change::Value(_))),
                "each is told of each"
            );
        }
    }
    assert_eq!(out.0, 100 * count, "each is told once");
}

/// Publishing to an address that four share; nothing is known of the members but what was sent to them.
fn group_of_4(count: u32) {
    let mut kernel = Kernel::new(Limits::default(), ShardId(0), 1, 7);
    let mut out = Nowhere(0);
    let now = Time::from_secs(1);
    let address = address(1);
    for link in 0..4 {
        let member = open(&mut kernel, &format!("member-{link}"), link, &mut out);
        let wish = Wish {
            filter: &address,
            group: Some("group"),
            reliability: Reliability::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Never,
            id: 0,
        };
        kernel.subscribe(member, 1, &[wish], now, &mut out);
    }
    let publisher = open(&mut kernel, "publisher", 4, &mut out);
    for _ in 0..count {
        kernel.publish(publisher, draft(black_box(&address)), now, &mut out);
    }
    assert_eq!(out.0, count, "each message has one receiver");
}

/// A filter that one of many subscribers has, for another value of a header each.
fn device_of(subscriber: u32) -> String {
    format!("device = 'd{subscriber}'")
}

/// Properties that pass the filter of this subscriber.
fn of_device(subscriber: u32) -> Properties {
    let name = format!("d{subscriber}");
    Properties {
        user: vec![("device".into(), PropertyValue::Text(name.into()))],
        ..Properties::default()
    }
}

const FIELDS: &str = "payload.sensor.temp > 20 AND payload.site = 'north' AND payload.urgent";

/// A payload of 300 bytes that passes [`FIELDS`].
fn json() -> Vec<u8> {
    let text = r#"{"id": "pump-17", "sensor": {"kind": "thermometer", "unit": "celsius", "temp": 21.5, "samples": [20, 21, 22, 23]}, "site": "north", "line": 7, "urgent": true, "notes": ""#;
    format!("{text}{}\"}}", "n".repeat(300 - text.len() - 2)).into()
}

/// Publishing a payload where each of so many subscribers of the address has a filter, which the first one's is true of.
fn filtered(subscribers: u32, filter_of: &dyn Fn(u32) -> String, payload: &[u8], count: u32) {
    let mut kernel = Kernel::new(Limits::default(), ShardId(0), 1, 7);
    let mut out = Nowhere(0);
    let now = Time::from_secs(1);
    let address = address(1);
    for link in 0..subscribers {
        let subscriber = open(&mut kernel, &format!("subscriber-{link}"), link, &mut out);
        let predicate = Predicate::parse(&filter_of(link)).expect("a filter");
        let wish = Wish {
            filter: &address,
            group: None,
            reliability: Reliability::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Never,
            id: 0,
        };
        let condition = Some(Arc::new(predicate));
        kernel.subscribe_if(subscriber, 1, &[wish], condition, now, &mut out);
    }
    let publisher = open(&mut kernel, "publisher", subscribers, &mut out);
    let properties = of_device(0);
    for _ in 0..count {
        let draft = Draft {
            properties: Some(&properties),
            payload: black_box(payload),
            ..draft(black_box(&address))
        };
        kernel.publish(publisher, draft, now, &mut out);
    }
    assert_eq!(out.0, count, "each message has one receiver");
}

/// All that a group's balancer does for a message: it comes, its member is chosen, it is sent and acknowledged.
fn balance(members: u32, count: u32) {
    let mut crew = Crew::new(members);
    (0..count).for_each(|_| crew.work());
    assert!(crew.queue.len() < 4 * members as usize, "they keep up");
}

/// The choice alone, again and again, at a moment like most: four of five have something to do.
fn choose(members: u32, count: u32) {
    let mut crew = Crew::new(members);
    (0..5 * members).for_each(|_| crew.work());
    let head = Head {
        queued: crew.queue.len() + 1,
        size: 36,
        turn: 0,
        random: 7,
        once: false,
        again: false,
        selective: false,
    };
    for _ in 0..count {
        black_box(
            crew.balancer
                .choose(black_box(&head), crew.now, &mut |_| true),
        );
    }
}

/// Members of a group, half of them twice as fast as the others. All together they have work for four fifths of their
/// time.
struct Crew {
    balancer: Balancer,
    now: Time,
    gap: Span,
    queue: VecDeque<u64>,
    /// What fast and slow members have: when it is acknowledged, where and under which tag.
    working: [VecDeque<(Time, Place, u64)>; 2],
    came: u64,
}

impl Crew {
    const FAST: Span = Span::from_millis(10);
    const ROUND_TRIP: Span = Span::from_nanos(400_000);

    fn new(members: u32) -> Self {
        let mut balancer = Balancer::new(GroupStrategy::Adaptive);
        let now = Time::from_secs(1);
        for _ in 0..members {
            balancer.join(
                Terms {
                    round_trip: Self::ROUND_TRIP,
                    ..Terms::default()
                },
                now,
            );
        }
        let gap = Span::from_nanos(Self::FAST.nanos() * 5 / 3 / u64::from(members));
        Crew {
            balancer,
            now,
            gap,
            queue: VecDeque::new(),
            working: Default::default(),
            came: 0,
        }
    }

    /// One message more comes, after whatever is done by then.
    fn work(&mut self) {
        self.now += self.gap;
        for working in &mut self.working {
            while let Some((_, place, tag)) = working
                .front()
                .copied()
                .filter(|(done, _, _)| *done <= self.now)
            {
                working.pop_front();
                assert!(
                    self.balancer.acknowledged(place, tag, self.now),
                    "it was sent"
                );
            }
        }
        self.balancer.arrived(self.now);
        self.queue.push_back(self.came);
        self.came += 1;
        while let Some(&tag) = self.queue.front() {
            let head = Head {
                queued: self.queue.len(),
                size: 36,
                turn: 0,
                random: tag,
                once: false,
                again: false,
                selective: false,
            };
            let choice = self
                .balancer
                .choose(black_box(&head), self.now, &mut |_| true);
            let Choice::Send(place) = choice else { break };
            self.balancer.sent(
                place,
                &Parcel {
                    tag,
                    size: 36,
                    settles: true,
                    again: false,
                },
                self.now,
            );
            self.queue.pop_front();
            let slow = u64::from(place % 2);
            let took = Span::from_nanos(Self::FAST.nanos() * (1 + slow) + Self::ROUND_TRIP.nanos());
            if let Some(working) = self.working.get_mut(slow as usize) {
                working.push_back((self.now + took, place, tag));
            }
        }
    }
}

fn open(kernel: &mut Kernel, client: &str, link: u32, out: &mut Nowhere) -> SessionId {
    let open = OpenSession {
        client,
        link: LinkId(link),
        fresh: true,
        expiry: Span::ZERO,
        in_flight_max: None,
        will: None,
        access: Access::ALL,
        user: None,
        dialect: "none",
        tenant: "",
        known_as: None,
        grants: Grants::default(),
    };
    let opened = kernel
        .open_session(open, Time::ZERO, out)
        .expect("there is room");
    kernel.start(opened.session, Time::ZERO, out);
    opened.session
}

fn draft(address: &str) -> Draft<'_> {
    Draft::new(address, &[b'x'; 36], Reliability::AtMostOnce)
}

struct Nowhere(u32);

impl Effects for Nowhere {
    fn deliver(&mut self, _: LinkId, content: &Content<'_>, delivery: &Delivery<'_>) -> Sent {
        black_box((content, delivery));
        self.0 += 1;
        Sent::Room
    }

    fn release(&mut self, _: LinkId, _: Tag) {}

    fn answer(&mut self, _: LinkId, _: Ticket, _: Answer<'_>) {}

    fn observe(&mut self, _: LinkId, cookie: u64, what: Observed<'_>) {
        black_box(cookie);
        self.0 += u32::from(matches!(what, Observed::Changed));
    }

    fn disconnect(&mut self, _: LinkId, _: CloseReason) {}

    fn consumer_ended(&mut self, _: LinkId, _: u16, _: ConsumerEnd) -> bool {
        false
    }

    fn hold(&mut self, _: LinkId, _: u64) {}
}
