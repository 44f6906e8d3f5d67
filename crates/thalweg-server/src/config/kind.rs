//! The kinds of value a setting takes: how each is written, checked and shown.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use thalweg_kernel::GroupStrategy;
use thalweg_model::{Address, Filter, Span};

use super::dials::{self, Dial};
use super::policies::{self, GroupPolicy, filter_of};
use super::settings::Bind;
use super::words::Fsync;

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    Count {
        min: u64,
        max: u64,
    },
    /// A number of bytes, plain or with a unit.
    Size {
        min: u64,
        max: u64,
    },
    /// A length of time with its unit.
    Duration {
        min: Span,
        max: Span,
        /// The step values must be a multiple of.
        step: Span,
    },
    Rate,
    SizeRate,
    /// One of these words.
    Word(&'static [&'static str]),
    /// How a shared subscription chooses, by any name that the kernel understands.
    Strategy,
    Text,
    /// The path of a file that must exist.
    File,
    /// The path of something the broker makes.
    Path,
    /// An IP address and port.
    Socket,
    /// An IP address and port, or the path of a Unix socket.
    Bind,
    Addresses,
    /// Topic filters, each with a sync policy.
    Policies,
    /// What is said of shared subscriptions by filter, at most so many entries.
    GroupPolicies {
        max: usize,
    },
    /// Peers that the broker connects to, at most so many.
    Dials {
        max: usize,
    },
    /// Topic filters, at most so many.
    Filters {
        max: usize,
    },
    /// Topic prefixes of whole levels, at most so many.
    Prefixes {
        max: usize,
    },
    /// Names of tenants or machines, at most so many.
    Names {
        max: usize,
    },
    /// Origins of web pages, at most so many.
    Origins {
        max: usize,
    },
    /// Permission bits in octal.
    Mode,
}

/// A value as its author wrote it.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// In a file, without quotes: a number or a boolean.
    Bare(String),
    /// In a file, with quotes.
    Quoted(String),
    /// In the environment or behind `--set`, where nothing is quoted.
    Loose(String),
    /// In a file, with square brackets.
    List(Vec<Written>),
    /// In a file, a table inside the key, in the order of its own keys.
    Table(Vec<(String, Written)>),
    /// Something no setting takes, by its name.
    Other(&'static str),
}

/// A value that its kind accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None: off, unlimited or not set, as the key says.
    Unset,
    /// A [`Kind::Flag`].
    Flag(bool),
    /// A [`Kind::Count`], [`Kind::Size`], [`Kind::Rate`], [`Kind::SizeRate`] or [`Kind::Mode`].
    Number(u64),
    /// A [`Kind::Duration`].
    Length(Span),
    /// A [`Kind::Word`], [`Kind::Strategy`] or [`Kind::Text`].
    Text(String),
    /// A [`Kind::File`] or [`Kind::Path`].
    Path(PathBuf),
    /// A [`Kind::Socket`].
    Socket(SocketAddr),
    /// A [`Kind::Bind`].
    Bind(Bind),
    /// A [`Kind::Addresses`].
    Addresses(Vec<IpAddr>),
    /// A [`Kind::Policies`], in the order of the filters, each once.
    Policies(Vec<(Filter, Fsync)>),
    /// A [`Kind::GroupPolicies`], in the order of their author.
    GroupPolicies(Vec<GroupPolicy>),
    /// A [`Kind::Dials`], in the order of their author.
    Dials(Vec<Dial>),
    /// A [`Kind::Filters`], in order, each once.
    Filters(Vec<Filter>),
    /// A [`Kind::Prefixes`], [`Kind::Names`] or [`Kind::Origins`], in order, each once.
    Names(Vec<String>),
}

/// Why a value is refused: what is wrong with it, and what to write instead.
#[derive(Debug)]
pub(super) struct Fault {
    pub what: String,
    pub mend: String,
}

impl Kind {
    /// The value that `written` means. Relative paths start at `base`.
    pub(super) fn parse(&self, written: &Written, base: &Path) -> Result<Value, Fault> {
        match self {
            Kind::Addresses => {
                let addresses: Result<_, _> = self
                    .items(written)?
                    .iter()
                    .map(|item| self.address(item))
                    .collect();
                Ok(Value::Addresses(addresses?))
            }
            Kind::Policies => self.policies(written).map(Value::Policies),
            Kind::GroupPolicies { max } => policies::parse(written, *max).map(Value::GroupPolicies),
            Kind::Dials { max } => dials::parse(written, *max).map(Value::Dials),
            Kind::Filters { max } => self.filters(written, *max).map(Value::Filters),
            Kind::Prefixes { max } => self.prefixes(written, *max).map(Value::Names),
            Kind::Names { max } => self.names(written, *max).map(Value::Names),
            Kind::Origins { max } => self.origins(written, *max).map(Value::Names),
            _ => self.parse_one(written, base),
        }
    }

    fn parse_one(&self, written: &Written, base: &Path) -> Result<Value, Fault> {
        let wants_quotes = matches!(
            self,
            Kind::Text | Kind::File | Kind::Path | Kind::Socket | Kind::Bind
        );
        let text = match written {
            Written::Bare(text) if wants_quotes => {
                return Err(fault(
                    "takes text, and text needs quotes",
                    format!("Write \"{text}\""),
                ));
            }
            Written::Bare(text) | Written::Quoted(text) | Written::Loose(text) => text.as_str(),
            Written::List(_) => return Err(self.refuses("a list")),
            Written::Table(_) => return Err(self.refuses("a table")),
            Written::Other(name) => return Err(self.refuses(name)),
        };
        match self {
            Kind::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(self.refuses(&format!("\"{text}\""))),
            },
            Kind::Count { min, max } => {
                let number =
                    whole_number(text).ok_or_else(|| self.refuses(&format!("\"{text}\"")))?;
                self.within(number, *min, *max, text)
            }
            Kind::Size { min, max } => {
                let number = size(text).ok_or_else(|| self.refuses(&format!("\"{text}\"")))?;
                self.within(number, *min, *max, text)
            }
            Kind::Rate | Kind::SizeRate => {
                let plain = text.trim().strip_suffix("/s").unwrap_or(text);
                let number = if *self == Kind::Rate {
                    whole_number(plain)
                } else {
                    size(plain)
                };
                number
                    .map(Value::Number)
                    .ok_or_else(|| self.refuses(&format!("\"{text}\"")))
            }
            Kind::Duration { min, max, step } => {
                let span = duration(text).ok_or_else(|| self.refuses(&format!("\"{text}\"")))?;
                if span < *min || span > *max {
                    return Err(self.outside(text));
                }
                if span.nanos() % step.nanos().max(1) != 0 {
                    let what = format!(
                        "is {text}, which is not a multiple of {}",
                        show_duration(*step)
                    );
                    return Err(fault(what, format!("Write {}", self.expectation())));
                }
                Ok(Value::Length(span))
            }
            Kind::Word(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Text((*word).to_owned())),
                None => Err(self.refuses(&format!("\"{text}\""))),
            },
            Kind::Strategy => match GroupStrategy::named(text) {
                Some(strategy) => Ok(Value::Text(strategy.name().to_owned())),
                None => Err(self.refuses(&format!("\"{text}\""))),
            },
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::File | Kind::Path => Ok(Value::Path(base.join(text))),
            Kind::Socket => self.socket(text).map(Value::Socket),
            Kind::Bind => self.bind(text, base).map(Value::Bind),
            Kind::Mode => {
                let digits = text.strip_prefix("0o").unwrap_or(text);
                // A bare 660 in TOML is the decimal number, which nobody who writes it means.
                let ambiguous = matches!(written, Written::Bare(_)) && !text.starts_with("0o");
                match u64::from_str_radix(digits, 8) {
                    Ok(mode) if mode <= 0o777 && !ambiguous => Ok(Value::Number(mode)),
                    _ => Err(self.refuses(text)),
                }
            }
            Kind::Addresses
            | Kind::Policies
            | Kind::GroupPolicies { .. }
            | Kind::Dials { .. }
            | Kind::Filters { .. }
            | Kind::Prefixes { .. }
            | Kind::Names { .. }
            | Kind::Origins { .. } => Err(self.refuses("one value")),
        }
    }

    /// What to write, in words: completes "Write …".
    pub fn expectation(&self) -> String {
        match self {
            Kind::Flag => "true or false".into(),
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Size { min, max } => {
                format!("a size from {} to {}, such as 65536, 64KiB or 1MiB", show_size(*min), show_size(*max))
            }
            Kind::Duration { min, max, step } => {
                let steps =
                    if step.nanos() > 1 { format!(" in steps of {}", show_duration(*step)) } else { String::new() };
                let range = match *max {
                    Span::FOREVER => format!("of at least {}", show_duration(*min)),
                    max => format!("from {} to {}", show_duration(*min), show_duration(max)),
                };
                let examples =
                    if *min < Span::from_secs(1) && step.nanos() == 1 { "20ms, 10s or 1m" } else { "10s, 5m or 1h" };
                format!("a duration {range}{steps}, such as {examples}")
            }
            Kind::Rate => "a number per second, such as 1000/s".into(),
            Kind::SizeRate => "bytes per second, such as 1MiB/s".into(),
            Kind::Word(words) => one_of(words),
            Kind::Strategy => one_of(GroupStrategy::WORDS),
            Kind::Text => "text".into(),
            Kind::File => "the path of a file".into(),
            Kind::Path => "a path".into(),
            Kind::Socket => "an IP address and port, such as 127.0.0.1:7883 or [::1]:7883".into(),
            Kind::Bind => {
                "an IP address and port, such as 0.0.0.0:1883 or [::]:1883, or the path of a Unix socket".into()
            }
            Kind::Addresses => {
                "a list of IP addresses, such as [\"10.0.0.1\", \"::1\"] (or a,b outside the file)".into()
            }
            Kind::Policies => format!(
                "a table from topic filters to {}, such as {{ \"telemetry/#\" = \"never\" }} (or telemetry/#=never,\
                 plant/+=interval outside the file)",
                one_of(Fsync::WORDS)
            ),
            Kind::GroupPolicies { max } => policies::expectation(*max),
            Kind::Dials { max } => dials::expectation(*max),
            Kind::Filters { max } => {
                format!(
                    "a list of at most {max} topic filters, such as [\"plant/#\", \"+/state\"] (or a,b outside the file)"
                )
            }
            Kind::Prefixes { max } => {
                format!(
                    "a list of at most {max} topic prefixes, such as [\"plant/a\", \"office\"] (or a,b outside the file)"
                )
            }
            Kind::Names { max } => {
                format!("a list of at most {max} names, such as [\"plant\", \"office\"] (or a,b outside the file)")
            }
            Kind::Origins { max } => format!(
                "a list of at most {max} origins, such as [\"https://app.example\", \"http://localhost:3000\"], or \
                 [\"*\"] for every origin (or a,b outside the file)"
            ),
            Kind::Mode => "three octal digits in quotes, such as \"0660\"".into(),
        }
    }

    /// The kind in two or three words, for tables.
    pub fn title(&self) -> &'static str {
        match self {
            Kind::Flag => "flag",
            Kind::Count { .. } => "number",
            Kind::Size { .. } => "size in bytes",
            Kind::Duration { .. } => "duration",
            Kind::Rate => "rate per second",
            Kind::SizeRate => "bytes per second",
            Kind::Word(_) => "word",
            Kind::Strategy => "strategy",
            Kind::Text => "text",
            Kind::File => "file",
            Kind::Path => "path",
            Kind::Socket => "address and port",
            Kind::Bind => "address and port, or path",
            Kind::Addresses => "list of addresses",
            Kind::Policies => "table of policies",
            Kind::GroupPolicies { .. } => "list of policies",
            Kind::Dials { .. } => "list of endpoints",
            Kind::Filters { .. } => "list of topic filters",
            Kind::Prefixes { .. } => "list of topic prefixes",
            Kind::Names { .. } => "list of names",
            Kind::Origins { .. } => "list of origins",
            Kind::Mode => "octal permissions",
        }
    }

    /// `value` as it would be written in a file; empty for [`Value::Unset`].
    pub fn show(&self, value: &Value) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        match (value, self) {
            (Value::Unset, _) => String::new(),
            (Value::Flag(flag), _) => flag.to_string(),
            (Value::Number(number), Kind::Size { .. }) => match show_size(*number) {
                plain if plain.ends_with(|last: char| last.is_ascii_digit()) => plain,
                with_unit => quoted(&with_unit),
            },
            (Value::Number(number), Kind::SizeRate) => quoted(&format!("{}/s", show_size(*number))),
            (Value::Number(number), Kind::Rate) => quoted(&format!("{number}/s")),
            (Value::Number(number), Kind::Mode) => quoted(&format!("{number:04o}")),
            (Value::Number(number), _) => number.to_string(),
            (Value::Length(span), _) => quoted(&show_duration(*span)),
            (Value::Text(text), _) => quoted(text),
            (Value::Path(path), _) => quoted(&path.display().to_string()),
            (Value::Socket(socket), _) => quoted(&socket.to_string()),
            (Value::Bind(bind), _) => quoted(&bind.to_string()),
            (Value::Addresses(all), _) => list(
                all.iter()
                    .map(|address| quoted(&address.to_string()))
                    .collect(),
            ),
            (Value::GroupPolicies(all), _) => policies::show(all),
            (Value::Dials(all), _) => dials::show(all),
            (Value::Filters(all), _) => list(
                all.iter()
                    .map(|filter| quoted(&filter.to_string()))
                    .collect(),
            ),
            (Value::Names(all), _) => list(all.iter().map(|name| quoted(name)).collect()),
            (Value::Policies(all), _) => {
                let table = all
                    .iter()
                    .map(|(filter, policy)| (filter.to_string(), policy.word().into()));
                toml::Value::Table(table.collect()).to_string()
            }
        }
    }

    fn items(&self, written: &Written) -> Result<Vec<String>, Fault> {
        match written {
            Written::List(items) => items
                .iter()
                .map(|item| match item {
                    Written::Quoted(text) => Ok(text.clone()),
                    Written::Bare(text) | Written::Loose(text) => Err(self.refuses(text)),
                    Written::List(_) => Err(self.refuses("a list inside a list")),
                    Written::Table(_) => Err(self.refuses("a table inside a list")),
                    Written::Other(name) => Err(self.refuses(name)),
                })
                .collect(),
            Written::Loose(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()),
            Written::Quoted(text) | Written::Bare(text) => {
                Err(self.refuses(&format!("one value, \"{text}\"")))
            }
            Written::Table(_) => Err(self.refuses("a table")),
            Written::Other(name) => Err(self.refuses(name)),
        }
    }

    fn policies(&self, written: &Written) -> Result<Vec<(Filter, Fsync)>, Fault> {
        let pairs: Vec<(String, String)> = match written {
            Written::Table(entries) => entries
                .iter()
                .map(|(filter, policy)| match policy {
                    Written::Quoted(word) => Ok((filter.clone(), word.clone())),
                    // `telemetry.x = "never"` is a table in TOML.
                    _ => Err(fault(
                        format!("has no policy for \"{filter}\""),
                        format!(
                            "Write \"{filter}\" = {}, with the whole filter in quotes",
                            quoted_words(Fsync::WORDS)
                        ),
                    )),
                })
                .collect::<Result<_, _>>()?,
            Written::Loose(_) => self
                .items(written)?
                .iter()
                .map(|item| match item.rsplit_once('=') {
                    Some((filter, policy)) => {
                        Ok((filter.trim().to_owned(), policy.trim().to_owned()))
                    }
                    None => Err(fault(
                        format!("has no policy for \"{item}\""),
                        format!("Write {}", self.expectation()),
                    )),
                })
                .collect::<Result<_, _>>()?,
            Written::List(_) => return Err(self.refuses("a list")),
            Written::Quoted(text) | Written::Bare(text) => {
                return Err(self.refuses(&format!("one value, \"{text}\"")));
            }
            Written::Other(name) => return Err(self.refuses(name)),
        };
        let mut policies: Vec<(Filter, Fsync)> = pairs
            .iter()
            .map(|(filter, policy)| policy_of(filter, policy))
            .collect::<Result<_, _>>()?;
        policies.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        match policies
            .windows(2)
            .find(|pair| matches!(pair, [(one, _), (other, _)] if one == other))
        {
            Some([(twice, _), ..]) => Err(fault(
                format!("names \"{twice}\" twice"),
                "Keep one of the two",
            )),
            _ => Ok(policies),
        }
    }

    fn filters(&self, written: &Written, max: usize) -> Result<Vec<Filter>, Fault> {
        let filters = self.items(written)?;
        if filters.len() > max {
            let mend =
                format!("Keep at most {max}: each is compared with the topic of every message");
            return Err(fault(format!("has {} filters", filters.len()), mend));
        }
        each_once(filters)?
            .iter()
            .map(|filter| filter_of(filter))
            .collect()
    }

    fn prefixes(&self, written: &Written, max: usize) -> Result<Vec<String>, Fault> {
        let prefixes = self.items(written)?;
        if prefixes.len() > max {
            let mend =
                format!("Keep at most {max}: each is looked up and counted for every message");
            return Err(fault(format!("has {} prefixes", prefixes.len()), mend));
        }
        for prefix in &prefixes {
            if let Some(whole) = prefix
                .strip_suffix("/#")
                .or_else(|| prefix.strip_suffix('/'))
            {
                let mend =
                    format!("Write \"{whole}\": a prefix stands for its topic and all below it");
                return Err(fault(
                    format!("names \"{prefix}\", which does not end with a whole level"),
                    mend,
                ));
            }
            if let Err(error) = Address::check(prefix) {
                let mend = "Write the first levels of topics, without wildcards";
                return Err(fault(
                    format!("names \"{prefix}\", which is not a topic: {error}"),
                    mend,
                ));
            }
        }
        each_once(prefixes)
    }

    /// A tenant's name is part of the first level of addresses, and one that must not be split there.
    fn names(&self, written: &Written, max: usize) -> Result<Vec<String>, Fault> {
        let names = self.items(written)?;
        if names.len() > max {
            return Err(fault(
                format!("has {} names", names.len()),
                format!("Keep at most {max}"),
            ));
        }
        for name in &names {
            if name == "/" {
                let what = "names \"/\", which is the default tenant and always there";
                return Err(fault(what, "Leave it out of the list"));
            }
            let is_plain = |letter: char| {
                !letter.is_control() && !matches!(letter, '/' | '+' | '#' | '$' | '@')
            };
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
                let mend = format!(
                    "Use at most {NAME_BYTES_MAX} bytes, without / + # $ @ and control characters"
                );
                return Err(fault(
                    format!(
                        "names \"{}\", which cannot be a name here",
                        name.escape_debug()
                    ),
                    mend,
                ));
            }
        }
        each_once(names)
    }

    /// Origins as browsers write them: scheme and authority, without a path.
    fn origins(&self, written: &Written, max: usize) -> Result<Vec<String>, Fault> {
        let origins = self.items(written)?;
        if origins.len() > max {
            return Err(fault(
                format!("has {} origins", origins.len()),
                format!("Keep at most {max}"),
            ));
        }
        let is_plain = |letter: char| {
            letter.is_ascii_graphic() && !matches!(letter, '/' | '?' | '#' | '@' | '*')
        };
        for origin in &origins {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            let fits = authority
                .is_some_and(|authority| !authority.is_empty() && authority.chars().all(is_plain));
            if !fits && origin != "*" && origin != "null" {
                let what = format!(
                    "names \"{}\", which is not an origin",
                    origin.escape_debug()
                );
                return Err(fault(
                    what,
                    "Write scheme, host and port only, such as \"https://app.example:8443\", or \"*\"",
                ));
            }
        }
        each_once(origins)
    }

    fn address(&self, text: &str) -> Result<IpAddr, Fault> {
        text.parse()
            .map_err(|_| self.refuses(&format!("\"{text}\"")))
    }

    fn socket(&self, text: &str) -> Result<SocketAddr, Fault> {
        if let Ok(socket) = text.parse() {
            return Ok(socket);
        }
        if let Some(port) = text
            .strip_prefix("localhost:")
            .and_then(|port| port.parse().ok())
        {
            return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        }
        let what = format!("is \"{text}\", which is not an IP address and port");
        let port = text.rsplit(':').next().unwrap_or_default();
        match text {
            // `:1883` and a bare `1883` are what other brokers take for "every address".
            _ if port.parse::<u16>().is_ok()
                && matches!(text.strip_suffix(port), Some("" | ":" | "*:")) =>
            {
                let mend = format!(
                    "Write 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for every IPv4 address"
                );
                Err(fault(what, mend))
            }
            _ => Err(fault(what, format!("Write {}", self.expectation()))),
        }
    }

    fn bind(&self, text: &str, base: &Path) -> Result<Bind, Fault> {
        if !text.contains('/') && !text.ends_with(".sock") {
            return self.socket(text).map(Bind::Socket);
        }
        let path = base.join(text);
        // `sun_path` holds 108 bytes with its final NUL (unix(7)).
        match path.as_os_str().len() {
            0..=107 => Ok(Bind::Path(path)),
            long => Err(fault(
                format!("is a socket path of {long} bytes"),
                "Choose a path of at most 107 bytes",
            )),
        }
    }

    fn within(&self, number: u64, min: u64, max: u64, text: &str) -> Result<Value, Fault> {
        if (min..=max).contains(&number) {
            Ok(Value::Number(number))
        } else {
            Err(self.outside(text))
        }
    }

    fn refuses(&self, given: &str) -> Fault {
        let article = match self {
            Kind::Flag => "true or false",
            Kind::Size { .. } => "a size",
            Kind::Count { .. } => "a whole number",
            Kind::Duration { .. } => "a duration with its unit",
            Kind::Rate | Kind::SizeRate => "a rate",
            Kind::Word(_) => "one of its words",
            Kind::Strategy => "a strategy",
            Kind::Addresses => "a list of IP addresses",
            Kind::Policies => "a table of policies",
            Kind::GroupPolicies { .. } => "a list of policies",
            Kind::Dials { .. } => "a list of endpoints",
            Kind::Filters { .. } => "a list of topic filters",
            Kind::Prefixes { .. } => "a list of topic prefixes",
            Kind::Names { .. } => "a list of names",
            Kind::Origins { .. } => "a list of origins",
            Kind::Mode => "octal permissions",
            _ => self.title(),
        };
        fault(
            format!("is {given}, which is not {article}"),
            format!("Write {}", self.expectation()),
        )
    }

    fn outside(&self, text: &str) -> Fault {
        fault(
            format!("is {text}, which is out of range"),
            format!("Write {}", self.expectation()),
        )
    }
}

pub(super) fn fault(what: impl Into<String>, mend: impl Into<String>) -> Fault {
    Fault {
        what: what.into(),
        mend: mend.into(),
    }
}

/// `names` in order, if none is there twice.
fn each_once(mut names: Vec<String>) -> Result<Vec<String>, Fault> {
    names.sort_unstable();
    match names
        .windows(2)
        .find(|pair| matches!(pair, [one, other] if one == other))
    {
        Some([twice, ..]) => Err(fault(
            format!("names \"{twice}\" twice"),
            "Keep one of the two",
        )),
        _ => Ok(names),
    }
}

/// One entry of a [`Kind::Policies`].
fn policy_of(filter: &str, policy: &str) -> Result<(Filter, Fsync), Fault> {
    let Some(policy) = Fsync::from_word(policy) else {
        let what = format!("says \"{policy}\" for \"{filter}\", which is not a policy");
        return Err(fault(what, format!("Write {}", one_of(Fsync::WORDS))));
    };
    filter_of(filter).map(|filter| (filter, policy))
}

fn one_of(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        words => words.join(", "),
    }
}

fn quoted_words(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    one_of(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn whole_number(text: &str) -> Option<u64> {
    let digits = text.trim().replace('_', "");
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Splits `10 MiB` into its number and what follows.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '_')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    Some((whole_number(digits)?, unit.trim()))
}

fn size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = SIZES.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(factor)
}

fn duration(text: &str) -> Option<Span> {
    let (number, unit) = number_and_unit(text)?;
    if number == 0 && unit.is_empty() {
        return Some(Span::ZERO);
    }
    let factor = DURATIONS.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(factor).map(Span::from_nanos)
}

/// `bytes` in the largest unit that keeps it a whole number.
pub(super) fn show_size(bytes: u64) -> String {
    let (unit, factor) = SIZES
        .iter()
        .rev()
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor))
        .unwrap_or(&("", 1));
    format!("{}{unit}", bytes / factor)
}

/// `span` in the largest unit that keeps it a whole number.
pub(super) fn show_duration(span: Span) -> String {
    let nanos = span.nanos();
    let (unit, factor) = DURATIONS
        .iter()
        .rev()
        .find(|(_, factor)| nanos > 0 && nanos.is_multiple_of(*factor))
        .unwrap_or(&("s", 1_000_000_000));
    format!("{}{unit}", nanos / factor)
}

/// Longest name. AMQP's `connection.open` holds 255 bytes.
const NAME_BYTES_MAX: usize = 128;

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const DURATIONS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_read_back_as_they_are_shown() {
        for bytes in [0, 1, 1000, 1024, 65536, 1 << 20, 3 << 30, (1 << 30) + 1] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
        for nanos in [
            0,
            1,
            1_000,
            20_000_000,
            10_000_000_000,
            3_600_000_000_000,
            7 * 86_400_000_000_000,
        ] {
            let span = Span::from_nanos(nanos);
            assert_eq!(duration(&show_duration(span)), Some(span));
        }
        assert_eq!(show_size(65536), "64KiB");
        assert_eq!(show_duration(Span::from_secs(90)), "90s");
    }

    #[test]
    fn a_number_too_large_to_hold_is_refused_not_wrapped() {
        assert_eq!(size("18446744073709551615TiB"), None);
        assert_eq!(duration("99999999999999999999d"), None);
        assert_eq!(whole_number(""), None);
        assert_eq!(whole_number("-1"), None);
    }
}
