//! A stage without sockets: AMQP clients, and a few of MQTT, in front of one broker of one shard. A client says one thing
//! at a time, after which everything comes to rest.

use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_amqp::methods::{basic, confirm, connection, exchange, queue};
use thalweg_amqp::{
    BasicProperties, ClientEvent, ClientSide, ContentHeader, FieldValue, Gathered, Method, Table,
    TableWriter,
};
use thalweg_fronts::amqp::{AmqpFront, AmqpSettings};
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginAsk, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId};
use thalweg_model::{Span, Time};

/// 2026, so that moments can be told from lengths of time.
const START: Time = Time::from_secs(1_795_000_000);

/// An AMQP client that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(usize);

/// An MQTT client that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other(usize);

/// What a server says that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
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

struct Pipe {
    link: Option<LinkId>,
    up: Vec<u8>,
    down: Vec<u8>,
    stalled: bool,
}

struct Client {
    pipe: usize,
    machine: ClientSide,
    got: VecDeque<Got>,
    said: VecDeque<Said>,
}

/// What an MQTT client got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub topic: String,
    pub payload: Vec<u8>,
    pub content_type: Option<String>,
    pub response_topic: Option<String>,
    pub correlation: Option<Vec<u8>>,
    pub user: Vec<(String, String)>,
    pub expiry_secs: Option<u32>,
}

struct Device {
    pipe: usize,
    machine: thalweg_mqtt::ClientSide,
    got: VecDeque<Received>,
    ids: u16,
}

/// How a client comes in.
#[derive(Clone)]
pub struct Hello<'a> {
    pub mechanism: &'a str,
    pub response: Vec<u8>,
    pub vhost: &'a str,
    pub capabilities: &'a [&'a str],
    /// What strangers may do; nothing asks who it is.
    pub anonymous: Option<Access>,
    pub heartbeat: u16,
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
            anonymous: Some(Access::ALL),
            heartbeat: 0,
        }
    }
}

pub struct World {
    pub now: Time,
    pub kernel: Kernel,
    pub links: Links,
    pipes: Vec<Pipe>,
    clients: Vec<Client>,
    devices: Vec<Device>,
    settings: Arc<AmqpSettings>,
    pub asked: Vec<(LinkId, LoginAsk)>,
    /// Whether the journal's batches become safe by themselves.
    pub is_disk_working: bool,
    nonce: u64,
}

impl World {
    pub fn new() -> Self {
        World::with(Limits::default(), AmqpSettings::default())
    }

    pub fn with(limits: Limits, settings: AmqpSettings) -> Self {
        let outputs = LinksLimits {
            output_high: 64 << 10,
            output_max: 256 << 10,
            unflushed_max: 1 << 20,
        };
        World {
            now: START,
            kernel: Kernel::new(limits, ShardId(0), 1, 7),
            links: Links::new(outputs),
            pipes: Vec::new(),
            clients: Vec::new(),
            devices: Vec::new(),
            settings: Arc::new(settings),
            asked: Vec::new(),
            is_disk_working: true,
            nonce: 1,
        }
    }

    fn open(&mut self, front: Front) -> usize {
        let link = self.links.open(front);
        self.pipes.push(Pipe {
            link: Some(link),
            up: Vec::new(),
            down: Vec::new(),
            stalled: false,
        });
        self.pipes.len() - 1
    }

    /// Begins a connection and answers whatever the server asks.
    pub fn try_connect(&mut self, hello: &Hello<'_>) -> Who {
        self.nonce += 1;
        let front = AmqpFront::new(self.settings.clone(), self.nonce, hello.anonymous.clone());
        let pipe = self.open(Front::Amqp(Box::new(front)));
        let machine = ClientSide::new(self.settings.frame_max, 64 << 20);
        self.clients.push(Client {
            pipe,
            machine,
            got: VecDeque::new(),
            said: VecDeque::new(),
        });
        let who = Who(self.clients.len() - 1);
        self.says(who, ClientSide::connect);
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.table("capabilities", |table| {
            for capability in hello.capabilities {
                table.bool(capability, true);
            }
        });
        let table = writer.finish();
        self.says(who, |machine, up| {
            machine.start_ok(table, hello.mechanism, &hello.response, up)
        });
        self.go_on(who, hello);
        who
    }

    /// Answers the server's limits and enters the virtual host.
    pub fn go_on(&mut self, who: Who, hello: &Hello<'_>) {
        if self.clients[who.0].said.contains(&Said::Tuned) {
            let heartbeat = hello.heartbeat;
            let offer = thalweg_amqp::ServerOffer {
                channel_max: 2047,
                frame_max: self.settings.frame_max,
                heartbeat,
            };
            self.says(who, |machine, up| {
                machine.tune_ok(offer, up);
                machine.open(hello.vhost, up);
            });
        }
    }

    pub fn connect_with(&mut self, hello: &Hello<'_>) -> Who {
        let who = self.try_connect(hello);
        let said = self.said(who);
        assert!(
            matches!(said.last(), Some(Said::Opened)),
            "{said:?} does not end in open-ok"
        );
        who
    }

    /// A client with channel 1.
    pub fn connect(&mut self) -> Who {
        let who = self.connect_with(&Hello::default());
        self.channel(who, 1);
        who
    }

    pub fn channel(&mut self, who: Who, ch: u16) {
        self.says(who, |machine, up| machine.channel_open(ch, up));
        assert_eq!(self.said(who), [Said::ChannelOpened(ch)]);
    }

    /// Lets a client write, and everything come to rest.
    pub fn says<R>(
        &mut self,
        who: Who,
        write: impl FnOnce(&mut ClientSide, &mut Vec<u8>) -> R,
    ) -> R {
        let client = &mut self.clients[who.0];
        let result = write(&mut client.machine, &mut self.pipes[client.pipe].up);
        self.rest();
        result
    }

    /// What the server has said since this was last asked.
    pub fn said(&mut self, who: Who) -> Vec<Said> {
        self.clients[who.0].said.drain(..).collect()
    }

    /// The messages since this was last asked.
    pub fn got(&mut self, who: Who) -> Vec<Got> {
        self.clients[who.0].got.drain(..).collect()
    }

    /// Their bodies as text.
    pub fn texts(&mut self, who: Who) -> Vec<String> {
        self.got(who)
            .iter()
            .map(|got| got.text().to_owned())
            .collect()
    }

    /// Says a method on channel 1; what the server says to it.
    pub fn call(&mut self, who: Who, method: &Method<'_>) -> Vec<Said> {
        self.says(who, |machine, up| machine.method(1, method, up));
        self.said(who)
    }

    pub fn declare_with(&mut self, who: Who, declare: &queue::Declare<'_>) -> Vec<Said> {
        self.call(who, &Method::QueueDeclare(*declare))
    }

    /// Declares a queue that is neither durable nor anybody's.
    pub fn declare(&mut self, who: Who, queue: &str) {
        let said = self.declare_with(
            who,
            &queue::Declare {
                queue,
                ..Default::default()
            },
        );
        assert!(matches!(said[..], [Said::Declared { .. }]), "{said:?}");
    }

    /// Declares a queue with these arguments.
    pub fn declare_args(
        &mut self,
        who: Who,
        queue: &str,
        write: impl FnOnce(&mut TableWriter<'_>),
    ) -> Vec<Said> {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        write(&mut writer);
        let arguments = writer.finish();
        self.declare_with(
            who,
            &queue::Declare {
                queue,
                arguments,
                ..Default::default()
            },
        )
    }

    pub fn exchange(&mut self, who: Who, exchange: &str, kind: &str) {
        let said = self.call(
            who,
            &Method::ExchangeDeclare(exchange::Declare {
                exchange,
                kind,
                ..Default::default()
            }),
        );
        assert_eq!(said, [Said::Done("exchange.declare-ok")]);
    }

    pub fn bind(&mut self, who: Who, queue: &str, exchange: &str, routing_key: &str) {
        let bind = queue::Bind {
            queue,
            exchange,
            routing_key,
            ..Default::default()
        };
        assert_eq!(
            self.call(who, &Method::QueueBind(bind)),
            [Said::Done("queue.bind-ok")]
        );
    }

    pub fn confirm(&mut self, who: Who) {
        self.says(who, |machine, up| machine.confirm_select(1, false, up));
        assert_eq!(self.said(who), [Said::Done("confirm.select-ok")]);
    }

    /// Publishes on channel 1 and does not look at what is said to it.
    pub fn publish_with(
        &mut self,
        who: Who,
        publish: &basic::Publish<'_>,
        properties: &BasicProperties<'_>,
        body: &str,
    ) {
        self.says(who, |machine, up| {
            let header = ContentHeader::Properties(properties);
            machine
                .publish(1, publish, header, body.as_bytes(), up)
                .expect("it fits a frame")
        });
    }

    pub fn publish(&mut self, who: Who, exchange: &str, routing_key: &str, body: &str) {
        let publish = basic::Publish {
            exchange,
            routing_key,
            ..Default::default()
        };
        self.publish_with(who, &publish, &BasicProperties::default(), body);
    }

    /// Consumes on channel 1; its tag.
    pub fn consume_with(&mut self, who: Who, consume: &basic::Consume<'_>) -> Vec<Said> {
        self.call(who, &Method::BasicConsume(*consume))
    }

    pub fn consume(&mut self, who: Who, queue: &str, no_ack: bool) {
        let consume = basic::Consume {
            queue,
            no_ack,
            consumer_tag: "c",
            ..Default::default()
        };
        assert_eq!(
            self.consume_with(who, &consume),
            [Said::Consuming("c".into())]
        );
    }

    /// Takes one message on channel 1, if there is one; it counts as settled.
    pub fn get(&mut self, who: Who, queue: &str) -> Option<Got> {
        let said = self.call(
            who,
            &Method::BasicGet(basic::Get {
                queue,
                no_ack: true,
            }),
        );
        assert!(matches!(said[..], [] | [Said::Empty]), "{said:?}");
        self.clients[who.0].got.pop_front()
    }

    pub fn ack(&mut self, who: Who, tag: u64, multiple: bool) {
        self.says(who, |machine, up| machine.ack(1, tag, multiple, up));
    }

    /// Goes without a word.
    pub fn lose(&mut self, who: Who) {
        let pipe = self.clients[who.0].pipe;
        self.close(pipe);
        self.rest();
    }

    /// Stops or starts to read.
    pub fn read(&mut self, who: Who, reads: bool) {
        let pipe = self.clients[who.0].pipe;
        self.pipes[pipe].stalled = !reads;
        self.rest();
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self, who: Who) -> bool {
        self.pipes[self.clients[who.0].pipe].link.is_none()
    }

    pub fn link(&self, who: Who) -> LinkId {
        self.pipes[self.clients[who.0].pipe]
            .link
            .expect("it is there")
    }

    /// The server's verdict on whoever asked first.
    pub fn verdict(&mut self, answer: LoginAnswer) {
        let (link, _) = self.asked.remove(0);
        self.links
            .on_login(link, answer, self.now, &mut self.kernel);
        self.rest();
    }

    /// Time goes by.
    pub fn wait(&mut self, span: Span) {
        self.now += span;
        self.rest();
    }

    /// An MQTT 5 client.
    pub fn device(&mut self, name: &str) -> Other {
        self.nonce += 1;
        let front = MqttFront::new(
            Arc::new(MqttSettings::default()),
            self.nonce,
            Some(Access::ALL),
        );
        let pipe = self.open(Front::Mqtt(Box::new(front)));
        let mut machine = thalweg_mqtt::ClientSide::new(1 << 20);
        let connect = thalweg_mqtt::ConnectOut {
            client_id: name,
            clean_start: true,
            ..Default::default()
        };
        machine
            .connect(&connect, &mut self.pipes[pipe].up)
            .expect("short");
        self.devices.push(Device {
            pipe,
            machine,
            got: VecDeque::new(),
            ids: 0,
        });
        self.rest();
        Other(self.devices.len() - 1)
    }

    pub fn device_subscribes(&mut self, other: Other, filter: &str) {
        let device = &mut self.devices[other.0];
        device.ids += 1;
        let options = thalweg_mqtt::SubscribeOptions {
            qos: thalweg_mqtt::QoS::AtLeastOnce,
            ..Default::default()
        };
        let subscribe = thalweg_mqtt::SubscribeOut {
            id: device.ids,
            filters: &[(filter, options)],
            ..Default::default()
        };
        device
            .machine
            .subscribe(&subscribe, &mut self.pipes[device.pipe].up)
            .expect("connected");
        self.rest();
    }

    pub fn device_publishes(&mut self, other: Other, publish: &thalweg_mqtt::PublishOut<'_>) {
        let device = &mut self.devices[other.0];
        device.ids += 1;
        let publish = thalweg_mqtt::PublishOut {
            id: device.ids,
            ..*publish
        };
        device
            .machine
            .publish(&publish, &mut self.pipes[device.pipe].up)
            .expect("connected");
        self.rest();
    }

    pub fn device_got(&mut self, other: Other) -> Vec<Received> {
        self.devices[other.0].got.drain(..).collect()
    }

    fn close(&mut self, pipe: usize) {
        if let Some(link) = self.pipes[pipe].link.take() {
            self.links.close(link, &mut self.kernel, self.now);
        }
    }

    /// Everything moves until nothing moves.
    pub fn rest(&mut self) {
        loop {
            let mut happened = false;
            for pipe in 0..self.pipes.len() {
                happened |= self.feed(pipe) | self.flush(pipe);
            }
            for client in &mut self.clients {
                happened |= client.look(&mut self.pipes[client.pipe]);
            }
            for device in &mut self.devices {
                happened |= device.look(&mut self.pipes[device.pipe]);
            }
            happened |= self.tick();
            if !happened {
                return;
            }
        }
    }

    fn feed(&mut self, number: usize) -> bool {
        let Pipe {
            link: Some(link),
            up,
            ..
        } = &mut self.pipes[number]
        else {
            return false;
        };
        if let Some(link) = self.links.get_mut(*link)
            && link.pause_until.is_some_and(|until| until <= self.now)
        {
            link.pause_until = None;
        }
        if up.is_empty() {
            // As the server does, which asks nobody who has said nothing.
            return false;
        }
        let (mut used, link) = (0, *link);
        loop {
            let driven = self
                .links
                .drive(link, &up[used..], self.now, &mut self.kernel);
            used += driven.consumed;
            if driven.stopped != Stopped::FlushFirst {
                break;
            }
            self.links.take_dirty(&mut Vec::new());
        }
        up.drain(..used);
        used > 0
    }

    fn flush(&mut self, number: usize) -> bool {
        let pipe = &mut self.pipes[number];
        let (Some(id), false) = (pipe.link, pipe.stalled) else {
            return false;
        };
        let Some(link) = self.links.get_mut(id) else {
            return false;
        };
        let bytes = link.sendable().to_vec();
        link.advance(bytes.len());
        pipe.down.extend_from_slice(&bytes);
        let done = link.closing && link.waiting() == 0;
        if link.waiting() == 0 {
            self.links.on_drained(id, self.now, &mut self.kernel);
        }
        if done {
            self.close(number);
        }
        !bytes.is_empty() || done
    }

    fn tick(&mut self) -> bool {
        let mut happened = self.kernel.has_work();
        if self.kernel.poll_timeout() <= self.now {
            self.kernel.on_timeout(self.now, &mut self.links);
            happened = true;
        }
        self.kernel.work(self.now, &mut self.links);
        self.asked.extend(self.links.take_logins());
        self.links.take_dirty(&mut Vec::new());
        self.links.take_congested(&mut Vec::new());
        self.links.take_ended();
        self.links.take_fetches();
        if let Some(batch) = self
            .is_disk_working
            .then(|| self.links.take_batch(Vec::new()))
            .flatten()
        {
            self.kernel.on_written(batch.number, 0);
            self.links.complete(batch.number);
            happened = true;
        }
        happened
    }
}

impl Client {
    fn look(&mut self, pipe: &mut Pipe) -> bool {
        let mut used = 0;
        loop {
            let mut gathered = Gathered::default();
            let event = match self.machine.handle_input(&pipe.down[used..], &mut gathered) {
                Ok(Some((consumed, event))) => {
                    used += consumed;
                    event
                }
                Ok(None) => break,
                Err(fault) => panic!("the server breaks the protocol: {fault}"),
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
                ClientEvent::Start(start) => Said::Start {
                    mechanisms: String::from_utf8_lossy(start.mechanisms).into_owned(),
                    product: text(start.server_properties, "product"),
                    version: text(start.server_properties, "version"),
                },
                ClientEvent::Tune(_) => Said::Tuned,
                ClientEvent::OpenOk => Said::Opened,
                ClientEvent::CloseConnection { code, text, .. } => {
                    self.machine.close_ok(&mut pipe.up);
                    Said::Closed {
                        code,
                        text: text.into(),
                    }
                }
                ClientEvent::CloseConnectionOk => Said::CloseConfirmed,
                ClientEvent::UpdateSecretOk => Said::SecretUpdated,
                ClientEvent::Blocked { reason } => Said::Blocked(reason.into()),
                ClientEvent::Unblocked => Said::Unblocked,
                ClientEvent::ChannelOpenOk(ch) => Said::ChannelOpened(ch),
                ClientEvent::ChannelClose { ch, code, text, .. } => {
                    self.machine.channel_close_ok(ch, &mut pipe.up);
                    Said::ChannelClosed {
                        ch,
                        code,
                        text: text.into(),
                    }
                }
                ClientEvent::ChannelCloseOk(ch) => Said::ChannelCloseConfirmed(ch),
                ClientEvent::Heartbeat => Said::Heartbeat,
                ClientEvent::Method { method, .. } => said(method),
                other => panic!("{other:?}"),
            };
            self.said.push_back(said);
        }
        pipe.down.drain(..used);
        used > 0
    }
}

fn text(table: Table<'_>, name: &str) -> String {
    table
        .get(name)
        .and_then(|value: FieldValue<'_>| value.as_str())
        .unwrap_or_default()
        .into()
}

fn said(method: Method<'_>) -> Said {
    match method {
        Method::QueueDeclareOk(ok) => Said::Declared {
            queue: ok.queue.into(),
            messages: ok.message_count,
            consumers: ok.consumer_count,
        },
        Method::QueuePurgeOk(ok) => Said::Count(ok.message_count),
        Method::QueueDeleteOk(ok) => Said::Count(ok.message_count),
        Method::BasicConsumeOk(ok) => Said::Consuming(ok.consumer_tag.into()),
        Method::BasicCancelOk(ok) => Said::Cancelled(ok.consumer_tag.into()),
        Method::BasicCancel(cancel) => Said::Cancelled(cancel.consumer_tag.into()),
        Method::BasicGetEmpty(_) => Said::Empty,
        Method::BasicAck(ack) => Said::Ack {
            tag: ack.delivery_tag,
            multiple: ack.multiple,
        },
        Method::BasicNack(nack) => Said::Nack {
            tag: nack.delivery_tag,
        },
        Method::ExchangeDeclareOk(_) => Said::Done("exchange.declare-ok"),
        Method::ExchangeDeleteOk(_) => Said::Done("exchange.delete-ok"),
        Method::ExchangeBindOk(_) => Said::Done("exchange.bind-ok"),
        Method::ExchangeUnbindOk(_) => Said::Done("exchange.unbind-ok"),
        Method::QueueBindOk(_) => Said::Done("queue.bind-ok"),
        Method::QueueUnbindOk(_) => Said::Done("queue.unbind-ok"),
        Method::BasicQosOk(_) => Said::Done("basic.qos-ok"),
        Method::BasicRecoverOk(_) => Said::Done("basic.recover-ok"),
        Method::ConfirmSelectOk(confirm::SelectOk) => Said::Done("confirm.select-ok"),
        Method::TxSelectOk(_) => Said::Done("tx.select-ok"),
        Method::TxCommitOk(_) => Said::Done("tx.commit-ok"),
        Method::TxRollbackOk(_) => Said::Done("tx.rollback-ok"),
        Method::ChannelFlowOk(_) => Said::Done("channel.flow-ok"),
        Method::ConnectionClose(connection::Close {
            reply_code,
            reply_text,
            ..
        }) => Said::Closed {
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

impl Device {
    fn look(&mut self, pipe: &mut Pipe) -> bool {
        let mut used = 0;
        while let Some((consumed, event)) = self
            .machine
            .handle_input(&pipe.down[used..])
            .expect("legal MQTT")
        {
            used += consumed;
            let thalweg_mqtt::ClientEvent::Publish(publish) = event else {
                continue;
            };
            let mut received = Received {
                topic: publish.topic.as_str().into(),
                payload: publish.payload.into(),
                ..Default::default()
            };
            for property in publish.properties.iter() {
                use thalweg_mqtt::Property;
                match property {
                    Property::ContentType(text) => received.content_type = Some(text.into()),
                    Property::ResponseTopic(topic) => received.response_topic = Some(topic.into()),
                    Property::CorrelationData(data) => received.correlation = Some(data.into()),
                    Property::User(name, value) => received.user.push((name.into(), value.into())),
                    _ => {}
                }
            }
            received.expiry_secs = publish.properties.message_expiry();
            if publish.qos != thalweg_mqtt::QoS::AtMostOnce {
                self.machine
                    .puback(publish.id, thalweg_mqtt::ReasonCode::Success, &mut pipe.up);
            }
            self.got.push_back(received);
        }
        pipe.down.drain(..used);
        used > 0
    }
}
