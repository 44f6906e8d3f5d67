//! `GET /v1/trace`: what publishing to a topic would do, step by step, without doing it.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use thalweg_kernel::{Explained, Limits, Safety, home};
use thalweg_model::{Address, Properties, PropertyValue};
use thalweg_server::stages::{BOUNDS_NANOS, Histogram, SPANS, Span, Stages};

/// Receivers that are named, over all shards.
const RECEIVERS_NAMED_MAX: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    topic: String,
    from: Option<String>,
    /// Payload for the content filters.
    payload: Option<String>,
    /// `name:value` pairs, separated by commas.
    headers: Option<String>,
}

/// The steps of a message that was not sent.
#[derive(Debug, Serialize)]
pub(crate) struct Trace {
    topic: String,
    from: Option<String>,
    dry_run: bool,
    /// Answer to the publisher: `accepted`, `no_match` or `denied`.
    outcome: &'static str,
    receivers: usize,
    groups: usize,
    rows: Vec<Row>,
    shards_silent: usize,
}

/// A step, under its span's name.
#[derive(Debug, Serialize)]
struct Row {
    span: &'static str,
    /// The shard it would happen on; nothing where that is not known without a publisher.
    shard: Option<u16>,
    /// The object of the step: a client, a group, the topic.
    subject: String,
    decision: String,
    /// Recent mean duration of this step, over all shards' samples; `None` before the first sample.
    nanos_mean: Option<u64>,
    /// The same for the slowest hundredth, at most.
    nanos_p99: Option<u64>,
}

/// Answer of one shard.
struct Part {
    shard: u16,
    explained: Explained,
    /// The publisher's session is here: whether it may publish there.
    may_publish: Option<bool>,
    levels_max: usize,
    stages: Stages,
    /// Durability before an acknowledgement, by this topic's filters or in general; `None` without a journal.
    safety: Option<Safety>,
    /// Receivers for which it would be written down.
    durable: usize,
}

pub(crate) async fn show(State(asker): State<Asker>, uri: Uri) -> Answer<Trace> {
    let mend = "ask /v1/trace?topic=a/b, or /v1/trace?topic=a/b&from=CLIENT";
    let question = Query::<Question>::try_from_uri(&uri);
    let Query(Question {
        topic,
        from,
        payload,
        headers,
    }) = question.map_err(|rejection| Fault::bad(rejection.body_text(), mend))?;
    Address::check(&topic)
        .map_err(|error| Fault::bad(format!("?topic= {topic:?}: {error}"), mend))?;
    let (address, publisher) = (topic.clone(), from.clone());
    let is_sampled = payload.is_some() || headers.is_some();
    let payload = payload.unwrap_or_default();
    let properties = properties_of(headers.as_deref().unwrap_or_default());
    let said = asker.all(move |inside| {
        let sample = is_sampled.then_some((payload.as_bytes(), &properties));
        let explained = inside
            .kernel
            .explain_message(&address, None, sample, inside.now);
        let publisher = publisher
            .as_deref()
            .filter(|client| inside.kernel.session_view(client).is_some());
        let may_publish = publisher.map(|client| {
            !inside
                .kernel
                .explain(&address, Some(client), inside.now)
                .denied
        });
        let is_durable = |client: &str| {
            inside
                .kernel
                .session_view(client)
                .is_some_and(|view| view.durable)
        };
        let limits = inside.kernel.limits();
        Part {
            shard: inside.shard,
            may_publish,
            durable: explained
                .receivers
                .iter()
                .filter(|(client, _)| is_durable(client))
                .count(),
            explained,
            levels_max: limits.levels_max,
            stages: inside.stages.clone(),
            safety: limits.journal.then(|| safety_of(limits, &address)),
        }
    });
    let said = said.await?;
    if let (Some(client), false, 0) = (
        &from,
        said.answers.iter().any(|part| part.may_publish.is_some()),
        said.silent,
    ) {
        return Err(Fault::no_client(client));
    }
    let keeper = home(&topic, asker.observer().shard_count() as u16).0;
    Ok(Json(trace(topic, from, &said.answers, keeper, said.silent)))
}

fn trace(
    topic: String,
    from: Option<String>,
    parts: &[Part],
    keeper: u16,
    shards_silent: usize,
) -> Trace {
    let mut stages = Stages::default();
    parts.iter().for_each(|part| stages.merge(&part.stages));
    let mut rows = Vec::new();
    let mut add = |span: usize, shard: Option<u16>, subject: &str, decision: String| {
        let histogram = &stages.histograms[span];
        rows.push(Row {
            span: SPANS[span],
            shard,
            subject: subject.to_owned(),
            decision,
            nanos_mean: mean(histogram),
            nanos_p99: quantile(histogram, 99),
        });
    };
    let entry = parts.iter().find(|part| part.may_publish.is_some());
    let entered = entry.map(|part| part.shard);
    let publisher = from.as_deref().unwrap_or("any publisher");
    let levels = topic.split('/').count();
    let levels_max = parts.first().map_or(usize::MAX, |part| part.levels_max);
    add(
        Span::NetRead as usize,
        entered,
        publisher,
        "bytes are read, many packets at once".into(),
    );
    add(
        Span::WireDecode as usize,
        entered,
        publisher,
        "a PUBLISH of its protocol, borrowed from the buffer".into(),
    );
    add(
        Span::FrontIn as usize,
        entered,
        &topic,
        format!("{levels} levels, {} bytes: a legal address", topic.len()),
    );
    let denied = entry.is_some_and(|part| part.may_publish == Some(false));
    let too_deep = levels > levels_max;
    let receivers: usize = parts
        .iter()
        .map(|part| part.explained.receivers.len())
        .sum();
    let groups: usize = parts.iter().map(|part| part.explained.groups.len()).sum();
    add(
        Span::KernelPublish as usize,
        entered,
        publisher,
        match (denied, entry.is_some()) {
            (true, _) => "refused: the access rules do not let it publish there".into(),
            (false, true) => "the access rules let it publish there".to_owned(),
            (false, false) => "access is not checked without ?from=CLIENT".to_owned(),
        },
    );
    if too_deep {
        let decision =
            format!("refused: {levels} levels, and limits.topic_levels_max is {levels_max}");
        add(Span::KernelPublish as usize, entered, &topic, decision);
    }
    let goes_on = !denied && !too_deep;
    if goes_on {
        let has_last_value = parts.iter().any(|part| part.explained.has_last_value);
        let is_kept = parts.iter().any(|part| part.explained.is_kept);
        let decision = match (has_last_value, is_kept) {
            (true, true) => {
                "there is a last value, which any publish replaces: all are remembered there"
            }
            (false, true) => {
                "there is no last value; any publish sets one: all are remembered there"
            }
            (true, false) => "there is a last value, which a retained publish replaces",
            (false, false) => "there is no last value; a retained publish sets one",
        };
        let count: usize = parts.iter().map(|it| it.explained.kept_messages).sum();
        let decision = match count {
            0 | 1 => decision.to_owned(),
            count => format!("{decision}; {count} messages are kept"),
        };
        add(Span::KernelPublish as usize, Some(keeper), &topic, decision);
        for part in parts {
            let (here, shared) = (part.explained.receivers.len(), part.explained.groups.len());
            let decision = format!("{here} receivers and {shared} groups on this shard");
            add(
                Span::KernelPublish as usize,
                Some(part.shard),
                &topic,
                decision,
            );
            if part.explained.watches > 0 {
                let decision = format!(
                    "{} readers watch it: each is told and takes it when it can",
                    part.explained.watches
                );
                add(
                    Span::KernelPublish as usize,
                    Some(part.shard),
                    &topic,
                    decision,
                );
            }
            for (client, what) in part.explained.rejecting.iter().take(RECEIVERS_NAMED_MAX) {
                add(
                    Span::KernelPublish as usize,
                    Some(part.shard),
                    client,
                    what.clone(),
                );
            }
            for (group, what) in part.explained.groups.iter().take(RECEIVERS_NAMED_MAX) {
                add(
                    Span::KernelPublish as usize,
                    Some(part.shard),
                    group,
                    format!("one member gets it: {what}"),
                );
            }
            for (queue, what) in part.explained.queues.iter().take(RECEIVERS_NAMED_MAX) {
                add(
                    Span::KernelPublish as usize,
                    Some(part.shard),
                    queue,
                    format!("one consumer gets it: {what}"),
                );
            }
        }
        add(STORE_COMMIT, None, &topic, kept(parts, groups));
        let all = parts.iter().flat_map(|part| {
            part.explained
                .receivers
                .iter()
                .map(|receiver| (part.shard, receiver))
        });
        for (shard, (client, what)) in all.take(RECEIVERS_NAMED_MAX) {
            add(Span::FrontOut as usize, Some(shard), client, what.clone());
        }
        if receivers > RECEIVERS_NAMED_MAX {
            add(
                Span::FrontOut as usize,
                None,
                &topic,
                format!("and {} more", receivers - RECEIVERS_NAMED_MAX),
            );
        }
    }
    let queues: usize = parts.iter().map(|part| part.explained.queues.len()).sum();
    let watches: usize = parts.iter().map(|part| part.explained.watches).sum();
    let outcome = match (goes_on, receivers + groups + queues + watches) {
        (false, _) => "denied",
        (true, 0) => "no_match",
        (true, _) => "accepted",
    };
    let acknowledged = match outcome {
        "denied" => {
            "QoS 1 and 2: refused with a reason code where the protocol has one; QoS 0: dropped and counted"
        }
        "no_match" => "QoS 1 and 2: acknowledged, and MQTT 5 publishers hear that nobody wanted it",
        _ => "QoS 1 and 2: acknowledged; QoS 0: nothing to say",
    };
    add(
        Span::FrontAck as usize,
        entered,
        publisher,
        acknowledged.into(),
    );
    if receivers + groups + queues + watches > 0 && goes_on {
        add(
            Span::NetWrite as usize,
            None,
            &topic,
            "one write per connection and turn, whatever it gathered".into(),
        );
        add(
            Span::KernelSettle as usize,
            None,
            &topic,
            "QoS 1 and 2: forgotten once the receiver has acknowledged".into(),
        );
    }
    let (receivers, groups) = if goes_on { (receivers, groups) } else { (0, 0) };
    Trace {
        topic,
        from,
        dry_run: true,
        outcome,
        receivers,
        groups,
        rows,
        shards_silent,
    }
}

/// The headers of a message that is not sent.
fn properties_of(headers: &str) -> Properties {
    let pairs = headers.split(',').filter_map(|pair| pair.split_once(':'));
    Properties {
        user: pairs
            .map(|(name, value)| (name.trim().into(), PropertyValue::Text(value.trim().into())))
            .collect(),
        ..Properties::default()
    }
}

/// Describes what is journalled, and the durability before the acknowledgement.
fn kept(parts: &[Part], groups: usize) -> String {
    let Some(safety) = parts.iter().find_map(|part| part.safety) else {
        return "nothing is written: there is no journal".into();
    };
    let durable: usize = parts.iter().map(|part| part.durable).sum();
    if durable + groups == 0 {
        return "nothing is written, unless it is a retained publish".into();
    }
    let whom = match groups {
        0 => format!("for {durable} sessions that outlive their connection"),
        _ => format!(
            "for {durable} sessions, and groups with members, that outlive their connection"
        ),
    };
    let when = match safety {
        Safety::Durable => "is on the disk",
        Safety::Written | Safety::Lazy => "is written; the disk follows",
    };
    format!("written down {whom}; QoS 1 and 2 are acknowledged when that {when}")
}

/// Durability by policies and `journal.filters` for the address, or the general one. The publisher's listener may
/// override it.
fn safety_of(limits: &Limits, address: &str) -> Safety {
    limits.safety_at(address).unwrap_or(limits.safety)
}

/// Where [`SPANS`] has it. It has no samples: a commit is shared by all messages in it.
const STORE_COMMIT: usize = 4;

/// The mean of a stage's samples.
pub(crate) fn mean(histogram: &Histogram) -> Option<u64> {
    histogram.sum_nanos.checked_div(histogram.count)
}

/// An upper bound of a stage's percentile; nothing if there are no samples or it lies beyond the last bound.
pub(crate) fn quantile(histogram: &Histogram, percent: u64) -> Option<u64> {
    let rank = (histogram.count * percent).div_ceil(100);
    let mut seen = 0;
    let at = histogram.buckets.iter().position(|count| {
        seen += count;
        rank > 0 && seen >= rank
    });
    BOUNDS_NANOS.get(at?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_model::Filter;

    fn part(shard: u16, receivers: usize, may_publish: Option<bool>) -> Part {
        let receiver = |n| (format!("client-{n}").into(), "delivered at once".to_owned());
        let explained = Explained {
            denied: false,
            receivers: (0..receivers).map(receiver).collect(),
            rejecting: Vec::new(),
            queues: Vec::new(),
            groups: Vec::new(),
            watches: 0,
            shards: Vec::new(),
            has_last_value: false,
            kept_messages: 0,
            is_kept: false,
        };
        let (stages, safety) = (Stages::default(), Some(Safety::Durable));
        Part {
            shard,
            explained,
            may_publish,
            levels_max: 3,
            stages,
            safety,
            durable: 0,
        }
    }

    fn check(topic: &str, parts: &[Part], outcome: &str, receivers: usize) -> Trace {
        let trace = trace(topic.into(), None, parts, 0, 0);
        assert_eq!((trace.outcome, trace.receivers), (outcome, receivers));
        trace
    }

    #[test]
    fn readers_who_watch_want_it_too() {
        let mut watched = part(1, 0, None);
        watched.explained.watches = 2;
        let trace = check("a/b", &[part(0, 0, None), watched], "accepted", 0);
        assert!(
            trace
                .rows
                .iter()
                .any(|row| row.decision.starts_with("2 readers watch it"))
        );
    }

    #[test]
    fn a_filter_that_rejects_is_a_row_and_no_receiver() {
        let mut filtered = part(0, 1, None);
        let rejects = "it does not pass the filter n > 3".to_owned();
        filtered.explained.rejecting = vec![("choosy".into(), rejects)];
        let trace = check("a/b", &[filtered], "accepted", 1);
        let mut rows = trace.rows.iter();
        assert!(rows.any(|row| row.subject == "choosy" && row.decision.ends_with("n > 3")));
        let properties = properties_of("n: 3,colour:a:b,none");
        let text = |text: &str| PropertyValue::Text(text.into());
        let expected = [("n".into(), text("3")), ("colour".into(), text("a:b"))];
        assert_eq!(properties.user, expected);
    }

    #[test]
    fn receivers_of_all_shards_count() {
        let trace = check(
            "a/b",
            &[part(0, 2, None), part(1, 1, Some(true))],
            "accepted",
            3,
        );
        assert_eq!(
            trace
                .rows
                .iter()
                .filter(|row| row.span == "front.out")
                .count(),
            3
        );
    }

    #[test]
    fn a_refused_publish_reaches_nobody() {
        check(
            "a/b",
            &[part(0, 2, Some(false)), part(1, 1, None)],
            "denied",
            0,
        );
        check("a/b/c/d", &[part(0, 2, Some(true))], "denied", 0);
        check("a/b", &[part(0, 0, Some(true))], "no_match", 0);
    }

    #[test]
    fn rows_come_in_the_order_of_the_spans() {
        let trace = check("a/b", &[part(0, 2, None)], "accepted", 2);
        let places = trace
            .rows
            .iter()
            .map(|row| SPANS.iter().position(|span| *span == row.span));
        let places: Vec<usize> = places
            .map(|place| place.expect("a span of stages.rs"))
            .collect();
        assert!(places.is_sorted());
    }

    #[test]
    fn what_is_written_down_is_said_with_what_waits_for_it() {
        assert_eq!(SPANS[STORE_COMMIT], "store.commit");
        let (one, other) = (part(0, 2, None), part(1, 1, None));
        assert_eq!(
            kept(&[one, other], 0),
            "nothing is written, unless it is a retained publish"
        );
        let parts = [
            part(0, 2, None),
            Part {
                durable: 1,
                ..part(1, 1, None)
            },
        ];
        assert_eq!(
            kept(&parts, 0),
            "written down for 1 sessions that outlive their connection; QoS 1 and 2 are acknowledged when that is on the disk"
        );
        let parts = [Part {
            safety: None,
            durable: 1,
            ..part(0, 1, None)
        }];
        assert_eq!(kept(&parts, 0), "nothing is written: there is no journal");
        let filters = [("a/#", Safety::Written), ("a/+", Safety::Durable)];
        let filters = filters.map(|(filter, safety)| (Filter::new(filter).expect("legal"), safety));
        let limits = Limits {
            safety: Safety::Written,
            safety_filters: filters.into(),
            ..Limits::default()
        };
        assert_eq!(
            (safety_of(&limits, "a/b"), safety_of(&limits, "b")),
            (Safety::Durable, Safety::Written)
        );
    }

    #[test]
    fn a_percentile_is_the_bound_of_its_bucket() {
        let mut stages = Stages::default();
        assert_eq!(quantile(&stages.histograms[0], 50), None);
        (0..99).for_each(|_| stages.record(Span::NetRead, 60));
        stages.record(Span::NetRead, 3_000);
        assert_eq!(quantile(&stages.histograms[0], 50), Some(100));
        assert_eq!(quantile(&stages.histograms[0], 99), Some(100));
        assert_eq!(quantile(&stages.histograms[0], 100), Some(3_200));
        assert_eq!(mean(&stages.histograms[0]), Some(89));
    }
}
