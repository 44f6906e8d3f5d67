//! The client's and the operator's commands against a broker in this process.

use std::path::PathBuf;

use clap::Parser;
use thalweg_admin::AdminSettings;
use thalweg_server::Server;
use thalweg_server::config::Config;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::{backup, inspect, ledger, publish, request, subscribe};

/// A broker on a free port, stopped when it is dropped.
struct Broker {
    server: Server,
}

impl Broker {
    fn start() -> Broker {
        let sets = [
            "listeners.mqtt.bind=127.0.0.1:0",
            "listeners.websocket.bind=127.0.0.1:0",
            "admin.enabled=false",
            "shards=2",
            "journal.enabled=false",
        ];
        let (config, _) =
            Config::from_text(None, std::iter::empty(), &sets.map(str::to_owned)).expect("legal");
        Broker {
            server: Server::start(config).expect("loopback has free ports"),
        }
    }

    fn url(&self, listener: &str, scheme: &str) -> String {
        let (_, address) = self
            .server
            .listening()
            .iter()
            .find(|(name, _)| name == listener)
            .expect("it listens");
        format!("{scheme}://{address}")
    }

    /// Runs a command line against the broker; returns what it printed.
    fn run(&self, line: &str) -> Result<String, Failure> {
        self.run_at(&self.url("mqtt", "mqtt"), line, b"")
    }

    fn run_at(&self, url: &str, line: &str, input: &'static [u8]) -> Result<String, Failure> {
        let words = std::iter::once("thalweg")
            .chain(line.split(' '))
            .chain(["--url", url]);
        let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut out = Vec::new();
        match &cli.command {
            Command::Pub(args) => publish::run(args, input)?,
            Command::Sub(args) => subscribe::run(args, &mut out)?,
            Command::Req(args) => request::run(args, &mut out)?,
            other => panic!("not a client command: {other:?}"),
        }
        Ok(String::from_utf8(out).expect("the tests print text"))
    }
}

#[test]
fn a_retained_message_is_found_by_a_later_subscriber_in_every_version_and_qos() {
    let broker = Broker::start();
    for version in ["3.1", "3.1.1", "5"] {
        for qos in 0..3 {
            let topic = format!("plant/{version}/{qos}");
            broker
                .run(&format!(
                    "pub {topic} -m on -q {qos} --retain --v {version}"
                ))
                .expect("published");
            let printed = broker
                .run(&format!(
                    "sub {topic} -q 2 --count 1 --timeout 10s --v {version} --format %t=%p,%q,%r"
                ))
                .expect("printed");
            assert_eq!(printed, format!("{topic}=on,{qos},1\n"));
        }
    }
}

#[test]
fn a_session_that_is_kept_has_what_was_published_meanwhile() {
    let broker = Broker::start();
    let sub = "sub log/# -q 1 --id keeper --clean-start false --expiry 1h";
    assert_eq!(
        broker
            .run(&format!("{sub} --count 0 --timeout 10s"))
            .expect("subscribed"),
        ""
    );
    let url = broker.url("mqtt", "mqtt");
    broker
        .run_at(&url, "pub log/a -q 1 --stdin-lines", b"one\ntwo\n\nthree")
        .expect("published");
    let printed = broker
        .run(&format!("{sub} --count 4 --timeout 10s"))
        .expect("printed");
    assert_eq!(printed, "log/a one\nlog/a two\nlog/a \nlog/a three\n");
}

#[test]
fn websockets_carry_the_same() {
    let broker = Broker::start();
    let url = broker.url("websocket", "ws");
    broker
        .run_at(&url, "pub a -m ping -q 2 --retain", b"")
        .expect("published");
    assert_eq!(
        broker
            .run_at(&url, "sub a --count 1 --timeout 10s", b"")
            .expect("printed"),
        "a ping\n"
    );
}

#[test]
fn every_message_of_a_large_publish_is_acknowledged() {
    let broker = Broker::start();
    let sub = "sub load -q 2 --id counter --clean-start false --format %l";
    broker
        .run(&format!("{sub} --count 0 --timeout 10s"))
        .expect("subscribed");
    broker
        .run("pub load -m 36-bytes-like-a-sensor-would-publish -q 2 --count 3000")
        .expect("published");
    let printed = broker
        .run(&format!("{sub} --count 3000 --timeout 20s"))
        .expect("printed");
    assert_eq!(printed.lines().count(), 3000);
}

#[test]
fn properties_arrive_as_they_were_given() {
    let broker = Broker::start();
    broker
        .run("pub a -m {} --retain --content-type application/json --response-topic b --correlation 0x00ff --user-property k=v")
        .expect("published");
    let printed = broker
        .run("sub a --count 1 --timeout 10s --format %c|%R|%C|%u")
        .expect("printed");
    assert_eq!(printed, "application/json|b|00ff|k=v\n");
}

#[test]
fn a_timeout_before_the_count_is_a_failure_and_one_without_a_count_is_none() {
    let broker = Broker::start();
    let failure = broker
        .run("sub nothing --count 1 --timeout 2s")
        .expect_err("nothing is published");
    assert!(failure.to_string().contains("0 of 1 messages"), "{failure}");
    assert_eq!(
        broker
            .run("sub nothing --timeout 2s")
            .expect("no count, no failure"),
        ""
    );
}

#[test]
fn a_question_that_nobody_hears_fails_at_once() {
    let broker = Broker::start();
    let failure = broker
        .run("req nobody -m hello --timeout 10s")
        .expect_err("nobody answers");
    assert!(failure.to_string().contains("nobody listens"), "{failure}");
}

#[test]
fn an_answer_finds_its_question() {
    let broker = Broker::start();
    // A session that is kept hears the question whenever it is asked, so that nobody has to be waited for.
    let responder = "sub ask -q 1 --id responder --clean-start false --format %R|%C|%p";
    broker
        .run(&format!("{responder} --count 0 --timeout 10s"))
        .expect("subscribed");
    let printed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let question = broker
                .run(&format!("{responder} --count 1 --timeout 10s"))
                .expect("asked");
            let [topic, correlation, "hello"] = question.trim().split('|').collect::<Vec<_>>()[..]
            else {
                panic!("not the question: {question}");
            };
            broker
                .run(&format!("pub {topic} -q 1 -m stray"))
                .expect("published");
            broker
                .run(&format!(
                    "pub {topic} -q 1 -m world --correlation 0x{correlation}"
                ))
                .expect("published");
        });
        broker
            .run("req ask -m hello --timeout 10s")
            .expect("answered")
    });
    assert_eq!(printed, "world\n");
}

#[test]
fn binary_lines_are_written_in_hex() {
    let broker = Broker::start();
    let sub = "sub samples -q 1 --id reader --clean-start false --format hex";
    broker
        .run(&format!("{sub} --count 0 --timeout 10s"))
        .expect("subscribed");
    broker
        .run_at(
            &broker.url("mqtt", "mqtt"),
            "pub samples -q 1 -l --hex",
            b"000aff\n0D0a\r\n",
        )
        .expect("published");
    assert_eq!(
        broker
            .run(&format!("{sub} --count 2 --timeout 10s"))
            .expect("printed"),
        "000aff\n0d0a\n"
    );
}

#[test]
fn a_broker_that_is_not_there_is_told_in_words() {
    let broker = Broker::start();
    let url = broker.url("mqtt", "mqtt");
    broker.server.stop();
    let cli =
        Cli::try_parse_from(["thalweg", "pub", "a", "-m", "x", "--url", &url]).expect("legal");
    let Command::Pub(args) = &cli.command else {
        panic!("it is pub")
    };
    let failure = publish::run(args, &b""[..])
        .expect_err("nobody listens")
        .to_string();
    assert!(
        failure.contains("nobody listens") && failure.contains("thalweg serve"),
        "{failure}"
    );
}

#[cfg(feature = "dds")]
#[test]
fn a_message_without_a_dds_reader_waits_no_longer_than_a_connection_may_take() {
    let words = ["thalweg", "pub", "dds://67/nobody/reads", "-m", "x"];
    let words = words.iter().chain(&["--connect-timeout", "200ms"]);
    let cli = Cli::try_parse_from(words).expect("legal");
    let Command::Pub(args) = &cli.command else {
        panic!("it is pub")
    };
    let failure = publish::run(args, &b""[..])
        .expect_err("nobody reads")
        .to_string();
    assert!(
        failure.contains("no DDS reader of nobody/reads was found within 200ms"),
        "{failure}"
    );
}

#[test]
fn a_port_of_another_protocol_is_told_in_words() {
    let broker = Broker::start();
    let at = |listener, scheme| {
        broker.run_at(
            &broker.url(listener, scheme),
            "pub a -m x --connect-timeout 5s",
            b"",
        )
    };
    for (listener, scheme) in [("websocket", "mqtt"), ("mqtt", "ws"), ("mqtt", "mqtts")] {
        let failure = at(listener, scheme).expect_err(scheme).to_string();
        assert!(
            failure.contains("port"),
            "{scheme} on {listener}: {failure}"
        );
    }
}

/// A broker with four messages, `0` to `3`, in the session of `worker`, and a command that notes each and fails for `1`.
#[cfg(unix)]
fn four_jobs(folder: &Folder) -> (Broker, String) {
    use std::os::unix::fs::PermissionsExt;
    let broker = Broker::start();
    broker
        .run("sub $share/g/jobs/# -q 2 --id worker --clean-start false --count 0 --timeout 10s")
        .expect("subscribed");
    let url = broker.url("mqtt", "mqtt");
    broker
        .run_at(&url, "pub jobs/a -q 2 --stdin-lines", b"0\n1\n2\n3")
        .expect("published");
    let command = folder.0.join("job.sh");
    let script =
        "#!/bin/sh\nread -r job\necho $THALWEG_TOPIC $job >> $(dirname $0)/done\ntest $job != 1\n";
    std::fs::write(&command, script).expect("writable");
    std::fs::set_permissions(&command, PermissionsExt::from_mode(0o755)).expect("ours");
    let work = format!(
        "sub jobs/# --share g --id worker --clean-start false --work --exec {}",
        command.display()
    );
    (broker, work)
}

#[test]
#[cfg(unix)]
fn a_worker_acknowledges_what_is_done_and_discards_what_fails() {
    for (qos, concurrency) in [(1, 1), (1, 3), (2, 1), (2, 3)] {
        let folder = Folder::new(&format!("discard-{qos}-{concurrency}"));
        let (broker, work) = four_jobs(&folder);
        let line = format!("{work} -q {qos} --concurrency {concurrency} --count 4 --timeout 20s");
        let failure = broker.run(&line).expect_err("one job fails");
        assert!(
            failure
                .to_string()
                .contains("1 of 4 messages failed and were discarded"),
            "{failure}"
        );
        let done = std::fs::read_to_string(folder.0.join("done")).expect("the command ran");
        let mut done: Vec<&str> = done.lines().collect();
        done.sort_unstable();
        assert_eq!(done, ["jobs/a 0", "jobs/a 1", "jobs/a 2", "jobs/a 3"]);
        broker.run("pub jobs/b -q 2 -m next").expect("published");
        let next =
            "sub jobs/# --share g --id worker --clean-start false -q 2 --count 1 --timeout 10s";
        let next = broker.run(next).expect("it comes");
        assert_eq!(next, "jobs/b next\n", "all four were answered for");
    }
}

#[test]
#[cfg(unix)]
fn a_worker_that_stops_at_a_failure_leaves_it_and_what_follows_to_others() {
    let folder = Folder::new("stop");
    let (broker, work) = four_jobs(&folder);
    let line = format!("{work} -q 1 --on-failure stop --count 4 --timeout 20s");
    let failure = broker.run(&line).expect_err("one job fails");
    assert!(
        failure
            .to_string()
            .contains("message 2: the command failed: exit status: 1"),
        "{failure}"
    );
    let left = broker
        .run("sub jobs/# --share g --id worker --clean-start false -q 2 --count 3 --timeout 10s");
    let left = left.expect("three are left");
    assert_eq!(left, "jobs/a 1\njobs/a 2\njobs/a 3\n");
}

#[test]
fn workers_that_wait_print_what_they_did_and_work_side_by_side() {
    let broker = Broker::start();
    broker
        .run("sub $share/g/jobs -q 1 --id worker --clean-start false --count 0 --timeout 10s")
        .expect("subscribed");
    broker
        .run("pub jobs -m x -q 1 --count 30")
        .expect("published");
    let work = "sub jobs --share g --id worker --clean-start false --work --work-time 1s";
    let begin = std::time::Instant::now();
    let printed = broker
        .run(&format!("{work} --concurrency 30 --count 30 --timeout 60s"))
        .expect("all were done");
    assert_eq!(printed, "jobs x\n".repeat(30));
    assert!(
        begin.elapsed() < std::time::Duration::from_secs(20),
        "one by one it takes 30 s"
    );
}

/// A folder that goes when it goes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
        // Of an earlier process of the same number, if of anybody.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command of an operator's; what it printed, and why it failed if it did.
fn operate(line: &[&str]) -> (String, Option<Failure>) {
    let cli = Cli::try_parse_from(std::iter::once("thalweg").chain(line.iter().copied()));
    let cli = cli.unwrap_or_else(|error| panic!("{line:?}: {error}"));
    let mut out = Vec::new();
    let result = match &cli.command {
        Command::Backup(args) => backup::run(args, &mut out),
        Command::Restore(args) => backup::restore(args, &mut out),
        Command::Inspect(args) => inspect::run(args, &mut out),
        Command::Ledger(args) => ledger::run(args, &mut out),
        other => panic!("not a command of an operator's: {other:?}"),
    };
    (String::from_utf8(out).expect("text"), result.err())
}

#[test]
fn a_journal_is_saved_restored_and_inspected_and_damage_is_found() {
    let folder = Folder::new("journal");
    let path = |name: &str| folder.0.join(name).display().to_string();
    let sets = [
        "listeners.mqtt.bind=127.0.0.1:0".to_owned(),
        "listeners.websocket.enabled=false".to_owned(),
        format!("data_dir={}", path("data")),
        "journal.segment_bytes=1MiB".to_owned(),
    ];
    let (config, _) = Config::from_text(None, std::iter::empty(), &sets).expect("legal");
    let server = Server::start(config).expect("loopback has free ports");
    let settings = AdminSettings::open(([127, 0, 0, 1], 0).into());
    let admin = thalweg_admin::start(server.observer(), settings).expect("loopback has free ports");
    let url = format!("http://{}", admin.local_addr());
    let broker = Broker { server };
    broker
        .run("sub plant/# -q 1 --id keeper --clean-start false --expiry 1h --count 0 --timeout 10s")
        .expect("subscribed");
    broker
        .run("pub plant/state -m on -q 1 --retain")
        .expect("published");

    let (books, failure) = operate(&["ledger", "--client", "keeper", "--url", &url]);
    assert!(
        failure.is_none() && books.contains("\nkeeper       1 "),
        "{books}"
    );
    let holds = "1 sessions, 1 subscriptions, 1 messages queued or in flight";
    let (said, failure) = operate(&["backup", &path("running"), "--url", &url]);
    assert!(failure.is_none() && said.contains(holds), "{said}");
    let (_, failure) = operate(&["backup", &path("stopped"), "--data", &path("data")]);
    assert!(
        failure
            .expect("the broker has it open")
            .to_string()
            .contains("Stop it first")
    );
    admin.stop();
    broker.server.stop();
    let (said, failure) = operate(&["backup", &path("stopped"), "--data", &path("data")]);
    assert!(failure.is_none() && said.contains(holds), "{said}");

    for from in ["running", "stopped"] {
        let to = path(&format!("from-{from}"));
        let (said, failure) = operate(&["restore", &path(from), &to, "--verify"]);
        assert!(
            failure.is_none() && said.contains(holds) && said.contains(", 0 could not be"),
            "{said}"
        );
        let (_, failure) = operate(&["restore", &path(from), &to]);
        assert!(
            failure
                .expect("there is something in it")
                .to_string()
                .contains("is not empty")
        );
    }
    let (said, failure) = operate(&["inspect", &path("from-running"), "--records"]);
    assert!(
        failure.is_none() && said.contains("client \"keeper\"") && said.contains("plant/state"),
        "{said}"
    );

    let checkpoint = std::fs::read_dir(path("running"))
        .expect("it is there")
        .flatten();
    let checkpoint = checkpoint
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("checkpoint-"));
    let checkpoint = checkpoint.expect("a backup has a checkpoint");
    let mut bytes = std::fs::read(&checkpoint).expect("it can be read");
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    // A new file: the old one may be linked to elsewhere.
    std::fs::remove_file(&checkpoint).expect("it is ours");
    std::fs::write(&checkpoint, bytes).expect("it is ours");
    let (said, failure) = operate(&["inspect", &path("running")]);
    assert!(failure.is_some() && said.contains("DAMAGE"), "{said}");
    let (_, failure) = operate(&["inspect", &path(".")]);
    assert!(
        failure
            .expect("there is no journal")
            .to_string()
            .contains("has no files of a journal")
    );
}

#[test]
fn a_file_is_compared_with_the_running_broker() {
    let mut broker = Broker::start();
    let settings = AdminSettings::open(([127, 0, 0, 1], 0).into());
    let admin =
        thalweg_admin::start(broker.server.observer(), settings).expect("loopback has free ports");
    let url = format!("http://{}", admin.local_addr());
    let check = |sets: &[&str]| {
        let same = [
            "listeners.mqtt.bind=127.0.0.1:0",
            "listeners.websocket.bind=127.0.0.1:0",
            "admin.enabled=false",
            "journal.enabled=false",
        ];
        let mut words = vec!["thalweg", "config", "check", "--running", "--url", &url];
        words.extend(same.iter().chain(sets).flat_map(|set| ["--set", *set]));
        let cli = Cli::try_parse_from(words).expect("legal");
        let Command::Config(command) = &cli.command else {
            panic!("not config");
        };
        let mut out = Vec::new();
        crate::config::run(command, &mut out).expect("the broker answers");
        String::from_utf8(out).expect("text")
    };
    let said = check(&["shards=2"]);
    assert!(
        said.contains("\n0 of ") && said.contains(" differ from "),
        "{said}"
    );
    let changed = [
        "shards=3",
        "queue.overflow=drop-oldest",
        "admin.token=a-token-of-some-length",
        "listeners.extra.bind=127.0.0.1:0",
    ];
    let said = check(&changed);
    for line in [
        "shards: 2 -> 3, after a restart\n",
        "queue.overflow: \"drop-newest\" -> \"drop-oldest\", ",
        "admin.token: not set -> \"(hidden)\", ",
        "listeners.extra.bind: not set -> \"127.0.0.1:0\", at once after a reload\n",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // What the broker has taken over differs no more; what needs a restart does.
    let sets = [
        "admin.enabled=false",
        "journal.enabled=false",
        "listeners.mqtt.bind=127.0.0.1:0",
        "listeners.websocket.bind=127.0.0.1:0",
    ];
    let sets: Vec<String> = sets
        .iter()
        .chain(&changed)
        .map(ToString::to_string)
        .collect();
    let (config, _) = Config::from_text(None, std::iter::empty(), &sets).expect("legal");
    broker.server.reload(config).expect("it is taken over");
    let said = check(&changed);
    assert!(
        said.contains("shards: 2 -> 3") && !said.contains("queue.overflow"),
        "{said}"
    );
    admin.stop();
}
