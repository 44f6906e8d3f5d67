//! Foreign clients, each a small program in its own language under `interop/`, run against one broker.

use crate::broker::Broker;

#[test]
fn a_broker_starts_says_ready_and_accepts() {
    let broker = Broker::start();
    std::net::TcpStream::connect(broker.mqtt()).expect("the MQTT listener accepts");
    std::net::TcpStream::connect(broker.websocket()).expect("the WebSocket listener accepts");
}
