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

fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
        .collect()
}

fn refused(text: &str) -> String {
    parse(text, &[], None).expect_err("it is wrong")
}

#[test]
fn the_example_of_the_plan_is_ninety_cells() {
    let scenario = parse(EXAMPLE, &[], None).expect("the example");
    assert_eq!(
        (scenario.cells.len(), scenario.axes),
        (6 * 3 * 5, vec!["loss".to_owned(), "protocol".to_owned()])
    );
    let keys: BTreeSet<String> = scenario.cells.iter().map(Cell::key).collect();
    assert_eq!(keys.len(), 90);
    let found = scenario
        .cells
        .iter()
        .find(|cell| cell.axes["protocol"] == "coap,con" && cell.axes["loss"] == "25%");
    let cell = found.expect("a cell of the sweep");
    assert_eq!(
        (
            cell.publish.protocol,
            cell.subscribe.protocol,
            cell.publish.qos
        ),
        (Protocol::Coap, Protocol::Coap, 1)
    );
    assert_eq!(
        (cell.link.loss, cell.link.rate, cell.link.engine),
        (0.25, Some(100_000_000), Engine::Kernel)
    );
    assert_eq!(
        (cell.workload.clone(), cell.load.flows(), cell.cpus),
        (Workload::Fixed { bytes: 60 }, 100, (Some(0), Some(1)))
    );
    assert_eq!(
        (cell.phases.measure_ns, cell.seed - u64::from(cell.repeat)),
        (120_000_000_000, 42)
    );
    // The first repeat of everything comes before the second of anything.
    assert!(
        scenario
            .cells
            .chunks(18)
            .enumerate()
            .all(|(n, chunk)| chunk.iter().all(|cell| cell.repeat == n as u32))
    );
    let order = |cells: &[Cell]| cells.iter().map(Cell::key).collect::<Vec<_>>();
    assert_eq!(
        order(&scenario.cells),
        order(&parse(EXAMPLE, &[], None).expect("the example").cells),
        "the seed decides"
    );
    let other = parse(EXAMPLE, &set(&[("workload.seed", "43")]), None).expect("another seed");
    assert_ne!(order(&scenario.cells), order(&other.cells));
}

#[test]
fn what_is_not_said_has_the_documented_default() {
    let scenario = parse(SMALL, &[], None).expect("enough");
    let cell = &scenario.cells[0];
    assert_eq!(
        (scenario.cells.len(), cell.system.as_str(), cell.fan_out),
        (3, "thalweg", 1)
    );
    assert_eq!(
        (cell.publish.qos, cell.publish.version, cell.publish.window),
        (0, 5, 20)
    );
    assert_eq!(cell.phases.measure_ns, 10_000_000_000);
    assert!(!cell.link.namespaces && cell.axes.is_empty());
}

#[test]
fn a_wrong_key_is_told_with_its_path_and_the_nearest_one() {
    let why = refused(&EXAMPLE.replace("loss: 0%", "los: 0%"));
    assert_eq!(
        why,
        "topology.link.los (line 5): there is no such key; did you mean loss?"
    );
    assert!(refused(&SMALL.replace("workload", "worklaod")).contains("did you mean workload?"));
    assert!(
        refused(&EXAMPLE.replace("topology.link.loss", "topologie.link.loss"))
            .contains("did you mean topology?")
    );
    assert!(
        refused(&EXAMPLE.replace("topology.link.loss", "topology.link.los"))
            .contains("did you mean loss?")
    );
    assert!(refused("name: x\nname: y\n").contains("line 2: name comes twice"));
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
        ("sweep: {repeats: [1, 2]}", "can be swept"),
        ("assert: ['p98 < 5ms']", "did you mean p9"),
        ("assert: ['p99 < 5']", "a time is a number"),
        ("assert: ['p99 < bytes_per_msg']", "different units"),
        ("budgets: {fast: {repeats: 1}}", "there are quick"),
        ("phases: {measure: 0ms}", "it has to last"),
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
    let asked = set(&[
        ("topology.link.loss", "10%"),
        ("repeats", "1"),
        ("phases.measure", "2s"),
    ]);
    let scenario = parse(EXAMPLE, &asked, None).expect("the example");
    assert_eq!(
        (scenario.cells.len(), scenario.axes),
        (3, vec!["protocol".to_owned()])
    );
    assert!(
        scenario
            .cells
            .iter()
            .all(|cell| cell.link.loss == 0.1 && cell.phases.measure_ns == 2_000_000_000)
    );
    let swept = parse(
        SMALL,
        &set(&[("sweep.workload.size", "[60B, 2kB]"), ("repeats", "1")]),
        None,
    )
    .expect("two sizes");
    assert_eq!(swept.cells.len(), 2);
    assert!(
        parse(SMALL, &set(&[("load.rte", "5/s")]), None)
            .expect_err("no such key")
            .starts_with("load.rte: ")
    );
}

#[test]
fn a_budget_changes_what_it_says() {
    let text = format!(
        "{SMALL}budgets: {{quick: {{repeats: 1, phases.measure: 3s}}, paper: {{repeats: 8}}}}\n"
    );
    let repeats = |budget| parse(&text, &[], budget).map(|scenario| scenario.cells.len());
    assert_eq!(
        (
            repeats(None),
            repeats(Some("quick")),
            repeats(Some("paper"))
        ),
        (Ok(3), Ok(1), Ok(8))
    );
    assert!(repeats(Some("standard")).is_err());
}

/// Rows of the example in which a message of QoS q takes 100·(q+1) bytes and 100 more at 25 % loss; CoAP takes 150.
fn rows(scenario: &Scenario) -> Vec<(Cell, Row)> {
    let row = |cell: &Cell| {
        let mut row = measured(1 + u64::from(cell.repeat)).row;
        let more = if cell.link.loss > 0.2 { 100 } else { 0 };
        let each = if cell.publish.protocol == Protocol::Coap {
            150
        } else {
            100 * (u64::from(cell.publish.qos) + 1) + more
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
    let found: Vec<Judged> = scenario
        .assertions
        .iter()
        .map(|assertion| assertion.judge(&trials))
        .collect();
    assert_eq!(
        found
            .iter()
            .map(|judged| (judged.compared, judged.holds()))
            .collect::<Vec<_>>(),
        [(2, true), (6, true)]
    );
    // At 25 % QoS 0 takes 200.
    let text = "bytes_per_msg[coap,con] > bytes_per_msg[mqtt,qos0]";
    assert_eq!(judge(text, &trials), (6, 1));
    assert_eq!(
        judge(
            "bytes_per_msg[coap,con] > bytes_per_msg[mqtt,qos0] where loss<25%",
            &trials
        ),
        (5, 0)
    );
    assert_eq!(
        judge(
            "bytes_per_msg[qos2] == 3 * bytes_per_msg[qos0] where loss<=15% and loss > 0%",
            &trials
        ),
        (3, 0)
    );
    assert_eq!(
        judge("bytes_per_msg[protocol=coap,con] <= 150B", &trials),
        (0, 0),
        "no such value: nothing was compared"
    );
    assert_eq!(judge("bytes_per_msg[con] <= 150B", &trials), (6, 0));
    assert_eq!(judge("5ms > p99", &trials), (18, 0));
    assert_eq!(judge("p50 <= 3.1us", &trials), (18, 0));
    assert_eq!(
        judge("p50 > 2us where protocol==coap,con and loss<=5%", &trials),
        (2, 0)
    );
    assert_eq!(judge("lost == 0", &trials), (18, 18));
    assert_eq!(judge("delivery >= 99%", &trials), (18, 0));
    for (_, row) in &mut trials {
        row.standing = Standing::Invalid("for the test".to_owned());
    }
    let judged = Assertion::parse(text).expect("an assertion").judge(&trials);
    assert!(
        judged.compared == 0 && !judged.holds(),
        "what was not measured does not hold"
    );
}

#[test]
fn the_examples_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let counts = [
        ("loss.yaml", 6 * 4 * 5),
        ("brokers.yaml", 3 * 2 * 3),
        ("cameras.yaml", 2 * 3),
    ];
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("the examples") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a file");
        let scenario =
            parse(&text, &[], None).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        if let Some((_, count)) = counts.iter().find(|(name, _)| path.ends_with(name)) {
            assert_eq!(
                (scenario.cells.len(), scenario.assertions.is_empty()),
                (*count, false),
                "{}",
                path.display()
            );
            seen += 1;
        }
    }
    assert_eq!(seen, counts.len());
    assert_eq!(
        read(&folder.join("loss.yaml"), &[], Some("quick"))
            .expect("quick")
            .cells
            .len(),
        4
    );
}

#[test]
fn users_and_idle_connections_are_of_a_scenario() {
    let more = [("system.user", "lab"), ("load.idle_connections", "500")];
    let cell = &parse(SMALL, &set(&more), None).expect("a scenario").cells[0];
    assert_eq!(
        (cell.extras.user.as_deref(), cell.extras.idle),
        (Some("lab"), 500)
    );
    let text = serde_json::to_string(cell).expect("JSON");
    assert!(
        text.contains("\"extras\":{\"idle\":500,\"user\":\"lab\"}"),
        "{text}"
    );
    let plain = &parse(SMALL, &[], None).expect("a scenario").cells[0];
    assert!(
        !serde_json::to_string(plain)
            .expect("JSON")
            .contains("extras"),
        "old folders are resumed"
    );
    let coap = [("load.idle_connections", "5"), ("protocol.publish", "coap")];
    assert!(
        parse(SMALL, &set(&coap), None)
            .expect_err("they speak MQTT")
            .contains("load.idle_connections")
    );
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
    let args = |name: &str, set: &[(&str, &str)], resume: bool| command::RunArgs {
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
        let outcome = command::run_with(args, true, &mut out, &stop, trial)
            .map_err(|error| error.to_string());
        (outcome, String::from_utf8(out).expect("text"))
    };
    let (outcome, summary) = run(&args("good", &[], false), &|_, _| measured(1));
    assert_eq!(outcome, Ok(Outcome::Done), "{summary}");
    assert!(
        summary.contains("| size=2kB | 2 |") && summary.contains("`p50 < 50us`: holds at 2 of 2"),
        "{summary}"
    );
    let (outcome, summary) = run(&args("slow", &[], false), &|_, _| measured(100));
    assert_eq!(outcome, Ok(Outcome::ShapeFailed));
    assert!(
        summary.contains("does not hold** at 2 of 2: size=2kB: 100"),
        "{summary}"
    );
    let invalid = |_: &Cell, _: &AtomicBool| {
        let mut found = measured(1);
        found.row.standing = Standing::Invalid("no".to_owned());
        found
    };
    assert_eq!(
        run(&args("bad", &[], false), &invalid).0,
        Ok(Outcome::Invalid)
    );
    // Half of the sweep lacks its broker: what was compared holds, and the run fails all the same.
    let absent = |cell: &Cell, _: &AtomicBool| {
        let mut found = measured(1);
        if cell.axes["size"] == "2kB" {
            found.row.standing = Standing::Absent("apt-get install it".to_owned());
        }
        found
    };
    let half = command::RunArgs {
        scenario: folder.0.join("half.yaml"),
        ..args("half", &[], false)
    };
    fs::write(&half.scenario, text.replace(", 'p99[60B] <= p99[2kB]'", "")).expect("writable");
    let (outcome, summary) = run(&half, &absent);
    assert_eq!(outcome, Ok(Outcome::Invalid), "{summary}");
    assert!(summary.contains("holds at 1 of 1"), "{summary}");
    assert!(
        summary.contains("## Not measured\n\n- size=2kB: absent: apt-get install it"),
        "{summary}"
    );
    let stopping = |_: &Cell, stop: &AtomicBool| {
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        measured(1)
    };
    let one_by_one = command::RunArgs {
        side_by_side: 1,
        ..args("cut", &[], false)
    };
    assert_eq!(run(&one_by_one, &stopping).0, Ok(Outcome::Interrupted));
    assert!(folder.0.join("cut/summary.md").exists() && folder.0.join("cut/run.json").exists());
    stop.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(
        run(&args("cut", &[], false), &|_, _| measured(1))
            .0
            .is_err(),
        "it has results"
    );
    assert!(
        run(&args("cut", &[("load.rate", "11/s")], true), &|_, _| {
            measured(1)
        })
        .0
        .is_err(),
        "another scenario"
    );
    assert_eq!(
        run(&args("cut", &[], true), &|_, _| measured(1)).0,
        Ok(Outcome::Done)
    );
    assert!(
        run(&args("one", &[("workload.size", "60B")], false), &|_, _| {
            measured(1)
        })
        .0
        .is_err(),
        "nothing is swept"
    );
}

#[test]
fn what_is_beside_the_messages_is_refused_where_nothing_can_do_it() {
    let of = |more: &[(&str, &str)]| parse(SMALL, &set(more), None);
    let more = [
        ("protocol.transport", "wss"),
        ("load.subscriptions", "shared-wildcard"),
        ("load.retained", "10"),
        ("load.pace", "throttle"),
        ("load.fan_out", "3"),
    ];
    let cell = &of(&more).expect("a scenario").cells[0];
    assert_eq!(cell.extras.carrier, Some(crate::cell::Carrier::Wss));
    assert_eq!(
        (cell.extras.shared, cell.extras.wildcard, cell.copies()),
        (true, true, 1)
    );
    assert_eq!((cell.extras.turbo, cell.extras.throttle), (false, true));
    for (more, path) in [
        (
            [("protocol.transport", "tls"), ("system.driver", "bare")],
            "protocol.transport",
        ),
        (
            [("load.pace", "turbo"), ("system.driver", "bare")],
            "load.pace",
        ),
        (
            [("protocol.transport", "ws"), ("protocol.publish", "amqp")],
            "protocol.transport",
        ),
        (
            [
                ("load.subscriptions", "shared"),
                ("protocol.publish", "coap"),
            ],
            "load.subscriptions",
        ),
        (
            [("load.backlog", "5"), ("system.driver", "stock")],
            "load.backlog",
        ),
        (
            [("workload.payload", "x"), ("workload.size", "60B")],
            "workload.payload",
        ),
    ] {
        let why = of(&more).expect_err(path);
        assert!(why.contains(path), "{more:?}: {why}");
    }
}
