//! Clients of MQTT.

use crate::bed::Testbed;
use crate::client::{Client, Who};
use std::collections::VecDeque;
use thalweg_fronts::AnyFront;
use thalweg_fronts::mqtt::MqttFront;
use thalweg_kernel::access::Access;
use thalweg_mqtt::{
    ClientEvent, ClientSide, ConnectOut, Property, PublishOut, QoS, ReasonCode, SubscribeOptions,
    SubscribeOut, UnsubscribeOut,
};

/// Largest packet that a client takes.
pub const PACKET_BYTES_MAX: u32 = 1 << 20;

/// A packet of the broker, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    ConnAck { present: bool, reason: ReasonCode },
    Publish(Received),
    PubAck { id: u16, reason: ReasonCode },
    PubRec { id: u16, reason: ReasonCode },
    PubRel { id: u16 },
    PubComp { id: u16 },
    SubAck { id: u16, codes: Vec<ReasonCode> },
    UnsubAck { id: u16, codes: Vec<ReasonCode> },
    PingResp,
    Disconnect(ReasonCode),
    Auth,
}

/// A message as a client received it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: QoS,
    pub retain: bool,
    pub dup: bool,
    pub id: u16,
    pub content_type: Option<String>,
    pub expiry_secs: Option<u32>,
    pub response_topic: Option<String>,
    pub correlation: Option<Vec<u8>>,
    pub user: Vec<(String, String)>,
}

impl Received {
    /// `topic : payload`
    pub fn line(&self) -> String {
        format!(
            "{} : {}",
            self.topic,
            String::from_utf8_lossy(&self.payload)
        )
    }
}

impl Packet {
    pub fn of(event: &ClientEvent<'_>) -> Packet {
        match event {
            ClientEvent::ConnAck(ack) => Packet::ConnAck {
                present: ack.values.session_present,
                reason: ack.values.reason,
            },
            ClientEvent::Publish(publish) => {
                let mut received = Received {
                    topic: publish.topic.as_str().to_owned(),
                    payload: publish.payload.to_vec(),
                    qos: publish.qos,
                    retain: publish.retain,
                    dup: publish.dup,
                    id: publish.id,
                    expiry_secs: publish.properties.message_expiry(),
                    ..Received::default()
                };
                for property in publish.properties.iter() {
                    match property {
                        Property::ContentType(text) => received.content_type = Some(text.into()),
                        Property::ResponseTopic(topic) => {
                            received.response_topic = Some(topic.into())
                        }
                        Property::CorrelationData(data) => received.correlation = Some(data.into()),
                        Property::User(name, value) => {
                            received.user.push((name.into(), value.into()))
                        }
                        _ => {}
                    }
                }
                Packet::Publish(received)
            }
            ClientEvent::PubAck(ack) => Packet::PubAck {
                id: ack.id,
                reason: ack.reason,
            },
            ClientEvent::PubRec(ack) => Packet::PubRec {
                id: ack.id,
                reason: ack.reason,
            },
            ClientEvent::PubRel(ack) => Packet::PubRel { id: ack.id },
            ClientEvent::PubComp(ack) => Packet::PubComp { id: ack.id },
            ClientEvent::SubAck(ack) => Packet::SubAck {
                id: ack.id,
                codes: ack.codes().collect(),
            },
            ClientEvent::UnsubAck(ack) => Packet::UnsubAck {
                id: ack.id,
                codes: ack.codes().collect(),
            },
            ClientEvent::PingResp => Packet::PingResp,
            ClientEvent::Disconnect(disconnect) => Packet::Disconnect(disconnect.reason),
            ClientEvent::Auth(_) => Packet::Auth,
        }
    }
}

/// A client that acknowledges its deliveries unless that is disabled.
pub struct Mqtt {
    pub side: ClientSide,
    pub got: VecDeque<Received>,
    /// Everything but messages and the packets of exactly-once delivery.
    pub said: VecDeque<Packet>,
    pub acknowledges: bool,
    /// The message that it received last.
    pub last: Received,
    id_last: u16,
}

impl Default for Mqtt {
    fn default() -> Self {
        Mqtt {
            side: ClientSide::new(PACKET_BYTES_MAX),
            got: VecDeque::new(),
            said: VecDeque::new(),
            acknowledges: true,
            last: Received::default(),
            id_last: 0,
        }
    }
}

impl Mqtt {
    pub fn connect(&mut self, connect: &ConnectOut<'_>, up: &mut Vec<u8>) {
        self.side.connect(connect, up).expect("short strings");
    }

    pub fn publish(&mut self, publish: &PublishOut<'_>, up: &mut Vec<u8>) -> u16 {
        self.id_last += 1;
        let publish = PublishOut {
            id: self.id_last,
            ..*publish
        };
        self.side
            .publish(&publish, up)
            .expect("connected, and the broker has room");
        self.id_last
    }

    pub fn subscribe(&mut self, filter: &str, options: SubscribeOptions, up: &mut Vec<u8>) -> u16 {
        self.id_last += 1;
        let subscribe = SubscribeOut {
            id: self.id_last,
            filters: &[(filter, options)],
            ..SubscribeOut::default()
        };
        self.side.subscribe(&subscribe, up).expect("connected");
        self.id_last
    }

    pub fn unsubscribe(&mut self, filter: &str, up: &mut Vec<u8>) {
        self.id_last += 1;
        let unsubscribe = UnsubscribeOut {
            id: self.id_last,
            filters: &[filter],
            ..UnsubscribeOut::default()
        };
        self.side.unsubscribe(&unsubscribe, up).expect("connected");
    }

    /// Acknowledges a message as its QoS asks.
    pub fn acknowledge(&mut self, received: &Received, up: &mut Vec<u8>) {
        match received.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.side.puback(received.id, ReasonCode::Success, up),
            QoS::ExactlyOnce => self.side.pubrec(received.id, ReasonCode::Success, up),
        }
    }
}

impl Client for Mqtt {
    fn receive(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>) {
        let mut used = 0;
        loop {
            let packet = match self.side.handle_input(&down[used..]) {
                Ok(Some((consumed, event))) => {
                    used += consumed;
                    Packet::of(&event)
                }
                Ok(None) => break,
                Err(fault) => panic!("the broker breaks MQTT: {fault}"),
            };
            match packet {
                Packet::Publish(received) => {
                    if self.acknowledges {
                        self.acknowledge(&received, up);
                    }
                    self.last = received.clone();
                    self.got.push_back(received);
                }
                Packet::PubRel { id } => self.side.pubcomp(id, ReasonCode::Success, up),
                other => {
                    if let Packet::PubRec { id, reason } = other
                        && !reason.is_error()
                    {
                        self.side.pubrel(id, ReasonCode::Success, up);
                    }
                    self.said.push_back(other);
                }
            }
        }
        down.drain(..used);
    }
}

impl Testbed {
    pub fn mqtt_front(&mut self, anonymous: Option<Access>) -> AnyFront {
        let nonce = self.next_nonce();
        let front = MqttFront::new(self.settings.mqtt.clone(), nonce, anonymous);
        front.into()
    }

    /// Opens a connection on the home of the client identifier and sends CONNECT. Without `anonymous` the broker asks who
    /// it is.
    pub fn open_mqtt(&mut self, connect: &ConnectOut<'_>, anonymous: Option<Access>) -> Who<Mqtt> {
        let (front, shard) = (self.mqtt_front(anonymous), self.home_of(connect.client_id));
        let who = self.open(shard, front, Mqtt::default());
        self.write(who, |client, up| client.connect(connect, up));
        who
    }

    /// Connects a client of MQTT 5 that may do everything.
    pub fn mqtt(&mut self, client_id: &str) -> Who<Mqtt> {
        let connect = ConnectOut {
            client_id,
            clean_start: true,
            ..ConnectOut::default()
        };
        let who = self.open_mqtt(&connect, Some(Access::ALL));
        self.rest();
        who
    }

    pub fn mqtt_publish(&mut self, who: Who<Mqtt>, publish: &PublishOut<'_>) {
        self.says(who, |client, up| client.publish(publish, up));
    }

    pub fn mqtt_subscribe(&mut self, who: Who<Mqtt>, filter: &str, options: SubscribeOptions) {
        self.says(who, |client, up| client.subscribe(filter, options, up));
    }

    /// Messages received since this was last asked.
    pub fn mqtt_got(&mut self, who: Who<Mqtt>) -> Vec<Received> {
        self.client(who).got.drain(..).collect()
    }
}
