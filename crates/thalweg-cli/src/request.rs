//! `thalweg req`: asks a question with a reply address and correlation data, and prints the answers.

use std::io::Write;
use std::time::{Instant, SystemTime};

use thalweg_client::transport::Refusal;
use thalweg_client::{ClientError, Message, Options, SubscribeOptions};
use thalweg_mqtt::Version;

use crate::brokers::{
    Brokers, GLANCE, SessionWish, end_when_interrupted, interrupts, nonce, reliability,
};
use crate::cli::ReqArgs;
use crate::failure::Failure;
use crate::format::Arrival;
use crate::publish::options;
use crate::quantity::spoken;

/// Runs the command; answers go to `out`.
pub fn run(args: &ReqArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if args.connect.mqtt_version != Version::V5 {
        return Err(Failure::usage(format!(
            "a request needs MQTT 5, and --v is {}",
            args.connect.mqtt_version
        ))
        .mend("Leave --v out"));
    }
    let wish = SessionWish {
        clean_start: true,
        ..SessionWish::default()
    };
    let brokers = Brokers::open(&args.connect, args.topic.broker.as_ref(), wish)?;
    end_when_interrupted(interrupts()?);
    let question = Question {
        args,
        brokers,
        options: Options {
            reliability: reliability(args.qos),
            ..options(&args.properties)
        },
    };
    let result = question.run(out);
    let goodbye = question.brokers.close();
    result.and(goodbye)
}

struct Question<'a> {
    args: &'a ReqArgs,
    brokers: Brokers,
    options: Options,
}

impl Question<'_> {
    fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        // One answer, on the way back that the protocol has for it; who wants more, or another way, listens by himself.
        match self.args.count == 1
            && self.options.reply_to.is_none()
            && self.options.correlation.is_none()
        {
            true => self.ask(out),
            false => self.ask_and_listen(out),
        }
    }

    fn ask(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let ReqArgs {
            topic,
            message,
            timeout,
            ..
        } = self.args;
        match self
            .brokers
            .client
            .request(&topic.topic, message.as_bytes(), &self.options, *timeout)
        {
            Ok(answer) => self.print(&answer, out),
            Err(ClientError::TimedOut) => Err(self.time_is_over(0)),
            Err(ClientError::Refused(Refusal::Denied(words)))
                if words.contains("nobody listens") =>
            {
                Err(Failure::new(format!("nobody listens to `{}`", topic.topic)))
            }
            Err(ClientError::Refused(refusal)) => Err(Failure::new(format!(
                "the broker did not take the question: {refusal}"
            ))),
            Err(error) => Err(Failure::new(error.to_string())),
        }
    }

    fn ask_and_listen(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let ReqArgs {
            topic,
            message,
            timeout,
            count,
            ..
        } = self.args;
        let deadline = Instant::now() + *timeout;
        let mut options = self.options.clone();
        let back = options
            .reply_to
            .get_or_insert_with(|| format!("responses/thalweg-{:08x}", nonce() as u32))
            .clone();
        let ours = options
            .correlation
            .get_or_insert_with(|| nonce().to_be_bytes().to_vec())
            .clone();
        let failed =
            |error: ClientError| Failure::new(format!("the way back cannot be opened: {error}"));
        let client = &self.brokers.client;
        let wish = SubscribeOptions {
            reliability: options.reliability,
            last_values: false,
            ..SubscribeOptions::default()
        };
        let mut answers = client
            .subscribe_timeout(&back, wish, *timeout)
            .map_err(failed)?;
        let asked = client
            .publish_message(message.as_bytes(), "", &topic.topic, &options)
            .map_err(|error| Failure::new(format!("the question cannot be sent: {error}")))?;
        let mut came = 0;
        while came < *count {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.time_is_over(came));
            }
            match answers.next_timeout(left.min(GLANCE)) {
                Ok(Some(answer)) if answer.correlation() == Some(ours.as_slice()) => {
                    came += 1;
                    self.print(&answer, out)?;
                }
                Ok(Some(_)) => {}
                Ok(None) => return Err(Failure::new("the way back was closed by the broker")),
                Err(_) => self.check_question(asked)?,
            }
        }
        Ok(())
    }

    /// A question that was refused has no answer.
    fn check_question(&self, asked: thalweg_client::Ticket) -> Result<(), Failure> {
        if self.brokers.client.is_publish_success(asked) != thalweg_client::Success::Failed {
            return Ok(());
        }
        let status = self.brokers.status()?;
        let words = status
            .failures
            .first()
            .map_or("it did not say why", |failure| failure.why.as_str());
        Err(Failure::new(format!(
            "the broker did not take the question: {words}"
        )))
    }

    fn print(&self, answer: &Message, out: &mut dyn Write) -> Result<(), Failure> {
        self.args
            .format
            .write(&Arrival::of(answer, SystemTime::now()), out)?;
        out.flush()?;
        Ok(())
    }

    fn time_is_over(&self, answers: u64) -> Failure {
        let (count, timeout) = (self.args.count, spoken(self.args.timeout));
        let topic = &self.args.topic.topic;
        Failure::new(format!(
            "{answers} of {count} answers came within {timeout}"
        ))
        .mend(format!(
            "Whoever listens to `{topic}` must publish to the response topic"
        ))
    }
}
