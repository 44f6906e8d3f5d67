//! ejabberd: a node of its own, anonymous users who may make nodes of XEP-0060.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use super::NoBroker;
use super::ports::PortKind;
use super::site::{Launch, Order, Site, text_of};
use super::system::{System, found};
use crate::cell::Protocol;

/// Its usual shapers of 1,000 and 50,000 bytes a second are left out. The host is `localhost`, the service of nodes
/// `pubsub.localhost`.
pub fn launch(site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = System::Ejabberd.program()?;
    let absent = || NoBroker::Absent(System::Ejabberd.install().to_owned());
    let script = found(&["ejabberdctl"]).ok_or_else(absent)?;
    // Where the libraries are differs from one architecture to the other.
    let script = fs::read_to_string(script)?;
    let libraries = script
        .lines()
        .find_map(|line| line.strip_prefix("ERL_LIBS="))
        .unwrap_or_default();
    let libraries = libraries.trim_matches(['\'', '"']).to_owned();
    let addresses = site.addresses()?;
    let port = addresses
        .get(&Protocol::Xmpp)
        .map_or(5222, |ends| ends.publish.port());
    let mut text = format!(
        "listen:\n  -\n    port: {port}\n    ip: \"{}\"\n    module: ejabberd_c2s\n    {SETTINGS}",
        site.host
    );
    for setting in site.settings(": ").lines() {
        let _ = writeln!(text, "{setting}");
    }
    let config = site.write("ejabberd.yml", &text)?;
    let home = site.path("home");
    fs::create_dir(&home)?;
    let distributed = site.address(PortKind::Tcp, 25_673)?.port();
    let node = format!("bench{port}@localhost");
    let mnesia = format!("\"{}\"", text_of(&site.path("mnesia")));
    // `-erl_epmd_port` with `-start_epmd false` needs no port mapper at all.
    let arguments = [
        "-noinput",
        "-sname",
        &node,
        "-erl_epmd_port",
        &distributed.to_string(),
        "-start_epmd",
        "false",
        "-kernel",
        "inet_dist_use_interface",
        "{127,0,0,1}",
        "+K",
        "true",
        "+P",
        "250000",
        "-mnesia",
        "dir",
        &mnesia,
        "-s",
        "ejabberd",
    ];
    let environment = vec![
        ("HOME", text_of(&home)),
        ("ERL_LIBS", libraries),
        ("EJABBERD_CONFIG_PATH", config),
        ("EJABBERD_LOG_PATH", text_of(&site.path("ejabberd.log"))),
        ("ERL_CRASH_DUMP", text_of(&site.path("crash.dump"))),
    ];
    let mut launch = Launch::new(
        Order {
            environment,
            ..Order::new(program, &arguments)
        },
        addresses,
        text,
    )?;
    launch.patience = Duration::from_secs(120);
    Ok(launch)
}

const SETTINGS: &str = "\
max_stanza_size: infinity
    max_fsm_queue: 1000000
    shaper: none
    access: everyone
    starttls: false
hosts:
  - localhost
loglevel: warning
log_burst_limit_count: 100000
auth_method: anonymous
anonymous_protocol: both
allow_multiple_connections: true
disable_sasl_mechanisms: []
acl:
  local:
    user_regexp: \"\"
access_rules:
  everyone:
    allow: all
modules:
  mod_disco: {}
  mod_caps: {}
  mod_pubsub:
    access_createnode: everyone
    ignore_pep_from_offline: true
    last_item_cache: false
    max_items_node: 1
    default_node_config:
      persist_items: false
      publish_model: open
      send_last_published_item: never
    plugins:
      - flat
";
