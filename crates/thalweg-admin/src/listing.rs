//! Lists: what a caller may ask of them, and pages merged from all shards.

use crate::answer::Fault;
use crate::ask::ShardAnswers;
use axum::extract::Query;
use axum::http::Uri;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rows of a list, unless `?limit=` says otherwise.
pub const LIMIT_DEFAULT: usize = 100;

/// The most rows of a list.
pub const LIMIT_MAX: usize = 10_000;

/// Parameters of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only this client's rows; with `*` at the end, of all clients whose names begin so.
    pub(crate) client: Option<String>,
    /// Only rows that concern this filter; each list documents how.
    pub(crate) filter: Option<String>,
    /// Only subscriptions that match this address.
    pub(crate) topic: Option<String>,
    /// Only connections of this listener.
    pub(crate) listener: Option<String>,
    /// Only the books of this prefix; with `*` at the end, of all that begin so.
    pub(crate) prefix: Option<String>,
    /// Only this queue; with `*` at the end, all whose names begin so.
    pub(crate) queue: Option<String>,
    /// Only this exchange, likewise.
    pub(crate) exchange: Option<String>,
    /// Only what belongs to this tenant.
    pub(crate) tenant: Option<String>,
    /// Only groups of this name; with `*` at the end, all whose names begin so.
    pub(crate) group: Option<String>,
    /// At most so many members of each group.
    pub(crate) members: Option<usize>,
    limit: Option<usize>,
    after: Option<String>,
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct Page<R> {
    /// The rows, in order.
    pub(crate) items: Vec<R>,
    /// Rows there are in all that are as wanted.
    pub(crate) total: usize,
    /// Value of `after` for the next rows; `None` if these are the last.
    pub(crate) next: Option<String>,
    /// Shards that did not answer, whose rows are missing.
    pub(crate) shards_silent: usize,
}

impl Wanted {
    /// Parses the parameters of a URI. `takes` names those that this list supports, besides `limit` and `after`.
    pub(crate) fn from_uri(uri: &Uri, takes: &[&str]) -> Result<Self, Fault> {
        let mend = || {
            let names = takes
                .iter()
                .chain(&["limit", "after"])
                .map(|name| format!("?{name}="));
            format!("this list takes {}", names.collect::<Vec<_>>().join(", "))
        };
        let wanted = match Query::<Wanted>::try_from_uri(uri) {
            Ok(Query(wanted)) => wanted,
            Err(rejection) => return Err(Fault::bad(rejection.body_text(), mend())),
        };
        let Wanted {
            client,
            filter,
            topic,
            listener,
            prefix,
            queue,
            exchange,
            tenant,
            group,
            members,
            limit,
            after: _,
        } = &wanted;
        let given = [
            ("client", client),
            ("filter", filter),
            ("topic", topic),
            ("listener", listener),
            ("prefix", prefix),
            ("queue", queue),
            ("exchange", exchange),
            ("tenant", tenant),
            ("group", group),
        ];
        let given = given.map(|(name, given)| (name, given.is_some()));
        for (name, is_given) in given.into_iter().chain([("members", members.is_some())]) {
            if is_given && !takes.contains(&name) {
                return Err(Fault::bad(
                    format!("this list does not take ?{name}="),
                    mend(),
                ));
            }
        }
        if limit.is_some_and(|limit| limit == 0 || limit > LIMIT_MAX) {
            return Err(Fault::bad(
                "?limit= is out of range",
                format!("it may be 1 to {LIMIT_MAX}"),
            ));
        }
        if members.is_some_and(|members| members > LIMIT_MAX) {
            return Err(Fault::bad(
                "?members= is out of range",
                format!("it may be 0 to {LIMIT_MAX}"),
            ));
        }
        Ok(wanted)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT_DEFAULT)
    }

    /// Whether a client's rows are wanted.
    pub(crate) fn wants_client(&self, client: &str) -> bool {
        is_wanted(self.client.as_deref(), client)
    }

    /// Whether a prefix's books are wanted.
    pub(crate) fn wants_prefix(&self, prefix: &str) -> bool {
        is_wanted(self.prefix.as_deref(), prefix)
    }

    /// Whether a queue is wanted.
    pub(crate) fn wants_queue(&self, queue: &str) -> bool {
        is_wanted(self.queue.as_deref(), queue)
    }

    /// Whether an exchange is wanted.
    pub(crate) fn wants_exchange(&self, exchange: &str) -> bool {
        is_wanted(self.exchange.as_deref(), exchange)
    }

    /// Whether a group is wanted.
    pub(crate) fn wants_group(&self, group: &str) -> bool {
        is_wanted(self.group.as_deref(), group)
    }

    /// Whether what belongs to a tenant is wanted.
    pub(crate) fn wants_tenant(&self, tenant: &str) -> bool {
        is_wanted(self.tenant.as_deref(), tenant)
    }

    /// The key of the last row of the page before; none for the first page.
    pub(crate) fn after(&self) -> Result<Option<Key>, Fault> {
        let Some(after) = &self.after else {
            return Ok(None);
        };
        let bytes = URL_SAFE_NO_PAD.decode(after).ok();
        match bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            Some(key) => Ok(Some(key)),
            None => Err(Fault::bad(
                "?after= is not what a page's `next` said",
                "leave it out to see the first page",
            )),
        }
    }
}

fn is_wanted(wanted: Option<&str>, name: &str) -> bool {
    match wanted {
        None => true,
        Some(wanted) => match wanted.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == wanted,
        },
    }
}

/// Sort key of a list: texts, the most important one first.
pub(crate) type Key = Vec<String>;

/// The first rows after some key, whatever order they are offered in. Holds no more than a page.
pub(crate) struct Part<R> {
    rows: BTreeMap<Key, R>,
    limit: usize,
    after: Option<Key>,
    total: usize,
}

impl<R> Part<R> {
    /// For a page of `limit` rows; holds one more, to know whether that page is the last.
    pub(crate) fn new(limit: usize, after: Option<Key>) -> Self {
        Part {
            rows: BTreeMap::new(),
            limit: limit + 1,
            after,
            total: 0,
        }
    }

    /// For the first `limit` rows and no page after them.
    pub(crate) fn exactly(limit: usize) -> Self {
        Part {
            rows: BTreeMap::new(),
            limit,
            after: None,
            total: 0,
        }
    }

    /// The rows it holds, in order.
    pub(crate) fn into_rows(self) -> impl Iterator<Item = R> {
        self.rows.into_values()
    }

    /// Offers a row; it is only made if it may be on the page.
    pub(crate) fn offer(&mut self, key: &[&str], row: impl FnOnce() -> R) {
        self.total += 1;
        let is_after = |other: &Key| key.iter().copied().gt(other.iter().map(String::as_str));
        if self.after.as_ref().is_some_and(|after| !is_after(after)) {
            return;
        }
        if self.rows.len() >= self.limit {
            if self
                .rows
                .last_key_value()
                .is_some_and(|(last, _)| is_after(last))
            {
                return;
            }
            self.rows.pop_last();
        }
        self.rows
            .insert(key.iter().map(|text| (*text).to_owned()).collect(), row());
    }
}

/// One page from every shard's part of it. Rows of the same key become one by `merge`.
pub(crate) fn page<R>(
    said: ShardAnswers<Part<R>>,
    uri: &Uri,
    limit: usize,
    merge: impl Fn(&mut R, R),
) -> Page<R> {
    let mut rows: BTreeMap<Key, R> = BTreeMap::new();
    let mut total = 0;
    for part in said.answers {
        total += part.total;
        for (key, row) in part.rows {
            match rows.get_mut(&key) {
                Some(there) => {
                    merge(there, row);
                    total -= 1;
                }
                None => drop(rows.insert(key, row)),
            }
        }
    }
    let has_more = rows.len() > limit;
    let mut items = Vec::with_capacity(limit.min(rows.len()));
    let mut last = None;
    for (key, row) in rows.into_iter().take(limit) {
        items.push(row);
        last = Some(key);
    }
    let next = last.filter(|_| has_more).map(|key| next_of(uri, &key));
    Page {
        items,
        total,
        next,
        shards_silent: said.silent,
    }
}

/// The same question for the page after `key`.
fn next_of(uri: &Uri, key: &Key) -> String {
    let token = URL_SAFE_NO_PAD.encode(serde_json::to_vec(key).unwrap_or_default());
    let rest = uri
        .query()
        .unwrap_or("")
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("after="));
    let pairs: Vec<String> = rest
        .map(str::to_owned)
        .chain([format!("after={token}")])
        .collect();
    format!("{}?{}", uri.path(), pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(names: &[&str], limit: usize, after: Option<Key>) -> Part<String> {
        let mut part = Part::new(limit, after);
        for name in names {
            part.offer(&[name], || (*name).to_owned());
        }
        part
    }

    #[test]
    fn pages_of_two_shards_follow_each_other_without_gaps() {
        let shards = [&["e", "a", "c", "g"][..], &["f", "b", "d"][..]];
        let mut uri: Uri = "/v1/sessions?limit=3&client=x%2A"
            .parse()
            .expect("an address");
        let mut seen = Vec::new();
        loop {
            let wanted = Wanted::from_uri(&uri, &["client"]).expect("our own question");
            let after = wanted.after().expect("our own token");
            let answers = shards
                .iter()
                .map(|names| part(names, wanted.limit(), after.clone()))
                .collect();
            let page = page(
                ShardAnswers { answers, silent: 0 },
                &uri,
                wanted.limit(),
                |_, _| (),
            );
            assert_eq!(page.total, 7);
            seen.extend(page.items);
            match page.next {
                Some(next) => uri = next.parse().expect("an address"),
                None => break,
            }
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e", "f", "g"]);
        assert!(
            uri.query()
                .is_some_and(|query| query.starts_with("limit=3&client=x%2A&after="))
        );
    }

    #[test]
    fn questions_that_make_no_sense_are_refused() {
        let fails =
            |uri: &str| Wanted::from_uri(&uri.parse().expect("an address"), &["client"]).is_err();
        assert!(fails("/v1/x?limit=0"));
        assert!(fails("/v1/x?limit=10001"));
        assert!(fails("/v1/x?limit=many"));
        assert!(fails("/v1/x?filter=a"));
        assert!(fails("/v1/x?colour=red"));
        assert!(!fails("/v1/x?client=a&limit=10000"));
        let wanted = Wanted::from_uri(&"/v1/x?after=nonsense".parse().expect("an address"), &[])
            .expect("words");
        assert!(wanted.after().is_err());
    }

    #[test]
    fn a_star_at_the_end_of_a_client_stands_for_the_rest() {
        let wants = |wanted: &str, client: &str| {
            Wanted {
                client: Some(wanted.into()),
                ..Wanted::default()
            }
            .wants_client(client)
        };
        assert!(wants("car-*", "car-7"));
        assert!(!wants("car-*", "bus-7"));
        assert!(wants("car-7", "car-7"));
        assert!(!wants("car", "car-7"));
    }
}
