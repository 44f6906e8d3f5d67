//! AMQP clients, and a few of MQTT, in front of a broker of one shard. A client does one thing at a time, after which
//! everything comes to rest.

use std::sync::Arc;
use thalweg_amqp::methods::{basic, exchange, queue};
use thalweg_amqp::{BasicProperties, ClientSide, ContentHeader, Method, TableWriter};
use thalweg_fronts::amqp::AmqpSettings;
use thalweg_fronts::{Links, LinksLimits, LoginAnswer};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId};
use thalweg_model::Span;
use thalweg_mqtt::{QoS, SubscribeOptions};
use thalweg_testbed::amqp::Amqp;
pub use thalweg_testbed::amqp::{Got, ServerMethod};
use thalweg_testbed::mqtt::Mqtt;
pub use thalweg_testbed::mqtt::Received;
use thalweg_testbed::{Settings, Testbed};

pub type Who = thalweg_testbed::Who<Amqp>;

pub type Other = thalweg_testbed::Who<Mqtt>;

/// Parameters of a client's connection.
#[derive(Clone)]
pub struct Hello {
    pub mechanism: &'static str,
    pub response: Vec<u8>,
    pub vhost: &'static str,
    pub capabilities: &'static [&'static str],
    /// Rights of anonymous clients; no client is authenticated.
    pub anonymous: Option<Access>,
    pub heartbeat: u16,
}

impl Default for Hello {
    fn default() -> Self {
        let usual = thalweg_testbed::amqp::Hello::default();
        Hello {
            mechanism: usual.mechanism,
            response: usual.response,
            vhost: usual.vhost,
            capabilities: usual.capabilities,
            anonymous: Some(Access::ALL),
            heartbeat: usual.heartbeat,
        }
    }
}

pub struct World {
    pub bed: Testbed,
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
        let mut bed = Testbed::new(Settings {
            limits,
            outputs,
            amqp: Arc::new(settings),
            ..Settings::default()
        });
        bed.step = Span::ZERO;
        World { bed }
    }

    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.bed.shards[0].kernel
    }

    pub fn links(&mut self) -> &mut Links {
        &mut self.bed.shards[0].links
    }

    /// Begins a connection and answers whatever the server asks.
    pub fn try_connect(&mut self, hello: &Hello) -> Who {
        let Hello {
            mechanism,
            response,
            vhost,
            capabilities,
            anonymous,
            heartbeat,
        } = hello.clone();
        let hello = thalweg_testbed::amqp::Hello {
            mechanism,
            response,
            vhost,
            capabilities,
            heartbeat,
            channel: 0,
        };
        let who = self.bed.open_amqp(&hello, anonymous);
        self.bed.rest();
        who
    }

    pub fn connect_with(&mut self, hello: &Hello) -> Who {
        let who = self.try_connect(hello);
        let said = self.said(who);
        assert!(
            matches!(said.last(), Some(ServerMethod::Opened)),
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
        self.says(who, |side, up| side.channel_open(ch, up));
        assert_eq!(self.said(who), [ServerMethod::ChannelOpened(ch)]);
    }

    /// Lets a client write, and everything come to rest.
    pub fn says<R>(
        &mut self,
        who: Who,
        write: impl FnOnce(&mut ClientSide, &mut Vec<u8>) -> R,
    ) -> R {
        self.bed.says(who, |client, up| write(&mut client.side, up))
    }

    /// The server's output since the last call.
    pub fn said(&mut self, who: Who) -> Vec<ServerMethod> {
        self.bed.client(who).said.drain(..).collect()
    }

    /// The messages since this was last asked.
    pub fn got(&mut self, who: Who) -> Vec<Got> {
        self.bed.client(who).got.drain(..).collect()
    }

    /// Their bodies as text.
    pub fn texts(&mut self, who: Who) -> Vec<String> {
        self.got(who)
            .iter()
            .map(|got| got.text().to_owned())
            .collect()
    }

    /// Says a method on channel 1; what the server says to it.
    pub fn call(&mut self, who: Who, method: &Method<'_>) -> Vec<ServerMethod> {
        self.says(who, |side, up| side.method(1, method, up));
        self.said(who)
    }

    pub fn declare_with(&mut self, who: Who, declare: &queue::Declare<'_>) -> Vec<ServerMethod> {
        self.call(who, &Method::QueueDeclare(*declare))
    }

    /// Declares a queue that is neither durable nor exclusive.
    pub fn declare(&mut self, who: Who, queue: &str) {
        let said = self.declare_with(
            who,
            &queue::Declare {
                queue,
                ..Default::default()
            },
        );
        assert!(
            matches!(said[..], [ServerMethod::Declared { .. }]),
            "{said:?}"
        );
    }

    /// Declares a queue with these arguments.
    pub fn declare_args(
        &mut self,
        who: Who,
        queue: &str,
        write: impl FnOnce(&mut TableWriter<'_>),
    ) -> Vec<ServerMethod> {
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
        assert_eq!(said, [ServerMethod::Done("exchange.declare-ok")]);
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
            [ServerMethod::Done("queue.bind-ok")]
        );
    }

    pub fn confirm(&mut self, who: Who) {
        self.says(who, |machine, up| machine.confirm_select(1, false, up));
        assert_eq!(self.said(who), [ServerMethod::Done("confirm.select-ok")]);
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
    pub fn consume_with(&mut self, who: Who, consume: &basic::Consume<'_>) -> Vec<ServerMethod> {
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
            [ServerMethod::Consuming("c".into())]
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
        assert!(matches!(said[..], [] | [ServerMethod::Empty]), "{said:?}");
        self.bed.client(who).got.pop_front()
    }

    pub fn ack(&mut self, who: Who, tag: u64, multiple: bool) {
        self.says(who, |machine, up| machine.ack(1, tag, multiple, up));
    }

    /// Goes without a word.
    pub fn lose(&mut self, who: Who) {
        self.bed.lose(who);
    }

    /// Stops or starts to read.
    pub fn read(&mut self, who: Who, reads: bool) {
        self.bed.set_reading(who, reads);
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self, who: Who) -> bool {
        self.bed.is_closed(who)
    }

    pub fn link(&self, who: Who) -> LinkId {
        self.bed.link_id(who)
    }

    /// The server's answer to the oldest pending login.
    pub fn verdict(&mut self, answer: LoginAnswer) {
        self.bed.answer_login(answer);
    }

    pub fn wait(&mut self, span: Span) {
        self.bed.wait(span);
    }

    pub fn rest(&mut self) {
        self.bed.rest();
    }

    /// An MQTT 5 client.
    pub fn device(&mut self, name: &str) -> Other {
        self.bed.mqtt(name)
    }

    pub fn device_subscribes(&mut self, other: Other, filter: &str) {
        let options = SubscribeOptions {
            qos: QoS::AtLeastOnce,
            ..Default::default()
        };
        self.bed.mqtt_subscribe(other, filter, options);
    }

    pub fn device_publishes(&mut self, other: Other, publish: &thalweg_mqtt::PublishOut<'_>) {
        self.bed.mqtt_publish(other, publish);
    }

    /// Messages received since the last call, without packet identifiers and QoS.
    pub fn device_got(&mut self, other: Other) -> Vec<Received> {
        let got = self.bed.mqtt_got(other).into_iter();
        got.map(|got| Received {
            id: 0,
            qos: QoS::AtMostOnce,
            ..got
        })
        .collect()
    }
}
