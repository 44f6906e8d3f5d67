//! Clients of a run.

use super::book::{Book, Use};
use super::client::{Ask, Client, Presence};
use super::habit::{Habit, Sizes};
use super::luck::Luck;
use crate::conformance::packet::Version::{self, V5, V31, V311};

const EXPIRY: u32 = 86_400;

const RESTLESS: Presence = Presence {
    stays: (0.1, 1.2),
    away: (0.05, 0.8),
    polite: 0.3,
};

/// Away most of the time.
const ABSENT: Presence = Presence {
    stays: (0.3, 0.6),
    away: (2.0, 6.0),
    polite: 0.5,
};

/// Away from when it has subscribed until publishing has ended: at each kill something waits for it.
const LATER: Presence = Presence {
    stays: (0.3, 0.6),
    away: (3600.0, 3600.0),
    polite: 0.5,
};

/// Its connection breaks now and then.
const SHAKY: Presence = Presence {
    stays: (0.3, 3.0),
    away: (0.0, 0.1),
    polite: 0.1,
};

const FICKLE: Presence = Presence {
    stays: (0.05, 0.5),
    away: (0.01, 0.2),
    polite: 0.0,
};

/// Everything the journal has to keep, at once.
pub fn everything(book: &mut Book, luck: &Luck) -> Vec<Client> {
    let mut cast = Cast {
        book,
        luck,
        clients: Vec::new(),
    };
    // Publishers: two streams each, one per QoS, of messages that many want.
    cast.publisher("p0", V5, SHAKY, Sizes::Small, None);
    cast.publisher("p1", V311, Presence::ALWAYS, Sizes::Small, None);
    cast.publisher("p2", V5, Presence::ALWAYS, Sizes::Mixed, Some(EXPIRY));
    cast.publisher("p3", V31, SHAKY, Sizes::Small, None);
    cast.special(
        "share-5",
        V5,
        &[("s/a", 1, Use::Plain), ("s/b", 2, Use::Plain)],
    );
    cast.special(
        "share-3",
        V311,
        &[("s/c", 1, Use::Plain), ("s/d", 2, Use::Plain)],
    );
    let kept = [
        ("r/a", 1, Use::Retained),
        ("r/b", 2, Use::Retained),
        ("r/c", 1, Use::Retained),
    ];
    cast.special(
        "keeper-5",
        V5,
        &[&kept[..], &[("gone/a", 1, Use::Erased)]].concat(),
    );
    cast.special(
        "keeper-3",
        V311,
        &[("r/d", 1, Use::Retained), ("r/e", 2, Use::Retained)],
    );
    // Subscribers with sessions that last.
    cast.listener("all-5", V5, Presence::ALWAYS, &[("c/#", 2)]);
    cast.listener("all-3", V311, SHAKY, &[("c/#", 2)]);
    cast.listener(
        "restless-5",
        V5,
        RESTLESS,
        &[("c/#", 1), ("c/+/2", 2), ("c/p0/#", 0)],
    );
    cast.listener("restless-3", V311, RESTLESS, &[("c/+/1", 1)]);
    cast.listener("absent-5", V5, ABSENT, &[("c/p0/#", 2), ("c/p2/+", 1)]);
    cast.listener("absent-3", V31, ABSENT, &[("c/p1/2", 2)]);
    cast.listener("last-values", V5, SHAKY, &[("r/#", 2)]);
    // A group whose members come and go.
    let group = cast.book.reception("group g");
    cast.book.receptions[group].shared = true;
    for (name, version, presence) in [
        ("member-a", V5, Presence::ALWAYS),
        ("member-b", V311, RESTLESS),
        ("member-c", V5, RESTLESS),
    ] {
        let member = cast.client(name, version, Habit::Listener, presence);
        member.reception = Some(group);
        member.ask(Ask::Subscribe {
            filter: "$share/g/s/#".to_owned(),
            qos: 2,
            claim: None,
        });
    }
    cast.flipper("flipper-5", V5, "c/p2/1", 1);
    cast.flipper("flipper-3", V311, "c/p0/2", 2);
    // Sessions that end.
    for (name, version) in [("ender-5", V5), ("ender-3", V311)] {
        cast.client(name, version, Habit::Ender { ending: false }, FICKLE);
    }
    cast.client("passer", V5, Habit::Passer { filter: "c/#" }, RESTLESS);
    // Wills.
    cast.client("mortal-5", V5, Habit::Mortal { number: 0 }, FICKLE);
    cast.client("mortal-3", V311, Habit::Mortal { number: 0 }, FICKLE);
    cast.client("mortal-immortal", V5, Habit::Mortal { number: 0 }, FICKLE);
    let heir = cast.client("heir", V5, Habit::Heir, SHAKY);
    heir.ask(Ask::Subscribe {
        filter: "w/#".to_owned(),
        qos: 2,
        claim: None,
    });
    cast.client("reader", V5, Habit::reader(), Presence::ALWAYS);
    cast.clients
}

/// A few publishers and sessions: enough to tell whether what was acknowledged is there.
pub fn few(book: &mut Book, luck: &Luck) -> Vec<Client> {
    let mut cast = Cast {
        book,
        luck,
        clients: Vec::new(),
    };
    cast.publisher("p0", V5, Presence::ALWAYS, Sizes::Small, None);
    cast.publisher("p1", V311, Presence::ALWAYS, Sizes::Small, None);
    cast.special(
        "keeper-5",
        V5,
        &[("r/a", 1, Use::Retained), ("r/b", 2, Use::Retained)],
    );
    cast.listener("all-5", V5, Presence::ALWAYS, &[("c/#", 2)]);
    cast.listener("absent-3", V311, ABSENT, &[("c/#", 2)]);
    cast.client("reader", V5, Habit::reader(), Presence::ALWAYS);
    cast.clients
}

/// The same without anything but messages: whose sessions are safe and whose messages are not, loses messages only.
pub fn messages_only(book: &mut Book, luck: &Luck) -> Vec<Client> {
    let mut cast = Cast {
        book,
        luck,
        clients: Vec::new(),
    };
    cast.publisher("p0", V5, Presence::ALWAYS, Sizes::Small, None);
    cast.publisher("p1", V311, Presence::ALWAYS, Sizes::Small, None);
    cast.listener("absent-3", V311, ABSENT, &[("c/#", 1)]);
    cast.listener("absent-5", V5, ABSENT, &[("c/#", 1)]);
    cast.listener("later-5", V5, LATER, &[("c/#", 1)]);
    cast.clients
}

struct Cast<'a> {
    book: &'a mut Book,
    luck: &'a Luck,
    clients: Vec<Client>,
}

impl Cast<'_> {
    fn client(
        &mut self,
        name: &str,
        version: Version,
        habit: Habit,
        presence: Presence,
    ) -> &mut Client {
        let luck = self.luck.of(self.clients.len() as u64 + 1);
        self.clients
            .push(Client::new(name, version, habit, presence, luck));
        self.clients.last_mut().expect("just pushed")
    }

    /// Publishes to `c/NAME/1` at QoS 1 and to `c/NAME/2` at QoS 2.
    fn publisher(
        &mut self,
        name: &str,
        version: Version,
        presence: Presence,
        sizes: Sizes,
        expiry: Option<u32>,
    ) {
        let streams = [1, 2].map(|qos| {
            self.book
                .stream(name, &format!("c/{name}/{qos}"), qos, Use::Plain, expiry)
        });
        self.client(
            name,
            version,
            Habit::publisher(streams.to_vec(), sizes),
            presence,
        );
    }

    fn special(&mut self, name: &str, version: Version, streams: &[(&str, u8, Use)]) {
        let all = streams
            .iter()
            .map(|(topic, qos, kind)| self.book.stream(name, topic, *qos, *kind, None));
        let all = all.collect();
        self.client(
            name,
            version,
            Habit::publisher(all, Sizes::Small),
            Presence::ALWAYS,
        );
    }

    fn listener(
        &mut self,
        name: &str,
        version: Version,
        presence: Presence,
        filters: &[(&str, u8)],
    ) {
        let reception = self.book.reception(name);
        let client = self.client(name, version, Habit::Listener, presence);
        client.reception = Some(reception);
        for (filter, qos) in filters {
            client.ask(Ask::Subscribe {
                filter: (*filter).to_owned(),
                qos: *qos,
                claim: None,
            });
        }
    }

    fn flipper(&mut self, name: &str, version: Version, filter: &'static str, qos: u8) {
        let reception = self.book.reception(name);
        self.client(
            name,
            version,
            Habit::Flipper {
                filter,
                qos,
                next: 0,
            },
            RESTLESS,
        )
        .reception = Some(reception);
    }
}
