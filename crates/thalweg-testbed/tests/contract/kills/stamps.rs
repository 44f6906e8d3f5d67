//! Stamped publishes that are repeated because their answer did not come, or came just before the kill.

use super::{LOSSES, all, at_each_step, bed, everything, kill};
use thalweg_amqp::methods::{basic, confirm, queue};
use thalweg_amqp::{BasicProperties, ContentHeader, Method, TableWriter};
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions};
use thalweg_stomp::{ConnectOut as StompConnect, HeaderWriter, SendOut};
use thalweg_testbed::amqp::{Amqp, Hello, ServerMethod};
use thalweg_testbed::mqtt::{Mqtt, Packet};
use thalweg_testbed::stomp::{ServerFrame, Stomp};
use thalweg_testbed::{Random, Testbed, Who};

const BODIES: [&str; 2] = ["first", "second"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Mqtt,
    Amqp,
    Stomp,
}

/// Publisher whose messages are counted at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Queue,
    /// A session of MQTT that is away, on this shard.
    Session(usize),
    /// A group whose only member is that.
    Group(usize),
}

#[derive(Clone, Copy)]
enum Publisher {
    Mqtt(Who<Mqtt>),
    Amqp(Who<Amqp>),
    Stomp(Who<Stomp>),
}

impl Publisher {
    fn connect(bed: &mut Testbed, writer: Writer, shard: usize) -> Publisher {
        let publisher = match writer {
            Writer::Mqtt => {
                let name = bed.name_on("publisher", shard);
                let connect = ConnectOut {
                    client_id: &name,
                    clean_start: true,
                    ..ConnectOut::default()
                };
                Publisher::Mqtt(bed.open_mqtt(&connect, everything()))
            }
            Writer::Amqp => {
                let who = open_amqp(bed);
                bed.amqp_call(who, &Method::ConfirmSelect(confirm::Select::default()));
                Publisher::Amqp(who)
            }
            Writer::Stomp => {
                Publisher::Stomp(bed.open_stomp(&StompConnect::default(), everything()))
            }
        };
        bed.rest();
        publisher
    }

    fn who(self) -> Who<()> {
        match self {
            Publisher::Mqtt(who) => all(who),
            Publisher::Amqp(who) => all(who),
            Publisher::Stomp(who) => all(who),
        }
    }

    /// Writes both publishes, each with its stamp.
    fn publish(self, bed: &mut Testbed, holder: Holder) {
        let is_queue = holder == Holder::Queue;
        for (number, body) in BODIES.into_iter().enumerate() {
            let (stamp, receipt) = (format!("7-{}", number + 1), number.to_string());
            match self {
                Publisher::Mqtt(who) => bed.write(who, |client, up| {
                    let publish = PublishOut {
                        topic: if is_queue { "$q/work" } else { "a/b" },
                        payload: body.as_bytes(),
                        qos: QoS::AtLeastOnce,
                        user: Some(&[("x-stamp", &stamp)]),
                        ..PublishOut::default()
                    };
                    client.publish(&publish, up);
                }),
                Publisher::Amqp(who) => bed.write(who, |client, up| {
                    let (exchange, key) = if is_queue {
                        ("", "work")
                    } else {
                        ("amq.topic", "a.b")
                    };
                    let publish = basic::Publish {
                        exchange,
                        routing_key: key,
                        ..Default::default()
                    };
                    let mut buffer = Vec::new();
                    let mut headers = TableWriter::new(&mut buffer);
                    headers.str("x-stamp", &stamp);
                    let properties = BasicProperties {
                        delivery_mode: Some(2),
                        headers: Some(headers.finish()),
                        ..Default::default()
                    };
                    let header = ContentHeader::Properties(&properties);
                    let sent = client
                        .side
                        .publish(1, &publish, header, body.as_bytes(), up);
                    sent.expect("it fits");
                }),
                Publisher::Stomp(who) => bed.write(who, |client, up| {
                    let send = SendOut {
                        destination: if is_queue {
                            "/queue/work"
                        } else {
                            "/topic/a.b"
                        },
                        receipt: Some(&receipt),
                        body: body.as_bytes(),
                        ..Default::default()
                    };
                    let more = |w: &mut HeaderWriter<'_>| {
                        w.put("persistent", "true");
                        w.put("x-stamp", &stamp);
                    };
                    client.side.send(&send, more, up);
                }),
            }
        }
    }

    /// Number of publishes acknowledged on this connection.
    fn acknowledged(self, bed: &mut Testbed) -> usize {
        match self {
            Publisher::Mqtt(who) => {
                let said = bed.client(who).said.iter();
                let acks = said
                    .filter(|it| matches!(it, Packet::PubAck { reason, .. } if !reason.is_error()));
                acks.count()
            }
            Publisher::Amqp(who) => {
                let said = bed.client(who).said.iter();
                let tags = said.filter_map(|it| match it {
                    ServerMethod::Ack { tag, .. } => Some(*tag as usize),
                    _ => None,
                });
                tags.max().unwrap_or(0)
            }
            Publisher::Stomp(who) => {
                let heard = bed.client(who).heard.iter();
                heard
                    .filter(|it| matches!(it, ServerFrame::Receipt(_)))
                    .count()
            }
        }
    }
}

fn open_amqp(bed: &mut Testbed) -> Who<Amqp> {
    let hello = Hello {
        channel: 1,
        ..Hello::default()
    };
    let who = bed.open_amqp(&hello, everything());
    bed.rest();
    who
}

/// The session that holds what is counted.
fn session(bed: &mut Testbed, shard: usize) -> Who<Mqtt> {
    let connect = ConnectOut {
        client_id: &bed.name_on("holder", shard),
        clean_start: false,
        session_expiry: 3600,
        ..ConnectOut::default()
    };
    let who = bed.open_mqtt(&connect, everything());
    bed.rest();
    who
}

fn hold(bed: &mut Testbed, holder: Holder) {
    let (filter, shard) = match holder {
        Holder::Queue => {
            let who = open_amqp(bed);
            let declare = queue::Declare {
                queue: "work",
                durable: true,
                ..Default::default()
            };
            bed.amqp_call(who, &Method::QueueDeclare(declare));
            return bed.lose(who);
        }
        Holder::Session(shard) => ("a/b", shard),
        Holder::Group(shard) => ("$share/g/a/b", shard),
    };
    let who = session(bed, shard);
    let options = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        ..SubscribeOptions::default()
    };
    bed.mqtt_subscribe(who, filter, options);
    bed.lose(who);
}

/// Bodies of all messages that the holder has, in their order.
fn held(bed: &mut Testbed, holder: Holder) -> Vec<String> {
    let bodies: Vec<Vec<u8>> = match holder {
        Holder::Queue => {
            let who = open_amqp(bed);
            let consume = basic::Consume {
                queue: "work",
                no_ack: true,
                ..Default::default()
            };
            bed.amqp_call(who, &Method::BasicConsume(consume));
            let got = bed.client(who).got.drain(..);
            got.map(|got| got.body).collect()
        }
        Holder::Session(shard) | Holder::Group(shard) => {
            let who = session(bed, shard);
            let got = bed.mqtt_got(who).into_iter();
            got.map(|got| got.payload).collect()
        }
    };
    let text = |body| String::from_utf8(body).expect("text");
    bodies.into_iter().map(text).collect()
}

/// Publishes again after each kill. Whether the first of these came too late.
fn story(writer: Writer, shard: usize, holder: Holder, kills: [usize; 2], loss: usize) -> bool {
    let what = format!("{writer:?} on {shard} to {holder:?}, kills after {kills:?}, {loss}");
    let mut bed = bed(2);
    hold(&mut bed, holder);
    let mut was_late = false;
    for (number, after) in kills.into_iter().enumerate() {
        let publisher = Publisher::connect(&mut bed, writer, shard);
        publisher.publish(&mut bed, holder);
        let is_late = kill(&mut bed, &[publisher.who()], after, LOSSES[loss]);
        was_late |= number == 0 && is_late;
        // A message acknowledged twice is stored once.
        assert!(
            !is_late || publisher.acknowledged(&mut bed) == BODIES.len(),
            "{what}"
        );
    }
    let publisher = Publisher::connect(&mut bed, writer, shard);
    publisher.publish(&mut bed, holder);
    bed.rest();
    assert_eq!(publisher.acknowledged(&mut bed), BODIES.len(), "{what}");
    assert_eq!(held(&mut bed, holder), BODIES, "{what}");
    was_late
}

#[test]
fn a_stamped_publish_that_is_repeated_comes_once_whenever_the_broker_is_killed() {
    let holders = [
        Holder::Queue,
        Holder::Session(0),
        Holder::Session(1),
        Holder::Group(0),
        Holder::Group(1),
    ];
    let writers = [
        (Writer::Mqtt, 0),
        (Writer::Mqtt, 1),
        (Writer::Amqp, 0),
        (Writer::Stomp, 0),
    ];
    for (writer, shard) in writers {
        for holder in holders {
            for loss in 0..2 {
                let mut random = Random(1 + loss as u64);
                at_each_step(|after| {
                    let second = random.below(30);
                    story(writer, shard, holder, [after, second], loss)
                });
            }
        }
    }
}
