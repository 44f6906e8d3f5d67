//! The configuration as its users meet it: files, variables, arguments, and the sentences they get back. Most are in `cases.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thalweg_kernel::GroupStrategy;
use thalweg_model::Span;

use super::kind::Written;
use super::load::{Entry, get, put};
use super::section::keys_of;
use super::*;

const FILE: &str = "thalweg.toml";

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct Case {
    file: String,
    variables: BTreeMap<String, String>,
    set: Vec<String>,
    says: Vec<String>,
    warnings: Vec<String>,
    values: BTreeMap<String, String>,
    origins: BTreeMap<String, String>,
    opens: Option<Vec<String>>,
}

#[test]
fn configurations_are_read_shown_and_refused_as_the_cases_say() {
    let cases: Cases = toml::from_str(include_str!("cases.toml")).expect("it is TOML");
    for case in cases.case {
        let of = format!("{}{:?}{:?}", case.file, case.variables, case.set);
        let file = Some((Path::new(FILE), case.file.as_str()));
        let loaded = Config::from_text(file, case.variables.into_iter(), &case.set);
        assert_eq!(sentences(&loaded), case.says, "{of}");
        let Ok((config, origins)) = loaded else {
            continue;
        };
        assert_eq!(config.warnings(), case.warnings, "{of}");
        let values = config.values();
        for (key, shown) in &case.values {
            assert_eq!(values.get(key), Some(shown), "{of}");
        }
        for (key, origin) in &case.origins {
            assert_eq!(origins.of(key).to_string(), *origin, "{of}");
        }
        if let Some(listeners) = case.opens {
            assert_eq!(opened(&config), listeners, "{of}");
        }
        assert_eq!(sound(&config.to_toml(&origins), &[]).0, config, "{of}");
    }
}

/// A condition without a text would panic in the other tests.
#[test]
fn every_text_of_a_rule_or_kind_is_used() {
    let forms = [
        include_str!("kind.rs"),
        include_str!("units.rs"),
        include_str!("forms.rs"),
    ];
    let sections = [
        include_str!("policy.rs"),
        include_str!("multicast.rs"),
        include_str!("protocols/zmtp.rs"),
    ];
    let kinds = [forms, sections].concat().concat();
    let rules = [include_str!("check.rs"), include_str!("protocols/coap.rs")].concat();
    for (texts, code) in [
        (include_str!("kinds.toml"), kinds),
        (include_str!("rules.toml"), rules),
    ] {
        let texts: toml::Table = toml::from_str(texts).expect("it is TOML");
        for name in texts.keys() {
            assert!(code.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}

#[test]
fn with_no_configuration_every_protocol_and_the_admin_interface_are_on_loopback() {
    let config = Config::default();
    assert_eq!(
        opened(&config),
        [
            "amqp amqp 127.0.0.1:5672",
            "coap coap 127.0.0.1:5683",
            "coap-tcp coap 127.0.0.1:5683",
            "mqtt mqtt 127.0.0.1:1883",
            "stomp stomp 127.0.0.1:61613",
            "websocket mqtt 127.0.0.1:8083"
        ]
    );
    let transports = ["coap", "coap-tcp", "websocket"].map(|name| config.listeners[name].transport);
    assert_eq!(transports, [Transport::Udp, Transport::Tcp, Transport::Ws]);
    assert!(config.listeners.values().all(Listener::admits_anonymous));
    assert_eq!(config.admin.bind.to_string(), "127.0.0.1:7883");
    assert_eq!(config.access.default_verdict(), AccessDefault::Allow);
    assert_eq!(config.queue.bytes_max, 4 << 30);
    assert_eq!(config.session.expiry_max, Span::FOREVER);
    assert_eq!(config.session.v3_expiry, Span::from_secs(7 * 86_400));
    assert_eq!(config.groups.strategy, GroupStrategy::Adaptive);
    assert!(config.multicast.is_empty());
    let shards = [1, 2, 1000].map(|cores| config.shard_count(cores));
    assert_eq!(shards, [1, 1, 64]);
}

#[test]
fn what_a_listener_says_stands_before_the_limits_it_replaces() {
    let sets = [
        "amqp.message_bytes_max=2MiB",
        "listeners.amqp.enabled=true",
        "listeners.coap.enabled=true",
        "listeners.stomp.packet_bytes_max=5000",
        "listeners.stomp.transport=ws",
        "listeners.own.bind=127.0.0.1:9",
        "listeners.own.websocket.path=/x",
        "listeners.own.publish_rate=0",
        "limits.publish_rate=10/s",
    ];
    let (config, _) = sound("", &sets);
    let listener = |name: &str| &config.listeners[name];
    let largest =
        ["mqtt", "amqp", "stomp", "coap"].map(|name| config.packet_bytes_max(listener(name)));
    assert_eq!(largest, [16 << 20, 2 << 20, 5000, 1 << 20]);
    let paths = ["mqtt", "stomp", "own"].map(|name| listener(name).websocket_path());
    assert_eq!(paths, ["/mqtt", "/ws", "/x"]);
    let rates = ["mqtt", "own"].map(|name| config.publish_rate(listener(name)));
    assert_eq!(rates, [Some(10), None]);
}

#[test]
fn who_may_come_without_a_name_depends_on_what_could_be_shown() {
    let certificates = [
        "listeners.coap.tls.certificate=c",
        "listeners.coap.tls.key=k",
        "listeners.coap.tls.client_ca=a",
        "listeners.coap.tls.client_certificate=required",
    ];
    let with_passwords = [&certificates[..], &["access.password_file=users"]].concat();
    for (sets, admits) in [
        // A key is a name; a certificate without a name is all that can be shown, with passwords, too.
        (&["listeners.coap.tls.psk_file=keys"][..], false),
        (&certificates, true),
        (&with_passwords, true),
    ] {
        let dtls = [
            "listeners.coap.bind=0.0.0.0:5684",
            "listeners.coap.transport=dtls",
        ];
        let (config, _) = sound("", &[&dtls, sets].concat());
        let listener = &config.listeners["coap"];
        assert_eq!(config.admits_strangers(listener), admits, "{sets:?}");
    }
}

#[test]
fn every_default_reads_back_from_the_field_it_lands_in() {
    for entry in Config::default().entries() {
        let Entry {
            key,
            listener,
            name,
            value,
        } = entry;
        let default = key
            .default_for(listener)
            .expect("built-in listeners have every default");
        assert_eq!(
            key.show(&value),
            key.show(&key.parse_default(default)),
            "{name}"
        );
    }
}

/// A value that the kind lets pass and the type does not hold would be refused as a mistake of the broker.
#[test]
fn every_key_lands_in_a_field_of_its_own_with_the_least_and_the_most_of_its_range() {
    let before = Config::default().tree();
    for key in Key::all() {
        let name = key.full_name(Some("mqtt"));
        let values = values_of(key);
        let has_other = values
            .iter()
            .any(|value| Some(value) != get(&before, &name));
        assert!(has_other, "{name} has no other value");
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
        let Key { name, doc, .. } = key;
        assert!(
            Key::all().skip(index + 1).all(|other| other.name != *name),
            "{name} is twice"
        );
        assert!(doc.ends_with('.') && doc.len() > 20, "{name}: {doc}");
    }
}

#[test]
fn paths_in_a_file_start_at_its_directory_and_others_where_we_are() {
    let text = "[access]\npassword_file = \"users\"\nacl_file = \"/etc/rules\"\n";
    let sets = ["listeners.s.bind=run/s.sock", "listeners.s.transport=unix"].map(str::to_owned);
    let file = Some((Path::new("/srv/broker/t.toml"), text));
    let (config, _) = Config::from_text(file, std::iter::empty(), &sets).expect("valid");
    let files = [config.access.password_file, config.access.acl_file];
    assert_eq!(
        files,
        ["/srv/broker/users", "/etc/rules"].map(|path| Some(path.into()))
    );
    assert_eq!(config.listeners["s"].bind, Bind::Path("run/s.sock".into()));
    assert_eq!(config.data_dir, PathBuf::from("./thalweg-data"));
}

#[test]
fn of_the_sync_policies_whose_filters_match_the_most_durable_counts() {
    let text = "[journal]\nfsync = \"interval\"\n[journal.filters]\n\"telemetry/#\" = \"never\"\n\"+/alarm\" = \"always\"\n[listeners.mqtt]\nfsync = \"always\"\n";
    let (config, _) = sound(text, &[]);
    let of_listener = ["mqtt", "websocket"].map(|name| config.fsync(&config.listeners[name]));
    assert_eq!(of_listener, [Fsync::Always, Fsync::Interval]);
    for (topic, policy) in [
        ("telemetry/x", Some(Fsync::Never)),
        ("telemetry/alarm", Some(Fsync::Always)),
        ("plant/x", None),
    ] {
        assert_eq!(config.journal.filter_policy(topic), policy, "{topic}");
    }
}

#[test]
fn a_policy_that_ends_what_earlier_ones_say_is_not_silent() {
    let text = "[[policy]]\nfilter = \"#\"\nlifespan_max = \"unlimited\"\nrate = \"unlimited\"\n\
                [[groups.policies]]\nfilter = \"#\"\nsettle_timeout = \"off\"\n";
    let (config, _) = sound(text, &[]);
    let (policy, group) = (&config.policy[0], &config.groups.policies[0]);
    assert_eq!(
        (policy.lifespan_max, policy.rate),
        (Some(Span::FOREVER), Some(u64::MAX))
    );
    assert_eq!((policy.rate_bytes, policy.priority_min), (None, None));
    assert_eq!(
        (group.settle_timeout, group.strategy),
        (Some(Span::FOREVER), None)
    );
}

#[test]
fn every_name_of_a_strategy_is_understood_and_the_names_of_others_are_told() {
    for word in GroupStrategy::WORDS {
        let strategy = GroupStrategy::named(word).expect("its own name");
        for name in strategy.aliases().iter().chain([word]) {
            let (config, _) = sound("", &[&format!("groups.strategy={name}")]);
            assert_eq!(config.groups.strategy, strategy, "{name}");
            assert!(
                reference().contains(&format!("`{name}`")),
                "{name} is not in the reference"
            );
        }
    }
}

#[test]
fn a_list_has_as_many_items_as_may_be_compared_with_every_message() {
    let many: Vec<String> = (0..1001).map(|number| format!("\"p{number}\"")).collect();
    let text = format!("ledger.prefixes = [{}]", many.join(","));
    let says = "thalweg.toml:1: ledger.prefixes has 1001 prefixes. Keep at most 1000: each is looked up and counted for every message.";
    assert_eq!(sentences(&load(&text, &[])), [says]);
}

#[test]
fn what_is_not_toml_is_named_by_line_without_errors_that_only_follow_from_it() {
    for (text, line) in [
        ("[queue]\noverflow = drop\n", 2),
        ("shards = 1\nshards = 2\n", 2),
        ("[queue\n", 1),
        ("a = \"\n", 1),
    ] {
        let errors = load(text, &[]).expect_err(text);
        let mut what = errors.iter().map(|error| &error.what);
        assert!(
            what.all(|what| what.starts_with("This is not TOML")),
            "{errors:?}"
        );
        assert_eq!(
            errors[0].origin.to_string(),
            format!("{FILE}:{line}"),
            "{text}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_mistake() {
    let loaded = Config::load(
        Some(Path::new("/nonexistent/t.toml")),
        std::iter::empty(),
        &[],
    );
    let says = sentences(&loaded);
    assert_eq!(says.len(), 1);
    assert!(
        says[0].starts_with("/nonexistent/t.toml: It cannot be read: "),
        "{says:?}"
    );
}

#[test]
fn files_that_the_configuration_names_are_asked_for_only_when_told_to() {
    let text = "[access]\npassword_file = \"/nonexistent/users\"\n[listeners.off]\nenabled = false\nbind = \"127.0.0.1:9\"\ntls.key = \"/nonexistent/key\"\n";
    let (config, origins) = sound(text, &[]);
    let says = sentences(&Err(config.unreadable_files(&origins)));
    assert_eq!(says.len(), 1);
    let what = "thalweg.toml:2: access.password_file is /nonexistent/users, which cannot be";
    assert!(says[0].starts_with(what), "{says:?}");
}

#[test]
fn every_key_can_be_explained_with_its_value_and_origin() {
    let (config, origins) = sound("[queue]\nmessages_max = 7\n", &[]);
    let explain = |name: &str| {
        config
            .explain(&origins, name)
            .map_err(|error| error.to_string())
    };
    for key in Key::all() {
        for name in [key.name.to_owned(), key.full_name(Some("mqtt"))] {
            let text = explain(&name).unwrap_or_else(|error| panic!("{error}"));
            for part in [
                "takes  ",
                "default  ",
                "value  ",
                "a change  ",
                "environment THALWEG_",
            ] {
                assert!(
                    text.contains(&format!("\n  {part}")),
                    "{name} lacks {part}:\n{text}"
                );
            }
            assert!(text.starts_with(&format!("{name}\n")), "{text}");
        }
    }
    assert_eq!(
        explain("queue.messages_max").as_deref(),
        Ok(
            "queue.messages_max\n    Most messages that wait for one session. Then `queue.overflow` decides.\n  \
            takes       a whole number from 1 to 1000000000\n  default     100000000\n  value       7 (thalweg.toml:2)\n  \
            a change    applies at once after a reload\n  environment THALWEG_QUEUE__MESSAGES_MAX\n"
        )
    );
    let table = explain("listeners.mqtt.tls").expect("a table");
    assert!(
        table.contains("listeners.mqtt.tls.key\n") && !table.contains("websocket"),
        "{table}"
    );
    let error =
        "configuration: queue.mesages_max is not a setting. Did you mean queue.messages_max?";
    assert_eq!(explain("queue.mesages_max"), Err(error.to_owned()));
}

#[test]
fn an_address_is_explained_by_the_policy_that_gives_each_field() {
    let text = "[[policy]]\nfilter = \"plant/#\"\nlifespan_max = \"30s\"\npriority_min = 4\n\
                [[policy]]\nfilter = \"plant/+/x\"\nlifespan_max = \"unlimited\"\nrate = \"5/s\"\n";
    let (config, origins) = sound(text, &[]);
    for (address, says) in [
        (
            "plant/7/x",
            "lifespan_max         \"unlimited\" (policy 2, \"plant/+/x\")",
        ),
        (
            "plant/7/x",
            "priority_min         4 (policy 1, \"plant/#\")",
        ),
        (
            "plant/7/x",
            "rate                 \"5/s\" (policy 2, \"plant/+/x\")",
        ),
        ("plant/7/x", "rate_exceed          no policy"),
        (
            "plant",
            "lifespan_max         \"30s\" (policy 1, \"plant/#\")",
        ),
        ("office/7", "priority_min         no policy"),
    ] {
        let text = config.explain(&origins, address).expect("an address");
        assert!(
            text.starts_with(&format!("{address}\n  lifespan_max ")),
            "{text}"
        );
        assert!(
            text.contains(&format!("\n  {says}\n")),
            "{address} lacks {says}:\n{text}"
        );
    }
}

/// The tables are made of what fronts declare; a field that none is about would be left out in silence.
#[test]
fn a_document_says_of_each_field_of_a_policy_what_it_is_in_each_protocol() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let text = std::fs::read_to_string(path).expect("it is there");
    let heads: Vec<&str> = text
        .lines()
        .filter(|it| it.starts_with("| protocol |"))
        .collect();
    for key in keys_of::<Policy>().iter().skip(1) {
        let name = format!("`{}`", key.name);
        assert!(heads.iter().any(|it| it.contains(&name)), "{name}");
        let (row, among) = (format!("\n| {name}"), format!(", {name}"));
        assert!(text.contains(&row) || text.contains(&among), "{name}");
    }
}

#[test]
fn the_effective_configuration_reads_back_as_the_same_configuration_without_its_secrets() {
    let text = include_str!("../../../docs/examples/thalweg.toml");
    let (config, origins) = sound(text, &["admin.token=hush", "listeners.a.bind=127.0.0.1:9"]);
    let dump = config.to_toml(&origins);
    assert!(!dump.contains("hush"), "{dump}");
    assert!(dump.contains("bind = \"127.0.0.1:9\" # --set"), "{dump}");
    assert_eq!(sound(&dump, &["admin.token=hush"]).0, config);
}

#[test]
fn a_difference_says_which_keys_changed_and_when_each_applies() {
    let (before, _) = sound("", &["listeners.old.bind=127.0.0.1:9"]);
    let sets = [
        "queue.messages_max=5",
        "shards=2",
        "listeners.mqtt.publish_rate=9",
        "admin.token=x",
    ];
    let (after, _) = sound("", &sets);
    assert!(before.diff(&before).is_empty());
    let changes = before.diff(&after).into_iter();
    let (old, kept): (Vec<_>, Vec<_>) =
        changes.partition(|it| it.key.starts_with("listeners.old."));
    let kept = kept
        .into_iter()
        .map(|it| (it.key, it.before, it.after, it.reload));
    let wanted = [
        ("shards", "\"automatic\"", "2", Reload::Restart),
        (
            "listeners.mqtt.publish_rate",
            "\"inherit\"",
            "\"9/s\"",
            Reload::NewConnections,
        ),
        ("admin.token", "", "\"(hidden)\"", Reload::Restart),
        ("queue.messages_max", "100000000", "5", Reload::Now),
    ];
    let wanted = wanted
        .map(|(key, old, new, reload)| (key.to_owned(), old.to_owned(), new.to_owned(), reload));
    assert_eq!(kept.collect::<Vec<_>>(), wanted);
    assert!(
        !old.is_empty() && old.iter().all(|change| change.reload == Reload::Now),
        "{old:?}"
    );
}

#[test]
fn the_example_is_a_valid_configuration() {
    let (config, _) = sound(include_str!("../../../docs/examples/thalweg.toml"), &[]);
    let names: Vec<&str> = config.enabled_listeners().map(|(name, _)| name).collect();
    assert_eq!(
        names.join(" "),
        "browsers gateways local mqtt secure sensors services"
    );
}

/// `UPDATE_DOCS=1 cargo test -p thalweg-config` writes the file anew.
#[test]
fn the_reference_in_the_documents_is_what_the_table_of_keys_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let reference = reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &reference).expect("docs/reference/config.md is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let is_stale = "docs/reference/config.md is stale: run this test with UPDATE_DOCS=1";
    assert!(committed == reference, "{is_stale}");
}

type Loaded = Result<(Config, Origins), Vec<ConfigError>>;

fn load(text: &str, sets: &[&str]) -> Loaded {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Config::from_text(Some((Path::new(FILE), text)), std::iter::empty(), &sets)
}

/// What is loaded without a mistake.
fn sound(text: &str, sets: &[&str]) -> (Config, Origins) {
    load(text, sets).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

fn sentences(loaded: &Loaded) -> Vec<String> {
    let errors = loaded.as_ref().err().into_iter().flatten();
    errors.map(ConfigError::to_string).collect()
}

fn opened(config: &Config) -> Vec<String> {
    let listeners = config.enabled_listeners();
    listeners
        .map(|(name, it)| format!("{name} {} {}", it.kind, it.bind))
        .collect()
}

/// Values that `key` takes, among them the least and the most.
fn values_of(key: &Key) -> Vec<serde_json::Value> {
    let written: Vec<String> = match key.kind {
        KeyKind::Flag => vec!["true".into(), "false".into()],
        KeyKind::Number(it) => vec![it.unit.show(it.min), it.unit.show(it.max)],
        KeyKind::Mode => vec!["7".into()],
        KeyKind::Word(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        KeyKind::Strategy => vec!["sticky".into()],
        KeyKind::Text | KeyKind::Secret => vec!["something else".into()],
        KeyKind::File | KeyKind::Path => vec!["somewhere/else".into()],
        KeyKind::Form(..) => vec!["127.0.0.9:9".into()],
        KeyKind::List(..) => vec!["127.0.0.9".into(), "http://a".into()],
        KeyKind::Policies => vec!["a/#=never".into()],
        KeyKind::Tables(..) => vec![
            "[{ filter = \"a/#\", upgrade_qos = true, settle_timeout = \"off\" }]".into(),
            "[{ endpoint = \"tcp://a:1\", as = \"sub\" }]".into(),
            "[{ filter = \"a/#\", priority_min = 9, lifespan_max = \"unlimited\" }]".into(),
            "[{ name = \"a\", group = \"[ff15::1]:9\", interfaces = [\"b\"], filters = [\"a/#\"] }]".into(),
        ],
    };
    let parse = |text: String| key.parse(Written::Loose(&text)).ok();
    written.into_iter().filter_map(parse).collect()
}
