//! Responses: JSON, or an error text.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request was not done: what is wrong, and how to mend it.
#[derive(Debug)]
pub(crate) struct Fault {
    status: StatusCode,
    error: String,
    mend: String,
}

#[derive(Serialize)]
struct FaultBody<'a> {
    error: &'a str,
    mend: &'a str,
}

/// The answer of a handler.
pub(crate) type Answer<T> = Result<Json<T>, Fault>;

impl Fault {
    pub(crate) fn new(
        status: StatusCode,
        error: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Fault {
            status,
            error: error.into(),
            mend: mend.into(),
        }
    }

    pub(crate) fn bad(error: impl Into<String>, mend: impl Into<String>) -> Self {
        Fault::new(StatusCode::BAD_REQUEST, error, mend)
    }

    pub(crate) fn no_client(client: &str) -> Self {
        Fault::new(
            StatusCode::NOT_FOUND,
            format!("there is no session of a client named {client:?}"),
            "GET /v1/sessions lists those there are",
        )
    }

    pub(crate) fn stopping() -> Self {
        Fault::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the broker is going down",
            "ask again when it is back",
        )
    }

    pub(crate) fn silent() -> Self {
        Fault::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the shard concerned did not answer within two seconds",
            "it may have been done all the same: look, then ask again",
        )
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = Json(FaultBody {
            error: &self.error,
            mend: &self.mend,
        });
        let mut response = (self.status, body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            // RFC 9110 §11.6.1: a 401 names the scheme.
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
