//! Errors that keep a server from starting, with their remedies, all at once.

use std::net::TcpListener;

use thalweg_server::Server;

use super::home::configuration;
use crate::certificates::Certificates;
use crate::folder::Folder;

/// Everything that is said about a start that fails, one fault per line.
#[track_caller]
fn refused(folder: &Folder, sets: &[&str]) -> Vec<String> {
    match configuration(folder, sets) {
        Err(words) => words,
        Ok(config) => match Server::start(config) {
            Ok(_) => panic!("it started"),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        },
    }
}

#[track_caller]
fn check(sets: &[&str], expected: &[&str]) {
    let said = refused(&Folder::new(), sets);
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(
            said.contains(expected),
            "{said}\nshould contain: {expected}"
        );
    }
}

#[test]
fn a_taken_port_is_named_with_what_changes_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let address = taken.local_addr().expect("it is bound");
    let expected = format!(
        "listener `mqtt`: port {} is taken on 127.0.0.1; does another broker run? Stop it or choose another port with \
         `--set listeners.mqtt.bind=",
        address.port()
    );
    check(&[&format!("listeners.mqtt.bind={address}")], &[&expected]);
}

#[test]
fn mistakes_in_settings_are_all_named() {
    check(
        &[
            "limits.packet_bytes_max=huge",
            "limits.conections_max=1",
            "queue.overflow=panic",
        ],
        &[
            "--set: limits.packet_bytes_max is \"huge\", which is not a size. Write a size from 64 to 268435460",
            "--set: limits.conections_max is not a setting. Did you mean limits.connections_max?",
            "--set: queue.overflow is \"panic\", which is not one of its words. Write ",
        ],
    );
}

#[test]
fn strangers_are_not_let_in_from_afar_by_accident() {
    check(
        &["listeners.mqtt.bind=0.0.0.0:0"],
        &[
            "listeners.mqtt.bind is 0.0.0.0:0, which other machines can reach, and no way to log in is configured. Set \
           access.password_file or access.jwt.*, or ask for client certificates, or let everybody in with \
           listeners.mqtt.anonymous = true",
        ],
    );
}

#[test]
fn files_of_every_kind_are_read_and_their_faults_are_named_at_once_with_their_lines() {
    let folder = Folder::new();
    let (one, other) = (Certificates::shared(), Certificates::new());
    folder.write("server.pem", &one.server);
    folder.write("other.key", &other.server_key);
    folder.write("users", "ada:hash\n");
    folder.write("acl", "# comment\ntopic fly #\n");
    folder.write("key", "short");
    let taken = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let taken = format!(
        "listeners.mqtt.bind={}",
        taken.local_addr().expect("it is bound")
    );
    let said = refused(
        &folder,
        &[
            "access.password_file={folder}/users",
            "access.acl_file={folder}/acl",
            "access.jwt.secret_file={folder}/key",
            "listeners.tls.bind=127.0.0.1:0",
            "listeners.tls.transport=tls",
            "listeners.tls.tls.certificate={folder}/server.pem",
            "listeners.tls.tls.key={folder}/other.key",
            "listeners.more.bind=127.0.0.1:0",
            "listeners.more.transport=tls",
            "listeners.more.tls.certificate={folder}/missing.pem",
            "listeners.more.tls.key={folder}/other.key",
            &taken,
        ],
    );
    let said = said.join("\n");
    let place = folder.path().display();
    for expected in [
        format!("{place}/users:1: "),
        format!("{place}/acl:2: \"fly\" is not an access word"),
        "the HS256 secret holds 5 bytes, fewer than 32 (RFC 7518 §3.2)".to_owned(),
        format!(
            "listener tls: the key in {place}/other.key does not match the certificate in {place}/server.pem; set \
             listeners.tls.tls.certificate and listeners.tls.tls.key to files that belong together"
        ),
        format!("listener more: cannot read {place}/missing.pem: "),
    ] {
        assert!(
            said.contains(&expected),
            "{said}\nshould contain: {expected}"
        );
    }
}

#[test]
fn an_encrypted_listener_needs_its_files() {
    check(
        &[
            "listeners.tls.bind=127.0.0.1:0",
            "listeners.tls.transport=tls",
        ],
        &[
            "listeners.tls.tls.certificate is missing, and listeners.tls.transport is tls. Set \
             listeners.tls.tls.certificate to the path of a PEM file",
            "listeners.tls.tls.key is missing",
        ],
    );
}

#[test]
fn a_place_for_a_socket_that_is_something_else_is_left_alone() {
    let folder = Folder::new();
    folder.write("notes", "mine");
    let said = refused(
        &folder,
        &[
            "listeners.unix.bind={folder}/notes",
            "listeners.unix.transport=unix",
        ],
    );
    assert!(
        said[0].contains("there is a file of that name, and it is not a socket"),
        "{said:?}"
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("notes")).expect("it is still there"),
        "mine"
    );
}
