//! Guarantees of a reload: clients stay connected, and each key applies when the table says.

use thalweg_server::access::{BanKind, add_ban, add_password};
use thalweg_server::transport::client::TlsClientFiles;

use super::home::{Home, wait_until};
use super::talker::Talker;
use crate::certificates::Certificates;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;
use crate::folder::Folder;

#[test]
fn clients_stay_while_everything_around_them_changes() {
    let mut home = Home::new(&["listeners.extra.bind=127.0.0.1:0"]);
    let mut here = home.client("here");
    let mut there = Talker::tcp(home.address("extra")).named("there");
    here.subscribe("t", 1);
    let extra = home.address("extra");
    home.reload(&[
        "listeners.new.bind=127.0.0.1:0",
        "queue.messages_max=10",
        "limits.packet_bytes_max=1000",
    ]);
    assert_eq!(there.publish("t", "from a listener that is gone", 1), 0);
    assert_eq!(here.message().text(), "from a listener that is gone");
    wait_until("the old listener is closed", || {
        std::net::TcpStream::connect(extra).is_err()
    });
    let mut new = Talker::tcp(home.address("new"));
    let connack = new.connect(&Connect::new(V5, "new"));
    assert_eq!(
        connack.properties.number(property::MAXIMUM_PACKET_SIZE),
        Some(1000)
    );
    assert_eq!(new.publish("t", "from a new one", 1), 0);
    assert_eq!(here.message().text(), "from a new one");
    // The limit that `there` was announced still holds for it.
    assert_eq!(there.publish("t", &"x".repeat(2000), 1), 0);
    assert_eq!(here.message().payload.len(), 2000);
}

#[test]
fn what_a_client_was_told_about_mqtt_holds_for_its_connection() {
    let mut home = Home::new(&[]);
    let mut old = home.client("old");
    home.reload(&[
        "mqtt.maximum_qos=0",
        "mqtt.wildcard_subscriptions=false",
        "mqtt.shared_subscriptions=false",
        "mqtt.subscription_identifiers=false",
        "limits.topic_levels_max=3",
    ]);
    assert_eq!(
        [
            old.subscribe("a/+", 1),
            old.subscribe("$share/g/a", 2),
            old.publish("b", "", 2)
        ],
        [1, 2, 0]
    );
    assert_eq!(
        old.publish("1/2/3/4", "", 1),
        0x90,
        "limits apply at once where the table says so"
    );

    let mut new = home.talker();
    let connack = new.connect(&Connect::new(V5, "new"));
    let told = |id| connack.properties.number(id);
    assert_eq!(told(property::MAXIMUM_QOS), Some(0));
    assert_eq!(told(property::WILDCARD_AVAILABLE), Some(0));
    assert_eq!(told(property::SHARED_AVAILABLE), Some(0));
    assert_eq!(
        [
            new.subscribe("a", 2),
            new.subscribe("a/+", 0),
            new.subscribe("$share/g/a", 0)
        ],
        [0, 0xA2, 0x9E]
    );
}

#[test]
fn new_rules_hold_for_clients_that_are_here_and_sessions_that_are_not() {
    let folder = Folder::new();
    folder.write("acl", "topic readwrite #\n");
    let sets = ["access.acl_file={folder}/acl", "shards=3"];
    let mut home = Home::in_folder(folder, &sets);
    let mut talker = home.client("a");
    talker.subscribe("secret", 0);
    let mut away = home.talker().accepted(&Connect::lasting(V5, "away"));
    away.subscribe("secret", 1);
    away.send(&disconnect());
    assert_eq!(away.next_or_end(), None);
    let mut sender = home.client("sender");
    assert_eq!(sender.publish("secret", "1", 1), 0);
    assert_eq!(talker.message().text(), "1");

    home.folder.write(
        "acl",
        "topic read #\ntopic deny secret\nuser nobody\ntopic write secret\n",
    );
    home.reload(&sets);
    assert_eq!(sender.publish("open", "", 1), 0x87);
    // Nobody may publish there any more, so the rules about reading are shown by a publish from within.
    home.folder.write("acl", "topic write #\n");
    home.reload(&sets);
    assert_eq!(
        sender.publish("secret", "2", 1),
        0x10,
        "nobody may receive it"
    );
    assert_eq!(talker.until_pong(), []);
    home.folder.write("acl", "topic readwrite #\n");
    home.reload(&sets);
    assert_eq!(sender.publish("secret", "3", 1), 0);
    assert_eq!(talker.message().text(), "3");
    let mut away = home.talker().accepted(&Connect::lasting(V5, "away"));
    assert_eq!(
        [away.message().payload, away.message().payload],
        [b"1", b"3"],
        "2 was not for it"
    );
}

#[test]
fn the_banned_go_and_stay_away_until_their_ban_ends() {
    let folder = Folder::new();
    let path = folder.path().join("bans");
    folder.write("bans", "# nobody yet\n");
    let home = Home::in_folder(folder, &["access.ban_file={folder}/bans", "shards=2"]);
    let code = |client: &str| home.talker().connect(&Connect::new(V5, client)).code;
    let mut banned = home.client("banned");
    let mut other = home.client("other");
    add_ban(&path, BanKind::Client, "banned", None).expect("the folder is writable");
    // Nothing but the file says so.
    banned.expect_disconnect(0x87);
    assert_eq!(other.until_pong(), []);
    assert_eq!([code("banned"), code("free")], [0x87, 0]);
    add_ban(
        &path,
        BanKind::Client,
        "banned",
        Some("2020-01-01T00:00:00Z"),
    )
    .expect("writable");
    wait_until("the ban is over", || code("banned") == 0);
    add_ban(&path, BanKind::Address, "127.0.0.0/8", None).expect("the folder is writable");
    other.expect_disconnect(0x87);
    assert_eq!(code("free"), 0x87);
}

#[test]
fn a_connection_from_before_a_reload_is_judged_by_the_rules_after_it() {
    let folder = Folder::new();
    folder.write("bans", "address 127.0.0.0/8\n");
    let mut home = Home::in_folder(folder, &["shards=1"]);
    let mut early = home.talker();
    // It is with its shard once a later one is served.
    assert_eq!(home.client("other").until_pong(), []);
    home.reload(&["access.ban_file={folder}/bans"]);
    // Its log-in is judged anew, or it is to come again (0x89).
    let early = early.connect(&Connect::new(V5, "early")).code;
    assert!(matches!(early, 0x87 | 0x89), "{early:#x}");
    let late = home.talker().connect(&Connect::new(V5, "late"));
    assert_eq!(late.code, 0x87);
}

#[test]
fn passwords_and_rules_that_change_hold_without_being_asked() {
    let folder = Folder::new();
    let users = folder.path().join("users");
    add_password(&users, "ada", b"pencil").expect("the folder is writable");
    folder.write("acl", "user ada\ntopic readwrite #\n");
    let sets = [
        "access.password_file={folder}/users",
        "access.acl_file={folder}/acl",
        "shards=2",
    ];
    let home = Home::in_folder(folder, &sets);
    let connect = |user: &str, password: &str| {
        let connect = Connect::new(V5, user).user_name(user).password(password);
        home.talker().connect(&connect).code
    };
    let ada = Connect::new(V5, "stays").user_name("ada");
    let mut ada = home.talker().accepted(&ada.password("pencil"));
    assert_eq!(ada.publish("t", "", 1), 0x10);
    assert_ne!(connect("bob", "brush"), 0);
    add_password(&users, "bob", b"brush").expect("the folder is writable");
    wait_until("the new user is known", || connect("bob", "brush") == 0);
    add_password(&users, "bob", b"chisel").expect("the folder is writable");
    wait_until("the new password counts", || connect("bob", "chisel") == 0);
    assert_ne!(connect("bob", "brush"), 0, "the old one does not");
    home.folder.write("acl", "user ada\ntopic read #\n");
    wait_until("the new rules hold for who is here", || {
        ada.publish("t", "", 1) == 0x87
    });
    home.folder.write("acl", "user ada\ntopic readwrite #\n");
    wait_until("rules that are right hold again", || {
        ada.publish("t", "", 1) == 0x10
    });
    assert_eq!(connect("ada", "pencil"), 0);
}

#[test]
fn strangers_are_shut_out_and_let_in_again() {
    let folder = Folder::new();
    folder.write("users", "");
    let open = ["access.password_file={folder}/users"];
    let shut = [open[0], "listeners.mqtt.anonymous=false"];
    let mut home = Home::in_folder(folder, &open);
    let mut inside = home.client("inside");
    for _ in 0..2 {
        home.reload(&shut);
        assert_eq!(home.talker().connect(&Connect::new(V5, "a")).code, 0x87);
        home.reload(&open);
        assert_eq!(home.talker().connect(&Connect::new(V5, "a")).code, 0);
    }
    assert_eq!(inside.until_pong(), []);
}

#[test]
fn what_needs_a_restart_stays_as_it_is() {
    let mut home = Home::new(&[]);
    let before = home.server.listening().to_vec();
    home.reload(&[
        "shards=7",
        "listeners.mqtt.transport=ws",
        "listeners.mqtt.backlog=7",
    ]);
    assert_eq!(home.server.listening(), before);
    assert_eq!(home.observer().shard_count(), 2);
    home.client("still plain MQTT");
}

#[test]
fn a_listener_moves_and_its_clients_stay() {
    let mut home = Home::new(&[]);
    let mut here = home.client("here");
    here.subscribe("t", 1);
    let before = home.address("mqtt");
    home.reload(&["listeners.mqtt.bind=127.0.0.2:0"]);
    let after = home.address("mqtt");
    assert_eq!(after.ip().to_string(), "127.0.0.2");
    assert_eq!(
        home.client("there").publish("t", "from the new place", 1),
        0
    );
    assert_eq!(here.message().text(), "from the new place");
    wait_until("the old place is closed", || {
        std::net::TcpStream::connect(before).is_err()
    });
}

#[test]
fn a_reload_that_is_wrong_anywhere_changes_nothing_and_names_every_fault() {
    let folder = Folder::new();
    folder.write("acl", "topic readwrite #\n");
    let mut home = Home::in_folder(folder, &["access.acl_file={folder}/acl"]);
    let taken = home.address("mqtt");
    home.folder.write("acl", "topic nonsense #\n");
    let words = home.refused_reload(&[
        "access.acl_file={folder}/acl",
        "mqtt.maximum_qos=0",
        &format!("listeners.second.bind={taken}"),
        "listeners.third.bind=127.0.0.1:0",
    ]);
    assert!(
        words.contains("is taken") && words.contains("nonsense"),
        "{words}"
    );
    assert_eq!(home.server.listening().len(), 1);
    let connack = home.talker().connect(&Connect::new(V5, "a"));
    assert_eq!(
        (
            connack.code,
            connack.properties.number(property::MAXIMUM_QOS)
        ),
        (0, None)
    );
    assert_eq!(home.client("b").publish("t", "", 1), 0x10);
}

#[test]
fn figures_below_sys_begin_with_a_reload() {
    let mut home = Home::new(&["sys.interval=off"]);
    let mut watcher = home.client("watcher");
    watcher.subscribe("$SYS/#", 0);
    assert_eq!(watcher.until_pong(), []);
    home.reload(&["sys.interval=1h"]);
    assert!(watcher.message().topic.starts_with("$SYS/broker/"));
}

#[test]
fn the_memory_budget_and_the_output_limits_change_while_the_server_runs() {
    let mut home = Home::new(&[]);
    home.reload(&["limits.memory_bytes_max=17MiB"]);
    assert_eq!(home.observer().memory_bytes_max(), 17 << 20);
    home.reload(&["limits.memory_bytes_max=automatic"]);
    assert!(home.observer().memory_bytes_max() > 17 << 20);
}

const TLS: [&str; 4] = [
    "listeners.tls.bind=127.0.0.1:0",
    "listeners.tls.transport=tls",
    "listeners.tls.tls.certificate={folder}/server.pem",
    "listeners.tls.tls.key={folder}/server.key",
];

/// Whether a client that trusts only the authority in the folder `trusted` is content with the server.
fn is_trusted(home: &Home, trusted: &Folder) -> bool {
    let files = TlsClientFiles {
        ca: Some(trusted.path().join("authority.pem")),
        ..TlsClientFiles::default()
    };
    Talker::filtered(home.address("tls"), Some(&files), None).is_some()
}

#[test]
fn a_renewed_certificate_is_taken_over_by_a_reload_and_old_connections_go_on() {
    let (folder, renewed) = (Folder::new(), Folder::new());
    Certificates::shared().write_into(folder.path());
    Certificates::new().write_into(renewed.path());
    let mut home = Home::in_folder(folder, &TLS);
    let files = TlsClientFiles {
        ca: Some(home.folder.path().join("authority.pem")),
        ..TlsClientFiles::default()
    };
    let mut old = Talker::filtered(home.address("tls"), Some(&files), None)
        .expect("it is trusted")
        .named("old");
    assert!(!is_trusted(&home, &renewed));
    // Damaged files change nothing.
    home.folder.write("server.key", "nonsense");
    assert!(home.refused_reload(&TLS).contains("no private key in"));
    for file in ["server.pem", "server.key"] {
        std::fs::copy(renewed.path().join(file), home.folder.path().join(file))
            .expect("both are there");
    }
    home.reload(&TLS);
    assert!(is_trusted(&home, &renewed));
    assert_eq!(old.until_pong(), []);
}

#[test]
fn a_renewed_certificate_is_taken_over_without_being_asked() {
    let (folder, renewed) = (Folder::new(), Folder::new());
    Certificates::shared().write_into(folder.path());
    Certificates::new().write_into(renewed.path());
    let home = Home::in_folder(folder, &TLS);
    assert!(!is_trusted(&home, &renewed));
    for file in ["server.pem", "server.key"] {
        std::fs::copy(renewed.path().join(file), home.folder.path().join(file))
            .expect("both are there");
    }
    wait_until("the new certificate is served", || {
        is_trusted(&home, &renewed)
    });
}

#[test]
fn users_that_a_reload_removes_are_disconnected_and_others_stay() {
    let folder = Folder::new();
    let users = folder.path().join("users");
    for user in ["ada", "bob"] {
        add_password(&users, user, b"pencil").expect("the folder is writable");
    }
    let sets = ["access.password_file={folder}/users", "shards=2"];
    let mut home = Home::in_folder(folder, &sets);
    let come = |home: &Home, client: &str, user: &str| {
        home.talker()
            .accepted(&Connect::new(V5, client).user_name(user).password("pencil"))
    };
    let mut removed: Vec<Talker> = ["a", "b", "c"]
        .iter()
        .map(|client| come(&home, client, "ada"))
        .collect();
    let (mut stays, mut nobody) = (come(&home, "d", "bob"), home.client("e"));
    let all = std::fs::read_to_string(&users).expect("it was written");
    let left: String = all
        .lines()
        .filter(|line| line.starts_with("bob:"))
        .map(|line| format!("{line}\n"))
        .collect();
    home.folder.write("users", &left);
    home.reload(&sets);
    for talker in &mut removed {
        talker.expect_disconnect(0x87);
    }
    assert_eq!(stays.publish("t", "", 1), 0x10);
    assert_eq!(nobody.publish("t", "", 1), 0x10);
    let again = home
        .talker()
        .connect(&Connect::new(V5, "a").user_name("ada").password("pencil"));
    assert_eq!(again.code, 0x86);
}
