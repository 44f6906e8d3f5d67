//! Memory that one XMPP client can make the broker keep, and the reasons not to resume a stream.

use std::sync::Arc;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_kernel::Limits;
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_mqtt::ConnectOut;
use thalweg_testbed::xmpp::{SERVICE, Xmpp};
use thalweg_testbed::{Raw, Settings, Testbed, Who};
use thalweg_xmpp::Credentials;

const NODES: &str = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
const NO_ROOM: &str = "<resource-constraint";

fn bed(shards: u16) -> Testbed {
    let mut bed = Testbed::new(Settings {
        shards,
        limits: Limits {
            journal: true,
            ..Limits::default()
        },
        xmpp: Arc::new(XmppSettings {
            secured: true,
            scram: false,
            ..XmppSettings::default()
        }),
        ..Settings::default()
    });
    bed.answers_logins = true;
    bed
}

fn juliet() -> Credentials {
    Credentials::Password {
        user: "juliet".into(),
        password: "x".into(),
    }
}

fn kept(bed: &Testbed) -> usize {
    let shards = bed.shards.iter();
    shards.map(|shard| shard.links.kept_bytes()).sum()
}

fn items(node: &str) -> String {
    format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='{node}'/></pubsub>")
}

/// Sends a request many times before any is answered.
fn ask_often(bed: &mut Testbed, who: Who<Xmpp>, content: &str, count: usize) {
    bed.write(who, |client, up| {
        for at in 0..count {
            client.request("get", SERVICE, &format!("q{at}"), content, up);
        }
    });
}

#[test]
fn reads_of_a_client_that_does_not_listen_are_refused_before_they_are_kept() {
    for shards in [1, 2] {
        let mut bed = bed(shards);
        let client = bed.open_xmpp(0, juliet(), None);
        let node = bed.name_on("v", usize::from(shards) - 1);
        let value = format!("<t xmlns='urn:t'>{}</t>", "x".repeat(100 << 10));
        bed.xmpp_publish(client, &node, "i", &value);
        bed.set_stalled(client, true);
        ask_often(&mut bed, client, &items(&node), 100);
        bed.rest();
        assert!(kept(&bed) < 1_500_000, "{shards}: {}", kept(&bed));
        assert!(bed.waiting(client) < 1_500_000, "{shards}");
        // A client that reads the answers learns which requests were refused, and goes on.
        bed.set_reading(client, true);
        let answers = bed.xmpp_got(client);
        let refused = answers.iter().filter(|answer| answer.contains(NO_ROOM));
        assert!(refused.count() >= 90 && answers.len() == 100, "{shards}");
        let answer = bed.xmpp_ask(client, "get", SERVICE, &items(&node));
        assert!(answer.contains("<item id='i'>"), "{shards}");
        assert!(kept(&bed) < 5000, "{}", kept(&bed));
    }
}

#[test]
fn requests_that_wait_are_counted_and_few() {
    let mut bed = bed(2);
    let client = bed.open_xmpp(0, juliet(), None);
    let node = bed.name_on("v", 1);
    let names: String = (0..1000)
        .map(|at| format!("<item id='{at:0>200}'/>"))
        .collect();
    let content = items(&node).replace("'/></pubsub>", &format!("'>{names}</items></pubsub>"));
    ask_often(&mut bed, client, &content, 50);
    let before = kept(&bed);
    bed.feed(client, usize::MAX);
    let asked = kept(&bed) - before;
    assert!((200_000..2_000_000).contains(&asked), "{asked}");
    bed.rest();
    assert!(kept(&bed) < 20_000, "{}", kept(&bed));
}

#[test]
fn what_a_lost_stream_leaves_is_dropped_when_its_time_is_over() {
    let mut bed = bed(1);
    for _ in 0..5 {
        let client = bed.open_xmpp(0, juliet(), None);
        bed.xmpp_publish(
            client,
            "v",
            "i",
            &format!("<t xmlns='urn:t'>{}</t>", "x".repeat(100_000)),
        );
        bed.set_stalled(client, true);
        ask_often(&mut bed, client, &items("v"), 2);
        bed.rest();
        bed.lose(client);
    }
    assert!(kept(&bed) > 500_000);
    bed.run_for(Span::from_secs(301));
    assert_eq!(kept(&bed), 0);
}

/// Batches that are not safe are refused, as one with a record that is too long is.
fn refuse_all(bed: &mut Testbed) {
    let shard = &mut bed.shards[0];
    for number in shard.links.completed() + 1..=shard.kernel.batch_number() {
        shard.links.refuse(number);
    }
}

#[test]
fn what_the_journal_has_refused_is_not_acknowledged_by_a_resumption() {
    for is_lost_before in [false, true] {
        let mut bed = bed(1);
        let client = bed.open_xmpp(0, juliet(), None);
        bed.is_disk_manual = true;
        let action = thalweg_testbed::xmpp::publish("a", "i", b"1");
        bed.says(client, |client, up| client.ask(&action, up));
        if is_lost_before {
            bed.lose(client);
        }
        refuse_all(&mut bed);
        bed.is_disk_manual = false;
        bed.rest();
        bed.lose(client);
        let again = bed.xmpp_again(0, juliet(), client);
        assert!(!bed.client(again).is_resumed, "{is_lost_before}");
        // The client goes on all the same.
        assert!(bed.client(again).resume.is_some());
    }
}

#[test]
fn what_the_journal_refuses_later_ends_the_next_connection_of_its_stream() {
    let mut bed = bed(1);
    let client = bed.open_xmpp(0, juliet(), None);
    bed.is_disk_manual = true;
    let action = thalweg_testbed::xmpp::publish("a", "i", b"1");
    bed.says(client, |client, up| client.ask(&action, up));
    let (completed, gathering) = (
        bed.shards[0].links.completed(),
        bed.shards[0].kernel.batch_number(),
    );
    bed.write_batches(0);
    bed.lose(client);
    let again = bed.xmpp_again(0, juliet(), client);
    for number in completed + 1..=gathering {
        bed.shards[0].links.refuse(number);
    }
    bed.is_disk_manual = false;
    bed.rest();
    assert!(!bed.client(again).is_resumed);
    assert!(bed.is_closed(again));
}

#[test]
fn a_stream_that_the_broker_has_ended_is_not_gone_on_with() {
    let mut bed = bed(1);
    let client = bed.open_xmpp(0, juliet(), None);
    bed.says(client, |_, up| up.extend_from_slice(b"<nonsense/>"));
    assert!(bed.is_closed(client));
    let again = bed.xmpp_again(0, juliet(), client);
    assert!(!bed.client(again).is_resumed);
    let name = bed.client(client).resume.clone();
    assert_eq!(bed.client(again).resume, name);
}

#[test]
fn resumption_that_was_switched_off_leaves_the_session_as_it_is() {
    let mut bed = bed(1);
    let client = bed.open_xmpp(0, juliet(), None);
    bed.xmpp_subscribe(client, "a");
    let name = bed.client(client).resume.clone().expect("it is resumable");
    bed.lose(client);
    bed.settings.xmpp = Arc::new(XmppSettings {
        resume_max: Span::ZERO,
        ..XmppSettings::clone(&bed.settings.xmpp)
    });
    let again = bed.xmpp_again(0, juliet(), client);
    assert!(!bed.client(again).is_resumed);
    let view = bed.shards[0].kernel.session_view(&name);
    assert_eq!(view.map(|view| view.subscriptions), Some(1));
}

#[test]
fn a_session_of_another_protocol_is_not_taken_over() {
    let mut bed = bed(1);
    let connect = ConnectOut {
        client_id: "car-7",
        session_expiry: 1000,
        ..ConnectOut::default()
    };
    let car = bed.open_mqtt(&connect, Some(Access::ALL));
    bed.rest();
    bed.lose(car);
    let client = bed.xmpp_resume(0, Credentials::Anonymous, Some(Access::ALL), "car-7");
    assert!(!bed.client(client).is_resumed);
    let name = bed.client(client).resume.clone().expect("it is resumable");
    assert_ne!(name, "car-7");
    let view = bed.shards[0]
        .kernel
        .session_view("car-7")
        .expect("it is there");
    assert_eq!(view.link, None);
}

#[test]
fn a_connection_moves_for_one_resumption_only() {
    let mut bed = bed(2);
    let front = bed.xmpp_front(Some(Access::ALL));
    let raw = bed.open(0, front, Raw::default());
    let header = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>";
    let say = |bed: &mut Testbed, text: &str| {
        bed.says(raw, |_, up| up.extend_from_slice(text.as_bytes()));
        bed.shard_of(raw)
    };
    say(&mut bed, header);
    say(&mut bed, auth);
    say(&mut bed, header);
    for shard in [1, 0, 1] {
        let name = bed.name_on("auto", shard);
        let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{name}' h='0'/>");
        assert_eq!(say(&mut bed, &resume), 1);
    }
    let heard = String::from_utf8_lossy(&bed.client(raw).received).into_owned();
    assert_eq!(heard.matches("<item-not-found").count(), 3, "{heard}");
}

#[test]
fn what_cannot_be_listed_is_an_error_and_not_an_empty_list() {
    let mut bed = bed(2);
    let clients: Vec<Who<Xmpp>> = (0..70).map(|_| bed.open_xmpp(0, juliet(), None)).collect();
    bed.xmpp_publish(clients[0], "v", "i", "<t xmlns='urn:t'/>");
    for who in &clients {
        bed.client(*who).got.clear();
        ask_often(&mut bed, *who, NODES, 6);
    }
    bed.rest();
    let mut refused = 0;
    for who in clients {
        let answers = bed.xmpp_got(who);
        let (errors, lists): (Vec<_>, Vec<_>) =
            answers.iter().partition(|answer| answer.contains(NO_ROOM));
        assert_eq!(answers.len(), 6);
        assert!(
            lists.iter().all(|list| list.contains("node='v'")),
            "{lists:?}"
        );
        // Of one client few at a time.
        assert!(errors.len() >= 2);
        refused += errors.len();
    }
    assert!(
        refused > 2 * 70,
        "the kernel has refused some, too: {refused}"
    );
}

#[test]
fn a_list_of_subscriptions_that_is_too_long_is_refused() {
    let mut bed = bed(1);
    let client = bed.open_xmpp(0, juliet(), None);
    for at in 0..30 {
        let node = format!("{at}{}", "'".repeat(7000));
        let answer = bed.xmpp_subscribe(client, &node);
        assert!(answer.contains("subscribed"));
    }
    let answer = bed.xmpp_pubsub(client, "get", "<subscriptions/>");
    assert!(answer.contains(NO_ROOM), "{}", &answer[..200]);
    assert!(!bed.is_closed(client));
}
