//! One file per frame: what it says when it is read, beside how it is written.

mod ack;
mod connect;
mod connected;
pub(crate) mod disconnect;
mod error;
mod message;
mod send;
pub(crate) mod subscribe;
pub(crate) mod transaction;

pub use ack::{AckFrame, AckOut, AckTarget};
pub use connect::{ConnectFrame, ConnectOut};
pub use connected::{ConnectedFrame, ConnectedOut};
pub use disconnect::DisconnectFrame;
pub use error::{ErrorFrame, ErrorOut};
pub use message::{MessageFrame, MessageOut};
pub use send::{SendFrame, SendOut};
pub use subscribe::{AckMode, SubscribeFrame, SubscribeOut, UnsubscribeFrame};
pub use transaction::TransactionFrame;
