//! The commands and code of README, run against a broker on other ports.

use std::sync::OnceLock;

use crate::broker::Broker;

const READING: &str = include_str!("../../../../../examples/reading/reading.rs");
const README: &str = include_str!("../../../../../README.md");

/// Where the brokers of the lines are here: MQTT, CoAP.
static PLACES: OnceLock<[String; 2]> = OnceLock::new();

/// The lines, with a builder that knows where the test's broker is.
mod reading {
    mod thalweg_client {
        pub use ::thalweg_client::{ClientError, Options, Reliability, Success};

        pub struct Client;

        pub struct Builder(::thalweg_client::ClientBuilder);

        impl Client {
            pub fn builder() -> Builder {
                Builder(::thalweg_client::Client::builder())
            }
        }

        impl Builder {
            pub fn broker(self, url: &str) -> Result<Builder, ClientError> {
                let place = usize::from(url == "coap://127.0.0.1");
                let places = super::super::PLACES.get().expect("the test has said it");
                self.0.broker(&places[place]).map(Builder)
            }

            pub fn connect_blocking(
                self,
            ) -> Result<::thalweg_client::blocking::Client, ClientError> {
                self.0.connect_blocking()
            }
        }
    }

    pub fn run() -> Result<(), ::thalweg_client::ClientError> {
        main()
    }

    include!("../../../../../examples/reading/reading.rs");
}

#[test]
fn the_lines_of_the_readme_run() {
    assert!(
        README.contains(&format!("```rust\n{READING}```")),
        "README shows other lines"
    );
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    PLACES.get_or_init(|| {
        [
            format!("mqtt://{}", broker.mqtt()),
            format!("coap://{}", broker.coap()),
        ]
    });
    reading::run().expect("the reading is published, received and acknowledged");
}
