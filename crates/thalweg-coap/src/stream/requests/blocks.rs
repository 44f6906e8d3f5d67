//! Requests and responses of a connection in blocks. RFC 7959, RFC 8323 §6

use std::borrow::Cow;

use thalweg_wire::Time;

use super::{Body, Requests};
use crate::blockwise::{Gathered, Part};
use crate::stream::StreamMessage;
use crate::stream::reply::{Extent, Reply};
use crate::why::{self, CROWDED_SECONDS, OVERLOADED_SECONDS};
use crate::{Block, Code, Value, option};

impl Requests {
    /// Bytes of requests and responses in blocks.
    pub fn transfer_bytes(&self) -> usize {
        self.transfers.bytes() + self.kept.bytes()
    }

    /// Sets whether requests in blocks may take more memory. If not, each further block but the last is answered with 5.03.
    pub fn set_may_gather(&mut self, may: bool) {
        self.may_gather = may;
    }

    /// Takes a payload, or a block of one. RFC 7959 §2.3, RFC 8323 §6
    pub(super) fn take_block1<'b>(
        &mut self,
        message: &StreamMessage<'b>,
        key: u64,
        now: Time,
        out: &mut Vec<u8>,
    ) -> (Option<Block>, Body<'b>) {
        let most = self.settings.transfer_bytes_max;
        let too_large = (
            option::SIZE1,
            Value::Uint(most.min(u32::MAX as usize) as u32),
        );
        let bytes = message.payload;
        let Some(value) = message.options.uint(option::BLOCK1) else {
            if bytes.len() > most {
                let why = why::too_large(most);
                self.answer(
                    message,
                    Code::REQUEST_ENTITY_TOO_LARGE,
                    &[Some(too_large)],
                    &why,
                    out,
                );
                return (None, Body::Answered);
            }
            return (None, Body::Whole(Cow::Borrowed(bytes)));
        };
        // Several units in one message, but for the last one whole ones.
        let is_of_units = |block: Block| match block.size_exponent {
            Block::BERT => !bytes.is_empty() && bytes.len().is_multiple_of(block.size()),
            _ => bytes.len() == block.size(),
        };
        let Some(block) =
            Block::decode_bert(value).filter(|block| !block.more || is_of_units(*block))
        else {
            self.answer(message, Code::BAD_REQUEST, &[], why::BLOCK_SIZE, out);
            return (None, Body::Answered);
        };
        let announced = message.options.uint(option::SIZE1).unwrap_or(0) as usize;
        let part = Part {
            key,
            peer: self.seed,
            offset: block.offset(),
            bytes,
            more: block.more,
        };
        let gathered = if announced > most {
            Gathered::TooLarge
        } else if !self.may_gather && block.more {
            self.transfers.forget(key);
            Gathered::Full
        } else {
            self.transfers.gather(part, &self.settings, now)
        };
        let own = Some((option::BLOCK1, Value::Uint(block.encode())));
        let age = |seconds| Some((option::MAX_AGE, Value::Uint(seconds)));
        let why_too_large = why::too_large(most);
        let (code, options, why) = match gathered {
            Gathered::Whole(body) => {
                return (
                    Some(Block {
                        more: false,
                        ..block
                    }),
                    Body::Whole(Cow::Owned(body)),
                );
            }
            Gathered::More => (Code::CONTINUE, [own, None], ""),
            Gathered::Gap => (Code::REQUEST_ENTITY_INCOMPLETE, [own, None], why::GAP),
            Gathered::TooLarge => (
                Code::REQUEST_ENTITY_TOO_LARGE,
                [own, Some(too_large)],
                why_too_large.as_str(),
            ),
            Gathered::Crowded => (
                Code::SERVICE_UNAVAILABLE,
                [age(CROWDED_SECONDS), None],
                why::CROWDED,
            ),
            Gathered::Full => (
                Code::SERVICE_UNAVAILABLE,
                [age(OVERLOADED_SECONDS), None],
                why::TRANSFERS,
            ),
        };
        self.answer(message, code, &options, why, out);
        (None, Body::Answered)
    }

    /// Serves a further block of a response that was kept. False if there is none, and the request asks for no more than
    /// the application may show again.
    pub(super) fn serve_kept(
        &mut self,
        message: &StreamMessage<'_>,
        is_safe: bool,
        key: u64,
        block: Block,
        now: Time,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some((kept, _)) = self.kept.get(key, message.token, now) else {
            if !is_safe {
                self.answer(
                    message,
                    Code::REQUEST_ENTITY_INCOMPLETE,
                    &[],
                    why::NOT_KEPT,
                    out,
                );
            }
            return !is_safe;
        };
        let said = kept.with_parts(|options, payload| {
            let reply = Reply {
                token: message.token,
                code: kept.code(),
                options,
                observe: None,
                block1: None,
                block2: Some(block),
                payload,
            };
            reply.say(&mut self.machine, self.settings.block_exponent_max, out)
        });
        if said == Extent::Whole
            && let Some(at) = self.to_confirm.iter().position(|(of, _)| *of == key)
        {
            let (_, cookie) = self.to_confirm.swap_remove(at);
            self.ping(cookie, out);
        }
        true
    }
}
