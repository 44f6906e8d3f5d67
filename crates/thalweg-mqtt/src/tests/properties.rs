//! The 27 properties against table 2-4: allowed where it lists them, an error everywhere else, and the rules of
//! repetition.

use super::*;

/// Identifier, a valid value, and the packets that may have it: C connect, W will, A connack, P publish to the server,
/// p publish to the client, K acknowledgements, S subscribe, U unsubscribe, D disconnect to the server, d to the
/// client, X auth.
const TABLE: [(u8, &str, &str); 27] = [
    (0x01, "01", "PpW"),
    (0x02, "00000001", "PpW"),
    (0x03, "'x'", "PpW"),
    (0x08, "'x'", "PpW"),
    (0x09, "'x'", "PpW"),
    (0x0B, "01", "pS"),
    (0x11, "00000000", "CAD"),
    (0x12, "'x'", "A"),
    (0x13, "0001", "A"),
    (0x15, "'x'", "CAX"),
    (0x16, "'x'", "AX"),
    (0x17, "01", "C"),
    (0x18, "00000001", "W"),
    (0x19, "01", "C"),
    (0x1A, "'x'", "A"),
    (0x1C, "'x'", "Ad"),
    (0x1F, "'x'", "AKDdX"),
    (0x21, "0001", "CA"),
    (0x22, "0001", "CA"),
    (0x23, "0001", "Pp"),
    (0x24, "01", "A"),
    (0x25, "01", "A"),
    (0x26, "'k' 'v'", "CWAPpKSUDdX"),
    (0x27, "00000001", "CA"),
    (0x28, "01", "A"),
    (0x29, "01", "A"),
    (0x2A, "01", "A"),
];

/// Every packet with these properties; the clause of the fault it meets, if any.
fn meets(place: char, properties: &str) -> Option<PeerFault> {
    let method = if place == 'X' { "15 'x'" } else { "" };
    // AUTH needs its method; do not say it twice where it is what is tested.
    let properties = if properties.contains("15 'x'") {
        properties.to_owned()
    } else {
        format!("{method} {properties}")
    };
    let text = match place {
        'C' => format!("10 [ 'MQTT' 05 02 003c [ {properties} ] 'c' ]"),
        'W' => format!("10 [ 'MQTT' 05 06 003c [] 'c' [ {properties} ] 'w' 'x' ]"),
        'A' => format!("20 [ 00 00 [ {properties} ] ]"),
        'P' | 'p' => format!("30 [ 't' [ {properties} ] ]"),
        'K' => format!("40 [ 0001 00 [ {properties} ] ]"),
        'S' => format!("82 [ 0001 [ {properties} ] 'a' 00 ]"),
        'U' => format!("A2 [ 0001 [ {properties} ] 'a' ]"),
        'D' | 'd' => format!("E0 [ 00 [ {properties} ] ]"),
        _ => format!("F0 [ 18 [ {properties} ] ]"),
    };
    let input = bytes(&text);
    let connect = ConnectOut {
        client_id: "c",
        topic_alias_max: 9,
        auth_method: (place == 'X').then_some("x"),
        ..ConnectOut::default()
    };
    match place {
        'C' | 'W' => ServerSide::new(limits()).handle_input(&input).err(),
        'A' => {
            let mut client = ClientSide::new(1 << 20);
            client.connect(&connect, &mut Vec::new()).expect("fits");
            client.handle_input(&input).err()
        }
        'p' | 'd' => pair(&connect, limits()).0.handle_input(&input).err(),
        _ => pair(&connect, limits()).1.handle_input(&input).err(),
    }
}

#[test]
fn each_property_is_legal_in_its_packets_and_nowhere_else() {
    for (id, value, places) in TABLE {
        for place in "CWAPpKSUDdX".chars() {
            let once = meets(place, &format!("{id:02x} {value}"));
            let at = format!("property 0x{id:02x} in {place}");
            if places.contains(place) {
                assert_eq!(once, None, "{at}");
            } else {
                let fault = once.unwrap_or_else(|| panic!("{at} was taken"));
                // Authentication Data alone has a clause of its own, and so have the two that the text names.
                let named = [
                    PeerFault::PROPERTY_MISPLACED,
                    PeerFault::SUBSCRIPTION_ID_FROM_CLIENT,
                    PeerFault::SESSION_EXPIRY_FROM_SERVER,
                    PeerFault::AUTH_DATA_WITHOUT_METHOD,
                ];
                assert!(named.contains(&fault), "{at}: {fault}");
            }
        }
    }
}

#[test]
fn only_user_properties_and_the_subscription_identifiers_of_a_delivery_may_repeat() {
    for (id, value, places) in TABLE {
        for place in places.chars() {
            let twice = meets(place, &format!("{id:02x} {value} {id:02x} {value}"));
            let expected = match (id, place) {
                (0x26, _) | (0x0B, 'p') => None,
                _ => Some(PeerFault::PROPERTY_TWICE),
            };
            assert_eq!(twice, expected, "property 0x{id:02x} in {place}");
        }
    }
    assert_eq!(
        meets('C', "15 'x' 16 'data'"),
        None,
        "Authentication Data beside its method"
    );
}
