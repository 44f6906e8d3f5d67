//! Listeners and settings of CoAP: datagrams beside streams, and log-in without words for it.

use crate::config::*;

fn load(sets: &[&str]) -> Result<Config, Vec<String>> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    match Config::from_text(None, std::iter::empty(), &sets) {
        Ok((config, _)) => Ok(config),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

fn sentences(sets: &[&str]) -> Vec<String> {
    load(sets).err().unwrap_or_default()
}

#[test]
fn udp_and_tcp_share_a_port_and_two_of_a_kind_do_not() {
    assert!(
        load(&[
            "listeners.coap.enabled=true",
            "listeners.coap-tcp.enabled=true"
        ])
        .is_ok()
    );
    let words = sentences(&[
        "listeners.coap.enabled=true",
        "listeners.c.kind=coap",
        "listeners.c.transport=udp",
        "listeners.c.bind=0.0.0.0:5683",
    ]);
    assert!(
        words
            .iter()
            .any(|words| words.contains("both cannot listen there")),
        "{words:?}"
    );
}

#[test]
fn only_coap_is_spoken_in_datagrams_and_without_proxies() {
    for (sets, wanted) in [
        (
            vec!["listeners.x.bind=127.0.0.1:9", "listeners.x.transport=udp"],
            "listeners.x.kind is mqtt, which cannot be spoken over listeners.x.transport = udp.",
        ),
        (
            vec!["listeners.coap.proxy_protocol=v2"],
            "listeners.coap.proxy_protocol is set, but listeners.coap.transport is udp, which has no connections.",
        ),
        (
            vec![
                "listeners.coap.transport=udp",
                "listeners.coap.tls.psk_file=keys",
            ],
            "listeners.coap.tls.psk_file is set, but listeners.coap.transport is udp.",
        ),
        (
            vec!["listeners.coap.transport=dtls"],
            "listeners.coap.tls.certificate is missing, and listeners.coap.transport is dtls.",
        ),
        (
            vec![
                "listeners.coap.transport=dtls",
                "listeners.coap.tls.psk_file=keys",
                "listeners.coap.tls.minimum_version=1.3",
            ],
            "listeners.coap.tls.minimum_version is 1.3, but listeners.coap.transport is dtls",
        ),
        (
            vec!["coap.max_block_size=100"],
            "coap.max_block_size is 100, which is not a size that blocks have.",
        ),
        (
            vec!["coap.queue=9", "coap.queue_max=8"],
            "coap.queue is 9, more than coap.queue_max, which is 8.",
        ),
        (
            vec!["last_values.keep=a/#,a/#"],
            "last_values.keep names \"a/#\" twice.",
        ),
        (
            vec!["last_values.keep=a/#/b"],
            "last_values.keep names \"a/#/b\", which is not a topic filter",
        ),
        (
            vec!["last_values.keep=$share/g/a"],
            "which is a shared subscription, not a filter of topics.",
        ),
    ] {
        let words = sentences(&sets);
        assert!(
            words.iter().any(|words| words.contains(wanted)),
            "{sets:?}: {words:?}"
        );
    }
}

/// A password file is of no use where peers cannot send a password.
#[test]
fn datagrams_that_others_can_send_need_keys_or_a_word_that_anybody_may() {
    let open = [
        "listeners.coap.bind=0.0.0.0:5683",
        "listeners.mqtt.enabled=true",
    ];
    let with = |more: &[&'static str]| sentences(&[&open[..], more].concat());
    let refused = "listeners.coap.bind is 0.0.0.0:5683, which other machines can reach, and no way to log in is configured. \
                   Set transport = dtls with tls.psk_file or client certificates, or let everybody in with \
                   listeners.coap.anonymous = true.";
    let is_refused = |words: Vec<String>| words.iter().any(|words| words.contains(refused));
    assert!(is_refused(with(&[])), "{:?}", with(&[]));
    assert!(is_refused(with(&["access.password_file=users"])));
    assert!(is_refused(with(&[
        "listeners.coap.transport=dtls",
        "listeners.coap.tls.certificate=c",
        "listeners.coap.tls.key=k"
    ])));
    assert_eq!(with(&["listeners.coap.anonymous=true"]), [""; 0]);
    assert_eq!(
        with(&[
            "listeners.coap.transport=dtls",
            "listeners.coap.tls.psk_file=keys"
        ]),
        [""; 0]
    );
    let certificates = [
        "transport=dtls",
        "tls.certificate=c",
        "tls.key=k",
        "tls.client_ca=a",
        "tls.client_certificate=required",
    ];
    let certificates = certificates.map(|set| format!("listeners.coap.{set}"));
    let certificates: Vec<&str> = open
        .into_iter()
        .chain(certificates.iter().map(String::as_str))
        .collect();
    assert_eq!(sentences(&certificates), [""; 0]);
}

#[test]
fn who_may_come_without_a_name_depends_on_what_could_be_shown() {
    let admits = |sets: &[&str]| {
        let config = load(
            &[
                &[
                    "listeners.coap.bind=0.0.0.0:5684",
                    "listeners.coap.transport=dtls",
                ],
                sets,
            ]
            .concat(),
        )
        .unwrap();
        config.admits_strangers(&config.listeners["coap"])
    };
    assert!(
        !admits(&["listeners.coap.tls.psk_file=keys"]),
        "whoever has a key has a name"
    );
    let required = [
        "listeners.coap.tls.certificate=c",
        "listeners.coap.tls.key=k",
        "listeners.coap.tls.client_ca=a",
        "listeners.coap.tls.client_certificate=required",
    ];
    assert!(
        admits(&required),
        "a certificate without a name is all that anybody can show"
    );
    assert!(
        admits(&[&required[..], &["access.password_file=users"]].concat()),
        "with passwords, too"
    );
}

#[test]
fn groups_are_heard_only_by_a_socket_of_udp_that_is_bound_to_all_addresses() {
    let with = |sets: &[&str]| load(&[&["listeners.coap.multicast=[\"eth0\"]"], sets].concat());
    for wrong in [
        &[][..],
        &["listeners.coap.bind=192.0.2.1:5683"],
        &[
            "listeners.coap.bind=0.0.0.0:5684",
            "listeners.coap.transport=dtls",
        ],
        &[
            "listeners.coap.bind=0.0.0.0:5683",
            "listeners.coap.transport=tcp",
        ],
    ] {
        let words = with(wrong).expect_err("nothing would be heard");
        assert!(
            words[0].contains("hears nothing that is sent to a group"),
            "{words:?}"
        );
    }
    for bind in ["0.0.0.0:5683", "[::]:5683"] {
        let bind = format!("listeners.coap.bind={bind}");
        let config = with(&[&bind, "listeners.coap.anonymous=true"]).expect("it would");
        assert_eq!(config.listeners["coap"].multicast, ["eth0"]);
    }
}

#[test]
fn filters_and_sizes_are_read_as_people_write_them() {
    let config = load(&[
        "last_values.keep=plant/#, +/state",
        "listeners.coap.receive_buffer=64KiB",
        "coap.request_rate=50/s",
    ])
    .unwrap();
    assert_eq!(
        config
            .last_values
            .keep
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["+/state", "plant/#"]
    );
    assert_eq!(config.listeners["coap"].receive_buffer, Some(64 << 10));
    assert_eq!(config.protocols.coap.request_rate, Some(50));
    assert_eq!(config.packet_bytes_max(&config.listeners["coap"]), 1 << 20);
    let (config, _) = Config::from_text(
        Some((
            std::path::Path::new("f"),
            "[last_values]\nkeep = [\"a/+\"]\n[listeners.coap]\nreceive_buffer = \"automatic\"\n",
        )),
        std::iter::empty(),
        &[],
    )
    .unwrap();
    assert_eq!(
        (
            config.last_values.keep.len(),
            config.listeners["coap"].receive_buffer
        ),
        (1, None)
    );
}
