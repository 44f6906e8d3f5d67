//! From the first bytes to an open connection: log-in and virtual host.

use super::{AmqpFront, State};
use crate::front::{Cx, Variant};
use crate::login::refused;
use crate::{LoginAnswer, LoginRefusal};
use thalweg_amqp::methods::{connection, connection::StartOk};
use thalweg_amqp::{FieldValue, MethodId, ReplyCode, Table, TableWriter};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, Grants, KnownAs, OpenRefusal, OpenSession};
use thalweg_model::STAMPS_ANNOUNCEMENT;

/// Clients compare it with versions of RabbitMQ to find out what a server can do.
const VERSION: &str = "3.13.0";

/// The client property by which libraries name a connection for people.
const CONNECTION_NAME: &str = "connection_name";

/// Bytes of client properties that are kept for operators; what comes behind is left out.
const ABOUT_BYTES_MAX: usize = 1024;

/// What a client says that it understands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capabilities {
    /// It accepts `connection.close` as the answer to a refused log-in.
    pub(super) authentication_failure_close: bool,
    /// It accepts `basic.cancel` when a consumer's queue is gone.
    pub(super) consumer_cancel_notify: bool,
    /// It accepts `connection.blocked` when publishing is held back.
    pub(super) blocked: bool,
}

/// A peer that is admitted and has not named its virtual host yet.
pub(super) struct Admitted {
    user: Option<Box<str>>,
    access: Access,
}

/// What a peer offers to prove who it is.
#[derive(Debug, Default, PartialEq, Eq)]
struct Credentials {
    user: Option<Box<str>>,
    password: Option<Box<[u8]>>,
}

impl AmqpFront {
    pub(super) fn on_header(cx: &mut Cx<'_>) {
        AmqpFront::write(cx.links, cx.id, |front, out| {
            let mut buffer = Vec::new();
            let mut writer = TableWriter::new(&mut buffer);
            writer
                .table("capabilities", |capabilities| {
                    for capability in [
                        "publisher_confirms",
                        "exchange_exchange_bindings",
                        "basic.nack",
                        "consumer_cancel_notify",
                        "connection.blocked",
                        "consumer_priorities",
                        "authentication_failure_close",
                        "per_consumer_qos",
                        "direct_reply_to",
                    ] {
                        capabilities.bool(capability, true);
                    }
                })
                .str("cluster_name", &front.settings.cluster_name)
                .str(
                    "information",
                    concat!("Thalweg ", env!("CARGO_PKG_VERSION")),
                )
                .str("platform", "Rust")
                .str("product", "Thalweg")
                .str("version", VERSION)
                .str(STAMPS_ANNOUNCEMENT, "1");
            let mechanisms = match front.anonymous {
                Some(_) => "PLAIN AMQPLAIN EXTERNAL ANONYMOUS",
                None => "PLAIN AMQPLAIN EXTERNAL",
            };
            front
                .machine
                .start(writer.finish(), mechanisms, "en_US", out);
        });
    }

    pub(super) fn on_start_ok(cx: &mut Cx<'_>, start_ok: &StartOk<'_>) {
        let Some(front) = AmqpFront::of(cx.links, cx.id) else {
            return;
        };
        front.capabilities = Capabilities::of(start_ok.client_properties);
        front.client = cx.kernel.unused_client_id(front.nonce);
        let name = start_ok
            .client_properties
            .get(CONNECTION_NAME)
            .and_then(|name| name.as_str());
        front.about = texts_of(start_ok.client_properties);
        front.name = name
            .filter(|name| !name.is_empty() && cx.kernel.limits().presence)
            .map(Into::into);
        front.mechanism = start_ok.mechanism.into();
        let Some(credentials) = Credentials::read(start_ok.mechanism, start_ok.response) else {
            return AmqpFront::refuse_login(cx, LoginRefusal::BadMethod);
        };
        if let Some(access) = front
            .anonymous
            .clone()
            .filter(|_| credentials.are_nobodys())
        {
            return AmqpFront::admit(cx, Admitted { user: None, access });
        }
        front.state = State::ExpectVerdict;
        let client = front.client.clone();
        cx.ask_password(client, credentials.user, credentials.password);
    }

    pub(super) fn on_verdict(cx: &mut Cx<'_>, answer: LoginAnswer) {
        let Some(front) = AmqpFront::of(cx.links, cx.id) else {
            return;
        };
        match (front.state, answer) {
            (State::ExpectVerdict, LoginAnswer::Allowed { user, access, .. }) => {
                AmqpFront::admit(cx, Admitted { user, access });
            }
            (State::ExpectVerdict, LoginAnswer::Refused(refusal)) => {
                AmqpFront::refuse_login(cx, refusal);
            }
            (State::ExpectReVerdict, LoginAnswer::Allowed { user, access, .. })
                if user == front.user =>
            {
                front.state = State::Open;
                if let Some(session) = cx.session() {
                    cx.kernel.set_access(session, access);
                }
                AmqpFront::write(cx.links, cx.id, |front, out| {
                    front.machine.update_secret_ok(out)
                });
            }
            // A secret of another user is as good as a wrong one: the connection was opened for its user.
            (State::ExpectReVerdict, LoginAnswer::Refused(_) | LoginAnswer::Allowed { .. }) => {
                let (code, cause) = (ReplyCode::AccessRefused, connection::UpdateSecret::ID);
                AmqpFront::close(cx, code, "the new secret was refused", cause);
            }
            // No mechanism of ours takes more than one step.
            (State::ExpectVerdict | State::ExpectReVerdict, LoginAnswer::Continue { .. }) => {
                AmqpFront::refuse_login(cx, LoginRefusal::BadMethod);
            }
            _ => {}
        }
    }

    fn admit(cx: &mut Cx<'_>, admitted: Admitted) {
        AmqpFront::write(cx.links, cx.id, |front, out| {
            front.state = State::Handshake;
            front.admitted = Some(Box::new(admitted));
            front.machine.tune(out);
        });
    }

    fn refuse_login(cx: &mut Cx<'_>, refusal: LoginRefusal) {
        let Some(front) = AmqpFront::of(cx.links, cx.id) else {
            return;
        };
        let tells = front.capabilities.authentication_failure_close;
        let what = match refusal {
            LoginRefusal::Busy => "The server has no time to check who you are.".to_owned(),
            LoginRefusal::BadMethod => format!(
                "Authentication mechanism {} is not offered here.",
                front.mechanism
            ),
            _ => format!(
                "Login was refused using authentication mechanism {}. For details see the broker logfile.",
                front.mechanism
            ),
        };
        front.fault = Some(what.as_str().into());
        if tells {
            let code = ReplyCode::AccessRefused;
            AmqpFront::close(cx, code, &what, MethodId::NONE);
        } else {
            // Older clients take a closed socket for a refused login.
            AmqpFront::end(cx, Closing::Lost);
        }
    }

    pub(super) fn on_open(cx: &mut Cx<'_>, vhost: &str) {
        let Some(front) = AmqpFront::of(cx.links, cx.id) else {
            return;
        };
        let cause = connection::Open::ID;
        let Some(tenant) = front.settings.tenant_of(vhost) else {
            let what = format!("vhost {vhost} not found");
            return AmqpFront::close(cx, ReplyCode::NotAllowed, &what, cause);
        };
        // The machine raises this event only for an admitted peer.
        let Some(admitted) = front.admitted.take() else {
            return;
        };
        let Admitted { user, access } = *admitted;
        front.tenant = tenant.clone();
        front.user = user.clone();
        let name = front.name.take();
        let client = front.client.clone();
        let open = OpenSession {
            tenant: &tenant,
            user: user.map(Into::into),
            known_as: name.as_deref().map(|name| KnownAs {
                tenant: &tenant,
                name,
                claimed_in: Some("amqp"),
            }),
            grants: Grants::of_listener(front.settings.publish_rate, front.settings.safety),
            ..OpenSession::of_link(&client, cx.id, access, "AMQP 0-9-1")
        };
        let session = match cx.open_session(open) {
            Ok(opened) => opened.session,
            Err(refusal) => {
                let what = match refusal {
                    // RabbitMQ's words, which its clients look for.
                    OpenRefusal::Denied => {
                        let user = AmqpFront::of(cx.links, cx.id)
                            .map_or_else(String::new, |front| front.user_name().to_owned());
                        format!("access to vhost '{vhost}' refused for user '{user}'")
                    }
                    refusal => refused(refusal).to_owned(),
                };
                return AmqpFront::close(cx, ReplyCode::NotAllowed, &what, cause);
            }
        };
        let blocked = cx.links.blocked();
        AmqpFront::write(cx.links, cx.id, |front, out| {
            front.state = State::Open;
            front.machine.open_ok(out);
            front.tell_blocked(blocked, out);
        });
        cx.start(session);
    }

    pub(super) fn on_update_secret(cx: &mut Cx<'_>, secret: &[u8]) {
        let Some(front) = AmqpFront::of(cx.links, cx.id) else {
            return;
        };
        front.state = State::ExpectReVerdict;
        let (client, user) = (front.client.clone(), front.user.clone());
        cx.ask_password(client, user, Some(secret.into()));
    }

    pub(super) fn tell_blocked(&mut self, why: Option<&str>, out: &mut Vec<u8>) {
        if let Some(why) = why.filter(|_| self.capabilities.blocked) {
            self.machine.blocked(why, out);
        }
    }
}

impl super::AmqpSettings {
    /// The tenant that a virtual host is, `""` for the default one; nothing if there is none.
    fn tenant_of(&self, vhost: &str) -> Option<Box<str>> {
        if matches!(vhost, "" | "/") {
            return Some("".into());
        }
        let name = vhost.strip_prefix('/').unwrap_or(vhost);
        self.tenants
            .iter()
            .find(|tenant| [name, vhost].contains(&&***tenant))
            .cloned()
    }
}

impl Capabilities {
    fn of(client_properties: Table<'_>) -> Self {
        let Some(FieldValue::Table(table)) = client_properties.get("capabilities") else {
            return Capabilities::default();
        };
        let has = |name: &str| {
            table
                .get(name)
                .and_then(|value| value.as_bool())
                .unwrap_or(false)
        };
        Capabilities {
            authentication_failure_close: has("authentication_failure_close"),
            consumer_cancel_notify: has("consumer_cancel_notify"),
            blocked: has("connection.blocked"),
        }
    }
}

impl Credentials {
    /// What a mechanism's first response says. Nothing if the mechanism is not offered or the response is broken.
    fn read(mechanism: &str, response: &[u8]) -> Option<Self> {
        match mechanism {
            "PLAIN" => {
                // RFC 4616: on whose behalf, who, password; NUL between them.
                let mut parts = response.splitn(3, |byte| *byte == 0);
                let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
                Some(Credentials {
                    user: Some(std::str::from_utf8(user).ok()?.into()),
                    password: Some(password.into()),
                })
            }
            "AMQPLAIN" => {
                let table = Table::parse(response).ok()?;
                let user = table.get("LOGIN")?.as_str()?.into();
                let FieldValue::LongStr(password) = table.get("PASSWORD")? else {
                    return None;
                };
                Some(Credentials {
                    user: Some(user),
                    password: Some(password.into()),
                })
            }
            // The certificate is the proof, and the server has it.
            "EXTERNAL" | "ANONYMOUS" => Some(Credentials::default()),
            _ => None,
        }
    }

    /// Whether these are the credentials that libraries send by default.
    fn are_nobodys(&self) -> bool {
        match (self.user.as_deref(), self.password.as_deref()) {
            (None, None) => true,
            (user, password) => user == Some("guest") && password == Some(b"guest"),
        }
    }
}

/// The texts among client properties that are kept.
fn texts_of(table: Table<'_>) -> Box<[(Box<str>, Box<str>)]> {
    let mut left = ABOUT_BYTES_MAX;
    let texts = table
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_str()?)));
    let kept = texts.take_while(
        |(name, text)| match left.checked_sub(name.len() + text.len()) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        },
    );
    kept.map(|(name, text)| (name.into(), text.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(user: &str, password: &[u8]) -> Option<Credentials> {
        Some(Credentials {
            user: Some(user.into()),
            password: Some(password.into()),
        })
    }

    #[test]
    fn credentials_are_read_from_every_mechanism() {
        assert_eq!(
            Credentials::read("PLAIN", b"\0ada\0pass\0word"),
            credentials("ada", b"pass\0word")
        );
        assert_eq!(
            Credentials::read("PLAIN", b"admin\0ada\0"),
            credentials("ada", b"")
        );
        assert_eq!(
            Credentials::read("EXTERNAL", b""),
            Some(Credentials::default())
        );
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.str("LOGIN", "ada").str("PASSWORD", "secret");
        let response = writer.finish().as_bytes();
        assert_eq!(
            Credentials::read("AMQPLAIN", response),
            credentials("ada", b"secret")
        );
    }

    #[test]
    fn broken_responses_and_other_mechanisms_are_refused() {
        for (mechanism, response) in [
            ("PLAIN", &b"ada"[..]),
            ("PLAIN", b"\0ada"),
            ("PLAIN", b"\0\xFF\0x"),
            ("AMQPLAIN", b"\x05LOGI"),
            ("X", b""),
        ] {
            assert_eq!(
                Credentials::read(mechanism, response),
                None,
                "{mechanism} {response:?}"
            );
        }
    }

    #[test]
    fn a_virtual_host_is_the_default_tenant_or_one_of_the_settings() {
        let tenants = ["blue".into(), "/odd".into()].into();
        let settings = super::super::AmqpSettings {
            tenants,
            ..Default::default()
        };
        for (vhost, tenant) in [
            ("/", Some("")),
            ("", Some("")),
            ("blue", Some("blue")),
            ("/blue", Some("blue")),
            ("red", None),
        ] {
            assert_eq!(settings.tenant_of(vhost).as_deref(), tenant, "{vhost}");
        }
    }
}
