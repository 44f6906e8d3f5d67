//! Verdicts on who somebody is, and AUTH packets (MQTT 5 §4.12).

use super::{MqttFront, State};
use crate::front::Variant;
use crate::link::Links;
use crate::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::{Closing, Kernel, LinkId};
use thalweg_model::Time;
use thalweg_mqtt::{Auth, ConnAck, DisconnectProps, PeerFault, ReasonCode};

const METHOD_CHANGED: PeerFault = PeerFault {
    reason: ReasonCode::ProtocolError,
    clause: "MQTT-4.12.0-5",
    what: "AUTH names another authentication method than CONNECT did",
};

const AUTH_UNASKED: PeerFault = PeerFault {
    reason: ReasonCode::ProtocolError,
    clause: "MQTT-4.12.0-7",
    what: "AUTH came without an authentication method in CONNECT, or out of turn",
};

impl MqttFront {
    pub(super) fn on_auth(
        links: &mut Links,
        id: LinkId,
        auth: &Auth<'_>,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(front) = MqttFront::of(links, id) else {
            return;
        };
        let Some(method) = front.auth_method.clone() else {
            return MqttFront::fail(links, id, AUTH_UNASKED, now, kernel);
        };
        if *auth.method != *method {
            return MqttFront::fail(links, id, METHOD_CHANGED, now, kernel);
        }
        let re_authenticates = auth.reason == ReasonCode::ReAuthenticate;
        let (client, chosen) = match std::mem::replace(&mut front.state, State::Closed) {
            State::ExpectAuth(opening) if !re_authenticates => {
                let (client, chosen) = (opening.client.clone(), !opening.assigned);
                front.state = State::ExpectVerdict(opening);
                (client, chosen)
            }
            State::Connected => {
                front.state = State::ExpectReVerdict;
                let session = links.get(id).and_then(|link| link.session);
                let client = session.and_then(|session| kernel.client_of(session));
                // It was judged when it came in.
                (client.map_or("".into(), |client| (&**client).into()), false)
            }
            _ => return MqttFront::fail(links, id, AUTH_UNASKED, now, kernel),
        };
        let data = auth.data.unwrap_or_default().into();
        links.ask_login(
            id,
            LoginAsk::Exchange {
                client,
                chosen,
                method,
                data,
                first: re_authenticates,
            },
        );
    }

    pub(super) fn on_verdict(
        links: &mut Links,
        id: LinkId,
        answer: LoginAnswer,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(front) = MqttFront::of(links, id) else {
            return;
        };
        match std::mem::replace(&mut front.state, State::Closed) {
            State::ExpectVerdict(opening) => match answer {
                LoginAnswer::Allowed {
                    user, access, data, ..
                } => {
                    MqttFront::open(
                        links,
                        id,
                        *opening,
                        user,
                        access,
                        data.as_deref(),
                        now,
                        kernel,
                    );
                }
                LoginAnswer::Continue { data } => {
                    front.state = State::ExpectAuth(opening);
                    MqttFront::say(links, id, ReasonCode::ContinueAuthentication, Some(&data));
                }
                LoginAnswer::Refused(refusal) => {
                    let ack = ConnAck {
                        reason: reason_of(refusal),
                        ..ConnAck::default()
                    };
                    MqttFront::refuse(links, id, &ack, now, kernel);
                }
            },
            State::ExpectReVerdict => {
                front.state = State::Connected;
                let session = links.get(id).and_then(|link| link.session);
                let same_user = |user: Option<&str>| {
                    session.is_some_and(|session| kernel.session_user(session) == user)
                };
                let answer = match answer {
                    // The session was opened for its user, and what it has and may be known by is theirs.
                    LoginAnswer::Allowed { user, .. } if !same_user(user.as_deref()) => {
                        LoginAnswer::Refused(LoginRefusal::NotAuthorized)
                    }
                    answer => answer,
                };
                match answer {
                    LoginAnswer::Allowed { access, data, .. } => {
                        if let Some(session) = session {
                            kernel.set_access(session, access);
                        }
                        MqttFront::say(links, id, ReasonCode::Success, data.as_deref());
                    }
                    LoginAnswer::Continue { data } => {
                        MqttFront::say(links, id, ReasonCode::ContinueAuthentication, Some(&data));
                    }
                    LoginAnswer::Refused(refusal) => {
                        // DISCONNECT has no code for a wrong password (MQTT 5 §3.14.2.1).
                        let reason = match reason_of(refusal) {
                            ReasonCode::BadUserNameOrPassword => ReasonCode::NotAuthorized,
                            reason => reason,
                        };
                        MqttFront::write(links, id, |front, out| {
                            front
                                .machine
                                .disconnect(reason, &DisconnectProps::default(), out);
                        });
                        MqttFront::end(links, id, Closing::Lost, None, now, kernel);
                    }
                }
            }
            other => front.state = other,
        }
    }

    fn say(links: &mut Links, id: LinkId, reason: ReasonCode, data: Option<&[u8]>) {
        MqttFront::write(links, id, |front, out| {
            let method = front.auth_method.clone().unwrap_or_default();
            front.machine.auth(reason, &method, data, out);
        });
    }
}

fn reason_of(refusal: LoginRefusal) -> ReasonCode {
    match refusal {
        LoginRefusal::BadUserOrPassword => ReasonCode::BadUserNameOrPassword,
        LoginRefusal::NotAuthorized => ReasonCode::NotAuthorized,
        // "A valid UTF-8 string but is not allowed by the Server" (MQTT 5 §3.2.2.2); return code 2 in MQTT 3.
        LoginRefusal::ClientId => ReasonCode::ClientIdentifierNotValid,
        LoginRefusal::BadMethod => ReasonCode::BadAuthenticationMethod,
        LoginRefusal::Busy => ReasonCode::ServerBusy,
    }
}
