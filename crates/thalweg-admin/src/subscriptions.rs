//! `GET /v1/subscriptions`.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::listing::{Page, Part, Wanted, page};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use std::sync::Arc;
use thalweg_kernel::SubscriptionView;
use thalweg_model::filter::shown;
use thalweg_model::{Address, Filter};

#[derive(Debug, Serialize)]
pub(crate) struct SubscriptionRow {
    client: Arc<str>,
    filter: Box<str>,
    group: Option<Box<str>>,
    qos: u8,
    /// The highest it is sent, by the policies of now.
    qos_offered: u8,
    id: Option<u32>,
    /// The content filter that messages must pass.
    condition: Option<Box<str>>,
    shard: u16,
}

impl SubscriptionRow {
    pub(crate) fn new(view: SubscriptionView, shard: u16) -> Self {
        SubscriptionRow {
            client: view.client,
            filter: shown(&view.filter).into(),
            group: view.group,
            qos: view.reliability as u8,
            qos_offered: view.offered as u8,
            id: (view.id != 0).then_some(view.id),
            condition: view.condition.map(|it| it.text().into()),
            shard,
        }
    }

    /// Identifies it among its session's subscriptions.
    pub(crate) fn key(&self) -> (Box<str>, Box<str>) {
        (self.filter.clone(), self.group.clone().unwrap_or_default())
    }
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<Page<SubscriptionRow>> {
    let wanted = Wanted::from_uri(&uri, &["client", "filter", "topic"])?;
    if let Some(topic) = &wanted.topic {
        Address::check(topic).map_err(|error| {
            Fault::bad(format!("?topic= is not a topic: {error}"), "name one topic")
        })?;
    }
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        // One exact name spares the kernel from looking at all others.
        let exactly = wanted
            .client
            .as_deref()
            .filter(|client| !client.ends_with('*'));
        inside.kernel.for_each_subscription(exactly, |held| {
            if wanted.wants_client(&held.client)
                && wanted
                    .filter
                    .as_deref()
                    .is_none_or(|filter| shown(&held.filter) == filter)
                && wanted
                    .topic
                    .as_deref()
                    .is_none_or(|topic| matches(&held.filter, topic))
            {
                let row = SubscriptionRow::new(held, inside.shard);
                let (client, (filter, group)) = (row.client.clone(), row.key());
                part.offer(&[&client, &filter, &group], || row);
            }
        });
        part
    });
    Ok(Json(page(said.await?, &uri, limit, |_, _| ())))
}

fn matches(filter: &str, topic: &str) -> bool {
    Filter::from_canonical(filter).is_ok_and(|filter| filter.matches(topic))
}
