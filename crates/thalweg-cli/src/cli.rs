//! The command line: every command and every flag, each declared once. `--help`, the parser and
//! `docs/reference/cli.md` all come from here.

mod connect;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use thalweg_client::BrokerUrl;
use thalweg_mqtt::{QoS, Version, topic};
use thalweg_server::access::BanKind;

use crate::format::{Format, from_hex};
use crate::quantity;
use crate::trace::TraceArgs;

pub use connect::{ConnectArgs, ViaArg};

/// One broker for every IoT messaging protocol
///
/// Start a broker with `thalweg serve`, listen with `thalweg sub '#'`, and say something with `thalweg pub hello -m world`.
/// Nothing has to be configured for that.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the broker
    ///
    /// Without any setting it listens on 127.0.0.1 only: MQTT on port 1883, MQTT over WebSocket on 8083, AMQP 0-9-1 on
    /// 5672, STOMP on 61613, CoAP on 5683 of UDP and of TCP, the admin HTTP API on 7883. A log line with the word
    /// `ready` says that all of them accept. Once a setting names a listener, AMQP, STOMP and CoAP are served only
    /// where they are named, too.
    ///
    /// Acknowledged messages are stored in the journal under --data and restored on restart, even after a crash. SIGHUP
    /// reads the configuration again without dropping a client; SIGINT and SIGTERM stop the broker in order.
    #[command(after_help = "Examples:
  thalweg serve
  thalweg serve --config /etc/thalweg.toml --data /var/lib/thalweg
  thalweg serve --set listeners.mqtt.bind=0.0.0.0:1883 --set access.password_file=passwords")]
    Serve(ServeArgs),

    /// Check, explain or show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),

    /// Set or delete a user's password in a password file
    ///
    /// The password is asked for twice, or read with --stdin. It is stored as an argon2id hash. The broker reads the
    /// file given by `access.password_file`, and again at SIGHUP.
    #[command(after_help = "Examples:
  thalweg passwd passwords alice
  printf '%s' \"$SECRET\" | thalweg passwd passwords alice --stdin
  thalweg passwd passwords alice --delete")]
    Passwd(PasswdArgs),

    /// Ban a client, a user or a network, or end a ban
    ///
    /// Writes the file given by `access.ban_file`. A running broker reads it within seconds, and ends connections that it
    /// bans.
    #[command(after_help = "Examples:
  thalweg ban bans client car-7
  thalweg ban bans user mallory --for 7d
  thalweg ban bans address 10.1.2.0/24
  thalweg ban bans client car-7 --delete")]
    Ban(BanArgs),

    /// Publish messages
    ///
    /// Exits with 0 only once the broker has taken responsibility for every message: after its acknowledgement with QoS
    /// 1 and 2, after everything was sent with QoS 0.
    #[command(after_help = "Examples:
  thalweg pub plant/1/temperature -m 21.5
  thalweg pub plant/1/state -m on --retain -q 1
  thalweg pub plant/1/state -m '' --retain                 # removes the retained message
  thalweg pub plant/1/camera --file picture.jpg --content-type image/jpeg
  tail -f log | thalweg pub plant/1/log --stdin-lines -q 1
  thalweg pub load/test -m x --count 100000 --rate 5000/s")]
    Pub(PubArgs),

    /// Subscribe and print what arrives
    ///
    /// Runs until Ctrl-C, --count or --timeout. With --count, it fails when --timeout passes first.
    ///
    /// With --work it is a worker: it does something for each message, acknowledges after that, and tells the broker how it
    /// keeps up. docs/workers.md says more.
    #[command(after_help = "Examples:
  thalweg sub '#'
  thalweg sub 'plant/+/temperature' --format '%T %t %p'
  thalweg sub 'plant/#' --format json | jq .topic
  thalweg sub jobs --share workers -q 1
  thalweg sub alarms -q 1 --id pager --clean-start false --expiry 7d
  thalweg sub 'plant/+/state' --retained-only --timeout 1s
  thalweg sub 'jobs/#' --share workers --work --exec './convert.sh' --concurrency 4

A format is text with these marks:
  %t topic           %p payload         %x payload in hex   %l payload length
  %q QoS             %r retained (0/1)  %d duplicate (0/1)  %T time of arrival, UTC
  %c content type    %R response topic  %C correlation data in hex
  %e expiry, seconds %u user properties %i subscription identifiers
  %% a percent sign  \\n \\t \\\\ as usual
or one of the words json (an object per line), raw (payloads and nothing else), hex (payloads in hex, one per line).")]
    Sub(SubArgs),

    /// Ask a question and print the answer (MQTT 5)
    ///
    /// Publishes with a response topic and correlation data, then waits for the answer that carries the same
    /// correlation data.
    #[command(after_help = "Examples:
  thalweg req plant/1/calibrate -m '{\"sensor\": 3}'
  thalweg req time -m '' --timeout 2s --format raw")]
    Req(ReqArgs),

    /// Watch a broker: rates, connections, queues, the slowest clients
    #[command(after_help = "Examples:
  thalweg top
  thalweg top --url http://127.0.0.1:7883 --once")]
    Top(TopArgs),

    /// Say who would receive a message, and why others would not
    ///
    /// Asks the broker for a dry run: nothing is published. Rows are named by the stages a message goes through, the same
    /// words as in /metrics and in docs/follow-a-publish.md.
    #[command(after_help = "Examples:
  thalweg trace plant/1/temperature
  thalweg trace plant/1/temperature --from gateway-7")]
    Trace(TraceArgs),

    /// Say where every message went: received = delivered + queued + expired + dropped
    ///
    /// Copies are counted per receiver. `unaccounted` is always 0; anything else is a bug in Thalweg.
    #[command(after_help = "Examples:
  thalweg ledger
  thalweg ledger --client gateway-7
  thalweg ledger --client 'gateway-*'
  thalweg ledger --prefix plant/a                          # if it is in ledger.prefixes")]
    Ledger(LedgerArgs),

    /// Make a backup of the journal, of a running broker or a stopped one
    ///
    /// A running broker makes it itself and goes on meanwhile; TARGET is on its machine. Files that do not change any more
    /// are linked where the target is on the same file system, so that they take no time and no room.
    #[command(after_help = "Examples:
  thalweg backup /srv/backup/monday
  thalweg backup /srv/backup/monday --data /var/lib/thalweg     # of a stopped one")]
    Backup(BackupArgs),

    /// Put a backup where a broker can start from it
    ///
    /// Copies it to the folder `journal` in DATA_DIR, which must be new or empty. --verify opens it there and reads every
    /// message, as a broker would.
    #[command(after_help = "Examples:
  thalweg restore /srv/backup/monday /var/lib/thalweg --verify
  thalweg serve --data /var/lib/thalweg")]
    Restore(RestoreArgs),

    /// Show what is in the files of a journal, with damage and where it is
    ///
    /// Reads only, also while a broker writes. Exits with 1 if anything is damaged.
    #[command(after_help = "Examples:
  thalweg inspect /var/lib/thalweg
  thalweg inspect /var/lib/thalweg/journal/segment-0000000000000007 --records")]
    Inspect(InspectArgs),

    /// Measure brokers, repeat published studies, get advice: starts the laboratory, thalweg-bench
    ///
    /// It is a program of its own, which has to lie beside this one or in PATH: `cargo build --release -p thalweg-bench`
    /// makes it. All arguments are passed on; the exit code is its own. docs/reference/bench.md lists its commands.
    #[command(
        disable_help_flag = true,
        after_help = "Examples:
  thalweg bench --help
  thalweg bench doctor
  thalweg bench suite all --budget quick --install --out results"
    )]
    Bench(BenchArgs),

    /// Print a reference document in Markdown
    #[command(subcommand, hide = true)]
    Reference(ReferenceCommand),
}

/// Where the configuration comes from; later sources win over earlier ones.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// Configuration file in TOML. THALWEG_* environment variables and --set win over it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for what the broker keeps; the same as --set data_dir=DIR
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Change one setting, as often as needed, such as --set listeners.mqtt.bind=127.0.0.1:1884
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// `thalweg serve`
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Start from a damaged journal without what is damaged; that is copied to `quarantine` and listed in the log
    #[arg(long)]
    pub repair: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `thalweg config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Find all mistakes at once; exits with 2 if there are any
    ///
    /// With --running, the settings are also compared with those that a broker runs with: what SIGHUP would change, and
    /// what needs a restart. Give the other arguments of `thalweg serve`, too.
    #[command(after_help = "Examples:
  thalweg config check --config thalweg.toml
  thalweg config check --config thalweg.toml --running
  thalweg config check --config thalweg.toml --running --unix /run/thalweg/admin.sock")]
    Check {
        #[command(flatten)]
        config: ConfigArgs,
        /// Compare with the broker at the admin API
        #[arg(long)]
        running: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Say what a setting is for, what it takes, its value here and where that came from
    #[command(after_help = "Examples:
  thalweg config explain queue.overflow
  thalweg config explain listeners.mqtt
  thalweg config explain plant/7/temperature
  thalweg config explain")]
    Explain {
        /// A setting, a table of settings, or a topic, whose policies are shown; all settings if left out
        key: Option<String>,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Print the configuration in force as a TOML file, with where each value came from
    Show(ConfigArgs),
    /// Print the reference of all settings in Markdown
    Reference,
}

/// `thalweg passwd`
#[derive(Args, Debug)]
pub struct PasswdArgs {
    /// The password file; made if it does not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name of the user in the file
    #[arg(value_name = "USER")]
    pub user: String,
    /// Delete the user from the file
    #[arg(long, conflicts_with_all = ["scram", "stdin"])]
    pub delete: bool,
    /// Store a verifier for MQTT 5 enhanced authentication with SCRAM-SHA-256 instead; a user can have both
    #[arg(long)]
    pub scram: bool,
    /// Read the password from standard input: its first line
    #[arg(long)]
    pub stdin: bool,
}

/// `thalweg ban`
#[derive(Args, Debug)]
pub struct BanArgs {
    /// The ban file; made if it does not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What NAME is: client, user or address
    #[arg(value_name = "KIND")]
    pub kind: BanKind,
    /// Client id, user name, or an address or network such as 10.1.2.0/24
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Ban for this long. Default: until it is deleted
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::duration, conflicts_with = "delete")]
    pub time: Option<Duration>,
    /// Let the client, user or network in again
    #[arg(long)]
    pub delete: bool,
}

/// What a message carries besides its payload.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Properties (MQTT 5)")]
pub struct PropertyArgs {
    /// A user property; as often as needed
    #[arg(long = "user-property", value_name = "NAME=VALUE", value_parser = pair)]
    pub user_properties: Vec<(String, String)>,
    /// Media type of the payload
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// Where an answer should go
    #[arg(long, value_name = "TOPIC", value_parser = topic_name)]
    pub response_topic: Option<String>,
    /// Correlation data: text, or bytes in hex behind 0x
    #[arg(long, value_name = "DATA", value_parser = bytes)]
    pub correlation: Option<Bytes>,
    /// How long the message may wait for a receiver
    #[arg(long = "expiry", value_name = "TIME", value_parser = quantity::seconds)]
    pub expiry_secs: Option<u32>,
    /// Say that the payload is UTF-8 text
    #[arg(long)]
    pub text: bool,
}

/// `thalweg pub`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("payload").required(true))]
pub struct PubArgs {
    /// The topic, or a URL that names broker and topic, such as coap://host/plant/1
    #[arg(value_name = "TOPIC", value_parser = topic_place)]
    pub topic: TopicArg,
    /// The payload as text
    #[arg(
        short,
        long,
        value_name = "TEXT",
        group = "payload",
        allow_hyphen_values = true
    )]
    pub message: Option<String>,
    /// The payload is this file's content
    #[arg(short, long, value_name = "FILE", group = "payload")]
    pub file: Option<PathBuf>,
    /// The payload is all of standard input
    #[arg(short, long, group = "payload")]
    pub stdin: bool,
    /// Each line of standard input is a message
    #[arg(short = 'l', long, group = "payload", conflicts_with = "count")]
    pub stdin_lines: bool,
    /// The payload is written in hex, two digits for each byte
    #[arg(long, conflicts_with = "file")]
    pub hex: bool,
    /// Quality of service: 0, 1 or 2
    #[arg(short, long, value_name = "QOS", default_value = "0", value_parser = qos)]
    pub qos: QoS,
    /// The broker keeps the message and gives it to later subscribers
    #[arg(short, long)]
    pub retain: bool,
    /// Publish so many times
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub count: u64,
    /// Publish no faster than this, such as 100/s
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    pub rate: Option<f64>,
    /// Peer mode: listen here, send to the `thalweg sub --peer` and ZeroMQ SUB sockets that connect, and to the brokers of
    /// --url (zmtp://) while they run; no broker is needed. Publishing begins once one of them has subscribed
    #[arg(long, value_name = "HOST:PORT")]
    pub peer_bind: Option<String>,
    #[command(flatten)]
    pub properties: PropertyArgs,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// `thalweg sub`
#[derive(Args, Debug)]
pub struct SubArgs {
    /// One or more topic filters; `+` stands for one level, `#` for all that follow. Quote them for the shell
    #[arg(value_name = "FILTER", required = true, value_parser = filter_place)]
    pub filters: Vec<TopicArg>,
    /// Highest quality of service wanted: 0, 1 or 2. Default: 0, or 1 with --work
    #[arg(short, long, value_name = "QOS", value_parser = qos)]
    pub qos: Option<QoS>,
    /// Share the messages with all others who subscribe with this group: each message goes to one of them
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub share: Option<String>,
    /// How to print a message; see below
    #[arg(short = 'F', long, value_name = "FORMAT", default_value = "%t %p")]
    pub format: Format,
    /// Stop after so many messages
    #[arg(short, long, value_name = "N")]
    pub count: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub timeout: Option<Duration>,
    /// Print retained messages only
    #[arg(long, conflicts_with = "no_retained")]
    pub retained_only: bool,
    /// Do not print messages that were retained before we subscribed
    #[arg(long)]
    pub no_retained: bool,
    /// Do not send us what we publish with the same connection (MQTT 5)
    #[arg(long, conflicts_with = "share", hide = true)]
    pub no_local: bool,
    /// `false` resumes the session that --id left behind, with the messages that waited in it
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub clean_start: bool,
    /// How long the broker keeps our session after we leave. Default: 0s, or 1h with --clean-start false (MQTT 5)
    #[arg(long = "expiry", value_name = "TIME", value_parser = quantity::seconds)]
    pub session_expiry: Option<u32>,
    /// Peer mode: receive from a `thalweg pub --peer-bind` or a ZeroMQ PUB socket that listens here; as often as needed. No
    /// broker is needed; those of --url (zmtp://) are joined while they run
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "work")]
    pub peer: Vec<String>,
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl SubArgs {
    /// The quality of service to ask for.
    pub fn qos(&self) -> QoS {
        self.qos.unwrap_or(if self.work.work {
            QoS::AtLeastOnce
        } else {
            QoS::AtMostOnce
        })
    }
}

/// `thalweg sub --work`
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Work")]
pub struct WorkArgs {
    /// Be a worker: acknowledge a message when it is processed, in the order of arrival. Without --exec or --work-time,
    /// printing it is all the work
    #[arg(long)]
    pub work: bool,
    /// Run this shell command for each message, with the payload as its standard input. Its environment has
    /// THALWEG_TOPIC, THALWEG_QOS, THALWEG_RETAINED, THALWEG_DUPLICATE, and THALWEG_CONTENT_TYPE and
    /// THALWEG_RESPONSE_TOPIC if the message has them. The message is not printed
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "work",
        conflicts_with = "work_time"
    )]
    pub exec: Option<String>,
    /// Wait so long for each message, then print it
    #[arg(long, value_name = "TIME", requires = "work", value_parser = quantity::duration)]
    pub work_time: Option<Duration>,
    /// Process so many messages side by side
    #[arg(long, value_name = "N", requires = "work", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Take so many messages before the first of them is acknowledged (MQTT 5). Default: 3 for each of --concurrency, at
    /// least 8
    #[arg(long, value_name = "N", requires = "work", value_parser = clap::value_parser!(u16).range(1..))]
    pub receive_max: Option<u16>,
    /// What becomes of a message whose command fails: `discard` or `stop`. Discarded, it is acknowledged as failed
    /// (MQTT 5) and the broker redelivers it to no other. To stop is to leave without acknowledging it, or what came
    /// after it: others get that
    #[arg(
        long,
        value_name = "WHAT",
        requires = "exec",
        default_value = "discard"
    )]
    pub on_failure: OnFailure,
    /// How to tell the broker what waits here and how long a message takes: `auto`, `pingreq`, `ack`, `publish` or `off`.
    /// auto is pingreq if the broker announced that it takes reports there, else ack with QoS 1 and 2, else off. Nothing
    /// but `publish`, to $load/report, can disturb a broker without load reports
    #[arg(long, value_name = "HOW", requires = "work", default_value = "auto")]
    pub report: ReportBy,
    /// Time between two reports; an earlier one is sent when the last would mislead the broker
    #[arg(long, value_name = "TIME", requires = "work", default_value = "1s", value_parser = quantity::duration)]
    pub report_every: Duration,
}

/// What becomes of a message whose command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnFailure {
    /// Acknowledge it as failed
    Discard,
    /// Not acknowledged, and we leave
    Stop,
}

/// What carries a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportBy {
    /// The best that is known to be understood
    Auto,
    /// PINGREQ with a report, never to a broker that has not announced it
    Pingreq,
    /// User property `lb` of acknowledgements (MQTT 5)
    Ack,
    /// Messages published to $load/report
    Publish,
    /// No load reports are sent
    Off,
}

/// `thalweg req`
#[derive(Args, Debug)]
pub struct ReqArgs {
    /// The topic of the question, or a URL that names broker and topic
    #[arg(value_name = "TOPIC", value_parser = topic_place)]
    pub topic: TopicArg,
    /// Payload of the request
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: String,
    /// Quality of service of the question and of the answer: 0, 1 or 2. From 1 on the broker reports when there is no
    /// subscriber
    #[arg(short, long, value_name = "QOS", default_value = "1", value_parser = qos)]
    pub qos: QoS,
    /// How long to wait for the answers
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub timeout: Duration,
    /// How many answers to wait for
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub count: u64,
    /// How to print an answer, as in `thalweg sub`
    #[arg(short = 'F', long, value_name = "FORMAT", default_value = "%p")]
    pub format: Format,
    #[command(flatten)]
    pub properties: PropertyArgs,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// How to reach the admin API.
#[derive(Args, Clone, Debug)]
pub struct AdminArgs {
    /// The broker's admin API: http://, or https:// if `admin.tls.certificate` is set
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7883")]
    pub url: String,
    /// The Unix socket of the admin API, `admin.unix_socket`, in place of --url. No token is asked for there
    #[arg(long, value_name = "PATH", conflicts_with_all = ["url", "ca", "token", "token_file"])]
    pub unix: Option<PathBuf>,
    /// Authorities to trust for https://, in PEM. Default: the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The token of `admin.token`, if one is set. Default: the environment variable THALWEG_ADMIN_TOKEN. Other users of
    /// this machine can see it in the command line: use the variable or --token-file
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Read the token from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
}

/// `thalweg top`
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Print once and leave, for scripts
    #[arg(long)]
    pub once: bool,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::duration)]
    pub every: Duration,
    /// How many sessions to list
    #[arg(short = 'n', long, value_name = "N", default_value_t = 15)]
    pub sessions: usize,
    /// How many shared subscriptions to show, those first in which most waits
    #[arg(short, long, value_name = "N", default_value_t = 3)]
    pub groups: usize,
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `thalweg ledger`
#[derive(Args, Debug)]
pub struct LedgerArgs {
    /// The books of this client; `car-*` stands for all that begin with `car-`
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<String>,
    /// The books of this prefix of topics; `*` stands for all that have some
    #[arg(long, value_name = "PREFIX", conflicts_with = "client")]
    pub prefix: Option<String>,
    /// Print what the admin API says, as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `thalweg backup`
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// A new or empty directory
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    /// The data directory of a broker that is stopped. Default: ask the running broker
    #[arg(long, alias = "data-dir", value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `thalweg restore`
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The directory of the backup
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// The data directory of the broker that is to start from it
    #[arg(value_name = "DATA_DIR")]
    pub data_dir: PathBuf,
    /// Open what was restored and read every message
    #[arg(long)]
    pub verify: bool,
}

/// `thalweg inspect`
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// A file of a journal, its directory, or a broker's data directory
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Show every record, not only how many there are of each kind
    #[arg(long)]
    pub records: bool,
}

/// `thalweg bench …`
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// A command of thalweg-bench and its arguments
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<OsString>,
}

/// `thalweg reference …`
#[derive(Debug, Subcommand)]
pub enum ReferenceCommand {
    /// The command line: docs/reference/cli.md
    Cli,
    /// The settings, as in docs/reference/config.md
    Config,
}

/// A topic or filter, and the broker where it is if it was written as a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicArg {
    pub topic: String,
    pub broker: Option<BrokerUrl>,
}

/// Bytes given on the command line. A type of its own: clap takes `Vec<u8>` for a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

fn version(text: &str) -> Result<Version, String> {
    match text {
        "3.1" | "3" => Ok(Version::V31),
        "3.1.1" | "4" => Ok(Version::V311),
        "5" | "5.0" => Ok(Version::V5),
        _ => Err("write 3.1, 3.1.1 or 5".into()),
    }
}

fn qos(text: &str) -> Result<QoS, String> {
    let number = text.parse().map_err(|_| "write 0, 1 or 2".to_owned())?;
    QoS::from_bits(number).ok_or_else(|| "write 0, 1 or 2".into())
}

pub fn topic_name(text: &str) -> Result<String, String> {
    topic::validate_name(text)
        .map(|()| text.to_owned())
        .map_err(|error| error.to_string())
}

fn topic_place(text: &str) -> Result<TopicArg, String> {
    place(text, topic_name)
}

fn filter_place(text: &str) -> Result<TopicArg, String> {
    place(text, topic_filter)
}

/// A topic, or a URL with one.
fn place(text: &str, check: fn(&str) -> Result<String, String>) -> Result<TopicArg, String> {
    // `://` in a topic is legal and rare; the schemes of brokers are no levels that anybody uses.
    let url = text.contains("://").then(|| text.parse::<BrokerUrl>());
    match url {
        Some(Ok(broker)) => match &broker.topic {
            Some(topic) => Ok(TopicArg {
                topic: check(topic)?,
                broker: Some(broker),
            }),
            None => {
                Err("this URL names no topic; write SCHEME://HOST/TOPIC, of MQTT or CoAP".into())
            }
        },
        _ => Ok(TopicArg {
            topic: check(text)?,
            broker: None,
        }),
    }
}

fn topic_filter(text: &str) -> Result<String, String> {
    match topic::ShareFilter::parse(text).map_err(|error| error.to_string())? {
        Some(_) => Ok(text.to_owned()),
        None => topic::validate_filter(text)
            .map(|()| text.to_owned())
            .map_err(|error| error.to_string()),
    }
}

fn group(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains(['/', '+', '#', '\0']) {
        true => Err("a group is at least one character, and none of / + #".into()),
        false => Ok(text.to_owned()),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write NAME=VALUE".into())
}

fn bytes(text: &str) -> Result<Bytes, String> {
    match text.strip_prefix("0x") {
        None => Ok(Bytes(text.as_bytes().to_vec())),
        Some(hex) => from_hex(hex.as_bytes())
            .map(Bytes)
            .ok_or_else(|| "behind 0x, write two hex digits for each byte".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' ').map(|word| word.trim_matches('\'')))
    }

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn these_lines_are_understood() {
        let table = [
            "thalweg serve",
            "thalweg serve --config a.toml --data /tmp/x --set a=b --set c=d",
            "thalweg config check",
            "thalweg config check --config a.toml --running --url http://[::1]:7883",
            "thalweg config explain",
            "thalweg config explain queue.overflow --set queue.overflow=drop-oldest",
            "thalweg config show --config a.toml",
            "thalweg config reference",
            "thalweg passwd file alice",
            "thalweg ban file client car-7 --for 7d",
            "thalweg ban file address 10.0.0.0/8 --delete",
            "thalweg passwd file alice --scram --stdin",
            "thalweg passwd file alice --delete",
            "thalweg pub a/b -m hello",
            "thalweg pub a/b -m -1",
            "thalweg pub a/b --message=",
            "thalweg pub a/b -f picture.jpg --content-type image/jpeg --retain -q 2",
            "thalweg pub a/b --stdin",
            "thalweg pub a/b -l --rate 10/s --hex",
            "thalweg pub a -m x --count 3 --v 3.1.1 --id me --unix /tmp/s",
            "thalweg pub a -m x --user-property k=v --user-property k=w --correlation 0x00ff --expiry 10s --text",
            "thalweg pub a -m x --will gone --will-message bye --will-qos 1 --will-retain --will-delay 5s",
            "thalweg pub a -m x --url wss://u:p@h:1/x --ca ca.pem --cert c.pem --key k.pem --insecure",
            "thalweg pub a -m x --url zmtp://h --curve-server K --curve-secret-file k",
            "thalweg pub a -m x --peer-bind [::]:5560 --url zmtp://h",
            "thalweg sub a --peer h:5560 --peer tcp://i:5560",
            "thalweg sub # a/+/b",
            "thalweg sub $share/g/a -q 1 --count 3 --timeout 10s",
            "thalweg sub a --share g --format json --retained-only",
            "thalweg sub a --no-retained --id me --clean-start false --expiry never",
            "thalweg sub a --share g --work",
            "thalweg sub a --share g --work --exec ./job.sh --concurrency 4 --receive-max 9 --on-failure stop -q 2",
            "thalweg sub a --share g --work --work-time 25ms --report publish --report-every 500ms",
            "thalweg req a -m x --timeout 2s",
            "thalweg top --once --url http://127.0.0.1:1 --token t",
            "thalweg top --once --token-file t",
            "thalweg pub a -m x --url mqtt://u@h --password-file p",
            "thalweg trace a/b --from c --live",
            "thalweg serve --repair --data /tmp/x",
            "thalweg ledger",
            "thalweg ledger --client car-* --json",
            "thalweg ledger --prefix plant/a --url http://127.0.0.1:1",
            "thalweg backup /tmp/b --url http://127.0.0.1:1 --token t",
            "thalweg backup /tmp/b --data /tmp/x",
            "thalweg restore /tmp/b /tmp/x --verify",
            "thalweg inspect /tmp/x",
            "thalweg inspect segment-0000000000000001 --records",
            "thalweg bench",
            "thalweg bench --help",
            "thalweg bench suite E5 --repeats 2 --json",
            "thalweg reference cli",
        ];
        for line in table {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn these_lines_are_refused_in_words() {
        let table = [
            ("thalweg", "Usage"),
            ("thalweg pub a", "required"),
            ("thalweg pub a -m x -f y", "cannot be used with"),
            ("thalweg pub a -l --count 2", "cannot be used with"),
            ("thalweg pub a/+ -m x", "wildcard"),
            ("thalweg pub a -m x -q 3", "0, 1 or 2"),
            ("thalweg pub a -m x --v 4.0", "3.1, 3.1.1 or 5"),
            ("thalweg pub a -m x --url http://h", "not one of mqtt"),
            ("thalweg pub a -m x --correlation 0x0", "two hex digits"),
            ("thalweg pub a -m x --user-property k", "NAME=VALUE"),
            ("thalweg pub a -m x --expiry soon", "10s"),
            ("thalweg pub a -m x --rate 0", "above 0"),
            ("thalweg pub a -m x --cert c", "--key"),
            ("thalweg pub a -m x --will-message bye", "--will"),
            ("thalweg sub", "FILTER"),
            ("thalweg sub a#", "#"),
            ("thalweg sub $share/g", "$share"),
            ("thalweg sub a --share g/h", "a group is"),
            ("thalweg sub a --format %z", "%z"),
            (
                "thalweg sub a --retained-only --no-retained",
                "cannot be used with",
            ),
            ("thalweg sub a --work-time 25ms", "--work"),
            (
                "thalweg sub a --work --work-time 25ms --exec x",
                "cannot be used with",
            ),
            ("thalweg sub a --work --concurrency 0", "1..=1024"),
            ("thalweg sub a --work --report telepathy", "pingreq"),
            ("thalweg passwd f u --delete --scram", "cannot be used with"),
            (
                "thalweg ledger --client a --prefix b",
                "cannot be used with",
            ),
            ("thalweg backup", "TARGET"),
            ("thalweg restore a", "DATA_DIR"),
            ("thalweg serv", "similar"),
        ];
        for (line, words) in table {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn correlation_data_is_text_or_hex() {
        assert_eq!(bytes("abc"), Ok(Bytes(b"abc".to_vec())));
        assert_eq!(bytes("0x00fF"), Ok(Bytes(vec![0, 255])));
        assert_eq!(bytes("0x"), Ok(Bytes(Vec::new())));
    }
}
