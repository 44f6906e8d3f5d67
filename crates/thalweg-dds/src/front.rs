//! The bridge's session in the broker: a front of another crate, at the broker's end of their stream. It does not know
//! DDS topics or types.

use crate::counts::Counts;
use crate::frame::{self, Decoded, FromBroker, Retain, Sample, ToBroker};
use crate::remarks::Topic;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thalweg_fronts::calls::take_answers;
use thalweg_fronts::{
    AnyFront, Cx, DeferredFront, Delivered, Effect, Fate, LoginAnswer, LoginAsk, ShowCount, Step,
    native,
};
use thalweg_kernel::{
    CloseReason, Closing, Cut, Draft, Grants, KnownAs, LastValueWish, OpenSession, Outcome,
    Refusal, Run, SessionId, Subscribed, Tag, Verdict, Wish,
};
use thalweg_model::{Address, Details, Properties, Reliability, RetainOp, Span};

/// The consumer of answers, and the line that it is the only one of.
const ANSWERS: u32 = 1;
const ANSWERS_LINE: u16 = 1;

/// What the publisher begins with that last values of lasting writers name ([`Details::app_id`]): by it they are found after a restart.
/// Then comes the bridge that has read them.
pub(crate) const LASTING: &str = "dds-lasting-writer";

/// The broker's end of a stream.
pub struct DdsFront {
    /// User with whose rights the bridge acts; empty for anonymous.
    user: Box<str>,
    /// Which bridge it is of, among those of one process.
    speaker: Box<str>,
    /// The publisher that last values of lasting writers name.
    lasting: Box<str>,
    /// Makes the session's name.
    nonce: u64,
    /// Bytes of the longest payload.
    payload_max: usize,
    counts: Arc<Counts>,
    state: State,
    ticket_last: u16,
    /// Filters of subscriptions that the broker has not answered yet, by ticket.
    asked: BTreeMap<u16, Box<str>>,
    /// The queue that answers come to, made with the first request.
    answers: Option<Box<str>>,
    fault: Option<String>,
    /// The remarks that operators and presence have.
    shown: Vec<(Box<str>, Box<str>)>,
    topics: BTreeMap<u32, Topic>,
    /// Where the last sample that might begin a run was published: the broker knows the way for one at the same address.
    run_address: String,
    /// Of the last run.
    cuts: Vec<Cut>,
}

/// ```text
/// Start --first step--> ExpectVerdict --allowed--> Open --> Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    ExpectVerdict,
    Open,
    Closed,
}

impl DdsFront {
    /// A front for an end of a stream; `speaker` is the bridge's name in its process, `nonce` is hard to guess.
    pub fn at_stream(
        user: &str,
        speaker: &str,
        payload_max: usize,
        nonce: u64,
        counts: Arc<Counts>,
    ) -> AnyFront {
        AnyFront::extension(DdsFront {
            user: user.into(),
            speaker: speaker.into(),
            lasting: format!("{LASTING} {speaker}").into(),
            nonce,
            payload_max,
            counts,
            state: State::Start,
            ticket_last: 0,
            asked: BTreeMap::new(),
            answers: None,
            fault: None,
            shown: Vec::new(),
            topics: BTreeMap::new(),
            run_address: String::new(),
            cuts: Vec::new(),
        })
    }

    fn fail(&mut self, what: String, cx: &mut Cx<'_>) {
        tracing::warn!("the DDS bridge is cut off from the broker: {what}");
        self.fault = Some(what);
        self.state = State::Closed;
        cx.end(Closing::Cut, None);
    }

    fn on_frame(&mut self, frame: &ToBroker<'_>, session: SessionId, cx: &mut Cx<'_>) {
        match *frame {
            ToBroker::Publish(sample) => self.publish(&sample, None, session, cx),
            ToBroker::Ask(sample) => match self.take_answers(session, cx) {
                Ok(queue) => self.publish(&sample, Some(queue), session, cx),
                Err(refusal) => {
                    tracing::warn!("answers for DDS cannot be taken: {refusal}");
                    Counts::add(&self.counts.refused);
                }
            },
            ToBroker::Subscribe { address, is_late } => {
                let wish = Wish {
                    filter: address,
                    group: None,
                    reliability: Reliability::AtLeastOnce,
                    no_local: true,
                    retain_as_published: true,
                    last_values: match is_late {
                        true => LastValueWish::AllKept,
                        false => LastValueWish::Never,
                    },
                    id: 0,
                };
                self.ticket_last = self.ticket_last.wrapping_add(1);
                let (ticket, now) = (self.ticket_last, cx.now);
                self.asked.insert(ticket, address.into());
                cx.kernel.subscribe(session, ticket, &[wish], now, cx.links);
            }
            ToBroker::Unsubscribe { address } => {
                self.ticket_last = self.ticket_last.wrapping_add(1);
                let (ticket, now) = (self.ticket_last, cx.now);
                let filters = [(address, None)];
                self.asked.retain(|_, asked| **asked != *address);
                self.counts.remarks.set_lowered(address, false);
                cx.kernel
                    .unsubscribe(session, ticket, &filters, now, cx.links);
            }
            ToBroker::Withdraw { address, source } => {
                if !(cx.kernel).withdraw(session, address, source, cx.now, cx.links) {
                    Counts::add(&self.counts.denied);
                }
            }
            ToBroker::Settled(0) => self.look(session, cx),
            ToBroker::Settled(tag) => DdsFront::settle(tag, session, cx),
        }
    }

    /// Takes over what the bridge remarks. A topic whose writers make promises has a presence, by the name of its address.
    fn look(&mut self, session: SessionId, cx: &mut Cx<'_>) {
        self.shown = self.counts.remarks.unmatched();
        self.shown.extend(self.counts.remarks.lowered());
        self.shown.extend(self.counts.remarks.nodes());
        let topics = self.counts.remarks.topics();
        let before = std::mem::replace(&mut self.topics, topics);
        let gone = before
            .iter()
            .filter(|(reader, _)| !self.topics.contains_key(reader));
        let gone = gone.map(|(reader, topic)| (reader, topic, Some(Closing::Clean)));
        let changed = self
            .topics
            .iter()
            .filter(|(reader, it)| before.get(reader) != Some(*it));
        let changed = changed
            .map(|(reader, topic)| (reader, topic, topic.is_silent.then_some(Closing::Silent)));
        for (reader, topic, left) in gone.chain(changed) {
            let known = KnownAs {
                tenant: "",
                name: &topic.address,
                claimed_in: Some("dds"),
            };
            // The same with the next connection, and another in another domain.
            let speaker = format!("{} {reader}", self.speaker);
            let now = cx.now;
            cx.kernel
                .tell_for(session, known, &speaker, left, now, cx.links);
        }
    }

    /// The queue for answers; makes it, and takes from it, unless that is done. It ends with the session.
    fn take_answers(&mut self, session: SessionId, cx: &mut Cx<'_>) -> Result<Box<str>, Refusal> {
        if let Some(queue) = &self.answers {
            return Ok(queue.clone());
        }
        let key = cx.kernel.name_key(self.nonce);
        let name = key.name("dds answers", 0);
        let queue = take_answers(cx, session, name, (ANSWERS_LINE, ANSWERS))?;
        self.answers = Some(queue.clone());
        Ok(queue)
    }

    fn publish(
        &mut self,
        sample: &Sample<'_>,
        reply_to: Option<Box<str>>,
        session: SessionId,
        cx: &mut Cx<'_>,
    ) {
        if Address::check(sample.address).is_err() {
            return Counts::add(&self.counts.refused);
        }
        let is_lasting = sample.retain == Retain::Lasting || !sample.source.is_empty();
        let has_properties =
            is_lasting || !sample.content_type.is_empty() || !sample.correlation.is_empty();
        let properties = has_properties.then(|| Properties {
            content_type: (!sample.content_type.is_empty()).then(|| sample.content_type.into()),
            reply_to,
            correlation: (!sample.correlation.is_empty()).then(|| sample.correlation.into()),
            details: is_lasting.then(|| {
                Box::new(Details {
                    app_id: Some(self.lasting.clone()),
                    keeps: sample.keeps,
                    source: (!sample.source.is_empty()).then(|| sample.source.into()),
                    ..Details::default()
                })
            }),
            ..Properties::default()
        });
        let draft = Draft {
            retain: match sample.retain {
                Retain::No | Retain::Ends => RetainOp::None,
                Retain::Set | Retain::Lasting => RetainOp::Set,
                Retain::Clear => RetainOp::Clear,
            },
            expires_in: (sample.expires_in > 0).then(|| Span::from_nanos(sample.expires_in)),
            properties: properties.as_ref(),
            ..Draft::new(sample.address, sample.payload, reliability(sample))
        };
        let outcome = cx.publish(session, draft);
        self.count(outcome);
    }

    fn count(&self, outcome: Outcome) {
        Counts::add(match outcome {
            Outcome::Accepted | Outcome::NoMatch => &self.counts.published,
            // Counted when it is answered.
            Outcome::Asked => return,
            Outcome::Denied => &self.counts.denied,
            Outcome::BadAddress | Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => {
                &self.counts.refused
            }
        });
    }

    /// Publishes a sample of so many bytes at the beginning of `input` together with those behind it that differ from it in their payloads
    /// alone; how many bytes those are, unless it is alone or has to be looked at by itself.
    fn publish_run(
        &mut self,
        (sample, length): (&Sample<'_>, usize),
        input: &[u8],
        session: SessionId,
        cx: &mut Cx<'_>,
    ) -> Option<usize> {
        let is_plain = !sample.is_reliable
            && sample.retain == Retain::No
            && sample.expires_in == 0
            && sample.source.is_empty()
            && sample.correlation.is_empty();
        if !is_plain || cx.links.is_probing() {
            return None;
        }
        if self.run_address != sample.address {
            self.run_address = sample.address.to_owned();
            return None;
        }
        if Address::check(sample.address).is_err() {
            return None;
        }
        frame::note_alike(input, length - sample.payload.len(), &mut self.cuts);
        let last = self.cuts.last().filter(|_| self.cuts.len() > 1)?;
        let properties = Properties {
            content_type: Some(sample.content_type.into())
                .filter(|_| !sample.content_type.is_empty()),
            ..Properties::default()
        };
        let like = Draft {
            properties: Some(&properties).filter(|_| !sample.content_type.is_empty()),
            ..Draft::new(sample.address, &[], Reliability::AtMostOnce)
        };
        let run = Run {
            like: &like,
            dialect: native::DDS,
            frames: input.get(..last.end as usize)?,
            cuts: &self.cuts,
        };
        let mut alone = 0;
        let done = cx.publish_run(session, &run, |_, outcome, _, _| {
            self.count(outcome);
            alone += 1;
        });
        Counts::add_many(&self.counts.published, done - alone);
        let last = self.cuts.get(done.checked_sub(1)?)?;
        Some(last.end as usize)
    }

    fn on_delivered(&mut self, delivered: &Delivered, session: SessionId, cx: &mut Cx<'_>) {
        let message = &delivered.message;
        let details = message.properties().and_then(|it| it.details.as_deref());
        let source = details.and_then(|it| it.source.as_deref());
        // Readers have heard it; it is told again to those who read one value.
        let is_told_again = source.is_some() && message.retain() == RetainOp::None;
        // Late readers of its domain have it from its writer.
        let is_own = details.and_then(|it| it.app_id.as_ref()) == Some(&self.lasting);
        if is_told_again || is_own {
            if delivered.settles {
                DdsFront::settle(delivered.tag, session, cx);
            }
            return;
        }
        let is_clear = delivered.retain && message.payload().is_empty();
        let said = message.properties().map(native::neutral);
        let reply_to = said.as_ref().and_then(|said| said.reply_to.as_deref());
        let correlation = said.as_ref().and_then(|said| said.correlation.as_deref());
        let sent = FromBroker {
            tag: if delivered.settles { delivered.tag } else { 0 },
            sample: Sample {
                is_reliable: delivered.reliability != Reliability::AtMostOnce,
                retain: match (is_clear, delivered.retain) {
                    (true, _) if source.is_some() => Retain::Ends,
                    (true, _) => Retain::Clear,
                    (_, true) => Retain::Set,
                    _ => Retain::No,
                },
                expires_in: delivered.expires_in.map_or(0, Span::nanos),
                keeps: 0,
                address: message.address(),
                source: source.unwrap_or_default(),
                content_type: "",
                reply_to: reply_to.unwrap_or_default(),
                correlation: correlation.unwrap_or_default(),
                payload: message.payload(),
            },
        };
        let fits = message.payload().len() <= self.payload_max;
        if fits && cx.send_by(|out| frame::encode_message(&sent, out)) {
            return;
        }
        Counts::add(&self.counts.too_long);
        if delivered.settles {
            DdsFront::settle(delivered.tag, session, cx);
        }
    }

    /// One that is not known was settled before.
    fn settle(tag: u64, session: SessionId, cx: &mut Cx<'_>) {
        if let Ok(tag @ 1..) = Tag::try_from(tag) {
            cx.kernel
                .settle(session, tag, Verdict::Accept, cx.now, cx.links);
        }
    }
}

fn reliability(sample: &Sample<'_>) -> Reliability {
    match sample.is_reliable {
        true => Reliability::AtLeastOnce,
        false => Reliability::AtMostOnce,
    }
}

impl DeferredFront for DdsFront {
    type Note = Effect;

    fn name(&self) -> &'static str {
        "dds"
    }

    fn step(&mut self, input: &[u8], cx: &mut Cx<'_>) -> Step {
        match self.state {
            State::Start => {
                self.state = State::ExpectVerdict;
                let identity = self.user.clone();
                cx.ask_login(LoginAsk::Proven { identity });
                return Step::Hold;
            }
            State::ExpectVerdict | State::Closed => return Step::Hold,
            State::Open => {}
        }
        let Some(session) = cx.session() else {
            return Step::Hold;
        };
        match frame::decode(input, self.payload_max) {
            Decoded::Frame(frame, length) => {
                if let ToBroker::Publish(sample) = &frame
                    && let Some(length) = self.publish_run((sample, length), input, session, cx)
                {
                    return Step::Consumed(length);
                }
                self.on_frame(&frame, session, cx);
                Step::Consumed(length)
            }
            Decoded::Incomplete => Step::NeedMore,
            Decoded::Wrong => {
                self.fail("it sent what is no frame, or too long a payload".into(), cx);
                Step::Hold
            }
        }
    }

    /// What another bridge has published, as it came from there.
    fn deliver_run(&mut self, run: &Run<'_>, out: &mut Vec<u8>) -> bool {
        let is_as_it_came = run.dialect == native::DDS;
        if is_as_it_came {
            out.extend_from_slice(run.frames);
        }
        is_as_it_came
    }

    fn on_login(&mut self, _: &str, answer: LoginAnswer, cx: &mut Cx<'_>) {
        if self.state != State::ExpectVerdict {
            return;
        }
        let LoginAnswer::Allowed { user, access, .. } = answer else {
            let what = format!("the user '{}' of dds.user is refused", self.user);
            return self.fail(what, cx);
        };
        let client = cx.kernel.unused_client_id(self.nonce);
        let open = OpenSession {
            user: user.map(Into::into),
            grants: Grants {
                hears_refusals: false,
                ..Grants::default()
            },
            ..OpenSession::of_link(&client, cx.id, access, "DDS")
        };
        match cx.open_session(open) {
            Ok(opened) => {
                self.state = State::Open;
                cx.start(opened.session);
            }
            Err(_) => self.fail("there is no room for another session".into(), cx),
        }
    }

    fn on_notes(&mut self, notes: &mut VecDeque<Effect>, _: &mut Vec<u64>, cx: &mut Cx<'_>) {
        for note in notes.drain(..) {
            match (note, cx.session()) {
                (Effect::Delivered(delivered), Some(session)) => {
                    self.on_delivered(&delivered, session, cx);
                }
                (Effect::Subscribed(ticket, outcomes), _) => {
                    let filter = self.asked.remove(&ticket);
                    match (filter, outcomes.first()) {
                        (filter, Some(Subscribed::Granted(offered))) => {
                            let is_lowered = *offered < Reliability::AtLeastOnce;
                            let remarks = &self.counts.remarks;
                            filter.inspect(|it| remarks.set_lowered(it, is_lowered));
                        }
                        _ => Counts::add(&self.counts.denied),
                    }
                }
                (Effect::Published { is_refused, .. }, _) => Counts::add(match is_refused {
                    true => &self.counts.refused,
                    false => &self.counts.published,
                }),
                (Effect::Disconnected(_), _) => self.state = State::Closed,
                // It asks for nothing else.
                _ => {}
            }
        }
    }

    fn disconnect(&mut self, _: CloseReason, _: &mut Vec<u8>) -> Fate {
        self.state = State::Closed;
        Fate::LinkEnds
    }

    fn takes_deliveries(&self) -> bool {
        true
    }

    fn is_connected(&self) -> bool {
        self.state == State::Open
    }

    fn holds_input(&self) -> bool {
        self.state == State::ExpectVerdict
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    fn client_properties(&self) -> &[(Box<str>, Box<str>)] {
        &self.shown
    }

    fn counts(&self, show: &mut ShowCount<'_>) {
        self.counts.show(show);
    }
}
