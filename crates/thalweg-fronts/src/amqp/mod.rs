//! AMQP 0-9-1. Concept map: connection = session that ends with it, virtual host = tenant, channel = line, queue and
//! exchange = themselves, delivery tag = tag of the line, confirm = written behind the publish and held with it.
//!
//! Start reading at [`AmqpFront::step`]. A file is a noun or a verb: `connect`, `channel`, `exchange`, `queue`,
//! `publish`, `confirm`, `transaction`, `subscribe`, `settle`, `deliver`; `address`, `arguments` and `properties` are the
//! words, `fault` is what peers are told when something cannot be done.

mod address;
mod arguments;
mod capabilities;
mod channel;
mod confirm;
mod connect;
mod deliver;
mod exchange;
mod fault;
mod properties;
mod publish;
mod queue;
mod settings;
mod settle;
mod subscribe;
mod transaction;

use crate::LoginAnswer;
use crate::front::{Cx, Front, FrontSettings, Step, Variant};
use crate::probe::Mark;
use crate::registry::AnyFront;
use channel::{Channel, Channels};
use connect::{Admitted, Capabilities};
use fault::{About, Fault};
use publish::{Handled, Postponed};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_amqp::{
    Event, Gathered, Method, MethodId, PeerFault, ReplyCode, Scope, ServerLimits, ServerSide,
};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, SessionId};
use thalweg_model::Span;

pub(crate) use arguments::queue_limits;
pub use capabilities::AMQP;
pub(crate) use capabilities::PROTOCOL;
pub(crate) use properties::decode as decode_properties;
pub use settings::AmqpSettings;

/// How long a peer has to confirm that we close the connection.
const FAREWELL: Span = Span::from_secs(5);
/// Unfinished messages of a connection, as many largest ones.
const GATHERED_MESSAGES_MAX: usize = 4;

/// One AMQP connection.
///
/// ```text
///  Handshake --start-ok--> ExpectVerdict --allowed--> Handshake --open--> Open <--verdict-- ExpectReVerdict
///                              | refused                                 |  \--update-secret--^
///                              v                                         v
///                            Closed <------------close-ok------------ Closing      (input is held in both Expect…)
/// ```
pub struct AmqpFront {
    machine: ServerSide,
    settings: Arc<AmqpSettings>,
    state: State,
    /// Part of the names that the broker makes up, so that they are unique in the process.
    nonce: u64,
    /// How many were made.
    names: u32,
    /// What a peer without credentials may do, if it is admitted.
    anonymous: Option<Access>,
    client: Box<str>,
    /// What the peer said of itself: its client properties that are text.
    about: Box<[(Box<str>, Box<str>)]>,
    /// What the peer calls its connection, until `connection.open`.
    name: Option<Box<str>>,
    mechanism: Box<str>,
    capabilities: Capabilities,
    /// Set from the verdict until `connection.open`.
    admitted: Option<Box<Admitted>>,
    user: Option<Box<str>>,
    /// Empty for the default one.
    tenant: Box<str>,
    channels: Channels,
    /// A purge that is done only in part.
    purge: Option<Box<queue::Purging>>,
    /// Channels on which publishes have to be confirmed when the input is done with.
    owing: Vec<u16>,
    /// Confirms and commits from the first on that waits for other shards.
    asked: VecDeque<confirm::Asked>,
    /// A message that came in pieces and waits for room in the journal; nothing is read before it has gone.
    postponed: Option<Box<Postponed>>,
    /// Where the last delivery came from.
    origin: address::Origin,
    /// Why the connection ended, for logs.
    fault: Option<Box<str>>,
}

/// What the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Whatever the machine says is next.
    Handshake,
    /// The server is checking who it is; input is held.
    ExpectVerdict,
    Open,
    /// The server is checking who it is once more; input is held.
    ExpectReVerdict,
    /// We have said that it ends.
    Closing,
    Closed,
}

/// A method of a peer on its way to the kernel.
struct Request<'a, 'c> {
    cx: &'a mut Cx<'c>,
    session: SessionId,
    ch: u16,
    cause: MethodId,
    /// It is done with only in part, and must be handed in again.
    is_in_part: bool,
}

impl AmqpFront {
    /// A connection that has not said anything yet. `nonce` is unique in the process and hard to guess. `anonymous` is
    /// what peers without credentials may do; `None` asks the server about everybody.
    pub fn new(settings: Arc<AmqpSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        let defaults = ServerLimits::default();
        let limits = ServerLimits {
            channel_max: settings.channel_max,
            frame_max: settings.frame_max,
            heartbeat: settings.heartbeat.secs().min(u64::from(u16::MAX)) as u16,
            message_bytes_max: settings.message_bytes_max as u64,
            gathered_bytes_max: settings
                .message_bytes_max
                .saturating_mul(GATHERED_MESSAGES_MAX),
            ..defaults
        };
        AmqpFront {
            machine: ServerSide::new(limits),
            settings,
            state: State::Handshake,
            nonce,
            names: 0,
            anonymous,
            client: "".into(),
            about: Box::default(),
            name: None,
            mechanism: "".into(),
            capabilities: Capabilities::default(),
            admitted: None,
            user: None,
            tenant: "".into(),
            channels: Channels::default(),
            purge: None,
            owing: Vec::new(),
            asked: VecDeque::new(),
            postponed: None,
            origin: address::Origin::default(),
            fault: None,
        }
    }

    fn on_event(cx: &mut Cx<'_>, event: &Event<'_>) {
        match event {
            Event::Heartbeat | Event::Consumed | Event::ChannelCloseOk(_) => {}
            // `step` takes these before they come here.
            Event::Publish(_) | Event::Method { .. } => {}
            Event::ProtocolHeader => AmqpFront::on_header(cx),
            Event::StartOk(start_ok) => AmqpFront::on_start_ok(cx, start_ok),
            // No mechanism of ours asks for it.
            Event::SecureOk { .. } => {}
            Event::TuneOk { .. } => {}
            Event::Open { vhost } => AmqpFront::on_open(cx, vhost),
            Event::UpdateSecret(update) => AmqpFront::on_update_secret(cx, update.new_secret),
            Event::ChannelOpen(ch) => AmqpFront::on_channel_open(cx, *ch),
            Event::ChannelClose { ch, .. } => AmqpFront::on_channel_close(cx, *ch),
            Event::ChannelFault(fault) => AmqpFront::fail(cx, fault),
            Event::CloseConnection { .. } => {
                AmqpFront::write(cx.links, cx.id, |front, out| front.machine.close_ok(out));
                AmqpFront::end(cx, Closing::Clean);
            }
            Event::CloseConnectionOk => AmqpFront::end(cx, Closing::Lost),
        }
    }

    fn on_method(cx: &mut Cx<'_>, ch: u16, method: &Method<'_>) -> Handled {
        let Some(session) = cx.session() else {
            return Handled::Done;
        };
        let mut request = Request {
            cx,
            session,
            ch,
            cause: method.id(),
            is_in_part: false,
        };
        if let Err(fault) = request.handle(method) {
            request.fail(&fault);
        } else if request.is_in_part {
            if let Some(link) = cx.links.get_mut(cx.id) {
                // Others have their turn first.
                link.pause_until = Some(cx.now);
            }
            return Handled::Later;
        }
        Handled::Done
    }

    /// The peer broke the protocol: tell it, and end what that ends.
    fn fail(cx: &mut Cx<'_>, fault: &PeerFault) {
        if let Scope::Channel(ch) = fault.scope {
            AmqpFront::end_channel(cx, ch);
            AmqpFront::write(cx.links, cx.id, |front, out| {
                front.machine.fault(fault, out)
            });
            return;
        }
        AmqpFront::write(cx.links, cx.id, |front, out| {
            front.machine.fault(fault, out);
            front.fault = Some(fault.to_string().into());
        });
        if fault.scope == Scope::ProtocolHeader {
            AmqpFront::end(cx, Closing::Cut);
        } else {
            AmqpFront::await_end(cx, Closing::Cut);
        }
    }

    /// Says `connection.close`.
    fn close(cx: &mut Cx<'_>, code: ReplyCode, what: &str, cause: MethodId) {
        AmqpFront::write(cx.links, cx.id, |front, out| {
            front.machine.close(code, what, cause, out);
            front.fault = Some(format!("{} - {what}", code.name()).into());
        });
        AmqpFront::await_end(cx, Closing::Cut);
    }

    /// The connection is over for the kernel; the peer has to confirm.
    fn await_end(cx: &mut Cx<'_>, how: Closing) {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return;
        };
        if let AnyFront::Amqp(front) = &mut link.front {
            front.state = State::Closing;
            front.channels.clear();
            front.owing.clear();
            front.asked.clear();
        }
        let session = link.session.take();
        cx.links.mark_dirty(cx.id);
        if let Some(session) = session {
            cx.kernel
                .close_link(session, cx.id, how, None, cx.now, cx.links);
        }
    }

    /// Ends the link from our side; what is in the output is still sent.
    fn end(cx: &mut Cx<'_>, how: Closing) {
        AmqpFront::await_end(cx, how);
        let Some(link) = cx.links.get_mut(cx.id) else {
            return;
        };
        link.closing = true;
        if let AnyFront::Amqp(front) = &mut link.front {
            front.state = State::Closed;
        }
    }

    /// The virtual host, as clients say it.
    fn vhost(&self) -> &str {
        if self.tenant.is_empty() {
            "/"
        } else {
            &self.tenant
        }
    }

    /// As error texts have it; who has none came in as a guest.
    fn user_name(&self) -> &str {
        self.user.as_deref().unwrap_or("guest")
    }

    fn about<'a>(&'a self, queue: &'a str, exchange: &'a str, verb: &'static str) -> About<'a> {
        About {
            vhost: self.vhost(),
            user: self.user_name(),
            queue,
            exchange,
            verb,
        }
    }
}

impl Front for AmqpFront {
    /// Handles the next frame, or the next message.
    #[inline]
    fn step(cx: &mut Cx<'_>, bytes: &[u8]) -> Step {
        let Some(front) = AmqpFront::of(cx.links, cx.id) else {
            return Step::Hold;
        };
        if front.holds_input() || front.state == State::Closed {
            return Step::Hold;
        }
        if front.postponed.is_some() {
            return AmqpFront::publish_postponed(cx);
        }
        let mut gathered = Gathered::default();
        let input = front.machine.handle_input(bytes, &mut gathered);
        cx.links.mark(Mark::WireDecode);
        // By reference: events are large and stay where they are.
        match &input {
            Ok(Some((consumed, Event::Publish(publish)))) => {
                // What came in pieces is not in the input any more and cannot be handed in again.
                let is_in_input = bytes.as_ptr_range().contains(&publish.header.as_ptr());
                match AmqpFront::on_publish(cx, publish) {
                    Handled::Done => Step::Consumed(*consumed),
                    Handled::Later if is_in_input => Step::Hold,
                    Handled::Later => {
                        AmqpFront::postpone(cx, publish, *consumed);
                        Step::Hold
                    }
                }
            }
            Ok(Some((consumed, Event::Method { ch, method }))) => {
                match AmqpFront::on_method(cx, *ch, method) {
                    Handled::Done => Step::Consumed(*consumed),
                    Handled::Later => Step::Hold,
                }
            }
            Ok(Some((consumed, event))) => {
                AmqpFront::on_event(cx, event);
                Step::Consumed(*consumed)
            }
            Ok(None) => Step::NeedMore,
            Err(fault) => {
                AmqpFront::fail(cx, fault);
                // What follows is listened to until the peer has confirmed the end.
                Step::Consumed(0)
            }
        }
    }

    #[inline]
    fn after_input(cx: &mut Cx<'_>) {
        AmqpFront::confirm_owing(cx);
    }

    fn on_published(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        AmqpFront::on_decided(cx, question, is_refused);
    }

    fn on_login(cx: &mut Cx<'_>, _: &str, answer: LoginAnswer) {
        AmqpFront::on_verdict(cx, answer);
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Open | State::ExpectReVerdict)
    }

    fn holds_input(&self) -> bool {
        matches!(self.state, State::ExpectVerdict | State::ExpectReVerdict)
    }

    fn fault(&self) -> Option<String> {
        self.fault.as_deref().map(Into::into)
    }

    fn gathered_bytes(&self) -> usize {
        let postponed = self.postponed.as_ref();
        self.machine.gathered_bytes() + postponed.map_or(0, |postponed| postponed.bytes())
    }

    /// The client properties that are text, in their order, as far as they fit into 1 KiB: product, version, platform and
    /// `connection_name`, by which libraries name a connection for people.
    fn client_properties(&self) -> &[(Box<str>, Box<str>)] {
        &self.about
    }

    /// Two heartbeat intervals, after which the peer counts as gone.
    fn silence_max(&self) -> Option<Span> {
        let seconds = u64::from(self.machine.heartbeat_seconds());
        match self.state {
            State::Closing => Some(FAREWELL),
            _ => (seconds > 0).then(|| Span::from_secs(seconds * 2)),
        }
    }

    /// Half the interval: then none is missed.
    fn idle_write(&self) -> Option<Span> {
        let seconds = u64::from(self.machine.heartbeat_seconds());
        (seconds > 0 && self.is_connected()).then(|| Span::from_millis(seconds * 500))
    }
}

impl FrontSettings for AmqpSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(AmqpFront::new(self, nonce, anonymous).into())
    }
}

impl Request<'_, '_> {
    fn handle(&mut self, method: &Method<'_>) -> Result<(), Fault> {
        match method {
            Method::BasicAck(ack) => self.ack(*ack),
            Method::BasicNack(nack) => self.nack(*nack),
            Method::BasicReject(reject) => self.reject(*reject),
            Method::BasicGet(get) => self.get(get),
            Method::BasicConsume(consume) => self.consume(consume),
            Method::BasicCancel(cancel) => self.cancel(cancel),
            Method::BasicQos(qos) => self.qos(*qos),
            Method::BasicRecover(recover) => self.recover(recover.requeue, true),
            Method::BasicRecoverAsync(recover) => self.recover(recover.requeue, false),
            Method::QueueDeclare(declare) => self.declare_queue(declare),
            Method::QueueBind(bind) => self.bind_queue(bind),
            Method::QueueUnbind(unbind) => self.unbind_queue(unbind),
            Method::QueuePurge(purge) => self.purge_queue(purge),
            Method::QueueDelete(delete) => self.delete_queue(delete),
            Method::ExchangeDeclare(declare) => self.declare_exchange(declare),
            Method::ExchangeDelete(delete) => self.delete_exchange(delete),
            Method::ExchangeBind(bind) => self.bind_exchange(bind),
            Method::ExchangeUnbind(unbind) => self.unbind_exchange(unbind),
            Method::ConfirmSelect(select) => self.select_confirms(*select),
            Method::TxSelect(_) => self.select_transactions(),
            Method::TxCommit(_) => self.commit(),
            Method::TxRollback(_) => self.roll_back(),
            Method::ChannelFlow(flow) => {
                self.flow(*flow);
                Ok(())
            }
            // We never ask for it; and a client's own cancel-ok answers our cancel.
            Method::ChannelFlowOk(_) | Method::BasicCancelOk(_) => Ok(()),
            Method::AccessRequest(_) => {
                use thalweg_amqp::methods::access;
                // Old clients want a ticket before anything else; it opens nothing.
                self.answer(&Method::AccessRequestOk(access::RequestOk::default()));
                Ok(())
            }
            other => Err(Fault::new(
                ReplyCode::CommandInvalid,
                format!("{} has no place here", other.id()),
            )),
        }
    }

    fn front(&mut self) -> Option<&mut AmqpFront> {
        AmqpFront::of(self.cx.links, self.cx.id)
    }

    fn channel(&mut self) -> Option<&mut Channel> {
        let ch = self.ch;
        self.front()?.channels.get_mut(ch)
    }

    fn tenant(&self) -> &str {
        AmqpFront::at(self.cx.links, self.cx.id).map_or("", |front| &front.tenant)
    }

    #[inline]
    fn answer(&mut self, method: &Method<'_>) {
        let ch = self.ch;
        AmqpFront::write(self.cx.links, self.cx.id, |front, out| {
            front.machine.method(ch, method, out)
        });
    }

    fn about<'a>(&'a self, queue: &'a str, exchange: &'a str, verb: &'static str) -> About<'a> {
        let nobody = About {
            vhost: "/",
            user: "",
            queue,
            exchange,
            verb,
        };
        AmqpFront::at(self.cx.links, self.cx.id)
            .map_or(nobody, |front| front.about(queue, exchange, verb))
    }

    fn about_queue<'a>(&'a self, queue: &'a str, verb: &'static str) -> About<'a> {
        self.about(queue, "", verb)
    }

    fn about_exchange<'a>(&'a self, exchange: &'a str, verb: &'static str) -> About<'a> {
        self.about("", exchange, verb)
    }

    /// A unique name that cannot be guessed.
    fn fresh_name(&mut self, prefix: &str) -> String {
        let Some(front) = self.front() else {
            return String::new();
        };
        front.names += 1;
        let (nonce, count) = (front.nonce, u128::from(front.names));
        address::fresh(prefix, self.cx.kernel.name_key(nonce).name("queue", count))
    }

    /// Ends the channel or the connection, as the code says.
    #[cold]
    fn fail(&mut self, fault: &Fault) {
        let (ch, cause) = (self.ch, self.cause);
        if fault.code.is_hard() {
            return AmqpFront::close(self.cx, fault.code, &fault.what, cause);
        }
        AmqpFront::write(self.cx.links, self.cx.id, |front, out| {
            // What was published before the fault is not lost.
            front.confirm_all(ch, out);
            front
                .machine
                .channel_close(ch, fault.code, &fault.what, cause, out);
        });
        AmqpFront::end_channel(self.cx, ch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_an_idle_connection_with_a_channel_is_small() {
        let bytes = size_of::<AmqpFront>() + size_of::<Channel>() + size_of::<channel::Consumer>();
        assert!(bytes <= 1024, "{bytes}");
    }
}
