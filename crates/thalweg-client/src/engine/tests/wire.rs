//! The protocol of the simulated lanes: frames of text lines, so that a failing run can be read.

use thalweg_model::{Reliability, Stamp};

/// What goes between a simulated transport and the simulated broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Hello {
        keep: bool,
    },
    Welcome {
        present: bool,
    },
    /// `number`: of the datagram, by which the broker recognizes repetitions of the transport itself.
    Publish {
        id: u64,
        number: u64,
        reliability: Reliability,
        repeated: bool,
        stamp: Option<Stamp>,
        retain: bool,
        address: String,
        payload: String,
    },
    Ack {
        id: u64,
    },
    Busy {
        id: u64,
    },
    Subscribe {
        name: u32,
        last_values: bool,
        filter: String,
    },
    Subscribed {
        name: u32,
    },
    Unsubscribe {
        name: u32,
    },
    Deliver {
        name: u32,
        delivery: u64,
        reliability: Reliability,
        last_value: bool,
        stamp: Option<Stamp>,
        address: String,
        payload: String,
    },
    Settle {
        delivery: u64,
    },
    Ping,
    Pong,
    Read {
        request: u64,
        address: String,
    },
    Answer {
        request: u64,
        value: Option<String>,
    },
}

fn class(reliability: Reliability) -> u8 {
    reliability as u8
}

fn reliability(class: &str) -> Reliability {
    match class {
        "0" => Reliability::AtMostOnce,
        "1" => Reliability::AtLeastOnce,
        _ => Reliability::ExactlyOnce,
    }
}

fn stamp_text(stamp: Option<Stamp>) -> String {
    stamp.map_or_else(|| "-".to_owned(), |stamp| stamp.to_string())
}

impl Frame {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = u8::from;
        let line = match self {
            Frame::Hello { keep } => format!("hello {}", flag(*keep)),
            Frame::Welcome { present } => format!("welcome {}", flag(*present)),
            Frame::Publish {
                id,
                number,
                reliability,
                repeated,
                stamp,
                retain,
                address,
                payload,
            } => format!(
                "publish {id} {number} {} {} {} {} {address} {payload}",
                class(*reliability),
                flag(*repeated),
                stamp_text(*stamp),
                flag(*retain)
            ),
            Frame::Ack { id } => format!("ack {id}"),
            Frame::Busy { id } => format!("busy {id}"),
            Frame::Subscribe {
                name,
                last_values,
                filter,
            } => {
                format!("subscribe {name} {} {filter}", flag(*last_values))
            }
            Frame::Subscribed { name } => format!("subscribed {name}"),
            Frame::Unsubscribe { name } => format!("unsubscribe {name}"),
            Frame::Deliver {
                name,
                delivery,
                reliability,
                last_value,
                stamp,
                address,
                payload,
            } => format!(
                "deliver {name} {delivery} {} {} {} {address} {payload}",
                class(*reliability),
                flag(*last_value),
                stamp_text(*stamp)
            ),
            Frame::Settle { delivery } => format!("settle {delivery}"),
            Frame::Ping => "ping".to_owned(),
            Frame::Pong => "pong".to_owned(),
            Frame::Read { request, address } => format!("read {request} {address}"),
            Frame::Answer { request, value } => {
                format!("answer {request} {}", value.as_deref().unwrap_or("-"))
            }
        };
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }

    /// The first whole frame, and its length.
    pub fn decode(bytes: &[u8]) -> Option<(Frame, usize)> {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(&bytes[..end]).expect("our own text");
        let mut words = line.split(' ');
        let mut word = || words.next().expect("our own frame");
        let number = |word: &str| word.parse::<u64>().expect("our own number");
        let frame = match word() {
            "hello" => Frame::Hello {
                keep: word() == "1",
            },
            "welcome" => Frame::Welcome {
                present: word() == "1",
            },
            "publish" => Frame::Publish {
                id: number(word()),
                number: number(word()),
                reliability: reliability(word()),
                repeated: word() == "1",
                stamp: word().parse().ok(),
                retain: word() == "1",
                address: word().to_owned(),
                payload: word().to_owned(),
            },
            "ack" => Frame::Ack { id: number(word()) },
            "busy" => Frame::Busy { id: number(word()) },
            "subscribe" => Frame::Subscribe {
                name: number(word()) as u32,
                last_values: word() == "1",
                filter: word().to_owned(),
            },
            "subscribed" => Frame::Subscribed {
                name: number(word()) as u32,
            },
            "unsubscribe" => Frame::Unsubscribe {
                name: number(word()) as u32,
            },
            "deliver" => Frame::Deliver {
                name: number(word()) as u32,
                delivery: number(word()),
                reliability: reliability(word()),
                last_value: word() == "1",
                stamp: word().parse().ok(),
                address: word().to_owned(),
                payload: word().to_owned(),
            },
            "settle" => Frame::Settle {
                delivery: number(word()),
            },
            "ping" => Frame::Ping,
            "pong" => Frame::Pong,
            "read" => Frame::Read {
                request: number(word()),
                address: word().to_owned(),
            },
            "answer" => Frame::Answer {
                request: number(word()),
                value: Some(word()).filter(|it| *it != "-").map(str::to_owned),
            },
            other => panic!("no frame: {other}"),
        };
        Some((frame, end + 1))
    }
}
