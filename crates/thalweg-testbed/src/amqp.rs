//! Clients of AMQP 0-9-1.

use crate::bed::Testbed;
use crate::client::{Client, Who};
use std::collections::VecDeque;
use thalweg_amqp::methods::{basic, confirm, connection};
use thalweg_amqp::{
    BasicProperties, ClientEvent, ClientSide, ContentHeader, FieldValue, Gathered, Method,
    ServerOffer, Table, TableWriter,
};
use thalweg_fronts::AnyFront;
use thalweg_fronts::amqp::AmqpFront;
use thalweg_kernel::access::Access;

/// A method of the broker that carries no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMethod {
    Start {
        mechanisms: String,
        product: String,
        version: String,
    },
    Tuned,
    Opened,
    ChannelOpened(u16),
    ChannelClosed {
        ch: u16,
        code: u16,
        text: String,
    },
    ChannelCloseConfirmed(u16),
    Closed {
        code: u16,
        text: String,
    },
    CloseConfirmed,
    Blocked(String),
    Unblocked,
    SecretUpdated,
    Heartbeat,
    Declared {
        queue: String,
        messages: u32,
        consumers: u32,
    },
    Count(u32),
    Consuming(String),
    Cancelled(String),
    Empty,
    Ack {
        tag: u64,
        multiple: bool,
    },
    Nack {
        tag: u64,
    },
    /// An answer that says nothing but that it is done.
    Done(&'static str),
}

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub ch: u16,
    /// The consumer; nothing for the answer to a get.
    pub consumer: Option<String>,
    pub tag: u64,
    pub redelivered: bool,
    pub exchange: String,
    pub key: String,
    pub header: Vec<u8>,
    pub body: Vec<u8>,
    /// It came back, with this code.
    pub returned: Option<u16>,
    /// Messages behind it, of a get.
    pub left: u32,
}

impl Got {
    pub fn properties(&self) -> BasicProperties<'_> {
        BasicProperties::of_header(&self.header).expect("a server's header is well-formed")
    }

    pub fn headers(&self) -> Table<'_> {
        self.properties().headers.unwrap_or_default()
    }

    /// A header that is text.
    pub fn header_text(&self, name: &str) -> Option<String> {
        self.headers().get(name)?.as_str().map(Into::into)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// Options of a client's connection.
#[derive(Clone)]
pub struct Hello<'a> {
    pub mechanism: &'a str,
    pub response: Vec<u8>,
    pub vhost: &'a str,
    pub capabilities: &'a [&'a str],
    pub heartbeat: u16,
    /// A channel that is opened at once, and again when the broker closes it; 0 for none.
    pub channel: u16,
}

impl Default for Hello<'_> {
    fn default() -> Self {
        Hello {
            mechanism: "PLAIN",
            response: b"\0guest\0guest".to_vec(),
            vhost: "/",
            capabilities: &[
                "consumer_cancel_notify",
                "connection.blocked",
                "authentication_failure_close",
                "basic.nack",
            ],
            heartbeat: 0,
            channel: 0,
        }
    }
}

/// A client that goes through the handshake and confirms what the broker closes by itself.
pub struct Amqp {
    pub side: ClientSide,
    pub got: VecDeque<Got>,
    pub said: VecDeque<ServerMethod>,
    hello: Hello<'static>,
    frame_max: u32,
}

impl Amqp {
    pub fn new(hello: &Hello<'static>, frame_max: u32) -> Self {
        Amqp {
            side: ClientSide::new(frame_max, 64 << 20),
            got: VecDeque::new(),
            said: VecDeque::new(),
            hello: hello.clone(),
            frame_max,
        }
    }

    fn start(&mut self, up: &mut Vec<u8>) {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.table("capabilities", |table| {
            for capability in self.hello.capabilities {
                table.bool(capability, true);
            }
        });
        let (mechanism, response) = (self.hello.mechanism, &self.hello.response);
        self.side.start_ok(writer.finish(), mechanism, response, up);
    }

    fn tune(&mut self, up: &mut Vec<u8>) {
        let offer = ServerOffer {
            channel_max: 2047,
            frame_max: self.frame_max,
            heartbeat: self.hello.heartbeat,
        };
        self.side.tune_ok(offer, up);
        self.side.open(self.hello.vhost, up);
    }

    fn open_channel(&mut self, ch: u16, up: &mut Vec<u8>) {
        if ch != 0 && ch == self.hello.channel {
            self.side.channel_open(ch, up);
        }
    }
}

impl Client for Amqp {
    fn receive(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>) {
        let mut used = 0;
        loop {
            let mut gathered = Gathered::default();
            let event = match self.side.handle_input(&down[used..], &mut gathered) {
                Ok(Some((consumed, event))) => {
                    used += consumed;
                    event
                }
                Ok(None) => break,
                Err(fault) => panic!("the broker breaks AMQP: {fault}"),
            };
            let said = match event {
                ClientEvent::Content {
                    ch,
                    method,
                    payload,
                    header,
                    ..
                } => {
                    self.got.push_back(got(ch, method, payload, header));
                    continue;
                }
                ClientEvent::Consumed => continue,
                ClientEvent::Start(start) => {
                    let said = ServerMethod::Start {
                        mechanisms: String::from_utf8_lossy(start.mechanisms).into_owned(),
                        product: text(start.server_properties, "product"),
                        version: text(start.server_properties, "version"),
                    };
                    self.start(up);
                    said
                }
                ClientEvent::Tune(_) => {
                    self.tune(up);
                    ServerMethod::Tuned
                }
                ClientEvent::OpenOk => {
                    self.open_channel(self.hello.channel, up);
                    ServerMethod::Opened
                }
                ClientEvent::CloseConnection { code, text, .. } => {
                    let said = ServerMethod::Closed {
                        code,
                        text: text.into(),
                    };
                    self.side.close_ok(up);
                    said
                }
                ClientEvent::CloseConnectionOk => ServerMethod::CloseConfirmed,
                ClientEvent::UpdateSecretOk => ServerMethod::SecretUpdated,
                ClientEvent::Blocked { reason } => ServerMethod::Blocked(reason.into()),
                ClientEvent::Unblocked => ServerMethod::Unblocked,
                ClientEvent::ChannelOpenOk(ch) => ServerMethod::ChannelOpened(ch),
                ClientEvent::ChannelClose { ch, code, text, .. } => {
                    let said = ServerMethod::ChannelClosed {
                        ch,
                        code,
                        text: text.into(),
                    };
                    self.side.channel_close_ok(ch, up);
                    self.open_channel(ch, up);
                    said
                }
                ClientEvent::ChannelCloseOk(ch) => ServerMethod::ChannelCloseConfirmed(ch),
                ClientEvent::Heartbeat => ServerMethod::Heartbeat,
                ClientEvent::Method { method, .. } => said(method),
                other => panic!("{other:?}"),
            };
            self.said.push_back(said);
        }
        down.drain(..used);
    }
}

impl Testbed {
    pub fn amqp_front(&mut self, anonymous: Option<Access>) -> AnyFront {
        let nonce = self.next_nonce();
        let front = AmqpFront::new(self.settings.amqp.clone(), nonce, anonymous);
        front.into()
    }

    /// Opens a connection and sends the protocol header. Without `anonymous` the broker asks who it is.
    pub fn open_amqp(&mut self, hello: &Hello<'static>, anonymous: Option<Access>) -> Who<Amqp> {
        let front = self.amqp_front(anonymous);
        let client = Amqp::new(hello, self.settings.amqp.frame_max);
        let who = self.open(self.queue_shard(), front, client);
        self.write(who, |client, up| client.side.connect(up));
        who
    }

    /// Calls a method on channel 1.
    pub fn amqp_call(&mut self, who: Who<Amqp>, method: &Method<'_>) {
        self.says(who, |client, up| client.side.method(1, method, up));
    }

    /// Publishes on channel 1.
    pub fn amqp_publish(
        &mut self,
        who: Who<Amqp>,
        publish: &basic::Publish<'_>,
        properties: &BasicProperties<'_>,
        body: &[u8],
    ) {
        let header = ContentHeader::Properties(properties);
        self.says(who, |client, up| {
            let sent = client.side.publish(1, publish, header, body, up);
            sent.expect("it fits");
        });
    }
}

fn text(table: Table<'_>, name: &str) -> String {
    table
        .get(name)
        .and_then(|value: FieldValue<'_>| value.as_str())
        .unwrap_or_default()
        .into()
}

fn said(method: Method<'_>) -> ServerMethod {
    match method {
        Method::QueueDeclareOk(ok) => ServerMethod::Declared {
            queue: ok.queue.into(),
            messages: ok.message_count,
            consumers: ok.consumer_count,
        },
        Method::QueuePurgeOk(ok) => ServerMethod::Count(ok.message_count),
        Method::QueueDeleteOk(ok) => ServerMethod::Count(ok.message_count),
        Method::BasicConsumeOk(ok) => ServerMethod::Consuming(ok.consumer_tag.into()),
        Method::BasicCancelOk(ok) => ServerMethod::Cancelled(ok.consumer_tag.into()),
        Method::BasicCancel(cancel) => ServerMethod::Cancelled(cancel.consumer_tag.into()),
        Method::BasicGetEmpty(_) => ServerMethod::Empty,
        Method::BasicAck(ack) => ServerMethod::Ack {
            tag: ack.delivery_tag,
            multiple: ack.multiple,
        },
        Method::BasicNack(nack) => ServerMethod::Nack {
            tag: nack.delivery_tag,
        },
        Method::ExchangeDeclareOk(_) => ServerMethod::Done("exchange.declare-ok"),
        Method::ExchangeDeleteOk(_) => ServerMethod::Done("exchange.delete-ok"),
        Method::ExchangeBindOk(_) => ServerMethod::Done("exchange.bind-ok"),
        Method::ExchangeUnbindOk(_) => ServerMethod::Done("exchange.unbind-ok"),
        Method::QueueBindOk(_) => ServerMethod::Done("queue.bind-ok"),
        Method::QueueUnbindOk(_) => ServerMethod::Done("queue.unbind-ok"),
        Method::BasicQosOk(_) => ServerMethod::Done("basic.qos-ok"),
        Method::BasicRecoverOk(_) => ServerMethod::Done("basic.recover-ok"),
        Method::ConfirmSelectOk(confirm::SelectOk) => ServerMethod::Done("confirm.select-ok"),
        Method::TxSelectOk(_) => ServerMethod::Done("tx.select-ok"),
        Method::TxCommitOk(_) => ServerMethod::Done("tx.commit-ok"),
        Method::TxRollbackOk(_) => ServerMethod::Done("tx.rollback-ok"),
        Method::ChannelFlowOk(_) => ServerMethod::Done("channel.flow-ok"),
        Method::ConnectionClose(connection::Close {
            reply_code,
            reply_text,
            ..
        }) => ServerMethod::Closed {
            code: reply_code,
            text: reply_text.into(),
        },
        other => panic!("{other:?}"),
    }
}

fn got(ch: u16, method: Method<'_>, payload: &[u8], header: &[u8]) -> Got {
    let nothing = Got {
        ch,
        consumer: None,
        tag: 0,
        redelivered: false,
        exchange: String::new(),
        key: String::new(),
        header: header.to_vec(),
        body: payload.to_vec(),
        returned: None,
        left: 0,
    };
    match method {
        Method::BasicDeliver(deliver) => Got {
            consumer: Some(deliver.consumer_tag.into()),
            tag: deliver.delivery_tag,
            redelivered: deliver.redelivered,
            exchange: deliver.exchange.into(),
            key: deliver.routing_key.into(),
            ..nothing
        },
        Method::BasicGetOk(ok) => Got {
            tag: ok.delivery_tag,
            redelivered: ok.redelivered,
            exchange: ok.exchange.into(),
            key: ok.routing_key.into(),
            left: ok.message_count,
            ..nothing
        },
        Method::BasicReturn(back) => Got {
            returned: Some(back.reply_code),
            exchange: back.exchange.into(),
            key: back.routing_key.into(),
            ..nothing
        },
        other => panic!("{other:?}"),
    }
}
