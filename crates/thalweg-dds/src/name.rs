//! Addresses of topics: partition `a/b` and topic `c` are `a/b/c`; the topic `rt/x/y` of ROS 2 is `x/y` below its mount.

use thalweg_model::Address;

/// What a topic of ROS 2 begins with; those of services (`rq/`, `rr/`) and of its own housekeeping do not.
const ROS_TOPIC: &str = "rt/";
/// What two participants exchange about themselves.
const PRIVATE: [&str; 4] = ["rq/", "rr/", "ros_discovery_info", "DCPS"];

/// Why an endpoint has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// A service of ROS 2, or what participants tell each other.
    Private,
    /// It is in several partitions, or in a pattern of them.
    Partitions,
    /// What would be its address is none: too long, or with characters that no address has.
    Characters,
}

/// The address of an endpoint. `ros` is what topics of ROS 2 are mounted at.
pub fn address_of(partitions: &[String], topic: &str, ros: &str) -> Result<String, NoAddress> {
    if PRIVATE.iter().any(|prefix| topic.starts_with(prefix)) {
        return Err(NoAddress::Private);
    }
    let partition = match partitions {
        [] => "",
        [one] if !one.contains(['*', '?', '[', '\\']) => one,
        _ => return Err(NoAddress::Partitions),
    };
    let mut address = String::new();
    let mut add = |levels: &str| {
        if !levels.is_empty() {
            address.push_str(levels);
            address.push('/');
        }
    };
    let topic = match topic.strip_prefix(ROS_TOPIC) {
        Some(topic) => {
            add(ros);
            add(partition);
            topic.to_owned()
        }
        None => {
            add(partition);
            one_level(topic)
        }
    };
    address.push_str(&topic);
    match Address::check(&address) {
        // What begins with `$` is the broker's own.
        Ok(()) if !address.starts_with('$') => Ok(address),
        _ => Err(NoAddress::Characters),
    }
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
            address_of(&partitions, topic, "ros")
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
        assert_eq!(address(&[], "rq/addRequest"), Err(NoAddress::Private));
        assert_eq!(address(&[], "ros_discovery_info"), Err(NoAddress::Private));
        assert_eq!(address(&[], "$SYS"), Err(NoAddress::Characters));
        assert_eq!(address(&["a/+"], "c"), Err(NoAddress::Characters));
        assert_eq!(address_of(&[], "rt/chatter", "").as_deref(), Ok("chatter"));
    }
}
