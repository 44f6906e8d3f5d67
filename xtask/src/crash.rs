//! The long forms of the crash tests: `kill -9` for minutes, or power cuts.

use crate::packages;
use crate::program::Program;
use crate::report::Outcome;

/// What is done to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// `kill -9`, restarted on what is left.
    Kill,
    /// Power cuts of a disk that is an image in a file.
    Power,
}

/// Runs the tests that last `minutes`, side by side: sessions of MQTT, queues of AMQP and STOMP and the ways into them, CoAP, groups, and a gateway
/// with a buffer of its own; `tests` is the integration program, given its broker.
pub fn run(harm: Harm, minutes: f64, seed: Option<&str>, tests: Program) -> Outcome {
    if let Err(why) = packages::for_faults() {
        return Outcome::failed(why);
    }
    let all = match harm {
        Harm::Kill => &[
            "crash::for_minutes",
            "crash::queues::for_minutes",
            "crash::queues::ways::for_minutes",
            "crash::coap::for_minutes",
            "crash::groups::for_minutes",
            "crash::gateway::for_minutes",
            "crash::xmpp::ten_thousand_notifications",
            "crash::xmpp::ten_thousand_messages",
        ][..],
        Harm::Power => &[
            "crash::power::for_minutes",
            "crash::queues::power_cuts_for_minutes",
            "crash::coap::power_cuts_for_minutes",
        ],
    };
    tests
        .env(
            "THALWEG_CRASH_SECONDS",
            &((minutes * 60.0) as u64).to_string(),
        )
        .env("THALWEG_CRASH_SEED", seed.unwrap_or("1"))
        .args(all)
        .args(["--exact", "--ignored", "--nocapture"])
        .outcome_of_tests()
}
