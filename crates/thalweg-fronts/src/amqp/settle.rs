//! `basic.ack`, `nack`, `reject` and `recover`: what becomes of deliveries.

use super::Request;
use super::fault::Fault;
use thalweg_amqp::methods::basic::{Ack, Nack, RecoverOk, Reject};
use thalweg_amqp::{Method, ReplyCode};
use thalweg_kernel::{Settled, Tags, Verdict};

impl Request<'_, '_> {
    #[inline]
    pub(super) fn ack(&mut self, ack: Ack) -> Result<(), Fault> {
        self.settle(ack.delivery_tag, ack.multiple, Verdict::Accept)
    }

    pub(super) fn nack(&mut self, nack: Nack) -> Result<(), Fault> {
        self.settle(nack.delivery_tag, nack.multiple, verdict(nack.requeue))
    }

    pub(super) fn reject(&mut self, reject: Reject) -> Result<(), Fault> {
        self.settle(reject.delivery_tag, false, verdict(reject.requeue))
    }

    #[inline]
    fn settle(&mut self, tag: u64, multiple: bool, verdict: Verdict) -> Result<(), Fault> {
        let tags = Tags::new(tag, multiple);
        let settled = if self.in_transaction() {
            self.cx
                .kernel
                .settle_in(self.session, u32::from(self.ch), self.ch, tags, verdict)
        } else {
            self.cx.kernel.settle_line(
                self.session,
                self.ch,
                tags,
                verdict,
                self.cx.now,
                self.cx.links,
            )
        };
        match settled {
            Settled::Known => {}
            Settled::InPart => self.is_in_part = true,
            Settled::Unknown if tag == 0 && multiple => {}
            Settled::Unknown => {
                return Err(Fault::precondition(format!("unknown delivery tag {tag}")));
            }
        }
        Ok(())
    }

    /// `recover` is answered, `recover-async` is not.
    pub(super) fn recover(&mut self, requeue: bool, is_answered: bool) -> Result<(), Fault> {
        if !requeue {
            return Err(Fault::new(ReplyCode::NotImplemented, "requeue=false"));
        }
        let (all, back) = (Tags::All, Verdict::Requeue);
        self.cx
            .kernel
            .settle_line(self.session, self.ch, all, back, self.cx.now, self.cx.links);
        if is_answered {
            self.answer(&Method::BasicRecoverOk(RecoverOk));
        }
        Ok(())
    }
}

fn verdict(requeue: bool) -> Verdict {
    if requeue {
        Verdict::Requeue
    } else {
        Verdict::Reject
    }
}
