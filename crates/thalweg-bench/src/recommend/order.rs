//! What studies state without numbers, and whether numbers contradict it.

use super::RecommendArgs;
use super::capability;
use super::measure::Metric;
use super::published::{self, Order};
use super::ranking::{Candidate, Ranking, Standing};
use super::sources::SourceKind;
use crate::cell::{Leg, Protocol};
use crate::studies::group;

/// An order that studies state for what is asked.
#[derive(Clone, Debug)]
pub struct Stated {
    /// The best first; those in one place are equal, or not told apart.
    pub places: Vec<Vec<String>>,
    /// What was left out of them, and why.
    pub left_out: Vec<(String, String)>,
    /// What it rests on; if these are several, their mean ranks.
    pub orders: Vec<Order>,
    /// What the same study states of other situations.
    pub elsewhere: Vec<String>,
}

impl Stated {
    /// The letter of the study, and all that is taken of it.
    pub fn study(&self) -> &str {
        self.orders.first().map_or("", |order| &order.study)
    }
}

/// What these orders say of a query.
pub fn stated(query: &RecommendArgs, orders: &[Order]) -> Option<Stated> {
    if query.members.is_some()
        || query.bursty_neighbour
        || query.p99_max.is_some()
        || query.bandwidth.is_some()
    {
        return None;
    }
    let goals = query.goals();
    let is_of = |order: &Order, metric: &Metric| order.metric == metric.name();
    let holding = |(metric, weight): &(Metric, f64)| {
        let (metric, weight) = (*metric, *weight);
        let of = orders
            .iter()
            .filter(move |it| is_of(it, &metric) && it.holds(|axis| query.on(axis)));
        of.map(move |it| (it, weight))
    };
    let mut found: Vec<(&Order, f64)> = goals.iter().flat_map(holding).collect();
    let (first, _) = *found.first()?;
    // Orders of one study may be put together; those of several have other machines and other candidates.
    found.retain(|(it, _)| it.study == first.study);
    let mut left_out = Vec::new();
    let mut ranks: Vec<(f64, &str)> = Vec::new();
    for name in first.order.iter().flatten() {
        match obstacle(query, name) {
            Some(why) => left_out.push((words(name), why)),
            None => {
                let ranks_of = found.iter().map(|(it, weight)| weight * rank(it, name));
                ranks.push((ranks_of.sum(), name));
            }
        }
    }
    if ranks.is_empty() {
        return None;
    }
    left_out.sort();
    ranks.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    let places = ranks.chunk_by(|a, b| (a.0 - b.0).abs() < 1e-9);
    let names = |place: &[(f64, &str)]| place.iter().map(|(_, name)| words(name)).collect();
    let elsewhere = orders.iter().filter(|it| {
        let is_asked = goals.iter().any(|(metric, _)| is_of(it, metric));
        it.study == first.study && is_asked && !found.iter().any(|(known, _)| known == it)
    });
    Some(Stated {
        places: places.map(names).collect(),
        left_out,
        elsewhere: elsewhere.map(|it| it.says.clone()).collect(),
        orders: found.into_iter().map(|(it, _)| it.clone()).collect(),
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
    // Studies spoke MQTT 3.1.1.
    let leg = Leg::of(protocol(name)?, 0);
    let obstacles = capability::obstacles(capability::spoken(&Leg { version: 3, ..leg }), query);
    obstacles.into_iter().next()
}

/// What the studies say otherwise than numbers that were measured or computed: of their orders, and of their numbers.
pub fn contradiction(
    query: &RecommendArgs,
    ranking: &Ranking,
    stated_here: Option<Stated>,
) -> Option<String> {
    let stated = match stated_here {
        Some(stated) => stated,
        None => stated(query, &published::orders())?,
    };
    let best = ranking.candidates.first()?;
    // An order of which only one is left says nothing any more. What our client chose is not told, so it neither confirms nor
    // contradicts.
    if stated.places.iter().flatten().count() < 2 || best.choice.adaptive().is_some() {
        return None;
    }
    let name_of = |it: &Candidate| group::name(it.choice.publish.protocol);
    let theirs = stated.places.first()?;
    let candidates = ranking.candidates.iter();
    let mut here = candidates.filter(|it| {
        it.choice.adaptive().is_none() && theirs.iter().any(|name| name == name_of(it))
    });
    let says: Vec<&str> = stated.orders.iter().map(|it| it.says.as_str()).collect();
    let (study, says) = (stated.study(), says.join("; "));
    let data = match ranking.source.kind {
        SourceKind::Measured => "This measurement",
        SourceKind::Computed => "This computation",
        SourceKind::Published => "Another study's number",
    };
    let ours = name_of(best);
    Some(if here.clone().next().is_none() {
        format!("Study {study}, which compares others, says: {says}.")
    } else if theirs.iter().any(|name| name == ours) {
        format!("Study {study} says the same: {says}.")
    } else if here.any(|it| it.standing != Standing::Worse) {
        format!("Study {study} says: {says}. {data} does not tell these apart.")
    } else {
        format!(
            "Study {study} says otherwise: {says}. {data} finds {ours} better; docs/laboratory.md says under which conditions \
             which holds."
        )
    })
}
