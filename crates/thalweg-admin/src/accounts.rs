//! `GET /v1/ledger?client=` and `?prefix=`: the books of single receivers, and of parts of the address space.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::listing::{Page, Part, Wanted, page};
use crate::sessions::for_each_wanted;
use axum::Json;
use axum::http::{StatusCode, Uri};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_kernel::{Account, DropReason, SessionView};

/// Outcomes of the copies for one receiver, or for one part of the address space.
#[derive(Debug, Serialize)]
pub(crate) struct AccountView {
    pub(crate) routed: u64,
    pub(crate) restored: u64,
    pub(crate) delivered: u64,
    pub(crate) expired: u64,
    pub(crate) dropped: u64,
    dropped_by_reason: BTreeMap<&'static str, u64>,
    pub(crate) queued: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct ClientAccount {
    client: Arc<str>,
    connected: bool,
    durable: bool,
    received: u64,
    #[serde(flatten)]
    account: AccountView,
    waiting: u64,
    in_flight: u64,
    unaccounted: i64,
    shard: u16,
}

/// The books of a prefix.
#[derive(Debug, Serialize)]
pub(crate) struct PrefixAccount {
    prefix: String,
    #[serde(flatten)]
    account: AccountView,
}

impl AccountView {
    pub(crate) fn new(account: &Account) -> Self {
        let dropped = account.dropped_total();
        let named = DropReason::ALL
            .iter()
            .zip(account.dropped)
            .map(|(reason, count)| (reason.name(), count));
        AccountView {
            routed: account.routed,
            restored: account.restored,
            delivered: account.delivered,
            expired: account.expired,
            dropped,
            // Nearly all are 0, and there may be many rows.
            dropped_by_reason: named.filter(|(_, count)| *count > 0).collect(),
            queued: account.outstanding(),
        }
    }

    fn ended(&self) -> u64 {
        self.delivered + self.expired + self.dropped
    }
}

impl ClientAccount {
    pub(crate) fn new(view: &SessionView, shard: u16) -> Self {
        let account = AccountView::new(&view.account);
        let (waiting, in_flight) = (view.waiting as u64, u64::from(view.in_flight));
        let kept = account.ended() + waiting + in_flight;
        ClientAccount {
            client: view.client.clone(),
            connected: view.link.is_some(),
            durable: view.durable,
            received: view.received,
            unaccounted: (account.routed + account.restored).wrapping_sub(kept) as i64,
            account: AccountView {
                queued: waiting + in_flight,
                ..account
            },
            waiting,
            in_flight,
            shard,
        }
    }
}

/// The books of the clients that are wanted.
pub(crate) async fn of_clients(
    asker: &Asker,
    wanted: Wanted,
    uri: &Uri,
) -> Answer<Page<ClientAccount>> {
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let exact = wanted
        .client
        .clone()
        .filter(|client| !client.ends_with('*'));
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        for_each_wanted(inside.kernel, &wanted, |view| {
            part.offer(&[&view.client], || ClientAccount::new(&view, inside.shard));
        });
        part
    });
    let page = page(said.await?, uri, limit, |_, _| ());
    match exact {
        Some(_) if page.total == 0 && page.shards_silent > 0 => Err(Fault::silent()),
        Some(client) if page.total == 0 => Err(Fault::no_client(&client)),
        _ => Ok(Json(page)),
    }
}

/// The books of the prefixes that are wanted.
pub(crate) async fn of_prefixes(
    asker: &Asker,
    wanted: Wanted,
    uri: &Uri,
) -> Answer<Page<PrefixAccount>> {
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let exact = wanted
        .prefix
        .clone()
        .filter(|prefix| !prefix.ends_with('*'));
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        for (prefix, account) in inside
            .kernel
            .accounts()
            .filter(|(prefix, _)| wanted.wants_prefix(prefix))
        {
            part.offer(&[prefix], || (prefix.to_owned(), account.clone()));
        }
        part
    });
    let page = page(said.await?, uri, limit, |sum, part| {
        add_account(&mut sum.1, &part.1)
    });
    let Page {
        items,
        total,
        next,
        shards_silent,
    } = page;
    if let Some(prefix) = exact.filter(|_| total == 0) {
        let mend = "name it in ledger.prefixes and restart the broker; ?prefix=* lists those that have books";
        return Err(Fault::new(
            StatusCode::NOT_FOUND,
            format!("the prefix {prefix:?} has no books of its own"),
            mend,
        ));
    }
    let items = items.into_iter().map(|(prefix, account)| PrefixAccount {
        prefix,
        account: AccountView::new(&account),
    });
    Ok(Json(Page {
        items: items.collect(),
        total,
        next,
        shards_silent,
    }))
}

/// Adds a shard's account of the same prefix.
pub(crate) fn add_account(sum: &mut Account, account: &Account) {
    // Named one by one, so that a new counter of the kernel's cannot be forgotten here.
    let Account {
        routed,
        restored,
        delivered,
        expired,
        dropped,
    } = account;
    sum.routed += routed;
    sum.restored += restored;
    sum.delivered += delivered;
    sum.expired += expired;
    for (sum, count) in sum.dropped.iter_mut().zip(dropped) {
        *sum += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_that_happened_are_named() {
        let mut account = Account {
            routed: 4,
            ..Account::default()
        };
        account.dropped[DropReason::Memory as usize] = 3;
        let view = AccountView::new(&account);
        assert_eq!(
            view.dropped_by_reason.into_iter().collect::<Vec<_>>(),
            [("memory", 3)]
        );
        assert_eq!((view.dropped, view.queued), (3, 1));
    }
}
