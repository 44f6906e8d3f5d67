//! Deliveries with more fields than their names.

use super::{Delivery, End, Peer, Stage};
use crate::read::amqp_death;
use thalweg_testbed::mqtt;

impl Stage {
    /// The same as [`Stage::received`], and for AMQP the reason of the last dead-lettering.
    pub fn received_with_deaths(&mut self, peer: Peer) -> Vec<(Delivery, Option<String>)> {
        let reasons: Vec<Option<String>> = match peer.end {
            End::Amqp(who) => {
                let got = self.bed.client(who).got.iter();
                got.map(amqp_death).collect()
            }
            _ => Vec::new(),
        };
        let mut reasons = reasons.into_iter();
        let received = self.received(peer).into_iter();
        received
            .map(|delivery| (delivery, reasons.next().flatten()))
            .collect()
    }

    /// The same as [`Stage::received`], with all that each message says beside what names a delivery.
    pub fn received_in_full(&mut self, peer: Peer) -> Vec<(Delivery, String)> {
        let full: Vec<String> = match peer.end {
            End::Amqp(who) => {
                let got = self.bed.client(who).got.iter();
                got.map(|it| format!("{} {} {:?}", it.exchange, it.key, it.properties()))
                    .collect()
            }
            End::Mqtt(who) => {
                let without_id = |got: &mqtt::Received| mqtt::Received {
                    id: 0,
                    dup: false,
                    ..got.clone()
                };
                let got = self.bed.client(who).got.iter();
                got.map(|got| format!("{:?}", without_id(got))).collect()
            }
            End::Stomp(who) => {
                let names = |name: &str| matches!(name, "message-id" | "ack" | "redelivered");
                let got = self.bed.client(who).got.iter();
                got.map(|got| {
                    let headers = got.headers.iter().filter(|(name, _)| !names(name));
                    format!("{} {:?}", got.destination, headers.collect::<Vec<_>>())
                })
                .collect()
            }
            _ => Vec::new(),
        };
        let mut full = full.into_iter();
        let received = self.received(peer).into_iter();
        received
            .map(|delivery| (delivery, full.next().unwrap_or_default()))
            .collect()
    }
}
