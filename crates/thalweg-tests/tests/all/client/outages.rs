//! The broker is not there yet, goes away, and comes back; connections break in the middle.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_client::{Options, Reliability, Success};

use super::{PATIENCE, connect, set, subscribe, take};
use crate::broker::{Broker, free_port};

/// A broker at this port, by each of the two kinds of protocols.
fn broker_at(mqtt: SocketAddr, coap: SocketAddr) -> Option<Broker> {
    Broker::with()
        .coap()
        .set("listeners.mqtt.bind", &mqtt.to_string())
        .set("listeners.coap.bind", &coap.to_string())
        .set("listeners.coap-tcp.bind", &coap.to_string())
        .start_for_queues()
}

#[test]
fn what_was_published_before_the_broker_came_arrives_when_it_comes() {
    let (mqtt, coap) = (free_port(), free_port());
    for url in [format!("mqtt://{mqtt}"), format!("coap://{coap}")] {
        let client = connect(&[&url]);
        let tickets: Vec<_> = (0..50)
            .map(|number: u32| {
                client
                    .publish_message(
                        number.to_string().as_bytes(),
                        "",
                        "early",
                        &Options::default(),
                    )
                    .expect("room")
            })
            .collect();
        let Some(broker) = broker_at(mqtt, coap) else {
            return;
        };
        for ticket in tickets {
            assert_eq!(
                client.outcome(ticket, PATIENCE),
                Success::Acknowledged,
                "{url}"
            );
        }
        assert!(client.status().expect("it runs").lanes[0].connections >= 1);
        drop(broker);
    }
}

#[test]
fn a_restart_in_the_middle_loses_nothing_that_was_acknowledged_and_subscriptions_come_back() {
    let (mqtt, coap) = (free_port(), free_port());
    let Some(broker) = broker_at(mqtt, coap) else {
        return;
    };
    let client = connect(&[&format!("mqtt://{mqtt}")]);
    let mut heard = subscribe(&client, "after/#");
    assert_eq!(
        client.publish("after/a", b"0", &Options::default()),
        Ok(Success::Acknowledged)
    );
    assert_eq!(take(&mut heard, 1), ["0"]);
    broker.stop();
    // Nobody is there: these wait.
    let waiting: Vec<_> = (1..20)
        .map(|number: u32| {
            client
                .publish_message(
                    number.to_string().as_bytes(),
                    "",
                    "after/a",
                    &Options::default(),
                )
                .expect("room")
        })
        .collect();
    let Some(_broker) = broker_at(mqtt, coap) else {
        return;
    };
    for ticket in waiting {
        assert_eq!(client.outcome(ticket, PATIENCE), Success::Acknowledged);
    }
    // The subscription is made anew, before or after these messages; later ones arrive.
    let mut last = 20;
    loop {
        let payload = last.to_string();
        assert_eq!(
            client.publish("after/a", payload.as_bytes(), &Options::default()),
            Ok(Success::Acknowledged)
        );
        if let Ok(Some(message)) = heard.next_timeout(std::time::Duration::from_millis(200)) {
            let number: u32 = String::from_utf8_lossy(message.payload())
                .parse()
                .expect("a number");
            assert!((1..=last).contains(&number));
            break;
        }
        last += 1;
    }
}

/// Passes bytes on between a client and a broker, and cuts every connection after so many bytes of the client.
struct Cutter {
    address: SocketAddr,
    cuts: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Cutter {
    fn before(broker: SocketAddr, bytes: usize, cuts_max: usize) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (cuts, is_over) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (counted, ended) = (cuts.clone(), is_over.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect(broker) else {
                    continue;
                };
                let limit = if counted.load(Ordering::SeqCst) < cuts_max {
                    bytes
                } else {
                    usize::MAX
                };
                relay(client, server, limit, counted.clone());
            }
        });
        Cutter {
            address,
            cuts,
            is_over,
        }
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn relay(client: TcpStream, server: TcpStream, limit: usize, cuts: Arc<AtomicUsize>) {
    let both = Arc::new(Mutex::new((
        client.try_clone().ok(),
        server.try_clone().ok(),
    )));
    let end = move || {
        if let Ok(mut both) = both.lock() {
            for stream in [both.0.take(), both.1.take()].into_iter().flatten() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    };
    let (Ok(mut up_from), Ok(mut up_to)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    let (mut down_from, mut down_to) = (server, client);
    let end_too = end.clone();
    std::thread::spawn(move || {
        let (mut bytes, mut passed) = ([0; 512], 0);
        while let Ok(len) = up_from.read(&mut bytes) {
            if len == 0 || up_to.write_all(&bytes[..len]).is_err() {
                break;
            }
            passed += len;
            if passed >= limit {
                cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
        end();
    });
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok(len) = down_from.read(&mut bytes) {
            if len == 0 || down_to.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        end_too();
    });
}

#[test]
fn connections_that_are_cut_again_and_again_lose_nothing() {
    let Some(broker) = Broker::with().queues().start_for_queues() else {
        return;
    };
    let listener = connect(&[&format!("mqtt://{}", broker.mqtt())]);
    for (scheme, port) in [
        ("mqtt", broker.mqtt()),
        ("amqp", broker.amqp()),
        ("stomp", broker.stomp()),
    ] {
        let cutter = Cutter::before(port, 4_000, 5);
        let mut heard = subscribe(&listener, scheme);
        let client = super::builder(&[&format!("{scheme}://{}", cutter.address)])
            .backoff(
                std::time::Duration::from_millis(10),
                std::time::Duration::from_millis(100),
            )
            .connect_blocking()
            .expect("it starts");
        let once = Options {
            reliability: Reliability::ExactlyOnce,
            ..Options::default()
        };
        let tickets: Vec<_> = (0..1_000)
            .map(|number: u32| {
                client
                    .give(number.to_string().as_bytes(), "", scheme, &once)
                    .expect("there is room")
            })
            .collect();
        for ticket in tickets {
            assert_eq!(
                client.outcome(ticket, PATIENCE),
                Success::Acknowledged,
                "{scheme}"
            );
        }
        assert_eq!(cutter.cuts.load(Ordering::SeqCst), 5, "{scheme}");
        let mut payloads = Vec::new();
        while set(&payloads).len() < 1_000 {
            payloads.extend(take(&mut heard, 1));
        }
        // With stamps the broker knows repetitions.
        assert_eq!(
            payloads,
            (0..1_000)
                .map(|number| number.to_string())
                .collect::<Vec<_>>(),
            "{scheme}"
        );
        heard.unsubscribe();
    }
}
