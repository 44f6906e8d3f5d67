//! How the commands that publish and subscribe reach a broker.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thalweg_client::BrokerUrl;
use thalweg_mqtt::{QoS, Version};

use super::{qos, topic_name, version};
use crate::quantity;

/// How to reach the broker and how to introduce oneself.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// SCHEME://[USER[:PASSWORD]@]HOST[:PORT]; schemes are mqtt, mqtts, ws, wss, coap, coaps, coap+tcp, coaps+tcp, coap+ws,
    /// coaps+ws, amqp, amqps, stomp, stomps, stomp+ws, stomp+wss, zmtp, xmpp, xmpps, xmpp+ws, xmpp+wss, dds. Said several times, these are
    /// ways to one broker, of which the best is taken. Default: the environment variable THALWEG_URL, else mqtt://127.0.0.1:1883
    #[arg(long, value_name = "URL")]
    pub url: Vec<BrokerUrl>,
    /// Read the password from the first line of this file, for URLs with a user and no password. Other users of this machine
    /// can see a password in the command line, and neither in a file that only you can read nor in THALWEG_URL
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Which protocol carries messages. `auto`: whichever serves best, of all that --url names, or of all there are on its
    /// host at their usual ports. Default: that of --url
    #[arg(long, value_name = "PROTOCOL")]
    pub via: Option<ViaArg>,
    /// What was measured of this network, as `thalweg bench recommend --write-calibration` writes it: what the choice between
    /// several protocols begins with. Default: what ships
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// In the end, say on standard error which protocol carried messages, and why
    #[arg(long)]
    pub explain: bool,
    /// Connect to a Unix socket instead of the host in --url (MQTT)
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    pub unix: Option<PathBuf>,
    /// MQTT version: 3.1, 3.1.1 or 5
    #[arg(long = "v", value_name = "VERSION", default_value = "5", value_parser = version)]
    pub mqtt_version: Version,
    /// Client identifier. Default: the broker chooses one
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Longest silence before the broker closes the connection; 0s switches that off
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    pub keep_alive: Duration,
    /// How long to wait for the connection and its acknowledgement
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub connect_timeout: Duration,
    /// Authorities to trust, in PEM. Default: the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Our certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The key of our certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Do not check the broker's certificate: any host can impersonate it
    #[arg(long)]
    pub insecure: bool,
    /// The broker's public key of CURVE (zmtp only), 40 characters of Z85
    #[arg(long, value_name = "KEY", requires = "curve_secret_file")]
    pub curve_server: Option<String>,
    /// Read our secret key of CURVE from the first line of this file, 40 characters of Z85
    #[arg(long, value_name = "FILE", requires = "curve_server")]
    pub curve_secret_file: Option<PathBuf>,
    /// The will: what the broker publishes when it loses us.
    #[command(flatten)]
    pub will: WillArgs,
}

impl Default for ConnectArgs {
    fn default() -> Self {
        ConnectArgs {
            url: Vec::new(),
            password_file: None,
            via: None,
            calibration: None,
            explain: false,
            unix: None,
            mqtt_version: Version::V5,
            id: None,
            keep_alive: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            ca: None,
            cert: None,
            key: None,
            insecure: false,
            curve_server: None,
            curve_secret_file: None,
            will: WillArgs {
                will_topic: None,
                will_message: String::new(),
                will_qos: QoS::AtMostOnce,
                will_retain: false,
                will_delay: None,
            },
        }
    }
}

/// Which protocol carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ViaArg {
    /// The one that serves the objective best, chosen anew as the network changes
    Auto,
    /// MQTT, 5.0 unless --v says otherwise
    Mqtt,
    /// CoAP over UDP, DTLS, TCP or TLS
    Coap,
    /// AMQP 0-9-1
    Amqp,
    /// STOMP 1.2
    Stomp,
    /// ZeroMQ, by PUB and SUB
    Zmtp,
    /// XMPP, by XEP-0060
    Xmpp,
}

impl ViaArg {
    /// As URLs and plugins have it; of `auto` there is none.
    pub const fn protocol(self) -> &'static str {
        ["", "mqtt", "coap", "amqp", "stomp", "zmtp", "xmpp"][self as usize]
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Will: what the broker publishes when it loses us")]
pub struct WillArgs {
    /// Topic of the will
    #[arg(long = "will", value_name = "TOPIC", value_parser = topic_name)]
    pub will_topic: Option<String>,
    /// Payload of the will
    #[arg(long, value_name = "TEXT", requires = "will_topic", default_value = "")]
    pub will_message: String,
    /// QoS of the will
    #[arg(long, value_name = "QOS", requires = "will_topic", default_value = "0", value_parser = qos)]
    pub will_qos: QoS,
    /// Publish the will as a retained message
    #[arg(long, requires = "will_topic")]
    pub will_retain: bool,
    /// Wait so long before the will is published (MQTT 5)
    #[arg(long, value_name = "TIME", requires = "will_topic", value_parser = quantity::seconds)]
    pub will_delay: Option<u32>,
}
