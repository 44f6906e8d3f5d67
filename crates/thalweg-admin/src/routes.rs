//! The paths.

use crate::answer::Fault;
use crate::ask::Asker;
use crate::gate::{self, BODY_BYTES_MAX, Gate};
use crate::{
    configuration, connections, exchanges, front_page, groups, health, journal, ledger, limits,
    listeners, metrics, overview, publish, queues, retained, sessions, subscriptions, trace,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware;
use axum::routing::{delete, get, post};

/// Everything that is answered.
pub(crate) fn app(asker: Asker, gate: Gate) -> Router {
    Router::new()
        .route("/", get(front_page::show))
        .route("/healthz", get(health::lives))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show))
        .route("/v1/overview", get(overview::show))
        .route("/v1/connections", get(connections::list))
        .route("/v1/connections/{client}", delete(connections::kick))
        .route("/v1/listeners", get(listeners::list))
        .route("/v1/sessions", get(sessions::list))
        .route("/v1/session/{client}", get(sessions::show))
        .route("/v1/subscriptions", get(subscriptions::list))
        .route("/v1/retained", get(retained::list))
        .route("/v1/groups", get(groups::list))
        .route("/v1/queues", get(queues::list))
        .route("/v1/exchanges", get(exchanges::list))
        .route("/v1/ledger", get(ledger::show))
        .route("/v1/journal", get(journal::show))
        .route("/v1/journal/backup", post(journal::backup))
        .route("/v1/journal/checkpoint", post(journal::checkpoint))
        .route("/v1/limits", get(limits::show))
        .route("/v1/config", get(configuration::show))
        .route("/v1/trace", get(trace::show))
        .route("/v1/publish", post(publish::publish))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(gate, gate::pass))
        .with_state(asker)
}

async fn no_such_path(uri: Uri) -> Fault {
    Fault::new(
        StatusCode::NOT_FOUND,
        format!("there is no {}", uri.path()),
        "GET / lists the paths there are",
    )
}

async fn no_such_method(method: Method, uri: Uri) -> Fault {
    let error = format!("{} cannot be asked with {method}", uri.path());
    Fault::new(
        StatusCode::METHOD_NOT_ALLOWED,
        error,
        "GET / lists the paths and their methods",
    )
}
