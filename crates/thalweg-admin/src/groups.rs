//! `GET /v1/groups`.

use crate::answer::Answer;
use crate::ask::Asker;
use crate::listing::{Page, Part, Wanted, page};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

/// A shared subscription: one name on one filter. Each shard has its share of the members and of what waits.
#[derive(Debug, Serialize)]
pub(crate) struct GroupRow {
    group: Box<str>,
    filter: Box<str>,
    members: usize,
    waiting: usize,
    waiting_bytes: usize,
    shards: Vec<u16>,
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<Page<GroupRow>> {
    let wanted = Wanted::from_uri(&uri, &["filter"])?;
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        inside.kernel.for_each_group(|view| {
            if wanted.filter.as_deref().is_none_or(|filter| *view.filter == *filter) {
                let (group, filter) = (view.name.clone(), view.filter.clone());
                part.offer(&[&group, &filter], || GroupRow {
                    group: view.name,
                    filter: view.filter,
                    members: view.members,
                    waiting: view.waiting,
                    waiting_bytes: view.waiting_bytes,
                    shards: vec![inside.shard],
                });
            }
        });
        part
    });
    let merge = |there: &mut GroupRow, other: GroupRow| {
        there.members += other.members;
        there.waiting += other.waiting;
        there.waiting_bytes += other.waiting_bytes;
        there.shards.extend(other.shards);
    };
    Ok(Json(page(said.await?, &uri, limit, merge)))
}
