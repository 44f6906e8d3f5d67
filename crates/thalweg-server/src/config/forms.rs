//! Text of certain forms: addresses, names, filters, one or a list of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::Value;
use thalweg_model::{Address, Filter};

use super::kind::{Fault, KeyKind, Written, ensure, fault};
use super::tables::list_in;

/// A form that text has.
pub struct Form {
    /// What it is, with its article.
    pub(super) title: &'static str,
    /// What it is written like: completes "Write …".
    pub(super) takes: &'static str,
    /// The text as it is kept; relative paths start at the last argument.
    pub(super) read: fn(&KeyKind, &str, &Path) -> Result<String, Fault>,
}

/// A list of texts.
pub struct List {
    /// Completes "which is not …".
    pub(super) title: &'static str,
    /// Most items, what follows "Keep at most so many"; without it they may repeat, and keep their order.
    pub(super) max: Option<(usize, &'static str)>,
    /// Completes "such as …".
    pub(super) examples: &'static str,
    pub(super) check: fn(&KeyKind, &str) -> Result<(), Fault>,
}

/// An IP address and port.
pub static SOCKET: Form = Form {
    title: "address and port",
    takes: "an IP address and port, such as 127.0.0.1:7883 or [::1]:7883",
    read: |kind, text, _| socket(kind, text),
};

/// An IP address and port, or the path of a Unix socket.
pub static BIND: Form = Form {
    title: "address and port, or path",
    takes: "an IP address and port, such as 0.0.0.0:1883 or [::]:1883, or the path of a Unix socket",
    read: |kind, text, base| {
        if !text.contains('/') && !text.ends_with(".sock") {
            return socket(kind, text);
        }
        let path = base.join(text).to_string_lossy().into_owned();
        // `sun_path` holds 108 bytes with its final NUL (unix(7)).
        let long = path.len();
        ensure!(long <= 107; "is a socket path of {long} bytes"; "Choose a path of at most 107 bytes");
        Ok(path)
    },
};

pub static FILTER: Form = Form {
    title: "a filter",
    takes: "a filter as in a subscription, such as telemetry/#",
    read: |_, text, _| filter_of(text).map(|()| text.to_owned()),
};

pub static TOPIC: Form = Form {
    title: "a topic",
    takes: "a topic without wildcards, such as jobs/dead, or $q/dead for a queue",
    read: |kind, text, _| {
        ensure!(Address::check(text).is_ok(); "\"{text}\" is not a topic"; kind.mend());
        Ok(text.to_owned())
    },
};

/// Addresses of machines, in any order.
pub static ADDRESSES: List = List {
    title: "a list of IP addresses",
    max: None,
    examples: "[\"10.0.0.1\", \"::1\"]",
    check: |kind, text| match text.parse::<IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(kind.refuses_text(text)),
    },
};

pub static FILTERS: List = List {
    title: "a list of topic filters",
    max: Some((100, ": each is compared with the topic of every message")),
    examples: "[\"plant/#\", \"+/state\"]",
    check: |_, text| filter_of(text),
};

/// Topic prefixes of whole levels.
pub static PREFIXES: List = List {
    title: "a list of topic prefixes",
    max: Some((1000, ": each is looked up and counted for every message")),
    examples: "[\"plant/a\", \"office\"]",
    check: |_, prefix| {
        let whole = prefix
            .strip_suffix("/#")
            .or_else(|| prefix.strip_suffix('/'));
        if let Some(whole) = whole {
            let what = format!("names \"{prefix}\", which does not end with a whole level");
            let mend = format!("Write \"{whole}\": a prefix stands for its topic and all below it");
            return Err(fault(what, mend));
        }
        Address::check(prefix).map_err(|error| {
            let what = format!("names \"{prefix}\", which is not a topic: {error}");
            fault(what, "Write the first levels of topics, without wildcards")
        })
    },
};

/// Names of tenants or machines. A tenant's name is part of the first level of addresses, and must not be split there.
pub static NAMES: List = List {
    title: "a list of names",
    max: Some((1000, "")),
    examples: "[\"plant\", \"office\"]",
    check: |_, name| {
        let mend = "Use at most 128 bytes, without / + # $ @ and control characters";
        let is_plain = |letter: char| !letter.is_control() && !"/+#$@".contains(letter);
        // AMQP's `connection.open` holds 255 bytes.
        let is_name = (1..=128).contains(&name.len()) && name.chars().all(is_plain);
        let shown = name.escape_debug();
        ensure!(name != "/"; "names \"/\", which is the default tenant and always there"; "Leave it out of the list");
        ensure!(is_name; "names \"{shown}\", which cannot be a name here"; mend);
        Ok(())
    },
};

/// Origins as browsers write them: scheme and authority, without a path.
pub static ORIGINS: List = List {
    title: "a list of origins",
    max: Some((1000, "")),
    examples: "[\"https://app.example\", \"http://localhost:3000\"], or [\"*\"] for every origin",
    check: |_, origin| {
        let is_plain = |letter: char| letter.is_ascii_graphic() && !"/?#@*".contains(letter);
        let is_origin = origin
            .split_once("://")
            .is_some_and(|(_, authority)| !authority.is_empty() && authority.chars().all(is_plain));
        let shown = origin.escape_debug();
        let mend =
            "Write scheme, host and port only, such as \"https://app.example:8443\", or \"*\"";
        ensure!(is_origin || matches!(origin, "*" | "null"); "names \"{shown}\", which is not an origin"; mend);
        Ok(())
    },
};

impl List {
    /// The items in their order, if none is there twice.
    pub(super) fn parse(&self, kind: &KeyKind, written: &Written) -> Result<Value, Fault> {
        let mut items = items(kind, written)?;
        if let Some((max, why)) = self.max {
            let name = self.title.rsplit(' ').next().unwrap_or_default();
            let count = items.len();
            ensure!(count <= max; "has {count} {name}"; format!("Keep at most {max}{why}"));
        }
        items.iter().try_for_each(|item| (self.check)(kind, item))?;
        if self.max.is_some() {
            items.sort_unstable();
            once(items.iter())?;
        }
        Ok(items.into())
    }

    pub(super) fn expectation(&self) -> String {
        let List {
            title, examples, ..
        } = self;
        let title = match self.max {
            Some((max, _)) => title.replacen("a list of", &format!("a list of at most {max}"), 1),
            None => (*title).to_owned(),
        };
        format!("{title}, such as {examples} (or a,b outside the file)")
    }
}

/// The texts of a list; outside the file between commas, or as in it.
pub(super) fn items(kind: &KeyKind, written: &Written) -> Result<Vec<String>, Fault> {
    let text_of = |item: &Written| match item {
        Written::Quoted(text) => Ok(text.clone()),
        Written::Bare(text) | Written::Loose(text) => Err(kind.refuses(text)),
        Written::Date => Err(kind.refuses(&item.name())),
        other => Err(kind.refuses(&format!("{} inside a list", other.name()))),
    };
    match written {
        Written::List(items) => items.iter().map(text_of).collect(),
        Written::Loose(text) => match list_in(text) {
            Some(items) if text.starts_with('[') => items.iter().map(text_of).collect(),
            _ => {
                let items = text.split(',').map(str::trim);
                Ok(items
                    .filter(|item| !item.is_empty())
                    .map(str::to_owned)
                    .collect())
            }
        },
        Written::Quoted(_) | Written::Bare(_) => {
            Err(kind.refuses(&format!("one value, {}", written.name())))
        }
        other => Err(kind.refuses(&other.name())),
    }
}

/// Refuses what is there twice in `names`, which are in order.
pub(super) fn once<'a>(names: impl Iterator<Item = &'a String> + Clone) -> Result<(), Fault> {
    match names
        .clone()
        .zip(names.skip(1))
        .find(|(one, other)| one == other)
    {
        Some((twice, _)) => Err(fault(
            format!("names \"{twice}\" twice"),
            "Keep one of the two",
        )),
        None => Ok(()),
    }
}

pub(super) fn filter_of(filter: &str) -> Result<(), Fault> {
    let mend = "Write the filter that stands behind the group's name";
    ensure!(!filter.starts_with("$share/"); "names \"{filter}\", which is a shared subscription, not a filter of topics"; mend);
    Filter::new(filter).map(|_| ()).map_err(|error| {
        let what = format!("names \"{filter}\", which is not a topic filter: {error}");
        fault(what, format!("Write {}", FILTER.takes))
    })
}

fn socket(kind: &KeyKind, text: &str) -> Result<String, Fault> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let number = port.parse::<u16>();
    let socket = match (host, &number) {
        ("localhost", Ok(port)) => Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port)),
        _ => text.parse(),
    };
    socket.map(|socket| socket.to_string()).map_err(|_| {
        // `:1883` and a bare `1883` are what other brokers take for "every address".
        let mend = match number {
            Ok(_) if matches!(host, "" | "*") => format!(
                "Write 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for every IPv4 address"
            ),
            _ => kind.mend(),
        };
        fault(format!("is \"{text}\", which is not an IP address and port"), mend)
    })
}
