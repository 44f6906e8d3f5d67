//! From the first octet to an open session.

use super::{DIALECT, Login, XmppFront, XmppSettings};
use crate::front::{Cx, Variant};
use crate::login::refused;
use crate::{LinkSecurity, LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Grants, KnownAs, OpenRefusal, OpenSession, Opened};
use thalweg_model::Span;
use thalweg_xmpp::{
    ErrorType, Jid, Mechanism, Mechanisms, Plain, SaslFailure, ServerSettings, StanzaError,
};

/// What a listener offers.
pub(super) fn offer(settings: &XmppSettings, takes_strangers: bool) -> ServerSettings {
    ServerSettings {
        limits: settings.limits.clone(),
        framing: settings.framing,
        secured: settings.secured,
        starttls: settings.starttls,
        mechanisms: mechanisms(settings, takes_strangers, LinkSecurity::default()),
        management: true,
    }
}

fn mechanisms(
    settings: &XmppSettings,
    takes_strangers: bool,
    security: LinkSecurity,
) -> Mechanisms {
    let is_bound = settings.scram && security.has_binding;
    let mechanisms = [
        (is_bound, Mechanism::ScramSha256Plus),
        (security.has_name, Mechanism::External),
        (settings.scram, Mechanism::ScramSha256),
        (true, Mechanism::Plain),
        (takes_strangers || settings.anonymous, Mechanism::Anonymous),
    ];
    let offered = mechanisms.into_iter().filter(|(is_on, _)| *is_on);
    offered.map(|(_, mechanism)| mechanism).collect()
}

impl XmppFront {
    pub(super) fn on_open(cx: &mut Cx<'_>, to: Option<&str>) {
        let security = cx.links.get(cx.id).map(|link| link.security);
        let security = security.unwrap_or_default();
        XmppFront::write(cx.links, cx.id, |front, out| {
            let offered = mechanisms(&front.settings, front.anonymous.is_some(), security);
            front.side.set_mechanisms(offered);
            front.is_bindable = front.settings.scram && security.has_binding;
            let domain = front.settings.domain.clone();
            let is_ours = |to: &str| Jid::parse(to).is_ok_and(|jid| jid.as_str() == &*domain);
            if to.is_some_and(|to| !is_ours(to)) {
                let why = format!("the domain here is {domain}; see xmpp.domain");
                front.side.refuse("host-unknown", &why, out);
                front.fault = Some(
                    "the client asked for a domain that is not served; see xmpp.domain".into(),
                );
                return;
            }
            front.streams += 1;
            front.side.open(
                &format!("{:x}-{}", front.nonce, front.streams),
                &domain,
                out,
            );
        });
    }

    /// A message of a log-in: its first one, or what answers a challenge.
    pub(super) fn on_login_message(cx: &mut Cx<'_>, message: Option<&[u8]>) {
        let nonce = XmppFront::of(cx.links, cx.id).map_or(0, |front| front.nonce);
        let client = cx.kernel.unused_client_id(nonce);
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        // ANONYMOUS needs no message [4505#2], and libstrophe gives up when it is asked for one.
        let message = match &front.login {
            Some(login) if login.mechanism == Mechanism::Anonymous => {
                Some(message.unwrap_or_default())
            }
            _ => message,
        };
        let (Some(login), Some(message)) = (&mut front.login, message) else {
            XmppFront::say(cx, |side, out| side.challenge(b"", out));
            return;
        };
        let mechanism = login.mechanism;
        let first = !std::mem::replace(&mut login.has_begun, true);
        // A client that supports channel binding and says that we do not has not got the list that we sent. [5802#6]
        if first
            && front.is_bindable
            && mechanism == Mechanism::ScramSha256
            && message.starts_with(b"y,")
        {
            return XmppFront::log_in_failed(cx, SaslFailure::NotAuthorized);
        }
        let ask = match mechanism {
            Mechanism::Anonymous => match front.anonymous.clone() {
                Some(access) => {
                    front.allowed = Some((None, access));
                    XmppFront::say(cx, |side, out| side.success(None, out));
                    return;
                }
                None => LoginAsk::Password {
                    client,
                    chosen: false,
                    user: None,
                    password: None,
                },
            },
            Mechanism::Plain => {
                let Some(plain) = Plain::decode(message) else {
                    return XmppFront::log_in_failed(cx, SaslFailure::MalformedRequest);
                };
                if !front.may_act_as(plain.authorization, plain.user) {
                    return XmppFront::log_in_failed(cx, SaslFailure::InvalidAuthzid);
                }
                LoginAsk::Password {
                    client,
                    chosen: false,
                    user: Some(plain.user.into()),
                    password: Some(plain.password.as_bytes().into()),
                }
            }
            Mechanism::External => {
                let Ok(authorization) = std::str::from_utf8(message) else {
                    return XmppFront::log_in_failed(cx, SaslFailure::MalformedRequest);
                };
                front.acts_as = (!authorization.is_empty()).then(|| authorization.into());
                LoginAsk::Password {
                    client,
                    chosen: false,
                    user: None,
                    password: None,
                }
            }
            mechanism => LoginAsk::Exchange {
                client,
                chosen: false,
                method: mechanism.name().into(),
                data: message.into(),
                first,
            },
        };
        if let Some(login) = &mut front.login {
            login.is_waiting = true;
        }
        cx.ask_login(ask);
    }

    /// Whether a user may act as an address, which is empty if it does not ask for one: as itself.
    fn may_act_as(&self, authorization: &str, user: &str) -> bool {
        let domain = &*self.settings.domain;
        let (name, at) = authorization
            .split_once('@')
            .unwrap_or((authorization, domain));
        name.is_empty() || (name == user && at == domain)
    }

    fn log_in_failed(cx: &mut Cx<'_>, failure: SaslFailure) {
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.login = None;
        }
        XmppFront::say(cx, |side, out| side.failure(failure, out));
        let is_over = XmppFront::of(cx.links, cx.id).is_some_and(|front| front.side.is_closed());
        if is_over {
            XmppFront::give_up(cx, "too many log-ins have failed on this connection");
        }
    }

    pub(super) fn on_verdict(cx: &mut Cx<'_>, answer: LoginAnswer) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let Some(login) = front.login.take_if(|login| login.is_waiting) else {
            return;
        };
        match answer {
            LoginAnswer::Allowed {
                user, access, data, ..
            } => {
                if login.mechanism == Mechanism::External {
                    // Without a certificate it may be let in as a stranger, which is not what it has asked for.
                    let acts_as = front.acts_as.take().unwrap_or_default();
                    let failure = match &user {
                        None => Some(SaslFailure::NotAuthorized),
                        Some(user) if front.may_act_as(&acts_as, user) => None,
                        Some(_) => Some(SaslFailure::InvalidAuthzid),
                    };
                    if let Some(failure) = failure {
                        return XmppFront::log_in_failed(cx, failure);
                    }
                }
                front.allowed = Some((user, access));
                XmppFront::say(cx, |side, out| side.success(data.as_deref(), out));
            }
            LoginAnswer::Continue { data } => {
                front.login = Some(Login {
                    is_waiting: false,
                    ..login
                });
                XmppFront::say(cx, |side, out| side.challenge(&data, out));
            }
            LoginAnswer::Refused(refusal) => {
                let failure = match refusal {
                    LoginRefusal::BadUserOrPassword => SaslFailure::NotAuthorized,
                    LoginRefusal::NotAuthorized | LoginRefusal::ClientId => {
                        SaslFailure::AccountDisabled
                    }
                    LoginRefusal::BadMethod => SaslFailure::InvalidMechanism,
                    LoginRefusal::Busy => SaslFailure::TemporaryAuthFailure,
                };
                XmppFront::log_in_failed(cx, failure);
            }
        }
    }

    /// Opens the session of a client that has logged in. Its resource becomes one that no other connection has.
    pub(super) fn on_bind(cx: &mut Cx<'_>, resource: Option<&str>) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let Some((user, access)) = front.allowed.clone() else {
            return;
        };
        let nonce = front.nonce;
        let local = user.clone().unwrap_or_else(|| format!("{nonce:x}").into());
        let resource = format!("{}-{:08x}", resource.unwrap_or("xmpp"), nonce as u32);
        let domain = &front.settings.domain;
        let Ok(jid) = Jid::new(Some(&local), domain, Some(&resource)) else {
            let error = StanzaError::new(ErrorType::Modify, "bad-request");
            XmppFront::say(cx, |side, out| side.bind_refused(error, out));
            return;
        };
        let client = cx.kernel.unused_client_id(nonce);
        let opened = match XmppFront::open_session(cx, &client, Span::ZERO, user, access) {
            Ok(opened) => opened,
            Err(refusal) => {
                let error = match refusal {
                    OpenRefusal::TooManySessions
                    | OpenRefusal::Overloaded
                    | OpenRefusal::Outdated => {
                        StanzaError::new(ErrorType::Wait, "resource-constraint")
                    }
                    OpenRefusal::OtherUser | OpenRefusal::Denied => {
                        StanzaError::new(ErrorType::Cancel, "not-allowed")
                    }
                };
                XmppFront::say(cx, |side, out| {
                    side.bind_refused(error, out);
                    side.close(out);
                });
                return XmppFront::give_up(cx, refused(refusal));
            }
        };
        XmppFront::write(cx.links, cx.id, |front, out| {
            front.address = jid.as_str().into();
            front.availability.begin(cx.now);
            front.side.bound(jid, out);
        });
        cx.start(opened.session);
    }

    /// Opens the session of that name for this connection; it outlives it by `span`.
    pub(super) fn open_session(
        cx: &mut Cx<'_>,
        client: &str,
        span: Span,
        user: Option<Box<str>>,
        access: Access,
    ) -> Result<Opened, OpenRefusal> {
        let settings = XmppFront::of(cx.links, cx.id).map(|front| front.settings.clone());
        let settings = settings.unwrap_or_default();
        let known = user.clone();
        let open = OpenSession {
            fresh: span == Span::ZERO,
            expiry: span,
            tenant: &settings.tenant,
            user: user.map(Into::into),
            known_as: known.as_deref().map(|name| KnownAs {
                tenant: &settings.tenant,
                name,
                claimed_in: None,
            }),
            grants: Grants::of_listener(settings.publish_rate, settings.safety),
            ..OpenSession::of_link(client, cx.id, access, DIALECT)
        };
        cx.open_session(open)
    }
}
