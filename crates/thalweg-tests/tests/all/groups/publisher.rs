//! A publisher of numbers that waits for PUBACK, and publishes no more than members take.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::line::{Came, MqttConnection};
use super::log::Log;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;

pub struct Publisher {
    line: MqttConnection,
    topic: String,
    qos: u8,
    /// Number of messages published and acknowledged: they are numbered from 1.
    pub count: u32,
}

impl Publisher {
    pub fn new(broker: SocketAddr, topic: &str) -> Publisher {
        let line =
            MqttConnection::connect(broker, &Connect::new(V5, format!("publisher of {topic}")));
        Publisher {
            line,
            topic: topic.to_owned(),
            qos: 1,
            count: 0,
        }
    }

    /// Publishes one message that has a subscriber.
    pub fn publish(&mut self) -> u32 {
        let id = self.line.id();
        let number = self.count + 1;
        let publish = Publish::new(&self.topic, number.to_string()).qos(self.qos, id);
        self.line.send(&publish.bytes(V5));
        match self.line.next(PATIENCE) {
            Came::Packet(Packet::Ack {
                kind: PUBACK,
                id: of,
                reason: 0,
                ..
            }) if of == id => {}
            other => panic!("number {number} was answered with {other:?}"),
        }
        self.count = number;
        number
    }

    pub fn publish_many(&mut self, count: u32) {
        for _ in 0..count {
            self.publish();
        }
    }

    /// Publishes while no more than `ahead` are unsettled, until it is enough.
    pub fn publish_until(&mut self, log: &Log, ahead: usize, is_enough: impl Fn(u32) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_enough(self.count) {
            assert!(
                Instant::now() < deadline,
                "{} were published: {:?}",
                self.count,
                log.read().shares()
            );
            if self.count as usize >= log.read().settled.len() + ahead {
                std::thread::sleep(Duration::from_millis(1));
            } else {
                self.publish();
            }
        }
        log.over();
    }
}

/// The number that a message is.
pub fn number(payload: &[u8]) -> u32 {
    std::str::from_utf8(payload)
        .ok()
        .and_then(|text| text.parse().ok())
        .expect("publishers send numbers")
}
