//! The energy table: modelled, never measured.

use std::collections::BTreeMap;

use super::input::Input;
use super::page::place;
use crate::cell::{Cell, Row};
use crate::energy::{self, PROFILES, Profile};
use crate::report::document::{Column, Document, Table};
use crate::report::stat::short;
use crate::studies::group::{client, way};

/// What a message takes of a battery, as far as a model says.
pub fn energies(input: &Input, document: &mut Document) {
    let mut table = Table::new(&[
        "device (modelled)",
        "experiment",
        "point",
        "system",
        "way",
        "uJ a message",
        "rank",
        "it is sure",
    ]);
    // Ranks are among what can be compared: the same point of the same experiment.
    let mut points: BTreeMap<(&str, String), Vec<(&Cell, &Row)>> = BTreeMap::new();
    for group in input
        .groups
        .iter()
        .filter(|group| group.cell.system == "thalweg")
    {
        let experiment = group.cell.experiment.as_str();
        let is_shown = match experiment {
            "E2b" => group.payload() == Some(60) && [0.0, 20.0].contains(&group.loss_percent()),
            "E4a" => [Some(200), Some(1000)].contains(&group.payload()),
            _ => experiment == "E4b",
        };
        if let Some(row) = group.rows.first().filter(|_| is_shown) {
            let point = format!("{}, {}", place(group), client(group.cell.driver));
            let trials = points.entry((experiment, point)).or_default();
            trials.push((&group.cell, row));
        }
    }
    for ((experiment, point), trials) in &points {
        if trials.len() < 2 {
            continue;
        }
        let mut ranks = energy::ranks(trials);
        ranks.sort_by_key(|rank| (rank.profile, rank.rank));
        for rank in ranks {
            let Some((cell, _)) = trials.get(rank.trial) else {
                continue;
            };
            table.row([
                rank.profile.to_owned(),
                (*experiment).to_owned(),
                point.clone(),
                cell.system.clone(),
                way(&cell.publish),
                short(rank.energy_uj),
                rank.rank.to_string(),
                (if rank.rank_stable { "yes" } else { "no" }).to_owned(),
            ]);
        }
    }
    if table.rows.is_empty() {
        return;
    }
    document.part("Energy, modelled");
    document.text(
        "No joule was measured. This is a model of processor time, frames and bytes that were measured, with published \
         coefficients of devices (EXPERIMENTS 6), for the first repeat of each point. A rank is sure if it stays when any \
         coefficient is half or twice as large.",
    );
    document.folded("Modelled energy of a message, by device", table);
    let sources: [Column<Profile>; 3] = [
        ("device", |it| it.name.to_owned()),
        ("coefficients from", |it| it.source.to_owned()),
        ("assumed", |it| it.assumed.to_owned()),
    ];
    let sources = Table::of(PROFILES.iter(), &sources).of_sentences();
    document.folded("Where the coefficients come from", sources);
}
