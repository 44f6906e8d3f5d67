//! `thalweg sub`: subscribes and prints what arrives.

use std::io::{BufWriter, Write};
use std::time::{Instant, SystemTime};

use thalweg_mqtt::{
    ClientEvent, Publish, QoS, ReasonCode, RetainHandling, SubAck, SubscribeOptions, SubscribeOut, Version,
};

use crate::cli::SubArgs;
use crate::failure::Failure;
use crate::format::Arrival;
use crate::link::{Link, Reply, SessionWish, Step, interrupted, reason_in_words, tell_interrupts};
use crate::quantity::spoken;

/// Runs the command; messages go to `out`, remarks to standard error.
pub fn run(args: &SubArgs, out: &mut dyn Write) -> Result<(), Failure> {
    check(args)?;
    let (mut link, welcome) = Link::open(&args.connect, session_wish(args))?;
    tell_interrupts(&link)?;
    if !args.clean_start && !welcome.session_present {
        eprintln!("note: the broker kept no session of `{}`; a new one begins", welcome.client_id);
    }
    let filters = shared(args);
    ask(&mut link, &filters, options(args))?;
    // Messages of a resumed session may come before the answer, and count.
    let mut printer = Printer { args, out: BufWriter::with_capacity(OUTPUT_BYTES, out), printed: 0, is_granted: false };
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let result = printer.run(&mut link, deadline, &filters);
    printer.out.flush()?;
    let goodbye = link.close();
    result.and(goodbye)
}

/// Asks for the filters, in one packet.
pub fn ask(link: &mut Link, filters: &[String], options: SubscribeOptions) -> Result<(), Failure> {
    let filters: Vec<(&str, SubscribeOptions)> = filters.iter().map(|filter| (filter.as_str(), options)).collect();
    let Reply { machine, out } = link.reply();
    let id = machine.next_id().ok_or_else(|| Failure::new("no packet identifier is free"))?;
    machine.subscribe(&SubscribeOut { id, filters: &filters, ..SubscribeOut::default() }, out).map_err(|error| {
        Failure::new(format!("the filters cannot be sent: {error}")).mend("Give fewer filters, or shorter ones")
    })
}

/// Says in words which filters were refused; grants of less than was asked are remarks.
pub fn judge(ack: &SubAck<'_>, filters: &[String], qos: QoS) -> Result<(), Failure> {
    let mut refused = Vec::new();
    for (filter, code) in filters.iter().zip(ack.codes()) {
        if code.is_error() {
            // MQTT 3 has one code for every failure. [MQTT3-3.9.3-2]
            refused.push(format!("`{filter}`: {}", reason_in_words(code, &ack.properties)));
        } else if code.byte() < qos as u8 {
            eprintln!("note: the broker grants QoS {} for `{filter}`", code.byte());
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("the broker refuses the subscription to {}", refused.join(", ")))),
    }
}

/// Answers a publish as its QoS wants it.
pub fn acknowledge(publish: &Publish<'_>, reply: &mut Reply<'_>) {
    match publish.qos {
        QoS::AtMostOnce => {}
        QoS::AtLeastOnce => reply.machine.puback(publish.id, ReasonCode::Success, reply.out),
        QoS::ExactlyOnce => reply.machine.pubrec(publish.id, ReasonCode::Success, reply.out),
    }
}

struct Printer<'a, 'o> {
    args: &'a SubArgs,
    out: BufWriter<&'o mut dyn Write>,
    printed: u64,
    is_granted: bool,
}

impl Printer<'_, '_> {
    fn run(&mut self, link: &mut Link, deadline: Option<Instant>, filters: &[String]) -> Result<(), Failure> {
        while !self.is_done() {
            let step = link.step(deadline, &mut |event, reply| match event {
                ClientEvent::Publish(publish) if !self.is_done() => {
                    self.print(&publish)?;
                    acknowledge(&publish, reply);
                    Ok(())
                }
                // Beyond --count: not acknowledged, so that a kept session has it next time.
                ClientEvent::Publish(_) => Ok(()),
                ClientEvent::PubRel(release) => {
                    reply.machine.pubcomp(release.id, ReasonCode::Success, reply.out);
                    Ok(())
                }
                ClientEvent::SubAck(ack) => {
                    self.is_granted = true;
                    judge(&ack, filters, self.args.qos)
                }
                _ => Ok(()),
            })?;
            // What has come is shown before we wait for more.
            self.out.flush()?;
            match step {
                Step::Interrupted => return if self.args.count.is_some() { Err(interrupted()) } else { Ok(()) },
                Step::TimedOut => return self.time_is_over(),
                Step::Moved | Step::Lines(_) | Step::LinesEnded(_) => {}
            }
        }
        Ok(())
    }

    fn print(&mut self, publish: &Publish<'_>) -> Result<(), Failure> {
        let wanted = match publish.retain {
            // MQTT 3 cannot ask the broker to leave them out.
            true => !self.args.no_retained,
            false => !self.args.retained_only,
        };
        if wanted {
            self.args.format.write(&Arrival::new(publish, SystemTime::now()), &mut self.out)?;
            self.printed += 1;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.args.count.is_some_and(|count| self.printed >= count)
    }

    fn time_is_over(&self) -> Result<(), Failure> {
        let timeout = self.args.timeout.unwrap_or_default();
        if !self.is_granted {
            return Err(Failure::new(format!("the broker did not answer the subscription within {}", spoken(timeout))));
        }
        match self.args.count {
            Some(count) if self.printed < count => {
                let printed = self.printed;
                Err(Failure::new(format!("{printed} of {count} messages came within {}", spoken(timeout))))
            }
            _ => Ok(()),
        }
    }
}

fn check(args: &SubArgs) -> Result<(), Failure> {
    if !args.clean_start && args.connect.id.is_none() {
        return Err(Failure::usage("--clean-start false resumes a session, and a session is found by its --id"));
    }
    if args.session_expiry.is_some() && args.connect.mqtt_version != Version::V5 {
        return Err(Failure::usage(format!("--expiry needs MQTT 5, and --v is {}", args.connect.mqtt_version))
            .mend("In MQTT 3, --clean-start false alone keeps the session"));
    }
    match args.share.is_some() && args.filters.iter().any(|filter| filter.starts_with("$share/")) {
        true => Err(Failure::usage("a filter names a group already").mend("Leave $share/GROUP/ out, or --share")),
        false => Ok(()),
    }
}

fn session_wish(args: &SubArgs) -> SessionWish {
    let expiry_secs = match (args.session_expiry, args.clean_start) {
        (Some(seconds), _) => seconds,
        (None, true) => 0,
        (None, false) => KEPT_SESSION_EXPIRY_SECS,
    };
    SessionWish { clean_start: args.clean_start, expiry_secs }
}

fn shared(args: &SubArgs) -> Vec<String> {
    match &args.share {
        Some(group) => args.filters.iter().map(|filter| format!("$share/{group}/{filter}")).collect(),
        None => args.filters.clone(),
    }
}

fn options(args: &SubArgs) -> SubscribeOptions {
    SubscribeOptions {
        qos: args.qos,
        no_local: args.no_local,
        retain_as_published: false,
        retain_handling: if args.no_retained { RetainHandling::DoNotSend } else { RetainHandling::Send },
    }
}

/// An hour, as the help of `--expiry` says.
const KEPT_SESSION_EXPIRY_SECS: u32 = 3600;
const OUTPUT_BYTES: usize = 64 * 1024;
