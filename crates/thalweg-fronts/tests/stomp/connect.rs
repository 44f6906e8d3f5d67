//! Coming in, staying, and going.

use crate::world::{Hello, ServerFrame, World};
use thalweg_fronts::stomp::StompSettings;
use thalweg_fronts::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_model::Span;
use thalweg_stomp::{ConnectOut, SubscribeOut, Version};

fn with(connect: ConnectOut<'_>) -> Hello<'_> {
    Hello {
        connect,
        ..Hello::default()
    }
}

#[test]
fn the_highest_common_version_is_spoken() {
    let mut world = World::new();
    for version in Version::ALL {
        let connect = ConnectOut {
            lowest: Version::V10,
            highest: version,
            ..ConnectOut::default()
        };
        let who = world.try_connect(&with(connect));
        assert_eq!(
            world.heard(who),
            Some(ServerFrame::Connected {
                version,
                heart_beat: (0, 0)
            })
        );
        assert_eq!(
            world.limits_of(who),
            (None, None),
            "it has promised nothing and wants nothing"
        );
    }
}

#[test]
fn heart_beats_are_as_the_client_likes_them_within_bounds() {
    for (theirs, ours, silence_millis, idle_millis) in [
        ((4000, 20_000), (10_000, 4000), 12_000, 16_000),
        ((10_000, 10_000), (10_000, 10_000), 30_000, 8000),
        ((5000, 500), (500, 5000), 15_000, 400),
        ((10, 10), (100, 1000), 3000, 80),
    ] {
        let mut world = World::new();
        let who = world.try_connect(&with(ConnectOut {
            heart_beat: theirs,
            ..ConnectOut::default()
        }));
        assert_eq!(
            world.heard(who),
            Some(ServerFrame::Connected {
                version: Version::V12,
                heart_beat: ours
            })
        );
        let expected = (
            Some(Span::from_millis(silence_millis)),
            Some(Span::from_millis(idle_millis)),
        );
        assert_eq!(world.limits_of(who), expected, "{theirs:?}");
        world.idle(who);
        assert_eq!(world.heard(who), Some(ServerFrame::HeartBeat));
        world.silent(who);
        assert!(
            matches!(world.heard(who), Some(ServerFrame::Error { .. })) && world.is_closed(who)
        );
    }
}

#[test]
fn guests_and_nobody_come_in_where_nobody_is_asked_and_others_are_asked_for_their_password() {
    let mut world = World::new();
    for (login, passcode) in [(None, None), (Some("guest"), Some("guest"))] {
        let who = world.try_connect(&with(ConnectOut {
            login,
            passcode,
            ..ConnectOut::default()
        }));
        assert!(
            matches!(world.heard(who), Some(ServerFrame::Connected { .. })),
            "{login:?}"
        );
    }
    let named = ConnectOut {
        login: Some("anna"),
        passcode: Some("secret"),
        ..ConnectOut::default()
    };
    let who = world.try_connect(&with(named));
    // Frames sent before the login's result wait for it.
    world.writes(
        who,
        b"SUBSCRIBE\nid:1\ndestination:/queue/q\nreceipt:early\n\n\0",
    );
    assert_eq!(world.heard(who), None);
    let LoginAsk::Password { user, password, .. } = &world.bed.asked[0].ask else {
        panic!("a password")
    };
    assert_eq!(
        (user.as_deref(), password.as_deref()),
        (Some("anna"), Some(&b"secret"[..]))
    );
    world.allow(LoginAnswer::Allowed {
        user: Some("anna".into()),
        access: Access::ALL,
        expires: None,
        data: None,
    });
    assert!(matches!(
        world.heard(who),
        Some(ServerFrame::Connected { .. })
    ));
    world.hears_receipt(who, "early");

    let who = world.try_connect(&with(named));
    world.allow(LoginAnswer::Refused(LoginRefusal::BadUserOrPassword));
    let (message, body) = world.hears_error(who, None);
    assert_eq!(message, "Bad CONNECT");
    assert!(body.contains("Access refused for user 'anna'"), "{body}");

    let who = world.try_connect(&Hello {
        access: None,
        ..Hello::default()
    });
    assert_eq!(
        (world.heard(who), world.bed.asked.len()),
        (None, 1),
        "nobody comes in unasked here"
    );
}

#[test]
fn a_user_id_is_that_of_the_user_who_was_proven() {
    let mut world = World::new();
    let claims = ConnectOut {
        login: Some("admin"),
        passcode: Some("secret"),
        ..ConnectOut::default()
    };
    for (user_id, is_taken) in [("bob", true), ("admin", false)] {
        let who = world.try_connect(&with(claims));
        world.allow(LoginAnswer::Allowed {
            user: Some("bob".into()),
            access: Access::ALL,
            expires: None,
            data: None,
        });
        assert!(matches!(
            world.heard(who),
            Some(ServerFrame::Connected { .. })
        ));
        let send = format!("SEND\ndestination:/queue/q\nuser-id:{user_id}\nreceipt:r\n\n\0");
        world.writes(who, send.as_bytes());
        if is_taken {
            world.hears_receipt(who, "r");
        } else {
            let (message, _) = world.hears_error(who, Some("r"));
            assert_eq!(message, "precondition_failed");
        }
    }
}

#[test]
fn host_names_a_tenant_or_a_server() {
    let settings = StompSettings {
        tenants: Box::new(["blue".into()]),
        hosts: Box::new(["broker-7".into()]),
        ..StompSettings::default()
    };
    let mut world = World::with(1, Limits::default(), settings);
    let at = |host: &'static str| {
        with(ConnectOut {
            host,
            ..ConnectOut::default()
        })
    };
    let blue = world.connect_with(&at("blue"));
    world.listen(blue, "1", "/topic/a");
    let rest = [
        "/",
        "",
        "localhost",
        "broker-7",
        "127.0.0.1",
        "mq.example.org",
    ]
    .map(|host| {
        let who = world.connect_with(&at(host));
        world.listen(who, "1", "/topic/a");
        who
    });
    world.send(blue, "/topic/a", "blue");
    assert_eq!(world.texts(blue), ["blue"]);
    for who in rest {
        assert_eq!(world.texts(who), [""; 0], "tenants do not hear each other");
    }
    world.send(rest[0], "/topic/a", "default");
    for who in rest {
        assert_eq!(world.texts(who), ["default"]);
    }
    assert_eq!(world.texts(blue), [""; 0]);
    let who = world.try_connect(&at("green"));
    let (message, body) = world.hears_error(who, None);
    assert_eq!(message, "Bad CONNECT");
    assert!(
        body.starts_with("Virtual host 'green' access denied"),
        "{body}"
    );
    let rules =
        Rules::new(vec![Rule::allow(Permissions::ALL, "$q/#")], Otherwise::Deny).expect("legal");
    let who = world.try_connect(&Hello {
        access: Some(rules.compile("", None)),
        ..at("blue")
    });
    let (message, body) = world.hears_error(who, None);
    assert_eq!(message, "Bad CONNECT");
    assert!(
        body.starts_with("Virtual host 'blue' access denied: the rules"),
        "{body}"
    );
}

#[test]
fn the_receipt_of_disconnect_comes_before_the_end() {
    let mut world = World::new();
    let who = world.connect();
    world.says(who, |machine, up| machine.disconnect(Some("bye"), up));
    world.hears_receipt(who, "bye");
    assert!(world.is_closed(who));
    assert_eq!(world.kernel().totals().sessions, 0);
}

#[test]
fn whoever_breaks_the_protocol_is_told_and_sent_away() {
    let mut world = World::new();
    let who = world.connect();
    world.writes(who, b"SEND\nreceipt:7\n\nx\0");
    let (message, _) = world.hears_error(who, Some("7"));
    assert_eq!(message, "SEND has no destination");
    let who = world.connect();
    world.writes(who, b"SEND\ndestination:nowhere/at/all\nreceipt:8\n\nx\0");
    let (message, body) = world.hears_error(who, Some("8"));
    assert_eq!(message, "Unknown destination");
    assert!(
        body.contains("'nowhere/at/all' is not a valid destination"),
        "{body}"
    );
    let who = world.connect();
    let (message, _) = world.refused(
        who,
        &SubscribeOut {
            id: Some("1"),
            destination: "/queue/",
            ..Default::default()
        },
    );
    assert_eq!(message, "Invalid destination");
}
