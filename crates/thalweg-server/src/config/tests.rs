//! The configuration as its users meet it: files, variables, arguments, and the sentences they get back.

use std::path::{Path, PathBuf};

use thalweg_model::Span;

use super::kind::{Written, show_duration};
use super::load::{get, put};
use super::*;

const FILE: &str = "thalweg.toml";

#[test]
fn with_no_configuration_every_protocol_and_the_admin_interface_are_on_loopback() {
    let config = Config::default();
    let opened: Vec<_> = config
        .enabled_listeners()
        .map(|(name, at)| {
            (
                name,
                at.kind,
                at.transport,
                at.bind.to_string(),
                at.admits_anonymous(),
            )
        })
        .collect();
    assert_eq!(
        opened,
        [
            (
                "amqp",
                ListenerKind::Amqp,
                Transport::Tcp,
                "127.0.0.1:5672".into(),
                true
            ),
            (
                "coap",
                ListenerKind::Coap,
                Transport::Udp,
                "127.0.0.1:5683".into(),
                true
            ),
            (
                "coap-tcp",
                ListenerKind::Coap,
                Transport::Tcp,
                "127.0.0.1:5683".into(),
                true
            ),
            (
                "mqtt",
                ListenerKind::Mqtt,
                Transport::Tcp,
                "127.0.0.1:1883".into(),
                true
            ),
            (
                "stomp",
                ListenerKind::Stomp,
                Transport::Tcp,
                "127.0.0.1:61613".into(),
                true
            ),
            (
                "websocket",
                ListenerKind::Mqtt,
                Transport::Ws,
                "127.0.0.1:8083".into(),
                true
            )
        ]
    );
    assert_eq!(config.admin.bind.to_string(), "127.0.0.1:7883");
    assert_eq!(config.access.default_verdict(), AccessDefault::Allow);
    assert_eq!(config.queue.bytes_max, 4 << 30);
    assert_eq!(config.session.expiry_max, Span::FOREVER);
    assert_eq!(config.session.v3_expiry, Span::from_secs(7 * 86_400));
    assert_eq!(
        (
            config.shard_count(1),
            config.shard_count(2),
            config.shard_count(1000)
        ),
        (1, 1, 64)
    );
}

/// Else a broker that has served MQTT beside RabbitMQ would not start any more, or would open listeners that were not
/// asked for.
#[test]
fn queues_and_datagrams_have_ports_unasked_only_where_no_other_listener_is_mentioned() {
    let opened = |sets: &[&str]| -> Vec<String> {
        let (config, _) = load("", &[], sets).unwrap_or_else(|errors| panic!("{errors:?}"));
        config
            .enabled_listeners()
            .map(|(name, listener)| format!("{name} {} {}", listener.kind, listener.bind))
            .collect()
    };
    let (amqp, stomp) = ("amqp amqp 127.0.0.1:5672", "stomp stomp 127.0.0.1:61613");
    let (mqtt, websocket) = ("mqtt mqtt 127.0.0.1:1883", "websocket mqtt 127.0.0.1:8083");
    let (coap, coap_tcp) = ("coap coap 127.0.0.1:5683", "coap-tcp coap 127.0.0.1:5683");
    let all = [amqp, coap, coap_tcp, mqtt, stomp, websocket];
    assert_eq!(opened(&["shards=2"]), all);
    assert_eq!(
        opened(&["listeners.amqp.enabled=false"]),
        [coap, coap_tcp, mqtt, stomp, websocket]
    );
    assert_eq!(
        opened(&["listeners.amqp.backlog=9", "listeners.stomp.backlog=9"]),
        all
    );
    assert_eq!(
        opened(&["listeners.mqtt.backlog=9", "listeners.coap.enabled=true"]),
        [coap, mqtt, websocket]
    );
    assert_eq!(opened(&["listeners.mqtt.backlog=9"]), [mqtt, websocket]);
    assert_eq!(opened(&["listeners.websocket.enabled=false"]), [mqtt]);
    assert_eq!(
        opened(&["listeners.own.bind=127.0.0.1:9"]),
        [mqtt, "own mqtt 127.0.0.1:9", websocket]
    );
    assert_eq!(
        opened(&["listeners.mqtt.backlog=9", "listeners.stomp.enabled=true"]),
        [mqtt, stomp, websocket]
    );
}

#[test]
fn what_is_the_largest_depends_on_the_protocol_unless_the_listener_says_it() {
    let sets = [
        "listeners.amqp.enabled=true",
        "amqp.message_bytes_max=2MiB",
        "listeners.stomp.packet_bytes_max=5000",
    ];
    let (config, _) = load("", &[], &sets).expect("valid");
    let largest = |name: &str| config.packet_bytes_max(&config.listeners[name]);
    assert_eq!(
        [largest("mqtt"), largest("amqp"), largest("stomp")],
        [16 << 20, 2 << 20, 5000]
    );
    let sets = [
        "listeners.stomp.transport=ws",
        "listeners.own.bind=127.0.0.1:9",
        "listeners.own.websocket.path=/x",
    ];
    let (config, _) = load("", &[], &sets).expect("valid");
    let paths =
        ["mqtt", "stomp", "own"].map(|name| config.listeners[name].websocket_path().to_owned());
    assert_eq!(paths, ["/mqtt", "/ws", "/x"]);
}

#[test]
fn tenants_have_names_that_fit_into_addresses() {
    let (config, _) = load("tenants = [\"plant\", \"my office\"]", &[], &[]).expect("valid");
    assert_eq!(config.tenants, ["my office", "plant"]);
    for (list, wanted) in [
        (
            "[\"/\"]",
            "names \"/\", which is the default tenant and always there. Leave it out of the list.",
        ),
        ("[\"a\", \"a\"]", "names \"a\" twice. Keep one of the two."),
        (
            "[\"a/b\"]",
            "names \"a/b\", which cannot be a name here. Use at most 128 bytes, without / + # $ @ and control characters.",
        ),
        (
            "[\"\"]",
            "names \"\", which cannot be a name here. Use at most 128 bytes, without / + # $ @ and control characters.",
        ),
    ] {
        let text = format!("tenants = {list}");
        assert_eq!(
            sentences(load(&text, &[], &[])),
            [format!("thalweg.toml:1: tenants {wanted}")]
        );
    }
}

#[test]
fn every_default_reads_back_from_the_field_it_lands_in() {
    let config = Config::default();
    let values = config.values();
    for key in Key::all() {
        for listener in config.places(key) {
            let default = key
                .default_for(listener)
                .expect("the built-in listeners have every default");
            let name = key.full_name(listener);
            assert_eq!(
                values.get(&name),
                Some(&key.show(&key.parse_default(default))),
                "{name}"
            );
        }
    }
}

/// A value that the kind lets pass and the type does not hold would be refused as a mistake of the broker.
#[test]
fn every_key_lands_in_a_field_of_its_own_with_the_least_and_the_most_of_its_range() {
    let config = Config::default();
    let before = config.tree();
    for key in Key::all() {
        let name = key.full_name(Some("mqtt"));
        let values = values_of(key);
        assert!(
            values
                .iter()
                .any(|value| Some(value) != get(&before, &name)),
            "{name} has no other value"
        );
        for value in values {
            let mut wanted = before.clone();
            put(&mut wanted, &name, value.clone());
            let after = Config::of_tree(wanted.clone()).map(|config| config.tree());
            let after = after.unwrap_or_else(|error| panic!("{name}: {error}"));
            let landed = get(&after, &name).expect("every key has a value").clone();
            assert_eq!(key.kind.show(&landed), key.kind.show(&value), "{name}");
            put(&mut wanted, &name, landed);
            assert_eq!(after, wanted, "{name} changes what is not its own");
        }
    }
}

#[test]
fn key_names_are_unique_and_documented_in_whole_sentences() {
    for (index, key) in Key::all().enumerate() {
        assert!(
            Key::all()
                .skip(index + 1)
                .all(|other| other.name != key.name),
            "{} is twice",
            key.name
        );
        assert!(
            key.doc.ends_with('.') && key.doc.len() > 20,
            "{}: {}",
            key.name,
            key.doc
        );
    }
}

#[test]
fn a_later_source_has_the_last_word_and_is_named_as_the_origin() {
    let text = "\nshards = 2\n[queue]\nmessages_max = 5\noverflow = \"drop-oldest\"\n[listeners.mqtt]\nbind = \"127.0.0.1:1\"\n";
    let env = [
        ("THALWEG_QUEUE__MESSAGES_MAX", "6"),
        ("THALWEG_LISTENERS__MQTT__BIND", "127.0.0.1:2"),
        ("PATH", "/bin"),
    ];
    let (config, origins) = load(text, &env, &["listeners.mqtt.bind=127.0.0.1:3"]).expect("valid");
    assert_eq!(config.shards, Some(2));
    assert_eq!(config.queue.messages_max, 6);
    assert_eq!(config.queue.overflow, Overflow::DropOldest);
    assert_eq!(config.listeners["mqtt"].bind.to_string(), "127.0.0.1:3");
    for (key, origin) in [
        ("shards", "thalweg.toml:2"),
        ("queue.overflow", "thalweg.toml:5"),
        (
            "queue.messages_max",
            "environment THALWEG_QUEUE__MESSAGES_MAX",
        ),
        ("listeners.mqtt.bind", "--set"),
        ("queue.bytes_max", "default"),
    ] {
        assert_eq!(origins.of(key).to_string(), origin, "{key}");
    }
}

#[test]
fn values_are_read_in_the_units_people_write() {
    for (set, key, shown) in [
        ("queue.bytes_max=65536", "queue.bytes_max", "\"64KiB\""),
        ("queue.bytes_max=64 KiB", "queue.bytes_max", "\"64KiB\""),
        ("queue.bytes_max=1000000", "queue.bytes_max", "1000000"),
        ("queue.messages_max=1_000", "queue.messages_max", "1000"),
        ("sys.interval=1500ms", "sys.interval", "\"1500ms\""),
        ("sys.interval=0", "sys.interval", "\"off\""),
        ("sys.interval=off", "sys.interval", "\"off\""),
        ("mqtt.keep_alive_max=0", "mqtt.keep_alive_max", "\"0s\""),
        (
            "limits.publish_rate=1000/s",
            "limits.publish_rate",
            "\"1000/s\"",
        ),
        (
            "limits.publish_rate=1000",
            "limits.publish_rate",
            "\"1000/s\"",
        ),
        ("limits.publish_rate=0/s", "limits.publish_rate", "\"off\""),
        (
            "limits.publish_bytes_rate=1MiB/s",
            "limits.publish_bytes_rate",
            "\"1MiB/s\"",
        ),
        (
            "listeners.mqtt.publish_rate=0",
            "listeners.mqtt.publish_rate",
            "\"0/s\"",
        ),
        (
            "listeners.mqtt.unix_mode=660",
            "listeners.mqtt.unix_mode",
            "\"0660\"",
        ),
        (
            "listeners.mqtt.proxy_trusted=10.0.0.1, ::1",
            "listeners.mqtt.proxy_trusted",
            "[\"10.0.0.1\", \"::1\"]",
        ),
        (
            "listeners.mqtt.anonymous=local",
            "listeners.mqtt.anonymous",
            "\"local\"",
        ),
        ("session.expiry_max=0s", "session.expiry_max", "\"0s\""),
        ("shards=0", "shards", "\"automatic\""),
        ("admin.bind=localhost:0", "admin.bind", "\"127.0.0.1:0\""),
    ] {
        let (config, _) =
            load("", &[], &[set]).unwrap_or_else(|errors| panic!("{set}: {errors:?}"));
        assert_eq!(
            config.values().get(key).map(String::as_str),
            Some(shown),
            "{set}"
        );
    }
}

#[test]
fn paths_in_a_file_start_at_its_directory_and_others_where_we_are() {
    let text = "[access]\npassword_file = \"users\"\nacl_file = \"/etc/rules\"\n";
    let sets = [
        "listeners.s.bind=run/s.sock".to_owned(),
        "listeners.s.transport=unix".to_owned(),
    ];
    let (config, _) = Config::from_text(
        Some((Path::new("/srv/broker/t.toml"), text)),
        std::iter::empty(),
        &sets,
    )
    .expect("valid");
    assert_eq!(
        config.access.password_file,
        Some(PathBuf::from("/srv/broker/users"))
    );
    assert_eq!(config.access.acl_file, Some(PathBuf::from("/etc/rules")));
    assert_eq!(config.listeners["s"].bind, Bind::Path("run/s.sock".into()));
    assert_eq!(config.data_dir, PathBuf::from("./thalweg-data"));
    assert_eq!(config.access.default_verdict(), AccessDefault::Deny);
}

#[test]
fn listener_overrides_stand_before_the_limits_they_replace() {
    let text = "[limits]\npublish_rate = \"10/s\"\n[listeners.free]\nbind = \"127.0.0.1:9\"\npublish_rate = 0\npacket_bytes_max = 100\n";
    let (config, _) = load(text, &[], &[]).expect("valid");
    assert_eq!(config.publish_rate(&config.listeners["mqtt"]), Some(10));
    assert_eq!(config.publish_rate(&config.listeners["free"]), None);
    assert_eq!(config.packet_bytes_max(&config.listeners["mqtt"]), 16 << 20);
    assert_eq!(config.packet_bytes_max(&config.listeners["free"]), 100);
}

#[test]
fn mistakes_in_a_file_are_named_with_their_line_and_their_remedy() {
    for (text, wanted) in [
        (
            "[queue]\n\noverlfow = \"drop-oldest\"",
            "thalweg.toml:3: queue.overlfow is not a setting. Did you mean queue.overflow?",
        ),
        (
            "[limits]\nmax_connections = 5",
            "thalweg.toml:2: limits.max_connections is not a setting. Did you mean limits.connections_max?",
        ),
        (
            "max_connections = 5",
            "thalweg.toml:1: max_connections is not a setting. Did you mean limits.connections_max?",
        ),
        (
            "persistence = true",
            "thalweg.toml:1: persistence is not a setting. See docs/reference/config.md for the settings there are.",
        ),
        (
            "[listners.mqtt]\nbind = \"x\"",
            "thalweg.toml:1: There is no table [listners]. Did you mean [listeners]?",
        ),
        (
            "[listeners.mqtt.tsl]\nkey = \"x\"",
            "thalweg.toml:1: There is no table [listeners.mqtt.tsl]. Did you mean [listeners.mqtt.tls]?",
        ),
        (
            "[listeners.mqtt]\nbnd = \"x\"",
            "thalweg.toml:2: listeners.mqtt.bnd is not a setting. Did you mean listeners.mqtt.bind?",
        ),
        (
            "[listeners.MQTT]\nbind = \"x\"",
            "thalweg.toml:1: \"MQTT\" cannot be the name of a listener. Use at most 64 lower-case letters, digits, `-` and `_`, and no two `_` in a row.",
        ),
        (
            "[listeners.plain]",
            "thalweg.toml:1: listeners.plain.bind is missing. Set listeners.plain.bind to an IP address and port, such as 0.0.0.0:1883 or [::]:1883, or the path of a Unix socket.",
        ),
        (
            "queue = 5",
            "thalweg.toml:1: queue is a table of settings, not a value. Set the keys inside it.",
        ),
        (
            "[shards]\nx = 1",
            "thalweg.toml:1: shards is a table, which is not a whole number. Write a whole number from 1 to 64, or \"automatic\".",
        ),
        (
            "shards = 65",
            "thalweg.toml:1: shards is 65, which is out of range. Write a whole number from 1 to 64, or \"automatic\".",
        ),
        (
            "shards = -1",
            "thalweg.toml:1: shards is \"-1\", which is not a whole number. Write a whole number from 1 to 64, or \"automatic\".",
        ),
        (
            "shards = 2.5",
            "thalweg.toml:1: shards is \"2.5\", which is not a whole number. Write a whole number from 1 to 64, or \"automatic\".",
        ),
        (
            "queue.overflow = \"drop\"",
            "thalweg.toml:1: queue.overflow is \"drop\", which is not one of its words. Write drop-oldest, drop-newest or disconnect.",
        ),
        (
            "queue.bytes_max = \"12 bananas\"",
            "thalweg.toml:1: queue.bytes_max is \"12 bananas\", which is not a size. Write a size from 1KiB to 1TiB, such as 65536, 64KiB or 1MiB.",
        ),
        (
            "queue.bytes_max = \"64KB\"",
            "thalweg.toml:1: queue.bytes_max is \"64KB\", which is not a size. Write a size from 1KiB to 1TiB, such as 65536, 64KiB or 1MiB.",
        ),
        (
            "sys.interval = 10",
            "thalweg.toml:1: sys.interval is \"10\", which is not a duration with its unit. Write a duration from 1s to 1d, such as 10s, 5m or 1h, or \"off\".",
        ),
        (
            "mqtt.keep_alive_max = \"1500ms\"",
            "thalweg.toml:1: mqtt.keep_alive_max is 1500ms, which is not a multiple of 1s. Write a duration from 0s to 65535s in steps of 1s, such as 10s, 5m or 1h.",
        ),
        (
            "limits.publish_rate = \"5/min\"",
            "thalweg.toml:1: limits.publish_rate is \"5/min\", which is not a rate. Write a number per second, such as 1000/s, or \"off\".",
        ),
        (
            "retained.enabled = \"yes\"",
            "thalweg.toml:1: retained.enabled is \"yes\", which is not true or false. Write true or false.",
        ),
        (
            "admin.bind = \":7883\"",
            "thalweg.toml:1: admin.bind is \":7883\", which is not an IP address and port. Write 127.0.0.1:7883 for this machine only, 0.0.0.0:7883 for every IPv4 address.",
        ),
        (
            "admin.bind = \"broker.example:7883\"",
            "thalweg.toml:1: admin.bind is \"broker.example:7883\", which is not an IP address and port. Write an IP address and port, such as 127.0.0.1:7883 or [::1]:7883.",
        ),
        (
            "admin.token = 5",
            "thalweg.toml:1: admin.token takes text, and text needs quotes. Write \"5\".",
        ),
        (
            "access.jwt.user_claim = \"\"",
            "thalweg.toml:1: access.jwt.user_claim is empty. Write text, or leave the key out for its default.",
        ),
        (
            "listeners.mqtt.unix_mode = 660",
            "thalweg.toml:1: listeners.mqtt.unix_mode is 660, which is not octal permissions. Write three octal digits in quotes, such as \"0660\".",
        ),
        (
            "listeners.mqtt.proxy_trusted = [\"10.0.0.0/8\"]",
            "thalweg.toml:1: listeners.mqtt.proxy_trusted is \"10.0.0.0/8\", which is not a list of IP addresses. Write a list of IP addresses, such as [\"10.0.0.1\", \"::1\"] (or a,b outside the file).",
        ),
        (
            "log.level = 1979-05-27",
            "thalweg.toml:1: log.level is a date, which is not one of its words. Write off, error, warn, info, debug or trace.",
        ),
    ] {
        assert_eq!(sentences(load(text, &[], &[])), [wanted], "{text}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_named_where_they_were_made() {
    let tls = "transport = \"tls\"\nbind = \"127.0.0.1:8883\"\n";
    for (text, wanted) in [
        (
            "[listeners.mqtt]\nanonymous = true\nproxy_protocol = \"any\"".to_owned(),
            "thalweg.toml:3: listeners.mqtt.proxy_protocol is any, and listeners.mqtt.proxy_trusted names no proxy whose headers are trusted. Set listeners.mqtt.proxy_trusted to the addresses of your proxies, such as [\"10.0.0.1\"].",
        ),
        (
            "[listeners.mqtt]\nproxy_trusted = [\"127.0.0.1\"]\nproxy_protocol = \"any\""
                .to_owned(),
            "thalweg.toml:3: listeners.mqtt.proxy_protocol is any, which brings clients of other machines, and no way to log in is configured. Set access.password_file or access.jwt.*, or ask for client certificates, or let everybody in with listeners.mqtt.anonymous = true.",
        ),
        (
            "[listeners.mqtt]\nproxy_identity = true".to_owned(),
            "thalweg.toml:2: listeners.mqtt.proxy_identity is true, but listeners.mqtt.proxy_protocol is off, which tells of no certificate. Set listeners.mqtt.proxy_protocol to v2, or remove the other.",
        ),
        (
            "[listeners.mqtt]\nbind = \"0.0.0.0:1883\"".to_owned(),
            "thalweg.toml:2: listeners.mqtt.bind is 0.0.0.0:1883, which other machines can reach, and no way to log in is configured. Set access.password_file or access.jwt.*, or ask for client certificates, or let everybody in with listeners.mqtt.anonymous = true.",
        ),
        (
            "[listeners.mqtt]\nanonymous = false".to_owned(),
            "thalweg.toml:2: listeners.mqtt.anonymous is false, and no way to log in is configured, so no client could connect. Set access.password_file or access.jwt.*, or ask for client certificates, or let everybody in with listeners.mqtt.anonymous = true.",
        ),
        (
            "[listeners.plain]\nbind = \"127.0.0.1:1883\"".to_owned(),
            "thalweg.toml:2: listeners.plain.bind is 127.0.0.1:1883, and listeners.mqtt.bind is 127.0.0.1:1883: both cannot listen there. Change one of them, or set listeners.mqtt.enabled = false.",
        ),
        (
            "[admin]\nbind = \"0.0.0.0:8083\"\ntoken = \"x\"".to_owned(),
            "thalweg.toml:2: listeners.websocket.bind is 127.0.0.1:8083, and admin.bind is 0.0.0.0:8083: both cannot listen there. Change one of them, or set admin.enabled = false.",
        ),
        (
            "[admin]\nbind = \"0.0.0.0:7883\"".to_owned(),
            "thalweg.toml:2: admin.bind is 0.0.0.0:7883, which other machines can reach, and admin.token is not set. Set admin.token (best as THALWEG_ADMIN__TOKEN), or bind to 127.0.0.1, or set admin.enabled = false.",
        ),
        (
            "[listeners.u]\ntransport = \"unix\"\nbind = \"127.0.0.1:9\"".to_owned(),
            "thalweg.toml:3: listeners.u.bind is \"127.0.0.1:9\", but listeners.u.transport is unix. Set listeners.u.bind to the path of a socket, such as \"/run/thalweg.sock\", or change listeners.u.transport.",
        ),
        (
            "[listeners.u]\nbind = \"/run/u\"".to_owned(),
            "thalweg.toml:2: listeners.u.bind is \"/run/u\", but listeners.u.transport is tcp. Set listeners.u.bind to an IP address and port, or change listeners.u.transport.",
        ),
        (
            format!("[listeners.s]\n{tls}tls.key = \"k\""),
            "thalweg.toml:2: listeners.s.tls.certificate is missing, and listeners.s.transport is tls. Set listeners.s.tls.certificate to the path of a PEM file.",
        ),
        (
            format!(
                "[listeners.s]\n{tls}tls.key = \"k\"\ntls.certificate = \"c\"\ntls.client_certificate = \"required\""
            ),
            "thalweg.toml:6: listeners.s.tls.client_ca is missing, and listeners.s.tls.client_certificate is required. Set listeners.s.tls.client_ca to a PEM file with the authorities that sign client certificates.",
        ),
        (
            format!(
                "[listeners.s]\n{tls}tls.key = \"k\"\ntls.certificate = \"c\"\ntls.identity = \"san\""
            ),
            "thalweg.toml:6: listeners.s.tls.identity is san, but clients are not asked for a certificate. Set listeners.s.tls.client_certificate to optional or required.",
        ),
        (
            "[listeners.mqtt.tls]\ncertificate = \"c\"".to_owned(),
            "thalweg.toml:2: listeners.mqtt.tls.certificate is set, but listeners.mqtt.transport is tcp, which is not encrypted. Set listeners.mqtt.transport to tls or wss, or remove the tls keys.",
        ),
        (
            "[listeners.amqp]\ntransport = \"ws\"".to_owned(),
            "thalweg.toml:2: listeners.amqp.kind is amqp, which cannot be spoken over listeners.amqp.transport = ws. Set listeners.amqp.transport to tcp, tls or unix.",
        ),
        (
            "[listeners.websocket]\nwebsocket.path = \"mqtt\"".to_owned(),
            "thalweg.toml:2: listeners.websocket.websocket.path is \"mqtt\", which does not begin with a slash. Write \"/mqtt\".",
        ),
        (
            "[listeners]\nmqtt.enabled = false\nwebsocket.enabled = false".to_owned(),
            "thalweg.toml:2: No listener is enabled, so no client could connect. Enable at least one listener, or dds.enabled.",
        ),
        (
            "[access.jwt]\npublic_key_file = \"k\"".to_owned(),
            "thalweg.toml:2: access.jwt.algorithm is HS256, which takes a secret, not a public key. Set access.jwt.algorithm to the key's, such as RS256 or ES256, or set access.jwt.secret_file instead.",
        ),
        (
            "[access.jwt]\nsecret_file = \"k\"\nalgorithm = \"ES256\"".to_owned(),
            "thalweg.toml:3: access.jwt.algorithm is ES256, which takes a public key, not a secret. Set access.jwt.public_key_file instead of access.jwt.secret_file, or choose HS256.",
        ),
        (
            "[access.jwt]\nsecret_file = \"k\"\npublic_key_file = \"k\"".to_owned(),
            "thalweg.toml:2: access.jwt.secret_file and access.jwt.public_key_file are both set, but only one algorithm is accepted. Remove the one that your tokens are not signed with.",
        ),
        (
            "[access.jwt]\nrequired = true".to_owned(),
            "thalweg.toml:2: access.jwt.required is set, but there is no key to check tokens with. Set access.jwt.secret_file or access.jwt.public_key_file, or remove it.",
        ),
        (
            "[access]\ndefault = \"deny\"".to_owned(),
            "thalweg.toml:2: access.default is deny, and there are no rules, so no client could publish or subscribe. Set access.acl_file, or access.default to allow.",
        ),
    ] {
        assert_eq!(sentences(load(&text, &[], &[])), [wanted], "{text}");
    }
}

#[test]
fn sync_policies_are_a_table_by_filter_and_the_most_durable_of_those_that_match_counts() {
    let text = "[journal]\nfsync = \"interval\"\n[journal.filters]\n\"telemetry/#\" = \"never\"\n\"+/alarm\" = \"always\"\n\"a,b/c=d\" = \"interval\"\n[listeners.mqtt]\nfsync = \"always\"\n";
    let (config, origins) = load(text, &[], &[]).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(config.fsync(&config.listeners["mqtt"]), Fsync::Always);
    assert_eq!(
        config.fsync(&config.listeners["websocket"]),
        Fsync::Interval
    );
    for (topic, policy) in [
        ("telemetry/x", Some(Fsync::Never)),
        ("telemetry/alarm", Some(Fsync::Always)),
        ("a,b/c=d", Some(Fsync::Interval)),
        ("plant/x", None),
    ] {
        assert_eq!(config.journal.filter_policy(topic), policy, "{topic}");
    }
    let (again, _) =
        load(&config.to_toml(&origins), &[], &[]).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(again, config);
    let (outside, _) = load(
        "",
        &[("THALWEG_JOURNAL__FILTERS", "a/#=never, b=c=interval")],
        &[],
    )
    .expect("valid");
    assert_eq!(outside.journal.filter_policy("b=c"), Some(Fsync::Interval));
    assert_eq!(outside.journal.filters.len(), 2);
}

#[test]
fn mistakes_in_sync_policies_and_prefixes_name_the_entry_that_is_wrong() {
    let many: Vec<String> = (0..1001).map(|number| format!("\"p{number}\"")).collect();
    for (text, wanted) in [
        (
            "[journal.filters]\n\"a/#/b\" = \"never\"".to_owned(),
            "thalweg.toml:1: journal.filters names \"a/#/b\", which is not a topic filter: # must stand alone in the last level. Write a filter as in a subscription, such as telemetry/#.",
        ),
        (
            "journal.filters = { \"a/#\" = \"sometimes\" }".to_owned(),
            "thalweg.toml:1: journal.filters says \"sometimes\" for \"a/#\", which is not a policy. Write always, interval or never.",
        ),
        (
            "[journal.filters]\nplant.a = \"never\"".to_owned(),
            "thalweg.toml:1: journal.filters has no policy for \"plant\". Write \"plant\" = \"always\", \"interval\" or \"never\", with the whole filter in quotes.",
        ),
        (
            "[journal.filters]\n\"$share/g/a\" = \"never\"".to_owned(),
            "thalweg.toml:1: journal.filters names \"$share/g/a\", which is a shared subscription, not a filter of topics. Write the filter that stands behind the group's name.",
        ),
        (
            "journal.filters = [\"a=never\"]".to_owned(),
            "thalweg.toml:1: journal.filters is a list, which is not a table of policies. Write a table from topic filters to always, interval or never, such as { \"telemetry/#\" = \"never\" } (or telemetry/#=never,plant/+=interval outside the file).",
        ),
        (
            "[journal.filter]\n\"a\" = \"never\"".to_owned(),
            "thalweg.toml:1: There is no table [journal.filter]. Did you mean [journal.filters]?",
        ),
        (
            "ledger.prefixes = [\"plant/#\"]".to_owned(),
            "thalweg.toml:1: ledger.prefixes names \"plant/#\", which does not end with a whole level. Write \"plant\": a prefix stands for its topic and all below it.",
        ),
        (
            "ledger.prefixes = [\"+/a\"]".to_owned(),
            "thalweg.toml:1: ledger.prefixes names \"+/a\", which is not a topic: an address to publish to must not contain a wildcard (+ or #). Write the first levels of topics, without wildcards.",
        ),
        (
            "ledger.prefixes = [\"b\", \"a\", \"b\"]".to_owned(),
            "thalweg.toml:1: ledger.prefixes names \"b\" twice. Keep one of the two.",
        ),
        (
            format!("ledger.prefixes = [{}]", many.join(",")),
            "thalweg.toml:1: ledger.prefixes has 1001 prefixes. Keep at most 1000: each is looked up and counted for every message.",
        ),
        (
            "journal.segment_bytes = 2000000".to_owned(),
            "thalweg.toml:1: journal.segment_bytes is 2000000, not a multiple of 4KiB. Write a size such as 16MiB.",
        ),
        (
            "journal.bytes_max = \"100MiB\"".to_owned(),
            "thalweg.toml:1: journal.bytes_max is 100MiB, less than 4 segments of 64MiB (journal.segment_bytes). Set journal.bytes_max to 256MiB or more, or smaller segments.",
        ),
    ] {
        assert_eq!(sentences(load(&text, &[], &[])), [wanted], "{text}");
    }
    assert_eq!(
        sentences(load("", &[], &["journal.filters=a=never,a=always"])),
        ["--set: journal.filters names \"a\" twice. Keep one of the two."]
    );
    assert_eq!(
        sentences(load("", &[], &["journal.filters=a"])).len(),
        1,
        "an entry without a policy is no entry"
    );
}

#[test]
fn settings_that_give_up_durability_are_warned_of_where_they_count() {
    let warnings = |sets: &[&str]| load("", &[], sets).expect("valid").0.warnings();
    assert_eq!(warnings(&[]), [""; 0]);
    assert_eq!(warnings(&["journal.fsync=interval"]), [""; 0]);
    let three = warnings(&[
        "journal.fsync=never",
        "listeners.mqtt.fsync=never",
        "journal.filters=a/#=never,b=always",
    ]);
    let starts: Vec<&str> = three
        .iter()
        .filter_map(|warning| warning.split(':').next())
        .collect();
    assert_eq!(
        starts,
        [
            "journal.fsync is never",
            "listeners.mqtt.fsync is never",
            "journal.filters has \"a/#\" = \"never\""
        ]
    );
    let small = warnings(&["journal.frame_bytes_max=8MiB"]);
    assert!(
        matches!(small.as_slice(), [only] if only.starts_with("journal.frame_bytes_max is 8MiB")),
        "{small:?}"
    );
    assert!(
        small[0].contains("takes messages of 16MiB") && small[0].contains("to 17MiB"),
        "{small:?}"
    );
    assert_eq!(warnings(&["journal.frame_bytes_max=17MiB"]), [""; 0]);
    let of_listener = warnings(&[
        "journal.frame_bytes_max=17MiB",
        "listeners.mqtt.packet_bytes_max=20MiB",
    ]);
    assert!(
        matches!(of_listener.as_slice(), [only] if only.contains("listeners.mqtt takes")),
        "{of_listener:?}"
    );
    let off = warnings(&["journal.enabled=false", "journal.fsync=never"]);
    assert!(
        matches!(off.as_slice(), [only] if only.starts_with("journal.enabled is false")),
        "{off:?}"
    );
}

#[test]
fn open_doors_beside_a_lock_and_rules_that_cannot_apply_are_warned_of() {
    let warnings = |sets: &[&str]| load("", &[], sets).expect("valid").0.warnings();
    let one = |sets: &[&str]| match warnings(sets).as_slice() {
        [one] => one.clone(),
        other => panic!("{other:?}"),
    };
    let open = one(&[
        "access.password_file=users",
        "listeners.mqtt.anonymous=false",
        "listeners.websocket.backlog=9",
    ]);
    assert!(
        open.contains("password_file is set") && open.contains("by listeners.websocket:"),
        "{open}"
    );
    let both = [
        "access.jwt.secret_file=secret",
        "listeners.mqtt.anonymous=false",
        "listeners.websocket.anonymous=true",
    ];
    assert_eq!(warnings(&both), [""; 0], "somebody has said so");
    let rules = one(&["access.acl_file=rules"]);
    assert!(rules.contains("`user` lines never apply"), "{rules}");
    let named = [
        "access.acl_file=rules",
        "listeners.mqtt.proxy_protocol=v2",
        "listeners.mqtt.proxy_trusted=10.0.0.1",
        "listeners.mqtt.proxy_identity=true",
    ];
    assert_eq!(warnings(&named), [""; 0]);
}

#[test]
fn origins_are_schemes_with_hosts() {
    let with = |origins: &str| {
        load(
            "",
            &[],
            &[&format!("listeners.websocket.websocket.origins={origins}")],
        )
    };
    let (config, _) = with("https://b.example:8443,http://[::1]:3000,*,null").expect("valid");
    assert_eq!(
        config.listeners["websocket"].websocket.origins,
        ["*", "http://[::1]:3000", "https://b.example:8443", "null"]
    );
    for wrong in [
        "a.example",
        "https://",
        "https://a.example/",
        "https://*.example",
        "https://u@a.example",
    ] {
        let sentences = sentences(with(wrong));
        assert!(
            matches!(sentences.as_slice(), [only] if only.contains("not an origin")),
            "{wrong}: {sentences:?}"
        );
    }
}

#[test]
fn a_listener_that_strangers_can_reach_opens_once_somebody_says_how_to_log_in() {
    for more in [
        "listeners.mqtt.anonymous=true",
        "access.password_file=users",
        "access.jwt.secret_file=secret",
        "listeners.mqtt.enabled=false",
    ] {
        assert_eq!(
            sentences(load("", &[], &["listeners.mqtt.bind=0.0.0.0:1883", more])),
            [""; 0],
            "{more}"
        );
    }
}

#[test]
fn mistakes_outside_the_file_are_named_with_their_variable_or_argument() {
    for (variable, value, wanted) in [
        (
            "THALWEG_QUEUE__OVERLFOW",
            "x",
            Some(
                "environment THALWEG_QUEUE__OVERLFOW: THALWEG_QUEUE__OVERLFOW is not a setting. Did you mean THALWEG_QUEUE__OVERFLOW?",
            ),
        ),
        (
            "THALWEG_LISTENERS_MQTT_BIND",
            "x",
            Some(
                "environment THALWEG_LISTENERS_MQTT_BIND: THALWEG_LISTENERS_MQTT_BIND is not a setting. Write THALWEG_LISTENERS__MQTT__BIND: two underscores between levels.",
            ),
        ),
        (
            "THALWEG_SHARDS",
            "many",
            Some(
                "environment THALWEG_SHARDS: shards is \"many\", which is not a whole number. Write a whole number from 1 to 64, or \"automatic\".",
            ),
        ),
        // Kubernetes sets these for services called `thalweg` and `thalweg-mqtt`.
        ("THALWEG_SERVICE_HOST", "10.0.0.1", None),
        ("THALWEG_PORT_1883_TCP_ADDR", "10.0.0.1", None),
        ("THALWEG_MQTT_PORT", "tcp://10.0.0.1:1883", None),
        ("THALWEG_DATA_DIR", "/srv", None),
    ] {
        let wanted: Vec<&str> = wanted.into_iter().collect();
        assert_eq!(
            sentences(load("", &[(variable, value)], &[])),
            wanted,
            "{variable}"
        );
    }
    for (set, wanted) in [
        (
            "listeners.mqtt.bind",
            "--set: \"listeners.mqtt.bind\" has no value. Write --set key=value.",
        ),
        (
            "listeners.mqtt=x",
            "--set: listeners.mqtt is a table of settings, not a value. Set the keys inside it.",
        ),
        (
            "listeners.A.bind=x",
            "--set: listeners.A.bind names a listener in a way that it cannot be called. Use at most 64 lower-case letters, digits, `-` and `_`, and no two `_` in a row.",
        ),
        (
            "log.levl=info",
            "--set: log.levl is not a setting. Did you mean log.level?",
        ),
        (
            "=x",
            "--set:  is not a setting. See docs/reference/config.md for the settings there are.",
        ),
    ] {
        assert_eq!(sentences(load("", &[], &[set])), [wanted], "{set}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_down_the_file_and_then_beyond_it() {
    let text = "zzz = 1\n[queue]\noverflow = \"x\"\n[limits]\npacket_bytes_max = \"1TiB\"\n[admin]\nenabled = 3\n";
    let errors = load(text, &[("THALWEG_SHARDS", "x")], &["log.level=loud"])
        .expect_err("everything is wrong");
    let places: Vec<String> = errors
        .iter()
        .map(|error| error.origin.to_string())
        .collect();
    assert_eq!(
        places,
        [
            "thalweg.toml:1",
            "thalweg.toml:3",
            "thalweg.toml:5",
            "thalweg.toml:7",
            "environment THALWEG_SHARDS",
            "--set"
        ]
    );
}

#[test]
fn what_is_not_toml_is_named_by_line_without_errors_that_only_follow_from_it() {
    for (text, line) in [
        ("[queue]\noverflow = drop\n", 2),
        ("shards = 1\nshards = 2\n", 2),
        ("[queue\n", 1),
        ("a = \"\n", 1),
    ] {
        let errors = load(text, &[], &[]).expect_err(text);
        assert!(
            errors
                .iter()
                .all(|error| error.what.starts_with("This is not TOML")),
            "{errors:?}"
        );
        assert_eq!(
            errors[0].origin,
            Origin::File {
                path: FILE.into(),
                line
            },
            "{text}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_mistake() {
    let errors = Config::load(
        Some(Path::new("/nonexistent/t.toml")),
        std::iter::empty(),
        &[],
    )
    .expect_err("no file");
    let [error] = errors.as_slice() else {
        panic!("{errors:?}")
    };
    assert!(
        error
            .to_string()
            .starts_with("/nonexistent/t.toml: It cannot be read: "),
        "{error}"
    );
}

#[test]
fn files_that_the_configuration_names_are_asked_for_only_when_told_to() {
    let text = "[access]\npassword_file = \"/nonexistent/users\"\n[listeners.off]\nenabled = false\nbind = \"127.0.0.1:9\"\ntls.key = \"/nonexistent/key\"\n";
    let (config, origins) = load(text, &[], &[]).expect("the file names are well-formed");
    let errors = config.unreadable_files(&origins);
    let [error] = errors.as_slice() else {
        panic!("{errors:?}")
    };
    assert!(error.to_string().starts_with(
        "thalweg.toml:2: access.password_file is /nonexistent/users, which cannot be"
    ));
}

#[test]
fn every_key_can_be_explained_with_its_value_and_origin() {
    let (config, origins) = load("[queue]\nmessages_max = 7\n", &[], &[]).expect("valid");
    for key in Key::all() {
        for name in [key.name.to_owned(), key.full_name(Some("mqtt"))] {
            let text = config
                .explain(&origins, &name)
                .unwrap_or_else(|error| panic!("{error}"));
            for part in [
                name.as_str(),
                "  takes  ",
                "  default  ",
                "  value  ",
                "  a change  ",
                "  environment THALWEG_",
            ] {
                assert!(text.contains(part), "{name} lacks {part}:\n{text}");
            }
        }
    }
    assert_eq!(
        config
            .explain(&origins, "queue.messages_max")
            .expect("a key"),
        "queue.messages_max\n    Most messages that wait for one session. Then `queue.overflow` decides.\n  \
         takes       a whole number from 1 to 1000000000\n  default     100000000\n  value       7 (thalweg.toml:2)\n  \
         a change    applies at once after a reload\n  environment THALWEG_QUEUE__MESSAGES_MAX\n"
    );
    let table = config
        .explain(&origins, "listeners.mqtt.tls")
        .expect("a table");
    assert!(
        table.contains("listeners.mqtt.tls.key\n") && !table.contains("websocket"),
        "{table}"
    );
    let error = config
        .explain(&origins, "queue.mesages_max")
        .expect_err("misspelt");
    assert_eq!(
        error.to_string(),
        "configuration: queue.mesages_max is not a setting. Did you mean queue.messages_max?"
    );
}

#[test]
fn the_effective_configuration_reads_back_as_the_same_configuration_without_its_secrets() {
    let text = include_str!("../../../../docs/examples/thalweg.toml");
    let (config, origins) = load(
        text,
        &[],
        &["admin.token=hush", "listeners.a.bind=127.0.0.1:9"],
    )
    .expect("valid");
    let dump = config.to_toml(&origins);
    assert!(!dump.contains("hush"), "{dump}");
    assert!(dump.contains("bind = \"127.0.0.1:9\" # --set"), "{dump}");
    let (again, _) = load(&dump, &[], &["admin.token=hush"])
        .unwrap_or_else(|errors| panic!("{errors:?}\n{dump}"));
    assert_eq!(again, config);
}

#[test]
fn a_difference_says_which_keys_changed_and_when_each_applies() {
    let (before, _) = load("", &[], &["listeners.old.bind=127.0.0.1:9"]).expect("valid");
    let (after, _) = load(
        "",
        &[],
        &[
            "queue.messages_max=5",
            "shards=2",
            "listeners.mqtt.publish_rate=9",
            "admin.token=x",
        ],
    )
    .expect("valid");
    assert!(before.diff(&before).is_empty());
    let changes = before.diff(&after);
    let (old, kept): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .partition(|change| change.key.starts_with("listeners.old."));
    let kept: Vec<_> = kept
        .iter()
        .map(|c| {
            (
                c.key.as_str(),
                c.before.as_str(),
                c.after.as_str(),
                c.reload,
            )
        })
        .collect();
    assert_eq!(
        kept,
        [
            ("shards", "\"automatic\"", "2", Reload::Restart),
            (
                "listeners.mqtt.publish_rate",
                "\"inherit\"",
                "\"9/s\"",
                Reload::NewConnections
            ),
            ("admin.token", "", "\"(hidden)\"", Reload::Restart),
            ("queue.messages_max", "100000000", "5", Reload::Now),
        ]
    );
    assert!(
        !old.is_empty() && old.iter().all(|change| change.reload == Reload::Now),
        "{old:?}"
    );
}

#[test]
fn the_example_is_a_valid_configuration() {
    let text = include_str!("../../../../docs/examples/thalweg.toml");
    let (config, _) = load(text, &[], &[]).unwrap_or_else(|errors| panic!("{errors:?}"));
    let names: Vec<&str> = config.enabled_listeners().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "browsers", "gateways", "local", "mqtt", "secure", "sensors", "services"
        ]
    );
}

/// `UPDATE_DOCS=1 cargo test -p thalweg-server config` writes the file anew.
#[test]
fn the_reference_in_the_documents_is_what_the_table_of_keys_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let reference = reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &reference).expect("docs/reference/config.md is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == reference,
        "docs/reference/config.md is stale: run this test with UPDATE_DOCS=1"
    );
}

fn load(
    text: &str,
    env: &[(&str, &str)],
    sets: &[&str],
) -> Result<(Config, Origins), Vec<ConfigError>> {
    let env = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Config::from_text(Some((Path::new(FILE), text)), env, &sets)
}

fn sentences(loaded: Result<(Config, Origins), Vec<ConfigError>>) -> Vec<String> {
    loaded
        .err()
        .unwrap_or_default()
        .iter()
        .map(ConfigError::to_string)
        .collect()
}

/// Values that `key` takes, among them the least and the most.
fn values_of(key: &Key) -> Vec<serde_json::Value> {
    let written: Vec<String> = match key.kind {
        KeyKind::Flag => vec!["true".into(), "false".into()],
        KeyKind::Count { min, max } | KeyKind::Size { min, max } => {
            vec![min.to_string(), max.to_string()]
        }
        KeyKind::Duration { min, max, .. } => vec![show_duration(min), show_duration(max)],
        KeyKind::Rate | KeyKind::SizeRate | KeyKind::Mode => vec!["7".into()],
        KeyKind::Word(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        KeyKind::Strategy => vec!["sticky".into()],
        KeyKind::Text | KeyKind::Secret => vec!["something else".into()],
        KeyKind::File | KeyKind::Path => vec!["somewhere/else".into()],
        KeyKind::Form(_) => vec!["127.0.0.9:9".into()],
        KeyKind::List(_) => vec!["127.0.0.9".into(), "http://a".into()],
        KeyKind::Policies => vec!["a/#=never".into()],
        KeyKind::Tables(_) => vec![
            "[{ filter = \"a/#\", upgrade_qos = true, settle_timeout = \"off\" }]".into(),
            "[{ endpoint = \"tcp://a:1\", as = \"sub\" }]".into(),
            "[{ filter = \"a/#\", priority_min = 9, lifespan_max = \"unlimited\" }]".into(),
            "[{ name = \"a\", group = \"[ff15::1]:9\", interfaces = [\"b\"], filters = [\"a/#\"] }]".into(),
        ],
    };
    let parse = |text: String| key.parse(&Written::Loose(text), Path::new("")).ok();
    written.into_iter().filter_map(parse).collect()
}
