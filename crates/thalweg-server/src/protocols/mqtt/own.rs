//! A session of the broker's own, at the end of a stream within the process: the client's end of it.

use thalweg_fronts::AnyFront;
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_mqtt::{
    ClientEvent, ClientSide, ConnectOut, PublishOut, ReasonCode, RetainHandling, ServerLimits,
    SubscribeOptions, SubscribeOut,
};

/// The front at the broker's end, which takes the user that the stream names.
pub(crate) fn front(nonce: u64, packet_bytes_max: usize) -> AnyFront {
    let settings = MqttSettings {
        limits: ServerLimits {
            packet_bytes_max: u32::try_from(packet_bytes_max).unwrap_or(u32::MAX),
            ..ServerLimits::default()
        },
        ..MqttSettings::default()
    };
    MqttFront::new(settings.into(), nonce, None).into()
}

/// A session that subscribes to filters and publishes at most once. What goes to the broker is in `out`.
pub(crate) struct OwnSession {
    machine: ClientSide,
    filters: Vec<String>,
    /// The name that the broker gave it.
    pub(crate) client: String,
    input: Vec<u8>,
    pub(crate) out: Vec<u8>,
}

/// What the broker sends such a session.
pub(crate) enum Incoming<'a> {
    /// The session is subscribed: whether to each of its filters.
    Subscribed(Vec<bool>),
    /// A message for one of the filters.
    Message(OwnMessage<'a>),
}

/// A message, and as a packet that can be sent on as it is.
pub(crate) struct OwnMessage<'a> {
    pub(crate) packet: &'a [u8],
    pub(crate) address: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) reply_to: Option<&'a str>,
    pub(crate) correlation: Option<&'a [u8]>,
}

impl OwnSession {
    /// A session that asks for these, and for messages up to this size.
    pub(crate) fn new(filters: Vec<String>, packet_bytes_max: u32) -> OwnSession {
        let mut session = OwnSession {
            machine: ClientSide::new(packet_bytes_max),
            filters,
            client: String::new(),
            input: Vec::new(),
            out: Vec::new(),
        };
        let connect = ConnectOut {
            keep_alive: 0,
            packet_bytes_max: Some(packet_bytes_max),
            ..ConnectOut::default()
        };
        session
            .machine
            .connect(&connect, &mut session.out)
            .expect("there is nothing long in it");
        session
    }

    /// Takes what the broker has sent; why the session ends.
    pub(crate) fn on_input(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(Incoming<'_>),
    ) -> Result<(), String> {
        self.input.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            let read = self.machine.handle_input(&self.input[done..]);
            let Some((length, event)) = read.map_err(|fault| fault.to_string())? else {
                break;
            };
            match event {
                ClientEvent::ConnAck(ack) if ack.values.reason == ReasonCode::Success => {
                    let name = ack.values.assigned_client_id.unwrap_or_default();
                    self.client = name.to_owned();
                    let options = SubscribeOptions {
                        retain_handling: RetainHandling::DoNotSend,
                        ..SubscribeOptions::default()
                    };
                    let filters: Vec<_> = self
                        .filters
                        .iter()
                        .map(|it| (it.as_str(), options))
                        .collect();
                    let subscribe = SubscribeOut {
                        id: 1,
                        filters: &filters,
                        ..SubscribeOut::default()
                    };
                    let written = self.machine.subscribe(&subscribe, &mut self.out);
                    written.map_err(|error| error.to_string())?;
                }
                ClientEvent::ConnAck(ack) => {
                    return Err(format!("it is refused: {:?}", ack.values.reason));
                }
                ClientEvent::SubAck(ack) => each(Incoming::Subscribed(
                    ack.codes().map(|reason| !reason.is_error()).collect(),
                )),
                ClientEvent::Publish(publish) => each(Incoming::Message(OwnMessage {
                    packet: publish.frame,
                    address: publish.topic.as_str(),
                    payload: publish.payload,
                    reply_to: publish.properties.response_topic(),
                    correlation: publish.properties.correlation_data(),
                })),
                ClientEvent::Disconnect(bye) => {
                    return Err(format!("the broker ends it: {:?}", bye.reason));
                }
                _ => {}
            }
            done += length;
        }
        self.input.drain(..done);
        Ok(())
    }

    /// Publishes an answer; false if it is too large.
    pub(crate) fn answer(
        &mut self,
        address: &str,
        correlation: Option<&[u8]>,
        payload: &[u8],
    ) -> bool {
        let publish = PublishOut {
            topic: address,
            payload,
            correlation_data: correlation,
            ..PublishOut::default()
        };
        self.machine.publish(&publish, &mut self.out).is_ok()
    }
}
