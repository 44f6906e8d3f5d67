//! The lane against a broker made of the wire crate's other end, in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};

use thalweg_amqp::methods::{basic, channel, confirm, queue};
use thalweg_amqp::{ContentHeader, Event, FieldValue, Method, Publish, ServerLimits, ServerSide};
use thalweg_model::syntax::DOTTED;
use thalweg_model::{Filter, Time};

use super::*;
use crate::pair::{FarEnd, acknowledged, endpoint};
use crate::transport::{Medium, Transport};
use crate::witness::{EventCall, Got, at_most_once, exactly_once, message};

mod arrival;
mod bytes;
mod departure;
mod subscribing;

/// A broker for one client: exchanges that compare words, queues, and configured misbehaviour.
struct Server {
    side: ServerSide,
    limits: ServerLimits,
    product: &'static str,
    announces_stamps: bool,
    mechanisms: &'static str,
    /// Close code that it sends instead of `tune`.
    turns_away: Option<(ReplyCode, &'static str)>,
    /// The channel is closed when something is published with this key.
    forbidden_key: Option<&'static str>,
    /// The channel is closed when this is asked for.
    forbidden_binding: Option<&'static str>,
    /// Confirms are held back.
    holds_confirms: bool,
    queues: BTreeMap<String, Queue>,
    /// Exchange, key and queue.
    bindings: Vec<(String, String, String)>,
    /// Consumers and bindings by channel.
    channels: HashMap<u16, Channel>,
    published: Vec<Published>,
    /// Methods that are worth looking at, as text.
    heard: Vec<String>,
    made_up: usize,
    out: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<(Published, bool)>,
    /// Channel, tag and whether it settles.
    consumer: Option<(u16, String, bool)>,
    auto_delete: bool,
    arguments: String,
}

#[derive(Default)]
struct Channel {
    queue_last: String,
    /// Publishes so far, if they are confirmed.
    confirms: Option<u64>,
    tag_last: u64,
    unsettled: Vec<(u64, String, Published)>,
    takes_answers: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Published {
    exchange: String,
    key: String,
    payload: Vec<u8>,
    header: Vec<u8>,
    /// Whether it was on a channel with confirms.
    is_confirmed: bool,
}

impl Published {
    fn properties(&self) -> BasicProperties<'_> {
        BasicProperties::of_header(&self.header).expect("it was checked")
    }
}

impl FarEnd for Server {
    /// What was only for the old connection is gone, and what was not settled is there again.
    fn accept(&mut self) {
        self.side = ServerSide::new(self.limits);
        self.out.clear();
        let numbers: Vec<u16> = self.channels.keys().copied().collect();
        numbers.into_iter().for_each(|ch| self.end_channel(ch));
    }

    fn hear(&mut self, bytes: &[u8], _: Time) {
        let (mut rest, mut gathered) = (bytes, Gathered::default());
        while let Some((consumed, event)) = self
            .side
            .handle_input(rest, &mut gathered)
            .expect("the client keeps to the rules")
        {
            rest = &rest[consumed..];
            self.on_event(event);
        }
        assert!(rest.is_empty(), "half a frame");
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl Server {
    fn new() -> Server {
        let limits = ServerLimits {
            heartbeat: 60,
            ..ServerLimits::default()
        };
        Server {
            side: ServerSide::new(limits),
            limits,
            product: "Thalweg",
            announces_stamps: true,
            mechanisms: "PLAIN EXTERNAL",
            turns_away: None,
            forbidden_key: None,
            forbidden_binding: None,
            holds_confirms: false,
            queues: BTreeMap::new(),
            bindings: Vec::new(),
            channels: HashMap::new(),
            published: Vec::new(),
            heard: Vec::new(),
            made_up: 0,
            out: Vec::new(),
        }
    }

    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::ProtocolHeader => {
                let mut buffer = Vec::new();
                let mut properties = TableWriter::new(&mut buffer);
                properties.str("product", self.product);
                properties.table("capabilities", |capabilities| {
                    _ = capabilities.bool("direct_reply_to", true)
                });
                if self.announces_stamps {
                    properties.str(STAMPS_ANNOUNCEMENT, "1");
                }
                self.side
                    .start(properties.finish(), self.mechanisms, "en_US", &mut self.out);
            }
            Event::StartOk(start_ok) => {
                let name = start_ok
                    .client_properties
                    .get("connection_name")
                    .and_then(|name| name.as_str());
                let response = start_ok.response.escape_ascii();
                self.heard.push(format!(
                    "{} {response} by {}",
                    start_ok.mechanism,
                    name.unwrap_or("nobody")
                ));
                match self.turns_away {
                    Some((code, text)) => {
                        self.side.close(code, text, MethodId::NONE, &mut self.out)
                    }
                    None => self.side.tune(&mut self.out),
                }
            }
            Event::TuneOk { heartbeat, .. } => self.heard.push(format!("heartbeat {heartbeat}")),
            Event::Open { vhost } => {
                self.heard.push(format!("vhost {vhost}"));
                self.side.open_ok(&mut self.out);
            }
            Event::CloseConnection { .. } => self.side.close_ok(&mut self.out),
            Event::ChannelOpen(ch) => {
                self.channels.insert(ch, Channel::default());
                self.side.channel_open_ok(ch, &mut self.out);
            }
            Event::ChannelClose { ch, .. } => {
                self.heard.push(format!("{ch} close"));
                self.end_channel(ch);
                self.side.channel_close_ok(ch, &mut self.out);
            }
            Event::Publish(publish) => self.on_publish(&publish),
            Event::Method { ch, method } => self.on_method(ch, method),
            Event::Heartbeat => self.heard.push("heartbeat".to_owned()),
            Event::ChannelFault(fault) => panic!("{fault}"),
            _ => {}
        }
    }

    fn on_method(&mut self, ch: u16, method: Method<'_>) {
        match method {
            Method::ConfirmSelect(confirm::Select { no_wait }) => {
                assert!(no_wait);
                self.channel(ch).confirms = Some(0);
            }
            Method::BasicQos(basic::Qos { prefetch_count, .. }) => {
                self.heard.push(format!("{ch} prefetch {prefetch_count}"));
                self.answer(ch, Method::BasicQosOk(basic::QosOk));
            }
            Method::QueueDeclare(declare) => self.on_declare(ch, &declare),
            Method::QueueBind(bind) => {
                let queue = self.queue_name(ch, bind.queue);
                self.heard.push(format!(
                    "{ch} bind {queue} {} {} {:?}",
                    bind.exchange, bind.routing_key, bind.arguments
                ));
                if self.forbidden_binding == Some(bind.routing_key) {
                    return self.close_channel(
                        ch,
                        ReplyCode::AccessRefused,
                        "you may not read this",
                        queue::Bind::ID,
                    );
                }
                self.bindings
                    .push((bind.exchange.to_owned(), bind.routing_key.to_owned(), queue));
                self.answer(ch, Method::QueueBindOk(queue::BindOk));
            }
            Method::BasicConsume(consume) => self.on_consume(ch, &consume),
            Method::BasicCancel(cancel) => {
                self.heard.push(format!("{ch} cancel"));
                self.end_consumers(ch);
                self.answer(
                    ch,
                    Method::BasicCancelOk(basic::CancelOk {
                        consumer_tag: cancel.consumer_tag,
                    }),
                );
            }
            Method::QueueDelete(delete) => {
                self.heard.push(format!("{ch} delete {}", delete.queue));
                self.queues.remove(delete.queue);
            }
            Method::BasicAck(basic::Ack {
                delivery_tag,
                multiple,
            }) => {
                assert!(!multiple);
                self.heard.push(format!("{ch} ack {delivery_tag}"));
                self.channel(ch)
                    .unsettled
                    .retain(|(tag, ..)| *tag != delivery_tag);
            }
            Method::ChannelFlow(flow) => {
                assert!(flow.active);
                self.answer(ch, Method::ChannelFlowOk(channel::FlowOk { active: true }));
            }
            Method::ChannelFlowOk(ok) => self.heard.push(format!("{ch} flow-ok {}", ok.active)),
            other => panic!("{other:?}"),
        }
    }

    fn channel(&mut self, ch: u16) -> &mut Channel {
        self.channels
            .get_mut(&ch)
            .expect("the machine has checked it")
    }

    fn answer(&mut self, ch: u16, method: Method<'_>) {
        self.side.method(ch, &method, &mut self.out);
    }

    fn queue_name(&mut self, ch: u16, name: &str) -> String {
        if name.is_empty() {
            self.channel(ch).queue_last.clone()
        } else {
            name.to_owned()
        }
    }

    fn on_declare(&mut self, ch: u16, declare: &queue::Declare<'_>) {
        let name = match declare.queue {
            "" => {
                self.made_up += 1;
                format!("amq.gen-{}", self.made_up)
            }
            name => name.to_owned(),
        };
        let flags = [
            ("passive", declare.passive),
            ("durable", declare.durable),
            ("exclusive", declare.exclusive),
            ("auto-delete", declare.auto_delete),
        ];
        let flags: Vec<&str> = flags
            .iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(name, _)| *name)
            .collect();
        let arguments = format!("{:?}", declare.arguments);
        self.heard.push(format!(
            "{ch} declare {name} {} {arguments}",
            flags.join(" ")
        ));
        let differs = |queue: &Queue| !declare.passive && queue.arguments != arguments;
        if self.queues.get(&name).is_some_and(differs) {
            let words = "inequivalent arg 'x-expires'";
            return self.close_channel(
                ch,
                ReplyCode::PreconditionFailed,
                words,
                queue::Declare::ID,
            );
        }
        let new = || Queue {
            auto_delete: declare.auto_delete,
            arguments,
            ..Queue::default()
        };
        self.queues.entry(name.clone()).or_insert_with(new);
        self.channel(ch).queue_last = name.clone();
        let ok = queue::DeclareOk {
            queue: &name,
            message_count: 0,
            consumer_count: 0,
        };
        self.answer(ch, Method::QueueDeclareOk(ok));
    }

    fn on_consume(&mut self, ch: u16, consume: &basic::Consume<'_>) {
        let name = self.queue_name(ch, consume.queue);
        let no_ack = if consume.no_ack { " no-ack" } else { "" };
        self.heard.push(format!("{ch} consume {name}{no_ack}"));
        if name == DIRECT_REPLY {
            self.channel(ch).takes_answers = true;
            return;
        }
        // Group queues may be declared by any client.
        if name.starts_with('$') {
            self.queues.entry(name.clone()).or_default();
        }
        let Some(queue) = self.queues.get_mut(&name) else {
            return self.close_channel(
                ch,
                ReplyCode::NotFound,
                &format!("no queue '{name}'"),
                basic::Consume::ID,
            );
        };
        queue.consumer = Some((ch, consume.consumer_tag.to_owned(), !consume.no_ack));
        self.answer(
            ch,
            Method::BasicConsumeOk(basic::ConsumeOk {
                consumer_tag: consume.consumer_tag,
            }),
        );
        self.deliver(&name);
    }

    fn on_publish(&mut self, publish: &Publish<'_>) {
        let ch = publish.ch;
        let published = Published {
            exchange: publish.exchange.to_owned(),
            key: publish.routing_key.to_owned(),
            payload: publish.payload.to_vec(),
            header: publish.header.to_vec(),
            is_confirmed: self.channel(ch).confirms.is_some(),
        };
        assert!(!publish.mandatory && !publish.immediate);
        if self.forbidden_key == Some(publish.routing_key) {
            let words = "access to exchange 'amq.topic' refused";
            return self.close_channel(ch, ReplyCode::AccessRefused, words, basic::Publish::ID);
        }
        self.published.push(published.clone());
        let matches = |(exchange, key, _): &&(String, String, String)| {
            let (mut filter, mut address) = (String::new(), String::new());
            DOTTED.read_filter(key, &mut filter);
            DOTTED.read_address(publish.routing_key, &mut address);
            exchange == publish.exchange
                && Filter::new(&filter).is_ok_and(|filter| filter.matches(&address))
        };
        let mut names: Vec<String> = self
            .bindings
            .iter()
            .filter(matches)
            .map(|(.., queue)| queue.clone())
            .collect();
        if publish.exchange.is_empty() {
            names.push(publish.routing_key.to_owned());
        }
        for name in names {
            if let Some(queue) = self.queues.get_mut(&name) {
                queue.messages.push_back((published.clone(), false));
                self.deliver(&name);
            }
        }
        let number = self.channel(ch).confirms.as_mut().map(|count| {
            *count += 1;
            *count
        });
        if let (Some(number), false) = (number, self.holds_confirms) {
            self.side.ack(ch, number, false, &mut self.out);
        }
    }

    /// Hands over what waits in a queue.
    fn deliver(&mut self, name: &str) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let Some((ch, consumer_tag, settles)) = queue.consumer.clone() else {
            return;
        };
        for (message, redelivered) in std::mem::take(&mut queue.messages) {
            let channel = self
                .channels
                .get_mut(&ch)
                .expect("the consumer is gone with its channel");
            channel.tag_last += 1;
            let delivery_tag = channel.tag_last;
            let (exchange, routing_key) = (message.exchange.as_str(), message.key.as_str());
            let deliver = basic::Deliver {
                consumer_tag: &consumer_tag,
                delivery_tag,
                redelivered,
                exchange,
                routing_key,
            };
            let header = ContentHeader::Raw(&message.header);
            self.side
                .deliver(ch, &deliver, header, &message.payload, &mut self.out)
                .expect("it fits");
            if settles {
                channel
                    .unsettled
                    .push((delivery_tag, name.to_owned(), message));
            }
        }
    }

    /// Answers a question as its receiver would: by the default exchange.
    fn reply(&mut self, question: &Published, payload: &[u8]) {
        let properties = question.properties();
        assert_eq!(properties.reply_to, Some(DIRECT_REPLY));
        let (ch, _) = self
            .channels
            .iter()
            .find(|(_, channel)| channel.takes_answers)
            .expect("somebody waits");
        let answer = BasicProperties {
            correlation_id: properties.correlation_id,
            ..BasicProperties::default()
        };
        let deliver = basic::Deliver {
            consumer_tag: "answers",
            delivery_tag: 1,
            routing_key: "amq.rabbitmq.reply-to.g1",
            ..basic::Deliver::default()
        };
        let header = ContentHeader::Properties(&answer);
        self.side
            .deliver(*ch, &deliver, header, payload, &mut self.out)
            .expect("it fits");
    }

    /// Says this to the consumer of a queue with these properties and as delivered before.
    fn deliver_with(
        &mut self,
        ch: u16,
        properties: &BasicProperties<'_>,
        deliver: basic::Deliver<'_>,
    ) {
        let header = ContentHeader::Properties(properties);
        self.side
            .deliver(ch, &deliver, header, b"payload", &mut self.out)
            .expect("it fits");
    }

    fn close_channel(&mut self, ch: u16, code: ReplyCode, words: &str, cause: MethodId) {
        self.side
            .channel_close(ch, code, words, cause, &mut self.out);
        self.end_channel(ch);
    }

    fn end_channel(&mut self, ch: u16) {
        self.end_consumers(ch);
        let Some(channel) = self.channels.remove(&ch) else {
            return;
        };
        for (_, queue, message) in channel.unsettled.into_iter().rev() {
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.messages.push_front((message, true));
            }
        }
    }

    fn end_consumers(&mut self, ch: u16) {
        let is_of = |queue: &Queue| {
            queue
                .consumer
                .as_ref()
                .is_some_and(|(number, ..)| *number == ch)
        };
        self.queues
            .retain(|_, queue| !(is_of(queue) && queue.auto_delete));
        self.queues
            .values_mut()
            .filter(|queue| is_of(queue))
            .for_each(|queue| queue.consumer = None);
    }
}

type Pair = crate::pair::Pair<Amqp, Server>;

fn settings() -> AmqpSettings {
    AmqpSettings::default()
}

impl Pair {
    fn new(settings: AmqpSettings) -> Pair {
        let lane = Amqp::new(endpoint(5672, Medium::Stream), settings);
        Pair::of(lane, Server::new(), "pump-7")
    }

    /// A connected pair; the events up to there are cleared.
    fn up(settings: AmqpSettings) -> Pair {
        let mut pair = Pair::new(settings);
        pair.connect();
        pair
    }

    fn connect(&mut self) {
        self.reach();
        assert_eq!(
            self.witness.take().last(),
            Some(&EventCall::Up(Welcome::default()))
        );
        self.server.heard.clear();
    }
}
