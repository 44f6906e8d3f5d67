//! Requests that come in blocks, and responses that are kept so that they can go in blocks. RFC 7959

use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use thalweg_wire::{Span, Time};

use crate::slots::NONE;
use crate::{Code, OptionOut, Options, ServerSettings, SharedBody, Token, Value, option};

/// Bodies by the hash of peer and cache key, see [`key_of`].
type Bodies<T> = HashMap<u64, T, FixedState>;

/// A request of which not all blocks have come.
#[derive(Debug)]
struct Transfer {
    peer: u64,
    body: Vec<u8>,
    blocks: u32,
    seen: Time,
}

/// Requests in blocks. Each is handed out whole or not at all. RFC 7959 §2.5
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    all: Bodies<Transfer>,
    bytes: usize,
    /// When the first of them may be too old; may come early.
    next: Option<Time>,
    pub displaced: u64,
}

/// Result of adding a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// There are more to come.
    More,
    /// It was the last one.
    Whole(Vec<u8>),
    /// It is not the one behind those that came: 4.08.
    Gap,
    /// The body is too large: 4.13.
    TooLarge,
    /// Its peer has as many under way as it may: 5.03, until one of them has ended.
    Crowded,
    /// There are too many of all peers: 5.03.
    Full,
}

/// A block of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'b> {
    pub key: u64,
    /// The peer's name, see `Peer::name`.
    pub peer: u64,
    pub offset: usize,
    pub bytes: &'b [u8],
    pub more: bool,
}

impl Transfers {
    /// Takes a block; blocks come in order, because each but the first waits for the answer to the one before.
    pub fn gather(&mut self, part: Part<'_>, settings: &ServerSettings, now: Time) -> Gathered {
        if part.offset + part.bytes.len() > settings.transfer_bytes_max {
            self.forget(part.key);
            return Gathered::TooLarge;
        }
        if part.offset == 0 {
            self.forget(part.key);
            if self.is_crowded(part, settings) {
                return Gathered::Crowded;
            }
            if !self.make_room(settings, now) {
                return Gathered::Full;
            }
            let transfer = Transfer {
                peer: part.peer,
                body: Vec::new(),
                blocks: 0,
                seen: now,
            };
            self.all.insert(part.key, transfer);
            self.next = Some(
                self.next
                    .unwrap_or(Time::NEVER)
                    .min(now + settings.transfer_idle),
            );
        }
        let Some(transfer) = self.all.get_mut(&part.key) else {
            return Gathered::Gap;
        };
        if transfer.body.len() != part.offset || transfer.peer != part.peer {
            return Gathered::Gap;
        }
        if self.bytes + part.bytes.len() > settings.transfers_bytes_max {
            self.forget(part.key);
            return Gathered::Full;
        }
        let before = transfer.body.capacity();
        transfer.body.extend_from_slice(part.bytes);
        transfer.blocks += 1;
        transfer.seen = now;
        self.bytes += transfer.body.capacity() - before;
        match part.more {
            true => Gathered::More,
            false => Gathered::Whole(self.forget(part.key).unwrap_or_default()),
        }
    }

    /// Forgets those that were silent for too long.
    pub fn forget_old(&mut self, idle: Span, now: Time) {
        if self.next.is_none_or(|at| at > now) {
            return;
        }
        let mut next = None;
        self.all.retain(|_, transfer| {
            let until = transfer.seen + idle;
            let stays = until > now;
            if stays {
                next = Some(next.unwrap_or(Time::NEVER).min(until));
            } else {
                self.bytes -= transfer.body.capacity();
            }
            stays
        });
        self.next = next;
    }

    /// When [`Transfers::forget_old`] has something to do.
    pub fn next(&self) -> Time {
        self.next.unwrap_or(Time::NEVER)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of a peer's bodies in progress.
    pub fn count_of(&self, peer: u64) -> usize {
        self.all
            .values()
            .filter(|transfer| transfer.peer == peer)
            .count()
    }

    pub fn bytes(&self) -> usize {
        self.bytes + self.all.allocation_size()
    }

    pub fn forget(&mut self, key: u64) -> Option<Vec<u8>> {
        let transfer = self.all.remove(&key)?;
        self.bytes -= transfer.body.capacity();
        Some(transfer.body)
    }

    /// Whether a peer has as many transfers under way as it may have, or a quarter of the bytes of all. The newcomer is
    /// refused: were the oldest dropped for it, a peer that sends more than the limit in parallel would finish none.
    fn is_crowded(&self, part: Part<'_>, settings: &ServerSettings) -> bool {
        let own = self
            .all
            .values()
            .filter(|transfer| transfer.peer == part.peer);
        let (count, bytes) = own.fold((0, 0), |(count, bytes), it| {
            (count + 1, bytes + it.body.capacity())
        });
        count >= usize::from(settings.transfers_per_peer.max(1))
            || (count > 0 && bytes >= settings.transfers_bytes_max / 4)
    }

    /// Makes room for one more within the limit of all peers, if possible.
    fn make_room(&mut self, settings: &ServerSettings, now: Time) -> bool {
        if self.all.len() >= settings.transfers_max {
            // A peer that forges addresses sends first blocks only, because the answers go elsewhere.
            let stuck = |t: &Transfer| {
                t.blocks <= 1 && now.since(t.seen) >= settings.transmission.ack_timeout
            };
            let oldest = self
                .all
                .iter()
                .filter(|(_, t)| stuck(t))
                .min_by_key(|(_, t)| t.seen);
            self.displace(oldest.map(|(key, _)| *key));
        }
        self.all.len() < settings.transfers_max
    }

    fn displace(&mut self, key: Option<u64>) {
        if key.and_then(|key| self.forget(key)).is_some() {
            self.displaced += 1;
        }
    }
}

/// State of a body whose further blocks may be requested.
#[derive(Debug)]
pub(crate) enum KeptBody {
    /// A response: its code, its options as they are on the wire, and its payload.
    Response {
        code: Code,
        options: Vec<u8>,
        payload: Vec<u8>,
    },
    Notification(Arc<SharedBody>),
}

impl KeptBody {
    pub fn code(&self) -> Code {
        match self {
            KeptBody::Response { code, .. } => *code,
            KeptBody::Notification(body) => body.code(),
        }
    }

    /// Its options and the whole payload.
    pub fn with_parts<R>(&self, of: impl FnOnce(&[OptionOut<'_>], &[u8]) -> R) -> R {
        match self {
            KeptBody::Response {
                options, payload, ..
            } => {
                let (options, _) = Options::decode(options).unwrap_or((Options::EMPTY, &[]));
                let options: Vec<OptionOut<'_>> = options
                    .iter()
                    .map(|(n, value)| (n, Value::Opaque(value)))
                    .collect();
                of(&options, payload)
            }
            KeptBody::Notification(body) => body.with_parts(of),
        }
    }

    /// Many may share one notification; each is charged with all of it, because it may be the last one.
    fn bytes(&self) -> usize {
        match self {
            KeptBody::Response {
                options, payload, ..
            } => options.len() + payload.len(),
            KeptBody::Notification(body) => body.bytes(),
        }
    }
}

#[derive(Debug)]
struct Kept {
    body: KeptBody,
    /// The token under which blocks of it were asked for last.
    token: Option<Token>,
    /// The notification before, and the token under which it was asked for: the answer with its last block may be lost, and
    /// is asked for again when this one is under way.
    before: Option<Box<(Token, KeptBody)>>,
    seen: Time,
    /// The response that this is the body of, if its fate is not known yet; whose it is; and until when it may be kept.
    awaited: u32,
    peer: u32,
    until: Time,
}

/// Responses to requests that must not be carried out again for each block, and notifications.
#[derive(Debug, Default)]
pub(crate) struct KeptResponses {
    all: Bodies<Kept>,
    bytes: usize,
    next: Option<Time>,
    /// Responses whose bodies have gone before their fate was known. A list is small when it is empty: each connection over
    /// TCP has one.
    dropped: Option<Box<Dropped>>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.body.bytes() + self.before.as_ref().map_or(0, |before| before.1.bytes())
    }
}

#[derive(Debug)]
struct Dropped {
    awaited: u32,
    next: Option<Box<Dropped>>,
}

impl KeptResponses {
    /// Keeps one. The oldest go if there are too many, those last whose fate is awaited; or this one if it is too large.
    pub fn insert(&mut self, key: u64, body: KeptBody, s: &ServerSettings, now: Time) {
        let before = match (self.take(key), &body) {
            (
                Some(Kept {
                    body: old @ KeptBody::Notification(_),
                    token: Some(token),
                    ..
                }),
                KeptBody::Notification(_),
            ) => Some(Box::new((token, old))),
            _ => None,
        };
        let mut kept = Kept {
            body,
            token: None,
            before,
            seen: now,
            awaited: NONE,
            peer: NONE,
            until: Time::NEVER,
        };
        if kept.bytes() > s.kept_responses_bytes_max {
            kept.before = None;
        }
        let bytes = kept.bytes();
        if bytes > s.kept_responses_bytes_max {
            // Others need not go for one that stays out all the same.
            return;
        }
        while self.all.len() >= s.kept_responses_max
            || self.bytes + bytes > s.kept_responses_bytes_max
        {
            let oldest = self
                .all
                .iter()
                .min_by_key(|(_, kept)| (kept.awaited != NONE, kept.seen))
                .map(|(key, _)| *key);
            let Some(oldest) = oldest else { return };
            self.forget(oldest);
        }
        self.bytes += bytes;
        self.next = Some(self.next.unwrap_or(Time::NEVER).min(now + s.transfer_idle));
        self.all.insert(key, kept);
    }

    /// Notes that the fate of the response with this body is awaited, and until when at most; or, by [`NONE`], that it is
    /// no more. Says whether the body is here.
    pub fn await_fate(&mut self, key: u64, awaited: u32, peer: u32, until: Time) -> bool {
        let Some(kept) = self.all.get_mut(&key) else {
            return false;
        };
        (kept.awaited, kept.peer, kept.until) = (awaited, peer, until);
        self.next = Some(self.next.unwrap_or(Time::NEVER).min(until));
        true
    }

    /// The response that this is the body of, if its fate is awaited.
    pub fn awaited(&self, key: u64) -> u32 {
        self.all.get(&key).map_or(NONE, |kept| kept.awaited)
    }

    /// Takes one of the responses whose bodies have gone before their fate was known.
    pub fn pop_dropped(&mut self) -> Option<u32> {
        let dropped = self.dropped.take()?;
        self.dropped = dropped.next;
        Some(dropped.awaited)
    }

    /// Forgets what a peer has not fetched of responses whose fate is awaited.
    pub fn forget_awaited(&mut self, peer: u32) {
        let is_it = |(_, kept): &(&u64, &Kept)| kept.peer == peer;
        while let Some(key) = self.all.iter().find(is_it).map(|(key, _)| *key) {
            self.forget(key);
        }
    }

    /// Whether there is a response to this request.
    pub fn has(&self, key: u64) -> bool {
        !self.all.is_empty() && self.all.contains_key(&key)
    }

    /// The body of which a block is requested under this token, and whether it is the newest; it is kept for longer now.
    pub fn get(&mut self, key: u64, token: Token, now: Time) -> Option<(&KeptBody, bool)> {
        let kept = self.all.get_mut(&key)?;
        kept.seen = now;
        if let Some((_, before)) = kept.before.as_deref().filter(|before| before.0 == token) {
            return Some((before, false));
        }
        kept.token = Some(token);
        Some((&kept.body, true))
    }

    /// Forgets those that were not asked for.
    pub fn forget_old(&mut self, idle: Span, now: Time) {
        if self.next.is_none_or(|at| at > now) {
            return;
        }
        let mut next = None;
        self.all.retain(|_, kept| {
            let until = match kept.body {
                // What follows waits for its end, which comes with `until`.
                KeptBody::Notification(_) if kept.awaited != NONE => kept.until,
                _ => (kept.seen + idle).min(kept.until),
            };
            if until > now {
                next = Some(next.unwrap_or(Time::NEVER).min(until));
                return true;
            }
            self.bytes -= kept.bytes();
            note_dropped(&mut self.dropped, kept.awaited);
            false
        });
        self.next = next;
    }

    pub fn next(&self) -> Time {
        self.next.unwrap_or(Time::NEVER)
    }

    pub fn bytes(&self) -> usize {
        self.bytes + self.all.allocation_size()
    }

    pub fn forget(&mut self, key: u64) {
        self.take(key);
    }

    fn take(&mut self, key: u64) -> Option<Kept> {
        let kept = self.all.remove(&key)?;
        self.bytes -= kept.bytes();
        note_dropped(&mut self.dropped, kept.awaited);
        Some(kept)
    }
}

fn note_dropped(dropped: &mut Option<Box<Dropped>>, awaited: u32) {
    if awaited != NONE {
        *dropped = Some(Box::new(Dropped {
            awaited,
            next: dropped.take(),
        }));
    }
}

/// Key that the blocks of one request share: peer, method, and all options except those that concern blocks or a single
/// message. Request-Tag is one of them, so that blocks with different tags are not put together. RFC 9175 §3
///
/// It is computed for every request, so it is a fast hash. A collision between two requests of one peer harms only that
/// peer; others cannot be hit on purpose, because `peer` is a hash with a key of its own.
#[inline]
pub(crate) fn key_of(peer: u64, code: Code, options: &Options<'_>) -> u64 {
    let mut key = peer ^ u64::from(code.0);
    for (number, value) in options.iter() {
        let is_of_message = matches!(
            number,
            option::OBSERVE
                | option::HOP_LIMIT
                | option::BLOCK2
                | option::BLOCK1
                | option::SIZE2
                | option::SIZE1
                | option::ECHO
                | option::NO_RESPONSE
                | option::AFTER
        );
        if !is_of_message {
            key = mixed(key, u64::from(number) << 16 | value.len() as u64);
            let (words, rest) = value.as_chunks::<8>();
            key = words
                .iter()
                .fold(key, |key, word| mixed(key, u64::from_le_bytes(*word)));
            key = mixed(key, short_word(rest));
        }
    }
    key
}

/// Up to seven bytes as a number; the same for others only if their count is another.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[inline]
fn mixed(key: u64, word: u64) -> u64 {
    (key ^ word)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoder;

    fn part(key: u64, peer: u64, offset: usize, bytes: &[u8], more: bool) -> Part<'_> {
        Part {
            key,
            peer,
            offset,
            bytes,
            more,
        }
    }

    #[test]
    fn blocks_in_order_make_a_body_and_gaps_do_not() {
        let (mut all, s) = (Transfers::default(), ServerSettings::default());
        assert_eq!(
            all.gather(part(1, 1, 16, &[0; 16], true), &s, Time::ZERO),
            Gathered::Gap
        );
        assert_eq!(
            all.gather(part(1, 1, 0, &[1; 16], true), &s, Time::ZERO),
            Gathered::More
        );
        assert_eq!(
            all.gather(part(1, 1, 32, &[3; 16], true), &s, Time::ZERO),
            Gathered::Gap
        );
        assert_eq!(
            all.gather(part(1, 1, 16, &[2; 16], true), &s, Time::ZERO),
            Gathered::More
        );
        let whole = [[1; 16], [2; 16]].concat().into_iter().chain([3]).collect();
        assert_eq!(
            all.gather(part(1, 1, 32, &[3], false), &s, Time::ZERO),
            Gathered::Whole(whole)
        );
        assert_eq!((all.len(), all.bytes), (0, 0));
    }

    #[test]
    fn transfers_have_limits_of_size_number_and_time() {
        let s = ServerSettings {
            transfer_bytes_max: 32,
            transfers_per_peer: 2,
            transfers_max: 3,
            transfers_bytes_max: 1000,
            ..ServerSettings::default()
        };
        let mut all = Transfers::default();
        let at = Time::from_secs;
        assert_eq!(
            all.gather(part(1, 1, 0, &[0; 33], true), &s, at(0)),
            Gathered::TooLarge
        );
        for (key, second) in [(2, 1), (3, 2)] {
            assert_eq!(
                all.gather(part(key, 1, 0, &[0; 16], true), &s, at(second)),
                Gathered::More
            );
        }
        assert_eq!(
            all.gather(part(1, 1, 0, &[0; 16], true), &s, at(2)),
            Gathered::Crowded
        );
        assert_eq!((all.len(), all.displaced), (2, 0), "those under way go on");
        assert_eq!(
            all.gather(part(2, 1, 0, &[0; 16], true), &s, at(1)),
            Gathered::More,
            "the same one begins again"
        );
        assert_eq!(
            all.gather(part(4, 4, 0, &[0; 16], true), &s, at(2)),
            Gathered::More
        );
        assert_eq!(
            all.gather(part(5, 5, 0, &[0; 16], true), &s, at(2)),
            Gathered::Full,
            "all are young"
        );
        assert_eq!(
            all.gather(part(5, 5, 0, &[0; 16], true), &s, at(9)),
            Gathered::More,
            "one that is stuck went"
        );
        assert_eq!(all.next(), at(61), "of what has gone, but early is right");
        all.forget_old(s.transfer_idle, at(62));
        assert_eq!(all.len(), 1);
        all.forget_old(s.transfer_idle, at(70));
        assert_eq!((all.len(), all.bytes, all.next()), (0, 0, Time::NEVER));
    }

    #[test]
    fn bytes_of_all_transfers_are_limited() {
        let s = ServerSettings {
            transfers_bytes_max: 40,
            ..ServerSettings::default()
        };
        let mut all = Transfers::default();
        assert_eq!(
            all.gather(part(1, 1, 0, &[0; 16], true), &s, Time::ZERO),
            Gathered::More
        );
        assert_eq!(
            all.gather(part(2, 2, 0, &[0; 32], true), &s, Time::ZERO),
            Gathered::Full
        );
        assert_eq!(all.len(), 1);
        assert_eq!(
            all.gather(part(3, 1, 0, &[0; 16], true), &s, Time::ZERO),
            Gathered::Crowded,
            "a quarter is its own"
        );
    }

    #[test]
    fn kept_responses_are_few_and_the_oldest_goes() {
        let s = ServerSettings {
            kept_responses_max: 2,
            kept_responses_bytes_max: 100,
            ..ServerSettings::default()
        };
        let mut all = KeptResponses::default();
        let body = |len| KeptBody::Response {
            code: Code::CONTENT,
            options: Vec::new(),
            payload: vec![0; len],
        };
        for key in 0..3 {
            all.insert(key, body(40), &s, Time::from_secs(key));
        }
        assert!(
            all.get(0, Token::EMPTY, Time::from_secs(3)).is_none()
                && all.get(1, Token::EMPTY, Time::from_secs(3)).is_some()
        );
        all.insert(9, body(101), &s, Time::from_secs(3));
        assert!(all.get(9, Token::EMPTY, Time::from_secs(3)).is_none());
        assert!(
            all.get(1, Token::EMPTY, Time::from_secs(3)).is_some(),
            "and nobody went for it"
        );
        all.insert(8, body(40), &s, Time::from_secs(10));
        all.forget_old(s.transfer_idle, Time::from_secs(70));
        assert_eq!((all.all.len(), all.bytes), (0, 0));
    }

    #[test]
    fn blocks_of_one_request_have_one_key() {
        let key = |options: &[(u16, &[u8])]| {
            let mut bytes = Vec::new();
            let mut encoder = Encoder::body(&mut bytes);
            for (number, value) in options {
                encoder.option(*number, value);
            }
            key_of(5, Code::PUT, &Options::decode(&bytes).expect("legal").0)
        };
        let plain = key(&[(option::URI_PATH, b"a")]);
        assert_eq!(
            plain,
            key(&[
                (option::URI_PATH, b"a"),
                (option::BLOCK1, &[0x0E]),
                (option::SIZE1, &[9])
            ])
        );
        assert_ne!(plain, key(&[(option::URI_PATH, b"b")]));
        assert_ne!(
            key(&[(option::URI_PATH, b"ab"), (option::URI_PATH, b"")]),
            key(&[(option::URI_PATH, b"a"), (option::URI_PATH, b"b")])
        );
        assert_ne!(
            key(&[(option::URI_PATH, b"0123456789")]),
            key(&[(option::URI_PATH, b"0123456798")])
        );
        assert_ne!(
            key(&[(option::URI_PATH, b"1234567012345678")]),
            key(&[(option::URI_PATH, b"1234567812345670")])
        );
        assert_ne!(
            plain,
            key(&[(option::URI_PATH, b"a"), (option::REQUEST_TAG, &[1])])
        );
    }
}
