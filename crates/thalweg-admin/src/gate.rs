//! What every request must pass: a place, a time limit, a token, and proof that no foreign web page sent it.

use crate::answer::Fault;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
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

/// The same for what reads or writes the whole journal. Such work goes on when nobody waits for it any more.
const WORK_TIMEOUT: Duration = Duration::from_secs(240);

/// The header a program sends to show that it is not a web page; any value does.
const NOT_A_PAGE: &str = "x-thalweg";

/// What requests are checked against.
#[derive(Clone)]
pub(crate) struct Gate {
    token: Option<Arc<str>>,
    places: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new(token: Option<String>) -> Self {
        Gate { token: token.map(Into::into), places: Arc::new(Semaphore::new(REQUESTS_MAX)) }
    }

    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Fault> {
        // Probes of a supervisor carry no token, and learn nothing but a word.
        if matches!(uri.path(), "/healthz" | "/readyz") {
            return Ok(());
        }
        match &self.token {
            Some(token) => check_token(token, headers)?,
            None => check_host(uri, headers)?,
        }
        if *method == Method::GET || *method == Method::HEAD { Ok(()) } else { check_not_a_page(headers) }
    }
}

/// The middleware around all routes.
pub(crate) async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    if let Err(fault) = gate.check(request.method(), request.uri(), request.headers()) {
        return fault.into_response();
    }
    if request.uri().path() == "/healthz" {
        // Costs nothing, and must not fail because others wait.
        return next.run(request).await;
    }
    let Ok(_place) = gate.places.try_acquire() else {
        let error = format!("{REQUESTS_MAX} requests are being worked on");
        return Fault::new(StatusCode::SERVICE_UNAVAILABLE, error, "ask again in a second").into_response();
    };
    let (limit, mend) = match request.uri().path().starts_with("/v1/journal/") {
        true => (WORK_TIMEOUT, "it goes on; the log will say how it ended"),
        false => (REQUEST_TIMEOUT, "ask for less with ?limit=, or send the body faster"),
    };
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let error = format!("this took longer than {} seconds", limit.as_secs());
            Fault::new(StatusCode::GATEWAY_TIMEOUT, error, mend).into_response()
        }
    }
}

fn check_token(token: &str, headers: &HeaderMap) -> Result<(), Fault> {
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.split_once(' '));
    // RFC 9110 §11.1: the scheme's case does not matter.
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    let error = match shown {
        None => "this interface needs a token",
        Some(shown) if bool::from(shown.as_bytes().ct_eq(token.as_bytes())) => return Ok(()),
        Some(_) => "this is not the token",
    };
    let mend = "send the header `Authorization: Bearer TOKEN` with the value of admin.token in the configuration";
    Err(Fault::new(StatusCode::UNAUTHORIZED, error, mend))
}

/// Without a token, whoever reaches loopback may ask. A web page can make a browser on this machine do so under a name
/// of its own that it lets point to 127.0.0.1, but not under an address or `localhost`.
fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), Fault> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).or_else(|| uri.host()).unwrap_or("");
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    let is_ours = name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
    if is_ours {
        return Ok(());
    }
    let mend = "ask by address, e.g. http://127.0.0.1:7883, or set admin.token";
    Err(Fault::new(StatusCode::FORBIDDEN, format!("without a token, this interface is not served as {name:?}"), mend))
}

/// A page of another site can only send the content types of HTML forms and no headers of its own choice, unless we
/// were to allow it (Fetch standard, "CORS-safelisted request-header"), which we never do.
fn check_not_a_page(headers: &HeaderMap) -> Result<(), Fault> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if headers.contains_key(NOT_A_PAGE) || essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let error = "this changes something, and might be sent by a web page that you did not ask to";
    Err(Fault::new(StatusCode::FORBIDDEN, error, "send the header `X-Thalweg: 1` or `Content-Type: application/json`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(token: Option<&str>, method: Method, path: &str, headers: &[(&'static str, &str)]) -> Option<StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header value"));
        }
        let gate = Gate::new(token.map(Into::into));
        gate.check(&method, &path.parse().expect("a path"), &map).err().map(|fault| fault.into_response().status())
    }

    const NO: Option<StatusCode> = Some(StatusCode::UNAUTHORIZED);
    const NEVER: Option<StatusCode> = Some(StatusCode::FORBIDDEN);

    #[test]
    fn a_token_must_be_shown_whole() {
        let shows = |value| check(Some("secret"), Method::GET, "/v1/sessions", &[("authorization", value)]);
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
        let kick = |headers: &[(&'static str, &str)]| check(None, Method::DELETE, "/v1/connections/x", headers);
        assert_eq!(kick(&[]), NEVER);
        assert_eq!(kick(&[("content-type", "text/plain")]), NEVER);
        assert_eq!(kick(&[("content-type", "text/plain; application/json")]), NEVER);
        assert_eq!(kick(&[("content-type", "application/json; charset=utf-8")]), None);
        assert_eq!(kick(&[("x-thalweg", "1")]), None);
    }
}
