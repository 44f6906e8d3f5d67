//! `thalweg req`: asks a question with a response topic and correlation data, and prints the answers (MQTT 5 §4.10).

use std::io::Write;
use std::time::{Instant, SystemTime};

use thalweg_mqtt::{ClientEvent, PublishOut, QoS, ReasonCode, SubscribeOptions};

use crate::cli::{Bytes, PropertyArgs, ReqArgs};
use crate::failure::Failure;
use crate::format::Arrival;
use crate::link::{Link, Reply, SessionWish, Step, Welcome, interrupted, nonce, reason_in_words, tell_interrupts};
use crate::publish::{message, not_sent};
use crate::quantity::spoken;
use crate::subscribe::{acknowledge, ask, judge};

/// Runs the command; answers go to `out`.
pub fn run(args: &ReqArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if !args.connect.mqtt_version.is_v5() {
        return Err(Failure::usage(format!("a request needs MQTT 5, and --v is {}", args.connect.mqtt_version))
            .mend("Leave --v out"));
    }
    let (mut link, welcome) = Link::open(&args.connect, SessionWish { clean_start: true, expiry_secs: 0 })?;
    tell_interrupts(&link)?;
    let properties = completed(&args.properties, &welcome);
    let question = Question { args, properties, answers: 0, is_asked: false };
    let result = question.run(&mut link, out);
    let goodbye = link.close();
    result.and(goodbye)
}

/// The properties of the question: where the answer goes, and what it will carry.
fn completed(properties: &PropertyArgs, welcome: &Welcome) -> PropertyArgs {
    let mut properties = properties.clone();
    // Response Information is what the broker lets us receive answers under (§3.1.2.11.7).
    let base = welcome.response_information.as_deref().filter(|base| !base.is_empty()).unwrap_or("responses");
    properties.response_topic.get_or_insert_with(|| {
        let name = welcome.client_id.replace(['/', '+', '#'], "-");
        format!("{}/{name}-{:08x}", base.trim_end_matches('/'), nonce() as u32)
    });
    properties.correlation.get_or_insert_with(|| Bytes(nonce().to_be_bytes().to_vec()));
    properties
}

struct Question<'a> {
    args: &'a ReqArgs,
    properties: PropertyArgs,
    answers: u64,
    is_asked: bool,
}

impl Question<'_> {
    fn run(mut self, link: &mut Link, out: &mut dyn Write) -> Result<(), Failure> {
        let deadline = Instant::now() + self.args.timeout;
        let response_topic = self.properties.response_topic.clone().unwrap_or_default();
        let filters = [response_topic];
        ask(link, &filters, SubscribeOptions { qos: self.args.qos, ..SubscribeOptions::default() })?;
        while self.answers < self.args.count {
            let step = link.step(Some(deadline), &mut |event, reply| match event {
                ClientEvent::SubAck(ack) => {
                    judge(&ack, &filters, self.args.qos)?;
                    self.put(reply)
                }
                ClientEvent::Publish(publish) => {
                    acknowledge(&publish, reply);
                    let ours = self.properties.correlation.as_ref().map(|bytes| bytes.0.as_slice());
                    if publish.properties.correlation_data() == ours && self.answers < self.args.count {
                        self.answers += 1;
                        self.args.format.write(&Arrival::new(&publish, SystemTime::now()), out)?;
                    }
                    Ok(())
                }
                ClientEvent::PubAck(ack) | ClientEvent::PubComp(ack) => self.outcome(ack.reason, &ack.properties),
                ClientEvent::PubRec(ack) => {
                    self.outcome(ack.reason, &ack.properties)?;
                    reply.machine.pubrel(ack.id, ReasonCode::Success, reply.out);
                    Ok(())
                }
                ClientEvent::PubRel(release) => {
                    reply.machine.pubcomp(release.id, ReasonCode::Success, reply.out);
                    Ok(())
                }
                _ => Ok(()),
            })?;
            out.flush()?;
            match step {
                Step::Interrupted => return Err(interrupted()),
                Step::TimedOut => {
                    let (answers, count, timeout) = (self.answers, self.args.count, spoken(self.args.timeout));
                    return Err(Failure::new(format!("{answers} of {count} answers came within {timeout}"))
                        .mend(format!("Whoever listens to `{}` must publish to the response topic", self.args.topic)));
                }
                Step::Moved | Step::Lines(_) | Step::LinesEnded(_) => {}
            }
        }
        Ok(())
    }

    /// Asks, once the way back is open.
    fn put(&mut self, reply: &mut Reply<'_>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_asked, true) {
            return Ok(());
        }
        let id = match self.args.qos {
            QoS::AtMostOnce => 0,
            _ => reply.machine.next_id().ok_or_else(|| Failure::new("no packet identifier is free"))?,
        };
        let payload = self.args.message.as_bytes();
        let message = message(&self.args.topic, payload, self.args.qos, false, &self.properties);
        reply.machine.publish(&PublishOut { id, ..message }, reply.out).map_err(not_sent)
    }

    fn outcome(&self, reason: ReasonCode, properties: &thalweg_mqtt::Properties<'_>) -> Result<(), Failure> {
        match reason {
            ReasonCode::NoMatchingSubscribers => Err(Failure::new(format!("nobody listens to `{}`", self.args.topic))),
            reason if reason.is_error() => {
                let words = reason_in_words(reason, properties);
                Err(Failure::new(format!("the broker did not take the question: {words}")))
            }
            _ => Ok(()),
        }
    }
}
