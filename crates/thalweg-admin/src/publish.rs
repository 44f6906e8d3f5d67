//! `POST /v1/publish`.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thalweg_kernel::access::is_group_key;
use thalweg_kernel::{Draft, Explained, Limits, home};
use thalweg_model::presence::is_presence;
use thalweg_model::{Address, Properties, Reliability, RetainOp, Span};
use thalweg_server::Inside;

/// A message to publish. Of `payload` and `payload_base64` at most one; neither is an empty payload.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Letter {
    topic: String,
    payload: Option<String>,
    payload_base64: Option<String>,
    #[serde(default)]
    qos: u8,
    #[serde(default)]
    retain: bool,
    content_type: Option<Box<str>>,
    expires_in_seconds: Option<u32>,
}

/// Result of a publish. Receivers are counted before it.
#[derive(Debug, Serialize)]
pub(crate) struct Posted {
    published: bool,
    shard: u16,
    receivers: usize,
    groups: usize,
    shards: Vec<u16>,
}

/// A letter that was read and found right.
struct Checked {
    address: Address,
    payload: Vec<u8>,
    reliability: Reliability,
    retain: RetainOp,
    expires_in: Option<Span>,
    properties: Option<Properties>,
}

const MEND: &str =
    "send e.g. {\"topic\": \"a/b\", \"payload\": \"21.5\", \"qos\": 1, \"retain\": false}";

pub(crate) async fn publish(
    State(asker): State<Asker>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<Posted> {
    let body = body.map_err(|rejection| {
        let mend = format!(
            "a body may hold {} bytes, and must arrive whole",
            crate::BODY_BYTES_MAX
        );
        Fault::new(rejection.status(), rejection.body_text(), mend)
    })?;
    let letter = serde_json::from_slice::<Letter>(&body);
    let letter = letter
        .map_err(|error| Fault::bad(format!("the body is not a message in JSON: {error}"), MEND))?;
    let checked = letter.check()?;
    // Always the same shard for the same address, so that its messages stay in order.
    let shard = home(
        checked.address.as_str(),
        asker.observer().shard_count() as u16,
    )
    .0;
    let said = asker
        .all(move |inside| (inside.shard == shard).then(|| checked.publish(inside)))
        .await?;
    match said.answers.into_iter().flatten().next() {
        Some(result) => result.map(Json),
        None => Err(Fault::silent()),
    }
}

impl Letter {
    fn check(self) -> Result<Checked, Fault> {
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            Fault::bad(format!("{what}: {error}"), MEND)
        };
        let address = Address::new(&self.topic).map_err(|error| wrong("topic", &error))?;
        if is_presence(address.as_str()) || is_group_key(address.as_str()) {
            return Err(Fault::bad(
                "only the broker publishes below $presence and the keys of multicast groups",
                "name another topic",
            ));
        }
        let payload = match (self.payload, self.payload_base64) {
            (Some(_), Some(_)) => {
                return Err(Fault::bad(
                    "there are two payloads",
                    "leave payload or payload_base64 out",
                ));
            }
            (Some(text), None) => text.into_bytes(),
            (None, Some(code)) => STANDARD
                .decode(code)
                .map_err(|error| wrong("payload_base64", &error))?,
            (None, None) => Vec::new(),
        };
        let reliability = match self.qos {
            0 => Reliability::AtMostOnce,
            1 => Reliability::AtLeastOnce,
            2 => Reliability::ExactlyOnce,
            other => return Err(Fault::bad(format!("qos is {other}"), "it is 0, 1 or 2")),
        };
        Ok(Checked {
            address,
            reliability,
            // An empty retained message clears the last value.
            retain: match (self.retain, payload.is_empty()) {
                (false, _) => RetainOp::None,
                (true, false) => RetainOp::Set,
                (true, true) => RetainOp::Clear,
            },
            payload,
            expires_in: self
                .expires_in_seconds
                .map(|seconds| Span::from_secs(u64::from(seconds))),
            properties: self.content_type.map(|it| Properties {
                content_type: Some(it),
                ..Properties::default()
            }),
        })
    }
}

impl Checked {
    /// Runs inside a shard.
    fn publish(&self, inside: &mut Inside<'_>) -> Result<Posted, Fault> {
        self.check_limits(inside.kernel.limits())?;
        let Explained {
            receivers,
            groups,
            shards,
            ..
        } = inside
            .kernel
            .explain(self.address.as_str(), None, inside.now);
        let draft = Draft {
            address: self.address.as_str(),
            payload: &self.payload,
            reliability: self.reliability,
            retain: self.retain,
            priority: 0,
            expires_in: self.expires_in,
            properties: self.properties.as_ref(),
            ticket: 0,
            native: None,
            stamp: None,
        };
        inside.kernel.publish_own(draft, inside.now, inside.links);
        Ok(Posted {
            published: true,
            shard: inside.shard,
            receivers: receivers.len(),
            groups: groups.len(),
            shards,
        })
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), Fault> {
        if self.address.levels().count() > limits.levels_max {
            let mend = format!("limits.topic_levels_max allows {}", limits.levels_max);
            return Err(Fault::bad("the topic has too many levels", mend));
        }
        if self.retain != RetainOp::None && !limits.retain_enabled {
            let mend = "publish without retain, or set retained.enabled = true";
            return Err(Fault::new(
                StatusCode::CONFLICT,
                "last values are switched off",
                mend,
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str) -> Option<Checked> {
        serde_json::from_str::<Letter>(body).ok()?.check().ok()
    }

    #[test]
    fn payloads_are_text_or_base64_or_nothing() {
        assert_eq!(
            check(r#"{"topic":"a","payload":"21.5"}"#)
                .expect("text")
                .payload,
            b"21.5"
        );
        assert_eq!(
            check(r#"{"topic":"a","payload_base64":"/wAB"}"#)
                .expect("bytes")
                .payload,
            [0xFF, 0, 1]
        );
        assert_eq!(check(r#"{"topic":"a"}"#).expect("nothing").payload, b"");
        assert!(check(r#"{"topic":"a","payload":"x","payload_base64":"/wAB"}"#).is_none());
        assert!(check(r#"{"topic":"a","payload_base64":"!"}"#).is_none());
    }

    #[test]
    fn what_mqtt_would_refuse_is_refused() {
        assert!(check(r#"{"topic":"a/+"}"#).is_none());
        assert!(check(r#"{"topic":""}"#).is_none());
        assert!(check(r#"{"topic":"$presence/pump","payload":"x"}"#).is_none());
        assert!(check(r#"{"topic":"$multicast/poses","payload":"x"}"#).is_none());
        assert!(check(r#"{"topic":"$multicast/poses/repair"}"#).is_some());
        assert!(check(r#"{"topic":"a","qos":3}"#).is_none());
        assert!(check(r#"{"topic":"a","colour":"red"}"#).is_none());
        assert!(check(r#"{}"#).is_none());
    }

    #[test]
    fn an_empty_retained_message_clears() {
        assert_eq!(
            check(r#"{"topic":"a","retain":true}"#)
                .expect("legal")
                .retain,
            RetainOp::Clear
        );
        assert_eq!(
            check(r#"{"topic":"a","retain":true,"payload":"x"}"#)
                .expect("legal")
                .retain,
            RetainOp::Set
        );
        assert_eq!(
            check(r#"{"topic":"a","payload":"x"}"#)
                .expect("legal")
                .retain,
            RetainOp::None
        );
    }
}
