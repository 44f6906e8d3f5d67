//! A connection whose home is known only after its first bytes moves there, with all that it has read and written.

use crate::wanderer::Wanderer;
use thalweg_fronts::AnyFront;
use thalweg_testbed::{Raw, Settings, Testbed, Who};

const SHARDS: u16 = 4;

fn bed() -> Testbed {
    Testbed::new(Settings {
        shards: SHARDS,
        ..Settings::default()
    })
}

fn open(bed: &mut Testbed, shard: usize) -> Who<Raw> {
    bed.open(
        shard,
        AnyFront::extension(Wanderer::default()),
        Raw::default(),
    )
}

fn received(bed: &mut Testbed, who: Who<Raw>) -> String {
    String::from_utf8_lossy(&bed.client(who).received).into_owned()
}

fn sessions(bed: &Testbed) -> Vec<usize> {
    let shards = bed.shards.iter();
    shards.map(|shard| shard.kernel.totals().sessions).collect()
}

/// Output from before the move comes first, and unhandled input is handled on the home shard, however it was cut.
#[test]
fn nothing_that_was_read_or_written_is_lost_on_the_way() {
    for piece_max in [usize::MAX, 1, 5, 9] {
        for (from, home) in [(0, 3), (3, 0), (2, 2)] {
            let mut bed = bed();
            bed.piece_max = piece_max;
            let who = open(&mut bed, from);
            let words = format!("HOME {}\none\ntwo\nthr", home + 1);
            bed.says(who, |_, up| up.extend_from_slice(words.as_bytes()));
            bed.says(who, |_, up| up.extend_from_slice(b"ee\n"));
            assert_eq!(
                received(&mut bed, who),
                format!("{from}: from here\n{home}: one\n{home}: two\n{home}: three\n"),
                "in pieces of {piece_max}"
            );
            assert_eq!(bed.shard_of(who), home);
            let mut wanted = [0; SHARDS as usize];
            wanted[home] = 1;
            assert_eq!(sessions(&bed), wanted);
            let links: Vec<usize> = bed.shards.iter().map(|shard| shard.links.len()).collect();
            assert_eq!(links, wanted, "no link is left behind");
            bed.lose(who);
            assert_eq!(sessions(&bed), [0; SHARDS as usize]);
        }
    }
}

/// Bytes that arrive while the connection is on no shard wait for it.
#[test]
fn what_arrives_on_the_way_is_read_at_home() {
    let mut bed = bed();
    let who = open(&mut bed, 0);
    bed.write(who, |_, up| up.extend_from_slice(b"HOME 2\none\n"));
    bed.feed(who, usize::MAX);
    assert_eq!(bed.shards.iter().map(|it| it.links.len()).sum::<usize>(), 0);
    assert!(!bed.is_closed(who), "it is on the way");
    bed.write(who, |_, up| up.extend_from_slice(b"two\n"));
    assert!(!bed.feed(who, usize::MAX), "no shard has it");
    assert!(bed.arrive(who));
    bed.rest();
    assert_eq!(received(&mut bed, who), "0: from here\n1: one\n1: two\n");
}

#[test]
fn a_connection_that_closes_on_the_way_leaves_nothing_behind() {
    let mut bed = bed();
    let who = open(&mut bed, 0);
    bed.write(who, |_, up| up.extend_from_slice(b"HOME 2\none\n"));
    bed.feed(who, usize::MAX);
    bed.lose(who);
    assert!(bed.is_closed(who) && !bed.arrive(who));
    assert_eq!(sessions(&bed), [0; SHARDS as usize]);
    assert!(bed.shards.iter().all(|shard| shard.links.is_empty()));
    assert!(bed.shards.iter().all(|shard| shard.links.kept_bytes() == 0));
}

/// A session cannot move: it is on a shard by its name.
#[test]
fn a_link_with_a_session_stays() {
    let mut bed = bed();
    let who = open(&mut bed, 1);
    bed.says(who, |_, up| up.extend_from_slice(b"HOME 2\none\n"));
    let link = bed.link_id(who);
    assert!(bed.shards[1].links.detach(link).is_none());
    bed.says(who, |_, up| up.extend_from_slice(b"two\n"));
    assert!(received(&mut bed, who).ends_with("1: one\n1: two\n"));
}
