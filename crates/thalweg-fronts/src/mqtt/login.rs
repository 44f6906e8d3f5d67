//! Verdicts on log-ins, and AUTH packets (MQTT 5 §4.12).

use super::{MqttFront, State};
use crate::front::{Cx, Variant};

use crate::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::Closing;

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
    pub(super) fn on_auth(cx: &mut Cx<'_>, auth: &Auth<'_>) {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        let Some(method) = front.auth_method.clone() else {
            return MqttFront::fail(cx, AUTH_UNASKED);
        };
        if *auth.method != *method {
            return MqttFront::fail(cx, METHOD_CHANGED);
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
                let session = cx.session();
                let client = session.and_then(|session| cx.kernel.client_of(session));
                // It was judged when it came in.
                (client.map_or("".into(), |client| (&**client).into()), false)
            }
            _ => return MqttFront::fail(cx, AUTH_UNASKED),
        };
        let data = auth.data.unwrap_or_default().into();
        cx.ask_login(LoginAsk::Exchange {
            client,
            chosen,
            method,
            data,
            first: re_authenticates,
        });
    }

    pub(super) fn on_verdict(cx: &mut Cx<'_>, answer: LoginAnswer) {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        match std::mem::replace(&mut front.state, State::Closed) {
            State::ExpectVerdict(opening) => match answer {
                LoginAnswer::Allowed {
                    user, access, data, ..
                } => {
                    MqttFront::open(cx, *opening, user, access, data.as_deref());
                }
                LoginAnswer::Continue { data } => {
                    front.state = State::ExpectAuth(opening);
                    MqttFront::say(cx, ReasonCode::ContinueAuthentication, Some(&data));
                }
                LoginAnswer::Refused(refusal) => {
                    let ack = ConnAck {
                        reason: reason_of(refusal),
                        ..ConnAck::default()
                    };
                    MqttFront::refuse(cx, &ack);
                }
            },
            State::ExpectReVerdict => {
                front.state = State::Connected;
                let session = cx.session();
                let same_user = |user: Option<&str>| {
                    session.is_some_and(|session| cx.kernel.session_user(session) == user)
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
                            cx.kernel.set_access(session, access);
                        }
                        MqttFront::say(cx, ReasonCode::Success, data.as_deref());
                    }
                    LoginAnswer::Continue { data } => {
                        MqttFront::say(cx, ReasonCode::ContinueAuthentication, Some(&data));
                    }
                    LoginAnswer::Refused(refusal) => {
                        // DISCONNECT has no code for a wrong password (MQTT 5 §3.14.2.1).
                        let reason = match reason_of(refusal) {
                            ReasonCode::BadUserNameOrPassword => ReasonCode::NotAuthorized,
                            reason => reason,
                        };
                        MqttFront::write(cx.links, cx.id, |front, out| {
                            front
                                .machine
                                .disconnect(reason, &DisconnectProps::default(), out);
                        });
                        MqttFront::end(cx, Closing::Lost, None);
                    }
                }
            }
            other => front.state = other,
        }
    }

    fn say(cx: &mut Cx<'_>, reason: ReasonCode, data: Option<&[u8]>) {
        MqttFront::write(cx.links, cx.id, |front, out| {
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
