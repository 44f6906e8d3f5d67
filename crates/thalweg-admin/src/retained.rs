//! `GET /v1/retained`.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::listing::Wanted;
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use thalweg_model::{Filter, Message, Time};
use thalweg_server::clock;

/// Bytes of a payload that are shown in a list.
const PAYLOAD_SHOWN_MAX: usize = 1024;

/// Bytes that are shown of the one payload that a filter without wildcards finds.
const PAYLOAD_ALONE_MAX: usize = 1 << 20;

/// A last value. Of `payload` and `payload_base64` one is there: text if it is UTF-8.
#[derive(Debug, Serialize)]
pub(crate) struct RetainedRow {
    topic: String,
    qos: u8,
    payload_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    payload_is_whole: bool,
    content_type: Option<Box<str>>,
    since: u64,
    expires_at: Option<u64>,
}

/// Last values that match a filter. There is no page after it, only a hint.
#[derive(Debug, Serialize)]
pub(crate) struct RetainedPage {
    items: Vec<RetainedRow>,
    is_whole: bool,
    next: Option<String>,
    shards_silent: usize,
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<RetainedPage> {
    let wanted = Wanted::from_uri(&uri, &["filter"])?;
    let text = wanted.filter.as_deref().unwrap_or("#");
    let filter = Filter::new(text)
        .map_err(|error| Fault::bad(format!("?filter= {text:?}: {error}"), "try a/+/b or a/#"))?;
    let limit = wanted.limit();
    let shown_max = if filter.has_wildcard() {
        PAYLOAD_SHOWN_MAX
    } else {
        PAYLOAD_ALONE_MAX
    };
    let said = asker
        .all(move |inside| {
            inside
                .kernel
                .last_values_matching(&filter, limit + 1, inside.now)
        })
        .await?;
    let mut found: Vec<Message> = said.answers.into_iter().flatten().collect();
    found.sort_by(|a, b| a.address().cmp(b.address()));
    let is_whole = found.len() <= limit;
    let items = found
        .iter()
        .take(limit)
        .map(|message| RetainedRow::new(message, shown_max))
        .collect();
    let next = (!is_whole).then(|| {
        "there are more: narrow ?filter=, or raise ?limit= (10000 at the most)".to_owned()
    });
    Ok(Json(RetainedPage {
        items,
        is_whole,
        next,
        shards_silent: said.silent,
    }))
}

impl RetainedRow {
    fn new(message: &Message, shown_max: usize) -> Self {
        let whole = message.payload();
        let shown = whole.get(..shown_max).unwrap_or(whole);
        let text = match std::str::from_utf8(shown) {
            Ok(text) => Some(text),
            // Only the cut went through a character.
            Err(error) if shown.len() < whole.len() && error.error_len().is_none() => shown
                .get(..error.valid_up_to())
                .and_then(|shown| std::str::from_utf8(shown).ok()),
            Err(_) => None,
        };
        RetainedRow {
            topic: message.address().to_owned(),
            qos: message.reliability() as u8,
            payload_bytes: whole.len(),
            payload: text.map(str::to_owned),
            payload_base64: text.is_none().then(|| STANDARD.encode(shown)),
            payload_is_whole: text.map_or(shown.len(), str::len) == whole.len(),
            content_type: message
                .properties()
                .and_then(|properties| properties.content_type.clone()),
            since: clock::unix_of(message.ingress()),
            expires_at: (message.expires() != Time::NEVER)
                .then(|| clock::unix_of(message.expires())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_model::{Reliability, RetainOp};

    fn row(payload: &[u8], shown_max: usize) -> RetainedRow {
        let (qos, retain) = (Reliability::AtLeastOnce, RetainOp::Set);
        RetainedRow::new(
            &Message::new("a", payload, qos, retain, Time::NEVER, Time::ZERO, 0, None),
            shown_max,
        )
    }

    #[test]
    fn a_payload_is_shown_as_text_if_it_is_text() {
        let whole = row("Größe".as_bytes(), usize::MAX);
        assert_eq!(
            (whole.payload.as_deref(), whole.payload_is_whole),
            (Some("Größe"), true)
        );
        let cut = row("Größe".as_bytes(), 3);
        assert_eq!(
            (cut.payload.as_deref(), cut.payload_is_whole),
            (Some("Gr"), false)
        );
        let binary = row(&[0xFF, 0, 1], usize::MAX);
        assert_eq!(
            (binary.payload.as_deref(), binary.payload_base64.as_deref()),
            (None, Some("/wAB"))
        );
    }
}
