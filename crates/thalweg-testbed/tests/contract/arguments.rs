//! The terms of a queue mean the same whatever protocol declares it.

use thalweg_amqp::methods::queue;
use thalweg_amqp::{FieldValue, Method, Table, TableWriter};
use thalweg_kernel::access::Access;
use thalweg_stomp::{ConnectOut, SendOut};
use thalweg_testbed::amqp::{Amqp, Hello, Said};
use thalweg_testbed::stomp::Heard;
use thalweg_testbed::{Settings, Testbed, Who};

const NUMBERS: [&str; 6] = [
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-delivery-limit",
];

const TEXTS: [(&str, &str); 8] = [
    ("x-overflow", "drop-head"),
    ("x-overflow", "reject-publish"),
    ("x-overflow", "reject-publish-dlx"),
    ("x-overflow", "spill"),
    ("x-queue-type", "classic"),
    ("x-queue-type", "quorum"),
    ("x-queue-type", "stream"),
    ("x-dead-letter-routing-key", "without an exchange"),
];

fn amqp(bed: &mut Testbed) -> Who<Amqp> {
    let hello = Hello {
        channel: 1,
        ..Hello::default()
    };
    let who = bed.open_amqp(&hello, Some(Access::ALL));
    bed.rest();
    who
}

/// Whether AMQP gets a queue of this name and these terms.
fn declares(bed: &mut Testbed, who: Who<Amqp>, queue: &str, arguments: Table<'_>) -> bool {
    let declare = queue::Declare {
        queue,
        durable: true,
        arguments,
        ..Default::default()
    };
    bed.client(who).said.clear();
    bed.amqp_call(who, &Method::QueueDeclare(declare));
    let said = &bed.client(who).said;
    match said.front() {
        Some(Said::Declared { .. }) => true,
        Some(Said::ChannelClosed { code: 406, .. }) => false,
        other => panic!("{queue}: {other:?}"),
    }
}

/// Whether STOMP makes a queue of this name with this header, by sending to it.
fn makes(bed: &mut Testbed, queue: &str, name: &str, value: &str) -> bool {
    let who = bed.open_stomp(&ConnectOut::default(), Some(Access::ALL));
    bed.rest();
    let destination = format!("/queue/{queue}");
    let send = SendOut {
        destination: &destination,
        receipt: Some("r"),
        body: b"x",
        ..SendOut::default()
    };
    bed.client(who).heard.clear();
    bed.says(who, |client, up| {
        client.side.send(&send, |w| _ = w.put(name, value), up);
    });
    match bed.client(who).heard.pop_front() {
        Some(Heard::Receipt(_)) => true,
        Some(Heard::Error { message, body, .. }) => {
            assert!(body.contains(name), "{name}:{value}: {message} {body}");
            false
        }
        other => panic!("{name}:{value}: {other:?}"),
    }
}

#[test]
fn terms_of_a_queue_are_the_same_in_stomp_and_amqp() {
    let mut bed = Testbed::new(Settings::default());
    let client = amqp(&mut bed);
    let numbers = [-2, -1, 0, 1, 9, 255, 256, 5_000_000_000, i64::MAX];
    let mut cases: Vec<(&str, String, FieldValue<'_>)> = Vec::new();
    for name in NUMBERS {
        cases.extend(numbers.map(|number| (name, number.to_string(), FieldValue::I64(number))));
    }
    for (name, text) in TEXTS {
        cases.push((name, text.into(), FieldValue::LongStr(text.as_bytes())));
    }
    for truth in [true, false] {
        let name = "x-single-active-consumer";
        cases.push((name, truth.to_string(), FieldValue::Bool(truth)));
    }
    let mut differ = Vec::new();
    for (at, (name, text, value)) in cases.iter().enumerate() {
        let mut buffer = Vec::new();
        let mut table = TableWriter::new(&mut buffer);
        table.value(name, *value);
        let table = table.finish();
        let (of_stomp, of_amqp) = (format!("s{at}"), format!("a{at}"));
        let is_made = makes(&mut bed, &of_stomp, name, text);
        let is_declared = declares(&mut bed, client, &of_amqp, table);
        // What one made the other declares.
        let is_same = is_made && declares(&mut bed, client, &of_stomp, table);
        if (is_made, is_same) != (is_declared, is_declared) {
            differ.push(format!(
                "{name}:{text}: STOMP {is_made}, AMQP {is_declared}, same {is_same}"
            ));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}
