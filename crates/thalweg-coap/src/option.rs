//! The registry of options: numbers, and the properties that each number implies. RFC 7252 §5.4, §5.10

use std::ops::RangeInclusive;

/// One line per option: its constant, number, whether it may be repeated, its shortest and its longest value.
macro_rules! options {
    ($($name:ident $number:literal $repeatable:literal $shortest:literal $longest:literal $what:literal;)*) => {
        $(#[doc = $what]
        pub const $name: u16 = $number;)*

        /// Whether more than one of these in a message is legal. An unknown option may be.
        #[inline]
        pub const fn is_repeatable(number: u16) -> bool {
            match number {
                $($number => $repeatable,)*
                _ => true,
            }
        }

        /// Allowed lengths of a value in bytes. RFC 7252 §5.4.3
        #[inline]
        pub const fn lengths(number: u16) -> RangeInclusive<usize> {
            match number {
                $($number => $shortest..=$longest,)*
                _ => 0..=usize::MAX,
            }
        }

        /// Name in the registry; `None` for an unknown option.
        pub const fn name(number: u16) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

options! {
    IF_MATCH 1 true 0 8 "If-Match: do it only if this is the representation; empty: if there is one.";
    URI_HOST 3 false 1 255 "Uri-Host.";
    ETAG 4 true 1 8 "ETag: which representation this is, or which ones the client has.";
    IF_NONE_MATCH 5 false 0 0 "If-None-Match: do it only if there is nothing yet.";
    OBSERVE 6 false 0 3 "Observe. RFC 7641";
    URI_PORT 7 false 0 2 "Uri-Port.";
    LOCATION_PATH 8 true 0 255 "Location-Path: one level of where what was created is.";
    OSCORE 9 false 0 255 "OSCORE. RFC 8613";
    URI_PATH 11 true 0 255 "Uri-Path: one level of the path.";
    CONTENT_FORMAT 12 false 0 2 "Content-Format: what the payload is.";
    MAX_AGE 14 false 0 4 "Max-Age: for how many seconds a response is fresh.";
    URI_QUERY 15 true 0 255 "Uri-Query: one argument.";
    HOP_LIMIT 16 false 1 1 "Hop-Limit. RFC 8768";
    ACCEPT 17 false 0 2 "Accept: which Content-Format the client wants.";
    LOCATION_QUERY 20 true 0 255 "Location-Query: one argument of where what was created is.";
    BLOCK2 23 false 0 3 "Block2: a part of a response. RFC 7959";
    BLOCK1 27 false 0 3 "Block1: a part of a request. RFC 7959";
    SIZE2 28 false 0 4 "Size2: how large a response is altogether. RFC 7959";
    PROXY_URI 35 false 1 1034 "Proxy-Uri.";
    PROXY_SCHEME 39 false 1 255 "Proxy-Scheme.";
    SIZE1 60 false 0 4 "Size1: how large a request is altogether, or may be. RFC 7252 §5.10.9";
    ECHO 252 false 1 40 "Echo: what a client repeats to show that it is there and now. RFC 9175";
    NO_RESPONSE 258 false 0 1 "No-Response: which responses the client does not want. RFC 7967";
    REQUEST_TAG 292 true 0 8 "Request-Tag: which blocks belong together. RFC 9175";
    AFTER 65003 false 0 2 "After: the id of the message that has to be taken first. Our own; docs/protocols/coap.md";
    OFFERED 65024 false 0 1 "Offered: the surest class of an observer's notifications, if it asked for a higher one. Our own; docs/protocols/coap.md";
}

/// The resource type by which a server says that it understands [`AFTER`].
pub const AFTER_ANNOUNCEMENT: &str = "x-after";

/// Whether who does not understand it must refuse the message rather than ignore it. RFC 7252 §5.4.1
#[inline]
pub const fn is_critical(number: u16) -> bool {
    number & 1 != 0
}

/// Whether a proxy that does not understand it must not forward it. RFC 7252 §5.4.2
#[inline]
pub const fn is_unsafe(number: u16) -> bool {
    number & 2 != 0
}

/// Whether it has no say in which request a cached response fits. RFC 7252 §5.4.2
#[inline]
pub const fn is_no_cache_key(number: u16) -> bool {
    number & 0x1E == 0x1C
}

/// Whether a value of `len` bytes is legal; otherwise the option is treated as one that is not understood. RFC 7252 §5.4.3
#[inline]
pub const fn is_legal_length(number: u16, len: usize) -> bool {
    let lengths = lengths(number);
    *lengths.start() <= len && len <= *lengths.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_how_options_are_treated() {
        // RFC 7252 §5.10, table 4; RFC 7641, 7959, 7967, 8768, 9175
        let critical = [
            IF_MATCH,
            URI_HOST,
            IF_NONE_MATCH,
            URI_PORT,
            OSCORE,
            URI_PATH,
            URI_QUERY,
            ACCEPT,
            BLOCK1,
            BLOCK2,
            PROXY_URI,
            PROXY_SCHEME,
        ];
        let unsafe_ones = [
            URI_HOST,
            OBSERVE,
            URI_PORT,
            URI_PATH,
            MAX_AGE,
            URI_QUERY,
            BLOCK1,
            BLOCK2,
            PROXY_URI,
            PROXY_SCHEME,
            NO_RESPONSE,
        ];
        for number in 0..400 {
            if name(number).is_some() {
                assert_eq!(is_critical(number), critical.contains(&number), "{number}");
                assert_eq!(is_unsafe(number), unsafe_ones.contains(&number), "{number}");
                let no_key = [SIZE1, SIZE2, ECHO].contains(&number);
                assert_eq!(is_no_cache_key(number), no_key, "{number}");
            }
        }
    }

    #[test]
    fn lengths_are_those_of_the_registry() {
        assert!(is_legal_length(ETAG, 8) && !is_legal_length(ETAG, 9) && !is_legal_length(ETAG, 0));
        assert!(is_legal_length(PROXY_URI, 1034) && !is_legal_length(PROXY_URI, 1035));
        assert!(is_legal_length(IF_NONE_MATCH, 0) && !is_legal_length(IF_NONE_MATCH, 1));
        assert!(is_legal_length(65_000, 70_000));
    }
}
