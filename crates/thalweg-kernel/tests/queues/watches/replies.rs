//! Requests and replies between shards: the requester subscribes to a reply address on one shard, the responder is on
//! another.

use super::world::{Event, World};
use thalweg_kernel::Outcome;
use thalweg_model::Properties;

#[test]
fn an_answer_finds_the_one_who_asked_on_another_shard() {
    for (here, away) in [(0, 1), (1, 2), (2, 0)] {
        let mut world = World::watched(3);
        let (asks, answers) = (world.connect_on(here), world.connect_on(away));
        world.listen(answers, "rpc/sum");
        world.listen(asks, "$reply/17");
        let properties = Properties {
            reply_to: Some("$reply/17".into()),
            ..Properties::default()
        };
        assert_eq!(
            world.say_with(asks, "rpc/sum", "1 + 1", &properties),
            Outcome::Accepted
        );
        assert_eq!(
            world.events(answers),
            [Event::Delivered("1 + 1".into(), false)]
        );
        assert_eq!(world.say(answers, "$reply/17", "2"), Outcome::Accepted);
        assert_eq!(world.events(asks), [Event::Delivered("2".into(), false)]);
    }
}

#[test]
fn an_answer_to_nobody_is_known_to_be_that() {
    let mut world = World::watched(2);
    let answers = world.connect_on(1);
    assert_eq!(world.say(answers, "$reply/17", "2"), Outcome::NoMatch);
}
