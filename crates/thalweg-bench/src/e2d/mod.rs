//! E2d: the adaptive client through a link whose loss changes, beside the same client with one protocol all along.
//!
//! Study B sent messages over MQTT and CoAP through one API while a share of all packets was lost, and left
//! the choice between them as future work. Here a publisher and a subscriber, in one namespace and with one clock, go through
//! a link that loses 0, 20, 5, 25 and 0 % of the packets, each for a while; the broker is behind it.
//!
//! ```text
//!  plan ──> cells, one per step ──> courses ──> stage: network + broker + publisher + subscriber ──> trial ──> rows
//! ```
//!
//! Each course has namespaces and a broker of its own, so courses run side by side. What is said of them is the study's
//! ([`crate::studies`]). Start reading at [`plan`], then [`stage`].

pub mod plan;
mod stage;
mod trial;

use std::sync::atomic::AtomicBool;

use crate::cell::{Cell, Measured};
use crate::net::network;
use crate::runner::pool::{self, Room};
use crate::studies::args::SuiteArgs;
pub use trial::WAYS;

/// Runs the courses that these cells are steps of, and passes what was measured in each step to the consumer, which says
/// whether to go on.
pub fn drive(
    cells: &[Cell],
    args: &SuiteArgs,
    stop: &AtomicBool,
    take: &mut (dyn FnMut(&Cell, Measured) -> bool + Send),
) {
    network::sweep();
    let courses = plan::courses(cells, &args.course);
    let room = Room {
        abreast: args.course.abreast as usize,
        busy_max: f64::INFINITY,
    };
    pool::drive(
        &courses,
        room,
        stop,
        &|course| stage::run(course, stop),
        &mut |course, trial| {
            let mut due = course.due.iter();
            due.all(|cell| take(cell, trial.measured(cell)))
        },
    );
}
