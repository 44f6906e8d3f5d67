//! `thalweg sub`: subscribes and prints what arrives.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use thalweg_client::blocking::Subscription;
use thalweg_client::{ClientError, Message, PeerSettings, SubscribeOptions};
use thalweg_mqtt::Version;

use crate::brokers::{Brokers, GLANCE, SessionWish, interrupted, interrupts, reliability};
use crate::cli::SubArgs;
use crate::failure::Failure;
use crate::format::Arrival;
use crate::quantity::spoken;
use crate::work;

/// Runs the command; messages go to `out`, remarks to standard error.
pub fn run(args: &SubArgs, out: &mut dyn Write) -> Result<(), Failure> {
    check(args)?;
    let filters = shared(args);
    if args.work.work {
        return work::run(args, &filters, out);
    }
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let place = args
        .filters
        .iter()
        .find_map(|filter| filter.broker.as_ref());
    let peer = (!args.peer.is_empty()).then(|| PeerSettings {
        bind: String::new(),
        peers: args.peer.clone(),
    });
    let brokers = Brokers::begin(&args.connect, place, session_wish(args), peer)?;
    let asked = interrupts()?;
    let out = BufWriter::with_capacity(OUTPUT_BYTES, out);
    let mut printer = Printer {
        args,
        brokers,
        asked,
        out,
        printed: 0,
    };
    let subscribed = begin(args, &printer.brokers, &filters, deadline);
    let result =
        subscribed.and_then(|mut messages| printer.run(&mut messages, deadline).map(|()| messages));
    printer.out.flush()?;
    printer.tell_what_was_missed();
    let goodbye = printer.brokers.close();
    // Only now: a subscription that ends before its client does would end in a session that is kept, too.
    result.map(drop).and(goodbye)
}

struct Printer<'a, 'o> {
    args: &'a SubArgs,
    brokers: Brokers,
    asked: Arc<AtomicBool>,
    out: BufWriter<&'o mut dyn Write>,
    printed: u64,
}

impl Printer<'_, '_> {
    fn run(
        &mut self,
        messages: &mut Subscription,
        deadline: Option<Instant>,
    ) -> Result<(), Failure> {
        while !self.is_done() {
            if self.asked.load(Ordering::Relaxed) {
                return if self.args.count.is_some() {
                    Err(interrupted())
                } else {
                    Ok(())
                };
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return self.time_is_over();
            }
            match messages.next_timeout(left.unwrap_or(GLANCE).min(GLANCE)) {
                Ok(Some(message)) => self.take(message, messages)?,
                Ok(None) => {
                    let why = messages
                        .ended()
                        .unwrap_or_else(|| "it did not say why".to_owned());
                    return Err(Failure::new(format!(
                        "the broker ended the subscription: {why}"
                    )));
                }
                Err(_) => self.brokers.check()?,
            }
        }
        Ok(())
    }

    /// Prints a message, and those that came with it, before we wait for more.
    fn take(&mut self, first: Message, messages: &mut Subscription) -> Result<(), Failure> {
        let mut next = Some(first);
        while let Some(message) = next {
            self.print(&message)?;
            // Beyond --count nothing is settled, so that a kept session has it next time.
            messages.settle();
            next = if self.is_done() {
                None
            } else {
                messages.try_next()
            };
        }
        self.out.flush()?;
        Ok(())
    }

    fn print(&mut self, message: &Message) -> Result<(), Failure> {
        let wanted = match message.is_last_value() {
            // MQTT 3 cannot ask the broker to leave them out.
            true => !self.args.no_retained,
            false => !self.args.retained_only,
        };
        if wanted {
            self.args
                .format
                .write(&Arrival::of(message, SystemTime::now()), &mut self.out)?;
            self.printed += 1;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.args.count.is_some_and(|count| self.printed >= count)
    }

    /// Whoever reads slowly is not to believe that the broker lost something.
    fn tell_what_was_missed(&self) {
        let missed = self
            .brokers
            .status()
            .map_or(0, |status| status.counts.receive_dropped);
        if missed > 0 {
            eprintln!(
                "note: {missed} messages sent at most once were dropped, as they came faster than they could be printed"
            );
        }
    }

    fn time_is_over(&self) -> Result<(), Failure> {
        match self.args.count {
            Some(count) if self.printed < count => {
                let (printed, timeout) =
                    (self.printed, spoken(self.args.timeout.unwrap_or_default()));
                Err(Failure::new(format!(
                    "{printed} of {count} messages came within {timeout}"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Asks while the connection is made: what a kept session says at once must find its subscription.
fn begin(
    args: &SubArgs,
    brokers: &Brokers,
    filters: &[String],
    deadline: Option<Instant>,
) -> Result<Subscription, Failure> {
    thread::scope(|scope| {
        let way = scope.spawn(|| {
            let up = brokers
                .wait_until_up()
                .and_then(|()| remark_on_session(args, brokers));
            if up.is_err() {
                // Nobody will answer the subscription; it ends with the client.
                let _ = brokers.client.close(Duration::ZERO);
            }
            up
        });
        let subscribed = subscribe(args, brokers, filters, deadline);
        match way.join() {
            Ok(Err(failure)) => Err(failure),
            _ => subscribed,
        }
    })
}

fn subscribe(
    args: &SubArgs,
    brokers: &Brokers,
    filters: &[String],
    deadline: Option<Instant>,
) -> Result<Subscription, Failure> {
    let wish = SubscribeOptions {
        reliability: reliability(args.qos()),
        last_values: !args.no_retained,
        // At most once is no promise, so a protocol that skips states (CoAP) will do.
        keeps_all: args.qos() != thalweg_mqtt::QoS::AtMostOnce,
        // Printed, then settled: where the protocol can.
        settle_by_hand: args.qos() != thalweg_mqtt::QoS::AtMostOnce && brokers.can_settle(),
    };
    let patience = deadline.map_or(Duration::MAX, |deadline| {
        deadline.saturating_duration_since(Instant::now())
    });
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let subscription = brokers.client.subscribe_all(&filters, wish, patience);
    subscription.map_err(|error| match error {
        ClientError::TimedOut => {
            let within = spoken(args.timeout.unwrap_or_default());
            Failure::new(format!(
                "the broker did not answer the subscription within {within}"
            ))
        }
        ClientError::Refused(refusal) => {
            let named: Vec<String> = filters.iter().map(|filter| format!("`{filter}`")).collect();
            Failure::new(format!(
                "the broker refuses the subscription to {}: {refusal}",
                named.join(", ")
            ))
        }
        error => Failure::new(error.to_string()),
    })
}

fn check(args: &SubArgs) -> Result<(), Failure> {
    if !args.clean_start && args.connect.id.is_none() {
        return Err(Failure::usage(
            "--clean-start false resumes a session, and a session is found by its --id",
        ));
    }
    if args.session_expiry.is_some() && args.connect.mqtt_version != Version::V5 {
        return Err(Failure::usage(format!(
            "--expiry needs MQTT 5, and --v is {}",
            args.connect.mqtt_version
        ))
        .mend("In MQTT 3, --clean-start false alone keeps the session"));
    }
    let names_group = |filter: &str| filter.starts_with("$share/");
    match args.share.is_some() && args.filters.iter().any(|filter| names_group(&filter.topic)) {
        true => Err(Failure::usage("a filter names a group already")
            .mend("Leave $share/GROUP/ out, or --share")),
        false => Ok(()),
    }
}

fn remark_on_session(args: &SubArgs, brokers: &Brokers) -> Result<(), Failure> {
    let status = brokers.status()?;
    if !args.clean_start && !status.lanes.iter().any(|lane| lane.session_present) {
        let id = args.connect.id.as_deref().unwrap_or_default();
        eprintln!("note: the broker kept no session of `{id}`; a new one begins");
    }
    Ok(())
}

/// How long the session outlives the connection.
pub fn session_expiry_secs(args: &SubArgs) -> u32 {
    match (args.session_expiry, args.clean_start) {
        (Some(seconds), _) => seconds,
        (None, true) => 0,
        (None, false) => KEPT_SESSION_EXPIRY_SECS,
    }
}

fn session_wish(args: &SubArgs) -> SessionWish {
    SessionWish {
        clean_start: args.clean_start,
        expiry: Duration::from_secs(u64::from(session_expiry_secs(args))),
        no_local: args.no_local,
    }
}

fn shared(args: &SubArgs) -> Vec<String> {
    let filters = args.filters.iter().map(|filter| filter.topic.clone());
    match &args.share {
        Some(group) => filters
            .map(|filter| format!("$share/{group}/{filter}"))
            .collect(),
        None => filters.collect(),
    }
}

/// An hour, as the help of `--expiry` says.
const KEPT_SESSION_EXPIRY_SECS: u32 = 3600;
const OUTPUT_BYTES: usize = 64 * 1024;
