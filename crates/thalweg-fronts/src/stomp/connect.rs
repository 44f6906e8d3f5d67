//! CONNECT: from the first frame to an open session.

use super::{State, StompFront, StompSettings, Trouble};
use crate::LoginAnswer;
use crate::front::{Cx, Variant};
use crate::login::{WANTS_MORE, refused};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Grants, KnownAs, OpenRefusal, OpenSession};
use thalweg_model::{STAMPS_ANNOUNCEMENT, Span};
use thalweg_stomp::{ConnectFrame, ConnectedOut, Version, heart_beats};

/// The credentials that libraries send by default: they count as none where none are required.
const DEFAULT_CREDENTIALS: &str = "guest";

/// RabbitMQ's short message for a refused log-in.
const BAD_CONNECT: &str = "Bad CONNECT";

/// The shortest intervals of heart-beats, in milliseconds, that we send and require.
const GIVEN_MIN: u32 = 100;
const WANTED_MIN: u32 = 1000;

/// What is remembered of a CONNECT while its sender is being checked.
pub(super) struct Opening {
    session: Box<str>,
    heart_beat: (u32, u32),
}

impl StompSettings {
    /// The tenant that `host` names. 1.2 recommends to put the name of the server there (1.2#CONNECT_or_STOMP_Frame), so
    /// what looks like one names no tenant.
    fn tenant_of(&self, host: &str) -> Option<&str> {
        if host.is_empty() || host == "/" {
            return Some(&self.tenant);
        }
        if let Some(tenant) = self.tenants.iter().find(|tenant| ***tenant == *host) {
            return Some(tenant);
        }
        let is_server = host.contains(['.', ':'])
            || host == "localhost"
            || self.hosts.iter().any(|own| **own == *host);
        is_server.then_some(&*self.tenant)
    }

    /// The heart-beat to offer and to require, from what the peer offers and requires: its own value, within bounds;
    /// none where it says 0.
    fn heart_beat(&self, (gives, wants): (u32, u32)) -> (u32, u32) {
        let millis = |span: Span| u32::try_from(span.nanos() / 1_000_000).unwrap_or(u32::MAX);
        let (give, want) = (millis(self.heart_beat_give), millis(self.heart_beat_want));
        let within = |theirs: u32, min: u32, ours: u32| {
            if theirs == 0 {
                0
            } else {
                theirs.clamp(min.min(ours), ours)
            }
        };
        (
            within(wants, GIVEN_MIN, give),
            within(gives, WANTED_MIN, want),
        )
    }
}

impl StompFront {
    pub(super) fn on_connect(cx: &mut Cx<'_>, connect: &ConnectFrame<'_>) {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return;
        };
        let host = connect.host.as_deref().unwrap_or_default();
        let Some(tenant) = front.settings.tenant_of(host) else {
            let body = format!(
                "Virtual host '{host}' access denied: there is none of this name; / is the default one\n"
            );
            return StompFront::give_up(cx, &Trouble::new(BAD_CONNECT, body), None);
        };
        front.tenant = tenant.into();
        front.login = connect.login.as_deref().map(Into::into);
        front.client = connect.headers.get("client-id").map(Into::into);
        let opening = Opening {
            session: cx.kernel.unused_client_id(front.nonce),
            heart_beat: connect.heart_beat,
        };
        let credentials = (connect.login.as_deref(), connect.passcode.as_deref());
        let are_none = matches!(
            credentials,
            (None, None) | (Some(DEFAULT_CREDENTIALS), Some(DEFAULT_CREDENTIALS))
        );
        if are_none && let Some(access) = front.anonymous.clone() {
            return StompFront::open(cx, &opening, None, access);
        }
        let client = opening.session.clone();
        front.state = State::ExpectVerdict(Box::new(opening));
        let (user, password) = credentials;
        let password = password.map(|password| password.as_bytes().into());
        cx.ask_password(client, user.map(Into::into), password);
    }

    pub(super) fn on_verdict(cx: &mut Cx<'_>, answer: LoginAnswer) {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return;
        };
        let opening = match std::mem::replace(&mut front.state, State::Closed) {
            State::ExpectVerdict(opening) => opening,
            other => {
                front.state = other;
                return;
            }
        };
        let why = match answer {
            LoginAnswer::Allowed { user, access, .. } => {
                return StompFront::open(cx, &opening, user, access);
            }
            LoginAnswer::Continue { .. } => WANTS_MORE,
            LoginAnswer::Refused(refusal) => refusal.words(),
        };
        let user = front.login.as_deref().unwrap_or_default();
        let body = format!("Access refused for user '{user}': {why}\n");
        StompFront::give_up(cx, &Trouble::new(BAD_CONNECT, body), None);
    }

    /// Opens the session of an admitted peer, and writes CONNECTED.
    fn open(cx: &mut Cx<'_>, opening: &Opening, user: Option<Box<str>>, access: Access) {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return;
        };
        let tenant = front.tenant.clone();
        // From now on the user that was proven: a claimed one may be another.
        front.login = user.clone();
        let name = front
            .client
            .clone()
            .filter(|name| !name.is_empty() && cx.kernel.limits().presence);
        let dialect = match front.machine.version() {
            Version::V10 => "STOMP 1.0",
            Version::V11 => "STOMP 1.1",
            Version::V12 => "STOMP 1.2",
        };
        let open = OpenSession {
            tenant: &tenant,
            user: user.map(Into::into),
            known_as: name.as_deref().map(|name| KnownAs {
                tenant: &tenant,
                name,
                claimed_in: Some("stomp"),
            }),
            grants: Grants::of_listener(front.settings.publish_rate, front.settings.safety),
            ..OpenSession::of_link(&opening.session, cx.id, access, dialect)
        };
        let session = match cx.open_session(open) {
            Ok(opened) => opened.session,
            Err(refusal) => {
                let body = match refusal {
                    OpenRefusal::Denied => {
                        let host = if tenant.is_empty() { "/" } else { &tenant };
                        format!(
                            "Virtual host '{host}' access denied: the rules grant this user nothing in it\n"
                        )
                    }
                    refusal => format!("{}\n", refused(refusal)),
                };
                return StompFront::give_up(cx, &Trouble::new(BAD_CONNECT, body), None);
            }
        };
        StompFront::write(cx.links, cx.id, |front, out| {
            let settings = front.settings.clone();
            let ours = settings.heart_beat(opening.heart_beat);
            front.heart_beat = heart_beats(ours, opening.heart_beat);
            front.state = State::Connected;
            let connected = ConnectedOut {
                session: Some(&opening.session),
                server: Some(&settings.server),
                heart_beat: ours,
                user: None,
                further: &[(STAMPS_ANNOUNCEMENT, "1")],
            };
            front.machine.connected(&connected, out);
        });
        cx.start(session);
    }
}
