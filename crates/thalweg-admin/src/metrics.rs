//! `GET /metrics`: what Prometheus reads. [`table`] declares every metric once; text, reference and the `$SYS` names
//! follow from it.

mod gathered;
mod reference;
mod table;
mod text;

use crate::answer::Fault;
use crate::ask::Asker;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

pub use gathered::{Gathered, QUEUES_SHOWN_MAX, QueueFigures, QueueSums};
pub use reference::reference;
pub use table::{METRICS, Metric, MetricKind};
pub use text::render;

/// The content type of the text format, version 0.0.4.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn show(State(asker): State<Asker>) -> Result<impl IntoResponse, Fault> {
    let gathered = Gathered::gather(&asker).await?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], render(&gathered)))
}
