//! The broker with one listener more: `cargo run -p line-protocol`, then `nc 127.0.0.1 7007`. Arguments are settings, as
//! `thalweg serve --set` takes them.

use line_protocol::LineSettings;
use std::sync::Arc;
use thalweg_server::config::Config;
use thalweg_server::{Server, StartOptions};

fn main() -> Result<(), String> {
    let own = [
        "listeners.line.kind=extension",
        "listeners.line.bind=127.0.0.1:7007",
    ];
    let sets: Vec<String> = own
        .map(Into::into)
        .into_iter()
        .chain(std::env::args().skip(1))
        .collect();
    let (config, _) = Config::from_text(None, std::iter::empty(), &sets)
        .map_err(|errors| format!("{errors:?}"))?;
    let settings = Arc::new(LineSettings {
        line_bytes_max: config.limits.packet_bytes_max,
        publish_rate: config.limits.publish_rate,
        ..LineSettings::default()
    });
    let mut options = StartOptions::default();
    options.extensions.insert("line".into(), settings);
    let server = Server::start_with(config, options).map_err(|errors| format!("{errors:?}"))?;
    for (name, address) in server.listening() {
        println!("{name}: {address}");
    }
    loop {
        std::thread::park();
    }
}
