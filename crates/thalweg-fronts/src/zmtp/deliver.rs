//! Messages to SUB and PULL.

use super::parts::Parts;
use super::{Role, Stage, ZmtpFront, address};
use crate::front::{ConsumerFate, Fate, Outbound, Undelivered};
use crate::native;
use thalweg_kernel::{CloseReason, ConsumerEnd, Delivery, Handover};
use thalweg_zmtp::Message;

impl Outbound for ZmtpFront {
    /// What a prefix wants less than its filters is left out here, and counts as delivered.
    #[inline]
    fn deliver(&mut self, delivery: &Delivery<'_>, out: &mut Vec<u8>) -> Result<(), Undelivered> {
        let Stage::Open(traffic, Role::Subscriber) = &mut self.stage else {
            return Err(Undelivered::NoConsumer);
        };
        if let Some(native) = delivery.native
            && native.dialect == native::ZMTP
        {
            let message = Message::from_raw(native.frame);
            let first = || message.frames().next().unwrap_or_default();
            if !self.subscriptions.are_inexact() || self.subscriptions.want(first()) {
                traffic.forward(message, out);
            }
            return Ok(());
        }
        let parts = Parts::of(delivery.properties);
        self.head.clear();
        address::write(delivery.address, &mut self.head);
        if let Parts::One(separator) = parts {
            self.head.extend(separator);
            self.head.extend_from_slice(delivery.payload);
        }
        if !self.subscriptions.want(&self.head) {
            return Ok(());
        }
        let mut frames = match parts {
            Parts::One(_) => Parts::Several(&[]).frames(b""),
            _ => parts.frames(delivery.payload),
        }
        .peekable();
        traffic.frame(&self.head, frames.peek().is_some(), out);
        while let Some(frame) = frames.next() {
            traffic.frame(frame, frames.peek().is_some(), out);
        }
        if self.head.capacity() > HEAD_KEPT_MAX {
            self.head = Vec::new();
        }
        Ok(())
    }

    /// A PULL gets the frames that a PUSH sent; what others sent is one frame.
    fn hand_over(&mut self, handover: &Handover<'_>, out: &mut Vec<u8>) -> Result<(), Undelivered> {
        let Stage::Open(traffic, Role::Puller) = &mut self.stage else {
            return Err(Undelivered::NoConsumer);
        };
        let message = handover.message;
        let parts = Parts::of(message.properties());
        let mut frames = parts.frames(message.payload()).peekable();
        while let Some(frame) = frames.next() {
            traffic.frame(frame, frames.peek().is_some(), out);
        }
        Ok(())
    }

    fn consumer_ended(&mut self, _: u16, _: ConsumerEnd, _: &mut Vec<u8>) -> ConsumerFate {
        self.stage = Stage::Closed;
        self.fault = Some("the queue was deleted".into());
        ConsumerFate::EndsLink
    }

    /// ZMTP has no good-bye.
    fn disconnect(&mut self, _: CloseReason, _: &mut Vec<u8>) -> Fate {
        self.stage = Stage::Closed;
        Fate::LinkEnds
    }

    fn on_silence(&mut self, _: &mut Vec<u8>) {
        self.stage = Stage::Closed;
        self.fault = Some("no sign of life came for as long as heart-beats allow".into());
    }
}

/// A larger buffer is not kept for the next message.
const HEAD_KEPT_MAX: usize = 64 << 10;
