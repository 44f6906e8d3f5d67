//! `GET /v1/subscriptions`.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::listing::{Page, Part, Wanted, page};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use std::sync::Arc;
use thalweg_kernel::{Kernel, SubscriptionView};
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
    /// Its number if it is an observation, of one topic, by CoAP.
    observation: Option<u32>,
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
            observation: view.watch.map(|watch| watch.0),
            condition: view.condition.map(|it| it.text().into()),
            shard,
        }
    }

    /// Identifies it among its session's subscriptions.
    pub(crate) fn key(&self) -> (Box<str>, Box<str>) {
        let observation = self.observation.map(|it| format!("{it:010}").into());
        let beside = self.group.clone().or(observation);
        (self.filter.clone(), beside.unwrap_or_default())
    }
}

/// Shows `f` the subscriptions of this shard's sessions, or of one client, and what they observe.
pub(crate) fn for_each(kernel: &Kernel, client: Option<&str>, mut f: impl FnMut(SubscriptionView)) {
    kernel.for_each_subscription(client, &mut f);
    kernel.for_each_watch(client, f);
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
        for_each(inside.kernel, exactly, |held| {
            if wanted.wants_client(&held.client)
                && wanted
                    .filter
                    .as_deref()
                    .is_none_or(|filter| shown(&held.filter) == filter)
                && wanted
                    .topic
                    .as_deref()
                    .is_none_or(|topic| matches(&held, topic))
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

fn matches(held: &SubscriptionView, topic: &str) -> bool {
    match held.watch {
        Some(_) => *held.filter == *topic,
        None => Filter::from_canonical(&held.filter).is_ok_and(|it| it.matches(topic)),
    }
}
