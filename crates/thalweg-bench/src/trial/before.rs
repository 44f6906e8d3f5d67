//! What a trial does before its load: retained messages are fetched, a backlog is drained. Both are counted by themselves.

use std::pin::pin;
use std::time::Duration;

use thalweg_client::{Client, Reliability, Retain, SubscribeOptions, Subscription};

use super::Stage;
use crate::drivers::api::{self, ANSWERED_WITHIN, publish_all, within};
use crate::drivers::{Fault, Job};
use crate::load::clock;

/// Does what the cell asks for; what was counted, by name.
pub fn play(stage: &Stage<'_>) -> Result<Vec<(&'static str, f64)>, Fault> {
    let extras = &stage.cell.extras;
    let payload = vec![b'x'; stage.plan.sizes.mean() as usize];
    let mut counts = Vec::new();
    let per_s = |count: u32, nanos: u64| f64::from(count) * 1e9 / nanos.max(1) as f64;
    if extras.retained > 0 {
        let took = retained(stage.job, &payload, extras.retained)?;
        counts.push(("retained_messages", f64::from(extras.retained)));
        counts.push(("retained_per_s", per_s(extras.retained, took)));
    }
    if extras.backlog > 0 {
        let took = backlog(stage.job, &payload, extras.backlog)?;
        counts.push(("backlog_messages", f64::from(extras.backlog)));
        counts.push(("backlog_per_s", per_s(extras.backlog, took)));
    }
    Ok(counts)
}

/// Stores retained messages, and has a subscriber of all of them fetch them; how long that took from its SUBSCRIBE on,
/// nanoseconds. They are removed afterwards.
fn retained(job: &Job, payload: &[u8], count: u32) -> Result<u64, Fault> {
    let prefix = format!("lab-retained/{:08x}", job.run);
    let topics: Vec<String> = (0..count)
        .map(|number| format!("{prefix}/{number}"))
        .collect();
    let publisher = api::client(job, &job.publish, job.publish_at, "r", 0)?;
    publish_all(&publisher, &topics, payload, Retain::Set)?;
    let subscriber = api::client(job, &job.subscribe, job.subscribe_at, "r", 1)?;
    let begun = clock::now();
    let mut fetched = subscribe(&subscriber, &format!("{prefix}/+"), true)?;
    take("retained messages", &mut fetched, count)?;
    let took = clock::now() - begun;
    publish_all(&publisher, &topics, &[], Retain::Clear)?;
    api::close(&subscriber);
    api::close(&publisher);
    Ok(took)
}

/// Lets messages wait in the session of a subscriber that is away; how long the subscriber takes from its CONNECT until it has
/// them all, nanoseconds.
fn backlog(job: &Job, payload: &[u8], count: u32) -> Result<u64, Fault> {
    let topic = format!("lab-backlog/{:08x}", job.run);
    let connect = |session: Duration| {
        let builder = api::builder(job, &job.subscribe, "b", 0)?.session(session);
        api::connect(builder, job, &job.subscribe, job.subscribe_at)
    };
    let subscriber = connect(SESSION)?;
    let subscription = subscribe(&subscriber, &topic, false)?;
    // Closed before the subscription is dropped: that would end it at the broker, too.
    api::close(&subscriber);
    drop(subscription);
    let publisher = api::client(job, &job.publish, job.publish_at, "b", 1)?;
    publish_all(
        &publisher,
        &vec![topic.clone(); count as usize],
        payload,
        Retain::No,
    )?;
    api::close(&publisher);
    let begun = clock::now();
    let subscriber = connect(SESSION)?;
    let mut waiting = subscribe(&subscriber, &topic, false)?;
    take("messages of the backlog", &mut waiting, count)?;
    let took = clock::now() - begun;
    drop(waiting);
    api::close(&subscriber);
    Ok(took)
}

fn subscribe(client: &Client, filter: &str, last_values: bool) -> Result<Subscription, Fault> {
    let options = SubscribeOptions {
        reliability: Reliability::AtLeastOnce,
        last_values,
        keeps_all: true,
        settle_by_hand: false,
    };
    within(ANSWERED_WITHIN, client.subscribe_all(&[filter], options))
        .ok_or_else(|| format!("the subscription to {filter} is not confirmed"))?
        .map_err(|error| format!("subscribing to {filter}: {error}"))
}

/// Takes so many messages.
fn take(what: &str, subscription: &mut Subscription, count: u32) -> Result<(), Fault> {
    for taken in 0..count {
        let next = pin!(subscription.next());
        if within(ANSWERED_WITHIN, next).flatten().is_none() {
            return Err(format!("{taken} of {count} {what} came"));
        }
    }
    Ok(())
}

/// How long a broker keeps the session of a subscriber that is away; long enough to fill it.
const SESSION: Duration = Duration::from_secs(600);
