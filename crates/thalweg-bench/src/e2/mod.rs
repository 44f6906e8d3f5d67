//! E2d: the adaptive client through a link whose loss changes, beside the same client with one protocol all along.
//!
//! Study B sent messages over MQTT and CoAP through one API while a share of all packets was lost, and left
//! the choice between them as future work. Here a publisher and a subscriber, in one namespace and with one clock, go through
//! a link that loses 0, 20, 5, 25 and 0 % of the packets, each for a while; the broker is behind it.
//!
//! ```text
//!  plan ──> courses ──> stage: network + broker + publisher + subscriber ──> trial ──> raw files ──> report
//! ```
//!
//! Each course has namespaces and a broker of its own, so courses run side by side. Start reading at [`plan`], then
//! [`stage`].

mod drawing;
pub mod plan;
pub mod raw;
pub mod report;
mod stage;
pub mod suite;
mod tally;
pub mod trial;
