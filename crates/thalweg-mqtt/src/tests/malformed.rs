//! Protocol errors of peers, and the answers to them: one row per error.

use super::*;
use Version::{V5, V31, V311};

/// Packets of a connected client: version, bytes, reason, clause.
const FROM_CLIENT: &[(Version, &str, u8, &str)] = &[
    // Fixed header. [MQTT-2.1.3-1] [MQTT3-2.2.2-1] [MQTT3-2.2.2-2]
    (V5, "00 00", 0x81, "§2.1.2"),
    (V311, "F0 00", 0x81, "§2.1.2"),
    (V5, "20 [ 00 00 00 ]", 0x82, "§2.1.2"),
    (V5, "90 [ 0001 00 00 ]", 0x82, "§2.1.2"),
    (V5, "B0 [ 0001 00 00 ]", 0x82, "§2.1.2"),
    (V5, "D0 00", 0x82, "§2.1.2"),
    (V5, "C1 00", 0x81, "MQTT-2.1.3-1"),
    (V311, "C4 00", 0x81, "MQTT-2.1.3-1"),
    (V5, "41 [ 0001 ]", 0x81, "MQTT-2.1.3-1"),
    (V5, "52 [ 0001 ]", 0x81, "MQTT-2.1.3-1"),
    (V5, "78 [ 0001 ]", 0x81, "MQTT-2.1.3-1"),
    (V5, "C0 01 00", 0x81, "MQTT-4.13.1-1"),
    // [MQTT-1.5.5-1]
    (V5, "C0 80 00", 0x81, "MQTT-1.5.5-1"),
    (V5, "30 FF FF FF FF 7F", 0x81, "MQTT-1.5.5-1"),
    (V311, "30 FF FF FF FF", 0x81, "MQTT-1.5.5-1"),
    (V5, "30 05 0001 61 80 00", 0x81, "MQTT-1.5.5-1"),
    (V5, "30 80 20", 0x95, "MQTT-3.2.2-15"),
    (V311, "30 FF FF FF 7F", 0x95, "MQTT-3.2.2-15"),
    // CONNECT again. [MQTT-3.1.0-2] [MQTT3-3.1.0-2]
    (V5, "10 [ 'MQTT' 05 02 003c [] 'c' ]", 0x82, "MQTT-3.1.0-2"),
    (V311, "10 [ 'MQTT' 04 02 003c 'c' ]", 0x82, "MQTT-3.1.0-2"),
    // PUBLISH. [MQTT3-3.3.1-4] [MQTT3-3.3.1-2] [MQTT3-3.3.2-2] [MQTT3-2.3.1-1] [MQTT3-1.5.3-1] [MQTT3-1.5.3-2]
    (V5, "36 [ 't' 0001 [] ]", 0x81, "MQTT-3.3.1-4"),
    (V311, "3F [ 't' 0001 ]", 0x81, "MQTT-3.3.1-4"),
    (V5, "38 [ 't' [] ]", 0x81, "MQTT-3.3.1-2"),
    (V311, "38 [ 't' ]", 0x81, "MQTT-3.3.1-2"),
    (V5, "30 [ 'a/+' [] ]", 0x90, "MQTT-3.3.2-2"),
    (V5, "30 [ 'a/#/something/long' [] ]", 0x90, "MQTT-3.3.2-2"),
    (V311, "30 [ '#' ]", 0x90, "MQTT-3.3.2-2"),
    (V5, "30 [ '' [] ]", 0x82, "MQTT-4.7.3-1"),
    (V31, "30 [ '' ]", 0x82, "MQTT-4.7.3-1"),
    (V5, "30 [ 0002 C328 [] ]", 0x81, "MQTT-1.5.4-1"),
    (V5, "30 [ 0003 EDA080 [] ]", 0x81, "MQTT-1.5.4-1"),
    (V311, "30 [ 0003 61FF62 ]", 0x81, "MQTT-1.5.4-1"),
    (V5, "30 [ 0003 610062 [] ]", 0x81, "MQTT-1.5.4-2"),
    (V311, "30 [ 0001 00 ]", 0x81, "MQTT-1.5.4-2"),
    (V5, "30 [ 0005 61 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "30 [ 00 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "30 [ 't' ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "30 [ 't' 05 01 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "32 [ 't' 00 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "32 [ 't' 0000 [] ]", 0x82, "MQTT-2.2.1-3"),
    (V311, "34 [ 't' 0000 ]", 0x82, "MQTT-2.2.1-3"),
    // Properties of PUBLISH.
    (V5, "30 [ 't' [ 23 0000 ] ]", 0x94, "MQTT-3.3.2-8"),
    (V5, "30 [ 't' [ 23 0005 ] ]", 0x94, "MQTT-3.3.2-9"),
    (V5, "30 [ '' [ 23 0005 ] ]", 0x94, "MQTT-3.3.2-9"),
    (V5, "30 [ '' [ 23 0001 ] ]", 0x82, "§3.3.2.3.4"),
    (V5, "30 [ 't' [ 0B 01 ] ]", 0x82, "MQTT-3.3.4-6"),
    (V5, "30 [ 't' [ 01 02 ] ]", 0x82, "§2.2.2.2"),
    (V5, "30 [ 't' [ 08 'a/+' ] ]", 0x82, "MQTT-3.3.2-14"),
    (V5, "30 [ 't' [ 08 '#' ] ]", 0x82, "MQTT-3.3.2-14"),
    (V5, "30 [ 't' [ 08 '' ] ]", 0x82, "MQTT-3.3.2-14"),
    (V5, "30 [ 't' [ 08 0001 FF ] ]", 0x81, "MQTT-1.5.4-1"),
    (V5, "30 [ 't' [ 03 0002 C328 ] ]", 0x81, "MQTT-1.5.4-1"),
    (V5, "30 [ 't' [ 26 'k' 0001 00 ] ]", 0x81, "MQTT-1.5.4-2"),
    (V5, "30 [ 't' [ 01 00 01 00 ] ]", 0x82, "§2.2.2.2"),
    (
        V5,
        "30 [ 't' [ 02 00000001 02 00000001 ] ]",
        0x82,
        "§2.2.2.2",
    ),
    (V5, "30 [ 't' [ 03 'a' 03 'a' ] ]", 0x82, "§2.2.2.2"),
    (V5, "30 [ 't' [ 08 'a' 08 'a' ] ]", 0x82, "§2.2.2.2"),
    (V5, "30 [ 't' [ 09 'a' 09 'a' ] ]", 0x82, "§2.2.2.2"),
    (V5, "30 [ 't' [ 23 0001 23 0001 ] ]", 0x82, "§2.2.2.2"),
    (V5, "30 [ 't' [ 7F 00 ] ]", 0x81, "§2.2.2.2"),
    (V5, "30 [ 't' [ 81 00 ] ]", 0x81, "§2.2.2.2"),
    (V5, "30 [ 't' [ 11 00000001 ] ]", 0x81, "§2.2.2.2"),
    (V5, "30 [ 't' [ 02 0000 ] ]", 0x81, "MQTT-4.13.1-1"),
    // Acknowledgements. [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT3-3.6.1-1]
    (V5, "40 [ 00 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "40 [ 0000 ]", 0x82, "MQTT-2.2.1-3"),
    (V5, "40 [ 0000 00 ]", 0x82, "MQTT-2.2.1-3"),
    (V311, "40 [ 0001 00 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "40 [ 0001 92 ]", 0x82, "MQTT-3.4.2-1"),
    (V5, "40 [ 0001 7F ]", 0x81, "§2.4"),
    (V5, "50 [ 0001 92 ]", 0x82, "MQTT-3.5.2-1"),
    (V5, "62 [ 0001 80 ]", 0x82, "MQTT-3.6.2-1"),
    (V5, "70 [ 0001 80 ]", 0x82, "MQTT-3.7.2-1"),
    (V5, "60 [ 0001 ]", 0x81, "MQTT-3.6.1-1"),
    (V311, "60 [ 0001 ]", 0x81, "MQTT-3.6.1-1"),
    (V311, "6A [ 0001 ]", 0x81, "MQTT-3.6.1-1"),
    (V5, "40 [ 0001 00 [ 01 00 ] ]", 0x81, "§2.2.2.2"),
    (V5, "40 [ 0001 00 [ 1F 'a' 1F 'a' ] ]", 0x82, "§2.2.2.2"),
    (V5, "40 [ 0001 00 [] 00 ]", 0x81, "MQTT-4.13.1-1"),
    // SUBSCRIBE. [MQTT3-3.8.1-1] [MQTT3-3.8.3-1] [MQTT3-3.8.3-3] [MQTT3-3-8.3-4] [MQTT-3.8.3-1]
    (V5, "80 [ 0001 [] 'a' 00 ]", 0x81, "MQTT-3.8.1-1"),
    (V311, "80 [ 0001 'a' 00 ]", 0x81, "MQTT-3.8.1-1"),
    (V5, "82 [ 0001 [] ]", 0x82, "MQTT-3.8.3-2"),
    (V311, "82 [ 0001 ]", 0x82, "MQTT-3.8.3-2"),
    (V5, "82 [ 0000 [] 'a' 00 ]", 0x82, "MQTT-2.2.1-3"),
    (V311, "82 [ 0000 'a' 00 ]", 0x82, "MQTT-2.2.1-3"),
    (V5, "82 [ 0001 [] 'a' 40 ]", 0x81, "MQTT-3.8.3-5"),
    (V5, "82 [ 0001 [] 'a' 80 ]", 0x81, "MQTT-3.8.3-5"),
    (V311, "82 [ 0001 'a' 04 ]", 0x81, "MQTT-3.8.3-5"),
    (V5, "82 [ 0001 [] 'a' 03 ]", 0x82, "§3.8.3.1"),
    (V311, "82 [ 0001 'a' 03 ]", 0x82, "§3.8.3.1"),
    (V5, "82 [ 0001 [] 'a' 30 ]", 0x82, "§3.8.3.1"),
    (V5, "82 [ 0001 [] '$share/g/a' 04 ]", 0x82, "MQTT-3.8.3-4"),
    (V5, "82 [ 0001 [] 'a' ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "82 [ 0001 [] 'a' 00 0005 61 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "82 [ 0001 [] 0001 FF 00 ]", 0x81, "MQTT-1.5.4-1"),
    (V5, "82 [ 0001 [ 0B 00 ] 'a' 00 ]", 0x82, "§3.8.2.1.2"),
    (V5, "82 [ 0001 [ 0B 01 0B 02 ] 'a' 00 ]", 0x82, "§2.2.2.2"),
    (V5, "82 [ 0001 [ 0B 8000 ] 'a' 00 ]", 0x81, "MQTT-1.5.5-1"),
    (V5, "82 [ 0001 [ 1F 'x' ] 'a' 00 ]", 0x81, "§2.2.2.2"),
    // UNSUBSCRIBE. [MQTT3-3.10.1-1] [MQTT3-3.10.3-1] [MQTT3-3.10.3-2] [MQTT-3.10.3-1]
    (V5, "A0 [ 0001 [] 'a' ]", 0x81, "MQTT-3.10.1-1"),
    (V311, "A0 [ 0001 'a' ]", 0x81, "MQTT-3.10.1-1"),
    (V5, "A2 [ 0001 [] ]", 0x82, "MQTT-3.10.3-2"),
    (V311, "A2 [ 0001 ]", 0x82, "MQTT-3.10.3-2"),
    (V5, "A2 [ 0000 [] 'a' ]", 0x82, "MQTT-2.2.1-3"),
    (V5, "A2 [ 0001 [] 0001 FF ]", 0x81, "MQTT-1.5.4-1"),
    (V5, "A2 [ 0001 [ 0B 01 ] 'a' ]", 0x81, "§2.2.2.2"),
    (V311, "A2 [ 0001 'a' 00 ]", 0x81, "MQTT-4.13.1-1"),
    // DISCONNECT. [MQTT3-3.14.1-1]
    (V5, "E1 00", 0x81, "MQTT-3.14.1-1"),
    (V311, "E2 00", 0x81, "MQTT-3.14.1-1"),
    (V311, "E0 [ 00 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "E0 [ 8D ]", 0x82, "MQTT-3.14.2-1"),
    (V5, "E0 [ 01 ]", 0x82, "MQTT-3.14.2-1"),
    (V5, "E0 [ 7E ]", 0x81, "§2.4"),
    (V5, "E0 [ 00 [ 11 00000001 ] ]", 0x82, "§3.14.2.2.2"),
    (V5, "E0 [ 00 [ 1C 'x' ] ]", 0x81, "§2.2.2.2"),
    (V5, "E0 [ 00 [] 00 ]", 0x81, "MQTT-4.13.1-1"),
    // AUTH.
    (V5, "F1 00", 0x81, "MQTT-3.15.1-1"),
    (V5, "F0 [ 18 [ 15 'x' ] ]", 0x82, "MQTT-4.12.0-7"),
];

#[test]
fn each_malformed_packet_of_a_client_is_answered_by_its_clause() {
    for (version, text, reason, clause) in FROM_CLIENT {
        let (_, mut server) = plain_pair(*version);
        let input = bytes(text);
        let fault = server.handle_input(&input).expect_err(text);
        assert_eq!(
            (fault.reason.byte(), fault.clause),
            (*reason, *clause),
            "{version} {text}: {fault}"
        );
        // MQTT 5 sends the reason [MQTT-4.13.1-1] [MQTT-3.14.1-1], MQTT 3 only closes. [MQTT3-4.8.0-1]
        let mut out = Vec::new();
        server.fault(&fault, &mut out);
        match version {
            V5 => assert_eq!((out[0], out[2]), (0xE0, *reason), "{text}"),
            _ => assert!(out.is_empty(), "{text}"),
        }
        assert_eq!(
            server.handle_input(&bytes("C0 00")),
            Ok(None),
            "nothing is read after a fault"
        );
    }
}

/// First packets: bytes, reason, clause, what the server answers.
const CONNECTS: &[(&str, u8, &str, &str)] = &[
    // [MQTT-3.1.0-1] [MQTT3-3.1.0-1]
    ("30 [ 't' ]", 0x82, "MQTT-3.1.0-1", ""),
    ("C0 00", 0x82, "MQTT-3.1.0-1", ""),
    ("E0 00", 0x82, "MQTT-3.1.0-1", ""),
    ("16", 0x81, "MQTT-2.1.3-1", ""),
    ("\"GET / HTTP/1.1\"", 0x82, "MQTT-3.1.0-1", ""),
    ("11 [ 'MQTT' 05 02 003c [] 'c' ]", 0x81, "MQTT-2.1.3-1", ""),
    // Protocol name and level. [MQTT-3.1.2-1] [MQTT-3.1.2-2] [MQTT3-3.1.2-1] [MQTT3-3.1.2-2]
    ("10 [ 'mqtt' 05 02 003c [] 'c' ]", 0x84, "MQTT-3.1.2-1", ""),
    ("10 [ 'MQT' 05 02 003c [] 'c' ]", 0x84, "MQTT-3.1.2-1", ""),
    (
        "10 [ 'MQTT' 06 02 003c [] 'c' ]",
        0x84,
        "MQTT-3.1.2-2",
        "20 [ 00 84 [] ]",
    ),
    (
        "10 [ 'MQTT' 03 02 003c 'c' ]",
        0x84,
        "MQTT-3.1.2-2",
        "20 [ 00 01 ]",
    ),
    (
        "10 [ 'MQTT' 00 02 003c 'c' ]",
        0x84,
        "MQTT-3.1.2-2",
        "20 [ 00 01 ]",
    ),
    (
        "10 [ 'MQIsdp' 04 02 003c 'c' ]",
        0x84,
        "MQTT-3.1.2-2",
        "20 [ 00 01 ]",
    ),
    ("10 [ 'MQTT' ]", 0x81, "MQTT-4.13.1-1", ""),
    (
        "10 [ 'MQTT' 85 02 003c [] 'c' ]",
        0x84,
        "MQTT-3.1.2-2",
        "20 [ 00 84 [] ]",
    ),
    // Flags. [MQTT-3.1.2-3] [MQTT-3.1.2-11] [MQTT-3.1.2-12] [MQTT-3.1.2-13] [MQTT3-3.1.2-3] [MQTT3-3.1.2-13]
    // [MQTT3-3.1.2-14] [MQTT3-3.1.2-15] [MQTT3-3.1.2-22] [MQTT3-3.1.4-1] [MQTT-3.1.4-1]
    (
        "10 [ 'MQTT' 05 03 003c [] 'c' ]",
        0x81,
        "MQTT-3.1.2-3",
        "81",
    ),
    ("10 [ 'MQTT' 04 03 003c 'c' ]", 0x81, "MQTT-3.1.2-3", ""),
    (
        "10 [ 'MQTT' 05 0A 003c [] 'c' ]",
        0x81,
        "MQTT-3.1.2-11",
        "81",
    ),
    ("10 [ 'MQTT' 04 0A 003c 'c' ]", 0x81, "MQTT-3.1.2-11", ""),
    (
        "10 [ 'MQTT' 05 1E 003c [] 'c' [] 'w' 'x' ]",
        0x81,
        "MQTT-3.1.2-12",
        "81",
    ),
    (
        "10 [ 'MQTT' 04 1E 003c 'c' 'w' 'x' ]",
        0x81,
        "MQTT-3.1.2-12",
        "",
    ),
    (
        "10 [ 'MQTT' 05 22 003c [] 'c' ]",
        0x81,
        "MQTT-3.1.2-13",
        "81",
    ),
    ("10 [ 'MQTT' 04 22 003c 'c' ]", 0x81, "MQTT-3.1.2-13", ""),
    (
        "10 [ 'MQTT' 04 42 003c 'c' 'pw' ]",
        0x81,
        "MQTT3-3.1.2-22",
        "",
    ),
    (
        "10 [ 'MQIsdp' 03 42 003c 'c' 'pw' ]",
        0x81,
        "MQTT3-3.1.2-22",
        "",
    ),
    // Presence and order of fields. [MQTT-3.1.2-9] [MQTT-3.1.2-16] [MQTT-3.1.2-17] [MQTT-3.1.2-18] [MQTT-3.1.2-19]
    // [MQTT-3.1.3-1] [MQTT-3.1.3-3] [MQTT3-3.1.2-18] [MQTT3-3.1.2-19] [MQTT3-3.1.2-20] [MQTT3-3.1.2-21]
    ("10 [ 'MQTT' 05 02 003c [] ]", 0x81, "MQTT-4.13.1-1", "81"),
    (
        "10 [ 'MQTT' 05 06 003c [] 'c' ]",
        0x81,
        "MQTT-4.13.1-1",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 06 003c [] 'c' [] 'w' ]",
        0x81,
        "MQTT-4.13.1-1",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 82 003c [] 'c' ]",
        0x81,
        "MQTT-4.13.1-1",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 42 003c [] 'c' ]",
        0x81,
        "MQTT-4.13.1-1",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [] 'c' 'extra' ]",
        0x81,
        "MQTT-4.13.1-1",
        "81",
    ),
    ("10 [ 'MQTT' 04 82 003c 'c' ]", 0x81, "MQTT-4.13.1-1", ""),
    (
        "10 [ 'MQTT' 04 C2 003c 'c' 'u' ]",
        0x81,
        "MQTT-4.13.1-1",
        "",
    ),
    (
        "10 [ 'MQTT' 04 02 003c 'c' 'extra' ]",
        0x81,
        "MQTT-4.13.1-1",
        "",
    ),
    ("10 [ 'MQTT' 05 02 00 ]", 0x81, "MQTT-4.13.1-1", "81"),
    // Strings. [MQTT-3.1.3-4] [MQTT-3.1.3-11] [MQTT-3.1.3-12] [MQTT3-3.1.3-4] [MQTT3-3.1.3-10] [MQTT3-3.1.3-11]
    (
        "10 [ 'MQTT' 05 02 003c [] 0001 FF ]",
        0x81,
        "MQTT-1.5.4-1",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [] 0001 00 ]",
        0x81,
        "MQTT-1.5.4-2",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 06 003c [] 'c' [] 0001 FF 'x' ]",
        0x81,
        "MQTT-1.5.4-1",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 82 003c [] 'c' 0001 FF ]",
        0x81,
        "MQTT-1.5.4-1",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 06 003c [] 'c' [] 'w/#' 'x' ]",
        0x90,
        "MQTT-4.7.0-1",
        "90",
    ),
    (
        "10 [ 'MQTT' 05 06 003c [] 'c' [] '' 'x' ]",
        0x90,
        "MQTT-4.7.0-1",
        "90",
    ),
    (
        "10 [ 'MQTT' 04 06 003c 'c' 'w/+' 'x' ]",
        0x90,
        "MQTT-4.7.0-1",
        "",
    ),
    // Client identifiers. [MQTT-3.1.3-8] [MQTT3-3.1.3-7] [MQTT3-3.1.3-8] [MQTT3-3.1.3-9]
    (
        "10 [ 'MQTT' 04 00 003c '' ]",
        0x85,
        "MQTT3-3.1.3-8",
        "20 [ 00 02 ]",
    ),
    (
        "10 [ 'MQIsdp' 03 02 003c '' ]",
        0x85,
        "MQTT3-3.1.3-8",
        "20 [ 00 02 ]",
    ),
    (
        "10 [ 'MQTT' 04 02 003c '0123456789012345678901234567890' ]",
        0x85,
        "MQTT-3.1.3-8",
        "20 [ 00 02 ]",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [] '0123456789012345678901234567890' ]",
        0x85,
        "MQTT-3.1.3-8",
        "85",
    ),
    // Properties.
    (
        "10 [ 'MQTT' 05 02 003c [ 21 0000 ] 'c' ]",
        0x82,
        "§3.1.2.11.3",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 27 00000000 ] 'c' ]",
        0x82,
        "§3.1.2.11.4",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 19 02 ] 'c' ]",
        0x82,
        "§2.2.2.2",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 17 02 ] 'c' ]",
        0x82,
        "§2.2.2.2",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 11 00000001 11 00000001 ] 'c' ]",
        0x82,
        "§2.2.2.2",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 22 0001 22 0001 ] 'c' ]",
        0x82,
        "§2.2.2.2",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 15 'a' 15 'a' ] 'c' ]",
        0x82,
        "§2.2.2.2",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 16 'a' ] 'c' ]",
        0x82,
        "§3.1.2.11.10",
        "82",
    ),
    (
        "10 [ 'MQTT' 05 02 003c [ 24 01 ] 'c' ]",
        0x81,
        "§2.2.2.2",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 06 003c [] 'c' [ 11 00000001 ] 'w' 'x' ]",
        0x81,
        "§2.2.2.2",
        "81",
    ),
    (
        "10 [ 'MQTT' 05 06 003c [] 'c' [ 18 00000001 18 00000001 ] 'w' 'x' ]",
        0x82,
        "§2.2.2.2",
        "82",
    ),
    (
        "10 90 00 'MQTT' 05 02 003c [] 'abc'",
        0x81,
        "MQTT-1.5.5-1",
        "81",
    ),
];

#[test]
fn each_malformed_first_packet_is_answered_by_its_clause() {
    for (text, reason, clause, answer) in CONNECTS {
        let mut server = ServerSide::new(ServerLimits {
            client_id_bytes_max: 30,
            ..limits()
        });
        let input = bytes(text);
        let fault = server.handle_input(&input).expect_err(text);
        assert_eq!(
            (fault.reason.byte(), fault.clause),
            (*reason, *clause),
            "{text}: {fault}"
        );
        let mut out = Vec::new();
        server.fault(&fault, &mut out);
        if answer.len() == 2 {
            // CONNACK of MQTT 5 with this code, no session [MQTT-3.2.2-6], and a reason in words.
            assert_eq!(
                (out[0], out[2], out[3]),
                (0x20, 0, bytes(answer)[0]),
                "{text}"
            );
        } else {
            assert_eq!(out, bytes(answer), "{text}");
        }
        assert_eq!(server.handle_input(&bytes("C0 00")), Ok(None));
    }
}

/// A CONNECT is refused in the words of its version as soon as these are known, however little of it has come.
#[test]
fn a_connect_above_its_limit_is_refused_before_it_is_awaited() {
    let refusal = |first: &[u8]| {
        let mut server = ServerSide::new(ServerLimits {
            connect_bytes_max: 64,
            ..limits()
        });
        for cut in 0..first.len() {
            assert_eq!(server.handle_input(&first[..cut]), Ok(None), "cut at {cut}");
        }
        let fault = server.handle_input(first).expect_err("too long");
        let mut out = Vec::new();
        server.fault(&fault, &mut out);
        assert_eq!(server.handle_input(first), Ok(None));
        (fault, out)
    };
    let (fault, out) = refusal(&bytes("10 7F 'MQTT' 05"));
    assert_eq!(fault, PeerFault::CONNECT_TOO_LARGE);
    assert_eq!((out[0], out[2], out[3]), (0x20, 0, 0x95));
    // MQTT 3 has no return code for it.
    assert_eq!(
        refusal(&bytes("10 7F 'MQTT' 04")),
        (PeerFault::CONNECT_TOO_LARGE, Vec::new())
    );
    assert_eq!(
        refusal(&bytes("10 7F 'MQIsdp' 03")),
        (PeerFault::CONNECT_TOO_LARGE, Vec::new())
    );
    assert_eq!(
        refusal(&bytes("10 7F 'MQTT' 09")),
        (PeerFault::PROTOCOL_LEVEL, Vec::new())
    );
    assert_eq!(refusal(&bytes("10 7F 'MQTA'")).0, PeerFault::PROTOCOL_NAME);
}

/// Packets between CONNECT and CONNACK come from an unauthenticated peer, too.
#[test]
fn an_auth_packet_above_the_limit_of_a_connect_is_refused_before_connack() {
    let mut server = ServerSide::new(ServerLimits {
        connect_bytes_max: 64,
        ..limits()
    });
    let connect = bytes("10 [ 'MQTT' 05 02 003c [ 15 'X' ] 'c' ]");
    assert!(matches!(
        server.handle_input(&connect),
        Ok(Some((_, Event::Connect(_))))
    ));
    assert_eq!(
        server.handle_input(&bytes("F0 7F 18")),
        Err(PeerFault::PACKET_TOO_LARGE)
    );
    server.connack(&ConnAck::default(), &mut Vec::new());
    assert_eq!(server.handle_input(&bytes("F0 7F 18")), Ok(None));
}

/// Packets of a server to a connected client: version, bytes, reason, clause.
const FROM_SERVER: &[(Version, &str, u8, &str)] = &[
    (V5, "20 [ 00 00 [] ]", 0x82, "MQTT-3.2.0-2"),
    (V5, "82 [ 0001 [] 'a' 00 ]", 0x82, "§2.1.2"),
    (V5, "C0 00", 0x82, "§2.1.2"),
    (V311, "E0 00", 0x82, "§2.1.2"),
    (V311, "F0 00", 0x81, "§2.1.2"),
    (V5, "00 00", 0x81, "§2.1.2"),
    (V5, "D1 00", 0x81, "MQTT-2.1.3-1"),
    (V5, "D0 01 00", 0x81, "MQTT-4.13.1-1"),
    (V5, "30 [ 't' [ 23 0009 ] ]", 0x94, "MQTT-3.3.2-9"),
    (V5, "30 [ 't' [ 0B 00 ] ]", 0x82, "§3.8.2.1.2"),
    (V5, "90 [ 0001 [] ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "90 [ 0001 [] 03 ]", 0x81, "§2.4"),
    (V5, "90 [ 0001 [] 82 ]", 0x82, "MQTT-3.9.3-2"),
    (V311, "90 [ 0001 87 ]", 0x82, "MQTT-3.9.3-2"),
    (V5, "90 [ 0000 [] 00 ]", 0x82, "MQTT-2.2.1-3"),
    (V5, "B0 [ 0001 [] 80 01 ]", 0x82, "MQTT-3.11.3-2"),
    (V311, "B0 [ 0001 00 ]", 0x81, "MQTT-4.13.1-1"),
    (V5, "E0 [ 04 ]", 0x82, "MQTT-3.14.2-1"),
    (V5, "E0 [ 00 [ 11 00000001 ] ]", 0x82, "MQTT-3.14.2-2"),
    (V5, "F0 [ 18 [ 15 'x' ] ]", 0x82, "MQTT-4.12.0-7"),
    (V5, "62 [ 0001 92 ] 60 [ 0001 ]", 0x81, "MQTT-3.6.1-1"),
];

#[test]
fn each_malformed_packet_of_a_server_is_answered_by_its_clause() {
    for (version, text, reason, clause) in FROM_SERVER {
        let (mut client, _) = plain_pair(*version);
        let input = bytes(text);
        let mut rest = &input[..];
        let fault = loop {
            match client.handle_input(rest) {
                Ok(Some((consumed, _))) => rest = &rest[consumed..],
                Ok(None) => panic!("{text} was taken"),
                Err(fault) => break fault,
            }
        };
        assert_eq!(
            (fault.reason.byte(), fault.clause),
            (*reason, *clause),
            "{version} {text}: {fault}"
        );
    }
}

/// [MQTT-3.2.0-1] [MQTT-3.2.2-1] [MQTT-3.2.2-6] [MQTT-3.2.2-8] [MQTT3-3.2.0-1] [MQTT3-3.2.2-4]
#[test]
fn a_client_takes_nothing_but_a_valid_connack_first() {
    for (version, text, clause) in [
        (V5, "30 [ 't' [] ]", "MQTT-3.2.0-1"),
        (V311, "D0 00", "MQTT-3.2.0-1"),
        (V5, "20 [ 02 00 [] ]", "MQTT-3.2.2-1"),
        (V5, "20 [ 01 80 [] ]", "MQTT-3.2.2-6"),
        (V311, "20 [ 01 05 ]", "MQTT-3.2.2-6"),
        (V5, "20 [ 00 93 [] ]", "MQTT-3.2.2-8"),
        (V311, "20 [ 00 06 ]", "MQTT-3.2.2-8"),
        (V311, "20 [ 00 00 00 ]", "MQTT-4.13.1-1"),
        (V5, "20 [ 00 00 ]", "MQTT-4.13.1-1"),
        (V5, "20 [ 00 00 [ 24 02 ] ]", "§2.2.2.2"),
        (V5, "20 [ 00 00 [ 21 0000 ] ]", "§3.1.2.11.3"),
        (V5, "20 [ 00 00 [ 01 00 ] ]", "§2.2.2.2"),
        (V5, "20 [ 00 00 [ 12 'a' 12 'a' ] ]", "§2.2.2.2"),
    ] {
        let mut client = ClientSide::new(1 << 20);
        let mut out = Vec::new();
        client
            .connect(
                &ConnectOut {
                    version,
                    client_id: "c",
                    ..ConnectOut::default()
                },
                &mut out,
            )
            .expect("fits");
        let input = bytes(text);
        match client.handle_input(&input) {
            Err(fault) => assert_eq!(fault.clause, clause, "{version} {text}"),
            Ok(_) => panic!("{text} was taken"),
        }
    }
}

/// In MQTT 3.1 SUBSCRIBE, UNSUBSCRIBE and PUBREL are QoS 1 packets that may carry DUP, the reserved CONNECT flag is
/// open, and a client identifier may exceed 23 bytes where the limit allows.
#[test]
fn mqtt31_has_its_own_liberties() {
    let (_, mut server) = plain_pair(V31);
    for text in ["8A [ 0001 'a' 00 ]", "AA [ 0001 'a' ]", "6A [ 0001 ]"] {
        assert!(
            matches!(server.handle_input(&bytes(text)), Ok(Some(_))),
            "{text}"
        );
    }
    for text in [
        "10 [ 'MQIsdp' 03 03 003c 'c' ]",
        "10 [ 'MQIsdp' 03 C2 003c 'c' ]",
        "10 [ 'MQIsdp' 03 C2 003c 'c' 'u' ]",
        "10 [ 'MQIsdp' 03 02 003c 'a-name-of-more-than-twenty-three-bytes' ]",
    ] {
        let mut server = ServerSide::new(limits());
        assert!(
            matches!(
                server.handle_input(&bytes(text)),
                Ok(Some((_, Event::Connect(_))))
            ),
            "{text}"
        );
    }
}

#[test]
fn every_fault_has_a_clause_and_a_sentence() {
    for fault in PeerFault::ALL {
        assert!(fault.reason.is_error(), "{fault}");
        assert!(
            fault.clause.starts_with("MQTT") || fault.clause.starts_with('§'),
            "{fault}"
        );
        assert!(
            fault.to_string().contains("the peer is at fault"),
            "{fault}"
        );
    }
}
