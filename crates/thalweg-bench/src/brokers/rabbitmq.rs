//! RabbitMQ: a node of its own name, folders, ports and port mapper, so that no other node of the machine is disturbed.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use super::NoBroker;
use super::ports::PortKind;
use super::site::{Launch, Order, Site, text_of};
use super::system::{System, found};
use crate::cell::Protocol;

/// Guests from anywhere, and no limit of 10 messages under way for MQTT. Whether messages survive is the clients' choice.
pub fn launch(site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = System::Rabbitmq.program()?;
    let mapper =
        found(&["epmd"]).ok_or_else(|| NoBroker::Absent(System::Rabbitmq.install().to_owned()))?;
    let addresses = site.addresses()?;
    let mut text = String::new();
    let mut plugins = Vec::new();
    // Without one it would take its usual port of all addresses.
    let amqp = match addresses.get(&Protocol::Amqp) {
        Some(ends) => ends.publish,
        None => site.address(PortKind::Tcp, 5672)?,
    };
    let _ = writeln!(text, "listeners.tcp.1 = {amqp}\nloopback_users = none");
    if let Some(ends) = addresses.get(&Protocol::Mqtt) {
        plugins.push("rabbitmq_mqtt");
        let _ = writeln!(
            text,
            "mqtt.listeners.tcp.1 = {}\nmqtt.allow_anonymous = true\nmqtt.prefetch = 65535\nmqtt.tcp_listen_options.nodelay = true",
            ends.publish
        );
    }
    if let Some(ends) = addresses.get(&Protocol::Stomp) {
        plugins.push("rabbitmq_stomp");
        let _ = writeln!(
            text,
            "stomp.listeners.tcp.1 = {}\nstomp.default_user = guest\nstomp.default_pass = guest\n\
             stomp.tcp_listen_options.nodelay = true",
            ends.publish
        );
    }
    text.push_str(
        "log.console = false\nlog.file.level = warning\ndisk_free_limit.absolute = 100MB\n",
    );
    text.push_str(&site.settings(" = "));
    let config = site.write("rabbitmq.conf", &text)?;
    let enabled = format!("[{}].\n", plugins.join(","));
    let plugins = site.write("enabled_plugins", &enabled)?;
    let home = site.path("home");
    fs::create_dir(&home)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let [mapped, distributed] = [4369, 25_672].map(|usual| site.address(PortKind::Tcp, usual));
    let (mapped, distributed) = (mapped?.port(), distributed?.port());
    let environment = vec![
        (
            "PATH",
            format!("{path}:/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ),
        ("HOME", text_of(&home)),
        ("LANG", "C.UTF-8".to_owned()),
        ("ERL_EPMD_PORT", mapped.to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        (
            "RABBITMQ_NODENAME",
            format!("bench{}@localhost", amqp.port()),
        ),
        ("RABBITMQ_DIST_PORT", distributed.to_string()),
        ("RABBITMQ_CONFIG_FILE", config),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", plugins),
        ("RABBITMQ_MNESIA_BASE", text_of(&site.path("mnesia"))),
        ("RABBITMQ_LOG_BASE", text_of(&site.path("logs"))),
        ("RABBITMQ_PID_FILE", text_of(&site.path("pid"))),
        (
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-kernel inet_dist_use_interface {127,0,0,1}".to_owned(),
        ),
    ];
    let before = Order {
        environment: environment.clone(),
        ..Order::new(
            mapper,
            &["-port", &mapped.to_string(), "-address", "127.0.0.1"],
        )
    };
    let broker = Order {
        environment,
        ..Order::new(program, &[])
    };
    let mut launch = Launch::new(broker, addresses, format!("{text}# plugins: {enabled}"))?;
    launch.before = Some(before);
    launch.says = Some("completed with");
    // It creates a database first.
    launch.patience = Duration::from_secs(180);
    Ok(launch)
}
