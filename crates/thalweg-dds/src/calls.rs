//! Services of ROS 2, as rmw_cyclonedds speaks them: 16 bytes before each request and each answer say whose client asked, and
//! which of its requests it was. All answers of a service reach all its clients.

use crate::cdr;
use std::collections::BTreeMap;

/// Bytes between the encapsulation and the value: two numbers, in the byte order of the rest.
const ID_BYTES: usize = 16;
/// Requests that wait for an answer; the oldest is given up for a new one.
const WAITING_MAX: usize = 4096;

/// The request that an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    pub client: u64,
    pub number: u64,
}

/// Cuts a payload into what its first bytes say and the payload without them. Nothing if it is too short.
pub fn cut(payload: &[u8]) -> Option<(RequestId, Vec<u8>)> {
    let (encapsulation, rest) = payload.split_at_checked(cdr::HEADER_BYTES)?;
    let (id, value) = rest.split_first_chunk::<ID_BYTES>()?;
    let (client, number) = id.split_first_chunk::<8>()?;
    let number = number.first_chunk::<8>()?;
    let read = match cdr::is_little_endian(encapsulation) {
        true => u64::from_le_bytes,
        false => u64::from_be_bytes,
    };
    let id = RequestId {
        client: read(*client),
        number: read(*number),
    };
    Some((id, [encapsulation, value].concat()))
}

/// The opposite of [`cut`].
pub fn joined(id: RequestId, payload: &[u8]) -> Option<Vec<u8>> {
    let (encapsulation, value) = payload.split_at_checked(cdr::HEADER_BYTES)?;
    let write = match cdr::is_little_endian(encapsulation) {
        true => u64::to_le_bytes,
        false => u64::to_be_bytes,
    };
    Some([encapsulation, &write(id.client), &write(id.number), value].concat())
}

/// Requests that wait for an answer, by a number of ours.
#[derive(Debug)]
pub struct Calls<T> {
    last: u64,
    waiting: BTreeMap<u64, T>,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Calls {
            last: 0,
            waiting: BTreeMap::new(),
        }
    }
}

impl<T> Calls<T> {
    /// Its number, and whether another was given up for it.
    pub fn add(&mut self, call: T) -> (u64, bool) {
        self.last += 1;
        self.waiting.insert(self.last, call);
        let is_full = self.waiting.len() > WAITING_MAX;
        if is_full {
            self.waiting.pop_first();
        }
        (self.last, is_full)
    }

    pub fn take(&mut self, number: u64) -> Option<T> {
        self.waiting.remove(&number)
    }
}

/// A request of a client of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub reply_to: String,
    pub correlation: Vec<u8>,
}

/// A request of a client of DDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub id: RequestId,
    /// The address of the service.
    pub address: String,
}

/// Pending requests in both directions.
#[derive(Debug)]
pub struct Services {
    /// Client id of the bridge for all services.
    pub client: u64,
    /// By the number that is in the request's id.
    pub asked: Calls<Asked>,
    served: Calls<Served>,
}

impl Services {
    /// `guid` is the participant's.
    pub fn of(guid: &[u8; 16]) -> Services {
        Services {
            client: guid.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            }),
            asked: Calls::default(),
            served: Calls::default(),
        }
    }

    /// The correlation of a request of a client of DDS, and whether another was given up for it. Text, since not all protocols carry
    /// bytes as they are.
    pub fn serve(&mut self, served: Served) -> (String, bool) {
        let client = served.id.client;
        let (number, is_full) = self.served.add(served);
        (format!("{number:x}-{client:016x}"), is_full)
    }

    /// The request that an answer is for. The client's number in it is known to those who were asked only.
    pub fn answered(&mut self, correlation: &[u8]) -> Option<Served> {
        let text = std::str::from_utf8(correlation).ok()?;
        let (number, client) = text.split_once('-')?;
        let number = u64::from_str_radix(number, 16).ok()?;
        let client = u64::from_str_radix(client, 16).ok()?;
        let is_its = |served: &Served| served.id.client == client;
        let found = self.served.waiting.get(&number).is_some_and(is_its);
        found.then(|| self.served.take(number)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RequestId = RequestId {
        client: 0x0102,
        number: 3,
    };

    #[test]
    fn ids_stand_before_values_in_their_byte_order() {
        let little = [0, 1, 0, 0, 9, 0, 0, 0];
        let joined_little = joined(ID, &little).expect("long enough");
        let expected = [
            &[0, 1, 0, 0][..],
            &[2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
            &[9, 0, 0, 0],
        ];
        assert_eq!(joined_little, expected.concat());
        let big = joined(ID, &[0, 0, 0, 0]).expect("long enough");
        assert_eq!(big[4..12], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(cut(&joined_little), Some((ID, little.to_vec())));
        assert_eq!(cut(&big), Some((ID, vec![0; 4])));
        for length in 0..20 {
            assert_eq!(cut(&joined_little[..length]), None);
        }
    }

    #[test]
    fn an_answer_belongs_to_one_request_and_the_oldest_is_given_up() {
        let mut services = Services::of(&[7; 16]);
        let served = |number| Served {
            id: RequestId { number, ..ID },
            address: "ros/add".into(),
        };
        let (first, _) = services.serve(served(0));
        assert_eq!(first, "1-0000000000000102");
        for wrong in ["", "1-", "1-0000000000000103", "2-0000000000000102", "é-1"] {
            assert_eq!(services.answered(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(services.answered(first.as_bytes()), Some(served(0)));
        assert_eq!(services.answered(first.as_bytes()), None);
        let (oldest, _) = services.serve(served(1));
        let last = (0..WAITING_MAX as u64).map(|at| services.serve(served(at)));
        let given_up = last.map(|(_, is_full)| is_full).collect::<Vec<_>>();
        assert_eq!(given_up.iter().filter(|it| **it).count(), 1);
        assert_eq!(services.answered(oldest.as_bytes()), None);
    }
}
