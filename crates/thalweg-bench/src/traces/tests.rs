//! Traces beside the study's figures.

use std::sync::OnceLock;

use super::*;

fn order(class: Class, hours: f64) -> Order {
    Order {
        hours,
        ..Order::of(class, 1)
    }
}

/// A day of cars, made once.
fn cars() -> Trace {
    static CARS: OnceLock<Trace> = OnceLock::new();
    CARS.get_or_init(|| generate(&order(Class::Complex, 24.0)).expect("an order"))
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
    let rates: Vec<f64> = bins(trace)
        .iter()
        .enumerate()
        .filter(|(number, _)| within(*number))
        .map(|(_, kinds)| kinds[kind].rate)
        .collect();
    crate::stats::mean(&rates)
}

#[test]
fn sensors_send_087_a_second_at_noon_and_two_fifths_of_it_at_night() {
    let trace = generate(&Order {
        members: 1000,
        ..order(Class::Simple, 14.0)
    })
    .expect("an order");
    assert_eq!((bins(&trace).len(), bins(&trace)[0].len()), (56, 1));
    let (noon, night) = (
        rate(&trace, 0, 11.5..13.5) / 1000.0,
        rate(&trace, 0, 0.0..4.5) / 1000.0,
    );
    assert!((noon - 0.87).abs() < 0.02, "{noon}");
    assert!((night / noon - 0.4).abs() < 0.03, "{night} of {noon}");
    // A gateway never has more than its sensors at 1 Hz, and its peak is about noon.
    let peak = bins(&trace)
        .iter()
        .enumerate()
        .max_by(|a, b| a.1[0].rate.total_cmp(&b.1[0].rate))
        .expect("bins");
    assert!(
        (40..=60).contains(&peak.0) && peak.1[0].rate <= 1000.0,
        "bin {}",
        peak.0
    );
    assert!(
        bins(&trace)
            .iter()
            .all(|kinds| kinds[0].sizes.mean() == 36.0)
    );
}

#[test]
fn cars_are_fewer_at_nine_and_in_the_evening_and_their_reports_are_as_large_as_each_companys() {
    let trace = cars();
    assert_eq!(bins(&trace)[0].len(), 2, "two companies");
    for kind in [0, 1] {
        let night = rate(&trace, kind, 1.0..5.0);
        assert!(
            (night / (16_000.0 / 60.0) - 1.0).abs() < 0.01,
            "266.7 a second: {night}"
        );
        let (nine, evening) = (
            rate(&trace, kind, 8.75..9.25),
            rate(&trace, kind, 17.5..19.5),
        );
        assert!(
            (nine / night - 0.75).abs() < 0.03 && (evening / night - 0.65).abs() < 0.03,
            "{nine} {evening} {night}"
        );
        let size = bins(&trace)
            .iter()
            .map(|kinds| kinds[kind].sizes.mean())
            .sum::<f64>()
            / 96.0;
        let stated = [214.0, 1240.0][kind];
        assert!((size / stated - 1.0).abs() < 0.01, "{size}");
    }
}

#[test]
fn images_are_60_kb_larger_at_noon_and_seven_of_a_hundred_are_missing() {
    let trace = generate(&order(Class::Multimedia, 24.0)).expect("an order");
    let all = listed(&trace);
    let rate = all.len() as f64 / 86_400.0 / 34.0;
    assert!((rate - 0.031).abs() < 0.0005, "{rate}");
    let mean = |from: f64, to: f64| {
        let within = all
            .iter()
            .filter(|message| (from..to).contains(&(message.at_us as f64 / 3.6e9)));
        let sizes: Vec<f64> = within.map(|message| f64::from(message.bytes)).collect();
        crate::stats::mean(&sizes)
    };
    let (night, noon) = (mean(0.0, 4.5), mean(12.0, 13.0));
    assert!(
        (night / 36_000.0 - 1.0).abs() < 0.02 && (noon / 75_000.0 - 1.0).abs() < 0.03,
        "{night} {noon}"
    );
    let logs: Vec<f64> = all
        .iter()
        .filter(|message| message.at_us < 14_400_000_000)
        .map(|message| f64::from(message.bytes).ln())
        .collect();
    assert!(
        (crate::stats::sd(&logs) - 0.35).abs() < 0.02,
        "{}",
        crate::stats::sd(&logs)
    );
    let paper = generate(&Order {
        members: 10,
        sources: 2,
        ..order(Class::Multimedia, 4.0)
    })
    .expect("an order");
    let rate = listed(&paper).len() as f64 / 4.0 / 3600.0 / 2.0;
    assert!(
        (rate - 0.31).abs() < 0.01,
        "a publisher of the study: {rate}"
    );
}

#[test]
fn plain_classes_do_what_they_say() {
    let periodic = generate(&Order {
        rate: 5.0,
        bytes: 60,
        ..order(Class::Periodic, 0.1)
    })
    .expect("an order");
    let times: Vec<u64> = listed(&periodic)
        .iter()
        .map(|message| message.at_us)
        .collect();
    assert!(times.len() == 1800 && times.windows(2).all(|pair| pair[1] - pair[0] == 200_000));
    let burst = generate(&Order {
        rate: 5.0,
        burst: 10,
        ..order(Class::Burst, 0.1)
    })
    .expect("an order");
    let times: Vec<u64> = listed(&burst).iter().map(|message| message.at_us).collect();
    assert_eq!(
        (times.len(), times[9], times[10], times[19], times[20]),
        (1800, 0, 2_000_000, 2_000_000, 4_000_000)
    );
    let json = generate(&order(Class::Json, 0.1)).expect("an order");
    let gaps: Vec<u64> = listed(&json)
        .windows(2)
        .map(|pair| pair[1].at_us - pair[0].at_us)
        .collect();
    assert!(gaps.iter().enumerate().all(|(at, gap)| match at % 10 {
        9 => (251_000..=1_250_000).contains(gap),
        _ => *gap == 250_000,
    }));
    assert!(generate(&order(Class::Simple, 0.0)).is_err());
    let many = Order {
        is_binned: false,
        ..order(Class::Simple, 24.0)
    };
    assert!(
        generate(&many)
            .expect_err("52 million lines")
            .contains("--form bins")
    );
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
        assert_eq!(
            (written(&read), read.sources()),
            (text, make(7).sources()),
            "{class:?}"
        );
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
    let trace = cars();
    // A day in 96 seconds: each second has the rate of its quarter of an hour.
    let found = replay::messages(&trace, 2, 900.0, 3, 96_000_000_000).expect("few");
    let count = |flow: u32, from: u64, to: u64| {
        found
            .iter()
            .filter(|(at, of, _)| *of == flow && (from..to).contains(&(at / 1_000_000_000)))
            .count() as f64
            / (to - from) as f64
    };
    for flow in [0, 1] {
        let (night, evening) = (count(flow, 4, 20), count(flow, 70, 78));
        assert!(
            (night / 266.7 - 1.0).abs() < 0.05 && (evening / night - 0.65).abs() < 0.06,
            "{night} {evening}"
        );
    }
    let mean = |flow: u32| {
        crate::stats::mean(
            &found
                .iter()
                .filter(|m| m.1 == flow)
                .map(|m| f64::from(m.2))
                .collect::<Vec<_>>(),
        )
    };
    assert!((mean(0) / 214.0 - 1.0).abs() < 0.02 && (mean(1) / 1240.0 - 1.0).abs() < 0.02);
    assert!(
        found.is_sorted()
            && found == replay::messages(&trace, 2, 900.0, 3, 96_000_000_000).expect("few")
    );
    // At true speed flows begin at places of their own.
    let found = replay::messages(&trace, 40, 1.0, 3, 10_000_000_000).expect("few");
    let rates: Vec<usize> = (0..40)
        .map(|flow| found.iter().filter(|m| m.1 == flow).count())
        .collect();
    assert!(
        rates.iter().max() > Some(&2450) && rates.iter().min() < Some(&2100),
        "{rates:?}"
    );
    assert!(replay::sizes(&trace, 1).len() > 1000);
}

#[test]
fn messages_are_replayed_as_they_are() {
    let text = "# thalweg trace 1\n# hours: 0.001\n# form: messages\n# columns: at_us source bytes\n0 0 10\n1000000 1 20\n2000000 0 30\n";
    let trace = Trace::read(&mut text.as_bytes()).expect("a trace");
    let play = |flows, speed, end_s: u64| {
        replay::messages(&trace, flows, speed, 1, end_s * 1_000_000_000).expect("few")
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
    assert!(replay::messages(&trace, 2, 0.0, 1, 1).is_err());
}

#[test]
fn a_class_needs_no_file_and_is_what_gen_writes() {
    let day = known::day_of("complex", 1).expect("a class");
    assert_eq!(*day, cars());
    assert!(
        std::sync::Arc::ptr_eq(&day, &known::day_of("complex", 1).expect("the same")),
        "made once"
    );
    assert!(known::day_of("middling", 1).is_err());
    let images = known::day_of("multimedia", 1).expect("a class");
    let rate = known::mean_rate(&images);
    assert!(
        (rate - 0.31).abs() < 0.01,
        "a publisher of the study: {rate}"
    );
}

#[test]
fn a_schedule_of_distributions_draws_as_it_goes_and_says_the_same() {
    use crate::load::Schedule;
    let trace = std::sync::Arc::new(cars());
    let end = 20_000_000_000;
    let at_once = replay::messages(&trace, 6, 1.0, 5, end).expect("few");
    let drawn = |scale| Schedule::drawn(trace.clone(), 6, 1.0, scale, 5, end).collect::<Vec<_>>();
    let all = drawn(1.0);
    assert_eq!(
        all.iter()
            .map(|item| (item.at, item.flow, item.size))
            .collect::<Vec<_>>(),
        at_once
    );
    for flow in 0..6 {
        let seqs: Vec<u32> = all
            .iter()
            .filter(|item| item.flow == flow)
            .map(|item| item.seq)
            .collect();
        assert!(seqs.iter().enumerate().all(|(at, seq)| at as u32 == *seq));
    }
    let quarter = drawn(0.25).len() as f64 / all.len() as f64;
    assert!((quarter - 0.25).abs() < 0.01, "{quarter}");
}
