//! `dds.*`: the section of the bridge into a domain of DDS.

use crate::section::section;
use std::path::PathBuf;
use thalweg_model::{Filter, Span};

section! {
    pub struct Dds {
        /// Whether the broker takes part in a domain of DDS. Only a program that was built with `--features dds` can.
        /// DDS has no log-in: every program that reaches the interfaces has the rights of `dds.user`.
        enabled: bool = Flag, "false", Restart;
        /// The number of the domain (ROS 2: `ROS_DOMAIN_ID`). Its UDP ports begin at 7400 + 250 x the number.
        domain: u32 = count(0, 232), "0", Restart;
        /// One more domain that is joined with the same settings: what is written in one of the two is heard in the other.
        second_domain: Option<u32> = count(0, 232), "off" or "off", Restart;
        /// Addresses or names of the network interfaces that the domain is reached by. The loopback interface, unless
        /// others are named.
        interfaces: Vec<String> = NAMES, "127.0.0.1", Restart;
        /// Addresses where participants are looked for, beside multicast.
        peers: Vec<String> = NAMES, "127.0.0.1", Restart;
        /// Whether participants are looked for by multicast, too. Never on a loopback interface.
        multicast: bool = Flag, "true", Restart;
        /// The user that access rules know the bridge as.
        user: String = Text, "dds", Restart;
        /// Topic filters: the addresses that are bridged, in both directions.
        allow: Vec<Filter> = FILTERS, "#", Restart;
        /// Topic filters: addresses that are not bridged, whatever `dds.allow` says.
        deny: Vec<Filter> = FILTERS, "", Restart;
        /// What addresses of ROS 2 topics begin with: `rt/chatter` is `ros/chatter`. Empty: they begin with nothing
        /// more.
        ros_mount: String = Text, "ros", Restart;
        /// The full name of the node of ROS 2 that the bridge is (`ros2 node list`), with its readers and writers. `off`: it is none,
        /// and the names of other nodes are not read.
        ros_node: Option<String> = Text, "/thalweg" or "off", Restart;
        /// Topic filters: at these addresses values of known types are JSON in the broker, both ways. Elsewhere, and
        /// where the type is not known, they are as DDS encodes them (CDR).
        json: Vec<Filter> = FILTERS, "", Restart;
        /// Topic filters: samples at such addresses become last values (MQTT: retained messages), as those of writers
        /// with TRANSIENT_LOCAL durability do everywhere.
        retain: Vec<Filter> = FILTERS, "", Restart;
        /// Topic filters: at these addresses no more than one sample of each instance is published per `dds.separation`
        /// (TIME_BASED_FILTER); what comes between is dropped before it is converted.
        sampled: Vec<Filter> = FILTERS, "", Restart;
        /// The least time between two samples of an instance at addresses of `dds.sampled`, by the stamps of their writer.
        separation: Span = millis(1, 86_400_000), "100ms", Restart;
        /// Topic filters: addresses of topics with a key whose instances have addresses of their own, one level below: the hash
        /// of the key in hexadecimal digits, or the key itself if that is fixed in size and at most 16 bytes long. Where the
        /// type is known, the values of the key's fields. Elsewhere all instances share the address, and one last value.
        keys: Vec<Filter> = FILTERS, "#", Restart;
        /// Topic filters: addresses of topics without a key whose TRANSIENT_LOCAL writers have addresses of their own, one level below:
        /// the id of the writer, as `ros2 topic info --verbose` shows it. So each writer has its last value, where each says a part of
        /// the whole. Elsewhere all writers share the address, and its last value is the latest of them. `automatic`: `tf_static` of
        /// ROS 2, below `dds.ros_mount`.
        writers: Option<Vec<Filter>> = FILTERS, "automatic" or "automatic", Restart;
        /// Topic filters: the addresses of services that clients of the broker serve, offered to clients of ROS 2. Not those
        /// that a node of ROS 2 serves, or requests are answered twice; these need no setting.
        services: Vec<Filter> = FILTERS, "", Restart;
        /// A folder with types beside those that are built in: of ROS 2 packages, `<package>/msg/<Name>.msg` and
        /// `<package>/srv/<Name>.srv`, and files of IDL, `<name>.idl`.
        types: Option<PathBuf> = Path, "", Restart;
        /// Largest sample that is bridged, with its encoding. A larger one is dropped and counted.
        message_bytes_max: usize = MESSAGE_BYTES, "16MiB", Restart;
    }
}
