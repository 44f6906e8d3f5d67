//! Scenarios as people write them.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::cell::{Engine, Protocol, Row, Standing, Workload};
use crate::command::Outcome;
use crate::results::tests::{Folder, measured};

/// A scenario with every key.
const EXAMPLE: &str = r#"
name: e2-bytes-60B
version: 1
repeats: 5
topology: {kind: t3, link: {rate: 100mbit, delay: 0ms, loss: 0%, loss_engine: kernel}}
system:   {name: own, broker: {cpu: 0}, generator: {cpu: 1}}
protocol: {publish: mqtt, subscribe: mqtt, qos: 1, window: 20, version: 5}
workload: {class: fixed, size: 60B, header: inline, seed: 42}
load:     {model: open, rate: 0.05/s, flows: 100, arrivals: periodic}   # or closed/{think}, schedule: file, bins
phases:   {settle: 1s, warmup: 20s, measure: 120s, drain: 100s}
sweep:    {topology.link.loss: [0%, 5%, 10%, 15%, 20%, 25%], protocol: [{publish: mqtt, qos: 0}, {publish: mqtt, qos: 2}, {publish: coap, con: true}]}
metrics:  [latency, wire, delivery, cpu, rss, energy]
assert:   ["bytes_per_msg[mqtt,qos2] > bytes_per_msg[mqtt,qos0] where loss<=5%", "bytes_per_msg[coap,con] < bytes_per_msg[mqtt,qos2]"]
"#;

const SMALL: &str =
    "name: small\nprotocol: {publish: mqtt}\nworkload: {size: 60B}\nload: {rate: 10/s}\n";

/// What `--set` would say of each of these words.
fn set(words: &str) -> Vec<(String, String)> {
    let pair = |word| command::pair(word).expect("KEY=VALUE");
    words.split_whitespace().map(pair).collect()
}

fn refused(text: &str) -> String {
    parse(text, &[], None).expect_err("it is wrong")
}

#[test]
fn the_example_of_the_plan_is_ninety_cells() {
    let scenario = parse(EXAMPLE, &[], None).expect("the example");
    assert_eq!(scenario.axes, ["loss", "protocol"]);
    assert_eq!(scenario.cells.len(), 6 * 3 * 5);
    let keys: BTreeSet<String> = scenario.cells.iter().map(Cell::key).collect();
    assert_eq!(keys.len(), 90);
    let is_it = |cell: &&Cell| cell.axes["protocol"] == "coap,con" && cell.axes["loss"] == "25%";
    let cell = scenario
        .cells
        .iter()
        .find(is_it)
        .expect("a cell of the sweep");
    for leg in [cell.publish, cell.subscribe] {
        assert_eq!((leg.protocol, leg.qos), (Protocol::Coap, 1));
    }
    let link = &cell.link;
    let found = (link.loss, link.rate, link.engine);
    assert_eq!(found, (0.25, Some(100_000_000), Engine::Kernel));
    assert_eq!(cell.workload, Workload::Fixed { bytes: 60 });
    let found = (cell.load.flows(), cell.cpus, cell.phases.measure_ns);
    assert_eq!(found, (100, (Some(0), Some(1)), 120_000_000_000));
    assert_eq!(cell.seed - u64::from(cell.repeat), 42);
    // The first repeat of everything comes before the second of anything.
    let repeats: Vec<u32> = scenario.cells.iter().map(|cell| cell.repeat).collect();
    assert!(repeats.is_sorted() && repeats[17] == 0 && repeats[18] == 1);
    let order = |more: &str| {
        let cells = parse(EXAMPLE, &set(more), None).expect("the example").cells;
        cells.iter().map(Cell::key).collect::<Vec<_>>()
    };
    assert_eq!(order(""), order(""), "the seed decides");
    assert_ne!(order(""), order("workload.seed=43"));
}

#[test]
fn what_is_not_said_has_the_documented_default() {
    let scenario = parse(SMALL, &[], None).expect("enough");
    let cell = &scenario.cells[0];
    let found = (scenario.cells.len(), cell.system.as_str(), cell.fan_out);
    assert_eq!(found, (3, "thalweg", 1));
    let leg = &cell.publish;
    assert_eq!((leg.qos, leg.version, leg.window), (0, 5, 20));
    assert_eq!(cell.phases.measure_ns, 10_000_000_000);
    assert!(!cell.link.namespaces && cell.axes.is_empty());
}

#[test]
fn a_wrong_key_is_told_with_its_path_and_the_nearest_one() {
    let link = "topology.link.loss";
    for (text, why) in [
        (
            EXAMPLE.replace("loss: 0%", "los: 0%"),
            "topology.link.los (line 5): there is no such key; did you mean loss?",
        ),
        (
            SMALL.replace("workload", "worklaod"),
            "did you mean workload?",
        ),
        (
            EXAMPLE.replace(link, "topologie.link.loss"),
            "did you mean topology?",
        ),
        (
            EXAMPLE.replace(link, "topology.link.los"),
            "did you mean loss?",
        ),
        (
            format!("{SMALL}colour: red\n"),
            "colour (line 5): there is no such key; there are name,",
        ),
        ("name: x\nname: y\n".to_owned(), "line 2: name comes twice"),
    ] {
        let told = refused(&text);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_number_without_its_unit_is_told() {
    for (right, wrong) in [
        ("size: 60B", "size: 60"),
        ("rate: 0.05/s", "rate: 0.05"),
        ("delay: 0ms", "delay: 0"),
        ("loss: 0%", "loss: 0"),
    ] {
        let why = refused(&EXAMPLE.replace(right, wrong).replace("sweep:", "# sweep:"));
        let key = wrong.split(':').next().expect("a key");
        assert!(why.contains(&format!("{key} (line ")), "{why}");
    }
}

#[test]
fn what_contradicts_itself_is_told() {
    for (change, because) in [
        ("topology: {link: {loss: 5%}}", "topology.kind: t3 has"),
        ("metrics: [wire]", "topology.kind: t3"),
        ("metrics: [latencies]", "one of latency"),
        (
            "system: {driver: bare}\nsweep: {protocol: [{publish: coap}]}",
            "bare speaks MQTT only",
        ),
        ("sweep: {workload.size: [60B, 60B]}", "have one name"),
        ("sweep: {workload.size: []}", "the list is empty"),
        ("sweep: {repeats: [1, 2]}", "it cannot be swept"),
        ("assert: ['p98 < 5ms']", "did you mean p9"),
        ("assert: ['p99 < 5']", "a time is a number"),
        ("assert: ['p99 < bytes_per_msg']", "different units"),
        ("budgets: {fast: {repeats: 1}}", "one of quick"),
        ("phases: {measure: 0ms}", "it has to last"),
        ("repeats: 0", "at least 1"),
        ("phases: [a, b]", "a mapping is expected"),
        ("topology: &a {kind: t3}", "anchors"),
    ] {
        let why = refused(&format!("{SMALL}{change}\n"));
        assert!(why.contains(because), "{change}: {why}");
    }
    assert!(refused(&SMALL.replace("mqtt", "coap, qos: 2")).contains("protocol.qos: 2 is more"));
    assert!(refused(&SMALL.replace("mqtt", "coap, qos: 1, con: true")).contains("not both"));
}

#[test]
fn set_changes_what_is_there_and_ends_a_sweep_of_it() {
    let asked = set("topology.link.loss=10% repeats=1 phases.measure=2s");
    let scenario = parse(EXAMPLE, &asked, None).expect("the example");
    assert_eq!(
        (scenario.cells.len(), scenario.axes),
        (3, vec!["protocol".to_owned()])
    );
    for cell in &scenario.cells {
        assert_eq!(
            (cell.link.loss, cell.phases.measure_ns),
            (0.1, 2_000_000_000)
        );
    }
    let sizes = set("sweep.workload.size=[60B,2kB] repeats=1");
    let swept = parse(SMALL, &sizes, None).expect("two sizes");
    assert_eq!(swept.cells.len(), 2);
    let why = parse(SMALL, &set("load.rte=5/s"), None).expect_err("no such key");
    assert!(why.starts_with("load.rte: "), "{why}");
}

#[test]
fn settings_of_the_broker_are_written_with_dots_or_as_tables() {
    let text = format!(
        "{SMALL}system: {{broker: {{settings: {{coap.nstart: 8, queue: {{messages_max: 7}}}}}}}}\n"
    );
    let asked = set("system.broker.settings.coap.nstart=32");
    let scenario = parse(&text, &asked, None).expect("settings");
    let settings = &scenario.cells[0].broker_settings;
    let expected = [("coap.nstart", "32"), ("queue.messages_max", "7")];
    assert_eq!(
        *settings,
        expected
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    );
}

#[test]
fn a_budget_changes_what_it_says() {
    let budgets = "budgets: {quick: {repeats: 1, phases.measure: 3s}, paper: {repeats: 8}}";
    let text = format!("{SMALL}{budgets}\n");
    for (budget, repeats) in [(None, 3), (Some("quick"), 1), (Some("paper"), 8)] {
        let scenario = parse(&text, &[], budget).expect("it is there");
        assert_eq!(scenario.cells.len(), repeats, "{budget:?}");
    }
    assert!(parse(&text, &[], Some("standard")).is_err());
}

/// Rows of the example in which a message of QoS q takes 100·(q+1) bytes and 100 more at 25 % loss; CoAP takes 150.
fn rows(scenario: &Scenario) -> Vec<(Cell, Row)> {
    let row = |cell: &Cell| {
        let mut row = measured(1 + u64::from(cell.repeat)).row;
        let more = if cell.link.loss > 0.2 { 100 } else { 0 };
        let each = match cell.publish.protocol {
            Protocol::Coap => 150,
            _ => 100 * (u64::from(cell.publish.qos) + 1) + more,
        };
        row.wire_bytes = Some(each * row.delivered);
        row
    };
    scenario
        .cells
        .iter()
        .map(|cell| (cell.clone(), row(cell)))
        .collect()
}

#[test]
fn assertions_compare_what_differs_only_by_the_brackets() {
    let scenario = parse(EXAMPLE, &[], None).expect("the example");
    let mut trials = rows(&scenario);
    let judge = |text: &str, trials: &[(Cell, Row)]| {
        let judged = Assertion::parse(text).expect("an assertion").judge(trials);
        (judged.compared, judged.failed.len())
    };
    let found = scenario.assertions.iter().map(|it| it.judge(&trials));
    let found: Vec<_> = found.map(|it| (it.compared, it.holds())).collect();
    assert_eq!(found, [(2, true), (6, true)]);
    let text = "bytes_per_msg[coap,con] > bytes_per_msg[mqtt,qos0]";
    for (text, found) in [
        // At 25 % QoS 0 takes 200.
        (text, (6, 1)),
        (&format!("{text} where loss<25%"), (5, 0)),
        (
            "bytes_per_msg[qos2] == 3 * bytes_per_msg[qos0] where loss<=15% and loss > 0%",
            (3, 0),
        ),
        // There is no such value: nothing is compared.
        ("bytes_per_msg[protocol=coap,con] <= 150B", (0, 0)),
        ("bytes_per_msg[con] <= 150B", (6, 0)),
        ("5ms > p99", (18, 0)),
        ("p50 <= 3.1us", (18, 0)),
        ("p50 > 2us where protocol==coap,con and loss<=5%", (2, 0)),
        ("lost == 0", (18, 18)),
        ("delivery >= 99%", (18, 0)),
    ] {
        assert_eq!(judge(text, &trials), found, "{text}");
    }
    for (_, row) in &mut trials {
        row.standing = Standing::Invalid("for the test".to_owned());
    }
    let judged = Assertion::parse(text).expect("an assertion").judge(&trials);
    let is_shown = judged.compared > 0 || judged.holds();
    assert!(!is_shown, "what was not measured does not hold");
}

#[test]
fn the_examples_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(&folder).expect("the examples") {
        let entry = entry.expect("an entry");
        let (name, text) = (entry.file_name(), fs::read_to_string(entry.path()));
        let scenario = parse(&text.expect("a file"), &[], None);
        let scenario = scenario.unwrap_or_else(|why| panic!("{name:?}: {why}"));
        let found = (scenario.cells.len(), scenario.assertions.is_empty());
        counts.insert(name.into_string().expect("UTF-8"), found);
    }
    for (name, count) in [
        ("loss.yaml", 6 * 4 * 5),
        ("brokers.yaml", 3 * 2 * 3),
        ("cameras.yaml", 2 * 3),
    ] {
        assert_eq!(counts.get(name), Some(&(count, false)), "{name}");
    }
    let quick = read(&folder.join("loss.yaml"), &[], Some("quick")).expect("quick");
    assert_eq!(quick.cells.len(), 4);
}

#[test]
fn users_and_idle_connections_are_of_a_scenario() {
    let first = |more: &str| {
        let scenario = parse(SMALL, &set(more), None);
        scenario.map(|mut scenario| scenario.cells.remove(0))
    };
    let cell = first("system.user=lab load.idle_connections=500").expect("a scenario");
    let text = serde_json::to_string(&cell).expect("JSON");
    let words = "\"extras\":{\"idle\":500,\"user\":\"lab\"}";
    assert!(text.contains(words), "{text}");
    let plain = serde_json::to_string(&first("").expect("a scenario")).expect("JSON");
    assert!(!plain.contains("extras"), "old folders are resumed");
    let coap = first("load.idle_connections=5 protocol.publish=coap");
    let why = coap.expect_err("they speak MQTT");
    assert!(why.contains("load.idle_connections"), "{why}");
}

#[test]
fn a_trace_is_found_beside_its_scenario_and_its_content_counts() {
    let folder = Folder::new("scenario-trace");
    fs::create_dir_all(&folder.0).expect("writable");
    let text = SMALL
        .replace("size: 60B", "class: trace, file: some-small.trace")
        .replace("rate: 10/s", "model: replay");
    fs::write(folder.0.join("s.yaml"), text).expect("writable");
    let read = || read(&folder.0.join("s.yaml"), &[], None);
    assert!(
        read()
            .expect_err("no trace")
            .contains("there is no such trace")
    );
    let hash = |content: &str| {
        fs::write(folder.0.join("some-small.trace"), content).expect("writable");
        crate::results::hash(&read().expect("a trace").cells)
    };
    assert_ne!(hash("one"), hash("two"));
}

#[test]
fn a_run_writes_its_folder_and_exits_as_it_went() {
    let folder = Folder::new("scenario-run");
    fs::create_dir_all(&folder.0).expect("writable");
    let file = folder.0.join("small.yaml");
    let text = format!(
        "{SMALL}repeats: 2\nsweep: {{workload.size: [60B, 2kB]}}\nassert: ['p50 < 50us', 'p99[60B] <= p99[2kB]']\n"
    );
    fs::write(&file, &text).expect("writable");
    let args = |name: &str, set: &str, resume: bool| command::RunArgs {
        scenario: file.clone(),
        changes: command::Changes {
            set: self::set(set),
            budget: None,
            ..command::Changes::default()
        },
        side_by_side: 4,
        results: command::ResultArgs {
            out: Some(folder.0.join(name)),
            resume,
            json: false,
            quiet: true,
        },
    };
    let stop = AtomicBool::new(false);
    let run = |args: &command::RunArgs, trial: &crate::runner::Trial<'_>| {
        let mut out = Vec::new();
        let outcome = command::run_with(args, true, &mut out, &stop, trial);
        let outcome = outcome.map_err(|error| error.to_string());
        (outcome, String::from_utf8(out).expect("text"))
    };
    let good = |_: &Cell, _: &AtomicBool| measured(1);
    let with = |standing: Standing| {
        let mut found = measured(1);
        found.row.standing = standing;
        found
    };
    let (outcome, summary) = run(&args("good", "", false), &good);
    assert_eq!(outcome, Ok(Outcome::Done), "{summary}");
    for words in ["| size=2kB | 2 |", "`p50 < 50us`: holds at 2 of 2"] {
        assert!(summary.contains(words), "{summary}");
    }
    let (outcome, summary) = run(&args("slow", "", false), &|_, _| measured(100));
    assert_eq!(outcome, Ok(Outcome::ShapeFailed));
    let words = "does not hold** at 2 of 2: size=2kB: 100";
    assert!(summary.contains(words), "{summary}");
    let invalid = |_: &Cell, _: &AtomicBool| with(Standing::Invalid("no".to_owned()));
    let bad = args("bad", "", false);
    assert_eq!(run(&bad, &invalid).0, Ok(Outcome::Invalid));
    // Half of the sweep lacks its broker: what was compared holds, and the run fails all the same.
    let absent = |cell: &Cell, _: &AtomicBool| match cell.axes["size"].as_str() {
        "2kB" => with(Standing::Absent("apt-get install it".to_owned())),
        _ => measured(1),
    };
    let half = command::RunArgs {
        scenario: folder.0.join("half.yaml"),
        ..args("half", "", false)
    };
    fs::write(&half.scenario, text.replace(", 'p99[60B] <= p99[2kB]'", "")).expect("writable");
    let (outcome, summary) = run(&half, &absent);
    assert_eq!(outcome, Ok(Outcome::Invalid), "{summary}");
    for words in [
        "holds at 1 of 1",
        "## Not measured\n\n- size=2kB: absent: apt-get install it",
    ] {
        assert!(summary.contains(words), "{summary}");
    }
    let stopping = |_: &Cell, stop: &AtomicBool| {
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        measured(1)
    };
    let cut = args("cut", "", false);
    let one_by_one = command::RunArgs {
        side_by_side: 1,
        ..cut.clone()
    };
    assert_eq!(run(&one_by_one, &stopping).0, Ok(Outcome::Interrupted));
    for file in ["cut/summary.md", "cut/run.json"] {
        assert!(folder.0.join(file).exists(), "{file}");
    }
    stop.store(false, std::sync::atomic::Ordering::SeqCst);
    for (refused, why) in [
        (cut, "it has results"),
        (args("cut", "load.rate=11/s", true), "another scenario"),
        (args("one", "workload.size=60B", false), "nothing is swept"),
    ] {
        assert!(run(&refused, &good).0.is_err(), "{why}");
    }
    let resumed = run(&args("cut", "", true), &good).0;
    assert_eq!(resumed, Ok(Outcome::Done));
}

#[test]
fn what_is_beside_the_messages_is_refused_where_nothing_can_do_it() {
    let of = |more: &str| parse(SMALL, &set(more), None);
    let more = "protocol.transport=wss load.subscriptions=shared-wildcard load.retained=10 load.pace=throttle load.fan_out=3";
    let cell = &of(more).expect("a scenario").cells[0];
    assert_eq!(cell.extras.carrier, Some(crate::cell::Carrier::Wss));
    assert_eq!(
        (cell.extras.shared, cell.extras.wildcard, cell.copies()),
        (true, true, 1)
    );
    assert_eq!((cell.extras.turbo, cell.extras.throttle), (false, true));
    for (more, path) in [
        (
            "protocol.transport=tls system.driver=bare",
            "protocol.transport",
        ),
        ("load.pace=turbo system.driver=bare", "load.pace"),
        (
            "protocol.transport=ws protocol.publish=amqp",
            "protocol.transport",
        ),
        (
            "load.subscriptions=shared protocol.publish=coap",
            "load.subscriptions",
        ),
        ("load.backlog=5 system.driver=stock", "load.backlog"),
        ("workload.payload=x workload.size=60B", "workload.payload"),
    ] {
        let why = of(more).expect_err(path);
        assert!(why.contains(path), "{more}: {why}");
    }
}
