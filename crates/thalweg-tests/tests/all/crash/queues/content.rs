//! Contents of messages and transactions, before a kill and after it.

use std::time::{Duration, Instant};

use super::amqp::{
    Amqp, CONFIRM_SELECT, Delivery, Event, TX_COMMIT, TX_SELECT, Terms, Trouble, table_number,
    table_text,
};
use super::stomp::Stomp;
use crate::broker::free_port;
use crate::crash::luck::Luck;
use crate::crash::oracle;
use crate::crash::process::Home;

const PATIENCE: Duration = Duration::from_secs(20);

/// A transaction of this many messages of this size is more than a batch of the journal.
const MANY: u32 = 60;
const LARGE: usize = 200_000;
const KILLS: u32 = 3;

fn home(name: &str) -> (Home, std::net::SocketAddr, std::net::SocketAddr) {
    let (amqp, stomp) = (free_port(), free_port());
    let home = Home::new(name)
        .set(&format!("listeners.amqp.bind={amqp}"))
        .set(&format!("listeners.stomp.bind={stomp}"))
        .set("journal.segment_bytes=4MiB");
    (home, amqp, stomp)
}

fn get(amqp: &mut Amqp, queue: &str) -> Delivery {
    amqp.get(queue)
        .expect("the broker lives")
        .unwrap_or_else(|| panic!("{queue} has a message"))
}

fn wait_for_confirmation(amqp: &mut Amqp, of: u64) {
    loop {
        match amqp.event(PATIENCE).expect("the broker lives") {
            Some(Event::Ack(tag, _)) if tag == of => return,
            Some(Event::Ack(..)) => {}
            other => panic!("a confirmation was awaited and {other:?} came"),
        }
    }
}

/// All properties but the reserved one; the table has a nested one.
fn every_property() -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let long_text = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let inner = [text("deep"), b"t\x01".to_vec()].concat();
    let table = [
        [
            text("name"),
            b"S".to_vec(),
            long_text("Thalweg \u{1F30A}".as_bytes()),
        ]
        .concat(),
        [
            text("number"),
            b"l".to_vec(),
            (-7_i64).to_be_bytes().to_vec(),
        ]
        .concat(),
        [text("inner"), b"F".to_vec(), long_text(&inner)].concat(),
        [text("nothing"), b"V".to_vec()].concat(),
        [text("bytes"), b"x".to_vec(), long_text(&[0, 255, 1])].concat(),
    ]
    .concat();
    [
        0xFFF8_u16.to_be_bytes().to_vec(),
        text("text/plain"),
        text("identity"),
        long_text(&table),
        vec![2, 5],
        text("correlation"),
        text("answers"),
        text("3600000"),
        text("message-17"),
        1_700_000_000_u64.to_be_bytes().to_vec(),
        text("kind"),
        text("guest"),
        text("the tests"),
    ]
    .concat()
}

#[test]
fn a_message_says_after_a_kill_what_it_said_before() {
    if oracle() {
        return;
    }
    let (home, address, stomp_address) = home("queues-content");
    let process = home.start().expect("it starts");
    let mut amqp = Amqp::open(address).expect("it is let in");
    amqp.declare_queue("dead", Terms::Durable, None)
        .expect("it may declare");
    amqp.declare_queue("alive", Terms::Durable, Some("dead"))
        .expect("it may declare");
    amqp.call(CONFIRM_SELECT).expect("confirms are granted");
    // Two of each: one is looked at before the kill, one after it.
    let without_lifetime: Vec<u8> = [&(1_u16 << 12).to_be_bytes()[..], &[2]].concat();
    for _ in 0..2 {
        amqp.publish_with("", "alive", &every_property(), b"to die");
    }
    for _ in 0..2 {
        let tag = get(&mut amqp, "alive").tag;
        amqp.reject(tag, false);
    }
    for _ in 0..2 {
        amqp.publish_with("", "alive", &without_lifetime, b"plain");
        amqp.publish_with("", "alive", &every_property(), b"full");
    }
    let mut stomp = Stomp::open(stomp_address).expect("it is let in");
    for _ in 0..2 {
        let headers = [
            ("destination", "/amq/queue/alive"),
            ("content-type", "a/b"),
            ("correlation-id", "c"),
            ("x-own", "a word"),
            ("persistent", "true"),
        ];
        stomp
            .call("SEND", &headers, b"by stomp")
            .expect("it is taken");
    }
    wait_for_confirmation(&mut amqp, 6);
    let before: Vec<Delivery> = (0..3).map(|_| get(&mut amqp, "alive")).collect();
    let before_dead = get(&mut amqp, "dead");
    // A round trip, and then nothing but what the journal holds; what is unsettled waits again.
    amqp.look("dead").expect("the broker lives");
    process.kill();
    let _process = home.start().expect("it starts on what it left");

    let mut amqp = Amqp::open(address).expect("it is let in");
    let after: Vec<Delivery> = (0..6).map(|_| get(&mut amqp, "alive")).collect();
    assert!(
        after[..3].iter().all(|delivery| delivery.redelivered),
        "somebody had them"
    );
    let bodies: Vec<&[u8]> = after.iter().map(|delivery| &delivery.body[..]).collect();
    assert_eq!(
        bodies,
        [
            &b"plain"[..],
            b"full",
            b"plain",
            b"full",
            b"by stomp",
            b"by stomp"
        ]
    );
    // An expiration counts down; the rest is as it was.
    let constant = |delivery: &Delivery| {
        let text = String::from_utf8_lossy(&delivery.properties).into_owned();
        let at = text.find("answers").map_or(text.len(), |at| at + 7);
        let behind = text.find("message-17").unwrap_or(text.len());
        (text[..at].to_owned(), text[behind..].to_owned())
    };
    assert_eq!(after[0].properties, before[0].properties);
    assert_eq!(after[0].properties, without_lifetime);
    assert_eq!(constant(&after[1]), constant(&before[1]));
    assert_eq!(constant(&after[3]), constant(&before[1]));
    assert_eq!(after[4].properties, after[5].properties);
    assert!(
        String::from_utf8_lossy(&after[4].properties).contains("a word"),
        "STOMP's own header is there"
    );
    let after_dead = [get(&mut amqp, "dead"), get(&mut amqp, "dead")];
    for delivery in &after_dead {
        assert_eq!(delivery.body, b"to die");
        assert_eq!(
            delivery.properties, before_dead.properties,
            "how it died, too"
        );
        assert!(String::from_utf8_lossy(&delivery.properties).contains("x-death"));
    }
}

#[test]
fn what_a_queue_was_declared_with_counts_after_a_kill() {
    if oracle() {
        return;
    }
    let (home, address, _) = home("queues-terms");
    let process = home.start().expect("it starts");
    let short = table_number("x-max-length", 10);
    let ranked = table_number("x-max-priority", 9);
    let hasty = [
        table_number("x-message-ttl", 1500),
        table_text("x-dead-letter-exchange", ""),
        table_text("x-dead-letter-routing-key", "late"),
    ]
    .concat();
    let mut amqp = Amqp::open(address).expect("it is let in");
    let declare = |amqp: &mut Amqp| -> Result<(), Trouble> {
        amqp.declare_with("short", Terms::Durable, &short)?;
        amqp.declare_with("ranked", Terms::Durable, &ranked)?;
        amqp.declare_with("hasty", Terms::Durable, &hasty)?;
        amqp.declare_queue("late", Terms::Durable, None)
    };
    declare(&mut amqp).expect("it may declare");
    amqp.call(CONFIRM_SELECT).expect("confirms are granted");
    for number in 0..25_u8 {
        amqp.publish("", "short", &[number]);
        // Delivery mode and priority.
        let properties = [&(3_u16 << 11).to_be_bytes()[..], &[2, number % 3]].concat();
        amqp.publish_with("", "ranked", &properties, &[number]);
    }
    amqp.publish("", "hasty", b"too late");
    wait_for_confirmation(&mut amqp, 51);
    process.kill();
    // It is dead when its message's time comes.
    std::thread::sleep(Duration::from_millis(1600));
    let _process = home.start().expect("it starts on what it left");

    let mut amqp = Amqp::open(address).expect("it is let in");
    declare(&mut amqp).expect("they are as they were");
    let all = |amqp: &mut Amqp, queue: &str| -> Vec<u8> {
        std::iter::from_fn(|| amqp.get(queue).expect("the broker lives"))
            .map(|delivery| delivery.body[0])
            .collect()
    };
    assert_eq!(
        all(&mut amqp, "short"),
        (15..25).collect::<Vec<_>>(),
        "the newest ten"
    );
    let rank = |rank: u8| (0..25).filter(move |number| number % 3 == rank);
    assert_eq!(
        all(&mut amqp, "ranked"),
        rank(2).chain(rank(1)).chain(rank(0)).collect::<Vec<_>>()
    );
    assert!(all(&mut amqp, "hasty").is_empty());
    assert_eq!(get(&mut amqp, "late").body, b"too late");
    let other = table_number("x-max-length", 11);
    let refused = amqp.declare_with("short", Terms::Durable, &other);
    assert!(
        matches!(refused, Err(Trouble::Refused(406, _))),
        "it is known what it was declared with: {refused:?}"
    );
}

#[test]
fn a_transaction_larger_than_a_batch_is_there_as_a_whole_or_not_at_all() {
    if oracle() {
        return;
    }
    let (home, address, _) = home("queues-large");
    let mut luck = Luck::new(7);
    let mut whole = 0;
    // An undisturbed commit shows how long one takes here.
    let mut longest = Duration::from_secs(5);
    for kill in 0..=KILLS {
        let process = home.start().expect("it starts");
        let mut amqp = Amqp::open(address).expect("it is let in");
        for queue in ["large-1", "large-2"] {
            amqp.declare_queue(queue, Terms::Durable, None)
                .expect("it may declare");
            amqp.purge_queue(queue).expect("it may purge");
        }
        amqp.call(TX_SELECT).expect("transactions are granted");
        let body = vec![kill as u8; LARGE];
        for number in 0..MANY {
            amqp.publish("", ["large-1", "large-2"][number as usize % 2], &body);
        }
        // All of it is there, and now the commit.
        amqp.look("large-1").expect("the broker lives");
        let delay = longest.mul_f64(luck.between((0.2, 1.1)));
        let (enough, over) = std::sync::mpsc::channel::<()>();
        let killer = std::thread::spawn(move || {
            let _ = over.recv_timeout(delay);
            process.kill();
        });
        let begun = Instant::now();
        let committed = amqp.call(TX_COMMIT).is_ok();
        if kill == 0 {
            longest = begun.elapsed();
        }
        drop(enough);
        killer.join().expect("a kill does not fail");

        let process = home.start().expect("it starts on what it left");
        let mut amqp = Amqp::open(address).expect("it is let in");
        let counts = ["large-1", "large-2"].map(|queue| amqp.look(queue).expect("both are there"));
        println!("kill {kill}: committed {committed}, {counts:?}");
        assert!(
            counts == [MANY / 2; 2] || (!committed && counts == [0, 0]),
            "{counts:?}, committed: {committed}"
        );
        whole += u32::from(counts[0] > 0);
        process.kill();
    }
    println!(
        "{whole} of {} were there; a commit takes {longest:?}",
        KILLS + 1
    );
    assert!(whole > 0, "the one that nobody disturbed was not there");
}
