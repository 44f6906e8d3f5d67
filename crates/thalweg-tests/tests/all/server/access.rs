//! Every way to log in, and the rights that follow.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use thalweg_server::access::{add_password, add_scram_verifier};

use super::home::Home;
use super::talker::Talker;
use crate::conformance::packet::Version::{V5, V311};
use crate::conformance::packet::*;
use crate::folder::Folder;

const BAD_PASSWORD: u8 = 0x86;
const NOT_AUTHORIZED: u8 = 0x87;
pub(super) const SECRET: &str = "a secret of at least thirty-two bytes";

fn user(name: &str, password: &str) -> Connect {
    Connect::new(V5, format!("client of {name}"))
        .user_name(name)
        .password(password)
}

fn code(home: &Home, connect: &Connect) -> u8 {
    home.talker().connect(connect).code
}

/// A folder with the users `ada` (password `pencil`, SCRAM too) and `bob` (password `chalk`).
fn with_users() -> Folder {
    let folder = Folder::new();
    let users = folder.path().join("users");
    add_password(&users, "bob", b"chalk").expect("the folder is writable");
    add_scram_verifier(&users, "ada", b"pencil").expect("the folder is writable");
    folder
}

pub(super) fn token(claims: &str) -> String {
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    format!(
        "{signed}.{}",
        URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()))
    )
}

pub(super) fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("it is after 1970")
        .as_secs()
}

#[test]
fn passwords_let_in_and_anonymous_false_keeps_everybody_else_out() {
    let sets = [
        "access.password_file={folder}/users",
        "listeners.mqtt.anonymous=false",
    ];
    let home = Home::in_folder(with_users(), &sets);
    assert_eq!(code(&home, &user("bob", "chalk")), 0);
    assert_eq!(
        code(&home, &user("ada", "pencil")),
        0,
        "a verifier of SCRAM serves a plain password too"
    );
    assert_eq!(code(&home, &user("bob", "cheese")), BAD_PASSWORD);
    assert_eq!(code(&home, &user("eve", "chalk")), BAD_PASSWORD);
    assert_eq!(code(&home, &Connect::new(V5, "nobody")), NOT_AUTHORIZED);
    assert_eq!(code(&home, &Connect::new(V311, "nobody")), 5);
    assert_eq!(
        code(
            &home,
            &Connect::new(V311, "bob")
                .user_name("bob")
                .password("cheese")
        ),
        4
    );
}

#[test]
fn on_loopback_the_anonymous_are_let_in_beside_users_but_wrong_passwords_are_not() {
    let home = Home::in_folder(with_users(), &["access.password_file={folder}/users"]);
    assert_eq!(code(&home, &Connect::new(V5, "nobody")), 0);
    assert_eq!(code(&home, &user("bob", "cheese")), BAD_PASSWORD);
}

#[test]
fn rules_allow_and_deny_and_the_default_decides_the_rest() {
    let rules = "topic readwrite public/#\ntopic deny public/secret\n";
    let may = |default: &str, topic: &str| {
        let folder = Folder::new();
        folder.write("acl", rules);
        let home = Home::in_folder(
            folder,
            &[
                "access.acl_file={folder}/acl",
                &format!("access.default={default}"),
            ],
        );
        home.client("a").publish(topic, "", 1) < 0x80
    };
    for default in ["automatic", "deny"] {
        assert!(may(default, "public/x"));
        assert!(!may(default, "public/secret"));
        assert!(!may(default, "else"));
    }
    assert!(may("allow", "else"));
    assert!(!may("allow", "public/secret"));
}

#[test]
fn without_rules_the_default_is_to_allow_and_deny_leaves_only_tokens_with_rules() {
    assert!(
        Home::new(&["access.default=allow"])
            .client("a")
            .publish("t", "", 1)
            < 0x80
    );
    let folder = Folder::new();
    folder.write("key", SECRET);
    let home = Home::in_folder(
        folder,
        &["access.default=deny", "access.jwt.secret_file={folder}/key"],
    );
    assert_eq!(home.client("a").publish("t", "", 1), NOT_AUTHORIZED);
    assert_eq!(home.client("a").subscribe("t", 1), NOT_AUTHORIZED);
    let exp = unix_now() + 1000;
    let rules = token(&format!(
        r#"{{"sub":"carol","exp":{exp},"thalweg_acl":{{"publish":["t"]}}}}"#
    ));
    let mut carol = home.talker().accepted(&user("carol", &rules));
    assert!(carol.publish("t", "", 1) < 0x80);
    assert_eq!(carol.publish("u", "", 1), NOT_AUTHORIZED);
}

#[test]
fn a_subscription_can_be_refused_for_want_of_the_right_to_read() {
    let rules = "topic read public/#\n";
    let subscribed = |needs_read: &str| {
        let folder = Folder::new();
        folder.write("acl", rules);
        let set = format!("access.subscribe_needs_read={needs_read}");
        let home = Home::in_folder(folder, &["access.acl_file={folder}/acl", &set]);
        let mut talker = home.client("a");
        [talker.subscribe("public/+", 0), talker.subscribe("#", 0)]
    };
    assert_eq!(
        subscribed("false"),
        [0, 0],
        "as in mosquitto: each message is judged"
    );
    assert_eq!(subscribed("true"), [0, NOT_AUTHORIZED]);
}

#[test]
fn tokens_let_in_until_they_expire_and_can_be_the_only_way() {
    let folder = with_users();
    folder.write("key", &format!("{SECRET}\n"));
    let mut sets = vec![
        "access.password_file={folder}/users",
        "access.jwt.secret_file={folder}/key",
        "access.jwt.leeway=0s",
        "access.jwt.issuer=us",
        "listeners.mqtt.anonymous=false",
    ];
    let mut home = Home::in_folder(folder, &sets);
    let exp = unix_now() + 1000;
    let good = token(&format!(r#"{{"sub":"carol","iss":"us","exp":{exp}}}"#));
    assert_eq!(code(&home, &user("carol", &good)), 0);
    assert_eq!(
        code(&home, &user("dave", &good)),
        BAD_PASSWORD,
        "the token is carol's"
    );
    assert_eq!(
        code(
            &home,
            &user(
                "carol",
                &token(&format!(r#"{{"sub":"carol","exp":{exp}}}"#))
            )
        ),
        BAD_PASSWORD
    );
    assert_eq!(
        code(
            &home,
            &user("carol", &token(r#"{"sub":"carol","iss":"us","exp":1}"#))
        ),
        NOT_AUTHORIZED
    );
    let short = token(&format!(
        r#"{{"sub":"carol","iss":"us","exp":{}}}"#,
        unix_now() + 2
    ));
    let mut expiring = home.talker().accepted(&user("carol", &short));
    expiring.expect_disconnect(NOT_AUTHORIZED);

    assert_eq!(code(&home, &user("bob", "chalk")), 0);
    sets.push("access.jwt.required=true");
    home.reload(&sets);
    assert_eq!(code(&home, &user("bob", "chalk")), BAD_PASSWORD);
    assert_eq!(code(&home, &user("carol", &good)), 0);
    assert_eq!(scram_code(&home), Err(0x8C), "SCRAM is a password, too");
}

/// Begins SCRAM as `name`: the server's challenge, or the code of its refusal.
fn challenge(address: SocketAddr, name: &str) -> Result<(Talker, String), u8> {
    let mut talker = Talker::tcp(address);
    let first = format!("n,,n={name},r=nonce");
    let connect = Connect::new(V5, "scram")
        .with(property::text(property::AUTH_METHOD, "SCRAM-SHA-256"))
        .with(property::text(property::AUTH_DATA, first));
    talker.send(&connect.bytes());
    match talker.next_as_v5() {
        Packet::Auth { properties, .. } => Ok((
            talker,
            properties
                .text(property::AUTH_DATA)
                .unwrap_or_default()
                .to_owned(),
        )),
        Packet::Connack { code, .. } => Err(code),
        other => panic!("expected AUTH or CONNACK, got {other:?}"),
    }
}

fn scram_code(home: &Home) -> Result<(), u8> {
    challenge(home.address("mqtt"), "ada").map(|_| ())
}

/// The client's last message (RFC 5802 §3).
fn proof(name: &str, password: &str, server_first: &str) -> String {
    let part = |prefix: &str| {
        server_first
            .split(',')
            .find_map(|part| part.strip_prefix(prefix))
            .expect("it is there")
    };
    let salt = STANDARD.decode(part("s=")).expect("base64");
    let iterations = part("i=")
        .parse::<u32>()
        .ok()
        .and_then(std::num::NonZeroU32::new)
        .expect("a number");
    let mut salted = [0; 32];
    ring::pbkdf2::derive(
        ring::pbkdf2::PBKDF2_HMAC_SHA256,
        iterations,
        &salt,
        password.as_bytes(),
        &mut salted,
    );
    let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let client_key = sign(&salted, b"Client Key");
    let stored = ring::digest::digest(&ring::digest::SHA256, client_key.as_ref());
    let last = format!("c=biws,r={}", part("r="));
    let signed = format!("n={name},r=nonce,{server_first},{last}");
    let signature = sign(stored.as_ref(), signed.as_bytes());
    let proof: Vec<u8> = client_key
        .as_ref()
        .iter()
        .zip(signature.as_ref())
        .map(|(a, b)| a ^ b)
        .collect();
    format!("{last},p={}", STANDARD.encode(proof))
}

fn said(data: &str) -> Vec<u8> {
    [
        property::text(property::AUTH_METHOD, "SCRAM-SHA-256"),
        property::text(property::AUTH_DATA, data),
    ]
    .concat()
}

#[test]
fn scram_lets_in_and_proves_again_on_a_connection_that_goes_on() {
    let home = Home::in_folder(
        with_users(),
        &["access.password_file={folder}/users", "shards=3"],
    );
    let (mut ada, first) = challenge(home.address("mqtt"), "ada").expect("SCRAM is offered");
    ada.send(&auth(0x18, &said(&proof("ada", "pencil", &first))));
    assert!(matches!(ada.next_as_v5(), Packet::Connack { code: 0, .. }));
    ada.subscribe("t", 0);
    ada.send(&auth(0x19, &said("n,,n=ada,r=nonce")));
    let Packet::Auth {
        reason: 0x18,
        properties,
    } = ada.next()
    else {
        panic!("no challenge")
    };
    let again = properties
        .text(property::AUTH_DATA)
        .expect("a challenge has data")
        .to_owned();
    ada.send(&auth(0x18, &said(&proof("ada", "pencil", &again))));
    assert!(matches!(ada.next(), Packet::Auth { reason: 0, .. }));
    home.client("b").publish("t", "still here", 1);
    assert_eq!(ada.message().text(), "still here");
}

#[test]
fn who_proves_again_to_be_somebody_else_is_disconnected() {
    let folder = with_users();
    add_scram_verifier(&folder.path().join("users"), "eve", b"crayon")
        .expect("the folder is writable");
    let home = Home::in_folder(folder, &["access.password_file={folder}/users"]);
    let (mut ada, first) = challenge(home.address("mqtt"), "ada").expect("SCRAM is offered");
    ada.send(&auth(0x18, &said(&proof("ada", "pencil", &first))));
    assert!(matches!(ada.next_as_v5(), Packet::Connack { code: 0, .. }));
    ada.send(&auth(0x19, &said("n,,n=eve,r=nonce")));
    let Packet::Auth {
        reason: 0x18,
        properties,
    } = ada.next()
    else {
        panic!("no challenge")
    };
    let first = properties
        .text(property::AUTH_DATA)
        .expect("a challenge has data")
        .to_owned();
    ada.send(&auth(0x18, &said(&proof("eve", "crayon", &first))));
    ada.expect_disconnect(NOT_AUTHORIZED);
}

/// AMQP by hand, as far as a log-in goes.
struct Amqp(TcpStream);

impl Amqp {
    fn connect(address: SocketAddr, token: &str) -> Amqp {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream
            .set_read_timeout(Some(super::talker::PATIENCE))
            .expect("a fresh socket takes options");
        let mut amqp = Amqp(stream);
        amqp.0.write_all(b"AMQP\0\0\x09\x01").expect("it is sent");
        assert_eq!(amqp.next(), (10, 10));
        let response = format!("\0\0{token}");
        let start_ok = [
            &[0; 4],
            &b"\x05PLAIN"[..],
            &long(response.as_bytes()),
            b"\x05en_US",
        ]
        .concat();
        amqp.say(0, 10, 11, &start_ok);
        assert_eq!(amqp.next(), (10, 30));
        amqp.say(0, 10, 31, &[0, 7, 0, 2, 0, 0, 0, 0]);
        amqp.say(0, 10, 40, b"\x01/\0\0");
        assert_eq!(amqp.next(), (10, 41));
        amqp
    }

    fn say(&mut self, channel: u8, class: u8, method: u8, arguments: &[u8]) {
        let head = [
            &[1, 0, channel][..],
            &(arguments.len() as u32 + 4).to_be_bytes(),
            &[0, class, 0, method],
        ]
        .concat();
        self.0
            .write_all(&[&head, arguments, b"\xCE"].concat())
            .expect("it is sent");
    }

    /// Class and method of the server's next frame.
    fn next(&mut self) -> (u8, u8) {
        let mut head = [0; 7];
        self.0
            .read_exact(&mut head)
            .expect("the server says something");
        let mut rest =
            vec![0; u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize + 1];
        self.0.read_exact(&mut rest).expect("frames are whole");
        (rest[1], rest[3])
    }
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

#[test]
fn a_connection_lives_until_the_end_of_the_secret_it_was_renewed_with() {
    let folder = with_users();
    folder.write("key", &format!("{SECRET}\n"));
    let sets = [
        "access.jwt.secret_file={folder}/key",
        "access.jwt.leeway=0s",
        "listeners.amqp.enabled=true",
        "listeners.amqp.bind=127.0.0.1:0",
    ];
    let home = Home::in_folder(folder, &sets);
    let until = |exp: u64| token(&format!(r#"{{"sub":"carol","exp":{exp}}}"#));
    let now = unix_now();
    let mut renewed = Amqp::connect(home.address("amqp"), &until(now + 2));
    let mut other = Amqp::connect(home.address("amqp"), &until(now + 3));
    renewed.say(
        0,
        10,
        70,
        &[long(until(now + 1000).as_bytes()), b"\0".to_vec()].concat(),
    );
    assert_eq!(renewed.next(), (10, 71));
    // Its old end is over when the other's is.
    assert_eq!(other.next(), (10, 50));
    renewed.say(1, 20, 10, b"\0");
    assert_eq!(renewed.next(), (20, 11));
}

#[test]
fn refused_log_ins_are_counted_by_reason_and_protocol() {
    let sets = [
        "access.password_file={folder}/users",
        "listeners.mqtt.anonymous=false",
    ];
    let home = Home::in_folder(with_users(), &sets);
    assert_eq!(code(&home, &user("bob", "cheese")), BAD_PASSWORD);
    assert_eq!(
        code(&home, &user("bob", "cheese")),
        BAD_PASSWORD,
        "remembered"
    );
    assert_eq!(code(&home, &user("nobody", "cheese")), BAD_PASSWORD);
    assert_eq!(code(&home, &Connect::new(V5, "a")), NOT_AUTHORIZED);
    let (mut ada, first) = challenge(home.address("mqtt"), "ada").expect("SCRAM is offered");
    ada.send(&auth(0x18, &said(&proof("ada", "wrong", &first))));
    assert!(matches!(
        ada.next_as_v5(),
        Packet::Connack {
            code: BAD_PASSWORD,
            ..
        }
    ));
    assert_eq!(code(&home, &user("bob", "chalk")), 0);
    let counts = home.observer().logins();
    assert_eq!(
        counts.by_reason,
        [
            ("bad_credentials", 4),
            ("not_authorized", 1),
            ("expired", 0),
            ("client_id", 0),
            ("unavailable", 0)
        ]
    );
    assert_eq!(
        counts.by_protocol.into_iter().collect::<Vec<_>>(),
        [("mqtt", 5)]
    );
}

#[test]
fn scram_can_be_switched_off_and_on_while_the_server_runs() {
    let sets = ["access.password_file={folder}/users", "access.scram=false"];
    let mut home = Home::in_folder(with_users(), &sets);
    assert_eq!(scram_code(&home), Err(0x8C));
    home.reload(&sets[..1]);
    assert_eq!(scram_code(&home), Ok(()));
}

#[test]
fn unknown_users_are_given_the_same_salt_before_and_after_a_restart() {
    let folder = with_users();
    let users = std::fs::read_to_string(folder.path().join("users")).expect("it was written");
    let data = folder.path().join("data");
    let sets = ["access.password_file={folder}/users"];
    let salt = |home: &Home| {
        let (_, first) = challenge(home.address("mqtt"), "eve").expect("SCRAM is offered");
        first
            .split(',')
            .find_map(|part| part.strip_prefix("s=").map(str::to_owned))
            .expect("a salt")
    };
    let home = Home::in_folder(folder, &sets);
    let before = salt(&home);
    let Home { server, folder } = home;
    server.stop();
    assert!(data.join("secret").is_file());
    let home = Home::in_folder(folder, &sets);
    assert_eq!(salt(&home), before);

    let elsewhere = Folder::new();
    elsewhere.write("users", &users);
    assert_ne!(
        salt(&Home::in_folder(elsewhere, &sets)),
        before,
        "another broker has another secret"
    );
}

#[test]
fn without_a_journal_nothing_is_written_for_nothing_and_a_data_dir_that_cannot_be_written_stops_nobody()
 {
    let home = Home::new(&["journal.enabled=false"]);
    assert!(!home.folder.path().join("data").exists());
    // No directory can be made below a file, not even by root.
    let sets = [
        "access.password_file={folder}/users",
        "data_dir={folder}/users/data",
        "journal.enabled=false",
    ];
    let home = Home::in_folder(with_users(), &sets);
    assert_eq!(code(&home, &user("bob", "chalk")), 0);
}

#[test]
fn remembered_verdicts_end_with_a_reload() {
    let folder = with_users();
    let sets = [
        "access.password_file={folder}/users",
        "access.verdict_ttl=1h",
    ];
    let mut home = Home::in_folder(folder, &sets);
    assert_eq!(code(&home, &user("bob", "chalk")), 0);
    home.folder.write("users", "");
    assert_eq!(
        code(&home, &user("bob", "chalk")),
        0,
        "nobody has read the file since"
    );
    home.reload(&sets);
    assert_eq!(code(&home, &user("bob", "chalk")), BAD_PASSWORD);
}

#[test]
fn many_logins_at_once_are_all_answered() {
    let home = Arc::new(Home::in_folder(
        with_users(),
        &["access.password_file={folder}/users", "shards=3"],
    ));
    let logins: Vec<_> = (0..8)
        .map(|number| {
            let home = Arc::clone(&home);
            std::thread::spawn(move || {
                let right = Connect::new(V5, format!("r{number}"))
                    .user_name("bob")
                    .password("chalk");
                let wrong = Connect::new(V5, format!("w{number}"))
                    .user_name("bob")
                    .password(format!("{number}"));
                [code(&home, &right), code(&home, &wrong)]
            })
        })
        .collect();
    for login in logins {
        assert_eq!(login.join().expect("no panic"), [0, BAD_PASSWORD]);
    }
}

#[test]
fn client_ids_can_be_bound_to_users() {
    const NOT_ALLOWED: u8 = 0x85;
    let bob = |version, client: &str| {
        Connect::new(version, client)
            .user_name("bob")
            .password("chalk")
    };
    for (rule, bobs, others) in [
        ("any", &["bob", "bob:phone", "ada"][..], &[][..]),
        ("user", &["bob"], &["bob:phone", "ada", "Bob", "bob-1"]),
        (
            "prefix",
            &["bob", "bob:phone"],
            &["ada", "ada:bob", "bob:a:b", "bob-1", "bobby"],
        ),
    ] {
        let sets = [
            "access.password_file={folder}/users",
            &format!("access.client_ids={rule}"),
        ];
        let home = Home::in_folder(with_users(), &sets);
        for client in bobs {
            assert_eq!(code(&home, &bob(V5, client)), 0, "{rule} {client}");
        }
        for client in others {
            assert_eq!(
                code(&home, &bob(V5, client)),
                NOT_ALLOWED,
                "{rule} {client}"
            );
            assert_eq!(code(&home, &bob(V311, client)), 2, "{rule} {client}");
        }
        // The anonymous user has no rights that were not configured.
        assert_eq!(
            code(&home, &Connect::new(V5, "eve")),
            if rule == "any" { 0 } else { NOT_ALLOWED },
            "{rule}"
        );
        assert_eq!(code(&home, &Connect::new(V5, "")), 0, "{rule}");
        let refused = home
            .observer()
            .logins()
            .by_reason
            .iter()
            .find(|(reason, _)| *reason == "client_id")
            .map(|(_, n)| *n);
        assert_eq!(
            refused,
            Some(if rule == "any" {
                0
            } else {
                2 * others.len() as u64 + 1
            })
        );
    }
}

#[test]
fn bound_client_ids_hold_where_nobody_has_to_log_in() {
    let home = Home::new(&["access.client_ids=prefix"]);
    assert_eq!(code(&home, &Connect::new(V5, "ada")), 0x85);
    assert_eq!(code(&home, &Connect::new(V311, "ada")), 2);
    assert_eq!(code(&home, &Connect::new(V5, "")), 0);
}
