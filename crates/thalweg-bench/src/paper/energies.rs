//! The energy table: modelled, never measured.

use std::collections::BTreeMap;

use super::input::Input;
use super::page::place;
use crate::cell::{Cell, Row};
use crate::energy::{self, PROFILES};
use crate::report::document::{Document, Table};
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
    let mut points: BTreeMap<(String, String), Vec<(&Cell, &Row)>> = BTreeMap::new();
    for group in input
        .groups
        .iter()
        .filter(|group| ["E2b", "E4a", "E4b"].contains(&group.cell.experiment.as_str()))
    {
        let is_shown = match group.cell.experiment.as_str() {
            "E2b" => group.payload() == Some(60) && [0.0, 20.0].contains(&group.loss_percent()),
            "E4a" => [Some(200), Some(1000)].contains(&group.payload()),
            _ => true,
        };
        if let Some(row) = group
            .rows
            .first()
            .filter(|_| is_shown && group.cell.system == "thalweg")
        {
            let key = (
                group.cell.experiment.clone(),
                format!("{}, {}", place(group), client(group.cell.driver)),
            );
            points.entry(key).or_default().push((&group.cell, row));
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
                experiment.clone(),
                point.clone(),
                cell.system.clone(),
                way(&cell.publish),
                short(rank.energy_uj),
                rank.rank.to_string(),
                if rank.rank_stable {
                    "yes".to_owned()
                } else {
                    "no".to_owned()
                },
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
    let mut sources = Table::new(&["device", "coefficients from", "assumed"]).of_sentences();
    for profile in PROFILES.iter() {
        sources.row([
            profile.name.to_owned(),
            profile.source.to_owned(),
            profile.assumed.to_owned(),
        ]);
    }
    document.folded("Where the coefficients come from", sources);
}
