//! Drivers that are written against a stock library of their protocol: programs, as [`super::program`] describes.
//!
//! MQTT (paho-mqtt), AMQP (pika), STOMP (stomp.py) and CoAP (aiocoap) are one script in Python, which comes with this program
//! and runs with libraries in a folder of their own; ZMTP is libzmq, DDS is Cyclone DDS, XMPP is libstrophe, each in C.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::brokers::{NoBroker, cache, peer};
use crate::cell::{Cell, Protocol};

/// The program for a cell. It is started where the trial's clients are to be.
pub fn command(cell: &Cell) -> Result<Command, NoBroker> {
    let (publish, subscribe) = (cell.publish.protocol, cell.subscribe.protocol);
    if publish != subscribe {
        let words = format!(
            "stock clients publish and subscribe by one protocol, not by {publish:?} and {subscribe:?}"
        );
        return Err(NoBroker::Failed(io::Error::other(words)));
    }
    let name = match publish {
        Protocol::Zmtp => "zmqpeer",
        Protocol::Dds => "ddspeer",
        Protocol::Xmpp => "xmpppeer",
        Protocol::Mqtt | Protocol::Amqp | Protocol::Stomp | Protocol::Coap => return script(),
    };
    let mut command = Command::new(peer(name)?);
    command.arg("drive");
    Ok(command)
}

/// The script, written into the cache if it is not there as it is here.
fn script() -> Result<Command, NoBroker> {
    let python = python();
    if !python.is_file() {
        return Err(NoBroker::Absent(INSTALL.to_owned()));
    }
    let script = cache().join("stock.py");
    if !fs::read_to_string(&script).is_ok_and(|text| text == SCRIPT) {
        fs::create_dir_all(cache())?;
        // Another process may be about to read it.
        let half = cache().join(format!("stock.{}", std::process::id()));
        fs::write(&half, SCRIPT)?;
        fs::rename(&half, &script)?;
    }
    let mut command = Command::new(python);
    command.arg("-u").arg(script);
    Ok(command)
}

/// Libraries and their versions, or what installs them.
pub fn versions() -> Vec<(&'static str, Result<String, NoBroker>)> {
    let strophe = peer("xmpppeer").and_then(|peer| {
        let output = Command::new(peer).arg("version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    let mut all = of_python();
    all.push(("libstrophe", strophe));
    all
}

fn of_python() -> Vec<(&'static str, Result<String, NoBroker>)> {
    let script =
        "import importlib.metadata as m, sys\nfor name in sys.argv[1:]: print(m.version(name))";
    let names = LIBRARIES.map(|(name, _)| name);
    let output = Command::new(python())
        .args(["-c", script])
        .args(names)
        .stdin(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let mut lines = text.lines();
    let each = LIBRARIES.map(|(name, _)| {
        let version = lines.next().map(|version| format!("{name} {version}"));
        let absent = || NoBroker::Absent(INSTALL.to_owned());
        (name, version.ok_or_else(absent))
    });
    Vec::from(each)
}

/// Makes the folder with the libraries, if they are not in it; returns it.
pub fn install() -> io::Result<PathBuf> {
    let folder = folder();
    let run = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output()?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(
                words.lines().last().unwrap_or("it failed"),
            )),
        }
    };
    if !python().is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    if of_python().iter().any(|(_, version)| version.is_err()) {
        let wanted = LIBRARIES.map(|(name, version)| format!("{name}=={version}"));
        let pip = "-m pip install --quiet --disable-pip-version-check";
        run(Command::new(python()).args(pip.split(' ')).args(wanted))?;
    }
    Ok(folder)
}

fn folder() -> PathBuf {
    std::env::var_os("THALWEG_STOCK_VENV").map_or_else(|| cache().join("python"), PathBuf::from)
}

fn python() -> PathBuf {
    folder().join("bin/python")
}

/// What a measurement was made with is to be the same next time.
const LIBRARIES: [(&str, &str); 4] = [
    ("paho-mqtt", "2.2.0"),
    ("pika", "1.4.4"),
    ("stomp.py", "9.0.0"),
    ("aiocoap", "0.4.17"),
];
const INSTALL: &str = "thalweg bench doctor --install";
const SCRIPT: &str = include_str!("../../../native/stock.py");

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::calibrate::frames;
    use crate::cell::{Driver, Load, Standing};
    use crate::studies::plan::phases;
    use crate::trial;

    use Driver::{Common, Stock};
    use Protocol::{Amqp, Coap, Dds, Mqtt, Stomp, Xmpp, Zmtp};

    /// Whether all of some messages go through a broker; says so if something is not installed.
    fn goes_through(driver: Driver, system: &str, protocol: Protocol, qos: u8) {
        let mut cell = frames::cell(system, protocol, qos);
        cell.link.namespaces = false;
        cell.driver = driver;
        cell.load = Load::open(20.0, 3);
        cell.phases = phases(0.1, 0.2, 1.0, 20.0);
        (cell.publish.window, cell.subscribe.window) = (20, 20);
        let row = trial::run(&cell, &AtomicBool::new(false)).row;
        let what = format!("{driver:?} {system} {protocol:?} QoS {qos}");
        match &row.standing {
            Standing::Absent(install) => println!("skipped: {what}: {install}"),
            // How well this machine keeps times is not the question here.
            Standing::Valid | Standing::GeneratorLimited(_) | Standing::HeldBack(_) => {
                let is_whole = row.sent >= 57 && row.delivered == row.expected;
                assert!(is_whole && row.unacknowledged == 0, "{what}: {row:?}");
            }
            Standing::Invalid(why) => panic!("{what}: {why}"),
        }
    }

    #[test]
    fn clients_publish_and_receive_where_they_are() {
        for (driver, system, protocol, levels) in [
            (Stock, "zmq-proxy", Zmtp, &[0][..]),
            (Stock, "zmq-peers", Zmtp, &[0]),
            (Stock, "thalweg", Zmtp, &[0]),
            (Stock, "cyclonedds", Dds, &[0, 1]),
            // Skipped by a broker that was built without.
            (Stock, "thalweg", Dds, &[0, 1]),
            (Stock, "thalweg", Xmpp, &[0, 1]),
            (Common, "thalweg", Xmpp, &[0, 1]),
            (Stock, "mosquitto", Mqtt, &[0, 1, 2]),
        ] {
            for qos in levels {
                goes_through(driver, system, protocol, *qos);
            }
        }
    }

    #[test]
    #[ignore = "needs THALWEG_BIN, RabbitMQ, ejabberd and two minutes"]
    fn clients_go_through_every_broker_of_their_protocol() {
        for (driver, system, protocol, levels) in [
            (Stock, "thalweg", Mqtt, &[0, 1][..]),
            (Stock, "thalweg", Amqp, &[0, 1]),
            (Stock, "thalweg", Stomp, &[0, 1]),
            (Stock, "thalweg", Coap, &[0, 1]),
            (Stock, "libcoap", Coap, &[0, 1]),
            (Stock, "nats", Mqtt, &[0, 1]),
            (Stock, "rabbitmq", Amqp, &[1]),
            (Stock, "rabbitmq", Stomp, &[1]),
            (Stock, "rabbitmq", Mqtt, &[1]),
            (Stock, "ejabberd", Xmpp, &[0, 1]),
            (Common, "ejabberd", Xmpp, &[0, 1]),
        ] {
            for qos in levels {
                goes_through(driver, system, protocol, *qos);
            }
        }
    }
}
