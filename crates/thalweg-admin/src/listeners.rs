//! `GET /v1/listeners`.

use crate::answer::Answer;
use crate::ask::Asker;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::BTreeMap;
use thalweg_server::{DatagramCounts, DtlsCounts, ListenerView, PortView};

#[derive(Debug, Serialize)]
pub(crate) struct Listeners {
    items: Vec<ListenerRow>,
    shards_silent: usize,
}

/// A listener: address, purpose, and the traffic if it is one of datagrams.
#[derive(Debug, Serialize)]
struct ListenerRow {
    listener: String,
    kind: &'static str,
    transport: &'static str,
    address: String,
    anonymous: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    datagrams: Option<DatagramsRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dtls: Option<DtlsRow>,
}

/// Since the listener was opened, over all its sockets.
#[derive(Debug, Serialize)]
struct DatagramsRow {
    sockets: usize,
    received: u64,
    overflown: u64,
    banned: u64,
    sent: u64,
    waiting: u64,
    unsent: u64,
}

#[derive(Debug, Serialize)]
struct DtlsRow {
    peers: usize,
    handshakes: u64,
    handshakes_failed: u64,
    records_discarded: u64,
}

impl ListenerRow {
    fn new(view: ListenerView, ports: &[PortView]) -> Self {
        let dtls: Vec<DtlsCounts> = ports.iter().filter_map(|port| port.dtls).collect();
        ListenerRow {
            datagrams: (!ports.is_empty()).then(|| DatagramsRow::new(ports)),
            dtls: (!dtls.is_empty()).then(|| DtlsRow {
                peers: ports.iter().map(|port| port.dtls_peers).sum(),
                handshakes: dtls.iter().map(|counts| counts.completed).sum(),
                handshakes_failed: dtls
                    .iter()
                    .map(|counts| counts.failed + counts.crowded)
                    .sum(),
                records_discarded: dtls.iter().map(|counts| counts.discarded).sum(),
            }),
            listener: view.name,
            kind: view.kind,
            transport: view.transport,
            address: view.address,
            anonymous: view.anonymous,
        }
    }
}

impl DatagramsRow {
    fn new(ports: &[PortView]) -> Self {
        let mut sum = DatagramCounts::default();
        ports.iter().for_each(|port| sum.add(&port.datagrams));
        let gone: u64 = ports.iter().map(|port| port.dtls_unsent).sum();
        DatagramsRow {
            sockets: ports.len(),
            received: sum.received,
            overflown: sum.overflown,
            banned: sum.banned,
            sent: sum.sent,
            waiting: sum.waiting,
            unsent: sum.unsent_waiting
                + sum.unsent_too_large
                + sum.unsent_unreachable
                + sum.unsent_banned
                + sum.unsent_other
                + gone,
        }
    }
}

pub(crate) async fn list(State(asker): State<Asker>) -> Answer<Listeners> {
    let said = asker
        .all(|inside| inside.ports.views().collect::<Vec<_>>())
        .await?;
    let mut ports: BTreeMap<String, Vec<PortView>> = BTreeMap::new();
    for port in said.answers.into_iter().flatten() {
        ports.entry(port.listener.clone()).or_default().push(port);
    }
    let listeners = asker.observer().listeners().into_iter();
    let items = listeners.map(|view| {
        let ports = ports.remove(&view.name).unwrap_or_default();
        ListenerRow::new(view, &ports)
    });
    Ok(Json(Listeners {
        items: items.collect(),
        shards_silent: said.silent,
    }))
}
