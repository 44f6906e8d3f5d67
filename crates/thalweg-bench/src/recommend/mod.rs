//! Advice that rests on measurement: which protocol, quality of service, policy or group strategy for a load and a network.
//!
//! ```text
//!  query ──> capability (what cannot do it is left out, with the reason)
//!  sources ──> field (what may be compared; estimates inside the measured hull) ──> constraints ──> ranking, ties
//!         └──> orders (what a study states without numbers)                                        └──> turn (nearest crossover)
//!                                       nothing inside the hull: refusal, and the command that would measure it
//! ```
//!
//! Equal data give equal answers: nothing is drawn, and only the age of the data depends on the day.
//!
//! *Knows:* cells and rows, published numbers, what protocols can. *Must never know:* how anything is measured.

mod axes;
mod calibration;
mod capability;
mod ceilings;
mod choice;
mod command;
mod field;
mod measure;
mod order;
pub(crate) mod published;
mod query;
mod ranking;
mod refusal;

mod render;
mod snippet;
mod sources;
mod turn;

#[cfg(test)]
mod tests;

pub use calibration::calibration;
pub use capability::{Need, SPOKEN};
pub use command::run;
pub use order::Stated;
pub use query::{Objective, RecommendArgs};
pub use ranking::Ranking;
pub use refusal::Refusal;
pub use sources::Source;

use crate::energy;

#[derive(Clone, Debug)]
pub struct Advice {
    /// The question in a line.
    pub asked: String,
    /// Protocols that were left out, and why.
    pub left_out: Vec<(&'static str, Vec<String>)>,
    /// Protocols that were not, and what has to be known of them.
    pub conditions: Vec<(&'static str, Vec<String>)>,
    /// Extensions of this broker that would help where nothing else does.
    pub extensions: Vec<&'static str>,
    pub outcome: Outcome,
    /// What the studies say of the same question, and other things to know.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Ranked(Box<Ranking>),
    /// By what a study states without numbers.
    Stated(Stated),
    /// The data do not tell.
    Refused(Refusal),
    /// Nothing can do what is needed.
    Nothing,
}

/// Answers a query from data.
pub fn advise(query: &RecommendArgs, sources: &[Source]) -> Advice {
    let mut advice = Advice {
        asked: query.words(),
        left_out: Vec::new(),
        conditions: Vec::new(),
        extensions: Vec::new(),
        outcome: Outcome::Nothing,
        notes: Vec::new(),
    };
    // Strategies are asked of a broker that has a group: no word on protocols unless something is needed of them.
    let is_of_protocols = query.members.is_none() || !query.needs.is_empty() || query.no_broker;
    for spoken in SPOKEN.into_iter().filter(|_| is_of_protocols) {
        let obstacles = capability::obstacles(spoken, query);
        let conditions = capability::conditions(spoken, &query.needs);
        if !obstacles.is_empty() {
            advice.left_out.push((spoken, obstacles));
        } else if !conditions.is_empty() {
            advice.conditions.push((spoken, conditions));
        }
    }
    let is_nothing_left = advice.left_out.len() == SPOKEN.len();
    if is_nothing_left || query.needs.contains(&Need::P2p) {
        let extensions = query.needs.iter().filter_map(capability::extension);
        advice.extensions = extensions.collect();
    }
    if is_nothing_left {
        return advice;
    }
    let profile = energy::named(&query.energy_profile).unwrap_or(&energy::PROFILES[0]);
    let sources_at = sources.iter().enumerate();
    let mut fields: Vec<field::Field> = sources_at
        .flat_map(|(at, source)| field::fields(at, &source.trials, profile))
        .collect();
    fields.retain(|field| {
        field.is_group == query.members.is_some() && field.has_neighbour == query.bursty_neighbour
    });
    let orders: Vec<_> = sources.iter().flat_map(|it| it.orders.clone()).collect();
    let stated = order::stated(query, &orders);
    advice.outcome = match (ranking::rank(query, &fields, sources), stated) {
        (Ok(ranking), stated) => {
            let note = order::contradiction(query, &ranking, stated);
            advice.notes.extend(note);
            Outcome::Ranked(Box::new(ranking))
        }
        (Err(_), Some(stated)) => Outcome::Stated(stated),
        (Err(refusal), None) => Outcome::Refused(refusal),
    };
    advice
}
