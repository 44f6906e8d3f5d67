//! Names of ROS 2 nodes. A node is no entity of DDS: each participant writes on `ros_discovery_info` which nodes it has, and the ids
//! of their endpoints (`rmw_dds_common/msg/ParticipantEntitiesInfo`).
//!
//! An id takes 24 bytes up to ROS 2 Humble, 16 of which are used, and 16 since Iron. A sample shows which: what follows the 16 bytes
//! of the participant's id is a count in the one, and eight zeros in the other, which no count of a longer sample is.

use crate::cdr::{self, Fault, HEADER_BYTES};
use crate::name;
use crate::types::{Struct, Types};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

/// Globally unique id of an endpoint or a participant.
pub type Guid = [u8; 16];

pub const TOPIC: &str = "ros_discovery_info";
pub const TYPE: &str = "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_";

/// Bytes of the longest sample that is read.
const SAMPLE_MAX: usize = 1 << 20;

/// Bytes of an id in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Up to ROS 2 Humble.
    Ids24,
    /// Since ROS 2 Iron.
    Ids16,
}

/// A node, and its endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// With its namespace: `/arm/driver`.
    pub name: String,
    pub readers: Vec<Guid>,
    pub writers: Vec<Guid>,
}

/// The types of both layouts.
pub struct Codec {
    ids_24: Types,
    ids_16: Types,
}

impl Codec {
    pub fn of_both() -> Codec {
        let of = |size: usize| {
            let mut types = Types::default();
            for (name, text) in [
                ("Gid", &*format!("char[{size}] data")),
                (
                    "NodeEntitiesInfo",
                    "string node_namespace\nstring node_name\nGid[] reader_gid_seq\nGid[] writer_gid_seq",
                ),
                (
                    "ParticipantEntitiesInfo",
                    "Gid gid\nNodeEntitiesInfo[] node_entities_info_seq",
                ),
            ] {
                // A test reads and writes values of all.
                let _ = types.add(&format!("rmw_dds_common/msg/{name}"), text);
            }
            types
        };
        Codec {
            ids_24: of(24),
            ids_16: of(16),
        }
    }

    fn types(&self, layout: Layout) -> Result<(&Types, &Arc<Struct>), Fault> {
        let types = match layout {
            Layout::Ids24 => &self.ids_24,
            Layout::Ids16 => &self.ids_16,
        };
        Ok((types, types.find(TYPE).ok_or(Fault::Depth)?))
    }

    /// The nodes of a sample, but for those whose name is none.
    pub fn read(&self, sample: &[u8]) -> Result<(Layout, Vec<Node>), Fault> {
        if sample.len() > SAMPLE_MAX {
            return Err(Fault::Length);
        }
        let rest = sample.get(HEADER_BYTES + 16..).ok_or(Fault::Truncated)?;
        let layout = match rest {
            [0, 0, 0, 0, 0, 0, 0, 0, ..] => Layout::Ids24,
            _ => Layout::Ids16,
        };
        let (types, of) = self.types(layout)?;
        let value = cdr::to_json(sample, of, types)?;
        let nodes = value["node_entities_info_seq"].as_array();
        let node = |it: &Value| {
            let text = |field: &str| it[field].as_str();
            Some(Node {
                name: name::of_node(text("node_namespace")?, text("node_name")?)?,
                readers: guids_of(&it["reader_gid_seq"]),
                writers: guids_of(&it["writer_gid_seq"]),
            })
        };
        Ok((
            layout,
            nodes.into_iter().flatten().filter_map(node).collect(),
        ))
    }

    /// The sample of a participant that has one node.
    pub fn write(&self, layout: Layout, participant: &Guid, node: &Node) -> Result<Vec<u8>, Fault> {
        let (types, of) = self.types(layout)?;
        let size = if layout == Layout::Ids24 { 24 } else { 16 };
        let id = |guid: &Guid| {
            let mut data = guid.to_vec();
            data.resize(size, 0);
            json!({"data": BASE64_STANDARD.encode(data)})
        };
        let ids = |guids: &[Guid]| guids.iter().map(id).collect::<Value>();
        let (namespace, name) = node.name.rsplit_once('/').unwrap_or_default();
        let value = json!({
            "gid": id(participant),
            "node_entities_info_seq": [{
                "node_namespace": if namespace.is_empty() { "/" } else { namespace },
                "node_name": name,
                "reader_gid_seq": ids(&node.readers),
                "writer_gid_seq": ids(&node.writers),
            }],
        });
        cdr::from_json(&value, of, types, false)
    }
}

fn guids_of(list: &Value) -> Vec<Guid> {
    let guid = |it: &Value| {
        let data = BASE64_STANDARD.decode(it["data"].as_str()?).ok()?;
        data.first_chunk().copied()
    };
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(guid)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_both_layouts() {
        let codec = Codec::of_both();
        for (name, writers) in [
            ("/thalweg", vec![]),
            ("/arm/left/driver", vec![[3; 16], [0; 16]]),
        ] {
            let node = Node {
                name: name.to_owned(),
                readers: vec![[1; 16], [2; 16]],
                writers,
            };
            for layout in [Layout::Ids16, Layout::Ids24] {
                let sample = codec.write(layout, &[9; 16], &node).expect("written");
                assert_eq!(codec.read(&sample), Ok((layout, vec![node.clone()])));
            }
        }
    }

    #[test]
    fn samples_are_as_ros_2_writes_them() {
        let codec = Codec::of_both();
        let node = Node {
            name: "/a/b".into(),
            readers: vec![[2; 16]],
            writers: vec![],
        };
        let tail: Vec<u8> = [
            &[1, 0, 0, 0][..],
            &[3, 0, 0, 0, b'/', b'a', 0, 0],
            &[2, 0, 0, 0, b'b', 0, 0, 0],
            &[1, 0, 0, 0],
            &[2; 16],
        ]
        .concat();
        let old = [
            &[0, 1, 0, 0][..],
            &[9; 16],
            &[0; 8],
            &tail,
            &[0; 8],
            &[0; 4],
        ]
        .concat();
        let new = [&[0, 1, 0, 0][..], &[9; 16], &tail, &[0; 4]].concat();
        for (layout, sample) in [(Layout::Ids24, old), (Layout::Ids16, new)] {
            assert_eq!(codec.write(layout, &[9; 16], &node), Ok(sample.clone()));
            for end in 0..sample.len() {
                assert_ne!(codec.read(&sample[..end]), Ok((layout, vec![node.clone()])));
            }
        }
    }

    #[test]
    fn a_participant_may_have_no_node_or_one_without_a_name() {
        let codec = Codec::of_both();
        let new = [&[0, 1, 0, 0][..], &[9; 16], &[0; 4]].concat();
        assert_eq!(codec.read(&new), Ok((Layout::Ids16, vec![])));
        let old = [&[0, 1, 0, 0][..], &[9; 16], &[0; 8], &[0; 4]].concat();
        assert_eq!(codec.read(&old), Ok((Layout::Ids24, vec![])));
        let unnamed = Node {
            name: "/a\n".into(),
            ..Node::default()
        };
        let sample = codec.write(Layout::Ids16, &[9; 16], &unnamed);
        let read = codec.read(&sample.expect("written"));
        assert_eq!(read, Ok((Layout::Ids16, vec![])));
    }
}
