//! rumqttc: PORT MESSAGES SIZE QOS.

use std::time::{Duration, Instant};

use rumqttc::{AsyncClient, Event, MqttOptions, Outgoing, Packet, QoS};

#[tokio::main]
async fn main() {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("numbers"))
        .collect();
    let [port, messages, size, qos] = args[..] else {
        panic!("PORT MESSAGES SIZE QOS")
    };
    let mut options = MqttOptions::new("rumqttc", "127.0.0.1", port as u16);
    options
        .set_keep_alive(Duration::from_secs(60))
        .set_inflight(65_535);
    // Its channel between client and event loop; larger is not faster.
    let (client, mut events) = AsyncClient::new(options, 10_000);
    let payload = vec![b'x'; size as usize];
    let qos = if qos == 0 {
        QoS::AtMostOnce
    } else {
        QoS::AtLeastOnce
    };
    while !matches!(
        events.poll().await.expect("a connection"),
        Event::Incoming(Packet::ConnAck(_))
    ) {}
    let begun = Instant::now();
    let publisher = tokio::spawn(async move {
        for _ in 0..messages {
            client
                .publish("speed/1", qos, false, payload.clone())
                .await
                .expect("taken");
        }
        client
    });
    let (mut sent, mut acknowledged) = (0, 0);
    while (if qos == QoS::AtMostOnce {
        sent
    } else {
        acknowledged
    }) < messages
    {
        match events.poll().await.expect("a connection") {
            Event::Outgoing(Outgoing::Publish(_)) => sent += 1,
            Event::Incoming(Packet::PubAck(_)) => acknowledged += 1,
            _ => {}
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let client = publisher.await.expect("it ends");
    // What was handed to the socket's buffer leaves with the next turn.
    client.disconnect().await.expect("taken");
    while events.poll().await.is_ok() {}
    println!("{{\"client\":\"rumqttc\",\"messages\":{messages},\"seconds\":{seconds}}}");
}
