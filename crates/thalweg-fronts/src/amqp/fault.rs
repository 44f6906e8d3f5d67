//! Errors sent to peers: codes and texts as RabbitMQ has them, because clients show them and tests look for them.

use thalweg_amqp::ReplyCode;
use thalweg_kernel::Refusal;

/// Bytes of a short string.
const REPLY_TEXT_BYTES_MAX: usize = 255;

/// A channel, or the connection, ends because of this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: ReplyCode,
    /// Stands behind the code's name.
    pub(super) what: String,
}

/// Who the words of a refusal are about.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    /// The virtual host, as clients say it.
    pub(super) vhost: &'a str,
    pub(super) user: &'a str,
    pub(super) queue: &'a str,
    pub(super) exchange: &'a str,
    /// What was tried, in RabbitMQ's words: configure, write, read.
    pub(super) verb: &'static str,
}

impl Fault {
    /// What does not fit into a reply text, the code's name before it, is cut as RabbitMQ does.
    pub(super) fn new(code: ReplyCode, what: impl Into<String>) -> Self {
        let mut what = what.into();
        let room = REPLY_TEXT_BYTES_MAX - code.name().len() - " - ".len();
        if what.len() > room {
            what.truncate(what.floor_char_boundary(room - "...".len()));
            what.push_str("...");
        }
        Fault { code, what }
    }

    pub(super) fn precondition(what: impl Into<String>) -> Self {
        Fault::new(ReplyCode::PreconditionFailed, what)
    }
}

impl About<'_> {
    fn is_exchange(&self) -> bool {
        self.queue.is_empty()
    }

    /// `queue 'x' in vhost '/'`, or the like.
    pub(super) fn thing(&self) -> String {
        let (kind, name) = if self.is_exchange() {
            ("exchange", self.exchange)
        } else {
            ("queue", self.queue)
        };
        format!("{kind} '{name}' in vhost '{}'", self.vhost)
    }

    /// The words for a refusal of the kernel.
    pub(super) fn fault(&self, refusal: Refusal) -> Fault {
        let About {
            vhost,
            user,
            queue,
            exchange,
            verb,
        } = *self;
        let thing = self.thing();
        match refusal {
            Refusal::NoQueue => Fault::new(
                ReplyCode::NotFound,
                format!("no queue '{queue}' in vhost '{vhost}'"),
            ),
            Refusal::NoExchange => Fault::new(
                ReplyCode::NotFound,
                format!("no exchange '{exchange}' in vhost '{vhost}'"),
            ),
            Refusal::Denied => Fault::new(
                ReplyCode::AccessRefused,
                format!("{verb} access to {thing} refused for user '{user}'"),
            ),
            Refusal::Locked => {
                let why = "It could be originally declared on another connection or the exclusive property value does \
                           not match that of the original declaration.";
                Fault::new(
                    ReplyCode::ResourceLocked,
                    format!("cannot obtain exclusive access to locked {thing}. {why}"),
                )
            }
            Refusal::InUse => Fault::precondition(format!("{thing} in use")),
            Refusal::NotEmpty => Fault::precondition(format!("{thing} not empty")),
            Refusal::Differs(what) => {
                let what = argument_name(what);
                Fault::precondition(format!(
                    "inequivalent arg '{what}' for {thing}: it was declared with another value"
                ))
            }
            Refusal::Reserved => {
                let (kind, name) = if self.is_exchange() {
                    ("exchange", exchange)
                } else {
                    ("queue", queue)
                };
                Fault::new(
                    ReplyCode::AccessRefused,
                    format!("{kind} name '{name}' contains reserved prefix 'amq.*'"),
                )
            }
            Refusal::TooMany => Fault::precondition(format!(
                "cannot declare {thing}: there are as many as there may be"
            )),
            Refusal::Invalid(why) => Fault::precondition(format!("{thing}: {why}")),
            Refusal::Full => Fault::precondition(format!("{thing}: the broker's disk is full")),
            Refusal::Short => {
                Fault::precondition(format!("{thing}: the broker is short of memory"))
            }
        }
    }
}

/// What the kernel calls a property of queues and exchanges, as arguments are called here.
pub(super) fn argument_name(ours: &'static str) -> &'static str {
    match ours {
        "kind" => "type",
        "alternate" => "alternate-exchange",
        "message_ttl" => "x-message-ttl",
        "idle_expiry" => "x-expires",
        "messages_max" => "x-max-length",
        "bytes_max" => "x-max-length-bytes",
        "overflow" => "x-overflow",
        "dead_letter" => "x-dead-letter-exchange",
        "dead_letter_key" => "x-dead-letter-routing-key",
        "priority_max" => "x-max-priority",
        "single_active" => "x-single-active-consumer",
        "deliveries_max" => "x-delivery-limit",
        "label" => "x-queue-type",
        other => other,
    }
}
