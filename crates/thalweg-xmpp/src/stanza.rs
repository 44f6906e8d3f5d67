//! Stanzas: messages, presence, and requests with their answers.

use crate::{Element, ns, put_attribute, put_text};
use std::borrow::Cow;

/// Type of a stanza.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StanzaKind {
    /// Something for an address, which answers or not.
    Message,
    /// Something about an address, for those who want to know.
    Presence,
    /// A request, or its answer.
    Iq,
}

impl StanzaKind {
    /// The local name of the element.
    pub fn name(self) -> &'static str {
        match self {
            StanzaKind::Message => "message",
            StanzaKind::Presence => "presence",
            StanzaKind::Iq => "iq",
        }
    }
}

/// A stanza, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct Stanza<'b> {
    /// Which of the three types it is.
    pub kind: StanzaKind,
    /// The stanza itself, in [`ns::CLIENT`].
    pub element: Element<'b>,
}

impl<'b> Stanza<'b> {
    pub(crate) fn of(element: Element<'b>) -> Option<Stanza<'b>> {
        let kind = match element.name() {
            "message" => StanzaKind::Message,
            "presence" => StanzaKind::Presence,
            "iq" => StanzaKind::Iq,
            _ => return None,
        };
        (element.namespace() == ns::CLIENT).then_some(Stanza { kind, element })
    }

    /// Its attribute `to`, as it came.
    pub fn to(self) -> Option<Cow<'b, str>> {
        self.element.attribute("to")
    }

    /// Its attribute `from`, as it came.
    pub fn from(self) -> Option<Cow<'b, str>> {
        self.element.attribute("from")
    }

    /// Attributes that its answer repeats.
    pub fn id(self) -> Option<Cow<'b, str>> {
        self.element.attribute("id")
    }

    /// Its attribute `type`; empty if it has none.
    pub fn type_(self) -> Cow<'b, str> {
        self.element.attribute("type").unwrap_or_default()
    }

    /// Whether it is a request, which must be answered.
    pub fn is_request(self) -> bool {
        self.kind == StanzaKind::Iq && matches!(&*self.type_(), "get" | "set")
    }

    /// Payload of a request or its answer: the element in it.
    pub fn payload(self) -> Option<Element<'b>> {
        self.element.children().next()
    }
}

/// Action for the sender of a stanza after an error. [6120#8.3.2]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// Log in, or as another user, and send it again.
    Auth,
    /// Do not send it again.
    Cancel,
    /// It was only a warning.
    Continue,
    /// Change the stanza and send it again.
    Modify,
    /// Send it again after a while.
    Wait,
}

impl ErrorType {
    /// The value of the attribute.
    pub fn name(self) -> &'static str {
        match self {
            ErrorType::Auth => "auth",
            ErrorType::Cancel => "cancel",
            ErrorType::Continue => "continue",
            ErrorType::Modify => "modify",
            ErrorType::Wait => "wait",
        }
    }
}

/// An error that answers a stanza.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StanzaError {
    /// Action for its sender.
    pub type_: ErrorType,
    /// An element of [`ns::STANZA_ERRORS`].
    pub condition: &'static str,
    /// A more exact condition: an element and its namespace.
    pub more: Option<(&'static str, &'static str)>,
    /// Description of the error for people.
    pub text: Option<&'static str>,
    /// The byte of the refused text, and the error there, for people.
    pub place: Option<(usize, &'static str)>,
}

impl StanzaError {
    /// An error without a more exact condition.
    pub const fn new(type_: ErrorType, condition: &'static str) -> StanzaError {
        StanzaError {
            type_,
            condition,
            more: None,
            text: None,
            place: None,
        }
    }

    /// The same with a text for people.
    pub const fn about(self, text: &'static str) -> StanzaError {
        StanzaError {
            text: Some(text),
            ..self
        }
    }

    /// The same with the byte at which a text is wrong, and why; shown behind [`StanzaError::about`]'s text.
    pub const fn at(self, byte: usize, why: &'static str) -> StanzaError {
        StanzaError {
            place: Some((byte, why)),
            ..self
        }
    }

    /// The same with an element of another namespace.
    pub const fn with(self, element: &'static str, namespace: &'static str) -> StanzaError {
        StanzaError {
            more: Some((element, namespace)),
            ..self
        }
    }

    /// Appends the element `error`.
    pub fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<error");
        put_attribute("type", self.type_.name(), out);
        let condition = format!("><{} xmlns='{}'/>", self.condition, ns::STANZA_ERRORS);
        out.extend_from_slice(condition.as_bytes());
        if let Some(text) = self.text {
            out.extend_from_slice(format!("<text xmlns='{}'>", ns::STANZA_ERRORS).as_bytes());
            put_text(text, out);
            if let Some((byte, why)) = self.place {
                put_text(&format!(" at byte {byte}: {why}"), out);
            }
            out.extend_from_slice(b"</text>");
        }
        if let Some((element, namespace)) = self.more {
            out.extend_from_slice(format!("<{element} xmlns='{namespace}'/>").as_bytes());
        }
        out.extend_from_slice(b"</error>");
    }
}
