//! Messages to SUB and PULL, requests to workers and answers to those who asked.

use super::header::{self, HeaderFields};
use super::parts::Parts;
use super::{ANSWERS, Role, Stage, ZmtpFront, address, request};
use crate::front::{ConsumerFate, Fate, Outbound, Undelivered};
use crate::native;
use thalweg_kernel::{CloseReason, ConsumerEnd, Content, Delivery, Recipient, Run};
use thalweg_model::{Properties, Span};
use thalweg_zmtp::Message;

impl Outbound for ZmtpFront {
    #[inline]
    fn deliver(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        if delivery.to != Recipient::Subscriber {
            return self.deliver_queued(content, delivery, out);
        }
        if let Some(native) = content.native()
            && native.dialect == native::ZMTP
            && !self.has_header
            && !self.subscriptions.are_inexact()
            && let Stage::Open(traffic, Role::Subscriber) = &mut self.stage
        {
            traffic.forward(Message::from_raw(native.frame), out);
            return Ok(());
        }
        self.encode(content, delivery, out)
    }

    fn deliver_run(&mut self, run: &Run<'_>, out: &mut Vec<u8>) -> bool {
        let Stage::Open(traffic, role) = &mut self.stage else {
            return false;
        };
        let is_as_it_came = match (run.dialect, role) {
            (native::ZMTP, Role::Subscriber) => !self.subscriptions.are_inexact(),
            (native::ZMTP_PUSHED, Role::Puller) => true,
            _ => false,
        };
        is_as_it_came && !self.has_header && traffic.forward_all(run.frames, out)
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

impl ZmtpFront {
    /// Any message. What a prefix wants less than its filters is left out here, and counts as delivered.
    #[inline(never)]
    fn encode(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        let Stage::Open(traffic, Role::Subscriber) = &mut self.stage else {
            return Err(Undelivered::NoConsumer);
        };
        if let Some(native) = content.native()
            && native.dialect == native::ZMTP
            && !self.has_header
        {
            let message = Message::from_raw(native.frame);
            let first = message.frames().next().unwrap_or_default();
            if self.subscriptions.want(first) {
                traffic.forward(message, out);
            }
            return Ok(());
        }
        let parts = Parts::of(content.properties());
        self.head.clear();
        address::write(content.address(), &mut self.head);
        let has_header = self.has_header;
        if let (Parts::One(separator), false) = (parts, has_header) {
            self.head.extend(separator);
            self.head.extend_from_slice(content.payload());
        }
        if !self.subscriptions.want(&self.head) {
            return Ok(());
        }
        let mut frames = match parts {
            Parts::One(_) if !has_header => Parts::Several(&[]).frames(b""),
            _ => parts.frames(content.payload()),
        }
        .peekable();
        let has_more = frames.peek().is_some();
        traffic.frame(&self.head, has_header || has_more, out);
        if has_header {
            let secs = delivery.expires_in_secs();
            let said = HeaderFields {
                expires_in: secs.map(|secs| Span::from_secs(secs.into())),
                priority: content.priority(),
            };
            let said = header(content.properties(), said);
            traffic.frame(&said, has_more, out);
        }
        while let Some(frame) = frames.next() {
            traffic.frame(frame, frames.peek().is_some(), out);
        }
        if self.head.capacity() > HEAD_KEPT_MAX {
            self.head = Vec::new();
        }
        Ok(())
    }

    /// A PULL gets the frames that a PUSH sent; what others sent is one frame.
    fn deliver_queued(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        let Stage::Open(traffic, role) = &mut self.stage else {
            return Err(Undelivered::NoConsumer);
        };
        if *role != Role::Puller {
            let is_answer = matches!(
                delivery.to,
                Recipient::Consumer {
                    number: ANSWERS,
                    ..
                }
            );
            return match (is_answer, &mut self.calls, &mut self.worker) {
                (true, Some(calls), _) => request::answer(calls, content, traffic, out),
                (false, _, Some(worker)) => worker.ask(content, delivery, traffic, out),
                _ => Err(Undelivered::NoConsumer),
            };
        }
        let parts = Parts::of(content.properties());
        if parts == Parts::Two && !self.has_header {
            traffic.frame(content.payload(), false, out);
            return Ok(());
        }
        let mut frames = parts.frames(content.payload()).peekable();
        if self.has_header {
            let said = HeaderFields {
                expires_in: delivery.expires_in,
                priority: content.priority(),
            };
            let said = header(content.properties(), said);
            traffic.frame(&said, frames.peek().is_some(), out);
        }
        while let Some(frame) = frames.next() {
            traffic.frame(frame, frames.peek().is_some(), out);
        }
        Ok(())
    }
}

/// The header frame of a message.
#[cold]
fn header(properties: Option<&Properties>, said: HeaderFields) -> Vec<u8> {
    let mut frame = Vec::new();
    let neutral = properties.map(native::neutral);
    header::write(neutral.as_deref(), said, &mut frame);
    frame
}

/// A larger buffer is not kept for the next message.
const HEAD_KEPT_MAX: usize = 64 << 10;
