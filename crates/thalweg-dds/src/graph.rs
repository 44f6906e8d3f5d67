//! The bridge as a node of ROS 2: it reads which nodes others have, and writes that it is one, with its readers and writers.

use crate::cyclone::{Error, Guid, Participant, Reader, SampleKind, Topic, Writer};
use crate::nodes::{self, Codec, Layout, Node};
use crate::qos::{Durability, Qos};
use crate::remarks::Remarks;
use std::time::{Duration, Instant};

/// What [`Participant::wait`] reports samples of nodes by; no other reader has this number.
pub(crate) const TOKEN: u32 = 0;
/// Least time between two samples of ours: each names all endpoints, and many are discovered at once.
const WRITE_EVERY: Duration = Duration::from_millis(100);
/// Samples that wait to be read.
const WAITING_MAX: u32 = 1024;

pub(crate) struct Graph {
    codec: Codec,
    participant: Guid,
    reader: Reader,
    writer: Writer,
    /// As others wrote last. Without one nothing is written: who wants to know nodes is one.
    layout: Option<Layout>,
    node: Node,
    /// What was written last, and when.
    written: Vec<u8>,
    written_at: Option<Instant>,
}

impl Graph {
    /// `name` is the node's full name.
    pub(crate) fn join(participant: &Participant, name: &str) -> Result<Graph, Error> {
        let topic = Topic {
            name: nodes::TOPIC.into(),
            type_name: nodes::TYPE.into(),
            is_keyless: true,
        };
        let lasting = Qos {
            is_reliable: true,
            durability: Durability::TransientLocal,
            latency_budget: Some(Duration::ZERO),
            ..Qos::default()
        };
        // All writers' samples are of the one instance there is, and each counts.
        let all = Qos {
            samples_max: WAITING_MAX,
            ..lasting.clone()
        };
        let last = Qos {
            depth: 1,
            late_depth: 1,
            ..lasting
        };
        Ok(Graph {
            codec: Codec::of_both(),
            participant: participant.guid(),
            reader: participant.reader(&topic, &all, TOKEN, false)?,
            writer: participant.writer(&topic, &last)?,
            layout: None,
            node: Node {
                name: name.to_owned(),
                ..Node::default()
            },
            written: Vec::new(),
            written_at: None,
        })
    }

    /// Reads what others wrote of their nodes.
    pub(crate) fn read(&mut self, remarks: &Remarks) {
        let Graph {
            codec,
            reader,
            layout,
            ..
        } = self;
        let mut take = || {
            reader.take(|sample| {
                // Not by the participant that the sample names: any participant could name another's.
                let writer = reader.writer(sample.writer);
                if let (SampleKind::Data, Some(writer)) = (sample.kind, writer) {
                    match codec.read(sample.bytes) {
                        Ok((heard, nodes)) => {
                            *layout = Some(heard);
                            remarks.set_nodes(writer.guid, nodes);
                        }
                        Err(why) => tracing::debug!(%why, "a sample of ROS 2 nodes is unreadable"),
                    }
                }
            })
        };
        while take() == Reader::TAKEN_MAX {}
    }

    /// Writes the node with these endpoints, unless that was the last that was written. Returns how long to wait before it
    /// is tried again, if it is too early.
    pub(crate) fn write(&mut self, readers: Vec<Guid>, writers: Vec<Guid>) -> Option<Duration> {
        let layout = self.layout?;
        self.node.readers = readers;
        self.node.writers = writers;
        self.node.readers.sort_unstable();
        self.node.writers.sort_unstable();
        let sample = self.codec.write(layout, &self.participant, &self.node);
        let sample = sample.ok().filter(|it| *it != self.written)?;
        let early = self.written_at.and_then(|at| {
            let since = at.elapsed();
            (since < WRITE_EVERY).then(|| WRITE_EVERY - since)
        });
        if early.is_some() {
            return early;
        }
        self.written_at = Some(Instant::now());
        match self.writer.write(SampleKind::Data, &sample, [0; 16]) {
            Ok(()) => {
                self.writer.flush();
                self.written = sample;
                None
            }
            // A reader does not keep up.
            Err(_) => Some(WRITE_EVERY),
        }
    }
}
