//! Traces beside the study's figures.

use std::sync::{Arc, OnceLock};

use super::classes::{Class, Order, generate};
use super::trace::{BIN_S, Bin, Message};
use super::*;
use crate::load::{Item, Schedule};
use crate::report::stat::mean;

fn made(class: Class, hours: f64, change: impl FnOnce(&mut Order)) -> Trace {
    let mut order = Order::of(class, 1);
    order.hours = hours;
    change(&mut order);
    generate(&order).expect("an order")
}

/// A day of cars, made once.
fn cars() -> Trace {
    static CARS: OnceLock<Trace> = OnceLock::new();
    CARS.get_or_init(|| made(Class::Complex, 24.0, |_| {}))
        .clone()
}

fn written(trace: &Trace) -> String {
    let mut text = Vec::new();
    trace.write(&mut text).expect("a vector");
    String::from_utf8(text).expect("text")
}

fn bins(trace: &Trace) -> &[Vec<Bin>] {
    match &trace.body {
        Body::Bins(bins) => bins,
        Body::Messages(_) => panic!("bins"),
    }
}

fn listed(trace: &Trace) -> &[Message] {
    match &trace.body {
        Body::Messages(messages) => messages,
        Body::Bins(_) => panic!("messages"),
    }
}

/// Mean rate from one hour to another.
fn rate(trace: &Trace, kind: usize, hours: std::ops::Range<f64>) -> f64 {
    let within = |number: usize| hours.contains(&((number as f64 + 0.5) * BIN_S as f64 / 3600.0));
    let bins = bins(trace).iter().enumerate();
    let bins = bins.filter(|(number, _)| within(*number));
    mean(bins.map(|(_, kinds)| kinds[kind].rate))
}

fn is_near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found - wanted).abs() < tolerance, "{found}, not {wanted}");
}

#[test]
fn sensors_send_087_a_second_at_noon_and_two_fifths_of_it_at_night() {
    let trace = made(Class::Simple, 14.0, |order| order.members = 1000);
    let bins = bins(&trace);
    assert_eq!((bins.len(), bins[0].len()), (56, 1));
    let noon = rate(&trace, 0, 11.5..13.5) / 1000.0;
    let night = rate(&trace, 0, 0.0..4.5) / 1000.0;
    is_near(noon, 0.87, 0.02);
    is_near(night / noon, 0.4, 0.03);
    // A gateway never has more than its sensors at 1 Hz, and its peak is about noon.
    let rates: Vec<f64> = bins.iter().map(|kinds| kinds[0].rate).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let peak = rates.iter().position(|rate| *rate == most);
    let is_at_noon = peak.is_some_and(|bin| (40..=60).contains(&bin));
    assert!(is_at_noon && most <= 1000.0, "{peak:?} {most}");
    assert!(bins.iter().all(|kinds| kinds[0].sizes.mean() == 36.0));
}

#[test]
fn cars_are_fewer_at_nine_and_in_the_evening_and_their_reports_are_as_large_as_each_companys() {
    let trace = cars();
    assert_eq!(bins(&trace)[0].len(), 2, "two companies");
    for (kind, bytes) in [214.0, 1240.0].into_iter().enumerate() {
        let night = rate(&trace, kind, 1.0..5.0);
        is_near(night / (16_000.0 / 60.0), 1.0, 0.01);
        is_near(rate(&trace, kind, 8.75..9.25) / night, 0.75, 0.03);
        is_near(rate(&trace, kind, 17.5..19.5) / night, 0.65, 0.03);
        let size = mean(bins(&trace).iter().map(|kinds| kinds[kind].sizes.mean()));
        is_near(size / bytes, 1.0, 0.01);
    }
}

#[test]
fn images_are_60_kb_larger_at_noon_and_seven_of_a_hundred_are_missing() {
    let trace = made(Class::Multimedia, 24.0, |_| {});
    let all = listed(&trace);
    is_near(all.len() as f64 / 86_400.0 / 34.0, 0.031, 0.0005);
    let sizes = |from: f64, to: f64| {
        let within = all
            .iter()
            .filter(move |message| (from..to).contains(&(message.at_us as f64 / 3.6e9)));
        within.map(|message| f64::from(message.bytes))
    };
    is_near(mean(sizes(0.0, 4.5)) / 36_000.0, 1.0, 0.02);
    is_near(mean(sizes(12.0, 13.0)) / 75_000.0, 1.0, 0.03);
    let logs: Vec<f64> = sizes(0.0, 4.0).map(f64::ln).collect();
    is_near(crate::stats::sd(&logs), 0.35, 0.02);
    // A publisher of the study.
    let paper = made(Class::Multimedia, 4.0, |order| {
        (order.members, order.sources) = (10, 2)
    });
    is_near(listed(&paper).len() as f64 / 4.0 / 3600.0 / 2.0, 0.31, 0.01);
}

#[test]
fn plain_classes_do_what_they_say() {
    let times = |class, change: fn(&mut Order)| -> Vec<u64> {
        let trace = made(class, 0.1, change);
        listed(&trace).iter().map(|it| it.at_us).collect()
    };
    let gaps =
        |times: &[u64]| -> Vec<u64> { times.windows(2).map(|pair| pair[1] - pair[0]).collect() };
    let periodic = times(Class::Periodic, |order| order.rate = 5.0);
    assert_eq!(periodic.len(), 1800);
    assert!(gaps(&periodic).iter().all(|gap| *gap == 200_000));
    let burst = times(Class::Burst, |order| (order.rate, order.burst) = (5.0, 10));
    let some = [burst[9], burst[10], burst[19], burst[20]];
    assert_eq!(
        (burst.len(), some),
        (1800, [0, 2_000_000, 2_000_000, 4_000_000])
    );
    let json = gaps(&times(Class::Json, |_| {}));
    assert!(json.iter().enumerate().all(|(at, gap)| match at % 10 {
        9 => (251_000..=1_250_000).contains(gap),
        _ => *gap == 250_000,
    }));
    let usual = Order::of(Class::Simple, 1);
    let never = Order {
        hours: 0.0,
        ..usual
    };
    assert!(generate(&never).is_err());
    let many = Order {
        is_binned: false,
        ..usual
    };
    let why = generate(&many).expect_err("52 million lines");
    assert!(why.contains("--form bins"), "{why}");
}

#[test]
fn a_trace_is_the_same_for_its_seed_and_is_read_as_it_was_written() {
    for class in [Class::Simple, Class::Multimedia, Class::Complex] {
        let make = |seed| {
            generate(&Order {
                hours: 1.0,
                members: 20,
                ..Order::of(class, seed)
            })
            .expect("an order")
        };
        let text = written(&make(7));
        assert_eq!(text, written(&make(7)), "{class:?}");
        assert_ne!(text, written(&make(8)), "{class:?}");
        let read = Trace::read(&mut text.as_bytes()).expect("what was written");
        assert_eq!((written(&read), read.sources()), (text, make(7).sources()));
    }
}

#[test]
fn what_is_no_trace_is_told_with_its_line() {
    let head = "# thalweg trace 1\n# form: messages\n# columns: at_us source bytes\n";
    for (text, because) in [
        ("hello\n".to_owned(), "line 1: a trace begins"),
        (
            "# thalweg trace 1\n1 2 3\n".to_owned(),
            "line 2: its form is missing",
        ),
        (format!("{head}5 0 60\n4 0 60\n"), "line 5: it comes before"),
        (format!("{head}5 0\n"), "line 4: another number of fields"),
        (format!("{head}5 0 99999999\n"), "line 4: no size"),
        (format!("{head}x 0 9\n"), "line 4: no time"),
        (head.to_owned(), "no message in it"),
        (head.replace("at_us", "at_ms"), "line 3: other columns"),
        (head.replace("messages", "bins"), "line 3: other columns"),
    ] {
        let why = Trace::read(&mut text.as_bytes()).expect_err(because);
        assert!(why.contains(because), "{why}");
    }
    let text = "# thalweg trace 1\n# form: bins\n# columns: start_s kind rate_per_s gaps sizes\n900 0 1.0 1 1\n";
    assert!(Trace::read(&mut text.as_bytes()).is_err());
}

#[test]
fn distributions_are_replayed_at_their_rates_and_sizes() {
    let trace = Arc::new(cars());
    let play = |flows, speed, scale, end_s: u64| {
        let end = end_s * 1_000_000_000;
        Schedule::drawn(trace.clone(), flows, speed, scale, 3, end).collect::<Vec<Item>>()
    };
    // A day in 96 seconds: each second has the rate of its quarter of an hour.
    let found = play(2, 900.0, 1.0, 96);
    for (flow, bytes) in [(0, 214.0), (1, 1240.0)] {
        let of_flow = found.iter().filter(|item| item.flow == flow);
        let rate = |from: u64, to: u64| {
            let is_within = |item: &&Item| (from..to).contains(&(item.at / 1_000_000_000));
            of_flow.clone().filter(is_within).count() as f64 / (to - from) as f64
        };
        is_near(rate(4, 20) / 266.7, 1.0, 0.05);
        is_near(rate(70, 78) / rate(4, 20), 0.65, 0.06);
        let size = mean(of_flow.clone().map(|item| f64::from(item.size)));
        is_near(size / bytes, 1.0, 0.02);
        assert!(of_flow.zip(0..).all(|(item, seq)| item.seq == seq));
    }
    assert!(found.is_sorted_by_key(|item| item.at));
    assert_eq!(found, play(2, 900.0, 1.0, 96));
    let quarter = play(2, 900.0, 0.25, 96);
    is_near(quarter.len() as f64 / found.len() as f64, 0.25, 0.01);
    // At true speed flows begin at places of their own.
    let found = play(40, 1.0, 1.0, 10);
    let count = |flow| found.iter().filter(|item| item.flow == flow).count();
    let rates: Vec<usize> = (0..40).map(count).collect();
    let is_spread = rates.iter().max() > Some(&2450) && rates.iter().min() < Some(&2100);
    assert!(is_spread, "{rates:?}");
    assert!(replay::sizes(&trace, 1).len() > 1000);
}

#[test]
fn messages_are_replayed_as_they_are() {
    let text = "# thalweg trace 1\n# hours: 0.001\n# form: messages\n# columns: at_us source bytes\n0 0 10\n1000000 1 20\n2000000 0 30\n";
    let trace = Trace::read(&mut text.as_bytes()).expect("a trace");
    let play = |flows, speed, end_s: u64| {
        replay::messages(&trace, flows, speed, end_s * 1_000_000_000).expect("few")
    };
    assert_eq!(
        play(2, 1.0, 3),
        [(0, 0, 10), (1_000_000_000, 1, 20), (2_000_000_000, 0, 30)]
    );
    assert_eq!(play(2, 2.0, 1), [(0, 0, 10), (500_000_000, 1, 20)]);
    assert_eq!(
        play(1, 1.0, 2),
        [(0, 0, 10), (1_000_000_000, 0, 20)],
        "one flow speaks for both"
    );
    // It lasts 3.6 s and begins again.
    assert_eq!(play(2, 1.0, 5).len(), 5);
    let more = play(4, 1.0, 3);
    assert!(
        [0, 1, 2, 3]
            .iter()
            .all(|flow| more.iter().any(|message| message.1 == *flow)),
        "{more:?}"
    );
}

#[test]
fn a_class_needs_no_file_and_is_what_gen_writes() {
    let day = known::day_of("complex", 1).expect("a class");
    assert_eq!(*day, cars());
    assert!(
        Arc::ptr_eq(&day, &known::day_of("complex", 1).expect("the same")),
        "made once"
    );
    assert!(known::day_of("middling", 1).is_err());
    let images = known::day_of("multimedia", 1).expect("a class");
    // A publisher of the study.
    is_near(known::mean_rate(&images), 0.31, 0.01);
}
