//! Two ends in memory, all bytes at once or one at a time.

use std::sync::Arc;

use super::certificates::{Authority, Folder, server_files};
use super::client::{TlsClientFiles, TlsConnector, websocket};
use super::tls::{ClientCertificates, NameFrom, TlsAcceptor, TlsFault, TlsFiles, TlsOldest};
use super::websocket::{Messages, WebSocketLayer, WebSocketSettings};
use super::{Filtered, Transport, TransportFault};

pub(crate) struct Pair {
    client: Box<Filtered>,
    server: Box<Filtered>,
    at_client: Vec<u8>,
    at_server: Vec<u8>,
    /// Wire bytes under way to the client, and to the server.
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    /// Wire bytes that arrive at once.
    piece: usize,
}

impl Pair {
    fn new(client: Transport, server: Transport) -> Pair {
        let (Transport::Filtered(client), Transport::Filtered(server)) = (client, server) else {
            panic!("both ends have a filter");
        };
        let empty = Vec::new;
        Pair {
            client,
            server,
            at_client: empty(),
            at_server: empty(),
            to_client: empty(),
            to_server: empty(),
            piece: 65_536,
        }
    }

    /// Passes bytes on until both ends are quiet.
    fn exchange(&mut self) -> Result<(), TransportFault> {
        loop {
            self.client.take_output(&mut self.to_server);
            self.server.take_output(&mut self.to_client);
            if self.to_client.is_empty() && self.to_server.is_empty() {
                return Ok(());
            }
            let (to_server, to_client) = (
                std::mem::take(&mut self.to_server),
                std::mem::take(&mut self.to_client),
            );
            let mut outcome = Ok(());
            for piece in to_server.chunks(self.piece) {
                outcome = outcome.and(self.server.handle_input(piece, &mut self.at_server));
            }
            self.server.take_output(&mut self.to_client);
            for piece in to_client.chunks(self.piece) {
                outcome = outcome.and(self.client.handle_input(piece, &mut self.at_client));
            }
            outcome?;
        }
    }

    fn client_says(&mut self, bytes: &[u8]) -> Result<(), TransportFault> {
        self.client.encode(bytes, &mut self.to_server)?;
        self.exchange()
    }

    fn server_says(&mut self, bytes: &[u8]) -> Result<(), TransportFault> {
        self.server.encode(bytes, &mut self.to_client)?;
        self.exchange()
    }

    /// Both directions carry what they should, in order.
    pub(crate) fn check(&mut self) {
        self.client_says(b"to the ").unwrap();
        self.client_says(b"server").unwrap();
        let long: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        self.server_says(b"to the client: ").unwrap();
        self.server_says(&long).unwrap();
        assert_eq!(std::mem::take(&mut self.at_server), b"to the server");
        let got = std::mem::take(&mut self.at_client);
        assert_eq!(got.split_at(15), (&b"to the client: "[..], &long[..]));
    }
}

pub(crate) fn tls(acceptor: &TlsAcceptor, files: &TlsClientFiles) -> Pair {
    let connector = TlsConnector::new(files).unwrap();
    let client = Filtered::stack(Some(connector.connect("localhost").unwrap()), None);
    Pair::new(
        client,
        Filtered::stack(Some(acceptor.accept().unwrap()), None),
    )
}

fn settings() -> Arc<WebSocketSettings> {
    Arc::new(WebSocketSettings::default())
}

fn ws() -> Pair {
    let client = websocket("broker.test", "/mqtt", "mqtt", &settings());
    Pair::new(Filtered::stack(None, Some(client)), ws_server())
}

fn ws_server() -> Transport {
    Filtered::stack(None, Some(WebSocketLayer::server(&settings())))
}

mod tls_layer {
    use super::*;

    struct Bench {
        folder: Folder,
        authority: Authority,
        acceptor: TlsAcceptor,
    }

    fn bench(wanted: ClientCertificates) -> Bench {
        let folder = Folder::new();
        let authority = Authority::new(&folder, "authority");
        let acceptor = TlsAcceptor::new(server_files(&folder, &authority, wanted)).unwrap();
        Bench {
            folder,
            authority,
            acceptor,
        }
    }

    impl Bench {
        fn trusting(&self) -> TlsClientFiles {
            TlsClientFiles {
                ca: Some(self.authority.file.clone()),
                ..TlsClientFiles::default()
            }
        }

        fn showing(&self, common: &str, alternative: &str) -> TlsClientFiles {
            let identity = Some(
                self.authority
                    .issue(&self.folder, "client", common, alternative),
            );
            TlsClientFiles {
                identity,
                ..self.trusting()
            }
        }
    }

    #[test]
    fn bytes_pass_both_ways_whole_and_one_at_a_time() {
        let bench = bench(ClientCertificates::None);
        for piece in [65_536, 1] {
            let mut pair = tls(&bench.acceptor, &bench.trusting());
            pair.piece = piece;
            assert!(pair.server.is_handshaking());
            pair.check();
            assert!(!pair.server.is_handshaking());
            assert_eq!(pair.server.certificate_name(), None);
        }
    }

    #[test]
    fn what_is_said_before_the_handshake_is_complete_arrives_after_it() {
        let bench = bench(ClientCertificates::None);
        let mut pair = tls(&bench.acceptor, &bench.trusting());
        pair.client.encode(b"early", &mut pair.to_server).unwrap();
        pair.exchange().unwrap();
        assert_eq!(pair.at_server, b"early");
    }

    #[test]
    fn close_notify_is_seen_and_what_came_before_it_is_not_lost() {
        let bench = bench(ClientCertificates::None);
        let mut pair = tls(&bench.acceptor, &bench.trusting());
        pair.exchange().unwrap();
        pair.client
            .encode(b"last words", &mut pair.to_server)
            .unwrap();
        pair.client.close(&mut pair.to_server);
        // Bytes behind close_notify do not count (RFC 8446 §6.1), and must not make the reader turn in circles.
        pair.to_server.extend_from_slice(b"nonsense");
        pair.exchange().unwrap();
        assert_eq!(pair.at_server, b"last words");
        assert!(pair.server.is_closed());
    }

    #[test]
    fn an_optional_certificate_gives_a_name_when_it_is_shown() {
        let bench = bench(ClientCertificates::Optional);
        let mut without = tls(&bench.acceptor, &bench.trusting());
        without.check();
        assert_eq!(without.server.certificate_name(), None);
        let mut with = tls(&bench.acceptor, &bench.showing("pump-7", "pump.test"));
        with.check();
        assert_eq!(with.server.certificate_name().as_deref(), Some("pump-7"));
    }

    #[test]
    fn a_certificate_without_common_name_gives_its_first_alternative_name() {
        let bench = bench(ClientCertificates::Required);
        let mut pair = tls(&bench.acceptor, &bench.showing("", "valve.test"));
        pair.check();
        assert_eq!(
            pair.server.certificate_name().as_deref(),
            Some("valve.test")
        );
    }

    #[test]
    fn the_name_comes_from_where_the_listener_says() {
        let bench = bench(ClientCertificates::Required);
        let client = bench.showing("pump-7", "pump.test");
        let table = [
            (NameFrom::Either, Some("pump-7")),
            (NameFrom::CommonName, Some("pump-7")),
            (NameFrom::AlternativeName, Some("pump.test")),
            (NameFrom::Nowhere, None),
        ];
        for (name_from, name) in table {
            let files = TlsFiles {
                name_from,
                oldest: TlsOldest::V13,
                ..bench.acceptor.files().clone()
            };
            let mut pair = tls(&TlsAcceptor::new(files).unwrap(), &client);
            pair.check();
            assert_eq!(
                pair.server.certificate_name().as_deref(),
                name,
                "{name_from:?}"
            );
        }
    }

    #[test]
    fn a_required_certificate_that_is_missing_ends_the_handshake_in_words() {
        let bench = bench(ClientCertificates::Required);
        let fault = tls(&bench.acceptor, &bench.trusting())
            .exchange()
            .unwrap_err();
        assert!(
            fault.to_string().contains("client certificate is required"),
            "{fault}"
        );
    }

    #[test]
    fn a_certificate_of_another_authority_is_refused_even_if_optional() {
        let bench = bench(ClientCertificates::Optional);
        let stranger = Authority::new(&bench.folder, "stranger");
        let identity = Some(stranger.issue(&bench.folder, "client", "pump-7", "pump.test"));
        let mut pair = tls(
            &bench.acceptor,
            &TlsClientFiles {
                identity,
                ..bench.trusting()
            },
        );
        let fault = pair.exchange().unwrap_err();
        assert!(
            fault.to_string().contains("invalid peer certificate"),
            "{fault}"
        );
        // The peer gets an alert.
        pair.server.take_output(&mut pair.to_client);
        assert!(!pair.to_client.is_empty());
    }

    #[test]
    fn a_server_whose_certificate_is_not_trusted_is_told_of_in_words_that_help() {
        let bench = bench(ClientCertificates::Optional);
        let stranger = Authority::new(&bench.folder, "stranger");
        let trusting = TlsClientFiles {
            ca: Some(stranger.file.clone()),
            ..TlsClientFiles::default()
        };
        let fault = tls(&bench.acceptor, &trusting)
            .exchange()
            .unwrap_err()
            .to_string();
        assert!(fault.contains("name the file of the authority"), "{fault}");
        // A certificate as `openssl req -x509` makes it, used by the server itself.
        let key = bench.folder.file("stranger.key");
        let files = server_files(
            &bench.folder,
            &bench.authority,
            ClientCertificates::Optional,
        );
        let acceptor = TlsAcceptor::new(TlsFiles {
            certificate: stranger.file.clone(),
            key,
            ..files
        })
        .unwrap();
        let fault = tls(&acceptor, &trusting)
            .exchange()
            .unwrap_err()
            .to_string();
        assert!(
            fault.contains("CA:FALSE") && !fault.contains("OtherError"),
            "{fault}"
        );
    }

    #[test]
    fn a_resumed_session_keeps_the_name_and_a_reload_ends_it() {
        let bench = bench(ClientCertificates::Required);
        let connector = TlsConnector::new(&bench.showing("pump-7", "pump.test")).unwrap();
        let connect = |acceptor: &TlsAcceptor| {
            let client = Filtered::stack(Some(connector.connect("localhost").unwrap()), None);
            let mut pair = Pair::new(
                client,
                Filtered::stack(Some(acceptor.accept().unwrap()), None),
            );
            pair.exchange().unwrap();
            assert_eq!(pair.server.certificate_name().as_deref(), Some("pump-7"));
            pair.server.tls.as_ref().unwrap().is_resumed()
        };
        assert!(!connect(&bench.acceptor));
        assert!(connect(&bench.acceptor));
        bench.acceptor.reload().unwrap();
        assert!(!connect(&bench.acceptor));
    }

    #[test]
    fn a_reload_serves_the_new_certificate_and_established_connections_go_on() {
        let bench = bench(ClientCertificates::None);
        let mut old = tls(&bench.acceptor, &bench.trusting());
        old.check();
        let next = Authority::new(&bench.folder, "next");
        next.issue(&bench.folder, "server", "the broker", "localhost");
        bench.acceptor.reload().unwrap();
        let fault = tls(&bench.acceptor, &bench.trusting())
            .exchange()
            .unwrap_err();
        assert!(
            fault.to_string().contains("nobody we trust has signed it"),
            "{fault}"
        );
        tls(
            &bench.acceptor,
            &TlsClientFiles {
                ca: Some(next.file.clone()),
                ..TlsClientFiles::default()
            },
        )
        .check();
        old.check();
    }

    #[test]
    fn a_reload_of_a_damaged_file_changes_nothing() {
        let bench = bench(ClientCertificates::None);
        bench.folder.write("server.key", "not a key");
        assert!(matches!(
            bench.acceptor.reload(),
            Err(TlsFault::Nothing {
                wanted: "private key",
                ..
            })
        ));
        tls(&bench.acceptor, &bench.trusting()).check();
    }

    #[test]
    fn the_insecure_client_trusts_anybody() {
        let bench = bench(ClientCertificates::None);
        tls(
            &bench.acceptor,
            &TlsClientFiles {
                insecure: true,
                ..TlsClientFiles::default()
            },
        )
        .check();
    }

    #[test]
    fn plain_text_on_a_tls_port_is_called_by_its_name() {
        let bench = bench(ClientCertificates::None);
        let Transport::Filtered(mut server) =
            Filtered::stack(Some(bench.acceptor.accept().unwrap()), None)
        else {
            panic!("a filter");
        };
        let fault = server
            .handle_input(b"\x10\x0c\0\x04MQTT\x05\x02\0\x3c\0\0\0", &mut Vec::new())
            .unwrap_err();
        assert!(
            fault.to_string().contains("plain text to a TLS port"),
            "{fault}"
        );
    }

    #[test]
    fn unusable_files_are_faults_in_words() {
        let bench = bench(ClientCertificates::None);
        let files = bench.acceptor.files().clone();
        let other = bench
            .authority
            .issue(&bench.folder, "other", "other", "other.test");
        let table: [(TlsFiles, &str); 6] = [
            (
                TlsFiles {
                    certificate: bench.folder.file("gone.pem"),
                    ..files.clone()
                },
                "cannot read",
            ),
            (
                TlsFiles {
                    certificate: files.key.clone(),
                    ..files.clone()
                },
                "no certificate in",
            ),
            (
                TlsFiles {
                    key: files.certificate.clone(),
                    ..files.clone()
                },
                "no private key in",
            ),
            (
                TlsFiles {
                    key: other.1,
                    ..files.clone()
                },
                "does not match the certificate in",
            ),
            (
                TlsFiles {
                    client_ca: None,
                    client_certificates: ClientCertificates::Required,
                    ..files.clone()
                },
                "no CA file",
            ),
            (
                TlsFiles {
                    certificate: bench
                        .folder
                        .write("cut.pem", "-----BEGIN CERTIFICATE-----\nMII"),
                    ..files
                },
                "cannot use",
            ),
        ];
        for (files, words) in table {
            let fault = TlsAcceptor::new(files).unwrap_err();
            assert!(
                fault.to_string().contains(words),
                "{fault} does not say: {words}"
            );
        }
    }

    #[test]
    fn websocket_inside_tls_works_whole_and_one_byte_at_a_time() {
        let bench = bench(ClientCertificates::Optional);
        for piece in [65_536, 1] {
            let connector = TlsConnector::new(&bench.showing("pump-7", "pump.test")).unwrap();
            let client = websocket("localhost", "/mqtt", "mqtt", &settings());
            let client =
                Filtered::stack(Some(connector.connect("localhost").unwrap()), Some(client));
            let server = Filtered::stack(
                Some(bench.acceptor.accept().unwrap()),
                Some(WebSocketLayer::server(&settings())),
            );
            let mut pair = Pair::new(client, server);
            pair.piece = piece;
            pair.check();
            assert_eq!(pair.server.certificate_name().as_deref(), Some("pump-7"));
            assert_eq!(pair.server.sub_protocol(), Some("mqtt"));
            pair.server.close(&mut pair.to_client);
            pair.exchange().unwrap();
            assert!(pair.client.is_closed() && pair.server.is_closed());
        }
    }
}

mod websocket_layer {
    use super::*;

    /// A server past its upgrade, and the wire bytes it says to `wire`, the protocol bytes it gets.
    fn hears(wire: &[u8]) -> (Box<Filtered>, Vec<u8>, Vec<u8>, Result<(), TransportFault>) {
        hears_with(&settings(), wire)
    }

    fn hears_with(
        settings: &Arc<WebSocketSettings>,
        wire: &[u8],
    ) -> (Box<Filtered>, Vec<u8>, Vec<u8>, Result<(), TransportFault>) {
        let server = Filtered::stack(None, Some(WebSocketLayer::server(settings)));
        let Transport::Filtered(mut server) = server else {
            panic!("a filter")
        };
        let (mut plain, mut said) = (Vec::new(), Vec::new());
        server.handle_input(REQUEST.as_bytes(), &mut plain).unwrap();
        server.take_output(&mut said);
        assert!(said.starts_with(b"HTTP/1.1 101"));
        said.clear();
        let outcome = wire
            .chunks(3)
            .try_for_each(|piece| server.handle_input(piece, &mut plain));
        server.take_output(&mut said);
        (server, said, plain, outcome)
    }

    const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: broker.test\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: chat, mqttv3.1\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

    /// A masked client frame (RFC 6455 §5.2) of at most 125 bytes.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let mut frame = vec![first, 0x80 | payload.len() as u8];
        frame.extend(mask);
        frame.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        frame
    }

    #[test]
    fn bytes_pass_both_ways_whole_and_one_at_a_time() {
        for piece in [65_536, 1] {
            let mut pair = ws();
            pair.piece = piece;
            pair.check();
            assert_eq!(pair.server.sub_protocol(), Some("mqtt"));
        }
    }

    #[test]
    fn the_upgrade_answers_with_the_key_of_the_specification_and_the_best_sub_protocol_that_is_offered()
     {
        let Transport::Filtered(mut server) = ws_server() else {
            panic!("a filter")
        };
        let mut said = Vec::new();
        for byte in REQUEST.as_bytes().chunks(1) {
            assert!(server.is_handshaking());
            server.handle_input(byte, &mut Vec::new()).unwrap();
        }
        server.take_output(&mut said);
        let said = String::from_utf8(said).unwrap().to_lowercase();
        // RFC 6455 §1.3.
        assert!(
            said.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{said}"
        );
        // [MQTT-6.0.0-4]: `mqtt` wins wherever it stands in the client's list.
        assert!(said.contains("sec-websocket-protocol: mqtt\r\n"), "{said}");
        assert_eq!(server.sub_protocol(), Some("mqtt"));
    }

    #[test]
    fn packets_span_frames_and_frames_hold_several_packets() {
        let mut wire = frame(0x02, b"\x10\x0c\0\x04");
        wire.extend(frame(0x00, b"MQ"));
        wire.extend(frame(0x89, b"are you there?"));
        wire.extend(frame(0x80, b"TT\x05\x02\0\x3c\0\0\0"));
        wire.extend(frame(0x82, b"\xc0\0\xc0\0"));
        let (_, said, plain, outcome) = hears(&wire);
        outcome.unwrap();
        assert_eq!(plain, b"\x10\x0c\0\x04MQTT\x05\x02\0\x3c\0\0\0\xc0\0\xc0\0");
        // The ping between fragments is answered (RFC 6455 §5.5.3), unmasked.
        assert_eq!(said, b"\x8a\x0eare you there?");
    }

    #[test]
    fn frames_behind_the_request_in_the_same_segment_are_not_lost() {
        let Transport::Filtered(mut server) = ws_server() else {
            panic!("a filter")
        };
        let mut wire = REQUEST.as_bytes().to_vec();
        wire.extend(frame(0x82, b"early"));
        let mut plain = Vec::new();
        server.handle_input(&wire, &mut plain).unwrap();
        assert_eq!(plain, b"early");
    }

    #[test]
    fn each_encode_is_one_unmasked_binary_frame_and_empty_ones_are_none() {
        let (mut server, ..) = hears(b"");
        let mut wire = Vec::new();
        server.encode(b"", &mut wire).unwrap();
        server.encode(b"abc", &mut wire).unwrap();
        server.encode(&[7; 300], &mut wire).unwrap();
        assert_eq!(&wire[..9], b"\x82\x03abc\x82\x7e\x01\x2c");
        assert_eq!(wire.len(), 9 + 300);
    }

    #[test]
    fn what_breaks_the_rules_is_closed_with_the_code_of_the_specification() {
        let small = Arc::new(WebSocketSettings {
            frame_bytes_max: 8,
            message_bytes_max: 12,
            ..Default::default()
        });
        let fragments = [frame(0x02, b"1234567"), frame(0x00, b"890123")].concat();
        let table: [(&str, Vec<u8>, u16); 8] = [
            ("text", frame(0x81, b"hello"), 1003),
            ("no mask", b"\x82\x01a".to_vec(), 1002),
            ("reserved bit", frame(0xc2, b"a"), 1002),
            ("unknown opcode", frame(0x83, b"a"), 1002),
            ("continuation of nothing", frame(0x80, b"a"), 1002),
            ("fragmented ping", frame(0x09, b"a"), 1002),
            ("frame beyond the limit", frame(0x82, b"123456789"), 1009),
            ("message beyond the limit", fragments, 1009),
        ];
        for (name, wire, code) in table {
            let (mut server, said, plain, outcome) = hears_with(&small, &wire);
            assert!(
                matches!(outcome, Err(TransportFault::WebSocket(_))),
                "{name}: {outcome:?}"
            );
            assert_eq!(said.first(), Some(&0x88), "{name}: a close frame is said");
            assert_eq!(u16::from_be_bytes([said[2], said[3]]), code, "{name}");
            assert!(
                plain.is_empty() || name == "message beyond the limit",
                "{name}"
            );
            assert!(server.is_closed(), "{name}");
            assert!(server.encode(b"more", &mut Vec::new()).is_err(), "{name}");
        }
    }

    /// Libraries for browsers send STOMP as text, because it mostly is.
    #[test]
    fn who_may_speak_text_is_answered_in_text_where_it_is_text() {
        let settings = WebSocketSettings {
            allows_text: true,
            ..Default::default()
        };
        let wire = [frame(0x01, b"SE"), frame(0x89, b""), frame(0x80, b"ND\0")].concat();
        let (mut server, _, plain, outcome) = hears_with(&Arc::new(settings), &wire);
        outcome.unwrap();
        assert_eq!(plain, b"SEND\0");
        let mut says = |plain: &[u8]| {
            let mut wire = Vec::new();
            server.encode(plain, &mut wire).unwrap();
            wire
        };
        assert_eq!(says("é\n".as_bytes()), b"\x81\x03\xc3\xa9\n");
        assert_eq!(
            says(b"\xff"),
            b"\x82\x01\xff",
            "a text frame that is not UTF-8 would end the connection"
        );
        server
            .handle_input(&frame(0x82, b"\n"), &mut Vec::new())
            .unwrap();
        let mut wire = Vec::new();
        server.encode(b"a", &mut wire).unwrap();
        assert_eq!(wire, b"\x82\x01a", "the peer speaks binary now");
    }

    fn coap() -> Arc<WebSocketSettings> {
        Arc::new(WebSocketSettings {
            messages: Messages::Whole,
            message_bytes_max: 100,
            ..Default::default()
        })
    }

    /// RFC 8323 §4.2: a message has no length of its own there, in a stream it has.
    #[test]
    fn each_message_of_coap_is_a_websocket_message_in_both_directions() {
        // CSM; an empty message in two frames with a ping between; a PUT with a token, whose Len says nonsense.
        let mut wire = frame(0x82, b"\x00\xe1");
        wire.extend(frame(0x02, b"\x00"));
        wire.extend(frame(0x89, b"?"));
        wire.extend(frame(0x80, b"\x00"));
        wire.extend(frame(0x82, b"\xf1\x03\xaa\xb1a\xff12345678901234567890"));
        let (mut server, said, plain, outcome) = hears_with(&coap(), &wire);
        outcome.unwrap();
        assert_eq!(
            plain,
            b"\x00\xe1\x00\x00\xd1\x0a\x03\xaa\xb1a\xff12345678901234567890"
        );
        assert_eq!(said, b"\x8a\x01?");
        let mut wire = Vec::new();
        server.encode(&plain, &mut wire).unwrap();
        let expected =
            b"\x82\x02\x00\xe1\x82\x02\x00\x00\x82\x1a\x01\x03\xaa\xb1a\xff12345678901234567890";
        assert_eq!(wire, expected);
        assert!(
            server.encode(b"\xd1\x0a\x03", &mut Vec::new()).is_err(),
            "half a message is nobody's message"
        );
    }

    #[test]
    fn what_is_kept_of_a_message_in_frames_is_counted_until_it_is_whole() {
        let (mut server, ..) = hears_with(&coap(), &[]);
        assert_eq!(server.buffered(), 0);
        let half = frame(0x02, &[0, 1, 0xff, 7, 7, 7]);
        let (most, rest) = half.split_at(half.len() - 2);
        let mut plain = Vec::new();
        for (wire, kept) in [(most, 4), (rest, 6)] {
            server.handle_input(wire, &mut plain).unwrap();
            assert_eq!((server.buffered(), plain.len()), (kept, 0));
        }
        server.handle_input(&frame(0x80, b"7"), &mut plain).unwrap();
        assert_eq!(server.buffered(), 0);
        assert!(!plain.is_empty());
    }

    #[test]
    fn what_cannot_be_a_message_of_coap_closes_the_connection() {
        let table: [(&str, Vec<u8>, u16); 6] = [
            ("text", frame(0x81, b"\x00\xe1"), 1003),
            ("nothing", frame(0x82, b""), 1002),
            (
                "a token of nine bytes",
                frame(0x82, b"\x09\x01123456789"),
                1002,
            ),
            ("less than its token", frame(0x82, b"\x04\x01123"), 1002),
            ("no code", frame(0x82, b"\x00"), 1002),
            (
                "too much",
                [frame(0x02, &[0; 60]), frame(0x80, &[0; 60])].concat(),
                1009,
            ),
        ];
        for (name, wire, code) in table {
            let (server, said, plain, outcome) = hears_with(&coap(), &wire);
            assert!(
                outcome.is_err() && server.is_closed() && plain.is_empty(),
                "{name}"
            );
            assert_eq!(
                (said.first(), u16::from_be_bytes([said[2], said[3]])),
                (Some(&0x88), code),
                "{name}"
            );
        }
    }

    #[test]
    fn a_peer_may_leave_out_the_sub_protocol_where_it_is_optional_but_not_ask_for_another() {
        let settings = WebSocketSettings {
            protocol: "STOMP",
            sub_protocols: vec!["v12.stomp".into(), "v11.stomp".into()],
            sub_protocol_optional: true,
            ..Default::default()
        };
        let asks = |offered: &str| {
            let layer = WebSocketLayer::server(&Arc::new(settings.clone()));
            let Transport::Filtered(mut server) = Filtered::stack(None, Some(layer)) else {
                panic!("a filter")
            };
            let lines = REQUEST
                .lines()
                .filter(|line| !line.starts_with("Sec-WebSocket-Protocol") && !line.is_empty());
            let request: String = lines
                .chain([offered])
                .filter(|line| !line.is_empty())
                .map(|line| format!("{line}\r\n"))
                .collect();
            let outcome = server.handle_input(format!("{request}\r\n").as_bytes(), &mut Vec::new());
            let mut said = Vec::new();
            server.take_output(&mut said);
            (
                outcome,
                String::from_utf8(said).unwrap(),
                server.sub_protocol().map(str::to_owned),
            )
        };
        let (outcome, said, agreed) = asks("");
        outcome.unwrap();
        assert!(
            said.starts_with("HTTP/1.1 101 ") && !said.contains("Sec-WebSocket-Protocol"),
            "{said}"
        );
        assert_eq!(agreed, None);
        let (outcome, said, agreed) = asks("Sec-WebSocket-Protocol: v11.stomp, v12.stomp");
        outcome.unwrap();
        assert!(
            said.to_lowercase()
                .contains("sec-websocket-protocol: v12.stomp\r\n"),
            "{said}"
        );
        assert_eq!(agreed.as_deref(), Some("v12.stomp"));
        let (outcome, said, _) = asks("Sec-WebSocket-Protocol: mqtt");
        assert!(
            outcome.is_err() && said.contains("`v12.stomp` or `v11.stomp`"),
            "{said}"
        );
    }

    #[test]
    fn a_close_frame_is_echoed_and_then_the_connection_is_closed() {
        let wire = [
            frame(0x82, b"last"),
            frame(0x88, &1000_u16.to_be_bytes()),
            frame(0x82, b"late"),
        ]
        .concat();
        let (server, said, plain, outcome) = hears(&wire);
        outcome.unwrap();
        assert_eq!(
            (plain.as_slice(), said.as_slice()),
            (&b"last"[..], &b"\x88\x02\x03\xe8"[..])
        );
        assert!(server.is_closed());
    }

    #[test]
    fn requests_that_cannot_be_upgraded_are_answered_in_http_and_in_words() {
        let without = |line: &str| REQUEST.replace(line, "");
        let wrong = |from: &str, to: &str| REQUEST.replace(from, to);
        let unknown =
            wrong("chat, mqttv3.1", "chat").replace("Sec-WebSocket-Protocol: mqtt\r\n", "");
        let table: [(String, u16, &str); 11] = [
            (
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n".into(),
                426,
                "MQTT over WebSocket",
            ),
            (unknown, 400, "`mqtt` or `mqttv3.1`"),
            (
                wrong("GET /mqtt ", "GET /other "),
                404,
                "there is one at /mqtt",
            ),
            (wrong("GET", "POST"), 405, "GET"),
            (
                wrong("Version: 13", "Version: 8"),
                400,
                "not a valid WebSocket upgrade",
            ),
            (
                without("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
                400,
                "not a valid WebSocket upgrade",
            ),
            (
                without("Connection: keep-alive, Upgrade\r\n"),
                400,
                "not a valid WebSocket upgrade",
            ),
            (
                "\x10\x0c\0\x04MQTT\x05\x02\0\x3c\0\0\0".into(),
                400,
                "MQTT without WebSocket",
            ),
            ("\x16\x03\x01\x02\0\x01".into(), 400, "this is TLS"),
            (
                format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(9_000)),
                431,
                "larger than 8192",
            ),
            ("\0\0\0".into(), 400, "not an HTTP request"),
        ];
        for (request, status, words) in table {
            let Transport::Filtered(mut server) = ws_server() else {
                panic!("a filter")
            };
            let mut said = Vec::new();
            let fault = server
                .handle_input(request.as_bytes(), &mut Vec::new())
                .unwrap_err();
            server.take_output(&mut said);
            let said = String::from_utf8(said).unwrap();
            assert!(
                matches!(fault, TransportFault::Upgrade { status: got, .. } if got == status),
                "{fault}"
            );
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
            assert!(said.contains(words), "{said} does not say: {words}");
        }
    }

    #[test]
    fn the_client_gives_up_in_words_when_the_server_does_not_agree() {
        let table = [
            (
                "HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nnot here",
                "not here",
            ),
            (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n",
                "belong",
            ),
            ("\x20\x02\0\0", "does not answer in HTTP"),
        ];
        for (answer, words) in table {
            let layer = websocket("broker.test", "/mqtt", "mqtt", &settings());
            let Transport::Filtered(mut client) = Filtered::stack(None, Some(layer)) else {
                panic!("a filter")
            };
            let fault = client
                .handle_input(answer.as_bytes(), &mut Vec::new())
                .unwrap_err();
            assert!(
                fault.to_string().contains(words),
                "{fault} does not say: {words}"
            );
        }
    }
}
