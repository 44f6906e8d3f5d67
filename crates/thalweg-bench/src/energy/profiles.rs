//! Devices whose energy is modelled, with the sources of their coefficients.

/// Coefficients of a device. Energies in microjoules, powers in watts, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Its name in tables.
    pub name: &'static str,
    /// Who published the coefficients, or what they were computed from.
    pub source: &'static str,
    /// What of it is assumed and not measured.
    pub assumed: &'static str,
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
    /// How long the radio stays awake after its last frame, and what it takes meanwhile beyond sleep.
    pub tail_s: f64,
    /// See [`Profile::tail_s`].
    pub tail_w: f64,
    /// For a gigabyte of memory that is held.
    pub memory_w_per_gb: f64,
}

/// Whose traffic and processor count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A device that publishes or subscribes: the mean of both, so half of what both legs take.
    Client,
    /// The broker and all that comes to it and leaves it.
    Broker,
}

/// The profile of a name.
pub fn named(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Current and voltage times the time of a frame: 100 µs each, and its bytes at the rate of the radio.
const fn frame_uj(milliamperes: f64, volts: f64) -> f64 {
    milliamperes * 1e-3 * volts * PER_FRAME_US
}

/// See [`frame_uj`]; `mbit` is the rate of the radio in Mbit/s.
const fn byte_uj(milliamperes: f64, volts: f64, mbit: f64) -> f64 {
    milliamperes * 1e-3 * volts * 8.0 / mbit
}

/// Contention, preamble and acknowledgement of a frame in 802.11, about.
const PER_FRAME_US: f64 = 100.0;

/// Nothing of the kind.
const NONE: f64 = 0.0;

/// All of them, in the order of their names.
pub const PROFILES: [Profile; 6] = [
    Profile {
        name: "android-old",
        source: "power_profile.xml of the Nexus 5: wifi.active 73.24 mA, wifi.on 3.5 mA; as in study D, current times time",
        assumed: "3.7 V; 54 Mbit/s; CPU as android-wifi, computing 2 times as long as here; awake for 200 ms after a frame",
        side: Side::Client,
        cpu_w: 0.7844,
        cpu_factor: 2.0,
        sent_frame_uj: frame_uj(73.24, 3.7),
        sent_byte_uj: byte_uj(73.24, 3.7, 54.0),
        received_frame_uj: frame_uj(73.24, 3.7),
        received_byte_uj: byte_uj(73.24, 3.7, 54.0),
        tail_s: 0.2,
        tail_w: 3.5e-3 * 3.7,
        memory_w_per_gb: NONE,
    },
    Profile {
        name: "android-wifi",
        source: "power_profile.xml of the Pixel 2 and 2 XL: Wi-Fi idle 1, rx 125, tx 350 mA at 3.7 V; CPU cluster 212 mA at the top",
        assumed: "54 Mbit/s; computing 1.5 times as long as here; awake for 200 ms after a frame",
        side: Side::Client,
        cpu_w: 0.212 * 3.7,
        cpu_factor: 1.5,
        sent_frame_uj: frame_uj(350.0, 3.7),
        sent_byte_uj: byte_uj(350.0, 3.7, 54.0),
        received_frame_uj: frame_uj(125.0, 3.7),
        received_byte_uj: byte_uj(125.0, 3.7, 54.0),
        tail_s: 0.2,
        tail_w: 1e-3 * 3.7,
        memory_w_per_gb: NONE,
    },
    Profile {
        name: "cloud",
        source: "Cloud Carbon Footprint: vCPU 0.74 W idle to 3.5 W full, memory 0.392 W/GB, network 0.001 kWh/GB, PUE 1.135",
        assumed: "computing as long as here; the network's figure stands for both directions",
        side: Side::Broker,
        cpu_w: (3.5 - 0.74) * 1.135,
        cpu_factor: 1.0,
        sent_frame_uj: NONE,
        sent_byte_uj: 3.6,
        received_frame_uj: NONE,
        received_byte_uj: 3.6,
        tail_s: NONE,
        tail_w: NONE,
        memory_w_per_gb: 0.392 * 1.135,
    },
    Profile {
        name: "esp32",
        source: "public measurement study: about 129 mA active, 45 mA in minimum and 41 mA in maximum modem sleep, 3.3 V",
        assumed: "20 Mbit/s; computing 12.5 times as long as here (240 MHz for 3 GHz); minimum modem sleep for 102.4 ms after a frame",
        side: Side::Client,
        cpu_w: (129.0 - 45.0) * 1e-3 * 3.3,
        cpu_factor: 12.5,
        sent_frame_uj: frame_uj(129.0, 3.3),
        sent_byte_uj: byte_uj(129.0, 3.3, 20.0),
        received_frame_uj: frame_uj(129.0, 3.3),
        received_byte_uj: byte_uj(129.0, 3.3, 20.0),
        tail_s: 0.1024,
        tail_w: (45.0 - 41.0) * 1e-3 * 3.3,
        memory_w_per_gb: NONE,
    },
    Profile {
        name: "telosb",
        source: "CC2420 and TelosB data (Internet of Things: Principles and Paradigms, ch. 13): TX 17.4 mA, RX 19.7 mA at 3 V, 250 kbit/s; MCU 1.83 mA",
        assumed: "computing 375 times as long as here (8 MHz for 3 GHz, by the clock alone); radio asleep otherwise, no duty cycle of a MAC; bytes as on Ethernet",
        side: Side::Client,
        cpu_w: 1.83e-3 * 3.0,
        cpu_factor: 375.0,
        sent_frame_uj: NONE,
        sent_byte_uj: byte_uj(17.4, 3.0, 0.25),
        received_frame_uj: NONE,
        received_byte_uj: byte_uj(19.7, 3.0, 0.25),
        tail_s: NONE,
        tail_w: NONE,
        memory_w_per_gb: NONE,
    },
    Profile {
        name: "wifi-feeney",
        source: "linear model of Feeney and Nilsson: unicast send 1.9 uJ/B + 420 uJ, receive 0.42 uJ/B + 330 uJ",
        assumed: "a radio only: no processor; its 0.8 W idle are the same for all and left out",
        side: Side::Client,
        cpu_w: NONE,
        cpu_factor: 1.0,
        sent_frame_uj: 420.0,
        sent_byte_uj: 1.9,
        received_frame_uj: 330.0,
        received_byte_uj: 0.42,
        tail_s: NONE,
        tail_w: NONE,
        memory_w_per_gb: NONE,
    },
];
