//! The example over real sockets: listener, access, limits, metrics. What every protocol must do it shows in the contract
//! tests of `thalweg-testbed`.

mod http_post;

use line_protocol::LineSettings;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use thalweg_fronts::FrontSettings;
use thalweg_server::config::Config;
use thalweg_server::{Server, StartError, StartOptions};

fn start(
    sets: &[&str],
    extension: Option<Arc<dyn FrontSettings>>,
) -> Result<Server, Vec<StartError>> {
    let own = [
        "listeners.line.kind=extension",
        "listeners.line.bind=127.0.0.1:0",
        "listeners.mqtt.enabled=false",
        "listeners.websocket.enabled=false",
        "journal.enabled=false",
        "shards=2",
    ];
    let sets: Vec<String> = own
        .iter()
        .chain(sets)
        .map(|set| (*set).to_owned())
        .collect();
    let (config, _) =
        Config::from_text(None, std::iter::empty(), &sets).expect("the settings are right");
    let mut options = StartOptions::default();
    if let Some(settings) = extension {
        options.extensions.insert("line".into(), settings);
    }
    Server::start_with(config, options)
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(server: &Server) -> Client {
        let mut listening = server.listening().iter();
        let (_, address) = listening
            .find(|(name, _)| name == "line")
            .expect("it listens");
        let socket = TcpStream::connect(address).expect("it accepts");
        let patience = Some(Duration::from_secs(10));
        socket.set_read_timeout(patience).expect("not zero");
        Client(BufReader::new(socket))
    }

    fn says(&mut self, line: &str) -> String {
        writeln!(self.0.get_mut(), "{line}").expect("the socket takes a line");
        self.hears()
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line comes in time");
        line.trim_end().to_owned()
    }
}

#[test]
fn messages_go_from_one_connection_to_another_and_are_counted() {
    let server = start(&[], Some(Arc::new(LineSettings::default()))).expect("it starts");
    let (mut subscriber, mut publisher) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(subscriber.says("SUB plant/+"), "OK");
    assert_eq!(publisher.says("PUB plant/1 20%20degrees"), "OK");
    let message = subscriber.hears();
    assert_eq!(message, "MSG 1 plant/1 20%20degrees");
    // Two own subscriptions in a row would be answered out of order if the ACK were answered.
    assert_eq!(subscriber.says("ACK 1\nSUB other"), "OK");
    let counts = server.observer().on_shards(|inside| {
        let ledger = inside.kernel.ledger();
        let published = inside.links.front_counts();
        let published: u64 = published.iter().map(|(.., count)| count).sum();
        (ledger.received, inside.links.len(), published)
    });
    let sum = counts.iter().fold((0, 0, 0), |sum, (one, two, three)| {
        (sum.0 + one, sum.1 + two, sum.2 + three)
    });
    assert_eq!(sum, (1, 2, 1));
}

#[test]
fn a_connection_that_breaks_the_rules_is_told_and_ended() {
    let settings = LineSettings {
        line_bytes_max: 100,
        ..LineSettings::default()
    };
    let server = start(&[], Some(Arc::new(settings))).expect("it starts");
    let mut client = Client::connect(&server);
    assert!(client.says("HELLO").starts_with("BYE "));
    assert_eq!(client.hears(), "", "the connection ends");
    let mut client = Client::connect(&server);
    assert!(client.says(&"x".repeat(200)).starts_with("BYE "));
}

#[test]
fn an_extension_that_the_program_does_not_have_is_an_error_with_its_name() {
    let errors = start(&[], None).err().expect("it does not start");
    assert!(
        errors[0].to_string().contains("listeners.line.kind"),
        "{errors:?}"
    );
}
