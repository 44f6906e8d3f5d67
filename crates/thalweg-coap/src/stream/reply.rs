//! Encoding of a response on a connection: whole if the client accepts its size, else in the largest blocks that it
//! accepts. §6

use super::{NotSent, ServerSide};
use crate::outgoing::{etag_of, merged, put};
use crate::why;
use crate::{Block, Code, OptionOut, Token, Value, option};

/// A response, and the blocks that its request asked for.
#[derive(Clone, Copy)]
pub(super) struct Reply<'r> {
    pub token: Token,
    pub code: Code,
    pub options: &'r [OptionOut<'r>],
    /// The number of a notification. Clients need not look at it (RFC 8323 §7.1), but aiocoap drops what does not rise.
    pub observe: Option<u32>,
    /// Block1 option of the request.
    pub block1: Option<Block>,
    /// The block that was asked for.
    pub block2: Option<Block>,
    pub payload: &'r [u8],
}

/// Extent of the body that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everything, up to the end.
    Whole,
    /// There is more to ask for.
    Part,
    /// Nothing, or only that it cannot be said.
    Nothing,
}

impl Reply<'_> {
    /// Says it. `exponent_max` is SZX of the largest blocks that we like to send.
    pub fn say(&self, machine: &mut ServerSide, exponent_max: u8, out: &mut Vec<u8>) -> Extent {
        let most = exponent_max.min(Block::SIZE_EXPONENT_MAX);
        let asked = match self.block2 {
            Some(block) => block,
            None => {
                match self.write(machine, &[], self.payload, out) {
                    Ok(()) => return Extent::Whole,
                    Err(NotSent::TooLarge { .. }) if machine.peer().blockwise => {}
                    Err(NotSent::TooLarge { .. }) => return self.give_up(machine, out),
                    Err(NotSent::Closed | NotSent::TooManyRequests) => return Extent::Nothing,
                }
                let has_bert = most == Block::SIZE_EXPONENT_MAX && machine.peer().takes_bert();
                Block {
                    number: 0,
                    more: false,
                    size_exponent: if has_bert { Block::BERT } else { most },
                }
            }
        };
        self.say_part(machine, lowered(asked, most), out)
    }

    /// Says the block, or less of it if that is too much for the client.
    fn say_part(&self, machine: &mut ServerSide, mut block: Block, out: &mut Vec<u8>) -> Extent {
        let mut tag = [0; 8];
        let tag = etag_of(self.payload, &mut tag);
        let has_tag = self
            .options
            .iter()
            .any(|(number, _)| *number == option::ETAG);
        let mut units = match block.size_exponent {
            Block::BERT => (machine.peer().message_bytes_max as usize / block.size()).max(1),
            _ => 1,
        };
        loop {
            let start = block.offset();
            let end = self
                .payload
                .len()
                .min(start.saturating_add(block.size() * units));
            let Some(part) = self
                .payload
                .get(start..end)
                .filter(|part| !part.is_empty() || block.number == 0)
            else {
                let _ = machine.respond(
                    self.token,
                    Code::BAD_REQUEST,
                    |_| {},
                    why::BLOCK_BEYOND.as_bytes(),
                    out,
                );
                return Extent::Nothing;
            };
            let more = end < self.payload.len();
            let in_parts = more || block.number > 0;
            let has_body = self.code.is_success() && (!self.payload.is_empty() || in_parts);
            let value = Value::Uint(Block { more, ..block }.encode());
            let size = Value::Uint(self.payload.len() as u32);
            let own = [
                (in_parts && has_body && !has_tag).then_some((option::ETAG, Value::Opaque(tag))),
                (has_body || in_parts).then_some((option::BLOCK2, value)),
                (more && block.number == 0).then_some((option::SIZE2, size)),
            ];
            match self.write(machine, &own, part, out) {
                Ok(()) if more => return Extent::Part,
                Ok(()) => return Extent::Whole,
                Err(NotSent::TooLarge { .. }) if units > 1 => units -= 1,
                Err(NotSent::TooLarge { .. }) if block.size_exponent > 0 => {
                    block = lowered(block, block.size_exponent.min(Block::SIZE_EXPONENT_MAX) - 1);
                }
                Err(NotSent::TooLarge { .. }) => return self.give_up(machine, out),
                Err(NotSent::Closed | NotSent::TooManyRequests) => return Extent::Nothing,
            }
        }
    }

    /// Writes one message. `own` are options of blocks: ETag, Block2, Size2.
    fn write(
        &self,
        machine: &mut ServerSide,
        own: &[Option<OptionOut<'_>>],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        let [tag, block2, size2] = [0, 1, 2].map(|at| own.get(at).copied().flatten());
        let own = [
            tag,
            self.observe
                .map(|number| (option::OBSERVE, Value::Uint(number))),
            block2,
            self.block1
                .map(|block| (option::BLOCK1, Value::Uint(block.encode()))),
            size2,
        ];
        let write = |encoder: &mut crate::Encoder<'_>| {
            for (number, value) in merged(self.options, &own) {
                put(encoder, number, value);
            }
        };
        machine.respond(self.token, self.code, write, payload, out)
    }

    /// The client takes less than the least that can be said.
    fn give_up(&self, machine: &mut ServerSide, out: &mut Vec<u8>) -> Extent {
        let words: &[u8] = b"the answer is larger than you take, and you take no blocks";
        let code = Code::INTERNAL_SERVER_ERROR;
        if machine
            .respond(self.token, code, |_| {}, words, out)
            .is_err()
        {
            let _ = machine.respond(self.token, code, |_| {}, &[], out);
        }
        Extent::Nothing
    }
}

/// The same place in smaller blocks, if those are larger than that.
fn lowered(block: Block, exponent_max: u8) -> Block {
    // Units of several blocks in one message have the size of the largest blocks.
    let exponent = block.size_exponent.min(Block::SIZE_EXPONENT_MAX);
    if exponent_max >= exponent
        && (block.size_exponent < Block::BERT || exponent_max == Block::SIZE_EXPONENT_MAX)
    {
        return block;
    }
    let to = exponent_max.min(exponent);
    Block {
        number: block.number << (exponent - to),
        more: block.more,
        size_exponent: to,
    }
}
