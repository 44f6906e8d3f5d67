//! The packets: one file each, decode beside encode.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod publish;
mod suback;
mod subscribe;
mod unsubscribe;

pub use ack::Info;
pub use auth::Auth;
pub use connack::ConnAck;
pub use connect::{Connect, ConnectOut, Peek, Will, WillOut, peek_connect};
pub use disconnect::{Disconnect, DisconnectProps};
pub use publish::{Publish, PublishOut, TopicRef};
pub use suback::SubAck;
pub use subscribe::{RetainHandling, Subscribe, SubscribeFilters, SubscribeOptions, SubscribeOut};
pub use unsubscribe::{Unsubscribe, UnsubscribeFilters, UnsubscribeOut};
