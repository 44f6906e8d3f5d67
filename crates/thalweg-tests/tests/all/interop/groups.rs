//! One shared group with members of every protocol: `$share/g/f` of MQTT is the queue `$g/g/f` of AMQP and of STOMP.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::protocol::{ONE_EACH, Protocol, who_can};
use super::puppet::{Library, PATIENCE};
use super::speaker::{Place, Post, Speaker, broker, broker_in_turns};

const GROUP: &str = "$g/team/work/+";

/// Takes what comes to each member until every number below `count` came, or patience ends.
fn take(members: &[Speaker], count: usize) -> (BTreeMap<String, usize>, Vec<usize>) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut shares = vec![0; members.len()];
    let deadline = Instant::now() + PATIENCE;
    while times.len() < count && Instant::now() < deadline {
        for (share, member) in shares.iter_mut().zip(members) {
            while let Some(message) = member.receive_within(Duration::from_millis(10)) {
                member.settle(&message);
                *times
                    .entry(String::from_utf8_lossy(&message.payload).into_owned())
                    .or_default() += 1;
                *share += 1;
            }
        }
    }
    (times, shares)
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_group_has_members_of_every_protocol() {
    let Some(broker) = broker_in_turns() else {
        return;
    };
    let members: Vec<_> = who_can(&ONE_EACH, |can| can.group.is_some()).collect();
    let members = Speaker::all(&broker, &members);
    members
        .iter()
        .for_each(|member| member.consume(GROUP, true));
    let publishers = Speaker::all(&broker, &ONE_EACH);
    for number in 0..200usize {
        publishers[number % publishers.len()]
            .publish(&Place::plain("work/item"), &Post::new(format!("{number}")));
    }
    let (times, shares) = take(&members, 200);
    assert_eq!(times.len(), 200, "none is lost: {shares:?}");
    assert!(
        times.values().all(|times| *times == 1),
        "none comes twice: {times:?}"
    );
    assert!(
        shares.iter().all(|share| *share > 0),
        "every member has its turn: {shares:?}"
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_a_lost_member_had_goes_to_members_of_other_protocols() {
    for who in [
        (Protocol::Mqtt5, Library::PahoPython),
        (Protocol::Amqp, Library::Pika),
        (Protocol::Stomp, Library::StompPy),
    ] {
        let Some(broker) = broker() else { return };
        let lost = Speaker::open_with(&broker, who, true);
        lost.consume(GROUP, true);
        let publisher = Speaker::open(&broker, (Protocol::Mqtt3, Library::PahoPython));
        for number in 0..10 {
            publisher.publish(&Place::plain("work/item"), &Post::new(format!("{number}")));
        }
        // It has the first; the others wait in the group until a member is free.
        lost.receive();
        let others = who_can(&ONE_EACH, |can| can.group.is_some()).filter(|other| other.0 != who.0);
        let others: Vec<Speaker> = others.map(|other| Speaker::open(&broker, other)).collect();
        others.iter().for_each(|other| other.consume(GROUP, true));
        lost.cut();
        let (times, shares) = take(&others, 10);
        assert_eq!(
            times.len(),
            10,
            "after {lost:?} is gone: {times:?}, {shares:?}"
        );
        assert!(
            times.values().all(|times| *times == 1),
            "after {lost:?} is gone: {times:?}"
        );
    }
}
