//! `GET /v1/exchanges`.

use crate::answer::Answer;
use crate::ask::Asker;
use crate::listing::{Page, Part, Wanted, page};
use crate::queues::named_by;
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};
use thalweg_kernel::{BindingView, ExchangeKind, ExchangeView};
use thalweg_model::PropertyValue;

/// Bindings of one exchange that are shown.
const BOUND_MAX: usize = 100;

#[derive(Debug, Serialize)]
pub(crate) struct ExchangeRow {
    tenant: String,
    exchange: String,
    address: Box<str>,
    kind: &'static str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    alternate: Option<Box<str>>,
    bindings: usize,
    bound: Vec<BoundRow>,
    shard: u16,
}

/// Target of an exchange's binding.
#[derive(Debug, Serialize)]
struct BoundRow {
    to: Box<str>,
    key: Box<str>,
    arguments: Map<String, Value>,
}

impl ExchangeRow {
    fn new(view: ExchangeView, tenant: &str, exchange: &str, shard: u16) -> Self {
        ExchangeRow {
            tenant: tenant.to_owned(),
            exchange: exchange.to_owned(),
            address: view.address,
            kind: kind_name(view.kind),
            durable: view.durable,
            auto_delete: view.auto_delete,
            internal: view.internal,
            alternate: view.alternate,
            bindings: view.bindings.len(),
            bound: view
                .bindings
                .into_iter()
                .take(BOUND_MAX)
                .map(BoundRow::new)
                .collect(),
            shard,
        }
    }
}

impl BoundRow {
    fn new(view: BindingView) -> Self {
        let arguments = view
            .arguments
            .iter()
            .map(|(name, value)| (name.to_string(), json(value)));
        BoundRow {
            to: view.to,
            key: view.key,
            arguments: arguments.collect(),
        }
    }
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<Page<ExchangeRow>> {
    let wanted = Wanted::from_uri(&uri, &["exchange", "tenant"])?;
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        // Those that are always there are known to every shard.
        if inside.kernel.has_queues() {
            inside.kernel.for_each_exchange(|view| {
                let address = view.address.clone();
                let (tenant, exchange) = named_by(&address);
                if wanted.wants_tenant(tenant) && wanted.wants_exchange(&exchange) {
                    part.offer(&[tenant, &exchange], || {
                        ExchangeRow::new(view, tenant, &exchange, inside.shard)
                    });
                }
            });
        }
        part
    });
    Ok(Json(page(said.await?, &uri, limit, |_, _| ())))
}

fn kind_name(kind: ExchangeKind) -> &'static str {
    match kind {
        ExchangeKind::Direct => "direct",
        ExchangeKind::Fanout => "fanout",
        ExchangeKind::Topic => "topic",
        ExchangeKind::Headers => "headers",
    }
}

fn json(value: &PropertyValue) -> Value {
    match value {
        PropertyValue::Text(text) => (&**text).into(),
        PropertyValue::Bool(flag) => (*flag).into(),
        PropertyValue::Integer(number) => (*number).into(),
        PropertyValue::Float(number) => (*number).into(),
        PropertyValue::Bytes(bytes) => STANDARD.encode(bytes).into(),
        PropertyValue::Nothing => Value::Null,
    }
}
