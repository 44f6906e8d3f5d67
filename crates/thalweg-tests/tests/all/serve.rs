//! `thalweg serve` as a person or an init system meets it: it starts, says so, answers, and ends; or says why not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::broker::{Broker, BrokerProgram, free_port, thalweg_binary};
use crate::certificates::Certificates;
use crate::folder::Folder;

#[test]
fn it_says_ready_once_every_listener_accepts_and_ends_on_sigterm() {
    let broker = Broker::start();
    for address in [broker.mqtt(), broker.websocket()] {
        TcpStream::connect(address).expect("a ready broker accepts");
    }
    let log = broker.log();
    let status = broker.stop();
    assert!(
        status.success(),
        "SIGTERM is a clean end, not {status}:\n{log}"
    );
}

#[test]
fn admin_says_healthy_and_ready() {
    let broker = Broker::start();
    if broker.kind() == BrokerProgram::Mosquitto {
        return; // It has no admin interface.
    }
    for path in ["/healthz", "/readyz"] {
        let mut stream = TcpStream::connect(broker.admin()).expect("the admin listener accepts");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout can be set");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: thalweg\r\nConnection: close\r\n\r\n"
        )
        .expect("it reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("it answers and closes");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
}

#[test]
fn a_taken_port_is_named_and_ends_the_start() {
    let taken = TcpListener::bind(free_port()).expect("the port was free");
    let address = taken.local_addr().expect("a bound socket has an address");
    let output = serve(&[&format!("listeners.mqtt.bind={address}")]);
    assert_refused(&output, &[&address.port().to_string(), "taken"]);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_one() {
    assert_refused(
        &serve(&["listeners.mqtt.bnd=127.0.0.1:1"]),
        &["bnd", "bind"],
    );
}

#[test]
fn an_open_listener_without_authentication_is_refused() {
    let port = free_port().port();
    assert_refused(
        &serve(&[&format!("listeners.mqtt.bind=0.0.0.0:{port}")]),
        &["anonymous"],
    );
}

#[test]
fn a_missing_key_file_is_named() {
    let output = serve(&[
        "listeners.tls.transport=tls",
        &format!("listeners.tls.bind={}", free_port()),
        "listeners.tls.tls.certificate=/nowhere/server.pem",
        "listeners.tls.tls.key=/nowhere/server.key",
    ]);
    assert_refused(&output, &["/nowhere/server."]);
}

#[test]
fn durability_that_is_given_up_is_warned_of_at_the_start() {
    let broker = Broker::with()
        .set("journal.filters", "telemetry/#=never")
        .start();
    if broker.kind() == BrokerProgram::Mosquitto {
        return;
    }
    assert!(
        broker
            .log()
            .contains("journal.filters has \"telemetry/#\" = \"never\""),
        "{}",
        broker.log()
    );
    let broker = Broker::with().set("journal.enabled", "false").start();
    assert!(
        broker.log().contains("a restart forgets it"),
        "{}",
        broker.log()
    );
    assert!(!broker.folder().join("data/journal").exists());
}

#[test]
fn operators_commands_ask_over_the_unix_socket_without_a_token() {
    let broker = Broker::with()
        .set("admin.unix_socket", "{folder}/admin.sock")
        .set("admin.token", "a secret")
        .start();
    if broker.kind() != BrokerProgram::Thalweg {
        return; // It has no admin interface.
    }
    let run = |command: &[&str], socket: &str| {
        Command::new(thalweg_binary())
            .args(command)
            .arg("--unix")
            .arg(broker.folder().join(socket))
            .output()
            .expect("the binary runs")
    };
    let answered = run(&["ledger", "--json"], "admin.sock");
    assert!(answered.status.success(), "{answered:?}");
    assert!(answered.stdout.starts_with(b"{"), "{answered:?}");
    let top = run(&["top", "--once"], "admin.sock");
    assert!(top.status.success(), "{top:?}");
    assert!(
        String::from_utf8_lossy(&top.stdout).contains("admin.sock"),
        "{top:?}"
    );
    let copy = broker.folder().join("copy");
    let backup = run(&["backup", &copy.display().to_string()], "admin.sock");
    assert!(backup.status.success(), "{backup:?}");

    assert_refused(
        &run(&["ledger"], "nobody.sock"),
        &["nobody.sock", "admin.unix_socket", "--unix"],
    );
    assert_refused(
        &run(&["ledger", "--url", "http://127.0.0.1:1"], "admin.sock"),
        &["--url"],
    );
}

#[test]
fn operators_commands_speak_https_and_say_what_is_wrong_with_a_certificate() {
    let broker = Broker::with()
        .encrypted()
        .set("admin.tls.certificate", "{folder}/server.pem")
        .set("admin.tls.key", "{folder}/server.key")
        .start();
    if broker.kind() != BrokerProgram::Thalweg {
        return; // It has no admin interface.
    }
    let (authority, stranger) = (broker.authority(), broker.folder().join("stranger.pem"));
    std::fs::write(&stranger, Certificates::new().authority).expect("the folder is writable");
    let (address, nobody) = (broker.admin(), broker.folder().join("nobody.pem"));
    let ledger = |url: &str, ca: Option<&Path>| {
        let mut command = Command::new(thalweg_binary());
        command.args(["ledger", "--json", "--url", url]);
        if let Some(ca) = ca {
            command.arg("--ca").arg(ca);
        }
        command.output().expect("the binary runs")
    };

    let https = format!("https://{address}");
    let answered = ledger(&https, Some(&authority));
    assert!(answered.status.success(), "{answered:?}");
    assert!(answered.stdout.starts_with(b"{"), "{answered:?}");
    // By name, and with the slash that browsers add.
    let by_name = ledger(
        &format!("https://localhost:{}/", address.port()),
        Some(&authority),
    );
    assert!(by_name.status.success(), "{by_name:?}");

    // Another authority of the same name, and those of the system.
    let refused = ["invalid peer certificate", "signed it", "(ca)", "--ca"];
    assert_refused(&ledger(&https, Some(&stranger)), &refused);
    assert_refused(&ledger(&https, None), &refused);
    assert_refused(
        &ledger(&https, Some(&nobody)),
        &["cannot read", "nobody.pem"],
    );
    assert_refused(&ledger(&format!("http://{address}"), None), &["https://"]);
    assert_refused(
        &ledger(&format!("http://{address}"), Some(&authority)),
        &["--ca is for encrypted connections"],
    );
    let plain = format!("https://{}", broker.mqtt());
    assert_refused(&ledger(&plain, Some(&authority)), &["cannot be asked"]);
}

/// A start that should fail; what does not matter to it is on free ports.
fn serve(sets: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    // A start that wrongly succeeds ends here, and its exit code tells.
    command
        .args(["--signal=KILL", "20"])
        .arg(thalweg_binary())
        .arg("serve");
    let key = |set: &str| set.split('=').next().map(str::to_owned);
    for name in [
        "listeners.mqtt.bind",
        "listeners.websocket.bind",
        "admin.bind",
    ] {
        if !sets.iter().any(|set| key(set).as_deref() == Some(name)) {
            command.arg("--set").arg(format!("{name}={}", free_port()));
        }
    }
    // Nothing may be left in the folder that the tests run in, nor two starts be in each other's way.
    let data = Folder::new();
    command.arg("--data").arg(data.path().join("data"));
    for set in sets {
        command.arg("--set").arg(set);
    }
    command
        .stdin(Stdio::null())
        .output()
        .expect("coreutils' timeout runs")
}

fn assert_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| code != 0 && code != 124),
        "{}: {said}",
        output.status
    );
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}
