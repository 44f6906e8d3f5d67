//! The lane against a broker made of the wire crate's other end, in memory.

use std::collections::{BTreeMap, VecDeque};

use thalweg_model::syntax::DOTTED;
use thalweg_model::{Filter, Time};
use thalweg_stomp::{
    AckMode, AckTarget, ConnectedOut, Event, Headers, MessageOut, ServerLimits, ServerSide,
};

use super::*;
use crate::pair::{FarEnd, acknowledged, endpoint};
use crate::transport::{Medium, Transport};
use crate::witness::{EventCall, Got, at_most_once, exactly_once, message};

mod arrival;
mod bytes;
mod departure;

/// A broker for one client: topics, queues, and configured misbehaviour.
struct Server {
    side: ServerSide,
    name: &'static str,
    announces_stamps: bool,
    heart_beat: (u32, u32),
    /// Frame that it sends instead of CONNECTED.
    turns_away: Option<&'static str>,
    /// The connection ends when something is sent or subscribed to here.
    forbidden: Option<&'static str>,
    /// ERROR names the receipt of its frame.
    names_receipts: bool,
    holds_receipts: bool,
    held: Vec<String>,
    subscriptions: Vec<Subscribed>,
    queues: BTreeMap<String, VecDeque<Sent>>,
    sent: Vec<Sent>,
    /// Frames that are worth looking at, as text.
    heard: Vec<String>,
    message_last: u64,
    closed: bool,
    out: Vec<u8>,
}

struct Subscribed {
    id: String,
    destination: String,
    settles: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sent {
    destination: String,
    receipt: Option<String>,
    content_type: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Sent {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl FarEnd for Server {
    fn accept(&mut self) {
        self.side = ServerSide::new(ServerLimits::default());
        self.subscriptions.clear();
        self.held.clear();
        self.out.clear();
        self.closed = false;
    }

    fn hear(&mut self, bytes: &[u8], _: Time) {
        let mut rest = bytes;
        while !self.closed
            && let Some((consumed, event)) = self
                .side
                .handle_input(rest)
                .expect("the client keeps to the rules")
        {
            rest = &rest[consumed..];
            self.on_event(event);
        }
        assert!(self.closed || rest.is_empty(), "half a frame");
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl Server {
    fn new() -> Server {
        Server {
            side: ServerSide::new(ServerLimits::default()),
            name: "Thalweg/1.0",
            announces_stamps: true,
            heart_beat: (0, 0),
            turns_away: None,
            forbidden: None,
            names_receipts: true,
            holds_receipts: false,
            held: Vec::new(),
            subscriptions: Vec::new(),
            queues: BTreeMap::new(),
            sent: Vec::new(),
            heard: Vec::new(),
            message_last: 0,
            closed: false,
            out: Vec::new(),
        }
    }

    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::Connect(connect) => {
                let credentials = (connect.login.as_deref(), connect.passcode.as_deref());
                let (host, client) = (connect.host.as_deref(), connect.headers.get("client-id"));
                self.heard.push(format!(
                    "{host:?} {credentials:?} {client:?} {:?}",
                    connect.heart_beat
                ));
                if let Some(words) = self.turns_away {
                    return self.end(words, None);
                }
                let connected = ConnectedOut {
                    server: Some(self.name),
                    heart_beat: self.heart_beat,
                    ..ConnectedOut::default()
                };
                let before = self.out.len();
                self.side.connected(&connected, &mut self.out);
                if self.announces_stamps {
                    // In front of the line that ends the headers.
                    let at = before
                        + self.out[before..]
                            .windows(2)
                            .position(|pair| pair == b"\n\n")
                            .expect("a frame")
                        + 1;
                    self.out.splice(at..at, *b"x-stamps:1\n");
                }
            }
            Event::Send(send) => {
                let receipt = send.receipt.as_deref().map(str::to_owned);
                if self.forbidden == Some(&send.destination) {
                    return self.end("access_refused", receipt.as_deref());
                }
                let sent = Sent {
                    destination: send.destination.to_string(),
                    receipt: receipt.clone(),
                    content_type: send.content_type.as_deref().map(str::to_owned),
                    headers: owned(&send.headers),
                    body: send.body.to_vec(),
                };
                self.sent.push(sent.clone());
                self.route(&sent);
                self.receipt(receipt.as_deref());
            }
            Event::Subscribe(subscribe) => {
                if self.forbidden == Some(&subscribe.destination) {
                    return self.end("access_refused", subscribe.receipt.as_deref());
                }
                let headers: Vec<String> = owned(&subscribe.headers)
                    .into_iter()
                    .filter(|(name, _)| {
                        !["id", "destination", "ack", "receipt"].contains(&name.as_str())
                    })
                    .map(|(name, value)| format!("{name}:{value}"))
                    .collect();
                let id = subscribe.id.as_deref().unwrap_or_default().to_owned();
                let destination = subscribe.destination.to_string();
                self.heard.push(format!(
                    "{id} {destination} {} {}",
                    subscribe.ack.name(),
                    headers.join(" ")
                ));
                let settles = subscribe.ack != AckMode::Auto;
                self.subscriptions.push(Subscribed {
                    id,
                    destination: destination.clone(),
                    settles,
                });
                self.receipt(subscribe.receipt.as_deref());
                for sent in self.queues.remove(&destination).unwrap_or_default() {
                    self.route(&sent);
                }
            }
            Event::Unsubscribe(unsubscribe) => {
                let id = unsubscribe.id.as_deref().unwrap_or_default();
                self.heard.push(format!(
                    "unsubscribe {id} {:?}",
                    unsubscribe.headers.get("x-queue-name")
                ));
                self.subscriptions.retain(|subscribed| subscribed.id != id);
            }
            Event::Ack(ack) => self.heard.push(format!("ack {}", target(&ack.target))),
            Event::Nack(nack) => self.heard.push(format!("nack {}", target(&nack.target))),
            Event::Begin(_) => {}
            Event::Abort(abort) => self.receipt(abort.receipt.as_deref()),
            Event::HeartBeat => self.heard.push("heart-beat".to_owned()),
            Event::Disconnect(_) => self.closed = true,
            other => panic!("{other:?}"),
        }
    }

    fn receipt(&mut self, id: Option<&str>) {
        match id {
            Some(id) if self.holds_receipts => self.held.push(id.to_owned()),
            Some(id) => self.side.receipt(id, &mut self.out),
            None => {}
        }
    }

    fn end(&mut self, message: &str, receipt: Option<&str>) {
        let receipt = receipt.filter(|_| self.names_receipts);
        self.side
            .error(message, receipt, "as it is\n", &mut self.out);
        self.closed = true;
    }

    /// Delivers a message to the matching subscriptions.
    fn route(&mut self, sent: &Sent) {
        let is_wanted = |wanted: &str| match (
            wanted.strip_prefix("/topic/"),
            sent.destination.strip_prefix("/topic/"),
        ) {
            (Some(wanted), Some(topic)) => {
                let (mut filter, mut address) = (String::new(), String::new());
                DOTTED.read_filter(wanted, &mut filter);
                DOTTED.read_address(topic, &mut address);
                Filter::new(&filter).is_ok_and(|filter| filter.matches(&address))
            }
            _ => wanted == sent.destination,
        };
        let wanted = self
            .subscriptions
            .iter()
            .filter(|subscribed| is_wanted(&subscribed.destination));
        let wanted: Vec<(String, bool)> = wanted.map(|it| (it.id.clone(), it.settles)).collect();
        for (id, settles) in wanted {
            self.message(&id, settles, sent, false);
        }
    }

    fn message(&mut self, subscription: &str, settles: bool, sent: &Sent, redelivered: bool) {
        self.message_last += 1;
        let name = format!("T_{}@@a:b\\{}", subscription, self.message_last);
        let out = MessageOut {
            subscription: Some(subscription),
            message_id: &name,
            ack: settles.then_some(&name),
            destination: &sent.destination,
            content_type: sent.content_type.as_deref(),
            redelivered,
            body: &sent.body,
        };
        let known = ["destination", "receipt", "content-length", "content-type"];
        let headers = sent
            .headers
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()));
        let headers: Vec<(&str, &str)> = headers
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        self.side
            .message(&out, |w| w.extend(headers), &mut self.out);
    }
}

fn owned(headers: &Headers<'_>) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

fn target<'a>(target: &'a AckTarget<'_>) -> &'a str {
    match target {
        AckTarget::Id(id) => id,
        AckTarget::Message { message_id, .. } => message_id,
    }
}

type Pair = crate::pair::Pair<Stomp, Server>;

fn settings() -> StompSettings {
    StompSettings::default()
}

impl Pair {
    fn new(settings: StompSettings) -> Pair {
        let lane = Stomp::new(endpoint(61613, Medium::Stream), settings);
        Pair::of(lane, Server::new(), "pump-7")
    }

    /// A connected pair; the events up to there are cleared.
    fn up(settings: StompSettings) -> Pair {
        let mut pair = Pair::new(settings);
        pair.connect();
        pair
    }

    fn connect(&mut self) {
        self.reach();
        assert_eq!(self.witness.take(), [EventCall::Up(Welcome::default())]);
        self.server.heard.clear();
    }
}
