//! Text of certain forms: addresses, names, filters, one or a list of them. What they are called is in `kinds.toml`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::Value;
use thalweg_model::{Address, Filter};
use toml::Spanned;
use toml::de::DeValue;

use super::kind::KeyKind::{self, Form, List};
use super::kind::{Fault, Read, Written, ensure, fault};

/// An IP address and port.
pub const SOCKET: KeyKind = Form("socket", socket);

/// An IP address and port, or the path of a Unix socket.
pub const BIND: KeyKind = Form("bind", |text, base| {
    if !text.contains('/') && !text.ends_with(".sock") {
        return socket(text, base);
    }
    let path = base.join(text).to_string_lossy().into_owned();
    // `sun_path` holds 108 bytes with its final NUL (unix(7)).
    let long = path.len();
    ensure!(long <= 107; "is a socket path of {long} bytes"; "Choose a path of at most 107 bytes");
    Ok(path)
});

pub const FILTER: KeyKind = Form("filter", filter);

pub const TOPIC: KeyKind = Form("topic", |text, _| {
    ensure!(Address::check(text).is_ok(); "\"{text}\" is not a topic");
    Ok(text.to_owned())
});

/// Addresses of machines, in any order.
pub const ADDRESSES: KeyKind = List("addresses", |text, _| {
    ensure!(text.parse::<IpAddr>().is_ok());
    Ok(text.to_owned())
});

pub const FILTERS: KeyKind = List("filters", filter);

/// Topic prefixes of whole levels.
pub const PREFIXES: KeyKind = List("prefixes", |prefix, _| {
    let whole = prefix.strip_suffix('#').unwrap_or(prefix).strip_suffix('/');
    let mend = format!(
        "Write \"{}\": a prefix stands for its topic and all below it",
        whole.unwrap_or_default()
    );
    ensure!(whole.is_none(); "names \"{prefix}\", which does not end with a whole level"; mend);
    let what = |error| format!("names \"{prefix}\", which is not a topic: {error}");
    let mend = "Write the first levels of topics, without wildcards";
    Address::check(prefix).map_err(|error| fault(what(error), mend))?;
    Ok(prefix.to_owned())
});

/// Names of tenants or machines. A tenant's name is part of the first level of addresses, and must not be split there.
pub const NAMES: KeyKind = List("names", |name, _| {
    let mend = "Use at most 128 bytes, without / + # $ @ and control characters";
    let is_plain = |letter: char| !letter.is_control() && !"/+#$@".contains(letter);
    // AMQP's `connection.open` holds 255 bytes.
    let is_name = (1..=128).contains(&name.len()) && name.chars().all(is_plain);
    let shown = name.escape_debug();
    ensure!(name != "/"; "names \"/\", which is the default tenant and always there"; "Leave it out of the list");
    ensure!(is_name; "names \"{shown}\", which cannot be a name here"; mend);
    Ok(name.to_owned())
});

/// Origins as browsers write them: scheme and authority, without a path.
pub const ORIGINS: KeyKind = List("origins", |origin, _| {
    let is_plain = |letter: char| letter.is_ascii_graphic() && !"/?#@*".contains(letter);
    let (_, authority) = origin.split_once("://").unwrap_or_default();
    let is_origin = !authority.is_empty() && authority.chars().all(is_plain);
    let shown = origin.escape_debug();
    let mend = "Write scheme, host and port only, such as \"https://app.example:8443\", or \"*\"";
    ensure!(is_origin || matches!(origin, "*" | "null"); "names \"{shown}\", which is not an origin"; mend);
    Ok(origin.to_owned())
});

impl KeyKind {
    /// The items of a list in their order, if none is there twice; where their number is not bounded they may be.
    pub(super) fn list(&self, read: Read, written: Written) -> Result<Value, Fault> {
        let items = self.items(written)?;
        self.bound(items.len())?;
        let read =
            |item: &String| read(item, Path::new("")).map_err(|fault| self.complete(fault, item));
        let mut items = items.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if self.texts().max.is_some() {
            items.sort_unstable();
            once(&items)?;
        }
        Ok(items.into())
    }

    /// The texts of a list; outside the file between commas, or as in it.
    pub(super) fn items(&self, written: Written) -> Result<Vec<String>, Fault> {
        let text_of = |item: &Spanned<DeValue>| {
            let name = Written::Toml(item.get_ref(), Path::new("")).name();
            match item.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                DeValue::Array(_) | DeValue::Table(_) => Err(format!("{name} inside a list")),
                _ => Err(name.trim_matches('"').to_owned()),
            }
        };
        if let Some(items) = written.list() {
            let texts = items.iter().map(text_of).collect::<Result<_, _>>();
            return texts.map_err(|given| self.refuses(&given));
        }
        let Written::Loose(text) = written else {
            let one = written.text().map_or("", |_| "one value, ");
            return Err(self.refuses(&format!("{one}{}", written.name())));
        };
        let items = text.split(',').map(str::trim).map(str::to_owned);
        Ok(items.filter(|item| !item.is_empty()).collect())
    }
}

/// Refuses what is there twice in `names`, which are in order.
pub(super) fn once(names: &[impl AsRef<str> + PartialEq]) -> Result<(), Fault> {
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    let name = twice.map_or("", |pair| pair[0].as_ref());
    ensure!(twice.is_none(); "names \"{name}\" twice"; "Keep one of the two");
    Ok(())
}

pub(super) fn filter(filter: &str, _: &Path) -> Result<String, Fault> {
    let mend = "Write the filter that stands behind the group's name";
    ensure!(!filter.starts_with("$share/"); "names \"{filter}\", which is a shared subscription, not a filter of topics"; mend);
    let what = |error| format!("names \"{filter}\", which is not a topic filter: {error}");
    Filter::new(filter).map_err(|error| fault(what(error), FILTER.mend()))?;
    Ok(filter.to_owned())
}

fn socket(text: &str, _: &Path) -> Result<String, Fault> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let number = port.parse::<u16>();
    let socket = match (host, &number) {
        ("localhost", Ok(port)) => Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port)),
        _ => text.parse(),
    };
    // `:1883` and a bare `1883` are what other brokers take for "every address".
    let mend = match number {
        Ok(_) if matches!(host, "" | "*") => format!(
            "Write 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for every IPv4 address"
        ),
        _ => String::new(),
    };
    let what = format!("is \"{text}\", which is not an IP address and port");
    let socket = socket.map_err(|_| fault(what, mend))?;
    Ok(socket.to_string())
}
