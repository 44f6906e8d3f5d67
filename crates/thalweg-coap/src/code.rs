//! Codes of requests, responses and signals: a class of three bits and a detail of five. RFC 7252 §3, §12.1.

use std::fmt;

/// The code of a message, as it is on the wire; written `c.dd`.
///
/// ```text
///  0 1 2 3 4 5 6 7
/// +-----+---------+
/// |class| detail  |
/// +-----+---------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u8);

/// One line per code: its constant, class, detail and name.
macro_rules! codes {
    ($($name:ident $class:literal $detail:literal $what:literal;)*) => {
        impl Code {
            $(#[doc = concat!(stringify!($class), ".", $detail, " ", $what)]
            pub const $name: Code = Code(($class << 5) | $detail);)*

            /// Name in the registry of codes; `None` for an unregistered code.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Code::$name => Some($what),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    EMPTY 0 0 "Empty";
    GET 0 1 "GET";
    POST 0 2 "POST";
    PUT 0 3 "PUT";
    DELETE 0 4 "DELETE";
    FETCH 0 5 "FETCH";
    PATCH 0 6 "PATCH";
    IPATCH 0 7 "iPATCH";
    CREATED 2 1 "Created";
    DELETED 2 2 "Deleted";
    VALID 2 3 "Valid";
    CHANGED 2 4 "Changed";
    CONTENT 2 5 "Content";
    CONTINUE 2 31 "Continue";
    BAD_REQUEST 4 0 "Bad Request";
    UNAUTHORIZED 4 1 "Unauthorized";
    BAD_OPTION 4 2 "Bad Option";
    FORBIDDEN 4 3 "Forbidden";
    NOT_FOUND 4 4 "Not Found";
    METHOD_NOT_ALLOWED 4 5 "Method Not Allowed";
    NOT_ACCEPTABLE 4 6 "Not Acceptable";
    REQUEST_ENTITY_INCOMPLETE 4 8 "Request Entity Incomplete";
    CONFLICT 4 9 "Conflict";
    PRECONDITION_FAILED 4 12 "Precondition Failed";
    REQUEST_ENTITY_TOO_LARGE 4 13 "Request Entity Too Large";
    UNSUPPORTED_CONTENT_FORMAT 4 15 "Unsupported Content-Format";
    UNPROCESSABLE_ENTITY 4 22 "Unprocessable Entity";
    TOO_MANY_REQUESTS 4 29 "Too Many Requests";
    INTERNAL_SERVER_ERROR 5 0 "Internal Server Error";
    NOT_IMPLEMENTED 5 1 "Not Implemented";
    BAD_GATEWAY 5 2 "Bad Gateway";
    SERVICE_UNAVAILABLE 5 3 "Service Unavailable";
    GATEWAY_TIMEOUT 5 4 "Gateway Timeout";
    PROXYING_NOT_SUPPORTED 5 5 "Proxying Not Supported";
    HOP_LIMIT_REACHED 5 8 "Hop Limit Reached";
    CSM 7 1 "CSM";
    PING 7 2 "Ping";
    PONG 7 3 "Pong";
    RELEASE 7 4 "Release";
    ABORT 7 5 "Abort";
}

impl Code {
    /// A code of a class below 8 and a detail below 32; higher bits are dropped.
    pub const fn new(class: u8, detail: u8) -> Code {
        Code(class << 5 | detail & 0x1F)
    }

    /// The class: 0 of requests, 2, 4 and 5 of responses, 7 of signals.
    #[inline]
    pub const fn class(self) -> u8 {
        self.0 >> 5
    }

    /// The two digits behind the point.
    #[inline]
    pub const fn detail(self) -> u8 {
        self.0 & 0x1F
    }

    /// Whether this is a method, known or not.
    #[inline]
    pub const fn is_request(self) -> bool {
        self.class() == 0 && self.0 != 0
    }

    /// Whether this answers a request: 2.xx to 5.xx. RFC 7252 §12.1
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(self.class(), 2..=5)
    }

    /// Whether this speaks of the connection itself: 7.xx, only on reliable transports. RFC 8323 §5
    #[inline]
    pub const fn is_signal(self) -> bool {
        self.class() == 7
    }

    /// Whether this is a response that says yes: 2.xx.
    #[inline]
    pub const fn is_success(self) -> bool {
        self.class() == 2
    }

    /// Whether no message over datagrams may carry a code of this class: 1, 6, 7. RFC 7252 §4.2
    #[inline]
    pub const fn is_reserved(self) -> bool {
        matches!(self.class(), 1 | 6 | 7)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.class(), self.detail())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_with_a_point() {
        assert_eq!(Code::CONTENT.to_string(), "2.05");
        assert_eq!(Code::TOO_MANY_REQUESTS.to_string(), "4.29");
        assert_eq!(Code::new(4, 29), Code::TOO_MANY_REQUESTS);
        assert_eq!((Code(0xFF).class(), Code(0xFF).detail()), (7, 31));
    }

    #[test]
    fn each_code_is_of_one_kind() {
        for byte in 0..=255 {
            let code = Code(byte);
            let kinds = [
                code == Code::EMPTY,
                code.is_request(),
                code.is_response(),
                code.is_signal(),
            ];
            let other = matches!(code.class(), 1 | 6);
            assert_eq!(
                kinds.iter().filter(|kind| **kind).count(),
                usize::from(!other),
                "{code}"
            );
        }
    }
}
