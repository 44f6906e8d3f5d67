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
mod sources;
mod turn;

#[cfg(test)]
mod tests;

pub use axes::{AXES, Axis, Point};
pub use calibration::calibration;
pub use capability::{Need, SPOKEN, Spoken, Support};
pub use choice::Choice;
pub use command::run;
pub use field::{ASSUMED, Figure};
pub use measure::{METRICS, Metric};
pub use order::Stated;
pub use query::{Members, Objective, RecommendArgs, Weights};
pub use ranking::{Candidate, Confidence, Level, Ranking, Standing};
pub use refusal::Refusal;
pub use sources::{About, Source, SourceKind};
pub use turn::Turn;

use crate::energy;

#[derive(Clone, Debug)]
pub struct Advice {
    /// The question in a line.
    pub asked: String,
    /// Protocols that were left out, and why.
    pub left_out: Vec<(String, Vec<String>)>,
    /// Protocols that were not, and what has to be known of them.
    pub conditions: Vec<(String, Vec<String>)>,
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
    let mut left_out = Vec::new();
    let mut conditions = Vec::new();
    for spoken in SPOKEN {
        let obstacles =
            capability::obstacles(spoken, &query.needs, query.no_broker, query.custom_ok);
        let known = capability::conditions(spoken, &query.needs);
        // Strategies are asked of a broker that has a group: no word on protocols unless something is needed of them.
        if query.members.is_some() && query.needs.is_empty() && !query.no_broker {
            continue;
        }
        if !obstacles.is_empty() {
            left_out.push((spoken.to_string(), obstacles));
        } else if !known.is_empty() {
            conditions.push((spoken.to_string(), known));
        }
    }
    let extensions = if left_out.len() == SPOKEN.len() || query.needs.contains(&Need::P2p) {
        query
            .needs
            .iter()
            .filter_map(|need| capability::extension(*need))
            .collect()
    } else {
        Vec::new()
    };
    let mut advice = Advice {
        asked: query.words(),
        left_out,
        conditions,
        extensions,
        outcome: Outcome::Nothing,
        notes: Vec::new(),
    };
    if advice.left_out.len() == SPOKEN.len() {
        return advice;
    }
    let profile = energy::named(&query.energy_profile).unwrap_or(&energy::PROFILES[0]);
    let fields = sources
        .iter()
        .enumerate()
        .flat_map(|(at, source)| field::fields(at, &source.trials, profile));
    let fields: Vec<field::Field> = fields.filter(|field| is_asked_for(query, field)).collect();
    let ranked = ranking::rank(query, &fields, sources);
    let stated = order::stated(query, sources);
    advice.outcome = match (ranked, stated) {
        (Ok(ranking), stated) => {
            advice
                .notes
                .extend(order::contradiction(query, &ranking, stated));
            Outcome::Ranked(Box::new(ranking))
        }
        (Err(_), Some(stated)) => Outcome::Stated(stated),
        (Err(refusal), None) => Outcome::Refused(refusal),
    };
    advice
}

fn is_asked_for(query: &RecommendArgs, field: &field::Field) -> bool {
    field.is_group == query.members.is_some() && field.has_neighbour == query.bursty_neighbour
}
