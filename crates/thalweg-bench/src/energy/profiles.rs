//! Devices whose energy is modelled.

use std::sync::LazyLock;

use serde::Deserialize;

/// Coefficients of a device. Energies in microjoules, powers in watts, times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Its name in tables.
    pub name: String,
    /// Who published the coefficients, or what they were computed from.
    pub source: String,
    /// What of it is assumed and not measured.
    pub assumed: String,
    /// Whose traffic and processor count.
    pub side: Side,
    /// What a busy processor takes beyond an idle one.
    pub cpu_w: f64,
    /// How much longer the device computes than the machine on which it was measured.
    pub cpu_factor: f64,
    /// For a frame that leaves, whatever its length.
    pub sent_frame_uj: f64,
    /// For a byte that leaves.
    pub sent_byte_uj: f64,
    /// For a frame that comes.
    pub received_frame_uj: f64,
    /// For a byte that comes.
    pub received_byte_uj: f64,
    /// What the four above follow from, where they are not published.
    radio: Option<Radio>,
    /// How long the radio stays awake after its last frame, and what it takes meanwhile beyond sleep.
    pub tail_s: f64,
    /// See [`Profile::tail_s`].
    pub tail_w: f64,
    /// For a gigabyte of memory that is held.
    pub memory_w_per_gb: f64,
}

/// A radio by its currents.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Radio {
    sent_ma: f64,
    received_ma: f64,
    volts: f64,
    mbit: f64,
    /// What a frame takes beside its bytes.
    frame_us: f64,
}

/// Whose traffic and processor count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// A device that publishes or subscribes: the mean of both, so half of what both legs take.
    #[default]
    Client,
    /// The broker and all that comes to it and leaves it.
    Broker,
}

#[derive(Deserialize)]
struct Profiles {
    profile: Vec<Profile>,
}

/// All of them, in the order of their names.
pub static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let Profiles { mut profile } =
        toml::from_str(include_str!("profiles.toml")).expect("it is read by the tests");
    for it in &mut profile {
        let Some(radio) = it.radio else { continue };
        let watts = |milliamperes: f64| milliamperes * 1e-3 * radio.volts;
        it.sent_frame_uj = watts(radio.sent_ma) * radio.frame_us;
        it.sent_byte_uj = watts(radio.sent_ma) * 8.0 / radio.mbit;
        it.received_frame_uj = watts(radio.received_ma) * radio.frame_us;
        it.received_byte_uj = watts(radio.received_ma) * 8.0 / radio.mbit;
    }
    profile
});

/// The profile of a name.
pub fn named(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}
