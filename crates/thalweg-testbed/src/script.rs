//! Two connections that do what a script of bytes says, and a broker that does nothing by itself: what the scripts of all
//! protocols share. See the tests named `script` and `nonsense`, and `fuzz/`.

use crate::bed::{Settings, Testbed};
use crate::client::{Raw, Who};
use thalweg_fronts::{AnyFront, Link, Links, LinksLimits, LoginAnswer, LoginRefusal};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId};
use thalweg_model::{Span, Time};

/// Number of sessions of [`small`] brokers.
pub const SESSIONS_MAX: usize = 6;

pub struct Script {
    pub bed: Testbed,
    ends: [Option<Who<Raw>>; 2],
    /// More input than this waits for nothing but a pause or an answer.
    input_max: usize,
    /// More output than this is never there.
    output_bound: usize,
}

impl Script {
    pub fn new(settings: Settings, input_max: usize, output_bound: usize) -> Self {
        Script {
            bed: Testbed::new(settings),
            ends: [None, None],
            input_max,
            output_bound,
        }
    }

    pub fn is_open(&self, which: usize) -> bool {
        self.ends[which].is_some()
    }

    pub fn open(&mut self, which: usize, front: AnyFront) {
        self.ends[which] = Some(self.bed.open(0, front, Raw::default()));
    }

    pub fn link(&self, which: usize) -> Option<&Link> {
        self.bed.link(self.ends[which]?)
    }

    /// Sends, and the broker has not read it.
    pub fn write(&mut self, which: usize, bytes: &[u8]) {
        if let Some(who) = self.ends[which] {
            self.bed.write(who, |_, up| up.extend_from_slice(bytes));
        }
    }

    /// Sends on an open connection. Like the server, which reads nothing from a peer that does not read `output_max` bytes.
    pub fn send(&mut self, which: usize, bytes: &[u8], output_max: usize) {
        let link = self.link(which).expect("it is open");
        if link.closing {
            self.flush(which, usize::MAX);
        } else if link.waiting() <= output_max {
            self.write(which, bytes);
            self.drive(which);
        }
    }

    /// The broker reads what was sent.
    pub fn drive(&mut self, which: usize) {
        let Some(who) = self.ends[which] else { return };
        self.bed.feed(who, usize::MAX);
        self.gather();
        let Some(link) = self.bed.link(who) else {
            return;
        };
        let waits = link.closing || link.pause_until.is_some() || link.holds_input();
        assert!(
            waits || self.bed.unread(who) <= self.input_max,
            "input that waits is bounded"
        );
        let input_max = self.input_max;
        self.bed.write(who, |_, up| up.truncate(input_max));
    }

    /// So many bytes leave.
    pub fn flush(&mut self, which: usize, count: usize) {
        let Some(who) = self.ends[which] else { return };
        self.bed.flush(who, count);
        self.bed.read(who);
        self.bed.client(who).received.clear();
        if self.bed.is_closed(who) {
            self.ends[which] = None;
        }
        self.gather();
    }

    pub fn close(&mut self, which: usize) {
        if let Some(who) = self.ends[which].take() {
            self.bed.close(who);
            self.gather();
        }
    }

    pub fn wait(&mut self, span: Span) {
        self.bed.now += span;
        self.bed.on_datagram_timeouts();
        for shard in 0..self.bed.shards.len() {
            self.bed.tick(shard);
        }
        self.gather();
        for which in 0..2 {
            self.drive(which);
        }
    }

    /// The server says something of a connection, if it is open.
    pub fn on_link(
        &mut self,
        which: usize,
        says: impl FnOnce(&mut Links, LinkId, &mut Kernel, Time),
    ) {
        let Some(who) = self.ends[which] else { return };
        let (link, now) = (self.bed.link_id(who), self.bed.now);
        let shard = &mut self.bed.shards[0];
        says(&mut shard.links, link, &mut shard.kernel, now);
        self.bed.gather(0);
        self.gather();
    }

    /// The server answers who a client is, whether it was asked or not.
    pub fn on_login(&mut self, which: usize, number: usize) {
        self.bed.asked.clear();
        self.on_link(which, |links, link, kernel, now| {
            links.on_login(link, answer(number), now, kernel)
        });
        self.drive(which);
    }

    /// Mail between shards arrives.
    pub fn gather(&mut self) {
        let is_alone = self.bed.shards.len() == 1;
        assert!(
            !is_alone || !self.bed.is_anything_between_shards(),
            "there is one shard"
        );
        self.bed.carry_all();
    }

    pub fn check(&self) {
        for which in 0..2 {
            let waiting = self.link(which).map_or(0, |link| link.waiting());
            let bound = self.output_bound;
            assert!(waiting <= bound, "{waiting} bytes of output wait");
        }
    }

    /// Everybody goes, and a long time passes.
    pub fn end(&mut self) {
        for which in 0..2 {
            self.close(which);
        }
        self.wait(Span::from_secs(1_000_000));
    }
}

/// A broker that has little room for anything.
pub fn small(output_max: usize, queue_bytes_max: usize) -> Settings {
    Settings {
        limits: Limits {
            queue_messages_max: 50,
            queue_bytes_max,
            group_messages_max: 50,
            group_bytes_max: queue_bytes_max,
            sessions_max: SESSIONS_MAX,
            retained_messages_max: 20,
            retained_bytes_max: queue_bytes_max,
            publish_rate: 1000,
            ..Limits::default()
        },
        outputs: LinksLimits {
            output_high: output_max / 2,
            output_max,
            unflushed_max: 1000,
        },
        ..Settings::default()
    }
}

/// Possible answers of a server to a login.
pub fn answer(number: usize) -> LoginAnswer {
    match number % 4 {
        0 => LoginAnswer::Continue {
            data: b"data".as_slice().into(),
        },
        1 => LoginAnswer::Refused(LoginRefusal::BadUserOrPassword),
        _ => LoginAnswer::Allowed {
            user: None,
            access: Access::ALL,
            expires: None,
            data: None,
        },
    }
}
