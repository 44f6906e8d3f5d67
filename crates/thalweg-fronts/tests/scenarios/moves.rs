//! Messages of groups that move from one shard to another while the process may end.

use crate::durability::{member, world};
use crate::world::staying;
use thalweg_mqtt::QoS;

#[test]
fn a_message_that_moves_between_shards_is_in_one_queue_whenever_the_process_ends() {
    // With how much of the journal written the process ends.
    for written in 0.. {
        let mut world = world(2);
        let names = (world.name_on(0, "first"), world.name_on(1, "second"));
        let first = member(&mut world, &names.0, &staying());
        world.answer(first, false);
        let publisher = world.connect("p");
        world.publish(publisher, "t", "m", QoS::AtLeastOnce);
        let second = member(&mut world, &names.1, &staying());
        world.answer(second, false);
        world.stop_disk();
        world.lose(first);
        let mut moved = world.texts(second);
        assert_eq!(moved, [""; 0], "it leaves once its mark is safe");
        let mut left = written;
        while left > 0 && world.bed.write_batches(1) {
            left -= 1;
            world.sync_disk();
            moved.extend(world.texts(second));
        }
        world.restart();
        let mut got = Vec::new();
        for name in [&names.1, &names.0] {
            let who = member(&mut world, name, &staying());
            got.extend(world.texts(who));
        }
        assert_eq!(got, ["m"], "{written} batches written");
        world.bed.check();
        if left > 0 {
            assert_eq!(moved, ["m"]);
            return assert!(written > 2, "it takes a batch of each shard");
        }
    }
}
