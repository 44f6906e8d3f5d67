//! `GET /v1/connections` and `DELETE /v1/connections/{client}`.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::listing::{Page, Part, Wanted, page};
use crate::sessions::for_each_wanted;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use thalweg_kernel::{CloseReason, SessionView};
use thalweg_server::{Inside, clock};

/// A connection that has a session.
#[derive(Debug, Serialize)]
pub(crate) struct ConnectionRow {
    client: Arc<str>,
    user: Option<Arc<str>>,
    peer: Option<SocketAddr>,
    listener: String,
    transport: &'static str,
    dialect: &'static str,
    connection_name: Option<Box<str>>,
    client_properties: BTreeMap<Box<str>, Box<str>>,
    since: u64,
    heard_at: u64,
    bytes_in: u64,
    bytes_out: u64,
    blocked: bool,
    slow: bool,
    congested: bool,
    received: u64,
    delivered: u64,
    dropped: u64,
    shard: u16,
}

impl ConnectionRow {
    /// A session's connection, if it has one.
    pub(crate) fn new(inside: &Inside<'_>, session: &SessionView) -> Option<Self> {
        let connection = inside.connections.view(session.link?)?;
        let client_properties: BTreeMap<_, _> = inside
            .client_properties(session.link?)
            .iter()
            .cloned()
            .collect();
        Some(ConnectionRow {
            client: session.client.clone(),
            user: session.user.clone(),
            peer: connection.peer,
            listener: connection.listener,
            transport: connection.transport,
            dialect: session.dialect,
            connection_name: client_properties.get("connection_name").cloned(),
            client_properties,
            since: clock::unix_of(connection.since),
            heard_at: clock::unix_of(connection.heard_at),
            bytes_in: connection.bytes_in,
            bytes_out: connection.bytes_out,
            blocked: connection.blocked,
            slow: connection.slow,
            congested: session.congested,
            received: session.received,
            delivered: session.account.delivered,
            dropped: session.account.dropped_total(),
            shard: inside.shard,
        })
    }
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<Page<ConnectionRow>> {
    let wanted = Wanted::from_uri(&uri, &["client", "filter", "listener"])?;
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        for_each_wanted(inside.kernel, &wanted, |session| {
            let Some(row) = ConnectionRow::new(inside, &session) else {
                return;
            };
            if wanted
                .listener
                .as_ref()
                .is_none_or(|listener| *listener == row.listener)
            {
                part.offer(&[&session.client], || row);
            }
        });
        part
    });
    Ok(Json(page(said.await?, &uri, limit, |_, _| ())))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kick {
    #[serde(default)]
    forget: bool,
}

/// Result of a kick.
#[derive(Debug, Serialize)]
pub(crate) struct Kicked {
    client: String,
    disconnected: bool,
    forgotten: bool,
}

pub(crate) async fn kick(
    State(asker): State<Asker>,
    Path(client): Path<String>,
    uri: Uri,
) -> Answer<Kicked> {
    let mend =
        "?forget=true ends the session, too; ?forget=false, the default, only its connection";
    let Query(Kick { forget }) =
        Query::try_from_uri(&uri).map_err(|rejection| Fault::bad(rejection.body_text(), mend))?;
    let wanted = client.clone();
    let said = asker.all(move |inside| {
        let connected = inside.kernel.session_view(&wanted)?.link.is_some();
        let found = inside.kernel.kick(
            &wanted,
            CloseReason::Kicked,
            forget,
            inside.now,
            inside.links,
        );
        found.then_some(connected)
    });
    let said = said.await?;
    match said.answers.into_iter().flatten().next() {
        Some(disconnected) => {
            tracing::info!(
                client,
                disconnected,
                forgotten = forget,
                "kicked by an operator"
            );
            Ok(Json(Kicked {
                client,
                disconnected,
                forgotten: forget,
            }))
        }
        None if said.silent > 0 => Err(Fault::silent()),
        None => Err(Fault::no_client(&client)),
    }
}
