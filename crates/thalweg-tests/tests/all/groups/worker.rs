//! An MQTT worker: receives a message, works, acknowledges, until its connection ends or it is stopped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::line::{Came, MqttConnection};
use super::log::Log;
use super::publisher::number;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;

/// How often an idle worker checks whether it should stop.
pub const GLANCE: Duration = Duration::from_millis(5);

/// Work of a member between a delivery and its settlement.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    Lasts(Duration),
    /// It waits until others have taken so many messages: its speed relative to theirs is the same on every machine.
    Behind(usize),
}

impl Work {
    pub fn do_it(self, who: &str, log: &Log) {
        match self {
            Work::Lasts(time) => std::thread::sleep(time),
            Work::Behind(count) => log.wait_for_others(who, count),
        }
    }
}

impl From<Duration> for Work {
    fn from(time: Duration) -> Work {
        Work::Lasts(time)
    }
}

/// A thread that works.
pub struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// A worker with a clean session in a group, when it is subscribed.
    pub fn start(
        broker: SocketAddr,
        who: &str,
        filter: &str,
        work: impl Into<Work>,
        log: &Log,
    ) -> Worker {
        let work = work.into();
        let mut line = MqttConnection::connect(broker, &Connect::new(V5, who));
        assert!(line.subscribe(filter, 1));
        let (who, log) = (who.to_owned(), log.clone());
        Worker::run(move |stop| {
            while !stop.load(Ordering::Relaxed) {
                match line.next(GLANCE) {
                    Came::Packet(Packet::Publish(message)) => {
                        log.taken(&who, number(&message.payload), message.dup);
                        work.do_it(&who, &log);
                        line.send(&ack(PUBACK, message.id));
                        log.settled(number(&message.payload));
                    }
                    Came::Packet(other) => panic!("{who} got {other:?}"),
                    Came::Nothing => {}
                    Came::End => panic!("{who} was cut off"),
                }
            }
        })
    }

    /// A thread that looks whether it should stop.
    pub fn run(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Worker {
        let stop: Arc<AtomicBool> = Arc::default();
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || work(&stopping));
        Worker {
            stop,
            thread: Some(thread),
        }
    }

    /// Ends it, and fails if it failed.
    pub fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .take()
            .expect("stopped once")
            .join()
            .expect("a worker does not fail");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
