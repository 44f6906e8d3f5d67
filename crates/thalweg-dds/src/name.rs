//! Addresses of topics: partition `a/b` and topic `c` are `a/b/c`; the topic `rt/x/y` of ROS 2 is `x/y` below its mount, as is
//! the service that the topics `rq/x/yRequest` and `rr/x/yReply` are. What an address cannot hold (`+`, `#`) is written `%HH`.

use thalweg_model::{Address, octets};

/// Prefixes and suffixes of topics of ROS 2, by content.
const ROS: [(&str, &str, Role); 3] = [
    ("rt/", "", Role::Topic),
    ("rq/", "Request", Role::Request),
    ("rr/", "Reply", Role::Reply),
];
/// Topics of two participants' discovery of each other.
const PRIVATE: [&str; 4] = ["rq/", "rr/", "ros_discovery_info", "DCPS"];
/// Hexadecimal digits of a key's hash.
const KEY_DIGITS: usize = 32;
/// Bytes of the longest full name of a node: ROS 2 allows 255 for the name, and less for the namespace.
const NODE_MAX: usize = 512;

/// Content of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Topic,
    /// Requests of a service, from its clients to its server.
    Request,
    /// Answers, to all clients of a service.
    Reply,
}

/// Where an endpoint belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: String,
    pub role: Role,
}

/// Why an endpoint has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// Topics that participants use for themselves.
    Private,
    /// It is in several partitions, or in a pattern of them.
    Partitions,
    /// Its address would be invalid: too long, or with characters that are not allowed.
    Characters,
}

/// The place of an endpoint. `ros` is what topics of ROS 2 are mounted at.
pub fn place_of(partitions: &[String], topic: &str, ros: &str) -> Result<Place, NoAddress> {
    let of_ros = ROS.iter().find_map(|(prefix, suffix, role)| {
        let name = topic.strip_prefix(prefix)?.strip_suffix(suffix)?;
        (!name.is_empty()).then_some((name, *role))
    });
    if of_ros.is_none() && PRIVATE.iter().any(|prefix| topic.starts_with(prefix)) {
        return Err(NoAddress::Private);
    }
    let partition = match partitions {
        [] => String::new(),
        [one] if !one.contains(['*', '?', '[', '\\']) => levels_of(one),
        _ => return Err(NoAddress::Partitions),
    };
    let mut address = String::new();
    let mut add = |levels: &str| {
        if !levels.is_empty() {
            address.push_str(levels);
            address.push('/');
        }
    };
    let (topic, role) = match of_ros {
        Some((name, role)) => {
            add(ros);
            add(&partition);
            (levels_of(name), role)
        }
        None => {
            add(&partition);
            (one_level(&levels_of(topic)), Role::Topic)
        }
    };
    address.push_str(&topic);
    match Address::check(&address) {
        // Addresses that begin with `$` belong to the broker.
        Ok(()) if !address.starts_with('$') => Ok(Place { address, role }),
        _ => Err(NoAddress::Characters),
    }
}

/// Whether a topic is one of ROS 2's, or half of a service.
pub fn is_of_ros(topic: &str) -> bool {
    ROS.iter().any(|(prefix, ..)| topic.starts_with(prefix))
}

/// The full name of a node of ROS 2, `/arm/driver`; nothing if its namespace or its name is none.
pub fn of_node(namespace: &str, name: &str) -> Option<String> {
    let full = match namespace {
        "/" => format!("/{name}"),
        _ => format!("{namespace}/{name}"),
    };
    is_node(&full).then_some(full)
}

/// Whether a text is the full name of a node of ROS 2: a `/` before each of its parts, which are of letters, digits and `_`.
pub fn is_node(full: &str) -> bool {
    let is_part = |part: &str| {
        let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
        !part.is_empty() && !part.as_bytes()[0].is_ascii_digit() && part.bytes().all(is_word)
    };
    let parts = full.strip_prefix('/').map(|rest| rest.split('/'));
    full.len() <= NODE_MAX && parts.is_some_and(|mut parts| parts.all(is_part))
}

/// Appends the last level of the address of an instance: the hash of its key, or the key itself if that is short.
pub fn push_key_level(key: &[u8; 16], address: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut level = [0; 32];
    for (two, byte) in level.chunks_exact_mut(2).zip(key) {
        two.copy_from_slice(&[byte >> 4, byte & 0xf].map(|half| DIGITS[usize::from(half)]));
    }
    // All of it is ASCII.
    address.push_str(str::from_utf8(&level).unwrap_or_default());
}

/// The last level of the address of a lasting writer: its id as ROS 2 writes it.
pub fn writer_level(guid: &[u8; 16]) -> String {
    guid.map(|byte| format!("{byte:02x}")).join(".")
}

/// The hash of the key that such a level says. Any other text is a key of its own.
pub fn key_of(level: &str) -> [u8; 16] {
    let number = match level.len() {
        KEY_DIGITS => u128::from_str_radix(level, 16).ok(),
        _ => None,
    };
    let hash = |level: &str| {
        level
            .bytes()
            .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
                (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
            })
    };
    number.unwrap_or_else(|| hash(level)).to_be_bytes()
}

/// A name as levels, whose wildcards are codes.
fn levels_of(name: &str) -> String {
    let mut levels = String::new();
    octets::read(name.as_bytes(), &mut levels);
    levels
}

/// A topic's name as one level: `/` is `%2F`, and so is a `%` that would be read as such a code.
fn one_level(topic: &str) -> String {
    topic.replace("%2F", "%252F").replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_and_topic_are_an_address() {
        let address = |partition: &[&str], topic| {
            let partitions: Vec<String> = partition.iter().map(|it| (*it).to_owned()).collect();
            place_of(&partitions, topic, "ros").map(|place| place.address)
        };
        assert_eq!(address(&[], "Square").as_deref(), Ok("Square"));
        assert_eq!(address(&["a/b"], "c").as_deref(), Ok("a/b/c"));
        assert_eq!(address(&[""], "c/d").as_deref(), Ok("c%2Fd"));
        assert_eq!(address(&[], "rt/arm/pose").as_deref(), Ok("ros/arm/pose"));
        assert_eq!(
            address(&["cell"], "rt/chatter").as_deref(),
            Ok("ros/cell/chatter")
        );
        assert_eq!(address(&["a", "b"], "c"), Err(NoAddress::Partitions));
        assert_eq!(address(&["a*"], "c"), Err(NoAddress::Partitions));
        assert_eq!(address(&[], "rq/add"), Err(NoAddress::Private));
        assert_eq!(address(&[], "rq/Request"), Err(NoAddress::Private));
        assert_eq!(address(&[], "ros_discovery_info"), Err(NoAddress::Private));
        assert_eq!(address(&[], "$SYS"), Err(NoAddress::Characters));
        // What an address cannot hold, and what looks as if it had been such a thing.
        for (partition, topic, expected) in [
            ("a/+", "c", "a/%2B/c"),
            ("a#b", "c+d/e", "a%23b/c%2Bd%2Fe"),
            ("a%2Bb", "c%23", "a%252Bb/c%2523"),
            ("x%2Fy", "c%2Fd", "x%2Fy/c%252Fd"),
            ("+", "rt/x", "ros/%2B/x"),
        ] {
            assert_eq!(address(&[partition], topic).as_deref(), Ok(expected));
        }
        let role = |topic| place_of(&[], topic, "").map(|place| (place.address, place.role));
        assert_eq!(role("rt/chatter"), Ok(("chatter".into(), Role::Topic)));
        let service = "arm/add".to_owned();
        assert_eq!(
            role("rq/arm/addRequest"),
            Ok((service.clone(), Role::Request))
        );
        assert_eq!(role("rr/arm/addReply"), Ok((service, Role::Reply)));
    }

    #[test]
    fn nodes_have_full_names() {
        assert_eq!(of_node("/", "talker").as_deref(), Some("/talker"));
        assert_eq!(
            of_node("/arm", "_driver2").as_deref(),
            Some("/arm/_driver2")
        );
        for (namespace, name) in [
            ("", ""),
            ("/", ""),
            ("arm", "a"),
            ("/", "a/b\n"),
            ("/2", "a"),
        ] {
            assert_eq!(of_node(namespace, name), None, "{namespace} {name}");
        }
        assert!(is_node("/thalweg") && !is_node("thalweg") && !is_node("/"));
        assert!(!is_node(&format!("/{}", "a".repeat(NODE_MAX))));
        assert!(is_of_ros("rt/chatter") && is_of_ros("rr/addReply") && !is_of_ros("Square"));
    }

    #[test]
    fn keys_are_levels_and_any_level_is_a_key() {
        let key = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff];
        let mut level = String::new();
        push_key_level(&key, &mut level);
        assert_eq!(level, "000000070000000000000000000000ff");
        assert_eq!(key_of(&level), key);
        assert_ne!(key_of("RED"), key_of("BLUE"));
        assert_ne!(key_of(""), [0; 16]);
        let writer = writer_level(&key);
        assert_eq!(writer, "00.00.00.07.00.00.00.00.00.00.00.00.00.00.00.ff");
    }
}
