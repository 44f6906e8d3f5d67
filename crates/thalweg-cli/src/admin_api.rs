//! Asking a running broker's admin API, for `top`, `trace`, `ledger` and `backup`.

mod unix;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use thalweg_server::transport::client::authorities;
use thalweg_server::transport::tls;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::cli::AdminArgs;
use crate::failure::Failure;

/// The secret in a file: its first line.
pub fn secret_in(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", file.display())))?;
    match text.lines().next() {
        Some(secret) if !secret.is_empty() => Ok(secret.to_owned()),
        _ => Err(Failure::usage(format!(
            "the first line of {} is empty",
            file.display()
        ))),
    }
}

/// A way to ask one broker.
pub struct AdminApi {
    agent: ureq::Agent,
    /// What a request's path follows.
    base: String,
    /// The broker's address as it was given.
    shown: String,
    token: Option<String>,
}

impl AdminApi {
    /// For the broker that the flags name; nothing is asked yet.
    pub fn new(args: &AdminArgs) -> Result<AdminApi, Failure> {
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false);
        if let Some(path) = &args.unix {
            return Ok(AdminApi {
                agent: unix::agent(config.proxy(None).build(), path),
                base: "http://localhost".to_owned(),
                shown: path.display().to_string(),
                token: None,
            });
        }
        let base = args.url.trim_end_matches('/');
        if base.starts_with("https://") {
            config = config.tls_config(tls_config(args.ca.as_deref())?);
        } else if !base.starts_with("http://") {
            return Err(Failure::usage(format!(
                "`{}` starts with neither http:// nor https://",
                args.url
            )));
        } else if args.ca.is_some() {
            return Err(
                Failure::usage("--ca is for encrypted connections").mend("Write https:// in --url")
            );
        }
        let token = match &args.token_file {
            Some(file) => Some(secret_in(file)?),
            None => args
                .token
                .clone()
                .or_else(|| std::env::var("THALWEG_ADMIN_TOKEN").ok()),
        };
        let token = token.filter(|token| !token.is_empty());
        Ok(AdminApi {
            agent: config.build().into(),
            base: base.to_owned(),
            shown: base.to_owned(),
            token,
        })
    }

    /// The broker's address as it was given.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Asks for a JSON document. `query` is name and value, not yet escaped.
    pub fn json(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.get(&url).query_pairs(query.iter().copied());
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let response = request.call().map_err(|error| self.unreachable(&error))?;
        answer_of(&url, response)
    }

    /// Asks for something to be done; the answer may take `patience`.
    pub fn post(&self, path: &str, body: &Value, patience: Duration) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.base);
        let mut request = self
            .agent
            .post(&url)
            .config()
            .timeout_global(Some(patience))
            .build();
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let response = request
            .content_type("application/json")
            .send(body.to_string())
            .map_err(|error| self.unreachable(&error))?;
        answer_of(&url, response)
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let base = &self.shown;
        if let ureq::Error::Io(error) = error {
            if error.kind() == std::io::ErrorKind::NotFound {
                return Failure::new(format!("there is no {base}"))
                    .mend("Is the broker running? Name its admin.unix_socket with --unix");
            }
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                return Failure::new(format!("nobody listens on {base}")).mend(
                    "Is the broker running, and admin.enabled not false? Name its admin.bind with --url",
                );
            }
            if let Some(words) = tls::words_of_io(error) {
                let mend = if words.contains("certificate") {
                    "Name the file of the authority that signed admin.tls.certificate with --ca, and in --url a host that it is for"
                } else {
                    "Write http:// in --url if admin.tls.certificate is not set"
                };
                return Failure::new(format!("no encrypted connection to {base}: {words}"))
                    .mend(mend);
            }
        }
        Failure::new(format!("{base} cannot be asked: {error}"))
            .mend("Check --url; with admin.tls.certificate it begins with https://")
    }
}

/// Trusts the authorities in `ca`, or those of the system.
fn tls_config(ca: Option<&Path>) -> Result<TlsConfig, Failure> {
    let trusted =
        authorities(ca).map_err(|fault| Failure::usage(fault.to_string()).mend("Check --ca"))?;
    let trusted: Vec<_> = trusted
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::from(trusted))
        .unversioned_rustls_crypto_provider(tls::provider())
        .build())
}

/// What the broker answered, or why it did not do it.
fn answer_of(url: &str, mut response: ureq::http::Response<ureq::Body>) -> Result<Value, Failure> {
    let status = response.status();
    let body = response
        .body_mut()
        .with_config()
        .limit(BODY_BYTES_MAX)
        .read_to_vec()
        .map_err(|error| error.to_string());
    let body = body.and_then(|bytes| {
        serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
    });
    match (status.is_success(), body) {
        (true, Ok(value)) => Ok(value),
        (true, Err(error)) => Err(
            Failure::new(format!("{url} does not answer in JSON: {error}"))
                .mend("Is this the admin API of a thalweg broker?"),
        ),
        // The API says itself what is wrong and how to mend it.
        (false, Ok(Value::Object(fault))) if fault.contains_key("error") => {
            let word = |key: &str| {
                fault
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            Err(Failure::new(word("error")).mend(match status.as_u16() {
                401 => "Give the value of admin.token in THALWEG_ADMIN_TOKEN, or with --token-file"
                    .to_owned(),
                _ => word("mend"),
            }))
        }
        (false, _) => Err(Failure::new(format!("{url} answers {status}"))
            .mend("Is this the admin API of a thalweg broker?")),
    }
}

/// A member that should be a number, 0 if it is none.
pub fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

/// A member that should be text, empty if it is none.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A member that should be a list, empty if it is none.
pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

const TIMEOUT: Duration = Duration::from_secs(10);
const BODY_BYTES_MAX: u64 = 64 << 20;
