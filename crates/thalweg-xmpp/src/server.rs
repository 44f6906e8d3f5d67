//! The end that was connected to, and that knows the accounts.

use crate::reader::{Item, Reader};
use crate::write::{end_message, put_sasl, put_stream, put_stream_end, sasl_data};
use crate::{
    Again, Element, Features, Framing, Jid, Limits, Management, Mechanism, Mechanisms, PeerFault,
    SaslFailure, Stanza, StanzaError, StanzaKind, StartTls, StreamHeader, Tree, ns, put_attribute,
    put_text,
};
use std::borrow::Cow;

/// Settings of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// Limits of peers' input.
    pub limits: Limits,
    /// Whether the stream lies in WebSocket messages.
    pub framing: Framing,
    /// The connection has TLS before the first octet of XMPP.
    pub secured: bool,
    /// Offer of STARTTLS on connections that begin without TLS.
    pub starttls: StartTls,
    /// Mechanisms to log in by. Those that need TLS are offered behind it only.
    pub mechanisms: Mechanisms,
    /// Whether XEP-0198 is offered.
    pub management: bool,
}

/// An event on a stream. The method named in the description answers it; until then no other event comes.
#[derive(Clone, Debug)]
pub enum ServerEvent<'b> {
    /// A step that the machine has done alone. Send what it wrote.
    Consumed,
    /// A stream begins: [`ServerSide::open`] or [`ServerSide::refuse`]. It comes again behind TLS and behind the log-in.
    Open(StreamHeader<'b>),
    /// The client requests TLS: [`ServerSide::proceed`], then the handshake, then [`ServerSide::secured`].
    StartTls,
    /// A log-in begins: [`ServerSide::challenge`], [`ServerSide::success`] or [`ServerSide::failure`].
    Login {
        /// One that was offered.
        mechanism: Mechanism,
        /// The first message, if it came at once; else an empty challenge asks for it.
        message: Option<Box<[u8]>>,
    },
    /// It goes on, as [`ServerEvent::Login`] is answered.
    Response(Box<[u8]>),
    /// The client has given its log-in up, and may begin another. Needs no answer.
    Aborted,
    /// The client requests an address, with this resource if it names one: [`ServerSide::bound`] or
    /// [`ServerSide::bind_refused`].
    Bind(Option<Cow<'b, str>>),
    /// The client requests to resume an earlier stream: [`ServerSide::resumed`] or [`ServerSide::resume_failed`].
    Resume {
        /// The name that [`ServerSide::enabled`] gave it.
        id: Cow<'b, str>,
    },
    /// The client requests acknowledgements: [`ServerSide::enabled`]. Without an answer they stay off.
    Enable {
        /// Whether it requests to resume the stream after a lost connection.
        resume: bool,
    },
    /// Needs no answer of the stream.
    Stanza(Stanza<'b>),
    /// The client has handled more stanzas, among them those with these numbers ([`Again::Kept`]).
    Acknowledged(Vec<u16>),
    /// The client ends the stream: [`ServerSide::close`].
    Closed,
}

/// The server's end: bytes in, events out; verbs append bytes to the caller's buffer.
///
/// ```text
///  Open → open() → StartTls → proceed() → secured()
///  Open → open() → Login → challenge() → Response → … → success()
///  Open → open() → Bind → bound() → Stanza …
///                  Resume → resumed() → Stanza …
/// ```
#[derive(Debug)]
pub struct ServerSide {
    settings: ServerSettings,
    reader: Reader,
    state: State,
    is_logged_in: bool,
    /// Our header of the stream that is read was sent.
    is_open: bool,
    failures: u8,
    domain: String,
    jid: Option<Jid>,
    management: Option<Box<Management>>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Header,
    /// The header was handed out.
    Opening,
    Features,
    /// STARTTLS was handed out, or the handshake is going on.
    Securing,
    /// A message of SASL was handed out.
    Judging(Mechanism),
    /// A challenge was sent.
    Challenged(Mechanism),
    /// A request to bind was handed out; it has this id.
    Binding(String),
    /// A request to resume was handed out: the client has handled so many stanzas.
    Resuming(u32),
    Bound,
    Closed,
}

/// Log-ins that may fail on one connection. [6120#6.4.4]
const FAILURES_MAX: u8 = 3;

impl ServerSide {
    /// A machine for a new connection.
    pub fn new(settings: ServerSettings) -> Self {
        ServerSide {
            reader: Reader::new(&settings.limits, settings.framing),
            settings,
            state: State::Header,
            is_logged_in: false,
            is_open: false,
            failures: 0,
            domain: String::new(),
            jid: None,
            management: None,
        }
    }

    /// Whether nothing is read or written any more.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether the stream is encrypted.
    pub fn is_secured(&self) -> bool {
        self.settings.secured
    }

    /// Whether a part of an element has come, and not all of it.
    pub fn is_within(&self) -> bool {
        !self.reader.is_between()
    }

    /// Octets of memory of input that is not a whole element yet, the header of the stream included.
    pub fn gathered_bytes(&self) -> usize {
        self.reader.bytes()
    }

    /// The address that is bound.
    pub fn jid(&self) -> Option<&Jid> {
        self.jid.as_ref()
    }

    /// State of stream management, if it is on.
    pub fn management(&self) -> Option<&Management> {
        self.management.as_deref()
    }

    /// Returns the next event in `bytes`. `Ok(None)`: incomplete, or an event waits for its answer; nothing consumed,
    /// the next call must bring the same bytes and more. `Err`: close the connection, after `out` was sent.
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        tree: &'b mut Tree,
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, ServerEvent<'b>)>, PeerFault> {
        if !matches!(
            self.state,
            State::Header | State::Features | State::Challenged(_) | State::Bound
        ) {
            return Ok(None);
        }
        let step = match self.reader.next(bytes, tree) {
            Ok(None) => return Ok(None),
            Ok(Some((len, item))) => {
                let is_last = len == bytes.len();
                self.on_item(item, is_last, out)
                    .map(|event| Some((len, event)))
            }
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &step {
            self.put_stream_error(fault.condition, fault.what, out);
        }
        step
    }

    fn on_item<'b>(
        &mut self,
        item: Item<'b>,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'b>, PeerFault> {
        match item {
            Item::Space => Ok(ServerEvent::Consumed),
            Item::End => Ok(self.on_end()),
            Item::Header(header) => {
                self.state = State::Opening;
                Ok(ServerEvent::Open(header))
            }
            Item::Element(element) if element.is("error", ns::STREAMS) => Ok(self.on_end()),
            Item::Element(element) => match self.state {
                State::Challenged(mechanism) => Ok(self.on_response(mechanism, element, out)?),
                State::Features if self.is_logged_in => self.on_bind(element),
                State::Features if element.is("starttls", ns::TLS) => {
                    if self.settings.secured || self.settings.starttls == StartTls::Off {
                        return Err(PeerFault::STANZA_TYPE);
                    }
                    // Unencrypted input must not be taken for encrypted input. [6120#5.4.3.3]
                    if !is_last {
                        return Err(PeerFault::EARLY);
                    }
                    self.state = State::Securing;
                    Ok(ServerEvent::StartTls)
                }
                State::Features if element.is("auth", ns::SASL) => self.on_auth(element, out),
                State::Features if Stanza::of(element).is_some() => Err(PeerFault::NOT_LOGGED_IN),
                State::Bound => self.on_traffic(element, out),
                _ => Err(PeerFault::STANZA_TYPE),
            },
        }
    }

    fn on_end<'b>(&mut self) -> ServerEvent<'b> {
        self.state = State::Closed;
        ServerEvent::Closed
    }

    // --- the beginning of a stream

    /// Answers [`ServerEvent::Open`]: our header and features. `id` is hard to guess and new for each stream.
    pub fn open(&mut self, id: &str, domain: &str, out: &mut Vec<u8>) {
        if self.state == State::Opening {
            self.domain = domain.into();
            self.put_header(id, out);
            self.features().put(self.settings.framing, out);
            self.state = State::Features;
        }
    }

    fn put_header(&mut self, id: &str, out: &mut Vec<u8>) {
        let named = [("xml:lang", "en"), ("id", id), ("from", &self.domain)];
        let named = named.into_iter().filter(|(_, value)| !value.is_empty());
        put_stream(self.settings.framing, &named.collect::<Vec<_>>(), out);
        self.is_open = true;
    }

    fn features(&self) -> Features {
        let ServerSettings {
            secured,
            starttls,
            mechanisms,
            management,
            ..
        } = &self.settings;
        if self.is_logged_in {
            return Features {
                bind: true,
                management: *management,
                ..Features::default()
            };
        }
        let starttls = if *secured { StartTls::Off } else { *starttls };
        let offered = |mechanism: &Mechanism| *secured || !mechanism.needs_tls();
        Features {
            starttls,
            mechanisms: match starttls {
                StartTls::Required => Mechanisms::default(),
                _ => mechanisms.iter().filter(offered).collect(),
            },
            ..Features::default()
        }
    }

    /// Ends the stream by a stream error of this condition, with a text for people.
    pub fn refuse(&mut self, condition: &str, text: &str, out: &mut Vec<u8>) {
        if self.state != State::Closed {
            self.put_stream_error(condition, text, out);
        }
    }

    fn put_stream_error(&mut self, condition: &str, text: &str, out: &mut Vec<u8>) {
        if !self.is_open {
            // "it MUST first send an opening stream tag" [6120#4.9.1.2]
            self.put_header("", out);
        }
        let declaration = match self.settings.framing {
            Framing::Document => String::new(),
            Framing::Elements => format!(" xmlns:stream='{}'", ns::STREAMS),
        };
        let errors = ns::STREAM_ERRORS;
        let xml = format!(
            "<stream:error{declaration}><{condition} xmlns='{errors}'/><text xmlns='{errors}'>"
        );
        out.extend_from_slice(xml.as_bytes());
        put_text(text, out);
        out.extend_from_slice(b"</text></stream:error>");
        end_message(self.settings.framing, out);
        self.put_end(out);
    }

    fn put_end(&mut self, out: &mut Vec<u8>) {
        put_stream_end(self.settings.framing, out);
        self.is_open = false;
        self.state = State::Closed;
    }

    /// Ends the stream; close the connection then.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.is_open {
            self.put_end(out);
        }
        self.state = State::Closed;
    }

    // --- TLS

    /// Answers [`ServerEvent::StartTls`]: what follows is the handshake.
    pub fn proceed(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Securing {
            out.extend_from_slice(format!("<proceed xmlns='{}'/>", ns::TLS).as_bytes());
        }
    }

    /// All further input is encrypted.
    pub fn secured(&mut self) {
        self.settings.secured = true;
        if self.state == State::Securing {
            self.restart();
        }
    }

    /// The mechanisms that streams offer that open from now on. [`ServerEvent::Open`] is the time to say so.
    pub fn set_mechanisms(&mut self, mechanisms: Mechanisms) {
        self.settings.mechanisms = mechanisms;
    }

    fn restart(&mut self) {
        self.reader.restart();
        self.is_open = false;
        self.state = State::Header;
    }

    // --- log-in

    fn on_auth<'b>(
        &mut self,
        element: Element<'b>,
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'b>, PeerFault> {
        let mechanism = element
            .attribute("mechanism")
            .and_then(|name| Mechanism::from_name(&name));
        let offered = self.features().mechanisms;
        match mechanism {
            Some(mechanism) if offered.contains(mechanism) => match sasl_data(&element.text()) {
                Ok(message) => {
                    self.state = State::Judging(mechanism);
                    Ok(ServerEvent::Login {
                        mechanism,
                        message: message.map(Vec::into_boxed_slice),
                    })
                }
                Err(_) => Ok(self.fail(SaslFailure::IncorrectEncoding, out)),
            },
            _ if self.settings.starttls == StartTls::Required && !self.settings.secured => {
                Ok(self.fail(SaslFailure::EncryptionRequired, out))
            }
            Some(mechanism) if mechanism.needs_tls() && !self.settings.secured => {
                Ok(self.fail(SaslFailure::EncryptionRequired, out))
            }
            _ => Ok(self.fail(SaslFailure::InvalidMechanism, out)),
        }
    }

    fn on_response<'b>(
        &mut self,
        mechanism: Mechanism,
        element: Element<'b>,
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'b>, PeerFault> {
        if element.is("abort", ns::SASL) {
            self.fail(SaslFailure::Aborted, out);
            return Ok(ServerEvent::Aborted);
        }
        if !element.is("response", ns::SASL) {
            return Err(PeerFault::STANZA_TYPE);
        }
        match sasl_data(&element.text()) {
            Ok(message) => {
                self.state = State::Judging(mechanism);
                Ok(ServerEvent::Response(message.unwrap_or_default().into()))
            }
            Err(_) => Ok(self.fail(SaslFailure::IncorrectEncoding, out)),
        }
    }

    fn fail<'b>(&mut self, failure: SaslFailure, out: &mut Vec<u8>) -> ServerEvent<'b> {
        let xml = format!(
            "<failure xmlns='{}'><{}/></failure>",
            ns::SASL,
            failure.name()
        );
        out.extend_from_slice(xml.as_bytes());
        end_message(self.settings.framing, out);
        self.failures += 1;
        self.state = State::Features;
        if self.failures >= FAILURES_MAX {
            let PeerFault {
                condition, what, ..
            } = PeerFault::LOGINS;
            self.put_stream_error(condition, what, out);
        }
        ServerEvent::Consumed
    }

    /// Answers a message of SASL with one.
    pub fn challenge(&mut self, message: &[u8], out: &mut Vec<u8>) {
        if let State::Judging(mechanism) = self.state {
            // In a challenge no text is an empty message; only in <auth/> it is none. [6120#6.4.2]
            put_sasl(
                self.settings.framing,
                "challenge",
                "",
                (!message.is_empty()).then_some(message),
                out,
            );
            self.state = State::Challenged(mechanism);
        }
    }

    /// Confirms the peer's authentication. `message` is the mechanism's last one, if it has any.
    pub fn success(&mut self, message: Option<&[u8]>, out: &mut Vec<u8>) {
        if matches!(self.state, State::Judging(_)) {
            put_sasl(self.settings.framing, "success", "", message, out);
            self.is_logged_in = true;
            self.restart();
            self.reader
                .set_bytes_max(self.settings.limits.stanza_bytes_max);
        }
    }

    /// The log-in has failed. The client may try again some times; then the stream ends: see [`ServerSide::is_closed`].
    pub fn failure(&mut self, failure: SaslFailure, out: &mut Vec<u8>) {
        if matches!(self.state, State::Judging(_)) {
            self.fail(failure, out);
        }
    }

    // --- binding

    fn on_bind<'b>(&mut self, element: Element<'b>) -> Result<ServerEvent<'b>, PeerFault> {
        if self.settings.management && element.is("resume", ns::MANAGEMENT) {
            let id = element.attribute("previd").ok_or(PeerFault::MANAGEMENT)?;
            let h = handled(element)?;
            self.state = State::Resuming(h);
            return Ok(ServerEvent::Resume { id });
        }
        let bind = Stanza::of(element).filter(|stanza| stanza.type_() == "set");
        let bind = bind.and_then(|stanza| Some((stanza.id()?, element.child("bind", ns::BIND)?)));
        let (id, bind) = bind.ok_or(PeerFault::BIND)?;
        self.state = State::Binding(id.into());
        let resource = bind.child("resource", ns::BIND).map(Element::text);
        Ok(ServerEvent::Bind(
            resource.filter(|resource| !resource.is_empty()),
        ))
    }

    /// Answers [`ServerEvent::Bind`]: this is the client's address.
    pub fn bound(&mut self, jid: Jid, out: &mut Vec<u8>) {
        let State::Binding(id) = &mut self.state else {
            return;
        };
        let id = std::mem::take(id);
        self.state = State::Bound;
        self.put(
            StanzaKind::Iq,
            &[("type", "result"), ("id", &id)],
            out,
            |out| {
                out.extend_from_slice(format!("<bind xmlns='{}'><jid>", ns::BIND).as_bytes());
                put_text(jid.as_str(), out);
                out.extend_from_slice(b"</jid></bind>");
            },
        );
        self.jid = Some(jid);
    }

    /// Answers [`ServerEvent::Bind`]: no. The client may ask for another resource.
    pub fn bind_refused(&mut self, error: StanzaError, out: &mut Vec<u8>) {
        let State::Binding(id) = &mut self.state else {
            return;
        };
        let id = std::mem::take(id);
        self.state = State::Features;
        self.put(
            StanzaKind::Iq,
            &[("type", "error"), ("id", &id)],
            out,
            |out| error.put(out),
        );
    }

    /// Answers [`ServerEvent::Resume`]: the stream of `management` is resumed, and copies of stanzas that the client
    /// lacks are sent again. Returns the numbers of those that it has ([`Again::Kept`]); the others are to be sent
    /// again.
    pub fn resumed(
        &mut self,
        id: &str,
        jid: Jid,
        mut management: Management,
        out: &mut Vec<u8>,
    ) -> Result<Vec<u16>, PeerFault> {
        let State::Resuming(h) = self.state else {
            return Ok(Vec::new());
        };
        out.extend_from_slice(format!("<resumed xmlns='{}'", ns::MANAGEMENT).as_bytes());
        put_attribute("previd", id, out);
        put_attribute("h", &management.received().to_string(), out);
        out.extend_from_slice(b"/>");
        end_message(self.settings.framing, out);
        let kept = management.resume(h, self.settings.framing, out);
        if let Err(fault) = &kept {
            self.put_stream_error(fault.condition, fault.what, out);
        } else {
            self.jid = Some(jid);
            self.management = Some(Box::new(management));
            self.state = State::Bound;
        }
        kept
    }

    /// Answers [`ServerEvent::Resume`]: there is no such stream. The client may bind.
    pub fn resume_failed(&mut self, out: &mut Vec<u8>) {
        if matches!(self.state, State::Resuming(_)) {
            put_failed(self.settings.framing, "item-not-found", out);
            self.state = State::Features;
        }
    }

    // --- stanzas

    fn on_traffic<'b>(
        &mut self,
        element: Element<'b>,
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'b>, PeerFault> {
        if let Some(stanza) = Stanza::of(element) {
            if let Some(management) = &mut self.management {
                management.on_received();
            }
            return Ok(match self.answer(stanza, out) {
                true => ServerEvent::Consumed,
                false => ServerEvent::Stanza(stanza),
            });
        }
        if element.namespace() != ns::MANAGEMENT || !self.settings.management {
            return Err(PeerFault::STANZA_TYPE);
        }
        match (element.name(), &mut self.management) {
            ("enable", None) => {
                let resume = element.attribute("resume");
                let resume = resume.is_some_and(|resume| matches!(&*resume, "true" | "1"));
                Ok(ServerEvent::Enable { resume })
            }
            ("enable" | "resume", _) => {
                put_failed(self.settings.framing, "unexpected-request", out);
                Ok(ServerEvent::Consumed)
            }
            ("r", Some(management)) => {
                Management::put_acknowledgement(self.settings.framing, management.received(), out);
                Ok(ServerEvent::Consumed)
            }
            ("a", Some(management)) => Ok(ServerEvent::Acknowledged(
                management.on_acknowledged(handled(element)?, out)?,
            )),
            _ => Err(PeerFault::MANAGEMENT),
        }
    }

    /// Answers what needs no more than the stream: a ping of the server, and the session that means nothing.
    fn answer(&mut self, stanza: Stanza<'_>, out: &mut Vec<u8>) -> bool {
        let (Some(payload), true) = (stanza.payload(), stanza.is_request()) else {
            return false;
        };
        let is_ping = payload.is("ping", ns::PING) && stanza.type_() == "get";
        let is_session = payload.is("session", ns::SESSION) && stanza.type_() == "set";
        let is_for_us = || stanza.to().is_none_or(|to| to == self.domain);
        if !(is_ping || is_session) || !is_for_us() {
            return false;
        }
        let (domain, id) = (self.domain.clone(), stanza.id().unwrap_or_default());
        let attributes = [("type", "result"), ("id", &*id), ("from", &*domain)];
        self.put(StanzaKind::Iq, &attributes, out, |_| {});
        true
    }

    /// Answers [`ServerEvent::Enable`]: from here on stanzas are counted. With an `id` the client may resume for
    /// `seconds_max` after its connection is lost.
    pub fn enabled(&mut self, id: Option<&str>, seconds_max: u32, out: &mut Vec<u8>) {
        if self.state != State::Bound || self.management.is_some() {
            return;
        }
        out.extend_from_slice(format!("<enabled xmlns='{}'", ns::MANAGEMENT).as_bytes());
        if let Some(id) = id {
            put_attribute("id", id, out);
            put_attribute("resume", "true", out);
            put_attribute("max", &seconds_max.to_string(), out);
        }
        out.extend_from_slice(b"/>");
        end_message(self.settings.framing, out);
        self.management = Some(Box::new(Management::new(self.settings.framing)));
    }

    /// Whether the client has said that it has handled nothing more, and [`ServerSide::ask`] is to ask again after a while.
    pub fn is_to_ask(&self) -> bool {
        self.management
            .as_ref()
            .is_some_and(|management| management.is_to_ask())
    }

    /// Asks for an acknowledgement if there is something that is not acknowledged.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        if let (Some(management), State::Bound) = (&mut self.management, &self.state) {
            management.ask(out);
        }
    }

    /// Takes what a later connection needs to go on; `None` unless stream management is on.
    pub fn suspend(&mut self) -> Option<Management> {
        self.management.take().map(|management| *management)
    }

    /// Writes a stanza: its attributes but for empty ones, whose values are escaped, and the output of `content`, which is not.
    pub fn put(
        &mut self,
        kind: StanzaKind,
        attributes: &[(&str, &str)],
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        self.put_again(Again::Copy, kind, attributes, out, content);
    }

    /// The same of one that is sent again in another way after a lost connection.
    pub fn put_again(
        &mut self,
        again: Again,
        kind: StanzaKind,
        attributes: &[(&str, &str)],
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.state != State::Bound && self.state != State::Features {
            return;
        }
        let from = out.len();
        put_stanza(self.settings.framing, kind, attributes, out, content);
        if let Some(management) = &mut self.management {
            management.on_sent(again, from, out);
        }
    }
}

pub(crate) fn put_stanza(
    framing: Framing,
    kind: StanzaKind,
    attributes: &[(&str, &str)],
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>),
) {
    out.push(b'<');
    out.extend_from_slice(kind.name().as_bytes());
    if framing == Framing::Elements {
        put_attribute("xmlns", ns::CLIENT, out);
    }
    for (name, value) in attributes {
        if !value.is_empty() {
            put_attribute(name, value, out);
        }
    }
    out.push(b'>');
    let inner = out.len();
    content(out);
    if out.len() == inner {
        out.pop();
        out.extend_from_slice(b"/>");
    } else {
        out.extend_from_slice(b"</");
        out.extend_from_slice(kind.name().as_bytes());
        out.push(b'>');
    }
    end_message(framing, out);
}

/// The count in an element of stream management.
pub(crate) fn handled(element: Element<'_>) -> Result<u32, PeerFault> {
    let h = element.attribute("h").and_then(|h| h.parse().ok());
    h.ok_or(PeerFault::MANAGEMENT)
}

fn put_failed(framing: Framing, condition: &str, out: &mut Vec<u8>) {
    let xml = format!(
        "<failed xmlns='{}'><{condition} xmlns='{}'/></failed>",
        ns::MANAGEMENT,
        ns::STANZA_ERRORS
    );
    out.extend_from_slice(xml.as_bytes());
    end_message(framing, out);
}
