//! The headers that the specification gives a meaning, and where a frame has them.

/// Declares the headers once: variant, name.
macro_rules! known {
    ($($variant:ident $name:literal;)*) => {
        /// A header with a meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Known { $($variant),* }

        impl Known {
            const COUNT: usize = [$(Known::$variant),*].len();

            /// The header of this name. No such name needs an escape, so the bytes of the line will do.
            #[inline]
            fn from_name(name: &[u8]) -> Option<Known> {
                match name {
                    $($name => Some(Known::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

known! {
    Destination b"destination";
    ContentLength b"content-length";
    ContentType b"content-type";
    Receipt b"receipt";
    Transaction b"transaction";
    Id b"id";
    Subscription b"subscription";
    MessageId b"message-id";
    Ack b"ack";
    Redelivered b"redelivered";
    ReceiptId b"receipt-id";
    Message b"message";
    AcceptVersion b"accept-version";
    Version b"version";
    HeartBeat b"heart-beat";
    Host b"host";
    Login b"login";
    Passcode b"passcode";
    Session b"session";
    Server b"server";
    UserName b"user-name";
}

/// Where the values of known headers lie in the frame, in bytes from its start. The first header of a name wins.
/// [1.2#Repeated_Header_Entries]
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// A bit for each header that is there, so that forgetting them all is cheap.
    there: u32,
    places: [(u32, u32); Known::COUNT],
}

const _: () = assert!(Known::COUNT <= u32::BITS as usize);

impl Found {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.there = 0;
    }

    /// Notes a header line.
    #[inline]
    pub(crate) fn note(&mut self, name: &[u8], value_start: usize, value_end: usize) {
        let Some(known) = Known::from_name(name) else {
            return;
        };
        let bit = 1 << known as u32;
        if self.there & bit == 0
            && let Some(place) = self.places.get_mut(known as usize)
        {
            self.there |= bit;
            *place = (value_start as u32, value_end as u32);
        }
    }

    /// Where the value is.
    #[inline]
    pub(crate) fn place(&self, known: Known) -> Option<std::ops::Range<usize>> {
        let (start, end) = *self.places.get(known as usize)?;
        (self.there & 1 << known as u32 != 0).then_some(start as usize..end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_header_of_a_name_wins() {
        let mut found = Found::default();
        found.note(b"receipt", 10, 12);
        found.note(b"receipt", 20, 22);
        found.note(b"receipts", 30, 31);
        assert_eq!(found.place(Known::Receipt), Some(10..12));
        assert_eq!(found.place(Known::Host), None);
        found.clear();
        assert_eq!(found.place(Known::Receipt), None);
    }
}
