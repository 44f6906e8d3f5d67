//! A report of load in each of its forms: what is read can be true, and is written and read again as the same. The first
//! byte of the input chooses the unit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_mqtt::load::{REPORT_BYTES_MAX, Refusal, Report, Spelling, Unit};
use thalweg_mqtt::{ClientSide, ConnAck, ConnectOut, Event, PingReq, ServerLimits, ServerSide};

/// Holds what was read to what a report can be.
fn check(read: Result<Report, Refusal>) {
    let Ok(report) = read else { return };
    assert!(report.waiting <= 1_000_000);
    assert!(
        report.each_ms.is_finite() && (0.0..=3.6e12).contains(&report.each_ms),
        "{report:?}"
    );
    assert!(
        report
            .sd_ms
            .is_none_or(|sd| sd.is_finite() && (0.0..=3.6e12).contains(&sd)),
        "{report:?}"
    );
    for spelling in [Spelling::Listing, Spelling::Figure] {
        assert_eq!(
            Report::from_json(&report.json(spelling), Unit::Unsaid),
            Ok(report)
        );
    }
    assert_eq!(
        Report::from_text(&report.text()),
        Ok(Report::new(report.waiting, report.each_ms))
    );
}

/// What a server makes of it as the body of a PINGREQ: never a fault.
fn as_ping(body: &[u8]) -> PingReq {
    let mut client = ClientSide::new(1 << 16);
    let mut server = ServerSide::new(ServerLimits {
        load_reports: true,
        ..Default::default()
    });
    let mut wire = Vec::new();
    client
        .connect(
            &ConnectOut {
                client_id: "c",
                ..Default::default()
            },
            &mut wire,
        )
        .expect("it fits");
    server
        .handle_input(&wire)
        .expect("CONNECT is valid")
        .expect("CONNECT is complete");
    server.connack(&ConnAck::default(), &mut Vec::new());
    let len = body.len().min(0x3FFF);
    let mut packet = vec![0xC0];
    match len {
        0..0x80 => packet.push(len as u8),
        _ => packet.extend([len as u8 | 0x80, (len >> 7) as u8]),
    }
    packet.extend_from_slice(&body[..len]);
    match server.handle_input(&packet) {
        Ok(Some((consumed, Event::PingReq(said)))) if consumed == packet.len() => said,
        other => panic!("{other:?}"),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let unit = [
        Unit::Unsaid,
        Unit::Milliseconds,
        Unit::Microseconds,
        Unit::Nanoseconds,
    ][usize::from(*choice) % 4];
    check(Report::from_json(input, unit));
    check(std::str::from_utf8(input).map_or(Err(Refusal::Syntax), Report::from_text));
    match as_ping(input) {
        PingReq::Plain => assert!(input.len() <= REPORT_BYTES_MAX),
        PingReq::Report(report) => check(Ok(report)),
        PingReq::Refused(_) => {}
    }
});
