//! Settlement of deliveries by receivers.

use super::{Delivery, End, Handle, Peer, Stage};
use thalweg_amqp::Method;
use thalweg_amqp::methods::basic;

impl Stage {
    pub fn acknowledge(&mut self, peer: Peer, delivery: &Delivery) {
        match (peer.end, &delivery.handle) {
            (End::Mqtt(who), Handle::Mqtt(received)) => {
                self.bed
                    .says(who, |client, up| client.acknowledge(received, up));
            }
            (End::Amqp(who), Handle::Amqp(tag)) => {
                self.bed
                    .says(who, |client, up| client.side.ack(1, *tag, false, up));
            }
            (End::Stomp(who), Handle::Stomp(got)) => {
                self.bed
                    .says(who, |client, up| client.side.ack(&got.ack_in(None), up));
            }
            (End::Line(who), Handle::Line(tag)) => self.line(who, &["ACK", tag]),
            (End::Xmpp(who), Handle::Xmpp(number)) => {
                self.bed
                    .says(who, |client, up| client.acknowledge(*number, up));
            }
            (_, Handle::None) => {}
            other => panic!("{other:?}"),
        }
    }

    /// A consumer of AMQP rejects a message or requeues it.
    fn judge(&mut self, peer: Peer, delivery: &Delivery, requeue: bool) {
        let (End::Amqp(who), Handle::Amqp(tag)) = (peer.end, &delivery.handle) else {
            panic!("{peer:?} does not speak AMQP")
        };
        let reject = Method::BasicReject(basic::Reject {
            delivery_tag: *tag,
            requeue,
        });
        self.bed.amqp_call(who, &reject);
    }

    pub fn reject(&mut self, peer: Peer, delivery: &Delivery) {
        self.judge(peer, delivery, false);
    }

    pub fn requeue(&mut self, peer: Peer, delivery: &Delivery) {
        self.judge(peer, delivery, true);
    }
}
