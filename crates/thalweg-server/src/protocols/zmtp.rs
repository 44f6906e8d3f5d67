//! ZeroMQ listeners.

use super::Protocol;
use crate::config::{Config, Curve, Dial, Listener};
use crate::connector::DialSpec;
use crate::lobby::Route;
use crate::settings::safety;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use thalweg_fronts::FrontSettings;
use thalweg_fronts::zmtp::{CurveSettings, ZmtpDial, ZmtpSettings};
use thalweg_zmtp::{KeyPair, Limits, SocketType, key_from_z85};

pub(super) struct Zmtp;

impl Protocol for Zmtp {
    fn fronts(
        &self,
        config: &Config,
        listener: &Listener,
        _: usize,
    ) -> Option<Arc<dyn FrontSettings>> {
        let of_all = settings(config, config.packet_bytes_max(listener));
        Some(Arc::new(ZmtpSettings {
            // What is wrong with its files was said by `check`.
            curve: curve(&listener.curve).ok().flatten().map(Arc::new),
            publish_rate: listener.publish_rate,
            safety: listener.fsync.map(safety),
            queue: listener.queue.as_deref().map_or(of_all.queue, Into::into),
            ..of_all
        }))
    }

    fn check(&self, listener: &Listener) -> Result<(), String> {
        curve(&listener.curve).map(|_| ())
    }

    fn dials(&self, config: &Config) -> Vec<DialSpec> {
        let settings = Arc::new(settings(config, config.protocols.zmtp.message_bytes_max));
        let dials = config.protocols.zmtp.connect.iter();
        dials
            .filter_map(|dial| dial_spec(dial, &settings))
            .collect()
    }

    /// Which sockets use queues shows after the handshake.
    fn route(&self) -> fn(&[u8], usize) -> Route {
        super::to_queues
    }
}

/// What holds for all connections.
fn settings(config: &Config, message_bytes_max: usize) -> ZmtpSettings {
    let zmtp = &config.protocols.zmtp;
    ZmtpSettings {
        limits: Limits {
            handshake_bytes_max: config.limits.connect_bytes_max as u64,
            command_bytes_max: zmtp.subscription_bytes_max as u64 + FRAMING_OF_SUBSCRIBE,
            message_bytes_max: message_bytes_max as u64,
        },
        high_water: zmtp.high_water,
        last_values: zmtp.last_value,
        retains: zmtp.retain.as_slice().into(),
        invert_matching: zmtp.invert_matching,
        filters: zmtp.filters,
        header_frame: zmtp.header_frame,
        queue: zmtp.queue.as_str().into(),
        durable: zmtp.durable,
        service: zmtp.service.as_str().into(),
        request_timeout: zmtp.request_timeout,
        requests_max: zmtp.requests_max,
        worker_window: zmtp.worker_window,
        heart_beat: zmtp.heart_beat,
        ..ZmtpSettings::default()
    }
}

/// Nothing if the configuration has let a word pass that is no socket's.
fn dial_spec(dial: &Dial, settings: &Arc<ZmtpSettings>) -> Option<DialSpec> {
    let bytes = |text: &String| text.as_bytes().into();
    let settings = match dial.queue.as_str() {
        "" => settings.clone(),
        queue => Arc::new(ZmtpSettings {
            queue: queue.into(),
            ..ZmtpSettings::clone(settings)
        }),
    };
    let fronts = ZmtpDial {
        settings,
        socket_type: SocketType::from_name(dial.r#as.to_ascii_uppercase().as_bytes())?,
        user: dial.user.as_str().into(),
        identity: bytes(&dial.identity),
        prefixes: dial.subscribe.iter().map(bytes).collect(),
        service: bytes(&dial.service),
    };
    Some(DialSpec {
        endpoint: dial.endpoint.clone(),
        fronts: Arc::new(fronts),
        key: super::queues_key(),
    })
}

/// The name of a SUBSCRIBE command of ZMTP and its length, which a subscription has beside its prefix.
const FRAMING_OF_SUBSCRIBE: u64 = 10;

/// The keys of a listener; nothing if it has none.
fn curve(curve: &Curve) -> Result<Option<CurveSettings>, String> {
    let text = match (&curve.secret_key, &curve.secret_key_file) {
        (Some(key), _) => key.clone(),
        (None, Some(file)) => read(file)?,
        (None, None) => return Ok(None),
    };
    let Some(secret) = key_from_z85(text.trim()) else {
        return Err("the secret key of CURVE is not 40 characters of Z85".into());
    };
    let mut random = [0; 32];
    crate::random::fill(&mut random);
    Ok(Some(CurveSettings {
        keys: KeyPair::from_secret(secret),
        random,
        users: curve.clients_file.as_deref().map(clients).transpose()?,
    }))
}

/// The users of a file, by their keys.
fn clients(file: &Path) -> Result<BTreeMap<[u8; 32], Box<str>>, String> {
    let mut users = BTreeMap::new();
    // `#` is a digit of Z85, too, so a comment has a line of its own.
    let text = read(file)?;
    let lines = text.lines().map(str::trim).zip(1..);
    for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with("# ")) {
        let (key, user) = line.split_once(char::is_whitespace).unwrap_or_default();
        let user = user.trim();
        match key_from_z85(key) {
            Some(key) if !user.is_empty() => _ = users.insert(key, user.into()),
            _ => {
                let file = file.display();
                return Err(format!(
                    "line {number} of {file} is not a key of 40 characters, a space and a user"
                ));
            }
        }
    }
    Ok(users)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::certificates::Folder;
    use thalweg_zmtp::key_to_z85;

    #[test]
    fn keys_come_from_files_and_what_is_none_is_said() {
        let folder = Folder::new();
        let (server, client) = (key_to_z85(&[1; 32]), key_to_z85(&[2; 32]));
        let with = |secret: &str, clients: &str| {
            let given = Curve {
                secret_key: None,
                secret_key_file: Some(folder.write("server.key", secret)),
                clients_file: Some(folder.write("clients", clients)),
            };
            curve(&given)
        };
        let lines = format!("# devices\n\n{client}  meter 7 \n");
        let read = with(&format!("{server}\n"), &lines)
            .expect("good")
            .expect("keys");
        assert_eq!(read.keys, KeyPair::from_secret([1; 32]));
        let users = read.users.expect("users");
        assert_eq!(users.get(&[2; 32]).map(|user| &**user), Some("meter 7"));
        for (secret, clients, word) in [
            ("short", &*lines, "40 characters"),
            (&server, &client, "line 1"),
            (&server, "\nshort meter", "line 2"),
        ] {
            let words = with(secret, clients).expect_err(word);
            assert!(words.contains(word), "{words}");
        }
        assert!(curve(&Curve::default()).expect("none").is_none());
    }
}
