//! What studies state without numbers, and whether numbers contradict it.

use super::RecommendArgs;
use super::capability::{self, Spoken};
use super::measure::Metric;
use super::published::{self, Order};
use super::ranking::{Ranking, Standing};
use super::sources::{Source, SourceKind};
use crate::cell::Protocol;
use crate::studies::group;

/// An order that studies state for what is asked.
#[derive(Clone, Debug)]
pub struct Stated {
    /// The best first; those in one place are equal, or not told apart.
    pub places: Vec<Vec<String>>,
    /// What was left out of them, and why.
    pub left_out: Vec<(String, String)>,
    /// What it rests on.
    pub orders: Vec<Order>,
    /// What the same study states of other situations.
    pub elsewhere: Vec<String>,
    /// It was made of several orders by mean ranks.
    pub is_mean: bool,
}

/// What the sources' orders say of a query.
pub fn stated(query: &RecommendArgs, sources: &[Source]) -> Option<Stated> {
    let orders: Vec<&Order> = sources.iter().flat_map(|source| &source.orders).collect();
    if query.members.is_some()
        || query.bursty_neighbour
        || query.p99_max.is_some()
        || query.bandwidth.is_some()
    {
        return None;
    }
    let holding = |metric: Metric| -> Vec<&Order> {
        let of = orders
            .iter()
            .filter(|it| it.metric == metric.name() && it.holds(|axis| query.on(axis)));
        of.copied().collect()
    };
    let goals = query.goals();
    let found: Vec<(&Order, f64)> = goals
        .iter()
        .flat_map(|(metric, weight)| holding(*metric).into_iter().map(move |it| (it, *weight)))
        .collect();
    let (first, _) = found.first()?;
    // Orders of one study may be put together; those of several have other machines and other candidates.
    let found: Vec<(&Order, f64)> = found
        .iter()
        .filter(|(it, _)| it.study == first.study)
        .copied()
        .collect();
    let is_mean = found.len() > 1;
    let mut names: Vec<&str> = first.order.iter().flatten().map(String::as_str).collect();
    names.sort_unstable();
    let mut left_out = Vec::new();
    names.retain(|name| match obstacle(query, name) {
        Some(why) => {
            left_out.push((words(name), why));
            false
        }
        None => true,
    });
    if names.is_empty() {
        return None;
    }
    let mut ranks: Vec<(f64, &str)> = names
        .iter()
        .map(|name| {
            (
                found
                    .iter()
                    .map(|(order, weight)| weight * rank(order, name))
                    .sum::<f64>(),
                *name,
            )
        })
        .collect();
    ranks.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    let mut places: Vec<Vec<String>> = Vec::new();
    let mut last = f64::NAN;
    for (rank, name) in ranks {
        match places.last_mut() {
            Some(place) if (rank - last).abs() < 1e-9 => place.push(words(name)),
            _ => places.push(vec![words(name)]),
        }
        last = rank;
    }
    let elsewhere = orders
        .iter()
        .filter(|it| {
            it.study == first.study && goals.iter().any(|(metric, _)| metric.name() == it.metric)
        })
        .filter(|it| !found.iter().any(|(known, _)| known == *it))
        .map(|it| it.says.clone())
        .collect();
    Some(Stated {
        places,
        left_out,
        orders: found.into_iter().map(|(it, _)| it.clone()).collect(),
        elsewhere,
        is_mean,
    })
}

/// The place of a name; those in one place share the mean of their ranks.
fn rank(order: &Order, name: &str) -> f64 {
    let mut before = 0.0;
    for place in &order.order {
        let count = place.len() as f64;
        if place.iter().any(|it| it == name) {
            return before + (count + 1.0) / 2.0;
        }
        before += count;
    }
    before + 1.0
}

fn protocol(name: &str) -> Option<Protocol> {
    serde_json::from_value(name.into()).ok()
}

fn words(name: &str) -> String {
    protocol(name).map_or_else(|| name.to_owned(), |it| group::name(it).to_owned())
}

fn obstacle(query: &RecommendArgs, name: &str) -> Option<String> {
    let spoken = match protocol(name)? {
        // Studies spoke 3.1.1.
        Protocol::Mqtt => Spoken::Mqtt3,
        other => Spoken::Other(other),
    };
    capability::obstacles(spoken, &query.needs, query.no_broker, query.custom_ok)
        .into_iter()
        .next()
}

/// What the studies say otherwise than numbers that were measured or computed: of their orders, and of their numbers.
pub fn contradiction(
    query: &RecommendArgs,
    ranking: &Ranking,
    stated_here: Option<Stated>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let stated = stated_here.or_else(|| {
        let orders = published::orders().ok()?;
        let paper = Source {
            orders,
            trials: Vec::new(),
            ..Source::paper().ok()?
        };
        stated(query, &[paper])
    });
    let (Some(stated), Some(best)) = (stated, ranking.candidates.first()) else {
        return notes;
    };
    // An order of which only one is left says nothing any more.
    if stated.places.iter().flatten().count() < 2 {
        return notes;
    }
    // What it chose is not told, so it neither confirms nor contradicts.
    if best.choice.adaptive().is_some() {
        return notes;
    }
    let ours = group::name(best.choice.publish.protocol);
    let theirs = stated.places.first().cloned().unwrap_or_default();
    let studies: Vec<&str> = stated.orders.iter().map(|it| it.study.as_str()).collect();
    let says: Vec<&str> = stated.orders.iter().map(|it| it.says.as_str()).collect();
    let study = studies.first().copied().unwrap_or_default();
    let data = match ranking.source.kind {
        SourceKind::Measured => "This measurement",
        SourceKind::Computed => "This computation",
        SourceKind::Published => "Another study's number",
    };
    let of_one_protocol = || {
        ranking
            .candidates
            .iter()
            .filter(|it| it.choice.adaptive().is_none())
    };
    let is_tied = |name: &String| {
        let mut of = of_one_protocol().filter(|it| group::name(it.choice.publish.protocol) == name);
        of.any(|it| it.standing != Standing::Worse)
    };
    let is_here =
        |name: &String| of_one_protocol().any(|it| group::name(it.choice.publish.protocol) == name);
    if !theirs.iter().any(is_here) {
        notes.push(format!(
            "Study {study}, which compares others, says: {}.",
            says.join("; ")
        ));
    } else if theirs.iter().any(|name| name == ours) {
        notes.push(format!("Study {study} says the same: {}.", says.join("; ")));
    } else if theirs.iter().any(is_tied) {
        notes.push(format!(
            "Study {study} says: {}. {data} does not tell these apart.",
            says.join("; ")
        ));
    } else {
        notes.push(format!(
            "Study {study} says otherwise: {}. {data} finds {ours} better; docs/laboratory.md says under which conditions \
             which holds.",
            says.join("; ")
        ));
    }
    notes
}
