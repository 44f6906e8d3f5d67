//! Kind of a connection before a machine exists.

use super::*;

#[test]
fn the_client_identifier_of_every_version_is_found() {
    for text in [
        "10 [ 'MQTT' 05 02 003c [] 'sensor' ]",
        "10 [ 'MQTT' 05 06 003c [ 11 00000001 26 'k' 'v' ] 'sensor' [] 'w' 'x' ]",
        "10 [ 'MQTT' 04 02 003c 'sensor' ]",
        "10 [ 'MQTT' 84 02 003c 'sensor' ]",
        "10 [ 'MQIsdp' 03 02 003c 'sensor' ]",
    ] {
        let input = bytes(text);
        assert_eq!(
            peek_connect(&input, 1000),
            Peek::ClientId("sensor"),
            "{text}"
        );
        // Any prefix either asks for more than there is, or knows already.
        for cut in 0..input.len() {
            match peek_connect(&input[..cut], 1000) {
                Peek::NeedMore { want } => assert!(
                    want > cut && want <= input.len().max(2),
                    "{text} cut at {cut}"
                ),
                other => assert_eq!(other, Peek::ClientId("sensor"), "{text} cut at {cut}"),
            }
        }
    }
}

#[test]
fn what_is_not_a_connect_is_told_apart() {
    assert_eq!(peek_connect(b"GET / HTTP/1.1\r\n", 1000), Peek::NotMqtt);
    assert_eq!(peek_connect(&bytes("16 03 01"), 1000), Peek::NotMqtt);
    assert_eq!(
        peek_connect(&bytes("10 [ 'AMQP' 05 ]"), 1000),
        Peek::NotMqtt
    );
    assert_eq!(
        peek_connect(&bytes("10 FF FF FF FF 01"), 1000),
        Peek::NotMqtt
    );
    assert_eq!(
        peek_connect(&bytes("10 [ 'MQTT' 05 02 003c [] 'sensor' ]"), 10),
        Peek::TooLarge
    );
    assert_eq!(peek_connect(&bytes("10 FF FF FF 7F"), 1000), Peek::TooLarge);
    assert_eq!(
        peek_connect(&bytes("10 [ 'MQTT' 09 02 003c 'sensor' ]"), 1000),
        Peek::Broken
    );
    assert_eq!(
        peek_connect(&bytes("10 [ 'MQTT' 05 02 003c [] 0001 FF ]"), 1000),
        Peek::Broken
    );
    assert_eq!(
        peek_connect(&bytes("10 [ 'MQTT' 05 02 003c [] ]"), 1000),
        Peek::Broken
    );
    assert_eq!(
        peek_connect(&bytes("10 [ 'MQTT' 05 02 003c [] '' ]"), 1000),
        Peek::ClientId("")
    );
}
