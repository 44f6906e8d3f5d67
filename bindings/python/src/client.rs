//! The client: arguments out of Python, futures into [`Pending`].

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg_client::spool::WhenFull;
use thalweg_client::{
    BufferSettings, Calibration, ClientError, LaneState, Objective, Options, Overflow,
    PeerSettings, Reliability, Retain, SubscribeOptions, Ticket, TlsFiles, Via, WhenRefused, Will,
};

use crate::answer::{Answer, word};
use crate::errors::{ThalwegError, raised};
use crate::events::EventQueue;
use crate::pending::Pending;
use crate::process::Own;

/// How a message goes, in the order of `thalweg._settings.options`.
type How = (
    u8,
    u8,
    Option<f64>,
    u8,
    Option<String>,
    Vec<(String, String)>,
    Option<String>,
    Option<Vec<u8>>,
    bool,
);

/// A client of one or more brokers.
#[pyclass(frozen)]
pub struct Client(Own<thalweg_client::Client>);

#[pymethods]
impl Client {
    #[new]
    fn new(brokers: Vec<String>, settings: &Bound<'_, PyDict>) -> PyResult<Client> {
        let mut builder = thalweg_client::Client::builder();
        for url in &brokers {
            builder = builder.broker(url).map_err(|error| raised(&error))?;
        }
        builder = match get::<String>(settings, "via")?.as_str() {
            "auto" => builder.via(Via::Auto),
            protocol => builder.via(Via::Protocol(protocol.to_owned())),
        };
        builder = builder.objective(objective(&settings_item(settings, "objective")?)?);
        if let Some(name) = get::<Option<String>>(settings, "client_id")? {
            builder = builder.client_id(name);
        }
        if let Some(user) = get::<Option<String>>(settings, "user")? {
            builder = builder.credentials(
                user,
                get::<Option<Vec<u8>>>(settings, "password")?.unwrap_or_default(),
            );
        }
        builder = builder
            .session(seconds(get(settings, "session")?)?)
            .mqtt_version(get(settings, "mqtt_version")?);
        if let Some(file) = get::<Option<PathBuf>>(settings, "calibration")? {
            let text = std::fs::read_to_string(&file).map_err(|error| {
                ThalwegError::new_err(format!("{} cannot be read: {error}", file.display()))
            })?;
            let calibration = Calibration::from_json(&text)
                .map_err(|error| ThalwegError::new_err(format!("{}: {error}", file.display())))?;
            builder = builder.calibration(calibration);
        }
        builder = builder.buffer(buffer(settings)?);
        builder = builder.when_refused(match get::<String>(settings, "when_refused")?.as_str() {
            "wait" => WhenRefused::Wait,
            "fail" => WhenRefused::Fail,
            other => {
                return Err(PyValueError::new_err(format!(
                    "there is no when_refused {other:?}: wait, fail"
                )));
            }
        });
        let identity: (Option<PathBuf>, Option<PathBuf>) =
            (get(settings, "certificate")?, get(settings, "key")?);
        builder = builder.tls(TlsFiles {
            ca: get(settings, "ca")?,
            identity: match identity {
                (Some(certificate), Some(key)) => Some((certificate, key)),
                (None, None) => None,
                _ => return Err(PyTypeError::new_err("certificate and key go together")),
            },
            insecure: get(settings, "insecure")?,
            authorities: get(settings, "authorities")?,
        });
        let peers: Vec<String> = get(settings, "peers")?;
        let bind: Option<String> = get(settings, "peer_bind")?;
        if bind.is_some() || !peers.is_empty() {
            builder = builder.peer(PeerSettings {
                bind: bind.unwrap_or_default(),
                peers,
            });
        }
        for written in get::<Vec<String>>(settings, "multicast_interfaces")? {
            let address: IpAddr = written.parse().map_err(|_| {
                PyValueError::new_err(format!(
                    "multicast_interfaces: {written:?} is no IP address of a network interface"
                ))
            })?;
            builder = builder.multicast_interface(address);
        }
        if let Some(class) = get::<Option<u8>>(settings, "dscp")? {
            builder = builder.dscp(class);
        }
        if let Some(name) = get::<Option<String>>(settings, "psk_identity")? {
            builder = builder.psk(
                name,
                get::<Option<Vec<u8>>>(settings, "psk_key")?.unwrap_or_default(),
            );
        }
        let curve: (Option<String>, Option<String>) = (
            get(settings, "curve_server")?,
            get(settings, "curve_secret")?,
        );
        builder = match curve {
            (Some(server), Some(secret)) => {
                let with_keys = builder.curve(&server, &secret);
                with_keys.map_err(|error| PyValueError::new_err(error.to_string()))?
            }
            (None, None) => builder,
            _ => {
                return Err(PyTypeError::new_err(
                    "curve_server and curve_secret go together",
                ));
            }
        };
        if let Some((address, payload, reliability, retain)) =
            get::<Option<(String, Vec<u8>, u8, bool)>>(settings, "will")?
        {
            builder = builder.will(Will {
                address,
                payload,
                reliability: class(reliability)?,
                retain,
            });
        }
        if let Some((min, max)) = get::<Option<(f64, f64)>>(settings, "backoff")? {
            builder = builder.backoff(seconds(min)?, seconds(max)?);
        }
        let events = settings_item(settings, "events")?;
        builder = builder.events(events.cast::<EventQueue>()?.get().inner()?);
        let client = builder.connect().map_err(|error| raised(&error))?;
        Ok(Client(Own::new(client)))
    }

    fn publish_message(
        &self,
        message: &[u8],
        destination: &str,
        topic: &str,
        how: How,
    ) -> PyResult<u64> {
        let ticket = self
            .0
            .get()?
            .publish_message(message, destination, topic, &options(how)?);
        ticket
            .map(|ticket| ticket.0)
            .map_err(|error| raised(&error))
    }

    fn is_publish_success(&self, ticket: u64) -> PyResult<&'static str> {
        Ok(word(self.0.get()?.is_publish_success(Ticket(ticket))))
    }

    fn why_failed(&self, ticket: u64) -> PyResult<Option<String>> {
        Ok(self.0.get()?.why_failed(Ticket(ticket)))
    }

    fn outcome(&self, ticket: u64) -> PyResult<Pending> {
        let client = self.0.get()?.clone();
        Ok(Pending::new(async move {
            Ok(Answer::Success(client.outcome(Ticket(ticket)).await))
        }))
    }

    fn publish(&self, topic: String, payload: Vec<u8>, how: How) -> PyResult<Pending> {
        let (client, options) = (self.0.get()?.clone(), options(how)?);
        Ok(Pending::new(async move {
            client
                .publish(&topic, &payload, &options)
                .await
                .map(Answer::Success)
        }))
    }

    /// By a multicast group, if one is named.
    fn subscribe(
        &self,
        topic_filter: String,
        group: Option<String>,
        reliability: u8,
        last_values: bool,
        keeps_all: bool,
        settle_by_hand: bool,
    ) -> PyResult<Pending> {
        let client = self.0.get()?.clone();
        let options = SubscribeOptions {
            reliability: class(reliability)?,
            last_values,
            keeps_all,
            settle_by_hand,
        };
        Ok(Pending::new(async move {
            let subscribed = match group {
                Some(group) => {
                    client
                        .subscribe_by_multicast(&group, &topic_filter, options)
                        .await
                }
                None => client.subscribe(&topic_filter, options).await,
            };
            subscribed.map(|subscription| Answer::Subscription(subscription.into()))
        }))
    }

    fn request(
        &self,
        topic: String,
        payload: Vec<u8>,
        how: How,
        timeout: f64,
    ) -> PyResult<Pending> {
        let (client, options, timeout) = (self.0.get()?.clone(), options(how)?, seconds(timeout)?);
        Ok(Pending::new(async move {
            client
                .request(&topic, &payload, &options, timeout)
                .await
                .map(|answer| Answer::Message(Some(answer)))
        }))
    }

    fn last_value(&self, topic: String) -> PyResult<Pending> {
        let client = self.0.get()?.clone();
        Ok(Pending::new(async move {
            client.last_value(&topic).await.map(Answer::Message)
        }))
    }

    fn presence(&self, client_id: String) -> PyResult<Pending> {
        let client = self.0.get()?.clone();
        Ok(Pending::new(async move {
            client
                .presence(&client_id)
                .await
                .map(|subscription| Answer::PresenceSubscription(subscription.into()))
        }))
    }

    fn is_stored(&self, ticket: u64) -> PyResult<bool> {
        Ok(self.0.get()?.is_stored(Ticket(ticket)))
    }

    fn stored(&self, ticket: u64) -> PyResult<Pending> {
        let client = self.0.get()?.clone();
        Ok(Pending::new(async move {
            client.stored(Ticket(ticket)).await.map(|()| Answer::Done)
        }))
    }

    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.0.get()?;
        let words = py
            .detach(|| client.explain())
            .map_err(|error| raised(&error))?;
        Ok(words.to_string())
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let client = self.0.get()?;
        let status = py
            .detach(|| client.status())
            .map_err(|error| raised(&error))?;
        let mut lanes = Vec::with_capacity(status.lanes.len());
        for lane in &status.lanes {
            let said = PyDict::new(py);
            said.set_item("protocol", lane.protocol)?;
            said.set_item("place", &lane.place)?;
            said.set_item("state", state(lane.state))?;
            said.set_item("publishes", lane.publishes)?;
            said.set_item("subscriptions", lane.subscriptions)?;
            said.set_item("under_way", lane.under_way)?;
            said.set_item("connections", lane.connections)?;
            said.set_item("trouble", &lane.trouble)?;
            said.set_item("bytes_sent", lane.bytes_sent)?;
            said.set_item("bytes_received", lane.bytes_received)?;
            lanes.push(said);
        }
        let said = PyDict::new(py);
        said.set_item("lanes", lanes)?;
        let (load, buffer) = (&status.load, PyDict::new(py));
        buffer.set_item("messages", load.messages)?;
        buffer.set_item("bytes", load.bytes)?;
        buffer.set_item("under_way", load.under_way)?;
        buffer.set_item("disk_bytes", status.buffer.bytes_used)?;
        buffer.set_item("disk_bytes_max", status.buffer.bytes_max)?;
        buffer.set_item("kept", status.buffer.kept)?;
        buffer.set_item("unsaved", status.buffer.unsaved)?;
        buffer.set_item("trouble", &status.buffer.trouble)?;
        said.set_item("buffer", buffer)?;
        let (counted, counts) = (&status.counts, PyDict::new(py));
        for (name, count) in [
            ("published", counted.published),
            ("acknowledged", counted.acknowledged),
            ("failed", counted.failed),
            ("expired", counted.expired),
            ("dropped", counted.dropped),
            ("unknown", counted.unknown),
            ("repeated", counted.repeated),
            ("received", counted.received),
            ("duplicates", counted.duplicates),
            ("receive_dropped", counted.receive_dropped),
            ("switches", counted.switches),
        ] {
            counts.set_item(name, count)?;
        }
        said.set_item("counts", counts)?;
        let failures: Vec<(u64, &str)> = status
            .failures
            .iter()
            .map(|it| (it.ticket.0, it.why.as_str()))
            .collect();
        said.set_item("failures", failures)?;
        let peers = PyDict::new(py);
        peers.set_item("subscribers", status.peers.subscribers)?;
        peers.set_item("publishers", status.peers.publishers)?;
        said.set_item("peers", peers)?;
        let mut groups = Vec::with_capacity(status.groups.len());
        for group in &status.groups {
            let (of_it, counts) = (PyDict::new(py), PyDict::new(py));
            of_it.set_item("group", &group.group)?;
            of_it.set_item("is_heard", group.is_heard)?;
            of_it.set_item("why_not", &group.why_not)?;
            counts.set_item("datagrams", group.counts.datagrams)?;
            counts.set_item("duplicates", group.counts.duplicates)?;
            counts.set_item("refused", group.counts.refused)?;
            counts.set_item("requests", group.counts.requests)?;
            counts.set_item("lost", group.counts.lost)?;
            counts.set_item("unsent", group.counts.unsent)?;
            counts.set_item("dropped", group.counts.dropped)?;
            of_it.set_item("counts", counts)?;
            groups.push(of_it);
        }
        said.set_item("groups", groups)?;
        Ok(said)
    }

    fn flush(&self, timeout: Option<f64>) -> PyResult<Pending> {
        let (client, timeout) = (
            self.0.get()?.clone(),
            timeout.map_or(Ok(Duration::MAX), seconds)?,
        );
        Ok(Pending::new(async move {
            match client.flush(timeout).await {
                Ok(()) => Ok(Answer::Truth(true)),
                Err(ClientError::TimedOut) => Ok(Answer::Truth(false)),
                Err(error) => Err(error),
            }
        }))
    }

    fn close(&self, timeout: f64) -> PyResult<Pending> {
        let (client, timeout) = (self.0.get()?.clone(), seconds(timeout)?);
        Ok(Pending::new(async move {
            match client.close(timeout).await {
                Ok(()) => Ok(Answer::Truth(true)),
                Err(ClientError::TimedOut) => Ok(Answer::Truth(false)),
                Err(error) => Err(error),
            }
        }))
    }
}

/// How a lane does, in a word.
fn state(state: LaneState) -> String {
    format!("{state:?}").to_lowercase()
}

fn settings_item<'py>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    settings
        .get_item(name)?
        .ok_or_else(|| PyTypeError::new_err(format!("the setting {name} is missing")))
}

fn get<T>(settings: &Bound<'_, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    settings_item(settings, name)?
        .extract()
        .map_err(|error: <T as FromPyObject<'_, '_>>::Error| {
            let error: PyErr = error.into();
            PyTypeError::new_err(format!("{name}: {error}"))
        })
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    if seconds == f64::INFINITY {
        return Ok(Duration::MAX);
    }
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds} s is no length of time")))
}

fn objective(said: &Bound<'_, PyAny>) -> PyResult<Objective> {
    if let Ok(weights) = said.cast::<PyDict>() {
        let weight = |name: &str| {
            weights
                .get_item(name)?
                .map_or(Ok(0.0), |weight| weight.extract())
        };
        for (name, _) in weights {
            let name: String = name.extract()?;
            if !matches!(name.as_str(), "latency" | "bytes" | "energy") {
                return Err(PyValueError::new_err(format!(
                    "there is no weight of {name:?}: latency, bytes, energy"
                )));
            }
        }
        return Ok(Objective::Weights {
            latency: weight("latency")?,
            bytes: weight("bytes")?,
            energy: weight("energy")?,
        });
    }
    match said.extract::<String>()?.as_str() {
        "latency" => Ok(Objective::Latency),
        "bytes" => Ok(Objective::Bytes),
        "energy" => Ok(Objective::Energy),
        other => Err(PyValueError::new_err(format!(
            "there is no objective {other:?}: latency, bytes, energy, or weights"
        ))),
    }
}

fn buffer(settings: &Bound<'_, PyDict>) -> PyResult<BufferSettings> {
    let usual = BufferSettings::default();
    Ok(BufferSettings {
        bytes_max: get::<Option<usize>>(settings, "buffer_bytes")?.unwrap_or(usual.bytes_max),
        messages_max: get::<Option<usize>>(settings, "buffer_messages")?
            .unwrap_or(usual.messages_max),
        disk: get(settings, "buffer_folder")?,
        disk_full: match get::<String>(settings, "disk_full")?.as_str() {
            "refuse" => WhenFull::Refuse,
            "memory" => WhenFull::Memory,
            other => {
                return Err(PyValueError::new_err(format!(
                    "there is no disk_full {other:?}: refuse, memory"
                )));
            }
        },
        overflow: match get::<String>(settings, "overflow")?.as_str() {
            "refuse" => Overflow::Refuse,
            "drop-oldest" => Overflow::DropOldest,
            other => {
                return Err(PyValueError::new_err(format!(
                    "there is no overflow {other:?}: refuse, drop-oldest"
                )));
            }
        },
    })
}

fn class(number: u8) -> PyResult<Reliability> {
    match number {
        0 => Ok(Reliability::AtMostOnce),
        1 => Ok(Reliability::AtLeastOnce),
        2 => Ok(Reliability::ExactlyOnce),
        other => Err(PyValueError::new_err(format!(
            "there is no reliability {other}"
        ))),
    }
}

fn options(how: How) -> PyResult<Options> {
    let (
        reliability,
        retain,
        lifespan,
        priority,
        content_type,
        properties,
        reply_to,
        correlation,
        is_text,
    ) = how;
    Ok(Options {
        reliability: class(reliability)?,
        retain: match retain {
            0 => Retain::No,
            1 => Retain::Set,
            2 => Retain::Clear,
            other => return Err(PyValueError::new_err(format!("there is no retain {other}"))),
        },
        lifespan: lifespan.map(seconds).transpose()?,
        priority,
        content_type,
        properties,
        reply_to,
        correlation,
        is_text,
    })
}
