//! What a request is about: Uri-Path as one of our resources, Uri-Query as its parameters. Pure.
//!
//! | path | resource |
//! |---|---|
//! | `/.well-known/core` | what there is here |
//! | `/ps` | the collection of topics |
//! | `/ps/<id>` | a topic, if there is one of that name; else the address `<id>` |
//! | `/ps/data/<levels…>` | an address, one option per level |
//! | `/ps/<levels…>` | an address, as EMQX's clients write it |
//! | `/q/<name>` | a queue |
//! | `/rpc/<levels…>` | an address that answers |

use super::answer::Answer;
use crate::address::{in_tenant, write_level};
use crate::stamp;
use std::sync::Arc;
use thalweg_coap::{Code, Options, option};
use thalweg_filter::{FilterError, Predicate};
use thalweg_model::{STAMP_OPTION, Stamp};

/// What a path names. Addresses are written into a buffer of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource<'b> {
    /// `/.well-known/core`.
    WellKnownCore,
    /// `/ps`.
    Collection,
    /// `/ps/<id>`; the address that it is if no topic is called so has been written.
    Topic(&'b str),
    /// `/ps/data` and nothing behind it: all addresses.
    AllData,
    Data(Style),
    /// `/q/<name>`.
    Queue(&'b str),
    /// `/rpc/<levels…>`.
    Rpc,
    Unknown,
}

/// How an address was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `/ps/data/a/b`: a resource with a representation.
    Data,
    /// `/ps/a/b`: a topic in EMQX's way; a message becomes its last value only if it says so.
    Emqx,
}

/// Why a path or a query cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) &'static str);

const NOT_UTF8: Unreadable =
    Unreadable("a level of the path is not UTF-8 (RFC 7252 section 5.10.1)");

impl<'b> Resource<'b> {
    /// Reads the path. What is an address is written to `address`, which is emptied first.
    pub(super) fn read(
        options: &Options<'b>,
        tenant: &str,
        address: &mut String,
    ) -> Result<Self, Unreadable> {
        address.clear();
        let mut levels = options.all(option::URI_PATH);
        let Some(first) = levels.next() else {
            return Ok(Resource::Unknown);
        };
        match first {
            b"ps" => Resource::read_ps(levels, tenant, address),
            b"q" => match (levels.next(), levels.next()) {
                (Some(name), None) if !name.is_empty() => Ok(Resource::Queue(text(name)?)),
                _ => Ok(Resource::Unknown),
            },
            b"rpc" => match write_levels(levels, tenant, address)? {
                0 => Ok(Resource::Unknown),
                _ => Ok(Resource::Rpc),
            },
            b".well-known" if levels.next() == Some(b"core") && levels.next().is_none() => {
                Ok(Resource::WellKnownCore)
            }
            _ => Ok(Resource::Unknown),
        }
    }

    fn read_ps(
        mut levels: impl Iterator<Item = &'b [u8]>,
        tenant: &str,
        address: &mut String,
    ) -> Result<Self, Unreadable> {
        let Some(first) = levels.next() else {
            return Ok(Resource::Collection);
        };
        if first == b"data" {
            return match write_levels(levels, tenant, address)? {
                0 => Ok(Resource::AllData),
                _ => Ok(Resource::Data(Style::Data)),
            };
        }
        let id = text(first)?;
        let count = write_levels(std::iter::once(first).chain(levels), tenant, address)?;
        match (count, id) {
            // `/ps/` is what some clients make of `/ps`.
            (1, "") => Ok(Resource::Collection),
            (1, id) => Ok(Resource::Topic(id)),
            _ => Ok(Resource::Data(Style::Emqx)),
        }
    }
}

/// Appends the canonical address that the levels make; how many there are.
fn write_levels<'b>(
    levels: impl Iterator<Item = &'b [u8]>,
    tenant: &str,
    address: &mut String,
) -> Result<usize, Unreadable> {
    // As bytes, so that it is looked at once whether they are text: a separator cannot join what is none.
    let mut bytes = std::mem::take(address).into_bytes();
    let mut count = 0;
    for level in levels {
        match count {
            0 if !tenant.is_empty() => {
                let mut prefix = String::new();
                in_tenant(tenant, "", &mut prefix);
                bytes.extend_from_slice(prefix.as_bytes());
            }
            0 => {}
            _ => bytes.push(b'/'),
        }
        // No branch for each byte.
        let is_plain =
            (level.iter()).fold(true, |so_far, byte| so_far & IS_PLAIN[usize::from(*byte)]);
        if is_plain {
            bytes.extend_from_slice(level);
        } else {
            bytes.extend_from_slice(write_level(text(level)?).as_bytes());
        }
        count += 1;
    }
    *address = String::from_utf8(bytes).map_err(|_| NOT_UTF8)?;
    Ok(count)
}

/// Bytes that stand in a canonical level as they are, whatever stands beside them.
const IS_PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut special: &[u8] = b"%/+#\0";
    while let [byte, rest @ ..] = special {
        plain[*byte as usize] = false;
        special = rest;
    }
    plain
};

fn text(bytes: &[u8]) -> Result<&str, Unreadable> {
    std::str::from_utf8(bytes).map_err(|_| NOT_UTF8)
}

/// What Uri-Query says. Names that we do not know are left alone: others' clients put their credentials there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes<'b> {
    /// `qos=0|1|2`.
    pub(super) qos: Option<u8>,
    /// `retain=true|false|1|0`, or just `retain`.
    pub(super) retain: Option<bool>,
    /// `expiry=<seconds>`.
    pub(super) expiry_secs: Option<u32>,
    /// `priority=<0…255>`.
    pub(super) priority: u8,
    /// `queue=<depth>`.
    pub(super) queue: Option<u16>,
    /// `filter=<filter>`: a topic filter where addresses are listed, a content filter where one is observed, or a message
    /// taken.
    pub(super) filter: Option<&'b str>,
    /// There are some `h.<name>=<value>`; see [`user_properties`].
    pub(super) has_user_properties: bool,
    /// The stamp, if there is something that should be one.
    pub(super) stamp: Option<stamp::Found>,
}

impl<'b> Wishes<'b> {
    pub(super) fn content_filter(&self) -> Result<Option<Arc<Predicate>>, Answer> {
        let refused = |error: FilterError| Answer::words(Code::BAD_REQUEST, error.to_string());
        let read = self.filter.map(Predicate::parse).transpose();
        Ok(read.map_err(refused)?.map(Arc::new))
    }

    pub(super) fn read(options: &Options<'b>) -> Result<Self, Unreadable> {
        let found = options.get(STAMP_OPTION).map(Stamp::from_bytes);
        let mut wishes = Wishes {
            stamp: found,
            ..Wishes::default()
        };
        for query in options.all(option::URI_QUERY) {
            let query = std::str::from_utf8(query)
                .map_err(|_| Unreadable("a query is not UTF-8 (RFC 7252 section 5.10.1)"))?;
            let (name, value) = query.split_once('=').unwrap_or((query, ""));
            match name {
                "qos" => {
                    wishes.qos = Some(match value {
                        "0" => 0,
                        "1" => 1,
                        "2" => 2,
                        _ => return Err(Unreadable("qos is 0, 1 or 2")),
                    });
                }
                "retain" => {
                    wishes.retain = Some(match value {
                        "" | "true" | "1" => true,
                        "false" | "0" => false,
                        _ => return Err(Unreadable("retain is true or false")),
                    });
                }
                "expiry" => {
                    let secs = value
                        .parse()
                        .map_err(|_| Unreadable("expiry is a number of seconds"))?;
                    wishes.expiry_secs = Some(secs);
                }
                "priority" => {
                    wishes.priority = value
                        .parse()
                        .map_err(|_| Unreadable("priority is a number from 0 to 255"))?;
                }
                "queue" => {
                    let depth: u16 = value
                        .parse()
                        .map_err(|_| Unreadable("queue is a number from 1 to 65535"))?;
                    wishes.queue = Some(depth.max(1));
                }
                "filter" => wishes.filter = Some(value),
                name if name.starts_with(USER_PROPERTY) => wishes.has_user_properties = true,
                _ => {}
            }
        }
        Ok(wishes)
    }
}

/// Begins the name of a query that is a user property.
const USER_PROPERTY: &str = "h.";

/// The `h.<name>=<value>` of a request, in their order.
pub(super) fn user_properties<'b>(
    options: &Options<'b>,
) -> impl Iterator<Item = (&'b str, &'b str)> {
    options.all(option::URI_QUERY).filter_map(|query| {
        let query = std::str::from_utf8(query).ok()?;
        query
            .strip_prefix(USER_PROPERTY)
            .map(|rest| rest.split_once('=').unwrap_or((rest, "")))
    })
}

/// What a client may do with an address of ours that begins with `$`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    /// It does not begin so: whatever the access rules allow.
    No,
    /// A queue or an exchange: it may be published to, and keeps no value.
    Passes,
    /// Whatever the broker keeps to itself: it may be read, as far as the access rules allow.
    ReadOnly,
}

/// What kind of address this is.
pub(super) fn reserved(address: &str) -> Reserved {
    let Some(rest) = address.strip_prefix('$') else {
        return Reserved::No;
    };
    let first = rest.split('/').next().unwrap_or_default();
    match first.split_once('@').map_or(first, |(kind, _)| kind) {
        // An address of a tenant's own.
        "t" if first.len() > 2 => match rest.split_once('/') {
            Some((_, inner)) if inner.starts_with('$') => Reserved::ReadOnly,
            _ => Reserved::No,
        },
        "q" | "x" => Reserved::Passes,
        _ => Reserved::ReadOnly,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_coap::{Code, Encoder, Message, Token, Type};

    /// A request with these path levels and queries.
    fn request(path: &[&[u8]], queries: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::start(&mut out, Type::Confirmable, Code::GET, 1, Token::EMPTY);
        for level in path {
            encoder.option(option::URI_PATH, level);
        }
        for query in queries {
            encoder.option(option::URI_QUERY, query.as_bytes());
        }
        out
    }

    #[track_caller]
    fn read(path: &[&[u8]], tenant: &str) -> (Result<String, Unreadable>, String) {
        let bytes = request(path, &[]);
        let message = Message::decode(&bytes).expect("it was just encoded");
        let mut address = "what was there before".to_owned();
        let resource = Resource::read(&message.options, tenant, &mut address);
        (resource.map(|resource| format!("{resource:?}")), address)
    }

    #[test]
    fn a_path_names_a_resource_and_levels_make_an_address_byte_for_byte() {
        for (path, resource, address) in [
            (&["ps", "data", "a", "b"][..], "Data(Data)", "a/b"),
            (&["ps", "data", "", "a", "", ""], "Data(Data)", "/a//"),
            (&["ps", "data", ""], "Data(Data)", ""),
            (&["ps", "data"], "AllData", ""),
            (
                &["ps", "data", "a/b", "c%2Fd", "+", "#", "100%"],
                "Data(Data)",
                "a%2Fb/c%252Fd/%2B/%23/100%",
            ),
            (&["ps", "data", "ps", "data"], "Data(Data)", "ps/data"),
            (&["ps", "data", "a\0b"], "Data(Data)", "a%00b"),
            (&["ps"], "Collection", ""),
            (&["ps", ""], "Collection", ""),
            (&["ps", "t1"], "Topic(\"t1\")", "t1"),
            (&["ps", "a", "b"], "Data(Emqx)", "a/b"),
            (&["q", "work"], "Queue(\"work\")", ""),
            (&["q", "a/b"], "Queue(\"a/b\")", ""),
            (&["q"], "Unknown", ""),
            (&["q", "a", "b"], "Unknown", ""),
            (&["rpc", "add", "one"], "Rpc", "add/one"),
            (&["rpc"], "Unknown", ""),
            (&[".well-known", "core"], "WellKnownCore", ""),
            (&[".well-known", "core", "x"], "Unknown", ""),
            (&[".well-known", "edhoc"], "Unknown", ""),
            (&[], "Unknown", ""),
            (&["other"], "Unknown", ""),
        ] {
            let path: Vec<&[u8]> = path.iter().map(|level| level.as_bytes()).collect();
            let (read_resource, read_address) = read(&path, "");
            assert_eq!(
                (read_resource.as_deref(), &*read_address),
                (Ok(resource), address),
                "{path:?}"
            );
        }
        assert_eq!(read(&[b"ps", b"data", b"a", b"b"], "blue").1, "$t@blue/a/b");
    }

    #[test]
    fn a_path_that_is_not_text_is_refused() {
        for path in [
            &[&b"ps"[..], b"data", b"\xff"][..],
            &[b"ps", b"\xff"],
            &[b"q", b"\xff"],
            &[b"rpc", b"a", b"\xff"],
        ] {
            assert_eq!(read(path, "").0, Err(NOT_UTF8), "{path:?}");
        }
    }

    #[test]
    fn queries_are_wishes_and_unknown_ones_are_let_pass() {
        let all = [
            "qos=2",
            "retain=false",
            "expiry=60",
            "priority=7",
            "queue=5",
            "filter=a/+",
            "h.k=v=w",
            "c=id",
            "x",
        ];
        let bytes = request(&[], &all);
        let options = Message::decode(&bytes)
            .expect("it was just encoded")
            .options;
        let wishes = Wishes {
            qos: Some(2),
            retain: Some(false),
            expiry_secs: Some(60),
            priority: 7,
            queue: Some(5),
            filter: Some("a/+"),
            has_user_properties: true,
            stamp: None,
        };
        assert_eq!(Wishes::read(&options), Ok(wishes));
        assert_eq!(
            user_properties(&options).collect::<Vec<_>>(),
            [("k", "v=w")]
        );
        for wrong in [
            "qos=3",
            "qos",
            "retain=maybe",
            "expiry=",
            "expiry=-1",
            "priority=256",
            "queue=70000",
        ] {
            let bytes = request(&[], &[wrong]);
            let options = Message::decode(&bytes)
                .expect("it was just encoded")
                .options;
            assert!(Wishes::read(&options).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_the_broker_keeps_to_itself_may_be_read_only() {
        for (address, kind) in [
            ("a/b", Reserved::No),
            ("", Reserved::No),
            ("a/$q", Reserved::No),
            ("$t@blue/a", Reserved::No),
            ("$t@blue/$ps/1", Reserved::ReadOnly),
            ("$q/work", Reserved::Passes),
            ("$x/logs/a", Reserved::Passes),
            ("$q@blue/work", Reserved::Passes),
            ("$SYS/uptime", Reserved::ReadOnly),
            ("$ps/t1", Reserved::ReadOnly),
            ("$reply/1/2", Reserved::ReadOnly),
            ("$", Reserved::ReadOnly),
            ("$t", Reserved::ReadOnly),
        ] {
            assert_eq!(reserved(address), kind, "{address}");
        }
    }
}
