//! `GET /v1/queues`.

use crate::answer::Answer;
use crate::ask::Asker;
use crate::listing::{Page, Part, Wanted, page};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use std::sync::Arc;
use thalweg_kernel::{QueueLimits, QueueOverflow, QueueView};
use thalweg_model::Span;
use thalweg_model::syntax::read_level;

/// A queue with a name.
#[derive(Debug, Serialize)]
pub(crate) struct QueueRow {
    tenant: String,
    queue: String,
    address: Arc<str>,
    durable: bool,
    auto_delete: bool,
    exclusive_to: Option<Arc<str>>,
    messages: usize,
    bytes: u64,
    unsettled: usize,
    consumers: usize,
    /// Consumers that have a content filter, 100 at the most.
    filters: Vec<FilterRow>,
    came: u64,
    went: u64,
    limits: LimitsRow,
    shard: u16,
}

/// A consumer's client and content filter.
#[derive(Debug, Serialize)]
struct FilterRow {
    client: Arc<str>,
    filter: Box<str>,
}

/// Declared limits of a queue.
#[derive(Debug, Serialize)]
struct LimitsRow {
    label: Box<str>,
    message_ttl_millis: Option<u64>,
    idle_expiry_millis: Option<u64>,
    messages_max: Option<u64>,
    bytes_max: Option<u64>,
    overflow: &'static str,
    dead_letter_exchange: Option<Box<str>>,
    dead_letter_key: Option<Box<str>>,
    priority_max: u8,
    single_active: bool,
    deliveries_max: Option<u32>,
}

impl QueueRow {
    fn new(view: QueueView, tenant: &str, queue: &str, shard: u16) -> Self {
        let filters = view.filters.iter().map(|(client, filter)| FilterRow {
            client: client.clone(),
            filter: filter.text().into(),
        });
        QueueRow {
            tenant: tenant.to_owned(),
            queue: queue.to_owned(),
            address: view.address,
            durable: view.durable,
            auto_delete: view.auto_delete,
            exclusive_to: view.owner,
            messages: view.messages,
            bytes: view.bytes,
            unsettled: view.unsettled,
            consumers: view.consumers,
            filters: filters.collect(),
            came: view.came,
            went: view.went,
            limits: LimitsRow::new(view.limits),
            shard,
        }
    }
}

impl LimitsRow {
    fn new(limits: QueueLimits) -> Self {
        let millis = |span: Span| span.nanos() / 1_000_000;
        let (exchange, key) = match limits.dead_letter {
            Some(dead_letter) => (Some(dead_letter.exchange), dead_letter.key),
            None => (None, None),
        };
        LimitsRow {
            label: limits.label,
            message_ttl_millis: limits.message_ttl.map(millis),
            idle_expiry_millis: limits.idle_expiry.map(millis),
            messages_max: limits.messages_max,
            bytes_max: limits.bytes_max,
            overflow: match limits.overflow {
                QueueOverflow::DropHead => "drop-head",
                QueueOverflow::RejectPublish => "reject-publish",
                QueueOverflow::RejectPublishDeadLetter => "reject-publish-dlx",
            },
            dead_letter_exchange: exchange,
            dead_letter_key: key,
            priority_max: limits.priority_max,
            single_active: limits.single_active,
            deliveries_max: limits.deliveries_max,
        }
    }
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<Page<QueueRow>> {
    let wanted = Wanted::from_uri(&uri, &["queue", "tenant"])?;
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        inside.kernel.for_each_queue(|view| {
            let address = view.address.clone();
            let (tenant, queue) = named_by(&address);
            if wanted.wants_tenant(tenant) && wanted.wants_queue(&queue) {
                part.offer(&[tenant, &queue], || {
                    QueueRow::new(view, tenant, &queue, inside.shard)
                });
            }
        });
        part
    });
    Ok(Json(page(said.await?, &uri, limit, |_, _| ())))
}

/// The tenant, `/` for the default one, and the name in the address of a queue or an exchange: `$q/<name>` or
/// `$q@<tenant>/<name>`.
pub(crate) fn named_by(address: &str) -> (&str, String) {
    let (first, name) = address.split_once('/').unwrap_or(("", address));
    let tenant = first
        .split_once('@')
        .map_or(DEFAULT_TENANT, |(_, tenant)| tenant);
    (tenant, read_level(name).into_owned())
}

/// Shown name of the default tenant.
const DEFAULT_TENANT: &str = "/";

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_kernel::{exchange_address, queue_address};

    #[test]
    fn an_address_tells_tenant_and_name() {
        for name in ["jobs", "a.b", "a/b", "", "%", "ä ö"] {
            assert_eq!(named_by(&queue_address("", name)), ("/", name.to_owned()));
            assert_eq!(
                named_by(&exchange_address("plant", name)),
                ("plant", name.to_owned())
            );
        }
    }
}
