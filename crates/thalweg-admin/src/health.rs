//! `GET /healthz` and `GET /readyz`, for supervisors and load balancers.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

pub(crate) async fn lives() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Listeners accept, the journal takes what is written, and every shard answers.
pub(crate) async fn ready(State(asker): State<Asker>) -> Answer<Health> {
    let not_ready = |error: String| {
        Fault::new(
            StatusCode::SERVICE_UNAVAILABLE,
            error,
            "ask again in a second",
        )
    };
    if asker
        .observer()
        .journal()
        .is_some_and(|journal| journal.state == "failed")
    {
        let mend = "look at the log and at the disk; a restart goes on with what was acknowledged";
        let error = "the journal has failed: nothing is acknowledged any more";
        return Err(Fault::new(StatusCode::SERVICE_UNAVAILABLE, error, mend));
    }
    if !asker.observer().is_ready() {
        return Err(not_ready("the listeners do not accept".into()));
    }
    match asker.all(|_| ()).await?.silent {
        0 => Ok(Json(Health { status: "ready" })),
        silent => Err(not_ready(format!("{silent} shards do not answer"))),
    }
}
