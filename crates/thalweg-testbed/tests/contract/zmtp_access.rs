//! Addresses that sockets of ZeroMQ may use: those of the default tenant, and within their user's rights.

use std::sync::Arc;
use thalweg_fronts::stomp::StompSettings;
use thalweg_fronts::zmtp::ZmtpDial;
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_mqtt::{PublishOut, QoS, SubscribeOptions};
use thalweg_stomp::{SendOut, SubscribeOut};
use thalweg_testbed::mqtt::Mqtt;
use thalweg_testbed::stomp::Stomp;
use thalweg_testbed::{Settings, Testbed, Who};
use thalweg_zmtp::SocketType;

fn publish(bed: &mut Testbed, who: Who<Mqtt>, topic: &str) {
    let publish = PublishOut {
        topic,
        payload: b"1",
        qos: QoS::AtLeastOnce,
        ..PublishOut::default()
    };
    bed.mqtt_publish(who, &publish);
}

/// A client of STOMP in a tenant that is not the default one, which has asked for a topic and a queue.
fn tenant(bed: &mut Testbed) -> Who<Stomp> {
    let connect = thalweg_stomp::ConnectOut {
        host: "blue",
        ..Default::default()
    };
    let who = bed.open_stomp(&connect, Some(Access::ALL));
    bed.rest();
    for destination in ["/topic/a", "/queue/zmtp"] {
        let subscribe = SubscribeOut {
            id: Some(destination),
            destination,
            ..Default::default()
        };
        bed.says(who, |client, up| client.side.subscribe(&subscribe, up));
    }
    who
}

#[test]
fn no_socket_reaches_another_tenant_than_the_default_one() {
    let mut bed = Testbed::new(Settings {
        stomp: Arc::new(StompSettings {
            tenants: ["blue".into()].into(),
            ..StompSettings::default()
        }),
        ..Settings::default()
    });
    let blue = tenant(&mut bed);
    let subscriber = bed.zmtp(SocketType::Sub);
    for prefix in [&b""[..], b"$t@blue/", b"$t@blue/a", b"$q@blue/"] {
        bed.zmtp_subscribe(subscriber, prefix);
    }
    let publisher = bed.zmtp(SocketType::Pub);
    let worker = bed.zmtp_named(SocketType::Router, b"$t@blue/a");
    let taker = bed.zmtp_named(SocketType::Router, b"$q@blue/zmtp");
    let (req, push) = (bed.zmtp(SocketType::Req), bed.zmtp(SocketType::Push));
    for destination in ["/topic/a", "/queue/zmtp"] {
        let send = SendOut {
            destination,
            body: b"blue",
            ..Default::default()
        };
        bed.says(blue, |client, up| client.side.send(&send, |_| (), up));
    }
    let own = |bed: &mut Testbed| bed.client(blue).got.drain(..).count();
    assert_eq!(own(&mut bed), 2, "the tenant's own");
    for address in [&b"$t@blue/a"[..], b"$q@blue/zmtp"] {
        bed.zmtp_send(publisher, &[address, b"1"]);
        bed.zmtp_send(publisher, &[&[address, b" 1"].concat()]);
        bed.zmtp_send(req, &[b"", address, b"1"]);
    }
    bed.zmtp_send(push, &[b"1"]);
    assert_eq!(own(&mut bed), 0);
    for who in [subscriber, worker, taker] {
        assert!(bed.zmtp_got(who).is_empty());
    }
    assert!(bed.is_closed(worker) && bed.is_closed(taker));
    // Where it may be, it goes on.
    bed.zmtp_send(publisher, &[b"a", b"1"]);
    assert_eq!(bed.zmtp_got(subscriber).len(), 1);
    bed.check();
}

/// Whether a message comes through a peer that the broker has connected to; `ours` is the broker's end.
fn comes(bed: &mut Testbed, ours: SocketType) -> bool {
    let dial = ZmtpDial {
        settings: Arc::default(),
        socket_type: ours,
        user: "plant".into(),
        identity: Box::default(),
        prefixes: vec![b"a/".as_slice().into()],
        service: b"a/calc".as_slice().into(),
    };
    let device = bed.mqtt("device");
    let peer = |bed: &mut Testbed, theirs| bed.zmtp_dialed(dial, theirs);
    match ours {
        SocketType::Sub => {
            bed.mqtt_subscribe(device, "a/#", SubscribeOptions::default());
            let peer = peer(bed, SocketType::Pub);
            bed.zmtp_send(peer, &[b"a/b", b"1"]);
            !bed.mqtt_got(device).is_empty()
        }
        SocketType::Pub => {
            let peer = peer(bed, SocketType::Sub);
            bed.zmtp_subscribe(peer, b"a/");
            publish(bed, device, "a/b");
            !bed.zmtp_got(peer).is_empty()
        }
        SocketType::Pull => {
            let peer = peer(bed, SocketType::Push);
            bed.zmtp_send(peer, &[b"1"]);
            let pull = bed.zmtp(SocketType::Pull);
            !bed.zmtp_got(pull).is_empty()
        }
        SocketType::Push => {
            let peer = peer(bed, SocketType::Pull);
            publish(bed, device, "$q/zmtp");
            !bed.zmtp_got(peer).is_empty()
        }
        SocketType::Dealer => {
            let peer = peer(bed, SocketType::Rep);
            let req = bed.zmtp(SocketType::Req);
            bed.zmtp_send(req, &[b"", b"a/calc", b"1"]);
            !bed.zmtp_got(peer).is_empty()
        }
        _ => {
            let worker = bed.zmtp_named(SocketType::Rep, b"a/calc");
            let peer = peer(bed, SocketType::Req);
            bed.zmtp_send(peer, &[b"", b"a/calc", b"1"]);
            !bed.zmtp_got(worker).is_empty()
        }
    }
}

#[test]
fn a_peer_that_binds_has_the_rights_of_its_user_and_no_others() {
    for (ours, permission, pattern) in [
        (SocketType::Sub, Permission::Publish, "a/#"),
        (SocketType::Pub, Permission::Subscribe, "a/#"),
        (SocketType::Pub, Permission::Receive, "a/#"),
        (SocketType::Pull, Permission::Publish, "$q/zmtp"),
        (SocketType::Push, Permission::Take, "$q/zmtp"),
        (SocketType::Dealer, Permission::Subscribe, "a/#"),
        (SocketType::Dealer, Permission::Receive, "a/#"),
        (SocketType::Router, Permission::Publish, "a/#"),
    ] {
        for (user, is_denied) in [("plant", true), ("other", false), ("", false)] {
            let mut bed = Testbed::new(Settings::default());
            bed.answers_logins = true;
            let rule = Rule::deny(permission, pattern);
            let rules = Rules::new(vec![rule], Otherwise::Allow).expect("a filter");
            bed.set_rights(user, rules);
            let has_come = comes(&mut bed, ours);
            assert_eq!(has_come, !is_denied, "{ours:?} {permission:?} of '{user}'");
            bed.check();
        }
    }
}
