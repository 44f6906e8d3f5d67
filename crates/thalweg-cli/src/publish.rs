//! `thalweg pub`: publishes messages and waits until the broker has taken responsibility for them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_client::{ClientError, Options, PeerSettings, Retain, Success, Ticket};
use thalweg_mqtt::Version;

use crate::brokers::{Brokers, GLANCE, SessionWish, end_when_interrupted, interrupts, reliability};
use crate::cli::{PropertyArgs, PubArgs};
use crate::failure::Failure;
use crate::format::from_hex;

/// Runs the command; `input` is standard input.
pub fn run(args: &PubArgs, input: impl Read + Send + 'static) -> Result<(), Failure> {
    check_properties(&args.properties, args.connect.mqtt_version)?;
    // A file that cannot be read is found out before anybody is connected to.
    let payload = match payload(args)? {
        Some(payload) => Some(decoded(payload, args.hex)?),
        None if args.stdin => Some(decoded(all_of(input)?, args.hex)?),
        None => {
            return publish(
                args,
                Source::Lines(Box::new(BufReader::with_capacity(BATCH_BYTES, input))),
            );
        }
    };
    publish(
        args,
        Source::Repeat {
            payload: payload.unwrap_or_default(),
            left: args.count,
        },
    )
}

fn publish(args: &PubArgs, source: Source) -> Result<(), Failure> {
    let wish = SessionWish {
        clean_start: true,
        ..SessionWish::default()
    };
    let peer = args.peer_bind.as_ref().map(|bind| PeerSettings {
        bind: bind.clone(),
        peers: Vec::new(),
    });
    let brokers = Brokers::begin(&args.connect, args.topic.broker.as_ref(), wish, peer)?;
    brokers.wait_until_up()?;
    brokers.wait_for_subscriber()?;
    end_when_interrupted(interrupts()?);
    let options = Options {
        reliability: reliability(args.qos),
        retain: if args.retain { Retain::Set } else { Retain::No },
        ..options(&args.properties)
    };
    let mut publisher = Publisher {
        args,
        options,
        brokers,
        sent: 0,
        awaited: VecDeque::new(),
        waits_since: Instant::now(),
        refused: 0,
        unknown: 0,
        begun: Instant::now(),
    };
    let result = publisher.run(source);
    // What was sent before a failure of our own still counts.
    let goodbye = publisher.brokers.close();
    result.and(goodbye)
}

/// Properties need MQTT 5, if it is MQTT.
pub fn check_properties(properties: &PropertyArgs, version: Version) -> Result<(), Failure> {
    let named = [
        ("--user-property", !properties.user_properties.is_empty()),
        ("--content-type", properties.content_type.is_some()),
        ("--response-topic", properties.response_topic.is_some()),
        ("--correlation", properties.correlation.is_some()),
        ("--expiry", properties.expiry_secs.is_some()),
        ("--text", properties.text),
    ];
    match named.iter().find(|(_, given)| *given && !version.is_v5()) {
        Some((flag, _)) => Err(Failure::usage(format!(
            "{flag} needs MQTT 5, and --v is {version}"
        ))
        .mend("Leave --v out")),
        None => Ok(()),
    }
}

/// What the flags say of a message.
pub fn options(properties: &PropertyArgs) -> Options {
    Options {
        lifespan: properties
            .expiry_secs
            .map(|seconds| Duration::from_secs(u64::from(seconds))),
        content_type: properties.content_type.clone(),
        is_text: properties.text,
        properties: properties.user_properties.clone(),
        reply_to: properties.response_topic.clone(),
        correlation: properties.correlation.as_ref().map(|bytes| bytes.0.clone()),
        ..Options::default()
    }
}

/// Where payloads come from.
enum Source {
    /// The same one, so many times more.
    Repeat { payload: Vec<u8>, left: u64 },
    /// Lines of standard input. What a slow broker does not take stays in the pipe.
    Lines(Box<dyn BufRead>),
}

impl Source {
    fn next(&mut self, is_hex: bool) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        match self {
            Source::Repeat { left: 0, .. } => Ok(None),
            Source::Repeat { payload, left } => {
                *left -= 1;
                Ok(Some(Cow::Borrowed(payload)))
            }
            Source::Lines(input) => {
                let mut line = Vec::new();
                match input.read_until(b'\n', &mut line) {
                    Ok(0) => Ok(None),
                    Ok(_) => {
                        if line.pop_if(|last| *last == b'\n').is_some() {
                            line.pop_if(|last| *last == b'\r');
                        }
                        decoded(line, is_hex).map(|payload| Some(Cow::Owned(payload)))
                    }
                    Err(error) => Err(Failure::new(format!(
                        "standard input cannot be read: {error}"
                    ))),
                }
            }
        }
    }
}

struct Publisher<'a> {
    args: &'a PubArgs,
    options: Options,
    brokers: Brokers,
    sent: u64,
    /// Sent, and without an outcome as far as we know.
    awaited: VecDeque<Ticket>,
    /// When the oldest of these became the oldest.
    waits_since: Instant,
    refused: u64,
    unknown: u64,
    begun: Instant,
}

impl Publisher<'_> {
    fn run(&mut self, mut source: Source) -> Result<(), Failure> {
        while let Some(payload) = source.next(self.args.hex)? {
            self.wait_for_the_rate()?;
            self.send(&payload)?;
            self.look(false)?;
        }
        while !self.awaited.is_empty() {
            self.look(true)?;
        }
        self.judge()
    }

    /// Gives one message to the client, as soon as that has room.
    fn send(&mut self, payload: &[u8]) -> Result<(), Failure> {
        loop {
            match self.brokers.client.publish_message(
                payload,
                "",
                &self.args.topic.topic,
                &self.options,
            ) {
                Ok(ticket) => {
                    self.sent += 1;
                    if self.awaited.is_empty() {
                        self.waits_since = Instant::now();
                    }
                    self.awaited.push_back(ticket);
                    return Ok(());
                }
                Err(ClientError::Full) if !self.awaited.is_empty() => self.look(true)?,
                Err(error) => {
                    return Err(
                        Failure::new(format!("the message cannot be sent: {error}")).mend(
                            "limits.packet_bytes_max of the broker says how large a packet may be",
                        ),
                    );
                }
            }
        }
    }

    /// Takes note of outcomes; waits for that of the oldest if it is asked to.
    fn look(&mut self, waits: bool) -> Result<(), Failure> {
        while let Some(&oldest) = self.awaited.front() {
            let patience = if waits { GLANCE } else { Duration::ZERO };
            let outcome = match waits {
                true => self.brokers.client.outcome(oldest, patience),
                false => self.brokers.client.is_publish_success(oldest),
            };
            match outcome {
                Success::Pending if waits => {
                    let open = self.awaited.len();
                    let topic = &self.args.topic.topic;
                    let checked = self.brokers.check();
                    let checked =
                        checked.and_then(|()| self.brokers.check_reader(topic, self.waits_since));
                    return checked.map_err(|failure| {
                        failure.also(format!(
                            "{open} of {} messages had not been acknowledged",
                            self.sent
                        ))
                    });
                }
                Success::Pending => return Ok(()),
                Success::Failed => self.refused += 1,
                Success::Unknown => self.unknown += 1,
                Success::Acknowledged => {}
            }
            self.awaited.pop_front();
            self.waits_since = Instant::now();
            if waits {
                return Ok(());
            }
        }
        Ok(())
    }

    /// When the next message may go.
    fn wait_for_the_rate(&self) -> Result<(), Failure> {
        if let Some(rate) = self.args.rate {
            let due = self.begun + Duration::from_secs_f64(self.sent as f64 / rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    fn judge(&self) -> Result<(), Failure> {
        let sent = self.sent;
        // At most once has no acknowledgement, so nothing is missing.
        if self.unknown > 0 && self.args.qos > thalweg_mqtt::QoS::AtMostOnce {
            let unknown = self.unknown;
            return Err(Failure::new(format!(
                "{unknown} of {sent} messages were not acknowledged: they may have arrived or not"
            )));
        }
        if self.refused == 0 {
            return Ok(());
        }
        let status = self.brokers.status()?;
        let words = status
            .failures
            .first()
            .map_or("it did not say why", |failure| failure.why.as_str());
        match self.refused {
            1 => Err(Failure::new(format!(
                "the broker did not take the message: {words}"
            ))),
            count => Err(Failure::new(format!(
                "the broker did not take {count} of {sent} messages; the first: {words}"
            ))),
        }
    }
}

/// The payload that the flags name, if it is one and not standard input.
fn payload(args: &PubArgs) -> Result<Option<Vec<u8>>, Failure> {
    match (&args.message, &args.file) {
        (Some(text), _) => Ok(Some(text.clone().into_bytes())),
        (None, Some(file)) => std::fs::read(file).map(Some).map_err(|error| {
            Failure::new(format!("{} cannot be read: {error}", file.display()))
                .mend("Check the path given to --file")
        }),
        (None, None) => Ok(None),
    }
}

/// The payload itself, if it is written in hex. Space around it does not count.
fn decoded(payload: Vec<u8>, is_hex: bool) -> Result<Vec<u8>, Failure> {
    if !is_hex {
        return Ok(payload);
    }
    from_hex(payload.trim_ascii()).ok_or_else(|| {
        Failure::usage("a payload is not hex")
            .mend("With --hex, write two hex digits for each byte")
    })
}

fn all_of(mut input: impl Read) -> Result<Vec<u8>, Failure> {
    let mut payload = Vec::new();
    input
        .read_to_end(&mut payload)
        .map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
    Ok(payload)
}

/// So much of standard input is read at once.
const BATCH_BYTES: usize = 64 * 1024;
