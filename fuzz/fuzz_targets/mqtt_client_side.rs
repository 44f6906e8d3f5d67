//! A connection to a server that sends anything. The first byte of the input chooses the version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_mqtt::{ClientSide, ConnectOut, Version};

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let version = [Version::V31, Version::V311, Version::V5][usize::from(*choice) % 3];
    let auth_method = (choice & 0x80 != 0).then_some("m");
    let mut client = ClientSide::new(1 << 16);
    let mut out = Vec::new();
    let connect = ConnectOut {
        version,
        client_id: "c",
        topic_alias_max: 8,
        receive_max: 8,
        auth_method,
        ..Default::default()
    };
    client.connect(&connect, &mut out).expect("it fits");
    let mut rest = input;
    loop {
        match client.handle_input(rest) {
            Ok(Some((consumed, event))) => {
                assert!(consumed > 0 && consumed <= rest.len());
                let _ = format!("{event:?}");
                rest = &rest[consumed..];
            }
            Ok(None) => return,
            Err(fault) => return client.fault(&fault, &mut out),
        }
    }
});
