//! Properties of messages and queues are the same after a restart, for every protocol that can read them.

use crate::peer::{Peer, Place, Protocol, Stage};
use crate::ways::{QUEUE, declare, operator};
use thalweg_amqp::methods::{basic, exchange, queue};
use thalweg_amqp::{BasicProperties, Method, TableWriter};
use thalweg_kernel::Limits;
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS};
use thalweg_stomp::{ConnectOut as StompConnect, HeaderWriter, SendOut};
use thalweg_testbed::Settings;
use thalweg_testbed::amqp::ServerMethod;
use thalweg_testbed::disk::Loss;

/// Ways in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its connections end first.
    Clean,
    Killed,
}

const ENDS: [End; 2] = [End::Clean, End::Killed];

/// Publishers that use all message properties of their protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Amqp,
    Mqtt,
    Stomp,
    Coap,
}

const WRITERS: [Writer; 4] = [Writer::Amqp, Writer::Mqtt, Writer::Stomp, Writer::Coap];
/// Consumers that can read them out of a queue; MQTT's view waits in a session, below.
const READERS: [Protocol; 3] = [Protocol::Amqp, Protocol::Stomp, Protocol::Line];

fn stage(shards: u16) -> Stage {
    Stage::with(Settings {
        shards,
        limits: Limits {
            journal: true,
            ..Limits::default()
        },
        ..Settings::default()
    })
}

fn end(stage: &mut Stage, how: End, peers: &[Peer]) {
    if how == End::Clean {
        peers.iter().for_each(|peer| stage.lose(*peer));
    }
    let shards = stage.bed.settings.shards;
    stage.bed.crash(Loss::Process, shards, |_| ());
    stage.bed.run_for(Span::ZERO);
}

/// Publishes to a place with all that can be said; `is_sure` that it must not be lost.
fn write(
    stage: &mut Stage,
    writer: Writer,
    place: Place<'_>,
    body: &str,
    is_sure: bool,
    retain: bool,
) {
    let bed = &mut stage.bed;
    match writer {
        Writer::Amqp => {
            let who = operator(bed);
            let mut buffer = Vec::new();
            let mut headers = TableWriter::new(&mut buffer);
            headers
                .str("colour", "green")
                .i64("number", -7)
                .bool("truth", true);
            headers.table("inner", |inner| _ = inner.str("a", "b"));
            let properties = BasicProperties {
                content_type: Some("text/plain"),
                content_encoding: Some("identity"),
                headers: Some(headers.finish()),
                delivery_mode: Some(if is_sure { 2 } else { 1 }),
                priority: Some(4),
                correlation_id: Some(b"c-1"),
                reply_to: Some("answers"),
                expiration: Some("3600000"),
                message_id: Some("id-1"),
                timestamp: Some(1_795_000_000),
                kind: Some("reading"),
                ..Default::default()
            };
            let (exchange, key) = match place {
                Place::Queue(name) => ("", name.to_owned()),
                Place::Address(address) => ("amq.topic", address.replace('/', ".")),
            };
            let publish = basic::Publish {
                exchange,
                routing_key: &key,
                ..Default::default()
            };
            bed.amqp_publish(who, &publish, &properties, body.as_bytes());
            bed.lose(who);
        }
        Writer::Mqtt => {
            let connect = ConnectOut {
                client_id: "writer",
                clean_start: true,
                ..ConnectOut::default()
            };
            let who = bed.open_mqtt(&connect, Some(Access::ALL));
            bed.rest();
            let publish = PublishOut {
                topic: &place.topic(),
                payload: body.as_bytes(),
                qos: if is_sure {
                    QoS::AtLeastOnce
                } else {
                    QoS::AtMostOnce
                },
                retain,
                expiry_secs: Some(3600),
                payload_format: Some(1),
                content_type: Some("text/plain"),
                response_topic: Some("answers/here"),
                correlation_data: Some(b"c-1"),
                user: Some(&[("colour", "green"), ("colour", "blue")]),
                ..PublishOut::default()
            };
            bed.mqtt_publish(who, &publish);
            bed.lose(who);
        }
        Writer::Stomp => {
            let who = bed.open_stomp(&StompConnect::default(), Some(Access::ALL));
            bed.rest();
            let send = SendOut {
                destination: &place.destination(Place::key),
                content_type: Some("text/plain"),
                body: body.as_bytes(),
                ..Default::default()
            };
            let more = |w: &mut HeaderWriter<'_>| {
                for (name, value) in [
                    ("colour", "green"),
                    ("priority", "4"),
                    ("expiration", "3600000"),
                    ("correlation-id", "c-1"),
                    ("message-id", "id-1"),
                    ("type", "reading"),
                ] {
                    w.put(name, value);
                }
                if is_sure {
                    w.put("persistent", "true");
                }
            };
            bed.says(who, |client, up| client.side.send(&send, more, up));
            bed.lose(who);
        }
        Writer::Coap => {
            let peer = bed.peer(0, 0);
            bed.set_identity(peer, "writer");
            let (kind, method) = match (is_sure, retain) {
                (true, true) => ("CON", "PUT"),
                (true, false) => ("CON", "POST"),
                (false, _) => ("NON", "POST"),
            };
            let line = format!(
                "{kind} {method} {}?expiry=3600 ct=50 : {body}",
                place.path()
            );
            bed.request(peer, &line);
        }
    }
}

/// The next message of a queue, settled, and all that it says.
fn take(stage: &mut Stage, peer: Peer) -> Option<(String, bool, String)> {
    for _ in 0..3 {
        let mut received = stage.received_in_full(peer);
        if !received.is_empty() {
            let (delivery, said) = received.remove(0);
            stage.acknowledge(peer, &delivery);
            return Some((delivery.body, delivery.redelivered, said));
        }
        stage.bed.run_for(Span::from_millis(10));
    }
    None
}

#[test]
fn a_message_says_the_same_after_a_restart_as_before() {
    for (writer, reader) in WRITERS
        .into_iter()
        .flat_map(|it| READERS.map(|reader| (it, reader)))
    {
        for (how, shards) in ENDS.into_iter().flat_map(|how| [(how, 1), (how, 2)]) {
            let what = format!("{writer:?} to {reader:?}, {how:?}, {shards} shards");
            let mut stage = stage(shards);
            stage.declare(QUEUE);
            for body in ["1", "2"] {
                write(&mut stage, writer, Place::Queue(QUEUE), body, true, false);
            }
            let before = stage.connect_as(reader, "before", "before", 1);
            stage.ask(before, Place::Queue(QUEUE));
            let first = take(&mut stage, before).expect(&what);
            stage.lose(before);
            end(&mut stage, how, &[]);
            let after = stage.connect_as(reader, "after", "after", 1);
            stage.ask(after, Place::Queue(QUEUE));
            let second = take(&mut stage, after).expect(&what);
            assert_eq!((&*first.0, &*second.0), ("1", "2"), "{what}");
            // The remaining lifespan has been rounded.
            let said = |said: &str| said.replace("3600001", "3600000");
            assert_eq!(said(&second.2), said(&first.2), "{what}");
        }
    }
}

/// Subscribers of MQTT that are away, and those that come later and find a last value.
#[test]
fn what_waits_for_a_session_and_a_last_value_say_the_same_after_a_restart() {
    for (writer, how) in WRITERS.into_iter().flat_map(|it| ENDS.map(|how| (it, how))) {
        for (retain, shards) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
            // A message that CoAP publishes is always a last value, too.
            let has_no_word = match retain {
                true => matches!(writer, Writer::Amqp | Writer::Stomp),
                false => writer == Writer::Coap,
            };
            if has_no_word {
                continue;
            }
            let what = format!("{writer:?}, {how:?}, retained {retain}, {shards} shards");
            let mut stage = stage(shards);
            let place = Place::Address("a/b");
            let names = ["early", "late"];
            let subscribe = |stage: &mut Stage, name: &str| {
                let peer = stage.connect_as(Protocol::Mqtt5, name, name, 10);
                stage.ask(peer, place);
                peer
            };
            if !retain {
                for name in names {
                    let peer = subscribe(&mut stage, name);
                    stage.lose(peer);
                }
            }
            write(&mut stage, writer, place, "1", true, retain);
            let seen = |stage: &mut Stage, peer: Peer| {
                let got = stage.received_in_full(peer);
                got.into_iter().map(|(_, said)| said).collect::<Vec<_>>()
            };
            let early = subscribe(&mut stage, names[0]);
            let before = seen(&mut stage, early);
            assert_eq!(before.len(), 1, "{what}: {before:?}");
            end(&mut stage, how, &[early]);
            let late = subscribe(&mut stage, names[1]);
            assert_eq!(seen(&mut stage, late), before, "{what}");
        }
    }
}

#[test]
fn a_restart_keeps_what_was_to_be_kept_and_nothing_else() {
    for (writer, how) in WRITERS.into_iter().flat_map(|it| ENDS.map(|how| (it, how))) {
        for shards in [1, 2] {
            let what = format!("{writer:?}, {how:?}, {shards} shards");
            let mut stage = stage(shards);
            stage.declare(QUEUE);
            for number in 0..6 {
                let (body, is_sure) = (number.to_string(), number % 2 == 0);
                write(
                    &mut stage,
                    writer,
                    Place::Queue(QUEUE),
                    &body,
                    is_sure,
                    false,
                );
            }
            end(&mut stage, how, &[]);
            let peer = stage.connect(Protocol::Amqp, "reader");
            stage.ask(peer, Place::Queue(QUEUE));
            let got = stage.received(peer).into_iter();
            let got: Vec<_> = got.map(|it| (it.body, it.redelivered)).collect();
            let wanted = ["0", "2", "4"].map(|body| (body.to_owned(), false));
            assert_eq!(got, wanted, "{what}");
        }
    }
}

/// A queue with every argument, one that is not durable, one that is exclusive; an exchange of each sort and bindings.
#[test]
fn queues_exchanges_and_bindings_are_what_they_were() {
    for how in ENDS {
        let mut stage = stage(1);
        let every = |table: &mut TableWriter<'_>| {
            table
                .i64("x-message-ttl", 3_600_000)
                .i64("x-expires", 7_200_000)
                .i64("x-max-length", 9)
                .i64("x-max-length-bytes", 900)
                .str("x-overflow", "reject-publish-dlx")
                .str("x-dead-letter-exchange", "ex")
                .str("x-dead-letter-routing-key", "k")
                .i64("x-max-priority", 5)
                .bool("x-single-active-consumer", true)
                .i64("x-delivery-limit", 3);
        };
        let who = operator(&mut stage.bed);
        let calls = |durable, name: &'static str| {
            Method::ExchangeDeclare(exchange::Declare {
                exchange: name,
                kind: "headers",
                durable,
                ..Default::default()
            })
        };
        stage.bed.amqp_call(who, &calls(true, "ex"));
        stage.bed.amqp_call(who, &calls(false, "brief"));
        declare(&mut stage.bed, who, QUEUE, every);
        for (name, durable, exclusive) in [("brief", false, false), ("own", true, true)] {
            let declare = queue::Declare {
                queue: name,
                durable,
                exclusive,
                ..Default::default()
            };
            stage.bed.amqp_call(who, &Method::QueueDeclare(declare));
        }
        let mut buffer = Vec::new();
        let mut table = TableWriter::new(&mut buffer);
        table.str("colour", "green").str("x-match", "any");
        let bind = queue::Bind {
            queue: QUEUE,
            exchange: "ex",
            arguments: table.finish(),
            ..Default::default()
        };
        stage.bed.amqp_call(who, &Method::QueueBind(bind));
        let see = |stage: &Stage| {
            let kernel = &stage.bed.shards[0].kernel;
            let mut all = Vec::new();
            kernel.for_each_queue(|it| {
                all.push(format!(
                    "{} {} {:?} {:?}",
                    it.address, it.durable, it.owner, it.limits
                ));
            });
            kernel.for_each_exchange(|it| all.push(format!("{it:?}")));
            all.retain(|text| !text.contains("brief") && !text.contains("own"));
            all.sort();
            all
        };
        let before = see(&stage);
        if how == End::Clean {
            stage.bed.lose(who);
        }
        end(&mut stage, how, &[]);
        assert_eq!(see(&stage), before, "{how:?}");
        let who = operator(&mut stage.bed);
        // A declaration with the same properties succeeds, and objects that end with their link or the process are gone.
        declare(&mut stage.bed, who, QUEUE, every);
        for name in ["brief", "own"] {
            stage.bed.client(who).said.clear();
            let passive = queue::Declare {
                queue: name,
                passive: true,
                ..Default::default()
            };
            stage.bed.amqp_call(who, &Method::QueueDeclare(passive));
            let said = stage.bed.client(who).said.pop_front();
            let is_gone = matches!(said, Some(ServerMethod::ChannelClosed { code: 404, .. }));
            assert!(is_gone, "{how:?}: {name} {said:?}");
        }
    }
}

/// A message that comes back again and again is given up after as many deliveries as without restarts, or sooner, and is
/// then a dead letter that says why.
#[test]
fn restarts_do_not_let_a_poison_message_go_round_for_longer() {
    for (how, restart_after) in ENDS
        .into_iter()
        .flat_map(|how| [0, 1, 2, 3].map(|at| (how, at)))
    {
        let what = format!("{how:?} after {restart_after}");
        let mut stage = stage(1);
        let who = operator(&mut stage.bed);
        declare(&mut stage.bed, who, "dead", |_| {});
        declare(&mut stage.bed, who, QUEUE, |table| {
            table
                .i64("x-delivery-limit", 3)
                .str("x-dead-letter-exchange", "")
                .str("x-dead-letter-routing-key", "dead");
        });
        write(
            &mut stage,
            Writer::Amqp,
            Place::Queue(QUEUE),
            "poison",
            true,
            false,
        );
        let mut deliveries = 0;
        let mut peer = stage.connect_as(Protocol::Amqp, "reader", "reader", 1);
        stage.ask(peer, Place::Queue(QUEUE));
        for round in 0..10 {
            for delivery in stage.received(peer) {
                assert_eq!(delivery.redelivered, deliveries > 0, "{what}");
                deliveries += 1;
                stage.requeue(peer, &delivery);
            }
            if round == restart_after {
                end(&mut stage, how, &[peer]);
                peer = stage.connect_as(Protocol::Amqp, "reader", "reader", 1);
                stage.ask(peer, Place::Queue(QUEUE));
            }
        }
        // The limit, and one more as without a restart; and the one that was out when the process ended.
        assert!(
            (2..=5).contains(&deliveries),
            "{what}: {deliveries} deliveries"
        );
        end(&mut stage, how, &[peer]);
        let reader = stage.connect(Protocol::Amqp, "dead");
        stage.ask(reader, Place::Queue("dead"));
        let dead = stage.received_with_deaths(reader);
        let dead: Vec<_> = dead.into_iter().map(|(it, why)| (it.body, why)).collect();
        let wanted = [("poison".to_owned(), Some("delivery_limit".to_owned()))];
        assert_eq!(dead, wanted, "{what}");
    }
}
