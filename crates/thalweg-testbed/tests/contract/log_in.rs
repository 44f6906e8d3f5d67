//! A peer that has logged in and has no session yet: what it was granted does not outlast the rules, nor its credentials.

use std::sync::Arc;
use thalweg_fronts::LoginAnswer;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_kernel::access::Access;
use thalweg_mqtt::ConnectOut;
use thalweg_testbed::{Settings, Testbed, Who, amqp};
use thalweg_xmpp::Credentials;
use thalweg_zmtp::{ClientMechanism, SocketType};

/// Opens a connection; without rights for strangers with a user's name and password.
type Open = fn(&mut Testbed, Option<Access>) -> Who<()>;

fn mqtt(bed: &mut Testbed, anonymous: Option<Access>) -> Who<()> {
    let connect = ConnectOut {
        client_id: "eve",
        username: anonymous.is_none().then_some("eve"),
        password: anonymous.is_none().then_some(b"x"),
        ..ConnectOut::default()
    };
    bed.open_mqtt(&connect, anonymous).cast()
}

fn amqp(bed: &mut Testbed, anonymous: Option<Access>) -> Who<()> {
    let mut hello = amqp::Hello::default();
    if anonymous.is_none() {
        hello.response = b"\0eve\0x".to_vec();
    }
    bed.open_amqp(&hello, anonymous).cast()
}

fn stomp(bed: &mut Testbed, anonymous: Option<Access>) -> Who<()> {
    let connect = thalweg_stomp::ConnectOut {
        login: anonymous.is_none().then_some("eve"),
        passcode: anonymous.is_none().then_some("x"),
        ..Default::default()
    };
    bed.open_stomp(&connect, anonymous).cast()
}

fn xmpp(bed: &mut Testbed, anonymous: Option<Access>) -> Who<()> {
    let credentials = match anonymous {
        Some(_) => Credentials::Anonymous,
        None => Credentials::Password {
            user: "eve".into(),
            password: "x".into(),
        },
    };
    bed.open_xmpp(0, credentials, anonymous).cast()
}

fn zmtp(bed: &mut Testbed, anonymous: Option<Access>) -> Who<()> {
    let mechanism = match anonymous {
        Some(_) => ClientMechanism::Null,
        None => ClientMechanism::Plain {
            username: b"eve".as_slice().into(),
            password: b"x".as_slice().into(),
        },
    };
    bed.open_zmtp(SocketType::Sub, mechanism, anonymous).cast()
}

const ALL: [(&str, Open); 5] = [
    ("mqtt", mqtt),
    ("amqp", amqp),
    ("stomp", stomp),
    ("xmpp", xmpp),
    ("zmtp", zmtp),
];

/// Those that open a session some steps after the log-in.
const IN_STEPS: [(&str, Open); 3] = [("amqp", amqp), ("xmpp", xmpp), ("zmtp", zmtp)];

fn bed() -> Testbed {
    Testbed::new(Settings {
        shards: 2,
        xmpp: Arc::new(XmppSettings {
            secured: true,
            scram: false,
            ..XmppSettings::default()
        }),
        ..Settings::default()
    })
}

fn allowed(generation: u32) -> LoginAnswer {
    LoginAnswer::Allowed {
        user: Some("eve".into()),
        access: Access::ALL.of_generation(generation),
        expires: None,
        data: None,
    }
}

fn replace_rules(bed: &mut Testbed, generation: u32) {
    for shard in &mut bed.shards {
        shard.kernel.set_rules_generation(generation);
    }
}

fn sessions(bed: &Testbed) -> usize {
    let shards = bed.shards.iter();
    shards.map(|shard| shard.kernel.totals().sessions).sum()
}

#[test]
fn rights_of_strangers_that_a_connection_was_accepted_with_end_with_their_rules() {
    for (protocol, open) in ALL {
        for (generation, wanted) in [(1, 0), (2, 1), (3, 1)] {
            let mut bed = bed();
            replace_rules(&mut bed, 2);
            open(&mut bed, Some(Access::ALL.of_generation(generation)));
            bed.rest();
            assert_eq!(sessions(&bed), wanted, "{protocol} {generation}");
        }
    }
}

#[test]
fn a_verdict_by_rules_that_were_replaced_opens_no_session() {
    for (protocol, open) in ALL {
        for (generation, wanted) in [(1, 0), (2, 1), (3, 1)] {
            let mut bed = bed();
            open(&mut bed, None);
            bed.rest();
            replace_rules(&mut bed, 2);
            bed.answer_login(allowed(generation));
            assert_eq!(sessions(&bed), wanted, "{protocol} {generation}");
        }
    }
}

#[test]
fn a_log_in_opens_no_session_after_the_rules_were_replaced() {
    for (protocol, open) in IN_STEPS {
        for (generation, wanted) in [(1, 1), (2, 0)] {
            let mut bed = bed();
            let who = open(&mut bed, None);
            bed.rest();
            bed.set_stalled(who, true);
            bed.answer_login(allowed(1));
            assert_eq!(sessions(&bed), 0, "{protocol}");
            replace_rules(&mut bed, generation);
            bed.set_reading(who, true);
            assert_eq!(sessions(&bed), wanted, "{protocol} {generation}");
        }
    }
}

#[test]
fn a_log_in_whose_credentials_have_ended_opens_no_session() {
    for (protocol, open) in IN_STEPS {
        for has_ended in [false, true] {
            let mut bed = bed();
            let who = open(&mut bed, None);
            bed.rest();
            bed.set_stalled(who, true);
            bed.answer_login(allowed(1));
            if has_ended {
                let (shard, link, now) = (bed.shard_of(who), bed.link_id(who), bed.now);
                let shard = &mut bed.shards[shard];
                shard.links.on_login_expired(link, &mut shard.kernel, now);
            }
            bed.set_reading(who, true);
            assert_eq!(sessions(&bed), usize::from(!has_ended), "{protocol}");
            assert_eq!(bed.is_closed(who), has_ended, "{protocol}");
        }
    }
}
