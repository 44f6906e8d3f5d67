//! Indirect paths to a queue: bindings between exchanges, alternate exchanges, headers, queues that keep no message,
//! messages that expire at once, and many dead letters at once.

use std::time::{Duration, Instant};

use super::amqp::{
    Amqp, CONFIRM_SELECT, Event, TX_COMMIT, TX_SELECT, Terms, Trouble, table_number, table_text,
};
use super::book::Book;
use super::{Cast, Casting, RESTLESS, STEADY, manner, publishers, run, takers};
use crate::broker::free_port;
use crate::crash::process::Home;
use crate::crash::supervisor::{End, Way};
use crate::crash::{asked_for, oracle};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn what_takes_a_detour_survives_with_one_shard() {
    survives(1, 11);
}

#[test]
fn what_takes_a_detour_survives_with_three_shards() {
    survives(3, 12);
}

fn survives(shards: u32, seed: u64) {
    if oracle() {
        return;
    }
    let home = Home::new(&format!("ways-{shards}")).set(&format!("shards={shards}"));
    let verdict = run(home, seed, Way::Kill, End::AfterKills(6), detours);
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
#[ignore = "takes minutes: cargo xtask soak kills"]
fn for_minutes() {
    if oracle() {
        return;
    }
    let (seconds, seed) = asked_for();
    let end = End::At(Instant::now() + Duration::from_secs(seconds));
    // Shards that wait for each other, and a disk that is slow to be asked.
    let home = Home::new("ways-long")
        .set("shards=2")
        .set("journal.max_linger=10ms");
    let verdict = run(home, seed, Way::Kill, end, detours);
    println!("{}", verdict.text);
    assert!(
        verdict.book.counted().is_empty(),
        "the run with seed {seed} found the above"
    );
}

fn declare(amqp: &mut Amqp) -> Result<(), Trouble> {
    let dies_to = |queue: &str| {
        [
            table_text("x-dead-letter-exchange", ""),
            table_text("x-dead-letter-routing-key", queue),
        ]
    };
    for queue in [
        "led",
        "alternate",
        "compared",
        "given-up",
        "late",
        "bequeathed",
    ] {
        amqp.declare_queue(queue, Terms::Durable, None)?;
    }
    for (name, kind) in [
        ("in-led", "topic"),
        ("middle", "fanout"),
        ("end", "direct"),
        ("last", "fanout"),
        ("rest", "fanout"),
        ("in-willed", "topic"),
        ("in-compared", "headers"),
        ("found", "fanout"),
    ] {
        amqp.declare_exchange(name, kind, false)?;
    }
    amqp.declare_exchange_with(
        "in-alternate",
        "direct",
        &table_text("alternate-exchange", "rest"),
    )?;
    amqp.bind_exchange("middle", "in-led", "#")?;
    amqp.bind_exchange("end", "middle", "")?;
    amqp.bind("led", "end", "k")?;
    amqp.bind_exchange("last", "in-willed", "#")?;
    amqp.bind("bequeathed", "last", "")?;
    amqp.bind("alternate", "rest", "")?;
    amqp.bind_exchange("found", "in-compared", "")?;
    amqp.bind("compared", "found", "")?;
    let nothing = [
        &table_number("x-max-length", 0)[..],
        &dies_to("given-up").concat(),
    ]
    .concat();
    amqp.declare_with("nothing", Terms::Durable, &nothing)?;
    let hasty = [
        &table_number("x-message-ttl", 1)[..],
        &dies_to("late").concat(),
    ]
    .concat();
    amqp.declare_with("hasty", Terms::Durable, &hasty)
}

fn detours(book: &mut Book) -> Cast {
    let mut casting = Casting {
        book,
        cast: Cast::default(),
    };
    casting.cast.topology.special = Some(declare);
    let [led, alternate, compared, given_up, late, bequeathed] = [
        "led",
        "alternate",
        "compared",
        "given-up",
        "late",
        "bequeathed",
    ]
    .map(|name| (casting.queue(name, None), name));
    casting.book.derived(late.0);
    // A will that was published and received just before a kill is published once more, because no answer confirmed it.
    casting.book.derived(bequeathed.0);
    for who in ["amqp-1", "amqp-2"] {
        let routes = vec![
            casting.route(who, "in-led", "k", &[led.0]),
            casting.route(who, "in-alternate", "k", &[alternate.0]),
            casting.route(who, "in-compared", "k", &[compared.0]),
            casting.route(who, "", "nothing", &[given_up.0]),
            casting.route(who, "", "hasty", &[late.0]),
        ];
        casting.publisher(who, publishers::confirmed, routes);
    }
    let routes = vec![
        casting.route("stomp", "", "/exchange/in-led/k", &[led.0]),
        casting.route("stomp", "", "/exchange/in-alternate/k", &[alternate.0]),
        casting.route("stomp", "", "/exchange/in-compared/k", &[compared.0]),
        casting.route("stomp", "", "/amq/queue/nothing", &[given_up.0]),
        casting.route("stomp", "", "/amq/queue/hasty", &[late.0]),
    ];
    casting.publisher("stomp", publishers::receipts, routes);
    for who in ["mqtt-1", "mqtt-2", "mqtt-3"] {
        let routes = vec![
            casting.route(who, "", "$x/in-led/k", &[led.0]),
            casting.route(who, "", "$x/in-alternate/k", &[alternate.0]),
            casting.route(who, "", "$x/in-compared/k", &[compared.0]),
            casting.route(who, "", "$q/nothing", &[given_up.0]),
            casting.route(who, "", "$q/hasty", &[late.0]),
        ];
        let quality = if who == "mqtt-3" {
            publishers::quality_2
        } else {
            publishers::quality_1
        };
        casting.publisher(who, quality, routes);
    }
    let routes = vec![
        casting.route("coap", "ps/data", "$x/in-led/k", &[led.0]),
        casting.route("coap", "ps/data", "$x/in-alternate/k", &[alternate.0]),
        casting.route("coap", "ps/data", "$x/in-compared/k", &[compared.0]),
        casting.route("coap", "q", "nothing", &[given_up.0]),
        casting.route("coap", "q", "hasty", &[late.0]),
    ];
    routes
        .iter()
        .for_each(|route| casting.book.by_datagrams(route.stream));
    casting.publisher("coap", publishers::confirmable, routes);
    for who in ["will-1", "will-2"] {
        let routes = vec![
            casting.route(who, "", "$x/in-willed/k", &[bequeathed.0]),
            casting.route(who, "", "$q/hasty", &[late.0]),
        ];
        casting.publisher(who, publishers::wills, routes);
    }
    casting.taker(
        takers::pushed,
        manner("bequeathed-amqp", bequeathed, 20, RESTLESS),
    );
    casting.taker(takers::pushed, manner("led-amqp", led, 20, RESTLESS));
    casting.taker(takers::by_mqtt, manner("led-mqtt", led, 0, RESTLESS));
    casting.taker(
        takers::by_stomp,
        manner("alternate-stomp", alternate, 20, RESTLESS),
    );
    casting.taker(
        takers::by_mqtt,
        manner("compared-mqtt", compared, 0, STEADY),
    );
    casting.taker(
        takers::pushed,
        manner("given-up-amqp", given_up, 50, STEADY),
    );
    casting.taker(takers::pushed, manner("late-amqp", late, 20, RESTLESS));
    casting.cast
}

/// The usual way to try again later: a queue whose messages expire into another. All of them while the broker is dead, and
/// more of them than the journal writes in one piece.
#[test]
fn more_than_a_frame_that_dies_at_once_is_no_harm_to_the_journal() {
    if oracle() {
        return;
    }
    const COUNT: u64 = 60;
    const LEN: usize = 100_000;
    let address = free_port();
    let home = Home::new("ways-frames")
        .set(&format!("listeners.amqp.bind={address}"))
        .set("journal.frame_bytes_max=1MiB")
        .set("journal.segment_bytes=4MiB");
    let process = home.start().expect("it starts");
    let mut amqp = Amqp::open(address).expect("it is let in");
    amqp.declare_queue("dead", Terms::Durable, None)
        .expect("it may");
    let terms = [
        table_number("x-message-ttl", 1000),
        table_text("x-dead-letter-exchange", ""),
        table_text("x-dead-letter-routing-key", "dead"),
    ];
    amqp.declare_with("later", Terms::Durable, &terms.concat())
        .expect("it may");
    amqp.call(CONFIRM_SELECT).expect("confirms are granted");
    for number in 0..COUNT {
        amqp.publish("", "later", &vec![number as u8; LEN]);
    }
    confirmed(&mut amqp, COUNT);
    process.kill();
    // Time passes, for the broker only.
    std::thread::sleep(Duration::from_millis(1100));
    let mut waiting = 0;
    for _ in 0..3 {
        let process = home.start().expect("it starts as often as it must");
        let mut amqp = Amqp::open(address).expect("it is let in");
        let until = Instant::now() + PATIENCE;
        while amqp.look("dead").expect("it lives") < COUNT as u32 && Instant::now() < until {
            std::thread::yield_now();
        }
        waiting = amqp.look("dead").expect("it lives");
        assert!(
            !process.log().contains("the journal has failed"),
            "{}",
            process.log()
        );
        process.kill();
    }
    assert_eq!(waiting, COUNT as u32);

    // All of it is rejected at once.
    let process = home.start().expect("it starts");
    let mut amqp = Amqp::open(address).expect("it is let in");
    let terms = [
        table_text("x-dead-letter-exchange", ""),
        table_text("x-dead-letter-routing-key", "dead"),
    ];
    amqp.declare_with("refused", Terms::Durable, &terms.concat())
        .expect("it may");
    amqp.call(CONFIRM_SELECT).expect("confirms are granted");
    for number in 0..COUNT {
        amqp.publish("", "refused", &vec![number as u8; LEN]);
    }
    confirmed(&mut amqp, COUNT);
    let mut last = 0;
    for _ in 0..COUNT {
        last = amqp
            .get("refused")
            .expect("it lives")
            .expect("there is one")
            .tag;
    }
    amqp.reject_all(last);
    let until = Instant::now() + PATIENCE;
    while amqp.look("dead").expect("it lives") < 2 * COUNT as u32 {
        assert!(Instant::now() < until, "all go their way");
        std::thread::yield_now();
    }
    process.kill();

    // One message that is longer than the journal writes in one piece is its publisher's fault alone.
    let process = home.start().expect("it starts");
    let mut other = Amqp::open(address).expect("it is let in");
    other.call(CONFIRM_SELECT).expect("confirms are granted");
    let mut amqp = Amqp::open(address).expect("it is let in");
    amqp.call(CONFIRM_SELECT).expect("confirms are granted");
    amqp.publish("", "dead", &vec![1; 2 << 20]);
    let ended = amqp.event(PATIENCE);
    assert!(
        matches!(ended, Err(Trouble::Gone | Trouble::Refused(..))),
        "it is not confirmed: {ended:?}"
    );
    other.publish("", "dead", b"m");
    confirmed(&mut other, 1);
    assert!(
        process.wait_for("journal.frame_bytes_max", PATIENCE),
        "{}",
        process.log()
    );

    // Neither is a transaction confirmed of which one message could not be written, though what followed it could.
    amqp = Amqp::open(address).expect("it is let in");
    amqp.declare_queue("pieces", Terms::Durable, None)
        .expect("it may");
    amqp.call(TX_SELECT).expect("it may");
    amqp.publish("", "pieces", &vec![1; 2 << 20]);
    amqp.publish("", "pieces", b"m");
    let committed = amqp.call(TX_COMMIT);
    assert!(
        matches!(committed, Err(Trouble::Gone | Trouble::Refused(..))),
        "{committed:?}"
    );
    process.kill();
    let process = home.start().expect("it starts");
    let mut amqp = Amqp::open(address).expect("it is let in");
    // The fate of rejected messages is not awaited; they are in one queue or the other.
    let counts = ["dead", "refused"].map(|queue| amqp.look(queue).expect("it lives"));
    assert_eq!(
        counts.iter().sum::<u32>(),
        2 * COUNT as u32 + 1,
        "{counts:?}"
    );
    process.kill();
}

/// All up to this one.
fn confirmed(amqp: &mut Amqp, count: u64) {
    let mut left: std::collections::BTreeSet<u64> = (1..=count).collect();
    while !left.is_empty() {
        match amqp.event(PATIENCE).expect("the broker lives") {
            Some(Event::Ack(tag, true)) => left.retain(|known| *known > tag),
            Some(Event::Ack(tag, false)) => drop(left.remove(&tag)),
            other => panic!("confirmations were awaited and {other:?} came"),
        }
    }
}
