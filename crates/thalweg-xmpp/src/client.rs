//! The end that connects, and that logs in.

use crate::reader::{Item, Reader};
use crate::server::{handled, put_stanza};
use crate::write::{end_message, put_sasl, put_stream, put_stream_end, sasl_data};
use crate::{
    Again, Element, Features, Framing, Jid, Limits, Management, Mechanism, Mechanisms, PeerFault,
    Plain, SaslFailure, Stanza, StanzaKind, StartTls, Tree, ns, put_attribute, put_text,
};
use std::borrow::Cow;
use thalweg_scram::{ChannelBinding, ExpectServerFinal, ExpectServerFirst, ScramClient, ScramHash};

/// Credentials of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// By the best mechanism that the server offers: SCRAM, or PLAIN behind TLS.
    Password {
        /// Local part of the address.
        user: String,
        /// Sent itself only by PLAIN.
        password: String,
    },
    /// By the certificate of the TLS handshake.
    External,
    /// By ANONYMOUS: the server makes a name up.
    Anonymous,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::Password { user, .. } => write!(f, "Password({user})"),
            Credentials::External => f.write_str("External"),
            Credentials::Anonymous => f.write_str("Anonymous"),
        }
    }
}

/// When a client encrypts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// By STARTTLS, or not at all.
    #[default]
    Required,
    /// By STARTTLS if the server offers it.
    IfOffered,
    /// The connection has TLS before the first octet of XMPP.
    Direct,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Limits of the server's output.
    pub limits: Limits,
    /// Whether the stream lies in WebSocket messages.
    pub framing: Framing,
    /// The domain of the server, in lower case; empty: the server says its own.
    pub domain: String,
    /// Whether TLS begins with the connection, within the stream, or never.
    pub tls: TlsPolicy,
    /// Credentials for the login.
    pub credentials: Credentials,
    /// The resource to bind; the server chooses one if there is none.
    pub resource: Option<String>,
    /// Fresh random octets, never used before.
    pub nonce: [u8; 24],
    /// Whether to use XEP-0198 if the server offers it, and to ask for resumption.
    pub management: bool,
    /// Whether requests for acknowledgement are answered at once, for all that has arrived; otherwise the caller uses
    /// [`ClientSide::acknowledge`].
    pub acknowledges: bool,
}

/// An event on a stream.
#[derive(Clone, Debug)]
pub enum ClientEvent<'b> {
    /// A step that the machine has done alone. Send what it wrote.
    Consumed,
    /// Do the TLS handshake, then call [`ClientSide::secured`]. No other event comes before.
    StartTls,
    /// The log-in is over, and this is the client's address.
    Bound(Jid),
    /// The server counts stanzas from here on; with a name the stream can be resumed by [`ClientSide::resume`].
    Enabled(Option<Cow<'b, str>>),
    /// The earlier stream goes on.
    Resumed,
    /// Something for the client.
    Stanza(Stanza<'b>),
    /// The server has handled more stanzas.
    Acknowledged,
    /// The server ends the stream: [`ClientSide::close`]. The condition of its error, if there is one.
    Closed(Option<&'b str>),
}

/// The client's end: bytes in, events out; verbs append bytes to the caller's buffer.
#[derive(Debug)]
pub struct ClientSide {
    settings: ClientSettings,
    reader: Reader,
    state: State,
    is_secured: bool,
    is_logged_in: bool,
    is_open: bool,
    binding: Option<ChannelBinding>,
    /// The stream to resume, by the server's name for it.
    previous: Option<(String, Management)>,
    offers_management: bool,
    management: Option<Box<Management>>,
    /// `<enable/>` was sent and not answered.
    enabling: bool,
    /// Why the server has refused the log-in.
    failure: Option<SaslFailure>,
}

#[derive(Debug)]
enum State {
    Header,
    Features,
    /// `<starttls/>` was sent.
    Proceed,
    Securing,
    /// A message of a mechanism with no more than one was sent.
    Success,
    /// SCRAM's first message was sent.
    Challenge(Box<ExpectServerFirst>),
    /// SCRAM's last message was sent.
    Final(Box<ExpectServerFinal>),
    /// `<resume/>` was sent.
    Resuming,
    /// The request to bind was sent.
    Binding,
    Bound,
    Closed,
}

/// The id of our request to bind.
const BIND_ID: &str = "bind";

impl ClientSide {
    /// A machine that has not said anything; [`ClientSide::open`] begins.
    pub fn new(settings: ClientSettings) -> Self {
        ClientSide {
            reader: Reader::new(&settings.limits, settings.framing),
            is_secured: settings.tls == TlsPolicy::Direct,
            settings,
            state: State::Header,
            is_logged_in: false,
            is_open: false,
            binding: None,
            previous: None,
            offers_management: false,
            management: None,
            enabling: false,
            failure: None,
        }
    }

    /// Begins; call it once, before all else.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        let to = [("to", &*self.settings.domain)];
        let named = !self.settings.domain.is_empty();
        put_stream(self.settings.framing, &to[..usize::from(named)], out);
        self.is_open = true;
    }

    /// Sets the SCRAM channel binding of the TLS connection, where it is known. Before the login.
    pub fn set_binding(&mut self, binding: ChannelBinding) {
        self.binding = Some(binding);
    }

    /// Goes on with an earlier stream, by the name that the server gave it, instead of binding a resource. Before the log-in.
    pub fn resume(&mut self, id: &str, management: Management) {
        self.previous = Some((id.into(), management));
    }

    /// Why the server has refused the log-in, after [`PeerFault::LOGIN_REFUSED`].
    pub fn failure(&self) -> Option<SaslFailure> {
        self.failure
    }

    /// State of stream management, if it is on.
    pub fn management(&self) -> Option<&Management> {
        self.management.as_deref()
    }

    /// Marks the first `handled` received stanzas of the managed stream as processed.
    pub fn acknowledge(&mut self, handled: u32, out: &mut Vec<u8>) {
        if self.management.is_some() && !self.enabling {
            Management::put_acknowledgement(self.settings.framing, handled, out);
        }
    }

    /// Takes what a later connection needs to go on; `None` unless stream management is on.
    pub fn suspend(&mut self) -> Option<Management> {
        self.management.take().map(|management| *management)
    }

    /// The TLS handshake is over: the stream begins anew.
    pub fn secured(&mut self, out: &mut Vec<u8>) {
        if matches!(self.state, State::Securing) {
            self.is_secured = true;
            self.restart(out);
        }
    }

    fn restart(&mut self, out: &mut Vec<u8>) {
        self.reader.restart();
        self.state = State::Header;
        self.open(out);
    }

    /// The next step out of `bytes`, as [`ServerSide::handle_input`](crate::ServerSide::handle_input).
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        tree: &'b mut Tree,
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        if matches!(self.state, State::Securing | State::Closed) {
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
        if step.is_err() {
            self.close(out);
            self.state = State::Closed;
        }
        step
    }

    fn on_item<'b>(
        &mut self,
        item: Item<'b>,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent<'b>, PeerFault> {
        let element = match item {
            Item::Space => return Ok(ClientEvent::Consumed),
            Item::Header(_) => {
                self.state = State::Features;
                return Ok(ClientEvent::Consumed);
            }
            Item::End => {
                self.state = State::Closed;
                return Ok(ClientEvent::Closed(None));
            }
            Item::Element(element) if element.is("error", ns::STREAMS) => {
                self.state = State::Closed;
                let condition = element
                    .children()
                    .next()
                    .map_or("undefined-condition", Element::name);
                return Ok(ClientEvent::Closed(Some(condition)));
            }
            Item::Element(element) => element,
        };
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Features => {
                let features = Features::read(element).ok_or(PeerFault::STANZA_TYPE)?;
                self.on_features(features, out)
            }
            State::Proceed => {
                if !element.is("proceed", ns::TLS) {
                    return Err(PeerFault::TLS_REFUSED);
                }
                if !is_last {
                    return Err(PeerFault::EARLY);
                }
                self.state = State::Securing;
                Ok(ClientEvent::StartTls)
            }
            state @ (State::Success | State::Challenge(_) | State::Final(_)) => {
                self.on_login(state, element, out)
            }
            State::Resuming => self.on_resumed(element, out),
            State::Binding => self.on_bound(element, out),
            State::Bound => {
                self.state = State::Bound;
                self.on_traffic(element, out)
            }
            State::Header | State::Securing | State::Closed => Err(PeerFault::STANZA_TYPE),
        }
    }

    fn on_features<'b>(
        &mut self,
        features: Features,
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent<'b>, PeerFault> {
        if self.is_logged_in {
            self.offers_management = features.management;
            match &self.previous {
                Some((id, management)) if features.management => {
                    out.extend_from_slice(format!("<resume xmlns='{}'", ns::MANAGEMENT).as_bytes());
                    put_attribute("previd", id, out);
                    put_attribute("h", &management.received().to_string(), out);
                    out.extend_from_slice(b"/>");
                    end_message(self.settings.framing, out);
                    self.state = State::Resuming;
                }
                _ => self.bind(out),
            }
            return Ok(ClientEvent::Consumed);
        }
        if !self.is_secured {
            if features.starttls != StartTls::Off {
                out.extend_from_slice(format!("<starttls xmlns='{}'/>", ns::TLS).as_bytes());
                self.state = State::Proceed;
                return Ok(ClientEvent::Consumed);
            }
            if self.settings.tls == TlsPolicy::Required {
                return Err(PeerFault::NO_TLS);
            }
        }
        self.log_in(features.mechanisms, out)?;
        Ok(ClientEvent::Consumed)
    }

    fn log_in(&mut self, offered: Mechanisms, out: &mut Vec<u8>) -> Result<(), PeerFault> {
        let can = |mechanism: &Mechanism| match (mechanism, &self.settings.credentials) {
            (
                Mechanism::ScramSha256Plus | Mechanism::ScramSha1Plus,
                Credentials::Password { .. },
            ) => self.binding.is_some(),
            (Mechanism::ScramSha256 | Mechanism::ScramSha1, Credentials::Password { .. }) => true,
            (Mechanism::Plain, Credentials::Password { .. }) => self.is_secured,
            (Mechanism::External, Credentials::External) => self.is_secured,
            (Mechanism::Anonymous, Credentials::Anonymous) => true,
            _ => false,
        };
        let mechanism = offered.iter().find(can).ok_or(PeerFault::NO_MECHANISM)?;
        let (user, password) = match &self.settings.credentials {
            Credentials::Password { user, password } => (&**user, &**password),
            Credentials::External | Credentials::Anonymous => ("", ""),
        };
        let scram = |hash, binding| {
            let (expect, message) = ScramClient::start(
                hash,
                binding,
                user,
                password.as_bytes(),
                &self.settings.nonce,
            );
            (State::Challenge(Box::new(expect)), message)
        };
        let (state, message) = match mechanism {
            Mechanism::ScramSha256Plus => scram(ScramHash::Sha256, self.binding.as_ref()),
            Mechanism::ScramSha1Plus => scram(ScramHash::Sha1, self.binding.as_ref()),
            Mechanism::ScramSha256 => scram(ScramHash::Sha256, None),
            Mechanism::ScramSha1 => scram(ScramHash::Sha1, None),
            Mechanism::Plain => (
                State::Success,
                Plain {
                    authorization: "",
                    user,
                    password,
                }
                .encode(),
            ),
            Mechanism::External | Mechanism::Anonymous => (State::Success, Vec::new()),
        };
        let attribute = format!(" mechanism='{}'", mechanism.name());
        put_sasl(
            self.settings.framing,
            "auth",
            &attribute,
            Some(&message),
            out,
        );
        self.state = state;
        Ok(())
    }

    fn on_login<'b>(
        &mut self,
        state: State,
        element: Element<'b>,
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent<'b>, PeerFault> {
        if element.namespace() != ns::SASL {
            return Err(PeerFault::STANZA_TYPE);
        }
        if element.name() == "failure" {
            let name = element.children().next().map_or("", Element::name);
            self.failure = Some(SaslFailure::from_name(name));
            return Err(PeerFault::LOGIN_REFUSED);
        }
        let message = sasl_data(&element.text()).map_err(|_| PeerFault::SERVER_NOT_PROVEN)?;
        let message = message.unwrap_or_default();
        let not_proven = |_| PeerFault::SERVER_NOT_PROVEN;
        match (state, element.name()) {
            (State::Challenge(expect), "challenge") => {
                let (expect, last) = expect.last(&message).map_err(not_proven)?;
                put_sasl(self.settings.framing, "response", "", Some(&last), out);
                self.state = State::Final(Box::new(expect));
            }
            // SCRAM's last message may come as a challenge, to be answered with nothing. [6120#6.3.10]
            (State::Final(expect), "challenge") => {
                expect.finish(&message).map_err(not_proven)?;
                put_sasl(self.settings.framing, "response", "", None, out);
                self.state = State::Success;
            }
            (State::Final(expect), "success") => {
                expect.finish(&message).map_err(not_proven)?;
                self.on_success(out);
            }
            (State::Success, "success") => self.on_success(out),
            _ => return Err(PeerFault::SERVER_NOT_PROVEN),
        }
        Ok(ClientEvent::Consumed)
    }

    fn on_success(&mut self, out: &mut Vec<u8>) {
        self.is_logged_in = true;
        self.reader
            .set_bytes_max(self.settings.limits.stanza_bytes_max);
        self.restart(out);
    }

    fn bind(&mut self, out: &mut Vec<u8>) {
        let attributes = [("type", "set"), ("id", BIND_ID)];
        put_stanza(
            self.settings.framing,
            StanzaKind::Iq,
            &attributes,
            out,
            |out| {
                out.extend_from_slice(format!("<bind xmlns='{}'>", ns::BIND).as_bytes());
                if let Some(resource) = &self.settings.resource {
                    out.extend_from_slice(b"<resource>");
                    put_text(resource, out);
                    out.extend_from_slice(b"</resource>");
                }
                out.extend_from_slice(b"</bind>");
            },
        );
        self.state = State::Binding;
    }

    fn on_bound<'b>(
        &mut self,
        element: Element<'b>,
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent<'b>, PeerFault> {
        let is_ours = |stanza: &Stanza<'_>| {
            stanza.type_() == "result" && stanza.id().as_deref() == Some(BIND_ID)
        };
        let stanza = Stanza::of(element).filter(is_ours);
        let jid = stanza.and_then(|stanza| stanza.payload()?.child("jid", ns::BIND));
        let jid = jid
            .and_then(|jid| Jid::parse(&jid.text()).ok())
            .ok_or(PeerFault::BIND_REFUSED)?;
        self.state = State::Bound;
        if self.settings.management && self.offers_management {
            let enable = format!("<enable xmlns='{}' resume='true'/>", ns::MANAGEMENT);
            out.extend_from_slice(enable.as_bytes());
            end_message(self.settings.framing, out);
            let management = Management::before_answer(self.settings.framing);
            self.management = Some(Box::new(management));
            self.enabling = true;
        }
        Ok(ClientEvent::Bound(jid))
    }

    fn on_resumed<'b>(
        &mut self,
        element: Element<'b>,
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent<'b>, PeerFault> {
        let previous = self.previous.take();
        if element.is("failed", ns::MANAGEMENT) {
            self.bind(out);
            return Ok(ClientEvent::Consumed);
        }
        let (Some((_, mut management)), true) = (previous, element.is("resumed", ns::MANAGEMENT))
        else {
            return Err(PeerFault::STANZA_TYPE);
        };
        management.resume(handled(element)?, self.settings.framing, out)?;
        self.management = Some(Box::new(management));
        self.state = State::Bound;
        Ok(ClientEvent::Resumed)
    }

    fn on_traffic<'b>(
        &mut self,
        element: Element<'b>,
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent<'b>, PeerFault> {
        if let Some(stanza) = Stanza::of(element) {
            if let (Some(management), false) = (&mut self.management, self.enabling) {
                management.on_received();
            }
            return Ok(ClientEvent::Stanza(stanza));
        }
        if element.namespace() != ns::MANAGEMENT {
            return Err(PeerFault::STANZA_TYPE);
        }
        let was_enabling = std::mem::take(&mut self.enabling);
        match (element.name(), &mut self.management) {
            ("enabled", Some(management)) if was_enabling => {
                management.on_answer(out);
                let resume = element.attribute("resume");
                let is_resumable = resume.is_some_and(|resume| matches!(&*resume, "true" | "1"));
                Ok(ClientEvent::Enabled(
                    element.attribute("id").filter(|_| is_resumable),
                ))
            }
            ("failed", _) if was_enabling => {
                self.management = None;
                Ok(ClientEvent::Consumed)
            }
            ("r", Some(management)) if !was_enabling => {
                if self.settings.acknowledges {
                    Management::put_acknowledgement(
                        self.settings.framing,
                        management.received(),
                        out,
                    );
                }
                Ok(ClientEvent::Consumed)
            }
            ("a", Some(management)) if !was_enabling => {
                management.on_acknowledged(handled(element)?, out)?;
                Ok(ClientEvent::Acknowledged)
            }
            _ => Err(PeerFault::MANAGEMENT),
        }
    }

    /// Writes a stanza, as [`ServerSide::put`](crate::ServerSide::put).
    pub fn put(
        &mut self,
        kind: StanzaKind,
        attributes: &[(&str, &str)],
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        if !matches!(self.state, State::Bound) || !self.is_open {
            return;
        }
        let from = out.len();
        put_stanza(self.settings.framing, kind, attributes, out, content);
        if let Some(management) = &mut self.management {
            management.on_sent(Again::Copy, from, out);
        }
    }

    /// Ends the stream. Stanzas that the server sends before it ends its own still arrive; then, or after a while,
    /// close the connection.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_open) {
            put_stream_end(self.settings.framing, out);
        }
    }
}
