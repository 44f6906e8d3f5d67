//! Our client library against RabbitMQ, by AMQP and by STOMP: what its plugins promise of foreign brokers.
//!
//! `THALWEG_RABBITMQ=20900` uses a RabbitMQ that runs at these ports (`python3 interop/oracle/rabbitmq.py 21900`).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use thalweg_client::blocking::{Client, Subscription};
use thalweg_client::{ClientError, Options, Reliability, SubscribeOptions, Success};

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first of four ports, below those of `free_port`, which a broker of a test beside this one may have.
const PORT: u16 = 20_930;

/// A RabbitMQ of our own, gone when it is dropped: it ends with its input.
struct RabbitMq {
    first_port: u16,
    process: Option<(Child, ChildStdin)>,
}

impl RabbitMq {
    fn start() -> RabbitMq {
        if let Ok(port) = std::env::var("THALWEG_RABBITMQ") {
            return RabbitMq {
                first_port: port.parse().expect("a port"),
                process: None,
            };
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/oracle/rabbitmq.py");
        let mut process = Command::new("python3")
            .arg("-B")
            .arg(script)
            .arg(PORT.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python is there");
        let (input, output) = (
            process.stdin.take().expect("piped"),
            process.stdout.take().expect("piped"),
        );
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it says where it listens");
        assert!(
            line.starts_with("amqp "),
            "RabbitMQ does not start (`cargo xtask interop` installs it): {line}"
        );
        RabbitMq {
            first_port: PORT,
            process: Some((process, input)),
        }
    }

    fn urls(&self) -> [String; 2] {
        [
            format!("amqp://127.0.0.1:{}", self.first_port),
            format!("stomp://127.0.0.1:{}", self.first_port + 1),
        ]
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        if let Some((mut process, input)) = self.process.take() {
            drop(input);
            let _ = process.wait();
        }
    }
}

fn connect(url: &str) -> Client {
    Client::builder()
        .broker(url)
        .expect(url)
        .connect_blocking()
        .expect("a client starts without a network")
}

fn subscribe(client: &Client, filter: &str) -> Subscription {
    let options = SubscribeOptions {
        last_values: false,
        ..SubscribeOptions::default()
    };
    client
        .subscribe_timeout(filter, options, PATIENCE)
        .unwrap_or_else(|error| panic!("{filter}: {error}"))
}

fn take(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut payloads = Vec::new();
    while payloads.len() < count {
        match subscription.next_timeout(PATIENCE) {
            Ok(Some(message)) => {
                payloads.push(String::from_utf8_lossy(message.payload()).into_owned())
            }
            other => panic!(
                "{other:?} after {} of {count}: {:?}",
                payloads.len(),
                payloads.last()
            ),
        }
    }
    payloads
}

fn at(reliability: Reliability) -> Options {
    Options {
        reliability,
        ..Options::default()
    }
}

/// Everything in one go: a RabbitMQ takes half a minute to start.
#[test]
#[ignore = "needs rabbitmq-server: cargo xtask interop"]
fn rabbitmq_by_amqp_and_stomp() {
    let broker = RabbitMq::start();
    let urls = broker.urls();
    for publisher in &urls {
        for listener in &urls {
            println!("{publisher} to {listener}");
            messages_arrive_in_order_with_what_they_say(publisher, listener);
            topics_survive(publisher, listener);
            questions_are_answered(publisher, listener);
            groups_and_queues_share(publisher, listener);
        }
    }
    for url in &urls {
        println!("{url}");
        sessions_keep_what_comes(url);
        what_is_forbidden_fails_alone(url);
    }
}

fn messages_arrive_in_order_with_what_they_say(publisher: &str, listener: &str) {
    let (publisher, listener) = (connect(publisher), connect(listener));
    let mut heard = subscribe(&listener, "plant/+/temperature/#");
    for reliability in [Reliability::AtMostOnce, Reliability::AtLeastOnce] {
        let tickets: Vec<_> = (0..1000)
            .map(|number: u32| {
                let payload = number.to_string();
                publisher
                    .give(
                        payload.as_bytes(),
                        "",
                        "plant/1/temperature",
                        &at(reliability),
                    )
                    .expect("there is room")
            })
            .collect();
        let expected: Vec<String> = (0..1000).map(|number: u32| number.to_string()).collect();
        assert_eq!(take(&mut heard, 1000), expected, "{reliability:?}");
        let wanted = if reliability == Reliability::AtMostOnce {
            Success::Unknown
        } else {
            Success::Acknowledged
        };
        assert!(
            tickets
                .into_iter()
                .all(|ticket| publisher.outcome(ticket, PATIENCE) == wanted)
        );
    }
    let options = Options {
        content_type: Some("application/json".to_owned()),
        properties: vec![("room".to_owned(), "12: a\\b\nc".to_owned())],
        lifespan: Some(Duration::from_secs(60)),
        priority: 7,
        correlation: Some(b"7".to_vec()),
        reply_to: Some("answers/1".to_owned()),
        ..Options::default()
    };
    let payload = b"{\"t\": \"21.5\\u0000\"}\0\n";
    assert_eq!(
        publisher.publish("plant/1/temperature/x.y", payload, &options),
        Ok(Success::Acknowledged)
    );
    let message = heard
        .next_timeout(PATIENCE)
        .expect("it goes on")
        .expect("it comes");
    assert_eq!(
        (message.topic(), message.payload()),
        ("plant/1/temperature/x.y", &payload[..])
    );
    assert_eq!(message.content_type(), Some("application/json"));
    // RabbitMQ makes headers of AMQP of everything that STOMP says.
    let of_user = |(name, _): &(&str, &str)| !["receipt", "content-length"].contains(name);
    assert_eq!(
        message.properties().filter(of_user).collect::<Vec<_>>(),
        [("room", "12: a\\b\nc")]
    );
    assert_eq!(
        (message.correlation(), message.reply_to()),
        (Some(&b"7"[..]), Some("answers/1"))
    );
}

/// Levels with everything that means something somewhere on the way.
fn topics_survive(publisher: &str, listener: &str) {
    let (publisher, listener) = (connect(publisher), connect(listener));
    let mut heard = subscribe(&listener, "odd/#");
    for topic in [
        "odd/1.5",
        "odd/a b/ä",
        "odd/100%",
        "odd/%2E/%25",
        "odd/a%2Fb",
        "odd/*/>",
        "odd//x/",
        "odd/a:b\\c",
    ] {
        assert_eq!(
            publisher.publish(topic, b"x", &Options::default()),
            Ok(Success::Acknowledged),
            "{topic}"
        );
        let message = heard
            .next_timeout(PATIENCE)
            .expect("it goes on")
            .expect("it comes");
        assert_eq!(message.topic(), topic);
    }
}

fn questions_are_answered(asker: &str, answerer: &str) {
    let (asker, answerer) = (connect(asker), connect(answerer));
    let mut questions = subscribe(&answerer, "ask/#");
    let answering = std::thread::spawn(move || {
        for _ in 0..3 {
            let question = questions
                .next_timeout(PATIENCE)
                .expect("it goes on")
                .expect("it comes");
            let options = Options {
                correlation: question.correlation().map(<[u8]>::to_vec),
                ..at(Reliability::AtMostOnce)
            };
            let answer = [question.payload(), b"!"].concat();
            let to = question.reply_to().expect("an answer is wanted").to_owned();
            answerer.publish(&to, &answer, &options).expect("it goes");
        }
    });
    for payload in [b"one", b"two", b"3.0"] {
        let answer = asker
            .request("ask/me", payload, &Options::default(), PATIENCE)
            .expect("it is answered");
        assert_eq!(answer.payload(), [&payload[..], b"!"].concat());
    }
    answering.join().expect("it answered");
}

/// Each member of a group or consumer of a queue gets some; together they get all.
fn groups_and_queues_share(publisher: &str, listener: &str) {
    let (publisher, one, two) = (connect(publisher), connect(listener), connect(listener));
    let mut members = [&one, &two].map(|client| subscribe(client, "$share/crew/jobs/+"));
    for number in 0..100_u32 {
        let payload = number.to_string();
        assert_eq!(
            publisher.publish("jobs/x", payload.as_bytes(), &Options::default()),
            Ok(Success::Acknowledged)
        );
    }
    let mut shares = [0, 0];
    let mut came: Vec<u32> = Vec::new();
    while came.len() < 100 {
        assert!(members.iter().all(|member| member.ended().is_none()));
        for (member, share) in members.iter_mut().zip(&mut shares) {
            // Whoever has none just now lets the other go on.
            while let Ok(Some(message)) = member.next_timeout(Duration::from_millis(20)) {
                came.push(
                    std::str::from_utf8(message.payload())
                        .expect("digits")
                        .parse()
                        .expect("a number"),
                );
                *share += 1;
            }
        }
    }
    came.sort_unstable();
    assert_eq!(came, (0..100).collect::<Vec<u32>>());
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    // A queue that is not there is refused, in the broker's words.
    let nowhere = one.subscribe_timeout("$q/nowhere", SubscribeOptions::default(), PATIENCE);
    let Err(ClientError::Refused(why)) = nowhere.map(drop) else {
        panic!("there is no such queue")
    };
    assert!(why.to_string().to_lowercase().contains("nowhere"), "{why}");
}

fn sessions_keep_what_comes(url: &str) {
    let build = || {
        let builder = Client::builder()
            .broker(url)
            .expect(url)
            .client_id("pump-7")
            .session(Duration::from_secs(60));
        builder
            .connect_blocking()
            .expect("a client starts without a network")
    };
    let publisher = connect(url);
    let client = build();
    let mut heard = subscribe(&client, "kept/#");
    publisher
        .publish("kept/a", b"1", &Options::default())
        .expect("it goes");
    assert_eq!(take(&mut heard, 1), ["1"]);
    client.flush(PATIENCE).expect("it is settled");
    std::mem::forget(heard);
    client.close(PATIENCE).expect("nothing is outstanding");
    publisher
        .publish("kept/a", b"2", &Options::default())
        .expect("it goes");
    let client = build();
    let mut heard = subscribe(&client, "kept/#");
    let mut came = take(&mut heard, 1);
    if came == ["1"] {
        // It was closed before its settlement reached the broker.
        came = take(&mut heard, 1);
    }
    assert_eq!(came, ["2"]);
    heard.unsubscribe();
}

/// One of several messages goes where there is nothing: it fails, with the broker's words, and the others arrive.
fn what_is_forbidden_fails_alone(url: &str) {
    let (publisher, listener) = (connect(url), connect(url));
    let mut heard = subscribe(&listener, "fine/+");
    let topics = ["fine/1", "fine/2", "$x/nowhere/a", "fine/3", "fine/4"];
    let tickets: Vec<_> = topics
        .iter()
        .map(|topic| {
            publisher
                .give(topic.as_bytes(), "", topic, &Options::default())
                .expect("there is room")
        })
        .collect();
    let outcomes: Vec<Success> = tickets
        .into_iter()
        .map(|ticket| publisher.outcome(ticket, PATIENCE))
        .collect();
    let [yes, no] = [Success::Acknowledged, Success::Failed];
    assert_eq!(outcomes, [yes, yes, no, yes, yes]);
    let mut came = Vec::new();
    while !["fine/1", "fine/2", "fine/3", "fine/4"]
        .iter()
        .all(|topic| came.iter().any(|came| came == topic))
    {
        came.extend(take(&mut heard, 1));
    }
}
