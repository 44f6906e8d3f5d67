//! What a request is answered with, as long as it is no value of the broker's.

use super::resource::Unreadable;
use crate::LoginRefusal;
use std::borrow::Cow;
use thalweg_coap::{Code, Response, Value, option};
use thalweg_kernel::{Outcome, Refusal};
use thalweg_model::Time;

/// A response that can wait for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: Code,
    pub(super) content_format: Option<u16>,
    pub(super) max_age_secs: Option<u32>,
    /// The path of what was created.
    pub(super) location: Vec<Box<str>>,
    /// A representation, or a diagnostic payload. RFC 7252 §5.5.2
    pub(super) payload: Cow<'static, [u8]>,
}

/// For how long a client should leave us alone if we are short of something.
pub(super) const SHORT_SECS: u32 = 5;
const TOO_MANY: &str = "you publish faster than you may";

impl Answer {
    /// A success without a payload; an error has a diagnostic one: [`Answer::words`].
    pub(super) const fn of(code: Code) -> Self {
        Answer {
            code,
            content_format: None,
            max_age_secs: None,
            location: Vec::new(),
            payload: Cow::Borrowed(&[]),
        }
    }

    /// A code and what is the matter.
    pub(super) fn words(code: Code, words: impl Into<Cow<'static, str>>) -> Self {
        let payload = match words.into() {
            Cow::Borrowed(words) => Cow::Borrowed(words.as_bytes()),
            Cow::Owned(words) => Cow::Owned(words.into_bytes()),
        };
        Answer {
            payload,
            ..Answer::of(code)
        }
    }

    pub(super) fn content(content_format: u16, payload: Vec<u8>) -> Self {
        Answer {
            content_format: Some(content_format),
            payload: Cow::Owned(payload),
            ..Answer::of(Code::CONTENT)
        }
    }

    /// Try again in so many seconds.
    pub(super) fn later(code: Code, secs: u32, words: &'static str) -> Self {
        Answer {
            max_age_secs: Some(secs),
            ..Answer::words(code, words)
        }
    }

    /// It is over its rate until `until`. RFC 8516
    pub(super) fn too_many(until: Time, now: Time) -> Self {
        let secs = u32::try_from(until.since(now).secs_ceil())
            .unwrap_or(u32::MAX)
            .max(1);
        Answer::later(Code::TOO_MANY_REQUESTS, secs, TOO_MANY)
    }

    /// The error that answers a publish; none if it is accepted.
    pub(super) fn of_outcome(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Accepted | Outcome::NoMatch | Outcome::Asked => None,
            Outcome::Denied => Some(Answer::words(
                Code::FORBIDDEN,
                "the access rules do not allow it",
            )),
            Outcome::BadAddress => Some(Answer::words(
                Code::BAD_REQUEST,
                "the path is longer or deeper than an address may be",
            )),
            Outcome::Full => Some(Answer::later(
                Code::SERVICE_UNAVAILABLE,
                SHORT_SECS,
                "the journal is full",
            )),
            Outcome::Refused => Some(Answer::later(
                Code::SERVICE_UNAVAILABLE,
                SHORT_SECS,
                "a queue for it is full",
            )),
            // RFC 8516
            Outcome::OverRate(secs) => Some(Answer::later(
                Code::TOO_MANY_REQUESTS,
                secs.max(1),
                TOO_MANY,
            )),
        }
    }

    /// A command about a queue was refused.
    pub(super) fn of_refusal(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NoQueue | Refusal::NoExchange => {
                Answer::words(Code::NOT_FOUND, "there is no such queue")
            }
            Refusal::Denied => Answer::words(Code::FORBIDDEN, "the access rules do not allow it"),
            Refusal::Locked | Refusal::InUse => {
                Answer::words(Code::FORBIDDEN, "the queue is another's alone")
            }
            Refusal::Full | Refusal::Short | Refusal::TooMany => {
                Answer::later(Code::SERVICE_UNAVAILABLE, SHORT_SECS, "there is no room")
            }
            Refusal::Reserved | Refusal::Differs(_) | Refusal::NotEmpty | Refusal::Invalid(_) => {
                Answer::words(Code::BAD_REQUEST, "the queue cannot be used so")
            }
        }
    }

    /// The answer to a peer whose log-in was refused.
    pub(super) fn stay_out(why: LoginRefusal) -> Self {
        match why {
            LoginRefusal::Busy => {
                Answer::later(Code::SERVICE_UNAVAILABLE, 1, "too many want to come in")
            }
            LoginRefusal::BadUserOrPassword
            | LoginRefusal::NotAuthorized
            | LoginRefusal::ClientId
            | LoginRefusal::BadMethod => Answer::words(
                Code::UNAUTHORIZED,
                "this listener does not let strangers in: use DTLS with a key that it knows",
            ),
        }
    }

    /// Shows the response to `respond`.
    pub(super) fn with_response<R>(&self, respond: impl FnOnce(&Response<'_>) -> R) -> R {
        let rest = [
            self.content_format
                .map(|format| (option::CONTENT_FORMAT, Value::Uint(u32::from(format)))),
            self.max_age_secs
                .map(|secs| (option::MAX_AGE, Value::Uint(secs))),
        ];
        let code = self.code;
        if self.location.is_empty() && rest == [None, None] {
            return respond(&Response {
                code,
                options: &[],
                payload: &self.payload,
            });
        }
        let location = self
            .location
            .iter()
            .map(|level| (option::LOCATION_PATH, Value::Opaque(level.as_bytes())));
        let options: Vec<_> = location.chain(rest.into_iter().flatten()).collect();
        respond(&Response {
            code,
            options: &options,
            payload: &self.payload,
        })
    }
}

pub(super) fn no_value() -> Answer {
    Answer::words(Code::NOT_FOUND, "this address has no value")
}

pub(super) fn other_format() -> Answer {
    Answer::words(Code::NOT_ACCEPTABLE, "the value has another Content-Format")
}

pub(super) fn session_ended() -> Answer {
    Answer::words(Code::UNAUTHORIZED, "the session of this client has ended")
}

impl From<Unreadable> for Answer {
    fn from(Unreadable(words): Unreadable) -> Self {
        Answer::words(Code::BAD_REQUEST, words)
    }
}
