//! What keys a scenario has, their defaults, and the cell that one point of it is.

use clap::ValueEnum;

use super::Assertion;
use super::section::{Section, check};
use super::tree::Node;
use super::values::{among, bytes, chosen, count, factor, one_of, part, some, switch, time, word};
use crate::cell::{
    CallCounter, Carrier, Cell, Driver, Engine, Extras, Leg, Link, Load, Phases, Protocol, Workload,
};
use crate::drivers::api::carried;
use crate::load::schedule::Arrivals;
use crate::net::units;

/// What is of the scenario and not of a point.
#[derive(Clone, Debug)]
pub struct Frame {
    pub name: String,
    /// How often each point is measured. Default 3.
    pub repeats: u32,
    /// What is to be reported; everything is measured that can be. Default: latency and delivery.
    pub metrics: Vec<String>,
    /// What has to come out.
    pub assertions: Vec<Assertion>,
}

/// Reads all but `sweep` and `budgets`.
pub fn read(scenario: &Node) -> Result<(Frame, Cell), String> {
    check("", scenario)?;
    let root = Section::new("", scenario)?;
    let assertions = root.words("assert")?;
    let assertions = assertions.iter().map(|text| Assertion::parse(text));
    let frame = Frame {
        name: root.must("name", word)?,
        repeats: root.or("repeats", 3, some)?,
        metrics: root.words("metrics")?,
        assertions: assertions.collect::<Result<_, String>>()?,
    };
    root.maybe("description", word)?;
    root.maybe("version", |text| match text {
        "1" => Ok(()),
        _ => Err(format!("{text}: this program reads version 1")),
    })?;
    for metric in &frame.metrics {
        among(metric, METRICS).map_err(|why| format!("metrics: {why}"))?;
    }
    let link = link(root.section("topology")?)?;
    let system = root.section("system")?;
    let broker = system.section("broker")?;
    let generator = system.section("generator")?;
    let cpus = (broker.maybe("cpu", count)?, generator.maybe("cpu", count)?);
    let broker_settings = Node::leaves(broker.free("settings")?);
    let named = system.or("name", "own".to_owned(), word)?;
    let driver = system.or("driver", Driver::Common, chosen)?;
    let counter = system.maybe("count_system_calls", chosen::<CallCounter>)?;
    let protocol_section = root.section("protocol")?;
    let carrier = protocol_section.or("transport", None, |text| match text {
        "plain" => Ok(None),
        _ => chosen::<Carrier>(text).map(Some),
    })?;
    let (publish, subscribe) = legs(protocol_section)?;
    let workload_section = root.section("workload")?;
    let payload = workload_section.maybe("payload", word)?;
    let (workload, seed) = workload(workload_section, payload.is_some())?;
    let load_section = root.section("load")?;
    let subscriptions = load_section.or("subscriptions", "topics", |text| {
        among(text, ["topics", "shared", "wildcard", "shared-wildcard"])
    })?;
    let pace = load_section.or("pace", "off", |text| {
        among(text, ["off", "turbo", "throttle", "both"])
    })?;
    let extras = Extras {
        idle: load_section.or("idle_connections", 0, count)?,
        user: system.maybe("user", word)?,
        carrier,
        ca: system.maybe("ca", word)?,
        shared: subscriptions.contains("shared"),
        wildcard: subscriptions.contains("wildcard"),
        retained: load_section.or("retained", 0, count)?,
        backlog: load_section.or("backlog", 0, count)?,
        payload,
        turbo: ["turbo", "both"].contains(&pace),
        throttle: ["throttle", "both"].contains(&pace),
        ..Extras::default()
    };
    let (load, fan_out) = load(load_section, &workload)?;
    let phases = phases(root.section("phases")?)?;
    let wire = frame
        .metrics
        .iter()
        .any(|metric| metric == "wire" || metric == "energy");
    if wire && !link.namespaces {
        return Err(
            "metrics: bytes of the wire (wire, energy) are counted only with topology.kind: t3"
                .to_owned(),
        );
    }
    if driver == Driver::Bare
        && (publish.protocol != Protocol::Mqtt || subscribe.protocol != Protocol::Mqtt)
    {
        return Err("system.driver: bare speaks MQTT only".to_owned());
    }
    possible(&extras, driver, &publish, &subscribe)?;
    let mut cell = Cell {
        experiment: frame.name.clone(),
        seed,
        system: match named.as_str() {
            "own" => "thalweg".to_owned(),
            _ => named,
        },
        broker_settings: broker_settings.into_iter().collect(),
        cpus,
        driver,
        publish,
        subscribe,
        link,
        workload,
        load,
        phases,
        fan_out,
        extras,
        ..Cell::blank()
    };
    if let Some(by) = counter {
        cell.count_calls(by);
    }
    Ok((frame, cell))
}

/// Whether a driver can do what there is beside the messages.
fn possible(extras: &Extras, driver: Driver, publish: &Leg, subscribe: &Leg) -> Result<(), String> {
    let (by_mqtt, to_mqtt) = (
        publish.protocol == Protocol::Mqtt,
        subscribe.protocol == Protocol::Mqtt,
    );
    let (is_stock, is_common) = (driver == Driver::Stock, driver == Driver::Common);
    let beside = "they speak MQTT, beside the common or the bare driver";
    let common = "they need MQTT's subscriber and the common driver";
    let both = by_mqtt && to_mqtt && !is_stock;
    let (shares, paced) = (
        extras.shared || extras.wildcard,
        extras.turbo || extras.throttle,
    );
    let (pace, carried_by) = (
        "only the common driver has turbo and throttle",
        "only the common driver speaks over TLS and WebSocket",
    );
    for (key, is_asked, can, why) in [
        (
            "load.idle_connections",
            extras.idle > 0,
            by_mqtt && !is_stock,
            beside,
        ),
        ("load.retained", extras.retained > 0, both, beside),
        ("load.backlog", extras.backlog > 0, both, beside),
        ("load.subscriptions", shares, to_mqtt && is_common, common),
        ("load.pace", paced, is_common, pace),
        (
            "protocol.transport",
            extras.carrier.is_some(),
            is_common,
            carried_by,
        ),
    ] {
        if is_asked && !can {
            return Err(format!("{key}: {why}"));
        }
    }
    for leg in [publish, subscribe]
        .into_iter()
        .filter(|_| extras.carrier.is_some())
    {
        carried(leg.protocol, extras.carrier)
            .map_err(|why| format!("protocol.transport: {why}"))?;
    }
    Ok(())
}

fn link(topology: Section<'_>) -> Result<Link, String> {
    let namespaces = topology.or("kind", false, |text| {
        one_of(text, &[("t3", true), ("loopback", false)])
    })?;
    let link = topology.section("link")?;
    let found = Link {
        namespaces,
        loss: link.or("loss", 0.0, part)?,
        delay_ns: link.or("delay", 0, time)?,
        jitter_ns: link.or("jitter", 0, time)?,
        rate: link.maybe("rate", units::rate)?,
        reorder: link.or("reorder", 0.0, part)?,
        duplicate: link.or("duplicate", 0.0, part)?,
        engine: link.or("loss_engine", Engine::Auto, chosen)?,
        ..Link::LOOPBACK
    };
    let plain = Link {
        namespaces,
        engine: found.engine,
        ..Link::LOOPBACK
    };
    if !namespaces && found != plain {
        return Err(
            "topology.link: a loopback has no losses, delays and rates; topology.kind: t3 has"
                .to_owned(),
        );
    }
    Ok(found)
}

fn legs(section: Section<'_>) -> Result<(Leg, Leg), String> {
    let first = section.must("publish", chosen)?;
    let second = section.or("subscribe", first, chosen)?;
    let qos = section.maybe("qos", count)?;
    let con = section.maybe("con", switch)?;
    let subscribe_qos = section.maybe("subscribe_qos", count)?;
    let version = section.or("version", 5, |text| {
        one_of(text, &[("5", 5), ("3", 3), ("3.1.1", 3)])
    })?;
    let window = section.or("window", 20, some)?;
    let path = section.path_of("qos");
    let asked = match (qos, con) {
        (Some(_), Some(_)) => {
            return Err(format!("{path}: qos or con, not both: con: true is qos: 1"));
        }
        (qos, con) => qos.or(con.map(u32::from)).unwrap_or(0),
    };
    let leg = |protocol: Protocol, qos: u32| {
        let has_two = matches!(protocol, Protocol::Mqtt | Protocol::Amqp | Protocol::Stomp);
        let most = if has_two { 2 } else { 1 };
        match u8::try_from(qos) {
            Ok(qos) if qos <= most => Ok(Leg {
                protocol,
                qos,
                version,
                window,
            }),
            _ => Err(format!(
                "{path}: {qos} is more than {protocol:?} has: 0 to {most}"
            )),
        }
    };
    Ok((
        leg(first, asked)?,
        leg(second, subscribe_qos.unwrap_or(asked))?,
    ))
}

fn workload(section: Section<'_>, has_payload: bool) -> Result<(Workload, u64), String> {
    let class = section.or("class", "fixed", |text| among(text, CLASSES))?;
    let (size, file) = (section.maybe("size", bytes)?, section.maybe("file", word)?);
    let seed = section.or("seed", 42, count)?;
    let inline = section.or("header", false, |text| {
        one_of(text, &[("inline", true), ("auto", false)])
    })?;
    if inline && size.is_some_and(|size| size < HEADER_BYTES) {
        return Err(format!(
            "workload.header: an inline header takes {HEADER_BYTES}B; header: auto does without"
        ));
    }
    let workload = match (class, size, file) {
        // The file says how large it is.
        ("fixed", None, None) if has_payload => Workload::Fixed {
            bytes: HEADER_BYTES,
        },
        _ if has_payload => {
            return Err("workload.payload: a file has its size, and no class".to_owned());
        }
        ("fixed", Some(bytes), None) => Workload::Fixed { bytes },
        ("json", Some(bytes), None) => Workload::Json { bytes },
        ("trace", None, Some(file)) => Workload::Trace { file },
        (class, size, file) => {
            let name = class.to_owned();
            let why = match class {
                "fixed" | "json" => "this class takes size, and no file",
                "trace" => "class trace takes file, and sizes come from it",
                _ if (size, file) == (None, None) => {
                    return Ok((Workload::Class { name, seed }, seed));
                }
                _ => "this class has sizes of its own, and takes no file",
            };
            return Err(format!("workload: {why}"));
        }
    };
    Ok((workload, seed))
}

fn load(section: Section<'_>, workload: &Workload) -> Result<(Load, u32), String> {
    let model = section.or("model", Model::Open, chosen)?;
    let flows = section.or("flows", 1, some)?;
    let fan_out = section.or("fan_out", 1, some)?;
    let rate = section.maybe("rate", units::frequency)?;
    let arrivals = section.maybe("arrivals", chosen::<Arrivals>)?;
    let (think, speed) = (
        section.maybe("think", time)?,
        section.maybe("speed", factor)?,
    );
    let rate_scale = section.maybe("rate_scale", factor)?;
    let asked = [
        ("rate", rate.is_some(), Model::Open),
        ("arrivals", arrivals.is_some(), Model::Open),
        ("think", think.is_some(), Model::Closed),
        ("speed", speed.is_some(), Model::Replay),
        ("rate_scale", rate_scale.is_some(), Model::Replay),
    ];
    if let Some((key, ..)) = asked.iter().find(|(_, asked, of)| *asked && *of != model) {
        return Err(format!("load.{key}: this model has none"));
    }
    let load = match model {
        Model::Open => {
            let rate = rate.ok_or("load.rate: it has no default and is missing")?;
            Load::Open {
                rate,
                flows,
                arrivals: arrivals.unwrap_or(Arrivals::Periodic),
            }
        }
        Model::Closed => Load::Closed {
            think_ns: think.unwrap_or(0),
            flows,
        },
        Model::Replay if !matches!(workload, Workload::Trace { .. } | Workload::Class { .. }) => {
            return Err(
                "load.model: replay needs workload.class: trace, or a class of study A".to_owned(),
            );
        }
        Model::Replay => Load::Replay {
            speed: speed.unwrap_or(1.0),
            flows,
            rate_scale: rate_scale.unwrap_or(1.0),
        },
        Model::Flood => Load::Flood { flows },
    };
    Ok((load, fan_out))
}

fn phases(section: Section<'_>) -> Result<Phases, String> {
    let phases = Phases {
        settle_ns: section.or("settle", SECOND, time)?,
        warmup_ns: section.or("warmup", 2 * SECOND, time)?,
        measure_ns: section.or("measure", 10 * SECOND, time)?,
        drain_ns: section.or("drain", 5 * SECOND, time)?,
    };
    match phases.measure_ns {
        0 => Err("phases.measure: it has to last".to_owned()),
        _ => Ok(phases),
    }
}

/// The last three are study A's.
const CLASSES: [&str; 6] = ["fixed", "json", "trace", "simple", "complex", "multimedia"];

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    Open,
    Closed,
    Replay,
    Flood,
}

const SECOND: u64 = 1_000_000_000;
/// What tells a message from others and when it was to be sent (`load`).
const HEADER_BYTES: u32 = 36;
/// What a scenario may ask for.
const METRICS: [&str; 6] = ["latency", "wire", "delivery", "cpu", "rss", "energy"];
