//! `GET /v1/config`: the configuration in force.

use crate::ask::Asker;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
pub(crate) struct Configuration {
    /// The full names of all keys, and their values as a file has them: empty if not set, `"(hidden)"` for a secret.
    values: BTreeMap<String, String>,
}

pub(crate) async fn show(State(asker): State<Asker>) -> Json<Configuration> {
    Json(Configuration {
        values: asker.observer().config_values(),
    })
}
