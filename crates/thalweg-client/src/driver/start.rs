//! From settings to a running thread.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::handle::{Clock, Handle, Limits, Shared};
use super::inbox::Inbox;
use super::security::Security;
use super::turn::{BELL, Driver, run};
use crate::adaptive::{Calibration, Candidate, Chooser};
use crate::builder::{BufferSettings, ClientBuilder, Via};
use crate::client::{Client, ClientError};
use crate::engine::{Engine, LaneSpec, Overflow, Role};
use crate::lanes_of;
#[cfg(feature = "disk")]
use crate::spool::{Disk, DiskSettings};
use crate::spool::{Memory, Spool};
use crate::transport::{Medium, Transport};

/// Starts a client's thread.
pub(crate) fn start(builder: ClientBuilder) -> Result<Client, ClientError> {
    let spool = spool(&builder.buffer)?;
    start_with(builder, spool)
}

/// The same with any buffer.
pub(super) fn start_with(
    mut builder: ClientBuilder,
    spool: Box<dyn Spool>,
) -> Result<Client, ClientError> {
    let system = |what: &'static str| {
        move |error: std::io::Error| ClientError::System(format!("{what}: {error}"))
    };
    let hub = match builder.hub.take() {
        Some(start) => Some(start(&mut builder)?),
        None => None,
    };
    let transports = transports(&mut builder)?;
    let is_tls = |transport: &dyn Transport| {
        let endpoint = transport.endpoint();
        endpoint.is_encrypted && endpoint.medium == Medium::Stream
    };
    let security = Security::new(
        &builder,
        transports
            .iter()
            .any(|transport| is_tls(transport.as_ref())),
    )?;
    let clock = Clock::start();
    let now = clock.now();
    let mut settings = builder.engine_settings();
    settings.wall_at_zero = wall_nanos().saturating_sub(now.nanos());
    let seed = builder.seed.unwrap_or_else(random);
    let candidates: Vec<Candidate> = transports
        .iter()
        .enumerate()
        .filter(|(_, transport)| transport.capabilities().publishes)
        .map(|(lane, transport)| Candidate::new(lane, transport.as_ref()))
        .collect();
    let chooser = (candidates.len() > 1 && builder.via == Via::Auto).then(|| {
        let calibration = builder
            .calibration
            .take()
            .unwrap_or_else(Calibration::built_in);
        Chooser::new(
            builder.objective,
            builder.constraints.clone(),
            calibration,
            &candidates,
            seed,
            now,
        )
    });
    let limits = Limits {
        messages_max: settings.messages_max,
        bytes_max: settings.bytes_max,
        drops_oldest: settings.overflow == Overflow::DropOldest,
        has_disk: spool.is_lasting(),
    };
    let lanes = transports
        .into_iter()
        .map(|transport| LaneSpec {
            transport,
            role: Role::Candidate,
        })
        .collect();
    let engine =
        Engine::new(settings, lanes, spool, chooser, seed, now).map_err(ClientError::Spool)?;
    let poll = mio::Poll::new().map_err(system("the system gives no poll"))?;
    let bell =
        mio::Waker::new(poll.registry(), BELL).map_err(system("the system gives no waker"))?;
    let inbox = Inbox {
        next_id: engine.next_id(),
        ..Inbox::default()
    };
    let shared = Arc::new(Shared::new(
        inbox,
        limits,
        builder.events.take(),
        bell,
        clock,
    ));
    let handle = Handle::new(shared.clone());
    let (plugins, dscp) = (builder.plugins, builder.dscp);
    let driver = Driver::new(shared.clone(), poll, engine, security, dscp, plugins, hub);
    std::thread::Builder::new()
        .name("thalweg-client".into())
        .stack_size(512 << 10)
        .spawn(move || run(driver, shared))
        .map_err(system("the system gives no thread"))?;
    Ok(Client { handle })
}

/// The lanes that the settings name, in their order; at least one.
fn transports(builder: &mut ClientBuilder) -> Result<Vec<Box<dyn Transport>>, ClientError> {
    let mut transports = Vec::new();
    for url in &builder.brokers {
        if let Some(lanes) = lanes_of(url.scheme.protocol()) {
            transports.extend(lanes(url, &builder.plugins));
        }
    }
    transports.append(&mut builder.transports);
    if transports.is_empty() {
        return Err(ClientError::Settings(
            "a client needs a broker: .broker(\"mqtt://HOST\")".into(),
        ));
    }
    if let Via::Protocol(wanted) = &builder.via {
        transports.retain(|transport| transport.protocol() == wanted);
        if transports.is_empty() {
            return Err(ClientError::Settings(format!(
                "no broker was named that speaks {wanted}"
            )));
        }
    }
    if builder.opening.will.is_some()
        && let Some(transport) = transports
            .iter()
            .find(|transport| !transport.capabilities().wills)
    {
        return Err(ClientError::Settings(format!(
            "a will cannot go by {}: only MQTT carries one; name MQTT brokers alone, or say that messages go via mqtt",
            transport.protocol()
        )));
    }
    Ok(transports)
}

#[cfg(feature = "disk")]
fn spool(buffer: &BufferSettings) -> Result<Box<dyn Spool>, ClientError> {
    match &buffer.disk {
        None => Ok(Box::new(Memory::new(random()))),
        Some(folder) => {
            // Large enough that it is the buffer's own limits that are met.
            let room = DiskSettings::for_messages(buffer.bytes_max, buffer.messages_max);
            let settings = DiskSettings {
                when_full: buffer.disk_full,
                ..room
            };
            Ok(Box::new(
                Disk::open(folder, settings).map_err(ClientError::Spool)?,
            ))
        }
    }
}

#[cfg(not(feature = "disk"))]
fn spool(buffer: &BufferSettings) -> Result<Box<dyn Spool>, ClientError> {
    match &buffer.disk {
        None => Ok(Box::new(Memory::new(random()))),
        Some(_) => Err(ClientError::Settings(
            "this build keeps nothing on disk: it is without the feature `disk`".into(),
        )),
    }
}

/// Returns a random number, different in each process. The standard library seeds its hashers from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn wall_nanos() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
}
