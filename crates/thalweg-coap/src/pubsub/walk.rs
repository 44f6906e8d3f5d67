//! Walking through CBOR token by token, within bounds: nothing is allocated, and depth and length have limits. RFC 8949.

use super::PAYLOAD_BYTES_MAX;
use super::refusal::{Refusal, Unfit};
use minicbor::Decoder;
use minicbor::data::Type;

/// Deepest nesting of a value that is skipped. The draft nests nothing more than twice.
const DEPTH_MAX: u8 = 8;

/// Whether a payload begins as a list.
pub(super) fn is_list(payload: &[u8]) -> bool {
    payload.first().is_some_and(|byte| byte >> 5 == 4)
}

/// Reads a payload that is one value and nothing behind it.
pub(super) fn read_whole<'b, T>(
    payload: &'b [u8],
    read: impl FnOnce(&mut Decoder<'b>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(Refusal::of_payload(Unfit::TooLong));
    }
    let mut input = Decoder::new(payload);
    let value = read(&mut input)?;
    if input.position() != payload.len() {
        return Err(Refusal::of_payload(Unfit::Damaged));
    }
    Ok(value)
}

/// Reads a payload that is a map, an entry at a time: `entry` is given the label and has to read the value.
pub(super) fn read_map<'b>(
    payload: &'b [u8],
    mut entry: impl FnMut(i128, &mut Decoder<'b>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    read_whole(payload, |input| {
        match input.datatype() {
            Ok(Type::Map | Type::MapIndef) => {}
            Ok(_) => return Err(Refusal::of_payload(Unfit::NoMap)),
            Err(error) => return Err(damaged(error)),
        }
        let count = input.map().map_err(damaged)?;
        repeat(input, count, |input| {
            let label = read_label(input)?;
            entry(label, input)
        })
    })
}

/// Reads what is in a list or map: as often as it says, or up to its end. Each turn reads at least a byte, so a count
/// that is not true costs no more than the payload.
pub(super) fn repeat<'b>(
    input: &mut Decoder<'b>,
    count: Option<u64>,
    mut each: impl FnMut(&mut Decoder<'b>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut left = count;
    loop {
        match &mut left {
            Some(0) => return Ok(()),
            Some(more) => *more -= 1,
            None if matches!(input.datatype(), Ok(Type::Break)) => {
                input.set_position(input.position() + 1);
                return Ok(());
            }
            None => {}
        }
        each(input)?;
    }
}

/// A label: a number of any size.
pub(super) fn read_label(input: &mut Decoder<'_>) -> Result<i128, Refusal> {
    match input.datatype().map_err(damaged)? {
        Type::String | Type::StringIndef => Err(Refusal::of_payload(Unfit::TextLabel)),
        _ => input.int().map(i128::from).map_err(damaged),
    }
}

/// Passes over a value of any kind.
pub(super) fn skip(input: &mut Decoder<'_>) -> Result<(), Refusal> {
    skip_within(input, DEPTH_MAX)
}

fn skip_within(input: &mut Decoder<'_>, depth: u8) -> Result<(), Refusal> {
    let Some(below) = depth.checked_sub(1) else {
        return Err(Refusal::of_payload(Unfit::TooDeep));
    };
    match input.datatype().map_err(damaged)? {
        Type::Array | Type::ArrayIndef => {
            let count = input.array().map_err(damaged)?;
            repeat(input, count, |input| skip_within(input, below))
        }
        Type::Map | Type::MapIndef => {
            let count = input.map().map_err(damaged)?;
            repeat(input, count, |input| {
                skip_within(input, below)?;
                skip_within(input, below)
            })
        }
        Type::Tag => {
            input.tag().map_err(damaged)?;
            skip_within(input, below)
        }
        Type::BytesIndef => pieces(input.bytes_iter().map_err(damaged)?),
        Type::StringIndef => pieces(input.str_iter().map_err(damaged)?),
        Type::Break => Err(Refusal::of_payload(Unfit::Damaged)),
        _ => input.skip().map_err(damaged),
    }
}

/// Reads every piece of a string of unknown length.
fn pieces<T>(
    mut pieces: impl Iterator<Item = Result<T, minicbor::decode::Error>>,
) -> Result<(), Refusal> {
    pieces.try_for_each(|piece| piece.map(drop).map_err(damaged))
}

/// The library's error in our words; what it adds is of no use to a peer.
pub(super) fn damaged(_: minicbor::decode::Error) -> Refusal {
    Refusal::of_payload(Unfit::Damaged)
}
