//! Log-ins. Fronts ask, the server answers later: checking a password may take a slow hash on another thread.

use thalweg_kernel::OpenRefusal;
use thalweg_kernel::access::Access;
use thalweg_model::Time;

/// What a peer offers to prove who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginAsk {
    /// A user name and a password, or neither.
    Password {
        client: Box<str>,
        /// The peer chose that name; otherwise we made it up.
        chosen: bool,
        /// The user it says it is.
        user: Option<Box<str>>,
        /// What it offers as proof.
        password: Option<Box<[u8]>>,
    },
    /// A step of a challenge-response exchange.
    Exchange {
        client: Box<str>,
        /// The peer chose that name; otherwise we made it up.
        chosen: bool,
        /// The mechanism, by the name SASL gives it.
        method: Box<str>,
        data: Box<[u8]>,
        /// Whether this begins an exchange; one that is going on is forgotten.
        first: bool,
    },
    /// The transport has proved who it is: one of many on one link. The answer comes through
    /// [`Links::on_proven`](crate::Links::on_proven).
    Proven { identity: Box<str> },
}

/// What the server says.
#[derive(Clone, Debug)]
pub enum LoginAnswer {
    Allowed {
        /// The user; absent if the peer is anonymous.
        user: Option<Box<str>>,
        /// What it may do.
        access: Access,
        /// When its proof ends, if it does.
        expires: Option<Time>,
        /// The last message of an exchange.
        data: Option<Box<[u8]>>,
    },
    /// The exchange goes on.
    Continue {
        data: Box<[u8]>,
    },
    Refused(LoginRefusal),
}

/// Why a log-in is refused, as far as the peer may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// User or password are wrong.
    BadUserOrPassword,
    /// It is not admitted, whatever credentials it has.
    NotAuthorized,
    /// Its user may not bear the client identifier that it chose.
    ClientId,
    /// The mechanism is not offered here.
    BadMethod,
    /// The check cannot be made now: too many wait.
    Busy,
}

impl LoginRefusal {
    /// Words for protocols that have room for them.
    pub(crate) fn words(self) -> &'static str {
        match self {
            LoginRefusal::BadUserOrPassword => "user name or password are wrong",
            LoginRefusal::NotAuthorized => "this user may not come in here",
            LoginRefusal::ClientId => "the name of this client is not this user's",
            LoginRefusal::BadMethod => "passwords are not asked for here",
            LoginRefusal::Busy => "too many want to come in; try again later",
        }
    }
}

/// The reason given to a peer whose log-in gets a [`LoginAnswer::Continue`] although it began no exchange.
pub(crate) const WANTS_MORE: &str = "the server wants more than a user name and a password";

/// Words on why a session cannot be opened.
pub(crate) fn refused(refusal: OpenRefusal) -> &'static str {
    match refusal {
        OpenRefusal::TooManySessions => {
            "there are as many sessions as there may be; raise the limit"
        }
        OpenRefusal::Overloaded => "the broker is short of memory; try again later",
        OpenRefusal::OtherUser => "the session is another user's",
        OpenRefusal::Denied => "the rules grant this user nothing",
        OpenRefusal::Outdated => "the rules have changed since the log-in; connect again",
    }
}
