//! Answers to publishes, and receivers that cause refusals.

use super::{End, Peer, Place, Protocol, Stage};
use thalweg_amqp::methods::queue;
use thalweg_amqp::{Method, TableWriter};
use thalweg_model::syntax::DOTTED;
use thalweg_testbed::{amqp, mqtt, stomp};

/// The broker's answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Refused,
}

impl Stage {
    /// Declares a queue for one message that rejects more, and binds it to the addresses that a filter covers.
    pub fn declare_rejecting(&mut self, name: &str, filter: &str) {
        let operator = self.connect(Protocol::Amqp, "operator");
        let End::Amqp(who) = operator.end else {
            unreachable!("it was asked for")
        };
        let mut arguments = Vec::new();
        let mut writer = TableWriter::new(&mut arguments);
        writer
            .i64("x-max-length", 1)
            .str("x-overflow", "reject-publish");
        let declare = Method::QueueDeclare(queue::Declare {
            queue: name,
            durable: true,
            arguments: writer.finish(),
            ..Default::default()
        });
        let key = Place::pattern(filter, DOTTED);
        let bind = Method::QueueBind(queue::Bind {
            queue: name,
            exchange: "amq.topic",
            routing_key: &key,
            ..Default::default()
        });
        for method in [declare, bind] {
            self.bed.amqp_call(who, &method);
        }
        self.lose(operator);
    }

    /// Has publishes confirmed where that is to be asked for.
    pub fn confirm(&mut self, peer: Peer) {
        if let End::Amqp(who) = peer.end {
            let select = Method::ConfirmSelect(Default::default());
            self.bed.amqp_call(who, &select);
        }
        self.verdicts(peer);
    }

    /// The broker's answers to a peer's publishes since the last call.
    pub fn verdicts(&mut self, peer: Peer) -> Vec<Verdict> {
        let of_code = |code: thalweg_coap::Code| match code.is_success() {
            true => Verdict::Accepted,
            false => Verdict::Refused,
        };
        match peer.end {
            End::Mqtt(who) => {
                let said = self.bed.client(who).said.drain(..);
                said.filter_map(|packet| match packet {
                    mqtt::Packet::PubAck { reason, .. } if reason.is_error() => {
                        Some(Verdict::Refused)
                    }
                    mqtt::Packet::PubAck { .. } => Some(Verdict::Accepted),
                    _ => None,
                })
                .collect()
            }
            End::Amqp(who) => {
                let said = self.bed.client(who).said.drain(..);
                said.filter_map(|said| match said {
                    amqp::ServerMethod::Ack { .. } => Some(Verdict::Accepted),
                    amqp::ServerMethod::Nack { .. } => Some(Verdict::Refused),
                    _ => None,
                })
                .collect()
            }
            End::Stomp(who) => {
                let heard = self.bed.client(who).heard.drain(..);
                heard
                    .filter_map(|heard| match heard {
                        stomp::ServerFrame::Receipt(_) => Some(Verdict::Accepted),
                        stomp::ServerFrame::Error { receipt, .. } => {
                            assert_eq!(receipt.as_deref(), Some("r"));
                            Some(Verdict::Refused)
                        }
                        _ => None,
                    })
                    .collect()
            }
            End::Coap(peer) => {
                let heard = self.bed.heard(peer).into_iter();
                let answers = heard.filter(|heard| heard.code.class() > 1);
                answers.map(|heard| of_code(heard.code)).collect()
            }
            End::CoapStream(who) => {
                let heard = self.bed.client(who).heard().into_iter();
                let answers = heard.filter(|heard| (2..7).contains(&heard.code.class()));
                answers.map(|heard| of_code(heard.code)).collect()
            }
            End::Line(who) => {
                let received = std::mem::take(&mut self.bed.client(who).received);
                let lines = String::from_utf8(received).expect("text");
                let answers = lines
                    .lines()
                    .filter_map(|line| match line.split(' ').next() {
                        Some("OK") => Some(Verdict::Accepted),
                        Some("ERR") => Some(Verdict::Refused),
                        _ => None,
                    });
                answers.collect()
            }
            End::Xmpp(who) => {
                let got = self.bed.client(who).got.drain(..);
                got.filter_map(|(_, stanza)| {
                    let is = |kind: &str| stanza.contains(&format!("type='{kind}'"));
                    match (is("result"), is("error")) {
                        (true, _) => Some(Verdict::Accepted),
                        (_, true) => Some(Verdict::Refused),
                        _ => None,
                    }
                })
                .collect()
            }
            End::Zmtp(_) => Vec::new(),
        }
    }
}
