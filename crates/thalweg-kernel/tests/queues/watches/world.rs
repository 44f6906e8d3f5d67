//! Commands for watches, last values and presence, on top of the world of kernels.

use crate::kernels::session;
pub use crate::world::{Dice, Event, Who, World, draft};
use crate::world::{payload, wish};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Change, Closing, Draft, Kernel, KnownAs, LastValueWish, Limits, ListSpec, OpenSession, Outcome,
    ShardId, WatchId, WatchRefused, WatchSpec, Wish, home,
};
use thalweg_model::{Properties, Reliability, RetainOp, Span};

/// A watch and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pub who: Who,
    pub id: WatchId,
    pub cookie: u64,
}

/// A draft that becomes the last value.
pub fn retained<'a>(address: &'a str, text: &'a str) -> Draft<'a> {
    Draft {
        retain: RetainOp::Set,
        ..draft(address, text)
    }
}

/// One that clears it.
pub fn clear(address: &str) -> Draft<'_> {
    Draft {
        retain: RetainOp::Clear,
        ..draft(address, "")
    }
}

impl World {
    /// For watches: without a journal.
    pub fn watched(shards: u16) -> World {
        World::watched_with(shards, Limits::default())
    }

    pub fn watched_with(shards: u16, limits: Limits) -> World {
        let ledger_prefixes = ["a".into(), "b".into()].into();
        World::unwritten(
            shards,
            Limits {
                ledger_prefixes,
                ..limits
            },
        )
    }

    // --- sessions

    pub fn connect_on(&mut self, shard: usize) -> Who {
        self.connect_as(shard, Access::ALL)
    }

    pub fn connect_as(&mut self, shard: usize, access: Access) -> Who {
        self.connect_for(shard, access, Span::ZERO)
    }

    /// A session that outlives its link by this much.
    pub fn connect_for(&mut self, shard: usize, access: Access, expiry: Span) -> Who {
        self.connect_in_tenant("", shard, access, expiry)
    }

    pub fn connect_in_tenant(
        &mut self,
        tenant: &str,
        shard: usize,
        access: Access,
        expiry: Span,
    ) -> Who {
        let link = self.new_link();
        let name = format!("client-{}", link.0);
        let open = OpenSession {
            expiry,
            access,
            tenant,
            ..session(&name, link)
        };
        self.start(shard, open).expect("there is room")
    }

    /// A session of this name, whose peer is known by another one; nothing if it is refused.
    pub fn open(
        &mut self,
        shard: usize,
        client: &str,
        known_as: Option<KnownAs<'_>>,
        fresh: bool,
        expiry: Span,
    ) -> Option<Who> {
        self.open_as(None, shard, client, known_as, fresh, expiry)
    }

    pub fn open_as(
        &mut self,
        user: Option<&str>,
        shard: usize,
        client: &str,
        known_as: Option<KnownAs<'_>>,
        fresh: bool,
        expiry: Span,
    ) -> Option<Who> {
        let link = self.new_link();
        let open = OpenSession {
            fresh,
            expiry,
            user: user.map(Into::into),
            known_as,
            ..session(client, link)
        };
        self.start(shard, open)
    }

    pub fn leave(&mut self, who: Who) {
        self.close(who, Closing::Clean);
    }

    /// Subscribes to messages and last values.
    pub fn listen(&mut self, who: Who, filter: &str) {
        let wish = Wish {
            last_values: LastValueWish::Always,
            ..wish(filter, None, Reliability::AtMostOnce)
        };
        self.ask_for(who, &wish);
    }

    pub fn say(&mut self, who: Who, address: &str, text: &str) -> Outcome {
        self.publish(who, draft(address, text))
    }

    pub fn say_with(
        &mut self,
        who: Who,
        address: &str,
        text: &str,
        properties: &Properties,
    ) -> Outcome {
        self.publish(
            who,
            Draft {
                properties: Some(properties),
                ..draft(address, text)
            },
        )
    }

    // --- watches

    pub fn try_watch(
        &mut self,
        who: Who,
        address: &str,
        depth: u16,
    ) -> Result<Watch, WatchRefused> {
        self.cookies += 1;
        let cookie = self.cookies;
        let spec = WatchSpec {
            link: who.link,
            cookie,
            address,
            depth,
            condition: None,
            reliability: Reliability::AtLeastOnce,
        };
        let id = self.run(who.shard, |kernel, out, now| {
            kernel.watch(who.session, spec, now, out)
        })?;
        Ok(Watch { who, id, cookie })
    }

    pub fn watch(&mut self, who: Who, address: &str, depth: u16) -> Watch {
        self.try_watch(who, address, depth).expect("it may watch")
    }

    /// Watches, and says what it begins with.
    pub fn begin(&mut self, who: Who, address: &str, depth: u16) -> (Watch, Option<String>) {
        let watch = self.watch(who, address, depth);
        match &self.events(who)[..] {
            [.., Event::Ready(cookie, value)] if *cookie == watch.cookie => (watch, value.clone()),
            other => panic!("{other:?} instead of the beginning"),
        }
    }

    pub fn take_watched(&mut self, watch: Watch) -> Option<Change> {
        let change = self.run(watch.who.shard, |kernel, _, now| {
            kernel.take_watched(watch.id, now)
        });
        self.check();
        change
    }

    /// All that waits; `-` where the value is gone.
    pub fn take_all(&mut self, watch: Watch) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(change) = self.take_watched(watch) {
            all.push(match change {
                Change::Value(message) => payload(&message),
                Change::Gone => "-".into(),
            });
        }
        all
    }

    pub fn unwatch(&mut self, watch: Watch) {
        self.run(watch.who.shard, |kernel, _, now| {
            kernel.unwatch(watch.id, now)
        });
    }

    // --- reading

    /// Nothing if it may not.
    pub fn read(&mut self, who: Who, address: &str) -> Option<Option<String>> {
        let may = self.run(who.shard, |kernel, out, now| {
            kernel.read_last_value(who.session, who.link, 9, address, now, out)
        });
        match &self.events(who)[..] {
            [Event::Read(9, value)] if may => Some(value.clone()),
            [] if !may => None,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    /// Nothing if it may not.
    pub fn list(&mut self, who: Who, filter: &str, max: usize) -> Option<(Vec<String>, bool)> {
        let may = self.run(who.shard, |kernel, out, now| {
            kernel.list_last_values(who.session, who.link, 8, ListSpec { filter, max }, now, out)
        });
        while let Some(shard) = self.kernels.iter().position(Kernel::has_work) {
            self.run(shard, |kernel, out, now| kernel.work(now, out));
        }
        match &self.events(who)[..] {
            [Event::Listed(8, values, complete)] if may => Some((values.clone(), *complete)),
            [] if !may => None,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    pub fn keep_last(&mut self, shard: usize, address: &str, keep: bool) -> bool {
        self.run(shard, |kernel, _, _| kernel.keep_last(address, keep))
    }
}

/// An address whose home is that shard.
pub fn address_at(shard: u16, shards: u16) -> String {
    let all = (0..).map(|number| format!("a/{number}"));
    all.into_iter()
        .find(|address| home(address, shards) == ShardId(shard))
        .expect("one of them is")
}
