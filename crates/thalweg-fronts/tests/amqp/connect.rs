//! Coming in, staying and leaving.

use crate::world::{Hello, ServerMethod, World};
use thalweg_amqp::{MethodId, ReplyCode};
use thalweg_fronts::amqp::AmqpSettings;
use thalweg_fronts::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_model::Span;

fn allowed(user: &str) -> LoginAnswer {
    LoginAnswer::Allowed {
        user: Some(user.into()),
        access: Access::ALL,
        expires: None,
        data: None,
    }
}

#[test]
fn a_server_says_what_clients_look_for() {
    let mut world = World::new();
    let who = world.try_connect(&Hello::default());
    let said = world.said(who);
    let Some(ServerMethod::Start {
        mechanisms,
        product,
        version,
    }) = said.first()
    else {
        panic!("{said:?}")
    };
    assert_eq!(
        (mechanisms.as_str(), product.as_str()),
        ("PLAIN AMQPLAIN EXTERNAL ANONYMOUS", "Thalweg")
    );
    let parts: Vec<u32> = version
        .split('.')
        .map(|part| part.parse().expect("a number"))
        .collect();
    assert!(
        parts.len() == 3 && (parts[0], parts[1]) >= (3, 12),
        "{version}"
    );
    assert_eq!(said[1..], [ServerMethod::Tuned, ServerMethod::Opened]);
}

#[test]
fn guests_and_the_nameless_come_in_where_strangers_may() {
    for (mechanism, response) in [
        ("PLAIN", &b"\0guest\0guest"[..]),
        ("ANONYMOUS", b""),
        ("EXTERNAL", b""),
    ] {
        let mut world = World::new();
        world.connect_with(&Hello {
            mechanism,
            response: response.to_vec(),
            ..Hello::default()
        });
        assert!(world.bed.asked.is_empty(), "{mechanism}");
    }
}

#[test]
fn credentials_are_asked_about_and_input_waits_for_the_verdict() {
    let mut world = World::new();
    let hello = Hello {
        anonymous: None,
        response: b"\0ada\0secret".to_vec(),
        ..Hello::default()
    };
    let who = world.try_connect(&hello);
    let LoginAsk::Password { user, password, .. } = &world.bed.asked[0].ask else {
        panic!("{:?}", world.bed.asked)
    };
    assert_eq!(
        (user.as_deref(), password.as_deref()),
        (Some("ada"), Some(&b"secret"[..]))
    );
    world.verdict(allowed("ada"));
    assert_eq!(world.said(who).last(), Some(&ServerMethod::Opened));
}

#[test]
fn a_new_secret_is_taken_from_the_same_user_only() {
    for (user, is_taken) in [("ada", true), ("bob", false)] {
        let mut world = World::new();
        let hello = Hello {
            anonymous: None,
            response: b"\0ada\0secret".to_vec(),
            ..Hello::default()
        };
        let who = world.try_connect(&hello);
        world.verdict(allowed("ada"));
        world.said(who);
        world.says(who, |machine, up| {
            machine.update_secret(b"another", "renewed", up)
        });
        world.verdict(allowed(user));
        assert_eq!(!world.is_closed(who), is_taken, "{user}");
        let said = world.said(who);
        assert_eq!(
            matches!(said[..], [ServerMethod::Closed { code: 403, .. }]),
            !is_taken,
            "{said:?}"
        );
    }
}

#[test]
fn a_refused_login_is_told_to_those_who_understand_it_and_closes_on_others() {
    for (capabilities, is_told) in [(&["authentication_failure_close"][..], true), (&[], false)] {
        let mut world = World::new();
        let hello = Hello {
            anonymous: None,
            capabilities,
            ..Hello::default()
        };
        let who = world.try_connect(&hello);
        world.said(who);
        world.verdict(LoginAnswer::Refused(LoginRefusal::BadUserOrPassword));
        let said = world.said(who);
        match is_told {
            true => assert!(
                matches!(&said[..], [ServerMethod::Closed { code: 403, text }] if text.starts_with("ACCESS_REFUSED - Login was refused")),
                "{said:?}"
            ),
            false => assert_eq!(said, []),
        }
        assert!(world.is_closed(who));
    }
}

#[test]
fn a_mechanism_that_is_not_offered_is_refused() {
    let mut world = World::new();
    let who = world.try_connect(&Hello {
        mechanism: "CRAM-MD5",
        ..Hello::default()
    });
    assert!(matches!(
        world.said(who).last(),
        Some(ServerMethod::Closed { code: 403, .. })
    ));
}

#[test]
fn a_virtual_host_that_does_not_exist_is_not_entered() {
    let mut world = World::new();
    let who = world.try_connect(&Hello {
        vhost: "nowhere",
        ..Hello::default()
    });
    let text = "NOT_ALLOWED - vhost nowhere not found".into();
    assert_eq!(
        world.said(who).last(),
        Some(&ServerMethod::Closed { code: 530, text })
    );
    assert!(world.is_closed(who));
}

#[test]
fn a_virtual_host_in_which_the_rules_grant_nothing_is_not_entered() {
    let settings = AmqpSettings {
        tenants: ["blue".into(), "red".into()].into(),
        ..AmqpSettings::default()
    };
    let mut world = World::with(Limits::default(), settings);
    let blue = Rule::allow(Permissions::ALL, "$q@blue/#");
    let only_blue = [blue]
        .into_iter()
        .chain(["#", "$q/#", "$x/#"].map(|all| Rule::deny(Permissions::ALL, all)));
    let access = Rules::new(only_blue.collect(), Otherwise::Deny)
        .expect("legal")
        .compile("", None);
    for (vhost, named, opens) in [
        ("blue", "blue", true),
        ("/blue", "blue", true),
        ("red", "red", false),
        ("/", "/", false),
    ] {
        let who = world.try_connect(&Hello {
            vhost,
            anonymous: Some(access.clone()),
            ..Hello::default()
        });
        assert_eq!(world.is_closed(who), !opens, "{vhost}");
        if !opens {
            let text = format!("NOT_ALLOWED - access to vhost '{named}' refused for user 'guest'");
            assert_eq!(
                world.said(who).last(),
                Some(&ServerMethod::Closed { code: 530, text })
            );
        }
    }
}

#[test]
fn tenants_have_queues_and_topics_of_their_own() {
    let settings = AmqpSettings {
        tenants: ["blue".into()].into(),
        ..AmqpSettings::default()
    };
    let mut world = World::with(Limits::default(), settings);
    let here = world.connect();
    let there = world.connect_with(&Hello {
        vhost: "blue",
        ..Hello::default()
    });
    world.channel(there, 1);
    for who in [here, there] {
        world.declare(who, "q");
        world.bind(who, "q", "amq.topic", "a.b");
    }
    world.publish(there, "", "q", "one");
    world.publish(there, "amq.topic", "a.b", "two");
    assert_eq!(world.get(here, "q"), None);
    let (one, two) = (
        world.get(there, "q").expect("one"),
        world.get(there, "q").expect("two"),
    );
    assert_eq!((one.exchange.as_str(), one.key.as_str()), ("", "q"));
    assert_eq!(
        (two.exchange.as_str(), two.key.as_str()),
        ("amq.topic", "a.b")
    );
}

#[test]
fn goodbye_is_answered_and_what_was_unsettled_goes_back() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    world.declare(one, "q");
    world.publish(one, "", "q", "m");
    world.consume(two, "q", false);
    assert_eq!(world.texts(two), ["m"]);
    world.says(two, |machine, up| {
        machine.close(ReplyCode::ReplySuccess, "bye", MethodId::NONE, up)
    });
    assert_eq!(world.said(two), [ServerMethod::CloseConfirmed]);
    assert!(world.is_closed(two));
    let again = world.get(one, "q").expect("it is there again");
    assert!(again.redelivered);
}

#[test]
fn a_connection_that_we_close_hears_nothing_until_the_peer_has_confirmed() {
    let mut world = World::new();
    let who = world.connect();
    // A body where a method is due.
    world.read(who, false);
    world.says(who, |_, up| {
        up.extend_from_slice(b"\x03\x00\x01\x00\x00\x00\x01x\xCE")
    });
    world.publish(who, "", "q", "nobody reads this");
    assert!(!world.is_closed(who), "the peer has not confirmed");
    world.read(who, true);
    assert!(matches!(
        &world.said(who)[..],
        [ServerMethod::Closed { code: 505, .. }]
    ));
    assert!(world.is_closed(who));
}

#[test]
fn who_does_not_confirm_the_end_is_not_waited_for() {
    let mut world = World::new();
    let who = world.connect();
    world.read(who, false);
    world.says(who, |_, up| {
        up.extend_from_slice(b"\x03\x00\x01\x00\x00\x00\x01x\xCE")
    });
    let link = world.link(who);
    assert!(
        world
            .links()
            .silence_max(link)
            .is_some_and(|span| span <= Span::from_secs(10))
    );
    world.links().on_silence(link);
    world.read(who, true);
    assert!(world.is_closed(who));
}

#[test]
fn another_protocol_is_told_what_we_speak() {
    let mut world = World::new();
    let front = world.bed.amqp_front(None);
    let who = world.bed.open(0, front, thalweg_testbed::Raw::default());
    let header = b"AMQP\x00\x01\x00\x00";
    world.bed.write(who, |_, up| up.extend_from_slice(header));
    world.bed.feed(who, usize::MAX);
    let link = world.bed.link(who).expect("it is not removed yet");
    assert_eq!(link.sendable(), b"AMQP\x00\x00\x09\x01");
    assert!(link.closing);
}

#[test]
fn heartbeats_are_sent_before_they_are_missed_and_missed_twice_before_it_ends() {
    let mut world = World::new();
    let who = world.connect_with(&Hello {
        heartbeat: 10,
        ..Hello::default()
    });
    let link = world.link(who);
    assert_eq!(world.links().idle_write(link), Some(Span::from_secs(5)));
    assert_eq!(world.links().silence_max(link), Some(Span::from_secs(20)));
    let now = world.bed.now;
    world.links().on_idle(link, now);
    world.rest();
    assert_eq!(world.said(who), [ServerMethod::Heartbeat]);
    let calm = world.connect();
    let link = world.link(calm);
    assert_eq!(
        (
            world.links().idle_write(link),
            world.links().silence_max(link)
        ),
        (None, None)
    );
}

#[test]
fn blocked_publishers_are_told_if_they_understand_it_also_those_who_come_later() {
    let mut world = World::new();
    let (one, deaf) = (
        world.connect(),
        world.connect_with(&Hello {
            capabilities: &[],
            ..Hello::default()
        }),
    );
    world.links().on_blocked(Some("the disk is full"));
    world.rest();
    let blocked = ServerMethod::Blocked("the disk is full".into());
    assert_eq!(world.said(one), std::slice::from_ref(&blocked));
    let late = world.try_connect(&Hello::default());
    assert_eq!(world.said(late).last(), Some(&blocked));
    world.links().on_blocked(None);
    world.rest();
    assert_eq!(
        (world.said(one), world.said(late)),
        (vec![ServerMethod::Unblocked], vec![ServerMethod::Unblocked])
    );
    assert_eq!(world.said(deaf), []);
}

#[test]
fn a_new_secret_is_checked() {
    let mut world = World::new();
    let who = world.connect();
    world.says(who, |machine, up| {
        machine.update_secret(b"token", "it expires", up)
    });
    assert!(
        matches!(&world.bed.asked[0].ask, LoginAsk::Password { password: Some(secret), .. } if **secret == *b"token")
    );
    // It logged in as anonymous, and stays so.
    world.verdict(LoginAnswer::Allowed {
        user: None,
        access: Access::ALL,
        expires: None,
        data: None,
    });
    assert_eq!(world.said(who), [ServerMethod::SecretUpdated]);
    world.says(who, |machine, up| {
        machine.update_secret(b"stale", "it expires", up)
    });
    world.verdict(LoginAnswer::Refused(LoginRefusal::BadUserOrPassword));
    assert!(matches!(
        &world.said(who)[..],
        [ServerMethod::Closed { code: 403, .. }]
    ));
}
