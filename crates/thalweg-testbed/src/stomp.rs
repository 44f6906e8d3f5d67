//! Clients of STOMP.

use crate::bed::Testbed;
use crate::client::{Client, Who};
use std::collections::VecDeque;
use thalweg_fronts::AnyFront;
use thalweg_fronts::stomp::StompFront;
use thalweg_kernel::access::Access;
use thalweg_stomp::{AckOut, ClientEvent, ClientSide, ConnectOut, FrameLimits, Version};

/// A frame of the broker that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerFrame {
    Connected {
        version: Version,
        heart_beat: (u32, u32),
    },
    Receipt(String),
    Error {
        message: String,
        receipt: Option<String>,
        body: String,
    },
    HeartBeat,
}

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub subscription: Option<String>,
    pub message_id: String,
    pub ack: Option<String>,
    pub destination: String,
    pub redelivered: bool,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn ack_in<'a>(&'a self, transaction: Option<&'a str>) -> AckOut<'a> {
        AckOut {
            ack: self.ack.as_deref().unwrap_or_default(),
            message_id: &self.message_id,
            subscription: self.subscription.as_deref(),
            transaction,
            receipt: None,
        }
    }
}

pub struct Stomp {
    pub side: ClientSide,
    pub got: VecDeque<Got>,
    pub heard: VecDeque<ServerFrame>,
    receipts: u32,
}

impl Default for Stomp {
    fn default() -> Self {
        Stomp {
            side: ClientSide::new(FrameLimits::default()),
            got: VecDeque::new(),
            heard: VecDeque::new(),
            receipts: 0,
        }
    }
}

impl Stomp {
    /// A name for a receipt that was not used before.
    pub fn next_receipt(&mut self) -> String {
        self.receipts += 1;
        format!("r{}", self.receipts)
    }
}

impl Client for Stomp {
    fn receive(&mut self, down: &mut Vec<u8>, _: &mut Vec<u8>) {
        let mut used = 0;
        loop {
            let event = match self.side.handle_input(&down[used..]) {
                Ok(Some((consumed, event))) => {
                    used += consumed;
                    event
                }
                Ok(None) => break,
                Err(fault) => panic!("the broker breaks STOMP: {fault}"),
            };
            match event {
                ClientEvent::Connected(connected) => self.heard.push_back(ServerFrame::Connected {
                    version: connected.version,
                    heart_beat: connected.heart_beat,
                }),
                ClientEvent::Message(message) => self.got.push_back(Got {
                    subscription: message.subscription.map(Into::into),
                    message_id: message.message_id.into(),
                    ack: message.ack.map(Into::into),
                    destination: message.destination.into(),
                    redelivered: message.redelivered,
                    headers: message
                        .headers
                        .iter()
                        .map(|(name, value)| (name.into(), value.into()))
                        .collect(),
                    body: message.body.to_vec(),
                }),
                ClientEvent::Receipt(receipt) => {
                    self.heard.push_back(ServerFrame::Receipt(receipt.into()))
                }
                ClientEvent::Error(error) => self.heard.push_back(ServerFrame::Error {
                    message: error.message.unwrap_or_default().into(),
                    receipt: error.receipt_id.map(Into::into),
                    body: String::from_utf8_lossy(error.body).into(),
                }),
                ClientEvent::HeartBeat => self.heard.push_back(ServerFrame::HeartBeat),
            }
        }
        down.drain(..used);
    }
}

impl Testbed {
    pub fn stomp_front(&mut self, anonymous: Option<Access>) -> AnyFront {
        let nonce = self.next_nonce();
        let front = StompFront::new(self.settings.stomp.clone(), nonce, anonymous);
        front.into()
    }

    /// Opens a connection and sends CONNECT. Without `anonymous` the broker asks who it is.
    pub fn open_stomp(
        &mut self,
        connect: &ConnectOut<'_>,
        anonymous: Option<Access>,
    ) -> Who<Stomp> {
        let front = self.stomp_front(anonymous);
        let who = self.open(self.queue_shard(), front, Stomp::default());
        self.write(who, |client, up| client.side.connect(connect, up));
        who
    }
}
