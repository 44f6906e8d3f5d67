//! `thalweg pub`: publishes messages and waits until the broker has taken responsibility for them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Read;
use std::time::{Duration, Instant};

use thalweg_mqtt::{ClientEvent, PublishError, PublishOut, QoS, Version};

use crate::cli::{PropertyArgs, PubArgs};
use crate::failure::Failure;
use crate::format::from_hex;
use crate::lines::{Appetite, read_lines};
use crate::link::{Link, Reply, SessionWish, Step, interrupted, reason_in_words, tell_interrupts};

/// Runs the command; `input` is standard input.
pub fn run(args: &PubArgs, input: impl Read + Send + 'static) -> Result<(), Failure> {
    check_properties(&args.properties, args.connect.mqtt_version)?;
    // A file that cannot be read is found out before anybody is connected to.
    let (payload, input) = match payload(args)? {
        Some(payload) => (Some(decoded(payload, args.hex)?), Some(input)),
        None if args.stdin => (Some(decoded(all_of(input)?, args.hex)?), None),
        None => (None, Some(input)),
    };
    let (mut link, _) = Link::open(&args.connect, SessionWish { clean_start: true, expiry_secs: 0 })?;
    tell_interrupts(&link)?;
    let source = match (payload, input) {
        (Some(payload), _) => Source::Repeat { payload, left: args.count },
        (None, Some(input)) => Source::Lines(Lines {
            appetite: read_lines(input, link.teller()),
            waiting: VecDeque::new(),
            is_asked: false,
            has_ended: false,
        }),
        (None, None) => unreachable!("standard input is used up only to make a payload"),
    };
    let result = Publisher { args, source, sent: 0, unsettled: 0, refused: None, begun: Instant::now() }.run(&mut link);
    // What was sent before a failure of our own still counts.
    let goodbye = link.close();
    result.and(goodbye)
}

/// Properties need MQTT 5.
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
        Some((flag, _)) => {
            Err(Failure::usage(format!("{flag} needs MQTT 5, and --v is {version}")).mend("Leave --v out"))
        }
        None => Ok(()),
    }
}

/// A message as the flags describe it.
pub fn message<'a>(
    topic: &'a str,
    payload: &'a [u8],
    qos: QoS,
    retain: bool,
    properties: &'a PropertyArgs,
) -> PublishOut<'a> {
    PublishOut {
        qos,
        retain,
        topic,
        payload,
        expiry_secs: properties.expiry_secs,
        payload_format: properties.text.then_some(1),
        content_type: properties.content_type.as_deref(),
        response_topic: properties.response_topic.as_deref(),
        correlation_data: properties.correlation.as_ref().map(|bytes| bytes.0.as_slice()),
        user: (!properties.user_properties.is_empty()).then_some(&properties.user_properties),
        allow_alias: true,
        ..PublishOut::default()
    }
}

/// What to say when a message cannot be sent.
pub fn not_sent(error: PublishError) -> Failure {
    let failure = Failure::new(format!("the message cannot be sent: {error}"));
    match error {
        PublishError::TooLarge(_) => {
            failure.mend("limits.packet_bytes_max of the broker says how large a packet may be")
        }
        PublishError::QosNotSupported => failure.mend("Lower -q"),
        PublishError::RetainNotSupported => failure.mend("Leave --retain out"),
        PublishError::ReceiveMaximum | PublishError::NotConnected => failure,
    }
}

/// Where payloads come from.
enum Source {
    /// The same one, so many times more.
    Repeat { payload: Vec<u8>, left: u64 },
    /// Lines of standard input.
    Lines(Lines),
}

struct Lines {
    appetite: Appetite,
    waiting: VecDeque<Vec<u8>>,
    is_asked: bool,
    has_ended: bool,
}

struct Publisher<'a> {
    args: &'a PubArgs,
    source: Source,
    sent: u64,
    /// Sent with QoS 1 or 2 and not answered for good.
    unsettled: u64,
    /// The first refusal, and how many there were.
    refused: Option<(String, u64)>,
    begun: Instant,
}

impl Publisher<'_> {
    fn run(mut self, link: &mut Link) -> Result<(), Failure> {
        loop {
            let until = match self.fill(link)? {
                Next::Never if self.unsettled == 0 => break,
                Next::Now => Some(Instant::now()),
                Next::At(time) => Some(time),
                Next::Never | Next::AfterHappening => None,
            };
            let step = link.step(until, &mut |event, reply| {
                match event {
                    ClientEvent::PubAck(ack) | ClientEvent::PubComp(ack) => {
                        self.unsettled = self.unsettled.saturating_sub(1);
                        if ack.reason.is_error() {
                            self.refusal(reason_in_words(ack.reason, &ack.properties));
                        }
                    }
                    ClientEvent::PubRec(ack) if ack.reason.is_error() => {
                        self.unsettled = self.unsettled.saturating_sub(1);
                        self.refusal(reason_in_words(ack.reason, &ack.properties));
                    }
                    ClientEvent::PubRec(ack) => reply.machine.pubrel(ack.id, Default::default(), reply.out),
                    _ => {}
                }
                Ok(())
            });
            match step.map_err(|failure| self.explain(failure))? {
                Step::Interrupted => return Err(interrupted()),
                Step::Lines(lines) => {
                    if let Source::Lines(source) = &mut self.source {
                        for line in lines {
                            source.waiting.push_back(decoded(line, self.args.hex)?);
                        }
                        source.is_asked = false;
                    }
                }
                Step::LinesEnded(words) => {
                    if let Source::Lines(source) = &mut self.source {
                        source.has_ended = true;
                    }
                    if let Some(words) = words {
                        return Err(Failure::new(words));
                    }
                }
                Step::Moved | Step::TimedOut => {}
            }
        }
        match self.refused {
            None => Ok(()),
            Some((words, 1)) => Err(Failure::new(format!("the broker did not take the message: {words}"))),
            Some((words, count)) => {
                let sent = self.sent;
                Err(Failure::new(format!("the broker did not take {count} of {sent} messages; the first: {words}")))
            }
        }
    }

    /// Appends as many messages as may go now.
    fn fill(&mut self, link: &mut Link) -> Result<Next, Failure> {
        loop {
            if link.unsent() >= BATCH_BYTES {
                // Answers are looked at between two batches.
                return Ok(Next::Now);
            }
            match self.source.look() {
                Look::Ended => return Ok(Next::Never),
                Look::Later => return Ok(Next::AfterHappening),
                Look::Ready => {}
            }
            let at = self.due();
            if at > Instant::now() {
                return Ok(Next::At(at));
            }
            let Reply { machine, out } = link.reply();
            let mut id = 0;
            if self.args.qos != QoS::AtMostOnce {
                match if machine.send_quota() > 0 { machine.next_id() } else { None } {
                    Some(free) => id = free,
                    None => return Ok(Next::AfterHappening),
                }
            }
            let PubArgs { topic, qos, retain, properties, .. } = self.args;
            let Some(payload) = self.source.take() else { return Ok(Next::AfterHappening) };
            let message = PublishOut { id, ..message(topic, &payload, *qos, *retain, properties) };
            machine.publish(&message, out).map_err(not_sent)?;
            self.sent += 1;
            self.unsettled += u64::from(*qos != QoS::AtMostOnce);
        }
    }

    fn refusal(&mut self, words: String) {
        match &mut self.refused {
            Some((_, count)) => *count += 1,
            None => self.refused = Some((words, 1)),
        }
    }

    /// When the next message may go.
    fn due(&self) -> Instant {
        match self.args.rate {
            Some(rate) => self.begun + Duration::from_secs_f64(self.sent as f64 / rate),
            None => self.begun,
        }
    }

    /// Adds what had been acknowledged when the connection broke.
    fn explain(&self, failure: Failure) -> Failure {
        match self.unsettled {
            0 => failure,
            open => failure.also(format!("{open} of {} messages had not been acknowledged", self.sent)),
        }
    }
}

/// When the next message can go.
enum Next {
    Now,
    At(Instant),
    /// An answer or a line has to come first.
    AfterHappening,
    Never,
}

/// Whether a source has something.
enum Look {
    Ready,
    Later,
    Ended,
}

impl Source {
    /// Whether there is a payload now; asks for more lines if there is none.
    fn look(&mut self) -> Look {
        match self {
            Source::Repeat { left: 0, .. } => Look::Ended,
            Source::Repeat { .. } => Look::Ready,
            Source::Lines(lines) if !lines.waiting.is_empty() => Look::Ready,
            Source::Lines(lines) if lines.has_ended => Look::Ended,
            Source::Lines(lines) => {
                if !std::mem::replace(&mut lines.is_asked, true) {
                    lines.appetite.more();
                }
                Look::Later
            }
        }
    }

    fn take(&mut self) -> Option<Cow<'_, [u8]>> {
        match self {
            Source::Repeat { payload, left } => {
                *left = left.checked_sub(1)?;
                Some(Cow::Borrowed(payload))
            }
            Source::Lines(lines) => lines.waiting.pop_front().map(Cow::Owned),
        }
    }
}

/// The payload that the flags name, if it is one and not standard input.
fn payload(args: &PubArgs) -> Result<Option<Vec<u8>>, Failure> {
    match (&args.message, &args.file) {
        (Some(text), _) => Ok(Some(text.clone().into_bytes())),
        (None, Some(file)) => std::fs::read(file).map(Some).map_err(|error| {
            Failure::new(format!("{} cannot be read: {error}", file.display())).mend("Check the path given to --file")
        }),
        (None, None) => Ok(None),
    }
}

/// The payload itself, if it is written in hex. Space around it does not count.
fn decoded(payload: Vec<u8>, is_hex: bool) -> Result<Vec<u8>, Failure> {
    if !is_hex {
        return Ok(payload);
    }
    from_hex(payload.trim_ascii())
        .ok_or_else(|| Failure::usage("a payload is not hex").mend("With --hex, write two hex digits for each byte"))
}

fn all_of(mut input: impl Read) -> Result<Vec<u8>, Failure> {
    let mut payload = Vec::new();
    input.read_to_end(&mut payload).map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
    Ok(payload)
}

/// So much is gathered before it is sent.
const BATCH_BYTES: usize = 64 * 1024;
