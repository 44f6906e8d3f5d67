//! Queues with a single active consumer, and consumers with priorities.

use super::{LOSSES, all, at_each_step, bed, everything, kill};
use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{BasicProperties, Method, TableWriter};
use thalweg_testbed::amqp::{Amqp, Got, Hello};
use thalweg_testbed::{Testbed, Who};

const COUNT: usize = 8;
const PREFETCH: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueFeature {
    SingleActive,
    Priorities,
}

/// Of [`QueueFeature::Priorities`] the first has the higher priority.
const PRIORITIES: [i64; 2] = [5, 0];

fn open(bed: &mut Testbed) -> Who<Amqp> {
    let hello = Hello {
        channel: 1,
        ..Hello::default()
    };
    let who = bed.open_amqp(&hello, everything());
    bed.rest();
    let qos = basic::Qos {
        prefetch_count: PREFETCH as u16,
        ..Default::default()
    };
    bed.amqp_call(who, &Method::BasicQos(qos));
    who
}

fn consume(bed: &mut Testbed, kind: QueueFeature, number: usize) -> Who<Amqp> {
    let who = open(bed);
    let mut buffer = Vec::new();
    let mut arguments = TableWriter::new(&mut buffer);
    if kind == QueueFeature::Priorities {
        arguments.i64("x-priority", PRIORITIES[number]);
    }
    let consume = basic::Consume {
        queue: "work",
        arguments: arguments.finish(),
        ..Default::default()
    };
    bed.amqp_call(who, &Method::BasicConsume(consume));
    who
}

fn ack(tag: u64) -> Method<'static> {
    Method::BasicAck(basic::Ack {
        delivery_tag: tag,
        ..Default::default()
    })
}

fn got(bed: &mut Testbed, who: Who<Amqp>) -> Vec<Got> {
    bed.client(who).got.drain(..).collect()
}

fn texts(got: &[Got]) -> Vec<String> {
    got.iter().map(|got| got.text().to_owned()).collect()
}

/// A queue of messages, and both consumers with as many as the kind allows.
fn begin(bed: &mut Testbed, kind: QueueFeature) -> [Who<Amqp>; 2] {
    let who = open(bed);
    let mut buffer = Vec::new();
    let mut arguments = TableWriter::new(&mut buffer);
    arguments.bool(
        "x-single-active-consumer",
        kind == QueueFeature::SingleActive,
    );
    let declare = queue::Declare {
        queue: "work",
        durable: true,
        arguments: arguments.finish(),
        ..Default::default()
    };
    bed.amqp_call(who, &Method::QueueDeclare(declare));
    let consumers = [consume(bed, kind, 0), consume(bed, kind, 1)];
    let publish = basic::Publish {
        routing_key: "work",
        ..Default::default()
    };
    let properties = BasicProperties {
        delivery_mode: Some(2),
        ..Default::default()
    };
    for number in 0..COUNT {
        let text = number.to_string();
        bed.amqp_publish(who, &publish, &properties, text.as_bytes());
    }
    bed.lose(who);
    consumers
}

/// The consumer of higher priority, or the active one, acknowledges its first message; the broker is killed, and both come
/// back in one order or the other. Whether the kill came too late.
fn story(kind: QueueFeature, is_turned: bool, after: usize, loss: usize) -> bool {
    let what = format!("{kind:?}, turned: {is_turned}, killed after {after}, {loss}");
    let mut bed = bed(2);
    let consumers = begin(&mut bed, kind);
    let had = consumers.map(|who| got(&mut bed, who));
    let wanted = match kind {
        QueueFeature::SingleActive => [vec!["0", "1"], vec![]],
        QueueFeature::Priorities => [vec!["0", "1"], vec!["2", "3"]],
    };
    assert_eq!([texts(&had[0]), texts(&had[1])], wanted, "{what}");
    bed.write(consumers[0], |client, up| {
        client.side.method(1, &ack(had[0][0].tag), up)
    });
    let was_late = kill(&mut bed, &consumers.map(all), after, LOSSES[loss]);
    let numbers = if is_turned { [1, 0] } else { [0, 1] };
    let [first, second] = numbers.map(|number| consume(&mut bed, kind, number));
    // Only acknowledged messages may be gone, and delivered ones are flagged.
    let mut left: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
    let (mut of_first, mut of_second) = (got(&mut bed, first), got(&mut bed, second));
    if of_first.first().is_some_and(|got| got.text() == "1") {
        left.remove(0);
    } else {
        assert!(!was_late, "{what}: acknowledged and back");
    }
    assert_eq!(texts(&of_first), left[..PREFETCH], "{what}");
    assert!(
        of_first
            .iter()
            .all(|got| got.redelivered || got.text() > "1"),
        "{what}"
    );
    let high = match (kind, is_turned) {
        (QueueFeature::SingleActive, _) => {
            assert_eq!(texts(&of_second), [""; 0], "{what}: two are active");
            first
        }
        (QueueFeature::Priorities, false) => first,
        (QueueFeature::Priorities, true) => second,
    };
    if kind == QueueFeature::Priorities {
        assert_eq!(texts(&of_second), left[PREFETCH..2 * PREFETCH], "{what}");
    }
    // The next goes to the consumer with credit; if both have credit, to the first.
    let (high_has, low_has, low) = match high == first {
        true => (&mut of_first, &mut of_second, second),
        false => (&mut of_second, &mut of_first, first),
    };
    let mut settled: Vec<String> = Vec::new();
    for _ in 0..2 {
        let done = high_has.remove(0);
        settled.push(done.text().to_owned());
        bed.amqp_call(high, &ack(done.tag));
        let next = got(&mut bed, high);
        assert_eq!(next.len(), 1, "{what}: {next:?}");
        high_has.extend(next);
        assert_eq!(got(&mut bed, low), [], "{what}");
    }
    // Unsettled messages of one consumer go to the other when it leaves.
    bed.lose(high);
    low_has.extend(got(&mut bed, low));
    while !low_has.is_empty() {
        let done = low_has.remove(0);
        settled.push(done.text().to_owned());
        bed.amqp_call(low, &ack(done.tag));
        low_has.extend(got(&mut bed, low));
    }
    settled.sort();
    assert_eq!(settled, left, "{what}");
    was_late
}

#[test]
fn consumers_take_turns_as_their_queue_says_whenever_the_broker_is_killed() {
    for kind in [QueueFeature::SingleActive, QueueFeature::Priorities] {
        for is_turned in [false, true] {
            for loss in 0..2 {
                at_each_step(|after| story(kind, is_turned, after, loss));
            }
        }
    }
}
