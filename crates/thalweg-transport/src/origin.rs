//! Origins of web pages that may open a WebSocket. Browsers state the page's origin, and apply no CORS (RFC 6455
//! §10.2).

use std::net::IpAddr;

use tungstenite::http::HeaderMap;
use tungstenite::http::header::{HOST, ORIGIN};

/// The origins and hosts that a WebSocket listener accepts. A request without `Origin` comes from no web page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginRule {
    /// Origins accepted in addition to the request's own host, as `scheme://host[:port]`; `*` accepts every origin.
    pub origins: Vec<String>,
    /// Whether `Host` must name this machine or the host of one of `origins`. A page whose name was made to resolve to
    /// a loopback address has the same host in `Origin` and `Host` (DNS rebinding).
    pub local_hosts_only: bool,
}

impl OriginRule {
    /// Judges an upgrade request; the error is the text of the answer.
    pub(super) fn judge(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        if self.origins.iter().any(|origin| origin == "*") {
            return Ok(());
        }
        let hosts: Vec<&str> = headers
            .get_all(HOST)
            .iter()
            .map(|host| host_name(host.to_str().unwrap_or("").trim()))
            .collect();
        if self.local_hosts_only && !hosts.iter().all(|host| self.is_local(host)) {
            return Err(
                "the Host header names another machine: connect to localhost or a loopback address, or list \
                        the page's origin in `websocket.origins` of this listener",
            );
        }
        let mut origins = headers
            .get_all(ORIGIN)
            .iter()
            .map(|origin| origin.to_str().unwrap_or("").trim());
        let is_same_host = |origin: &str| {
            let host = origin
                .split_once("://")
                .map(|(_, authority)| host_name(authority));
            host.is_some_and(|host| {
                !host.is_empty() && hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
            })
        };
        match origins.all(|origin| self.lists(origin) || is_same_host(origin)) {
            true => Ok(()),
            false => Err(
                "web pages of this origin are not accepted: list the origin in `websocket.origins` of this \
                          listener",
            ),
        }
    }

    fn lists(&self, origin: &str) -> bool {
        self.origins
            .iter()
            .any(|listed| listed.eq_ignore_ascii_case(origin))
    }

    fn is_local(&self, host: &str) -> bool {
        let address: Option<IpAddr> = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .ok();
        let name = host.to_ascii_lowercase();
        let listed = || {
            self.origins
                .iter()
                .filter_map(|origin| origin.split_once("://"))
        };
        address.is_some_and(|address| address.to_canonical().is_loopback())
            || name == "localhost"
            || name.ends_with(".localhost")
            || listed().any(|(_, authority)| host_name(authority).eq_ignore_ascii_case(host))
    }
}

/// The host of `host[:port]`, with the brackets of an IPv6 address.
fn host_name(authority: &str) -> &str {
    let port_at = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    authority.get(..port_at).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tungstenite::http::HeaderValue;

    fn judged(rule: &OriginRule, host: &str, origins: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        for origin in origins {
            headers.append(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        rule.judge(&headers).is_ok()
    }

    #[test]
    fn pages_of_other_hosts_are_refused_unless_their_origin_is_listed() {
        let rule = OriginRule::default();
        assert!(judged(&rule, "broker.test:8083", &[]), "no web page");
        assert!(judged(&rule, "broker.test:8083", &["https://broker.test"]));
        assert!(
            judged(&rule, "Broker.test", &["http://broker.TEST:3000"]),
            "the port may differ"
        );
        assert!(judged(&rule, "[::1]:8083", &["http://[::1]:3000"]));
        for foreign in [
            "https://attacker.example",
            "https://broker.test.attacker.example",
            "https://broker.test@attacker.example",
            "null",
            "",
            "broker.test",
            "http://",
        ] {
            assert!(!judged(&rule, "broker.test:8083", &[foreign]), "{foreign}");
            assert!(
                !judged(&rule, "broker.test:8083", &["https://broker.test", foreign]),
                "{foreign}"
            );
        }
        assert!(
            !judged(&rule, "", &["https://broker.test"]),
            "no host to compare with"
        );
        let listed = OriginRule {
            origins: vec!["https://app.test".into()],
            ..OriginRule::default()
        };
        assert!(judged(&listed, "broker.test", &["https://app.test"]));
        assert!(
            !judged(&listed, "broker.test", &["http://app.test"]),
            "another scheme is another origin"
        );
        assert!(
            !judged(&listed, "broker.test", &["https://app.test:444"]),
            "and so is another port"
        );
        let any = OriginRule {
            origins: vec!["*".into()],
            local_hosts_only: true,
        };
        assert!(judged(
            &any,
            "attacker.example",
            &["https://attacker.example"]
        ));
    }

    #[test]
    fn a_name_made_to_resolve_to_loopback_is_no_local_host() {
        let rule = OriginRule {
            origins: vec!["https://app.test".into()],
            local_hosts_only: true,
        };
        for local in [
            "localhost",
            "localhost:8083",
            "LOCALHOST",
            "a.localhost",
            "127.0.0.1:8083",
            "127.9.9.9",
            "[::1]:1",
        ] {
            assert!(judged(&rule, local, &[]), "{local}");
        }
        assert!(judged(&rule, "", &[]), "browsers always send Host");
        assert!(
            judged(&rule, "app.test", &["https://app.test"]),
            "the host of a listed origin"
        );
        for foreign in [
            "attacker.example",
            "attacker.example:8083",
            "localhost.attacker.example",
            "127.0.0.1.nip.io",
            "10.0.0.1",
        ] {
            assert!(
                !judged(&rule, foreign, &[&format!("http://{foreign}")]),
                "{foreign}"
            );
            assert!(!judged(&rule, foreign, &[]), "{foreign}");
        }
    }
}
