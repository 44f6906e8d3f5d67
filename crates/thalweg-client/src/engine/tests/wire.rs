//! The protocol of the simulated lanes: frames of text lines, so that a failing run can be read.

use thalweg_model::{Reliability, Stamp};

/// Declares the frames. A line is the name of a frame and its fields in this order.
macro_rules! frames {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* })*) => {
        /// Packets between a simulated transport and the simulated broker.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Frame {
            $($(#[$doc])* $name { $($field: $kind),* },)*
        }

        impl Frame {
            pub fn encode(&self, out: &mut Vec<u8>) {
                let words = match self {
                    $(Frame::$name { $($field),* } => {
                        vec![stringify!($name).to_lowercase(), $($field.write()),*]
                    })*
                };
                out.extend_from_slice(words.join(" ").as_bytes());
                out.push(b'\n');
            }

            /// The first frame and its length; nothing while it is not whole.
            pub fn decode(bytes: &[u8]) -> Option<(Frame, usize)> {
                let end = bytes.iter().position(|&byte| byte == b'\n')?;
                let line = std::str::from_utf8(&bytes[..end]).expect("our own text");
                let mut words = line.split(' ');
                let mut word = || words.next().expect("our own frame");
                let frame = match word() {
                    $(name if name.eq_ignore_ascii_case(stringify!($name)) => Frame::$name { $($field: <$kind>::read(word())),* },)*
                    other => panic!("no frame: {other}"),
                };
                Some((frame, end + 1))
            }
        }
    };
}

frames! {
    Hello { keep: bool }
    Welcome { present: bool }
    /// `number`: of the datagram, by which the broker recognizes repetitions of the transport itself.
    Publish {
        id: u64, number: u64, reliability: Reliability, repeated: bool, stamp: Option<Stamp>, retain: bool,
        address: String, payload: String
    }
    Ack { id: u64 }
    Busy { id: u64 }
    Subscribe { name: u32, last_values: bool, filter: String }
    Subscribed { name: u32 }
    Unsubscribe { name: u32 }
    Deliver {
        name: u32, delivery: u64, reliability: Reliability, last_value: bool, stamp: Option<Stamp>,
        address: String, payload: String
    }
    Settle { delivery: u64 }
    Ping {}
    Pong {}
    Read { request: u64, address: String }
    Answer { request: u64, value: Option<String> }
}

/// A field as one word of a line.
trait Word: Sized {
    fn write(&self) -> String;
    fn read(word: &str) -> Self;
}

macro_rules! words {
    ($($kind:ty)*) => {
        $(impl Word for $kind {
            fn write(&self) -> String {
                self.to_string()
            }

            fn read(word: &str) -> Self {
                word.parse().expect("our own word")
            }
        })*
    };
}

words! { u32 u64 String Stamp }

impl Word for bool {
    fn write(&self) -> String {
        u8::from(*self).to_string()
    }

    fn read(word: &str) -> Self {
        word == "1"
    }
}

impl<T: Word> Word for Option<T> {
    fn write(&self) -> String {
        self.as_ref().map_or_else(|| "-".to_owned(), T::write)
    }

    fn read(word: &str) -> Self {
        (word != "-").then(|| T::read(word))
    }
}

impl Word for Reliability {
    fn write(&self) -> String {
        (*self as u8).to_string()
    }

    fn read(word: &str) -> Self {
        match word {
            "0" => Reliability::AtMostOnce,
            "1" => Reliability::AtLeastOnce,
            _ => Reliability::ExactlyOnce,
        }
    }
}
