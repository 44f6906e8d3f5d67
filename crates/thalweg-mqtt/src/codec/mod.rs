//! The packets: one file each, decode beside encode.

pub(crate) mod ack;
pub(crate) mod auth;
pub(crate) mod connack;
pub(crate) mod connect;
pub(crate) mod disconnect;
pub(crate) mod frame;
pub(crate) mod ping;
pub(crate) mod publish;
pub(crate) mod suback;
pub(crate) mod subscribe;
pub(crate) mod unsubscribe;

pub use ack::Info;
pub use auth::Auth;
pub use connack::ConnAck;
pub use connect::{Connect, ConnectOut, Peek, Will, WillOut, peek_connect};
pub use disconnect::{Disconnect, DisconnectProps};
pub use ping::PingReq;
pub use publish::{Publish, PublishOut, TopicRef};
pub use suback::SubAck;
pub use subscribe::{RetainHandling, Subscribe, SubscribeFilters, SubscribeOptions, SubscribeOut};
pub use unsubscribe::{Unsubscribe, UnsubscribeFilters, UnsubscribeOut};
