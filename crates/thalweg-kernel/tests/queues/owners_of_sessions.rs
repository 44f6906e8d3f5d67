//! A session belongs to the user that opened it, and its waiting messages are checked with the current rights.

use crate::world::{Who, World, firm};
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_kernel::{Closing, OpenRefusal, OpenSession};
use thalweg_model::{Reliability, Span};

fn may(pattern: &str) -> Access {
    Rules::new(
        vec![Rule::allow(Permissions::ALL, pattern)],
        Otherwise::Deny,
    )
    .expect("legal")
    .compile("phone", None)
}

fn open(
    world: &mut World,
    like: Who,
    user: Option<&str>,
    access: Access,
) -> Result<Who, OpenRefusal> {
    let open = OpenSession {
        fresh: false,
        expiry: Span::from_secs(3600),
        user: user.map(Into::into),
        ..OpenSession::of_link("phone", like.link, access, "none")
    };
    world.run(like.shard, |kernel, out, now| {
        let opened = kernel.open_session(open, now, out)?;
        kernel.start(opened.session, now, out);
        Ok(Who {
            session: opened.session,
            ..like
        })
    })
}

fn leave(world: &mut World, who: Who) {
    world.run(who.shard, |kernel, out, now| {
        kernel.close_link(who.session, who.link, Closing::Lost, None, now, out);
    });
}

/// A session of anna, away, with a message that waits for her; and a publisher.
fn away_with_mail(world: &mut World) -> (Who, Who) {
    let publisher = world.connect("publisher");
    let like = world.connect("like");
    let anna = open(world, like, Some("anna"), may("a/anna/#")).expect("nobody has it");
    world.subscribe(anna, "a/anna/#", None, Reliability::AtLeastOnce);
    leave(world, anna);
    world.publish(publisher, firm("a/anna/1", "letter"));
    (publisher, like)
}

#[test]
fn another_users_session_is_not_taken_over() {
    let mut world = World::new();
    let (_, like) = away_with_mail(&mut world);
    for user in [Some("bob"), None] {
        let refused = open(&mut world, like, user, may("a/bob/#")).err();
        assert!(matches!(refused, Some(OpenRefusal::OtherUser)), "{user:?}");
    }
    assert!(world.texts(like).is_empty());
    let anna = open(&mut world, like, Some("anna"), may("a/anna/#")).expect("it is hers");
    assert_eq!(world.texts(anna), ["letter"]);
}

#[test]
fn what_waits_is_judged_by_the_rights_of_now() {
    let mut world = World::new();
    let (publisher, like) = away_with_mail(&mut world);
    let anna = open(&mut world, like, Some("anna"), may("a/other")).expect("it is hers");
    assert!(world.texts(anna).is_empty());
    world.subscribe(anna, "a/other", None, Reliability::AtLeastOnce);
    world.publish(publisher, firm("a/other", "open"));
    assert_eq!(world.texts(anna), ["open"]);
}
