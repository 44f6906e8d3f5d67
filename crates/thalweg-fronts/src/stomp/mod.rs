//! STOMP 1.0 to 1.2. Concept map: destination = queue, exchange or address, `/topic/…` = a queue of the subscription's own
//! that is bound to a filter, SUBSCRIBE = the only consumer of a line, ACK and NACK = settle that line, receipt = written
//! behind the command and held with it.

mod address;
mod capabilities;
mod close;
mod connect;
mod deliver;
mod headers;
mod publish;
mod queues;
mod read;
mod settings;
mod settle;
mod subscribe;
mod subscription;
mod transaction;

use crate::LoginAnswer;
use crate::front::{Cx, Front, FrontSettings, Step, Variant};

use crate::probe::Mark;
use crate::registry::AnyFront;
use close::Trouble;
use connect::Opening;
use publish::{Handled, Target};
use std::sync::Arc;
use subscription::Subscriptions;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, Kernel};
use thalweg_model::Span;
use thalweg_stomp::{Event, PeerFault, ServerSide};
use transaction::Transactions;

pub(crate) use capabilities::PROTOCOL;
pub use capabilities::STOMP;
pub use settings::{Dialect, StompSettings};

/// How many intervals a peer may be silent. The specification asks for some tolerance; peers stand still for garbage
/// collection and behind slow networks.
const INTERVALS_MISSED: u64 = 3;
/// Names of queues that end with their subscription begin so.
const SUBSCRIPTION_QUEUES: &str = "stomp-subscription-";
/// Names of queues of durable subscriptions begin so.
const DURABLE_QUEUES: &str = "stomp-durable";
/// Names of temporary queues begin so: no client can declare one of these itself.
const TEMPORARY_QUEUES: &str = "amq.gen-stomp-";

/// One STOMP connection.
///
/// ```text
///  ExpectConnect --CONNECT--> ExpectVerdict --allowed--> Connected --DISCONNECT, ERROR--> Closed
///                             (input is held)
/// ```
pub struct StompFront {
    machine: ServerSide,
    settings: Arc<StompSettings>,
    state: State,
    /// Part of the names that the broker makes up, so that they are unique in the process.
    nonce: u64,
    /// How many names it has made.
    named: u32,
    /// What a peer without credentials may do, if it is admitted.
    anonymous: Option<Access>,
    /// Its tenant; empty for the default one.
    tenant: Box<str>,
    /// The user name it came in with.
    login: Option<Box<str>>,
    /// ActiveMQ's name for the client, which names its durable subscriptions.
    client: Option<Box<str>>,
    /// Milliseconds between signs of life: how often we give one, how often we get one. 0 is never.
    heart_beat: (u32, u32),
    subscriptions: Subscriptions,
    transactions: Transactions,
    /// Last values that it has asked for.
    reads: read::Reads,
    /// Temporary destinations and their queues' addresses.
    temporaries: Vec<(Box<str>, Box<str>)>,
    /// Where it sent to last.
    target: Option<Box<Target>>,
    /// Frames that are answered when other shards have answered about their messages.
    asked: Option<Box<publish::AllAsked>>,
    /// Deliveries that are not settled; numbers their names.
    unsettled_names: u64,
    /// A buffer for destinations.
    scratch: String,
    /// Why the connection ended, for logs.
    fault: Option<Box<str>>,
}

/// What the connection waits for.
enum State {
    ExpectConnect,
    /// The server is checking who it is; input is held.
    ExpectVerdict(Box<Opening>),
    Connected,
    Closed,
}

impl StompFront {
    /// A connection that has not said anything yet. `nonce` is unique in the process and hard to guess. `anonymous` is
    /// what peers without credentials may do; `None` asks the server about everybody.
    pub fn new(settings: Arc<StompSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        StompFront {
            machine: ServerSide::new(settings.limits.clone()),
            settings,
            state: State::ExpectConnect,
            nonce,
            named: 0,
            anonymous,
            tenant: "".into(),
            login: None,
            client: None,
            heart_beat: (0, 0),
            subscriptions: Subscriptions::default(),
            transactions: Transactions::default(),
            reads: read::Reads::default(),
            temporaries: Vec::new(),
            target: None,
            asked: None,
            unsettled_names: 0,
            scratch: String::new(),
            fault: None,
        }
    }

    /// Counts what is kept of a peer's subscriptions and transactions. Whether there is memory for more is asked before.
    fn count_kept(cx: &mut Cx<'_>) {
        if let Some(front) = StompFront::of(cx.links, cx.id) {
            let bytes = front.subscriptions.bytes + front.transactions.bytes;
            cx.links.count_kept(cx.id, bytes, cx.kernel);
        }
    }

    /// A name that no queue has and that cannot be guessed.
    fn new_name(&mut self, prefix: &str, kernel: &Kernel) -> String {
        self.named += 1;
        let count = u128::from(self.named);
        format!(
            "{prefix}{:032x}",
            kernel.name_key(self.nonce).name("queue", count)
        )
    }

    fn on_event(cx: &mut Cx<'_>, event: Event<'_>) {
        let (receipt, done) = match event {
            Event::Connect(connect) => {
                return StompFront::on_connect(cx, &connect);
            }
            Event::Disconnect(frame) => {
                return StompFront::on_disconnect(cx, &frame);
            }
            // `step` takes these before they come here.
            Event::Send(_)
            | Event::Commit(_)
            | Event::Ack(_)
            | Event::Nack(_)
            | Event::HeartBeat => return,
            Event::Subscribe(frame) => {
                let done = StompFront::on_subscribe(cx, &frame);
                (frame.receipt.filter(|_| done.is_err()), done)
            }
            Event::Unsubscribe(frame) => {
                let done = StompFront::on_unsubscribe(cx, &frame);
                (frame.receipt, done)
            }
            Event::Begin(frame) => {
                let done = StompFront::on_begin(cx, &frame);
                (frame.receipt, done)
            }
            Event::Abort(frame) => {
                let done = StompFront::on_abort(cx, &frame);
                (frame.receipt, done)
            }
        };
        StompFront::answer(cx, receipt.as_deref(), done);
    }

    /// What follows an ACK or NACK.
    fn settled(
        cx: &mut Cx<'_>,
        receipt: Option<&str>,
        done: Result<Handled, Trouble>,
        consumed: usize,
    ) -> Step {
        if matches!(done, Ok(Handled::Later)) {
            return Step::Hold;
        }
        StompFront::answer(cx, receipt, done.map(|_| ()));
        Step::Consumed(consumed)
    }

    /// Writes the receipt of a frame that has been dealt with, or the error it ended in.
    fn answer(cx: &mut Cx<'_>, receipt: Option<&str>, done: Result<(), Trouble>) {
        match (done, receipt) {
            (Ok(()), None) => {}
            (Ok(()), Some(receipt)) => {
                StompFront::write(cx.links, cx.id, |front, out| {
                    front.machine.receipt(receipt, out)
                });
            }
            (Err(trouble), receipt) => StompFront::give_up(cx, &trouble, receipt),
        }
    }

    /// The peer broke the protocol: tell it, and end the link.
    fn fail(cx: &mut Cx<'_>, fault: PeerFault) {
        StompFront::write(cx.links, cx.id, |front, out| {
            front.machine.fault(&fault, out);
            front.fault = Some(fault.to_string().into());
        });
        StompFront::end(cx, Closing::Cut);
    }
}

impl Front for StompFront {
    /// Handles the next frame.
    #[inline]
    fn step(cx: &mut Cx<'_>, bytes: &[u8]) -> Step {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Step::Hold;
        };
        if let State::ExpectVerdict(_) | State::Closed = front.state {
            return Step::Hold;
        }
        let input = front.machine.handle_input(bytes);
        cx.links.mark(Mark::WireDecode);
        match input {
            Ok(Some((consumed, Event::Send(send)))) => match StompFront::on_send(cx, &send) {
                Handled::Done | Handled::Asked => Step::Consumed(consumed),
                Handled::Later => Step::Hold,
            },
            Ok(Some((consumed, Event::Commit(frame)))) => match StompFront::on_commit(cx, &frame) {
                Handled::Done | Handled::Asked => Step::Consumed(consumed),
                Handled::Later => Step::Hold,
            },
            // Its receipt says that all before it is done with.
            Ok(Some((_, Event::Disconnect(_)))) if StompFront::waits_for_others(cx) => Step::Hold,
            Ok(Some((consumed, Event::Ack(frame)))) => {
                let done = StompFront::on_ack(cx, &frame);
                StompFront::settled(cx, frame.receipt.as_deref(), done, consumed)
            }
            Ok(Some((consumed, Event::Nack(frame)))) => {
                let done = StompFront::on_nack(cx, &frame);
                StompFront::settled(cx, frame.receipt.as_deref(), done, consumed)
            }
            Ok(Some((consumed, event))) => {
                StompFront::on_event(cx, event);
                Step::Consumed(consumed)
            }
            Ok(None) => Step::NeedMore,
            Err(fault) => {
                StompFront::fail(cx, fault);
                Step::Hold
            }
        }
    }

    fn on_published(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        StompFront::on_decided(cx, question, is_refused);
    }

    fn on_login(cx: &mut Cx<'_>, _: &str, answer: LoginAnswer) {
        StompFront::on_verdict(cx, answer);
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected)
    }

    fn holds_input(&self) -> bool {
        matches!(self.state, State::ExpectVerdict(_))
    }

    fn fault(&self) -> Option<String> {
        self.fault.as_deref().map(Into::into)
    }

    /// The longest the peer may be silent. [1.2#Heart-beating]
    fn silence_max(&self) -> Option<Span> {
        let (_, expect) = self.heart_beat;
        (expect > 0).then(|| Span::from_millis(u64::from(expect) * INTERVALS_MISSED))
    }

    /// Somewhat less than what was promised, because timers are late.
    fn idle_write(&self) -> Option<Span> {
        let (give, _) = self.heart_beat;
        (give > 0).then(|| Span::from_millis(u64::from(give) * 4 / 5))
    }
}

impl FrontSettings for StompSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(StompFront::new(self, nonce, anonymous).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        let (front, subscription) = (
            size_of::<StompFront>(),
            size_of::<subscription::Subscription>(),
        );
        assert!(front <= 640, "{front} bytes");
        assert!(subscription <= 128, "{subscription} bytes");
    }
}
