//! The studies: which cells they are made of, how they are run, and which of their statements came out.
//!
//! *Knows:* what the studies measured and what they said. *Must never know:* how a cell is measured, how a page is drawn.

use crate::cell::{Cell, Row};
use crate::e2d::plan::CourseArgs;
use group::Group;
use plan::Budget;
use shape::Shape;

pub mod all;
pub mod args;
pub mod e1;
pub mod e2;
pub mod e2d;
pub mod e3;
pub mod e4;
pub mod e5;
pub mod fragments;
mod grid;
pub mod group;
pub mod plan;
#[cfg(test)]
mod refuted;
pub mod shape;
pub mod suite;

/// A study that is made of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study {
    /// Three classes of traffic.
    E1,
    /// Loss, MQTT and CoAP.
    E2,
    /// The client that chooses its protocol.
    E2d,
    /// Flood, periodic, sporadic, policies.
    E3,
    E4,
    /// Shared subscriptions that know the state of their members.
    E5,
}

impl Study {
    pub const ALL: [Study; 6] = [
        Study::E1,
        Study::E2,
        Study::E2d,
        Study::E3,
        Study::E4,
        Study::E5,
    ];

    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What it is about, for a heading.
    pub fn title(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Study::E1 => ("E1", "E1: three classes of traffic"),
            Study::E2 => ("E2", "E2: MQTT and CoAP through a link that loses packets"),
            Study::E2d => ("E2d", "E2d: the protocol chosen while the loss changes"),
            Study::E3 => (
                "E3",
                "E3: flood, periodic and sporadic traffic over 95 Mbit/s",
            ),
            Study::E4 => ("E4", "E4: MQTT, AMQP and STOMP on one device"),
            Study::E5 => (
                "E5",
                "E5: shared subscriptions that know the state of their members",
            ),
        }
    }

    /// Its cells, in an order drawn from the seed.
    #[cfg(test)]
    pub fn cells(self, budget: Budget, seed: u64) -> Vec<Cell> {
        self.cells_of(&CourseArgs::default(), budget, seed)
    }

    /// The same; of E2d those of such courses.
    pub fn cells_of(self, courses: &CourseArgs, budget: Budget, seed: u64) -> Vec<Cell> {
        let of = |text| grid::cells(text, budget, seed).expect("a test reads it");
        let mut cells = match self {
            Study::E1 => of(include_str!("e1.toml")),
            Study::E2 => of(include_str!("e2.toml")),
            Study::E2d => crate::e2d::plan::cells(courses, budget, seed),
            Study::E3 => of(include_str!("e3.toml")),
            Study::E4 => of(include_str!("e4.toml")),
            Study::E5 => crate::e5::plan::cells(&crate::e5::plan::recipes(budget), seed),
        };
        plan::shuffle(&mut cells, seed);
        cells
    }

    /// What became of its statements.
    ///
    /// `groups` are the trials that count, `trials` all of them: a point at which a broker broke down belongs to a curve.
    pub fn shapes(self, groups: &[Group], trials: &[(Cell, Row)]) -> Vec<Shape> {
        let mut shapes = match self {
            Study::E1 => e1::shapes(groups, trials),
            Study::E2 => e2::shapes(groups),
            Study::E2d => e2d::shapes(groups),
            Study::E3 => e3::shapes(groups),
            Study::E4 => e4::shapes(groups),
            Study::E5 => e5::shapes(groups),
        };
        if groups.iter().all(|group| group.rows.len() < 2) {
            for shape in &mut shapes {
                for found in [&mut shape.baseline, &mut shape.ours] {
                    *found = found
                        .clone()
                        .under("one repeat of each point: there are no intervals");
                }
            }
        }
        shapes
    }

    /// How many of its cells may run side by side, because they take next to nothing of the machine.
    pub fn abreast(self) -> usize {
        match self {
            // E2d and E5 have loops of their own.
            Study::E1 | Study::E2d | Study::E3 | Study::E5 => 1,
            // They wait for lost packets.
            Study::E2 => 40,
            // Their round trips are short and feel each other.
            Study::E4 => 4,
        }
    }

    /// The study that an experiment belongs to: `E2b` to E2, but `E2d` to itself.
    pub fn of(experiment: &str) -> Option<Study> {
        Self::ALL.into_iter().rev().find(|study| {
            experiment
                .strip_prefix(study.name())
                .is_some_and(|rest| rest.len() < 2 && rest.chars().all(|c| c.is_ascii_lowercase()))
        })
    }
}
