//! Connections of CoAP (RFC 8323): what differs from datagrams.

use crate::nonsense;
use crate::stage::{Stage, Who};
use std::sync::Arc;
use thalweg_coap::stream::{StreamSettings, encode};
use thalweg_coap::{Code, ServerSettings, Token, option};
use thalweg_fronts::coap::CoapSettings;
use thalweg_fronts::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Limits, Policy};
use thalweg_model::{Filter, Reliability, Span};

#[test]
fn what_one_connection_publishes_others_read_and_observe() {
    for shards in [1, 3] {
        let mut stage = Stage::shards(shards);
        let [writer, reader, observer] = [(); 3].map(|()| stage.connects());
        assert_eq!(
            stage.asks(observer, "GET /ps/data/a/b observe=0"),
            "2.05 observe"
        );
        assert_eq!(stage.asks(writer, "PUT /ps/data/a/b ct=50 : 21"), "2.01");
        assert_eq!(stage.asks(reader, "GET /ps/data/a/b"), "2.05 ct=50 : 21");
        assert_eq!(stage.lines(observer), ["2.05 observe ct=50 : 21"]);
        assert_eq!(stage.asks(writer, "PUT /ps/data/a/b ct=50 : 22"), "2.04");
        assert_eq!(stage.lines(observer), ["2.05 observe ct=50 : 22"]);
        assert_eq!(stage.asks(writer, "DELETE /ps/data/a/b"), "2.02");
        assert_eq!(stage.lines(observer), ["4.04"]);
        assert_eq!(stage.asks(reader, "GET /ps/data/a/b"), "4.04");
        assert_eq!(stage.counts().observers, 0);
    }
}

#[test]
fn an_observer_is_told_that_a_policy_bounds_its_class() {
    let bound = |most, filter: &str| Policy {
        reliability_max: Some(most),
        ..Policy::new(Filter::new(filter).expect("a filter"))
    };
    let limits = Limits {
        policies: [
            bound(Reliability::AtMostOnce, "a"),
            bound(Reliability::AtLeastOnce, "b"),
        ]
        .into(),
        ..Limits::default()
    };
    let mut stage = Stage::with(1, limits, CoapSettings::default());
    let (observer, writer) = (stage.connects(), stage.connects());
    for (request, told) in [
        ("/ps/data/a?qos=1", "offered=0"),
        ("/ps/data/a?qos=1&queue=9", "offered=0"),
        ("/ps/data/a", "offered=0"),
        ("/ps/data/a?qos=0", ""),
        ("/ps/data/b?qos=1", ""),
        ("/ps/data/c?qos=1", ""),
    ] {
        let told = format!("2.05 observe {told}");
        let request = format!("GET {request} observe=0");
        let answer = stage.asks(observer, &request);
        assert_eq!(answer, told.trim_end(), "{request}");
    }
    stage.asks(writer, "PUT /ps/data/a ct=50 : 1");
    assert_eq!(stage.lines(observer), ["2.05 observe ct=50 : 1"; 4]);
    // Also where there is a value, and not without an observation.
    assert_eq!(
        stage.asks(observer, "GET /ps/data/a observe=0"),
        "2.05 observe ct=50 offered=0 : 1"
    );
    assert_eq!(stage.asks(observer, "GET /ps/data/a"), "2.05 ct=50 : 1");
}

#[test]
fn an_observation_ends_when_its_token_says_so_or_begins_anew() {
    let mut stage = Stage::new();
    let (writer, observer) = (stage.connects(), stage.connects());
    stage.asks(writer, "PUT /ps/data/a : 1");
    stage.asks(writer, "PUT /ps/data/b : 1");
    stage.says_as(observer, "GET /ps/data/a observe=0", &[7]);
    stage.says_as(observer, "GET /ps/data/b observe=0", &[7]);
    assert_eq!(
        stage.lines(observer),
        ["2.05 observe : 1", "2.05 observe : 1"]
    );
    stage.asks(writer, "PUT /ps/data/a : 2");
    assert_eq!(stage.lines(observer), [""; 0], "the token stands for b now");
    stage.asks(writer, "PUT /ps/data/b : 2");
    assert_eq!(stage.lines(observer), ["2.05 observe : 2"]);
    stage.says_as(observer, "GET /ps/data/b observe=1", &[7]);
    assert_eq!(stage.lines(observer), ["2.05 : 2"]);
    stage.asks(writer, "PUT /ps/data/b : 3");
    assert_eq!(stage.lines(observer), [""; 0]);
    assert_eq!(
        stage
            .kernels()
            .map(|kernel| kernel.totals().watches)
            .sum::<usize>(),
        0
    );
}

fn journaled() -> Limits {
    Limits {
        journal: true,
        ..Limits::default()
    }
}

#[test]
fn an_answer_waits_for_the_journal_and_only_that_answer() {
    let mut stage = Stage::with(1, journaled(), CoapSettings::default());
    let who = stage.connects();
    stage.bed.is_disk_manual = true;
    stage.says(who, "PUT /ps/data/a : 1");
    stage.says(who, "GET /ps/data/a");
    let ping = stage.pings(who, true);
    assert_eq!(
        stage.lines(who),
        ["2.05 : 1"],
        "it has been done, and nobody has promised that it stays"
    );
    stage.sync();
    assert_eq!(
        stage.lines(who),
        ["2.01".to_owned(), format!("pong {ping} custody")]
    );
}

#[test]
fn who_reads_slowly_is_told_the_newest_when_there_is_room() {
    let mut stage = Stage::new();
    let (writer, observer) = (stage.connects(), stage.connects());
    stage.asks(observer, "GET /ps/data/a observe=0");
    stage.set_reading(observer, false);
    let long = "x".repeat(1000);
    for number in 0..5000 {
        stage.asks(writer, &format!("PUT /ps/data/a : {number} {long}"));
        assert!(
            stage.waiting(observer) < 40_000,
            "{} bytes",
            stage.waiting(observer)
        );
    }
    stage.set_reading(observer, true);
    let heard = stage.lines(observer);
    assert!((10..60).contains(&heard.len()), "{}", heard.len());
    assert!(
        heard.last().is_some_and(|last| last.contains(" 4999 x")),
        "the last one is the state as it is"
    );
    let before = heard.len() as u64 + 1;
    assert_eq!(stage.counts().notifications, before - 1);
}

#[test]
fn an_observer_that_wants_all_is_told_all_as_far_as_its_queue_goes() {
    let mut stage = Stage::of(CoapSettings {
        queue_max: 100,
        ..CoapSettings::default()
    });
    let (writer, observer) = (stage.connects(), stage.connects());
    stage.asks(observer, "GET /ps/data/a?queue=100 observe=0");
    stage.set_reading(observer, false);
    let long = "x".repeat(1000);
    for number in 0..80 {
        stage.asks(writer, &format!("PUT /ps/data/a : {number} {long}"));
    }
    stage.set_reading(observer, true);
    let heard = stage.lines(observer);
    for (number, line) in heard.iter().enumerate() {
        assert!(
            line.contains(&format!(": {number} x")),
            "{number}: {}",
            &line[..40]
        );
    }
    assert_eq!(heard.len(), 80);
}

#[test]
fn answers_do_not_pile_up_for_who_does_not_read() {
    let mut stage = Stage::new();
    let (writer, greedy) = (stage.connects(), stage.connects());
    stage.asks(writer, &format!("PUT /ps/data/a : {}", "x".repeat(100_000)));
    stage.set_reading(greedy, false);
    for _ in 0..300 {
        stage.says(greedy, "GET /ps/data/a");
        assert!(
            stage.waiting(greedy) < 500_000,
            "{} bytes",
            stage.waiting(greedy)
        );
    }
    stage.set_reading(greedy, true);
    assert_eq!(stage.lines(greedy).len(), 300, "and nothing is lost");
}

#[test]
fn nothing_is_read_while_too_much_waits_and_reading_goes_on_afterwards() {
    let mut stage = Stage::with(1, journaled(), CoapSettings::default());
    let who = stage.connects();
    stage.bed.is_disk_manual = true;
    for _ in 0..1500 {
        stage.says(who, "PUT /ps/data/a : 1");
    }
    assert!(stage.unread(who) > 0);
    assert_eq!(stage.lines(who), [""; 0]);
    stage.bed.is_disk_manual = false;
    stage.sync();
    stage.rest();
    assert_eq!(stage.lines(who).len(), 1500);
    assert_eq!(stage.unread(who), 0);
    // The same where no answer shows that there is room again.
    stage.bed.is_disk_manual = true;
    for _ in 0..1500 {
        stage.says(who, "PUT /ps/data/a no-response=26 : 1");
    }
    stage.bed.is_disk_manual = false;
    stage.sync();
    stage.rest();
    assert_eq!((stage.lines(who).len(), stage.unread(who)), (0, 0));
}

#[test]
fn who_does_not_begin_with_csm_is_aborted_with_words() {
    let cases: [(&[u8], &str); 4] = [
        (b"GET / HTTP/1.1\r\n\r\n", "an option has a reserved form"),
        // A GET without CSM; a token of nine bytes; a message of 4 GiB.
        (&[0x00, 0x01], "the first message is not CSM"),
        (&[0x09, 0xE1], "the token is longer"),
        (
            &[0xF0, 0xFF, 0xFF, 0xFF, 0xFF, 0xE1],
            "larger than this end takes",
        ),
    ];
    for (bytes, words) in cases {
        let mut stage = Stage::new();
        let who = stage.opens(Some(Access::ALL));
        assert!(!stage.is_connected(who));
        stage.sends(who, bytes);
        let heard = stage.lines(who);
        assert!(
            heard.len() == 1 && heard[0].starts_with("abort") && heard[0].contains(words),
            "{heard:?}"
        );
        assert!(stage.is_closing(who));
        assert!(stage.fault(who).is_some_and(|fault| fault.contains(words)));
        assert_eq!(stage.counts().malformed, 1);
    }
}

#[test]
fn a_message_may_come_in_pieces_of_any_size() {
    let mut stage = Stage::new();
    let who = stage.connects();
    let mut bytes = Vec::new();
    for number in 0..3 {
        bytes.extend(stage.request(
            who,
            &format!("PUT /ps/data/a : {}{number}", "x".repeat(300)),
        ));
    }
    for byte in bytes {
        stage.sends(who, &[byte]);
    }
    assert_eq!(stage.lines(who), ["2.01", "2.04", "2.04"]);
}

#[test]
fn a_body_may_come_in_blocks_and_one_that_is_too_large_is_refused() {
    let machine = Arc::new(ServerSettings {
        transfer_bytes_max: 3000,
        ..ServerSettings::default()
    });
    let mut stage = Stage::of(CoapSettings {
        machine,
        ..CoapSettings::default()
    });
    let who = stage.connects();
    let body = "0123456789abcdef".repeat(5);
    assert_eq!(
        stage.asks(
            who,
            &format!("PUT /ps/data/a block1=0+/64 : {}", &body[..64])
        ),
        "2.31 block1=0+/64"
    );
    assert_eq!(
        stage.asks(
            who,
            &format!("PUT /ps/data/a block1=1/64 : {}", &body[64..])
        ),
        "2.01 block1=1/64"
    );
    assert_eq!(stage.asks(who, "GET /ps/data/a"), format!("2.05 : {body}"));
    assert_eq!(
        stage.asks(who, &format!("PUT /ps/data/a : {}", "x".repeat(3001))),
        "4.13"
    );
    assert_eq!(
        stage.asks(who, "GET /ps/data/a"),
        format!("2.05 : {body}"),
        "what was there stays"
    );
    // A value above the size of one message is an error.
    stage.says(who, &format!("PUT /ps/data/a : {}", "x".repeat(20_000)));
    assert!(stage.lines(who)[0].starts_with("abort") && stage.is_closing(who));
}

#[test]
fn who_takes_small_messages_gets_values_in_blocks_of_several_units() {
    let mut stage = Stage::new();
    let (writer, reader) = (
        stage.connects(),
        stage.connects_with(StreamSettings {
            message_bytes_max: 3000,
            blockwise: true,
        }),
    );
    let body = "0123456789".repeat(500);
    assert_eq!(
        stage.asks(writer, &format!("PUT /ps/data/a : {body}")),
        "2.01"
    );
    stage.says(reader, "GET /ps/data/a");
    let first = stage.heard(reader).remove(0);
    assert_eq!(
        (first.uint(option::BLOCK2), first.uint(option::SIZE2)),
        (Some(0xF), Some(5000))
    );
    assert!(first.payload == body.as_bytes()[..2048]);
    stage.says(reader, "GET /ps/data/a block2=2/1024");
    let second = stage.heard(reader).remove(0);
    assert_eq!(second.option(option::ETAG), first.option(option::ETAG));
    assert!(second.payload == body.as_bytes()[2048..3072]);
}

#[test]
fn release_is_answered_to_the_last_request_and_then_the_connection_ends() {
    let mut stage = Stage::with(1, journaled(), CoapSettings::default());
    let who = stage.connects();
    stage.bed.is_disk_manual = true;
    stage.says(who, "PUT /ps/data/a : 1");
    stage.signals(who, Code::RELEASE);
    stage.says(who, "GET /ps/data/a");
    assert!(!stage.is_closing(who));
    stage.sync();
    assert_eq!(
        stage.lines(who),
        ["2.01"],
        "what comes behind Release is not read"
    );
    assert!(stage.is_closing(who));
    let who = stage.connects();
    stage.signals(who, Code::RELEASE);
    assert!(stage.is_closing(who));
    let who = stage.connects();
    stage.signals(who, Code::ABORT);
    assert!(stage.is_closing(who) && stage.lines(who).is_empty());
}

#[test]
fn the_broker_says_why_a_connection_ends() {
    for (why, words) in [
        (CloseReason::ShuttingDown, "release"),
        (
            CloseReason::Kicked,
            "abort : an operator has ended the connection",
        ),
        (
            CloseReason::NotAuthorized,
            "abort : your credentials or rights have ended",
        ),
    ] {
        let mut stage = Stage::new();
        let who = stage.connects();
        stage.asks(who, "PUT /ps/data/a : 1");
        stage.disconnect(who, why);
        assert_eq!(stage.lines(who), [words]);
        assert!(stage.is_closing(who));
        stage.close(who);
        assert_eq!(
            stage
                .kernels()
                .map(|kernel| kernel.totals().sessions)
                .sum::<usize>(),
            stage.desks()
        );
    }
}

#[test]
fn who_must_say_who_it_is_waits_for_the_verdict() {
    let mut stage = Stage::new();
    let who = stage.opens(None);
    stage.says_csm(who, StreamSettings::default());
    assert!(
        stage.is_connected(who) && stage.bed.asked.is_empty(),
        "nobody has asked for anything yet"
    );
    stage.says(who, "PUT /ps/data/a : 1");
    stage.says(who, "GET /ps/data/a");
    assert!(matches!(
        &stage.bed.asked[..],
        [thalweg_testbed::Asked {
            ask: LoginAsk::Password {
                user: None,
                password: None,
                ..
            },
            ..
        }]
    ));
    assert!(stage.holds_input(who) && stage.lines(who).is_empty());
    stage.verdict(LoginAnswer::Allowed {
        user: Some("anna".into()),
        access: Access::ALL,
        expires: None,
        data: None,
    });
    assert_eq!(stage.lines(who), ["2.01", "2.05 : 1"]);
    let who = stage.opens(None);
    stage.says_csm(who, StreamSettings::default());
    stage.says(who, "PUT /ps/data/a : 2");
    stage.verdict(LoginAnswer::Refused(LoginRefusal::NotAuthorized));
    assert_eq!(stage.lines(who), ["4.01"]);
}

#[test]
fn a_connection_that_ends_leaves_nothing_behind() {
    let mut stage = Stage::of(CoapSettings {
        auto_declare_queues: true,
        ..CoapSettings::default()
    });
    let topic = [
        0xA3, 0x00, 0x61, b't', 0x02, 0x6C, b'c', b'o', b'r', b'e', b'.', b'p', b's', b'.', b'd',
        b'a', b't', b'a', 0x06, 0x01,
    ];
    let (keeper, goer) = (stage.connects(), stage.connects());
    let made = stage.asks_bytes(keeper, "POST /ps ct=606", &topic);
    assert_eq!(made.code, Code::CREATED, "{}", made.line());
    stage.asks(keeper, "PUT /ps/data/t : 1");
    assert_eq!(
        stage.asks(goer, "GET /ps/data/t observe=0"),
        "2.05 observe : 1"
    );
    assert_eq!(
        stage.asks(keeper, "GET /ps/data/t observe=0"),
        "2.05 : 1",
        "the seat is taken"
    );
    stage.asks(keeper, "POST /q/work : job");
    stage.set_ponging(goer, false);
    assert_eq!(stage.asks(goer, "GET /q/work"), "2.05 : job");
    assert_eq!(stage.asks(keeper, "GET /q/work"), "4.04");
    stage.close(goer);
    assert_eq!(
        stage.asks(keeper, "GET /q/work"),
        "2.05 : job",
        "it was not confirmed"
    );
    assert_eq!(
        stage.asks(keeper, "GET /ps/data/t observe=0"),
        "2.05 observe : 1",
        "the seat is free"
    );
    stage.close(keeper);
    let totals = stage
        .kernels()
        .map(|kernel| kernel.totals())
        .collect::<Vec<_>>();
    assert_eq!((totals[0].watches, totals[0].sessions), (0, stage.desks()));
}

#[test]
fn a_message_of_a_queue_is_gone_when_the_taker_has_answered_the_ping_behind_it() {
    let mut stage = Stage::of(CoapSettings {
        auto_declare_queues: true,
        ..CoapSettings::default()
    });
    let (one, other) = (stage.connects(), stage.connects());
    for job in ["a", "b"] {
        assert_eq!(stage.asks(one, &format!("POST /q/work : {job}")), "2.04");
    }
    assert_eq!(stage.asks(one, "GET /q/work"), "2.05 : a");
    assert_eq!(
        (stage.counts().takes, stage.counts().takes_returned),
        (1, 0)
    );
    stage.close(one);
    assert_eq!(stage.asks(other, "GET /q/work"), "2.05 : b");
    assert_eq!(stage.asks(other, "GET /q/work"), "4.04");
    assert_eq!(
        (stage.counts().takes, stage.counts().takes_returned),
        (1, 0)
    );
}

#[test]
fn a_reply_to_a_connection_that_is_gone_does_not_reach_the_next_one() {
    let mut stage = Stage::new();
    stage.listens("add");
    let caller = stage.connects();
    stage.says(caller, "POST /rpc/add : 1");
    let first = stage.reply_address();
    stage.close(caller);
    let next = stage.connects();
    stage.says(next, "POST /rpc/add : 2");
    let second = stage.reply_address();
    assert_ne!(first, second);
    stage.publishes(&first, b"for the first");
    assert_eq!(stage.lines(next), [""; 0]);
    stage.publishes(&second, b"for the second");
    assert_eq!(stage.lines(next), ["2.05 : for the second"]);
}

#[test]
fn a_silent_peer_is_asked_whether_it_is_there_and_given_up() {
    let mut stage = Stage::of(CoapSettings {
        silence_max: Some(Span::from_secs(60)),
        ..CoapSettings::default()
    });
    let (alive, dead) = (stage.connects(), stage.connects());
    stage.asks(dead, "GET /ps/data/a observe=0");
    stage.set_ponging(dead, false);
    for _ in 0..3 {
        stage.wait(Span::from_secs(31));
        assert_eq!(stage.lines(alive), ["ping"]);
    }
    assert_eq!(stage.lines(dead), ["ping"], "once");
    stage.silence(dead);
    assert!(
        stage.lines(dead)[0].starts_with("abort : nothing was heard") && stage.is_closing(dead)
    );
    assert!(!stage.is_closing(alive));
}

#[test]
fn observations_and_their_number_are_limited_for_each_connection() {
    let machine = Arc::new(ServerSettings {
        relations_per_peer: 3,
        ..ServerSettings::default()
    });
    let mut stage = Stage::of(CoapSettings {
        machine,
        ..CoapSettings::default()
    });
    let (one, other) = (stage.connects(), stage.connects());
    let observe = |stage: &mut Stage, who: Who| stage.asks(who, "GET /ps/data/a observe=0");
    stage.asks(one, "PUT /ps/data/a : 1");
    let all: Vec<String> = (0..4).map(|_| observe(&mut stage, one)).collect();
    assert_eq!(
        all,
        [
            "2.05 observe : 1",
            "2.05 observe : 1",
            "2.05 observe : 1",
            "2.05 : 1"
        ]
    );
    assert_eq!(observe(&mut stage, other), "2.05 observe : 1");
    assert_eq!(
        stage
            .kernels()
            .map(|kernel| kernel.totals().watches)
            .sum::<usize>(),
        4
    );
}

#[test]
fn a_publisher_over_its_rate_is_told_when_to_come_again() {
    let limits = Limits {
        publish_rate: 2,
        ..Limits::default()
    };
    let mut stage = Stage::with(1, limits, CoapSettings::default());
    let who = stage.connects();
    let codes: Vec<String> = (0..5)
        .map(|_| stage.asks(who, "PUT /ps/data/a : 1"))
        .collect();
    assert!(
        codes.iter().any(|code| code.starts_with("4.29 max-age=")),
        "{codes:?}"
    );
    assert_eq!(stage.asks(who, "GET /ps/data/a"), "2.05 : 1");
}

#[test]
fn a_token_that_waits_twice_is_answered_twice() {
    let mut stage = Stage::new();
    let who = stage.connects();
    let mut bytes = Vec::new();
    let token = Token::new(&[1]).expect("short");
    for _ in 0..2 {
        encode(
            &mut bytes,
            Code::GET,
            token,
            |e| _ = e.option(option::URI_PATH, b"ps"),
            &[],
        );
    }
    stage.sends(who, &bytes);
    assert_eq!(stage.lines(who).len(), 2);
}

#[test]
fn whatever_peers_send_nothing_breaks_and_nothing_stays() {
    for seed in 0..300_u64 {
        println!("seed {seed}");
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (mixed ^ mixed >> 27) as u8
        };
        let script: Vec<u8> = (0..400).map(|_| next()).collect();
        let mut stage = nonsense::Stage::new(seed as u8);
        if seed % 2 == 0 {
            stage.play(&script);
        } else {
            stage.play_datagrams(&script);
        }
        stage.end();
    }
}
