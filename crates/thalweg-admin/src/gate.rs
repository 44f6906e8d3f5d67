//! Checks of every request: capacity, a time limit, a token, and proof that no foreign web page sent it.

use crate::answer::Fault;
use crate::serve::AdminTokens;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

/// Requests that are worked on at once; further ones are answered with 503.
pub const REQUESTS_MAX: usize = 64;

/// Bytes of a request's body.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// Time from a request's head to its answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The same for requests that read or write the whole journal. Such work goes on when its client stops waiting.
const WORK_TIMEOUT: Duration = Duration::from_secs(240);

/// The header a program sends to show that it is not a web page; any value does.
const NOT_A_PAGE: &str = "x-thalweg";

/// Sender of a request, as far as the connection shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A peer over TCP.
    Network(SocketAddr),
    /// A process that may open the Unix socket.
    UnixSocket,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Network(peer) => peer.fmt(f),
            Caller::UnixSocket => f.write_str("unix socket"),
        }
    }
}

/// Permissions of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Read,
    Admin,
}

/// State for the checks of requests.
#[derive(Clone)]
pub(crate) struct Gate {
    tokens: Arc<AdminTokens>,
    /// Whether callers over TCP have the role `admin` where no token is set.
    anonymous: bool,
    places: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new(tokens: AdminTokens, anonymous: bool) -> Self {
        Gate {
            tokens: Arc::new(tokens),
            anonymous,
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
        }
    }

    fn check(
        &self,
        caller: Caller,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Fault> {
        // Probes of a supervisor carry no token, and learn nothing but a word.
        if matches!(uri.path(), "/healthz" | "/readyz") {
            return Ok(());
        }
        let role = match (caller, &self.tokens.admin) {
            (Caller::UnixSocket, _) => Role::Admin,
            (Caller::Network(_), None) if self.anonymous => {
                check_host(uri, headers)?;
                Role::Admin
            }
            (Caller::Network(_), _) => role_of(&self.tokens, headers)?,
        };
        if *method == Method::GET || *method == Method::HEAD {
            return Ok(());
        }
        if role == Role::Read {
            let error = "this token may ask everything and change nothing";
            return Err(Fault::new(
                StatusCode::FORBIDDEN,
                error,
                "send the value of admin.token instead",
            ));
        }
        check_not_a_page(headers)
    }
}

/// The middleware around all routes.
pub(crate) async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let caller = request
        .extensions()
        .get()
        .copied()
        .unwrap_or(Caller::Network(SocketAddr::from(([0; 4], 0))));
    if let Err(fault) = gate.check(caller, request.method(), request.uri(), request.headers()) {
        let response = fault.into_response();
        tracing::warn!(%caller, method = %request.method(), path = request.uri().path(), status = response.status().as_u16(),
            "admin request refused");
        return response;
    }
    if *request.method() == Method::GET || *request.method() == Method::HEAD {
        return admit(&gate, request, next).await;
    }
    // The audit trail: the caller of each change, and its result.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = admit(&gate, request, next).await;
    tracing::info!(%caller, %method, path, status = response.status().as_u16(), "admin action");
    response
}

async fn admit(gate: &Gate, request: Request, next: Next) -> Response {
    if request.uri().path() == "/healthz" {
        // Costs nothing, and must not fail because others wait.
        return next.run(request).await;
    }
    let Ok(_place) = gate.places.try_acquire() else {
        let error = format!("{REQUESTS_MAX} requests are being worked on");
        return Fault::new(
            StatusCode::SERVICE_UNAVAILABLE,
            error,
            "ask again in a second",
        )
        .into_response();
    };
    let (limit, mend) = match request.uri().path().starts_with("/v1/journal/") {
        true => (WORK_TIMEOUT, "it goes on; the log will say how it ended"),
        false => (
            REQUEST_TIMEOUT,
            "ask for less with ?limit=, or send the body faster",
        ),
    };
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let error = format!("this took longer than {} seconds", limit.as_secs());
            Fault::new(StatusCode::GATEWAY_TIMEOUT, error, mend).into_response()
        }
    }
}

fn role_of(tokens: &AdminTokens, headers: &HeaderMap) -> Result<Role, Fault> {
    let shown = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.split_once(' '));
    // RFC 9110 §11.1: the scheme's case does not matter.
    let shown = shown
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    let is = |token: &Option<String>| match (token, shown) {
        (Some(token), Some(shown)) => bool::from(shown.as_bytes().ct_eq(token.as_bytes())),
        _ => false,
    };
    // Both are compared, so that the time taken says nothing about which was nearer.
    match (is(&tokens.admin), is(&tokens.read)) {
        (true, _) => return Ok(Role::Admin),
        (_, true) => return Ok(Role::Read),
        _ => {}
    }
    let error = match (shown, &tokens.admin) {
        (_, None) => "log-in is configured for clients, but no token for this interface",
        (None, _) => "this interface needs a token",
        (Some(_), _) => "this is not the token",
    };
    let mend = match &tokens.admin {
        None => "set admin.token, admin.token_file or admin.unix_socket in the configuration",
        Some(_) => {
            "send the header `Authorization: Bearer TOKEN` with the value of admin.token in the configuration"
        }
    };
    Err(Fault::new(StatusCode::UNAUTHORIZED, error, mend))
}

/// Without a token, any process that reaches loopback may ask. A web page can make a browser on this machine do so under a name
/// of its own that it lets point to 127.0.0.1, but not under an address or `localhost`.
fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), Fault> {
    let host = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .or_else(|| uri.host())
        .unwrap_or("");
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    let is_ours =
        name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
    if is_ours {
        return Ok(());
    }
    let mend = "ask by address, e.g. http://127.0.0.1:7883, or set admin.token";
    Err(Fault::new(
        StatusCode::FORBIDDEN,
        format!("without a token, this interface is not served as {name:?}"),
        mend,
    ))
}

/// A page of another site can only send the content types of HTML forms and no headers of its own choice, unless we
/// were to allow it (Fetch standard, "CORS-safelisted request-header"), which we never do.
fn check_not_a_page(headers: &HeaderMap) -> Result<(), Fault> {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if headers.contains_key(NOT_A_PAGE) || essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let error = "this changes something, and might be sent by a web page that you did not ask to";
    Err(Fault::new(
        StatusCode::FORBIDDEN,
        error,
        "send the header `X-Thalweg: 1` or `Content-Type: application/json`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Caller = Caller::Network(SocketAddr::new(
        IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        9,
    ));

    fn judge(
        gate: &Gate,
        caller: Caller,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Option<StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header value"));
        }
        let judged = gate.check(caller, &method, &path.parse().expect("a path"), &map);
        judged.err().map(|fault| fault.into_response().status())
    }

    fn check(
        token: Option<&str>,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Option<StatusCode> {
        let tokens = AdminTokens {
            admin: token.map(Into::into),
            read: None,
        };
        judge(&Gate::new(tokens, true), PEER, method, path, headers)
    }

    #[test]
    fn the_role_read_asks_everything_and_changes_nothing() {
        let gate = Gate::new(
            AdminTokens {
                admin: Some("all".into()),
                read: Some("some".into()),
            },
            true,
        );
        let shows = |method, token| {
            judge(
                &gate,
                PEER,
                method,
                "/v1/publish",
                &[("authorization", token), ("x-thalweg", "1")],
            )
        };
        assert_eq!(shows(Method::GET, "Bearer some"), None);
        assert_eq!(shows(Method::POST, "Bearer some"), NEVER);
        assert_eq!(shows(Method::DELETE, "Bearer some"), NEVER);
        assert_eq!(shows(Method::POST, "Bearer all"), None);
        assert_eq!(shows(Method::GET, "Bearer neither"), NO);
    }

    #[test]
    fn once_clients_log_in_loopback_alone_is_no_right() {
        let gate = Gate::new(AdminTokens::default(), false);
        assert_eq!(judge(&gate, PEER, Method::GET, "/v1/sessions", &[]), NO);
        assert_eq!(
            judge(
                &gate,
                PEER,
                Method::GET,
                "/metrics",
                &[("authorization", "Bearer ")]
            ),
            NO
        );
        assert_eq!(judge(&gate, PEER, Method::GET, "/healthz", &[]), None);
        assert_eq!(
            judge(
                &gate,
                Caller::UnixSocket,
                Method::POST,
                "/v1/publish",
                &[("x-thalweg", "1")]
            ),
            None
        );
    }

    #[test]
    fn a_read_token_alone_gives_nobody_the_right_to_change() {
        let gate = Gate::new(
            AdminTokens {
                admin: None,
                read: Some("some".into()),
            },
            false,
        );
        let shows = |method| {
            judge(
                &gate,
                PEER,
                method,
                "/v1/publish",
                &[("authorization", "Bearer some"), ("x-thalweg", "1")],
            )
        };
        assert_eq!((shows(Method::GET), shows(Method::POST)), (None, NEVER));
    }

    const NO: Option<StatusCode> = Some(StatusCode::UNAUTHORIZED);
    const NEVER: Option<StatusCode> = Some(StatusCode::FORBIDDEN);

    #[test]
    fn a_token_must_be_shown_whole() {
        let shows = |value| {
            check(
                Some("secret"),
                Method::GET,
                "/v1/sessions",
                &[("authorization", value)],
            )
        };
        assert_eq!(shows("Bearer secret"), None);
        assert_eq!(shows("bearer  secret"), None);
        assert_eq!(shows("Bearer secre"), NO);
        assert_eq!(shows("Bearer secrets"), NO);
        assert_eq!(shows("Bearer"), NO);
        assert_eq!(shows("Basic secret"), NO);
        assert_eq!(check(Some("secret"), Method::GET, "/metrics", &[]), NO);
    }

    #[test]
    fn probes_need_no_token() {
        assert_eq!(check(Some("secret"), Method::GET, "/healthz", &[]), None);
        assert_eq!(check(Some("secret"), Method::GET, "/readyz", &[]), None);
    }

    #[test]
    fn without_a_token_a_foreign_name_is_refused() {
        let named = |host| check(None, Method::GET, "/v1/sessions", &[("host", host)]);
        assert_eq!(named("127.0.0.1:7883"), None);
        assert_eq!(named("[::1]:7883"), None);
        assert_eq!(named("LOCALHOST:7883"), None);
        assert_eq!(named("evil.example:7883"), NEVER);
        assert_eq!(named("127.0.0.1.evil.example"), NEVER);
    }

    #[test]
    fn a_change_must_not_come_from_a_form() {
        let kick = |headers: &[(&'static str, &str)]| {
            check(None, Method::DELETE, "/v1/connections/x", headers)
        };
        assert_eq!(kick(&[]), NEVER);
        assert_eq!(kick(&[("content-type", "text/plain")]), NEVER);
        assert_eq!(
            kick(&[("content-type", "text/plain; application/json")]),
            NEVER
        );
        assert_eq!(
            kick(&[("content-type", "application/json; charset=utf-8")]),
            None
        );
        assert_eq!(kick(&[("x-thalweg", "1")]), None);
    }
}
