//! `GET /v1/sessions` and `GET /v1/session/{client}`.

use crate::accounts::AccountView;
use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::connections::ConnectionRow;
use crate::listing::{Page, Part, Wanted, page};
use crate::subscriptions::{self, SubscriptionRow};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;
use thalweg_kernel::{Kernel, SessionView};
use thalweg_model::Span;
use thalweg_server::{Inside, clock};

#[derive(Debug, Serialize)]
pub(crate) struct SessionRow {
    client: Arc<str>,
    user: Option<Arc<str>>,
    connected: bool,
    durable: bool,
    dialect: &'static str,
    since: u64,
    expiry_seconds: Option<u64>,
    subscriptions: usize,
    waiting: usize,
    waiting_bytes: usize,
    in_flight: u32,
    in_flight_max: u16,
    congested: bool,
    received: u64,
    delivered: u64,
    dropped: u64,
    shard: u16,
}

impl SessionRow {
    pub(crate) fn new(view: SessionView, shard: u16) -> Self {
        SessionRow {
            connected: view.link.is_some(),
            durable: view.durable,
            since: clock::unix_of(view.since),
            expiry_seconds: (view.expiry != Span::FOREVER).then(|| view.expiry.secs()),
            client: view.client,
            user: view.user,
            dialect: view.dialect,
            subscriptions: view.subscriptions,
            waiting: view.waiting,
            waiting_bytes: view.waiting_bytes,
            in_flight: view.in_flight,
            in_flight_max: view.in_flight_max,
            congested: view.congested,
            received: view.received,
            delivered: view.account.delivered,
            dropped: view.account.dropped_total(),
            shard,
        }
    }
}

/// Shows `f` the sessions that are wanted: by name, and with `?filter=` those that hold exactly that subscription.
pub(crate) fn for_each_wanted(kernel: &Kernel, wanted: &Wanted, mut f: impl FnMut(SessionView)) {
    let subscribers: Option<HashSet<Arc<str>>> = wanted.filter.as_deref().map(|filter| {
        let mut subscribers = HashSet::new();
        kernel.for_each_subscription(None, |held| {
            if *held.filter == *filter {
                subscribers.insert(held.client);
            }
        });
        subscribers
    });
    let is_subscriber = |client: &str| {
        subscribers
            .as_ref()
            .is_none_or(|subscribers| subscribers.contains(client))
    };
    let mut show = |view: SessionView| {
        if is_subscriber(&view.client) {
            f(view);
        }
    };
    match wanted.client.as_deref() {
        // One exact name is found without looking at all.
        Some(client) if !client.ends_with('*') => {
            kernel.session_view(client).into_iter().for_each(show)
        }
        _ => kernel.for_each_session(|view| {
            if wanted.wants_client(&view.client) {
                show(view);
            }
        }),
    }
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<Page<SessionRow>> {
    let wanted = Wanted::from_uri(&uri, &["client", "filter"])?;
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        for_each_wanted(inside.kernel, &wanted, |view| {
            let client = view.client.clone();
            part.offer(&[&client], || SessionRow::new(view, inside.shard));
        });
        part
    });
    Ok(Json(page(said.await?, &uri, limit, |_, _| ())))
}

/// Everything about one client.
#[derive(Debug, Serialize)]
pub(crate) struct ClientView {
    session: SessionRow,
    connection: Option<ConnectionRow>,
    queue: QueueView,
    account: AccountView,
    subscriptions: Vec<SubscriptionRow>,
    subscriptions_left_out: usize,
}

/// Fill of a session's queue and window, with their limits.
#[derive(Debug, Serialize)]
struct QueueView {
    waiting: usize,
    waiting_max: usize,
    waiting_bytes: usize,
    waiting_bytes_max: usize,
    in_flight: u32,
    in_flight_max: u16,
}

pub(crate) async fn show(
    State(asker): State<Asker>,
    Path(client): Path<String>,
    uri: Uri,
) -> Answer<ClientView> {
    let limit = Wanted::from_uri(&uri, &[])?.limit();
    let wanted = client.clone();
    let said = asker
        .all(move |inside| view_of(inside, &wanted, limit))
        .await?;
    match said.answers.into_iter().flatten().next() {
        Some(view) => Ok(Json(view)),
        None if said.silent > 0 => Err(Fault::silent()),
        None => Err(Fault::no_client(&client)),
    }
}

fn view_of(inside: &Inside<'_>, client: &str, limit: usize) -> Option<ClientView> {
    let session = inside.kernel.session_view(client)?;
    let limits = inside.kernel.limits();
    let queue = QueueView {
        waiting: session.waiting,
        waiting_max: limits.queue_messages_max,
        waiting_bytes: session.waiting_bytes,
        waiting_bytes_max: limits.queue_bytes_max,
        in_flight: session.in_flight,
        in_flight_max: session.in_flight_max,
    };
    let mut part = Part::exactly(limit);
    let mut total = 0;
    subscriptions::for_each(inside.kernel, Some(client), |held| {
        total += 1;
        let row = SubscriptionRow::new(held, inside.shard);
        let (filter, group) = row.key();
        part.offer(&[&filter, &group], || row);
    });
    let subscriptions: Vec<SubscriptionRow> = part.into_rows().collect();
    Some(ClientView {
        connection: ConnectionRow::new(inside, &session),
        subscriptions_left_out: total - subscriptions.len().min(total),
        subscriptions,
        queue,
        account: AccountView::new(&session.account),
        session: SessionRow::new(session, inside.shard),
    })
}
