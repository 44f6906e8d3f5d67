//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.

pub mod access;
pub mod basic;
pub mod channel;
pub mod confirm;
pub mod connection;
pub mod exchange;
pub mod queue;
mod reply_code;
pub mod tx;

pub use reply_code::ReplyCode;

use crate::codec::{Arguments, DecodeError, MethodId, Sender};

/// Any method with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'b> {
    /// Who the server is and how one may authenticate.
    ConnectionStart(connection::Start<'b>),
    /// Who the client is, and its credentials.
    ConnectionStartOk(connection::StartOk<'b>),
    /// Another step of the SASL mechanism.
    ConnectionSecure(connection::Secure<'b>),
    /// The client's next step of the SASL mechanism.
    ConnectionSecureOk(connection::SecureOk<'b>),
    /// The limits that the server offers.
    ConnectionTune(connection::Tune),
    /// The limits that hold.
    ConnectionTuneOk(connection::TuneOk),
    /// Enter a virtual host.
    ConnectionOpen(connection::Open<'b>),
    /// The connection can be used.
    ConnectionOpenOk(connection::OpenOk),
    /// End the connection and all its channels.
    ConnectionClose(connection::Close<'b>),
    /// The end is confirmed; the socket can be closed.
    ConnectionCloseOk(connection::CloseOk),
    /// Publishing is held back.
    ConnectionBlocked(connection::Blocked<'b>),
    /// Publishes are accepted again.
    ConnectionUnblocked(connection::Unblocked),
    /// Credentials that replace those which expire.
    ConnectionUpdateSecret(connection::UpdateSecret<'b>),
    /// The new credentials hold.
    ConnectionUpdateSecretOk(connection::UpdateSecretOk),
    /// Begin a channel with this number.
    ChannelOpen(channel::Open),
    /// The channel can be used.
    ChannelOpenOk(channel::OpenOk),
    /// Pause or resume content.
    ChannelFlow(channel::Flow),
    /// The flow is as asked.
    ChannelFlowOk(channel::FlowOk),
    /// End the channel; the connection goes on.
    ChannelClose(channel::Close<'b>),
    /// The end of the channel is confirmed; its number is free.
    ChannelCloseOk(channel::CloseOk),
    /// Ask for a ticket to a realm.
    AccessRequest(access::Request<'b>),
    /// Grants a ticket, which nothing checks.
    AccessRequestOk(access::RequestOk),
    /// Make sure that an exchange exists.
    ExchangeDeclare(exchange::Declare<'b>),
    /// The exchange exists as declared.
    ExchangeDeclareOk(exchange::DeclareOk),
    /// Remove an exchange and its bindings.
    ExchangeDelete(exchange::Delete<'b>),
    /// The exchange is gone.
    ExchangeDeleteOk(exchange::DeleteOk),
    /// Let one exchange feed another.
    ExchangeBind(exchange::Bind<'b>),
    /// The binding is in effect.
    ExchangeBindOk(exchange::BindOk),
    /// Remove a binding between exchanges.
    ExchangeUnbind(exchange::Unbind<'b>),
    /// The binding is gone.
    ExchangeUnbindOk(exchange::UnbindOk),
    /// Make sure that a queue exists.
    QueueDeclare(queue::Declare<'b>),
    /// The queue exists as declared.
    QueueDeclareOk(queue::DeclareOk<'b>),
    /// Let an exchange feed a queue.
    QueueBind(queue::Bind<'b>),
    /// The binding is in effect.
    QueueBindOk(queue::BindOk),
    /// Drop the messages that are ready.
    QueuePurge(queue::Purge<'b>),
    /// The messages are gone.
    QueuePurgeOk(queue::PurgeOk),
    /// Remove a queue with its messages.
    QueueDelete(queue::Delete<'b>),
    /// The queue is gone.
    QueueDeleteOk(queue::DeleteOk),
    /// Remove a binding of a queue.
    QueueUnbind(queue::Unbind<'b>),
    /// The binding is gone.
    QueueUnbindOk(queue::UnbindOk),
    /// How much may be under way unsettled.
    BasicQos(basic::Qos),
    /// The limits are in effect.
    BasicQosOk(basic::QosOk),
    /// Have a queue's messages delivered.
    BasicConsume(basic::Consume<'b>),
    /// The consumer exists; deliveries may follow.
    BasicConsumeOk(basic::ConsumeOk<'b>),
    /// End a consumer; RabbitMQ's servers send it too, when the queue is gone.
    BasicCancel(basic::Cancel<'b>),
    /// The consumer is gone.
    BasicCancelOk(basic::CancelOk<'b>),
    /// A message for an exchange.
    BasicPublish(basic::Publish<'b>),
    /// A message that nobody took comes back.
    BasicReturn(basic::Return<'b>),
    /// A message for a consumer.
    BasicDeliver(basic::Deliver<'b>),
    /// One message, if there is one.
    BasicGet(basic::Get<'b>),
    /// The message asked for.
    BasicGetOk(basic::GetOk<'b>),
    /// The queue has no message.
    BasicGetEmpty(basic::GetEmpty),
    /// Settled; from a server: a publish is confirmed.
    BasicAck(basic::Ack),
    /// Reject a delivery: requeue or drop it.
    BasicReject(basic::Reject),
    /// Have everything unsettled delivered again; no answer.
    BasicRecoverAsync(basic::RecoverAsync),
    /// Have everything unsettled delivered again.
    BasicRecover(basic::Recover),
    /// Unsettled deliveries are being redelivered.
    BasicRecoverOk(basic::RecoverOk),
    /// Not taken; from a server: a publish is lost.
    BasicNack(basic::Nack),
    /// Confirm every publish on this channel from now on.
    ConfirmSelect(confirm::Select),
    /// Publishes on this channel are confirmed.
    ConfirmSelectOk(confirm::SelectOk),
    /// Publish and settle in transactions from now on.
    TxSelect(tx::Select),
    /// The channel is transactional.
    TxSelectOk(tx::SelectOk),
    /// Commit the transaction; a new one begins.
    TxCommit(tx::Commit),
    /// The transaction is committed.
    TxCommitOk(tx::CommitOk),
    /// Roll the transaction back; a new one begins.
    TxRollback(tx::Rollback),
    /// The transaction is rolled back.
    TxRollbackOk(tx::RollbackOk),
}

impl<'b> Method<'b> {
    /// The method in the payload of a method frame.
    pub fn decode(payload: &'b [u8]) -> Result<Self, DecodeError> {
        let (id, mut arguments) = Arguments::of_method(payload)?;
        let a = &mut arguments;
        let decoded = match (id.class, id.method) {
            (10, 10) => connection::Start::decode(a).map(Method::ConnectionStart),
            (10, 11) => connection::StartOk::decode(a).map(Method::ConnectionStartOk),
            (10, 20) => connection::Secure::decode(a).map(Method::ConnectionSecure),
            (10, 21) => connection::SecureOk::decode(a).map(Method::ConnectionSecureOk),
            (10, 30) => connection::Tune::decode(a).map(Method::ConnectionTune),
            (10, 31) => connection::TuneOk::decode(a).map(Method::ConnectionTuneOk),
            (10, 40) => connection::Open::decode(a).map(Method::ConnectionOpen),
            (10, 41) => connection::OpenOk::decode(a).map(Method::ConnectionOpenOk),
            (10, 50) => connection::Close::decode(a).map(Method::ConnectionClose),
            (10, 51) => connection::CloseOk::decode(a).map(Method::ConnectionCloseOk),
            (10, 60) => connection::Blocked::decode(a).map(Method::ConnectionBlocked),
            (10, 61) => connection::Unblocked::decode(a).map(Method::ConnectionUnblocked),
            (10, 70) => connection::UpdateSecret::decode(a).map(Method::ConnectionUpdateSecret),
            (10, 71) => connection::UpdateSecretOk::decode(a).map(Method::ConnectionUpdateSecretOk),
            (20, 10) => channel::Open::decode(a).map(Method::ChannelOpen),
            (20, 11) => channel::OpenOk::decode(a).map(Method::ChannelOpenOk),
            (20, 20) => channel::Flow::decode(a).map(Method::ChannelFlow),
            (20, 21) => channel::FlowOk::decode(a).map(Method::ChannelFlowOk),
            (20, 40) => channel::Close::decode(a).map(Method::ChannelClose),
            (20, 41) => channel::CloseOk::decode(a).map(Method::ChannelCloseOk),
            (30, 10) => access::Request::decode(a).map(Method::AccessRequest),
            (30, 11) => access::RequestOk::decode(a).map(Method::AccessRequestOk),
            (40, 10) => exchange::Declare::decode(a).map(Method::ExchangeDeclare),
            (40, 11) => exchange::DeclareOk::decode(a).map(Method::ExchangeDeclareOk),
            (40, 20) => exchange::Delete::decode(a).map(Method::ExchangeDelete),
            (40, 21) => exchange::DeleteOk::decode(a).map(Method::ExchangeDeleteOk),
            (40, 30) => exchange::Bind::decode(a).map(Method::ExchangeBind),
            (40, 31) => exchange::BindOk::decode(a).map(Method::ExchangeBindOk),
            (40, 40) => exchange::Unbind::decode(a).map(Method::ExchangeUnbind),
            (40, 51) => exchange::UnbindOk::decode(a).map(Method::ExchangeUnbindOk),
            (50, 10) => queue::Declare::decode(a).map(Method::QueueDeclare),
            (50, 11) => queue::DeclareOk::decode(a).map(Method::QueueDeclareOk),
            (50, 20) => queue::Bind::decode(a).map(Method::QueueBind),
            (50, 21) => queue::BindOk::decode(a).map(Method::QueueBindOk),
            (50, 30) => queue::Purge::decode(a).map(Method::QueuePurge),
            (50, 31) => queue::PurgeOk::decode(a).map(Method::QueuePurgeOk),
            (50, 40) => queue::Delete::decode(a).map(Method::QueueDelete),
            (50, 41) => queue::DeleteOk::decode(a).map(Method::QueueDeleteOk),
            (50, 50) => queue::Unbind::decode(a).map(Method::QueueUnbind),
            (50, 51) => queue::UnbindOk::decode(a).map(Method::QueueUnbindOk),
            (60, 10) => basic::Qos::decode(a).map(Method::BasicQos),
            (60, 11) => basic::QosOk::decode(a).map(Method::BasicQosOk),
            (60, 20) => basic::Consume::decode(a).map(Method::BasicConsume),
            (60, 21) => basic::ConsumeOk::decode(a).map(Method::BasicConsumeOk),
            (60, 30) => basic::Cancel::decode(a).map(Method::BasicCancel),
            (60, 31) => basic::CancelOk::decode(a).map(Method::BasicCancelOk),
            (60, 40) => basic::Publish::decode(a).map(Method::BasicPublish),
            (60, 50) => basic::Return::decode(a).map(Method::BasicReturn),
            (60, 60) => basic::Deliver::decode(a).map(Method::BasicDeliver),
            (60, 70) => basic::Get::decode(a).map(Method::BasicGet),
            (60, 71) => basic::GetOk::decode(a).map(Method::BasicGetOk),
            (60, 72) => basic::GetEmpty::decode(a).map(Method::BasicGetEmpty),
            (60, 80) => basic::Ack::decode(a).map(Method::BasicAck),
            (60, 90) => basic::Reject::decode(a).map(Method::BasicReject),
            (60, 100) => basic::RecoverAsync::decode(a).map(Method::BasicRecoverAsync),
            (60, 110) => basic::Recover::decode(a).map(Method::BasicRecover),
            (60, 111) => basic::RecoverOk::decode(a).map(Method::BasicRecoverOk),
            (60, 120) => basic::Nack::decode(a).map(Method::BasicNack),
            (85, 10) => confirm::Select::decode(a).map(Method::ConfirmSelect),
            (85, 11) => confirm::SelectOk::decode(a).map(Method::ConfirmSelectOk),
            (90, 10) => tx::Select::decode(a).map(Method::TxSelect),
            (90, 11) => tx::SelectOk::decode(a).map(Method::TxSelectOk),
            (90, 20) => tx::Commit::decode(a).map(Method::TxCommit),
            (90, 21) => tx::CommitOk::decode(a).map(Method::TxCommitOk),
            (90, 30) => tx::Rollback::decode(a).map(Method::TxRollback),
            (90, 31) => tx::RollbackOk::decode(a).map(Method::TxRollbackOk),
            _ => return Err(DecodeError::Unknown(id)),
        };
        match decoded.and_then(|method| a.end().map(|()| method)) {
            Ok(method) => Ok(method),
            Err(what) => Err(DecodeError::Malformed { id, what }),
        }
    }

    /// Appends the payload of a method frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Method::ConnectionStart(m) => m.encode(out),
            Method::ConnectionStartOk(m) => m.encode(out),
            Method::ConnectionSecure(m) => m.encode(out),
            Method::ConnectionSecureOk(m) => m.encode(out),
            Method::ConnectionTune(m) => m.encode(out),
            Method::ConnectionTuneOk(m) => m.encode(out),
            Method::ConnectionOpen(m) => m.encode(out),
            Method::ConnectionOpenOk(m) => m.encode(out),
            Method::ConnectionClose(m) => m.encode(out),
            Method::ConnectionCloseOk(m) => m.encode(out),
            Method::ConnectionBlocked(m) => m.encode(out),
            Method::ConnectionUnblocked(m) => m.encode(out),
            Method::ConnectionUpdateSecret(m) => m.encode(out),
            Method::ConnectionUpdateSecretOk(m) => m.encode(out),
            Method::ChannelOpen(m) => m.encode(out),
            Method::ChannelOpenOk(m) => m.encode(out),
            Method::ChannelFlow(m) => m.encode(out),
            Method::ChannelFlowOk(m) => m.encode(out),
            Method::ChannelClose(m) => m.encode(out),
            Method::ChannelCloseOk(m) => m.encode(out),
            Method::AccessRequest(m) => m.encode(out),
            Method::AccessRequestOk(m) => m.encode(out),
            Method::ExchangeDeclare(m) => m.encode(out),
            Method::ExchangeDeclareOk(m) => m.encode(out),
            Method::ExchangeDelete(m) => m.encode(out),
            Method::ExchangeDeleteOk(m) => m.encode(out),
            Method::ExchangeBind(m) => m.encode(out),
            Method::ExchangeBindOk(m) => m.encode(out),
            Method::ExchangeUnbind(m) => m.encode(out),
            Method::ExchangeUnbindOk(m) => m.encode(out),
            Method::QueueDeclare(m) => m.encode(out),
            Method::QueueDeclareOk(m) => m.encode(out),
            Method::QueueBind(m) => m.encode(out),
            Method::QueueBindOk(m) => m.encode(out),
            Method::QueuePurge(m) => m.encode(out),
            Method::QueuePurgeOk(m) => m.encode(out),
            Method::QueueDelete(m) => m.encode(out),
            Method::QueueDeleteOk(m) => m.encode(out),
            Method::QueueUnbind(m) => m.encode(out),
            Method::QueueUnbindOk(m) => m.encode(out),
            Method::BasicQos(m) => m.encode(out),
            Method::BasicQosOk(m) => m.encode(out),
            Method::BasicConsume(m) => m.encode(out),
            Method::BasicConsumeOk(m) => m.encode(out),
            Method::BasicCancel(m) => m.encode(out),
            Method::BasicCancelOk(m) => m.encode(out),
            Method::BasicPublish(m) => m.encode(out),
            Method::BasicReturn(m) => m.encode(out),
            Method::BasicDeliver(m) => m.encode(out),
            Method::BasicGet(m) => m.encode(out),
            Method::BasicGetOk(m) => m.encode(out),
            Method::BasicGetEmpty(m) => m.encode(out),
            Method::BasicAck(m) => m.encode(out),
            Method::BasicReject(m) => m.encode(out),
            Method::BasicRecoverAsync(m) => m.encode(out),
            Method::BasicRecover(m) => m.encode(out),
            Method::BasicRecoverOk(m) => m.encode(out),
            Method::BasicNack(m) => m.encode(out),
            Method::ConfirmSelect(m) => m.encode(out),
            Method::ConfirmSelectOk(m) => m.encode(out),
            Method::TxSelect(m) => m.encode(out),
            Method::TxSelectOk(m) => m.encode(out),
            Method::TxCommit(m) => m.encode(out),
            Method::TxCommitOk(m) => m.encode(out),
            Method::TxRollback(m) => m.encode(out),
            Method::TxRollbackOk(m) => m.encode(out),
        }
    }

    /// Class and method id.
    pub const fn id(&self) -> MethodId {
        match self {
            Method::ConnectionStart(_) => connection::Start::ID,
            Method::ConnectionStartOk(_) => connection::StartOk::ID,
            Method::ConnectionSecure(_) => connection::Secure::ID,
            Method::ConnectionSecureOk(_) => connection::SecureOk::ID,
            Method::ConnectionTune(_) => connection::Tune::ID,
            Method::ConnectionTuneOk(_) => connection::TuneOk::ID,
            Method::ConnectionOpen(_) => connection::Open::ID,
            Method::ConnectionOpenOk(_) => connection::OpenOk::ID,
            Method::ConnectionClose(_) => connection::Close::ID,
            Method::ConnectionCloseOk(_) => connection::CloseOk::ID,
            Method::ConnectionBlocked(_) => connection::Blocked::ID,
            Method::ConnectionUnblocked(_) => connection::Unblocked::ID,
            Method::ConnectionUpdateSecret(_) => connection::UpdateSecret::ID,
            Method::ConnectionUpdateSecretOk(_) => connection::UpdateSecretOk::ID,
            Method::ChannelOpen(_) => channel::Open::ID,
            Method::ChannelOpenOk(_) => channel::OpenOk::ID,
            Method::ChannelFlow(_) => channel::Flow::ID,
            Method::ChannelFlowOk(_) => channel::FlowOk::ID,
            Method::ChannelClose(_) => channel::Close::ID,
            Method::ChannelCloseOk(_) => channel::CloseOk::ID,
            Method::AccessRequest(_) => access::Request::ID,
            Method::AccessRequestOk(_) => access::RequestOk::ID,
            Method::ExchangeDeclare(_) => exchange::Declare::ID,
            Method::ExchangeDeclareOk(_) => exchange::DeclareOk::ID,
            Method::ExchangeDelete(_) => exchange::Delete::ID,
            Method::ExchangeDeleteOk(_) => exchange::DeleteOk::ID,
            Method::ExchangeBind(_) => exchange::Bind::ID,
            Method::ExchangeBindOk(_) => exchange::BindOk::ID,
            Method::ExchangeUnbind(_) => exchange::Unbind::ID,
            Method::ExchangeUnbindOk(_) => exchange::UnbindOk::ID,
            Method::QueueDeclare(_) => queue::Declare::ID,
            Method::QueueDeclareOk(_) => queue::DeclareOk::ID,
            Method::QueueBind(_) => queue::Bind::ID,
            Method::QueueBindOk(_) => queue::BindOk::ID,
            Method::QueuePurge(_) => queue::Purge::ID,
            Method::QueuePurgeOk(_) => queue::PurgeOk::ID,
            Method::QueueDelete(_) => queue::Delete::ID,
            Method::QueueDeleteOk(_) => queue::DeleteOk::ID,
            Method::QueueUnbind(_) => queue::Unbind::ID,
            Method::QueueUnbindOk(_) => queue::UnbindOk::ID,
            Method::BasicQos(_) => basic::Qos::ID,
            Method::BasicQosOk(_) => basic::QosOk::ID,
            Method::BasicConsume(_) => basic::Consume::ID,
            Method::BasicConsumeOk(_) => basic::ConsumeOk::ID,
            Method::BasicCancel(_) => basic::Cancel::ID,
            Method::BasicCancelOk(_) => basic::CancelOk::ID,
            Method::BasicPublish(_) => basic::Publish::ID,
            Method::BasicReturn(_) => basic::Return::ID,
            Method::BasicDeliver(_) => basic::Deliver::ID,
            Method::BasicGet(_) => basic::Get::ID,
            Method::BasicGetOk(_) => basic::GetOk::ID,
            Method::BasicGetEmpty(_) => basic::GetEmpty::ID,
            Method::BasicAck(_) => basic::Ack::ID,
            Method::BasicReject(_) => basic::Reject::ID,
            Method::BasicRecoverAsync(_) => basic::RecoverAsync::ID,
            Method::BasicRecover(_) => basic::Recover::ID,
            Method::BasicRecoverOk(_) => basic::RecoverOk::ID,
            Method::BasicNack(_) => basic::Nack::ID,
            Method::ConfirmSelect(_) => confirm::Select::ID,
            Method::ConfirmSelectOk(_) => confirm::SelectOk::ID,
            Method::TxSelect(_) => tx::Select::ID,
            Method::TxSelectOk(_) => tx::SelectOk::ID,
            Method::TxCommit(_) => tx::Commit::ID,
            Method::TxCommitOk(_) => tx::CommitOk::ID,
            Method::TxRollback(_) => tx::Rollback::ID,
            Method::TxRollbackOk(_) => tx::RollbackOk::ID,
        }
    }

    pub(crate) const fn sender(&self) -> Sender {
        match self {
            Method::ConnectionStartOk(_)
            | Method::ConnectionSecureOk(_)
            | Method::ConnectionTuneOk(_)
            | Method::ConnectionOpen(_)
            | Method::ConnectionUpdateSecret(_)
            | Method::ChannelOpen(_)
            | Method::AccessRequest(_)
            | Method::ExchangeDeclare(_)
            | Method::ExchangeDelete(_)
            | Method::ExchangeBind(_)
            | Method::ExchangeUnbind(_)
            | Method::QueueDeclare(_)
            | Method::QueueBind(_)
            | Method::QueuePurge(_)
            | Method::QueueDelete(_)
            | Method::QueueUnbind(_)
            | Method::BasicQos(_)
            | Method::BasicConsume(_)
            | Method::BasicPublish(_)
            | Method::BasicGet(_)
            | Method::BasicReject(_)
            | Method::BasicRecoverAsync(_)
            | Method::BasicRecover(_)
            | Method::ConfirmSelect(_)
            | Method::TxSelect(_)
            | Method::TxCommit(_)
            | Method::TxRollback(_) => Sender::Client,
            Method::ConnectionStart(_)
            | Method::ConnectionSecure(_)
            | Method::ConnectionTune(_)
            | Method::ConnectionOpenOk(_)
            | Method::ConnectionBlocked(_)
            | Method::ConnectionUnblocked(_)
            | Method::ConnectionUpdateSecretOk(_)
            | Method::ChannelOpenOk(_)
            | Method::AccessRequestOk(_)
            | Method::ExchangeDeclareOk(_)
            | Method::ExchangeDeleteOk(_)
            | Method::ExchangeBindOk(_)
            | Method::ExchangeUnbindOk(_)
            | Method::QueueDeclareOk(_)
            | Method::QueueBindOk(_)
            | Method::QueuePurgeOk(_)
            | Method::QueueDeleteOk(_)
            | Method::QueueUnbindOk(_)
            | Method::BasicQosOk(_)
            | Method::BasicConsumeOk(_)
            | Method::BasicReturn(_)
            | Method::BasicDeliver(_)
            | Method::BasicGetOk(_)
            | Method::BasicGetEmpty(_)
            | Method::BasicRecoverOk(_)
            | Method::ConfirmSelectOk(_)
            | Method::TxSelectOk(_)
            | Method::TxCommitOk(_)
            | Method::TxRollbackOk(_) => Sender::Server,
            Method::ConnectionClose(_)
            | Method::ConnectionCloseOk(_)
            | Method::ChannelFlow(_)
            | Method::ChannelFlowOk(_)
            | Method::ChannelClose(_)
            | Method::ChannelCloseOk(_)
            | Method::BasicCancel(_)
            | Method::BasicCancelOk(_)
            | Method::BasicAck(_)
            | Method::BasicNack(_) => Sender::Both,
        }
    }

    /// Whether a content header and body follow.
    #[inline]
    pub const fn has_content(&self) -> bool {
        matches!(
            self,
            Method::BasicPublish(_)
                | Method::BasicReturn(_)
                | Method::BasicDeliver(_)
                | Method::BasicGetOk(_)
        )
    }
}

/// The names of all methods, in the order of ids.
#[rustfmt::skip]
pub(crate) const NAMES: &[(MethodId, &str)] = &[
    (MethodId::new(10, 10), "connection.start"),
    (MethodId::new(10, 11), "connection.start-ok"),
    (MethodId::new(10, 20), "connection.secure"),
    (MethodId::new(10, 21), "connection.secure-ok"),
    (MethodId::new(10, 30), "connection.tune"),
    (MethodId::new(10, 31), "connection.tune-ok"),
    (MethodId::new(10, 40), "connection.open"),
    (MethodId::new(10, 41), "connection.open-ok"),
    (MethodId::new(10, 50), "connection.close"),
    (MethodId::new(10, 51), "connection.close-ok"),
    (MethodId::new(10, 60), "connection.blocked"),
    (MethodId::new(10, 61), "connection.unblocked"),
    (MethodId::new(10, 70), "connection.update-secret"),
    (MethodId::new(10, 71), "connection.update-secret-ok"),
    (MethodId::new(20, 10), "channel.open"),
    (MethodId::new(20, 11), "channel.open-ok"),
    (MethodId::new(20, 20), "channel.flow"),
    (MethodId::new(20, 21), "channel.flow-ok"),
    (MethodId::new(20, 40), "channel.close"),
    (MethodId::new(20, 41), "channel.close-ok"),
    (MethodId::new(30, 10), "access.request"),
    (MethodId::new(30, 11), "access.request-ok"),
    (MethodId::new(40, 10), "exchange.declare"),
    (MethodId::new(40, 11), "exchange.declare-ok"),
    (MethodId::new(40, 20), "exchange.delete"),
    (MethodId::new(40, 21), "exchange.delete-ok"),
    (MethodId::new(40, 30), "exchange.bind"),
    (MethodId::new(40, 31), "exchange.bind-ok"),
    (MethodId::new(40, 40), "exchange.unbind"),
    (MethodId::new(40, 51), "exchange.unbind-ok"),
    (MethodId::new(50, 10), "queue.declare"),
    (MethodId::new(50, 11), "queue.declare-ok"),
    (MethodId::new(50, 20), "queue.bind"),
    (MethodId::new(50, 21), "queue.bind-ok"),
    (MethodId::new(50, 30), "queue.purge"),
    (MethodId::new(50, 31), "queue.purge-ok"),
    (MethodId::new(50, 40), "queue.delete"),
    (MethodId::new(50, 41), "queue.delete-ok"),
    (MethodId::new(50, 50), "queue.unbind"),
    (MethodId::new(50, 51), "queue.unbind-ok"),
    (MethodId::new(60, 10), "basic.qos"),
    (MethodId::new(60, 11), "basic.qos-ok"),
    (MethodId::new(60, 20), "basic.consume"),
    (MethodId::new(60, 21), "basic.consume-ok"),
    (MethodId::new(60, 30), "basic.cancel"),
    (MethodId::new(60, 31), "basic.cancel-ok"),
    (MethodId::new(60, 40), "basic.publish"),
    (MethodId::new(60, 50), "basic.return"),
    (MethodId::new(60, 60), "basic.deliver"),
    (MethodId::new(60, 70), "basic.get"),
    (MethodId::new(60, 71), "basic.get-ok"),
    (MethodId::new(60, 72), "basic.get-empty"),
    (MethodId::new(60, 80), "basic.ack"),
    (MethodId::new(60, 90), "basic.reject"),
    (MethodId::new(60, 100), "basic.recover-async"),
    (MethodId::new(60, 110), "basic.recover"),
    (MethodId::new(60, 111), "basic.recover-ok"),
    (MethodId::new(60, 120), "basic.nack"),
    (MethodId::new(85, 10), "confirm.select"),
    (MethodId::new(85, 11), "confirm.select-ok"),
    (MethodId::new(90, 10), "tx.select"),
    (MethodId::new(90, 11), "tx.select-ok"),
    (MethodId::new(90, 20), "tx.commit"),
    (MethodId::new(90, 21), "tx.commit-ok"),
    (MethodId::new(90, 30), "tx.rollback"),
    (MethodId::new(90, 31), "tx.rollback-ok"),
];
