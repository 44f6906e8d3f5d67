//! Axes: where a value stands, and at which values a line is drawn.

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its name with its unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Where it begins, whatever is drawn.
    pub from: Option<f64>,
    pub to: Option<f64>,
}

impl Axis {
    /// A linear axis that begins with 0.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            log: false,
            from: Some(0.0),
            to: None,
        }
    }

    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            log: true,
            from: None,
            to: None,
        }
    }

    /// From 0 to 100.
    pub fn percent(label: &str) -> Axis {
        Axis {
            to: Some(100.0),
            ..Axis::linear(label)
        }
    }

    /// Where it begins and ends and what is written beside it. Nothing without a value.
    pub fn ticks(&self, values: impl Iterator<Item = f64>) -> Option<Ticks> {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            return None;
        }
        least = self.from.map_or(least, |from| from.min(least));
        most = self.to.map_or(most, |to| to.max(most));
        Some(if self.log {
            logarithmic(least, most)
        } else {
            linear(least, most)
        })
    }
}

/// Where an axis begins and ends, and its lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticks {
    pub least: f64,
    pub most: f64,
    /// What is written beside it.
    pub major: Vec<f64>,
    log: bool,
}

impl Ticks {
    /// Where a value stands between two places.
    pub fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let of = |value: f64| {
            if self.log {
                value.max(f64::MIN_POSITIVE).log10()
            } else {
                value
            }
        };
        let part = (of(value) - of(self.least)) / (of(self.most) - of(self.least));
        from + (to - from) * part.clamp(0.0, 1.0)
    }
}

fn linear(least: f64, most: f64) -> Ticks {
    let span = if most > least {
        most - least
    } else {
        most.abs().max(1.0)
    };
    let rough = span / 5.0;
    let unit = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|times| times * unit)
        .into_iter()
        .find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * unit);
    let first = (least / step + 1e-9).floor();
    let last = ((least + span) / step - 1e-9).ceil();
    let major = (first as i64..=last as i64)
        .map(|at| at as f64 * step)
        .collect();
    Ticks {
        least: first * step,
        most: last * step,
        major,
        log: false,
    }
}

fn logarithmic(least: f64, most: f64) -> Ticks {
    let (low, high) = (least.log10(), most.log10());
    let (mut first, mut last) = (least / 1.15, most * 1.15);
    let decades = high - low;
    let major: Vec<f64> = if decades > 2.2 {
        (first, last) = (
            10_f64.powf((low + 1e-9).floor()),
            10_f64.powf((high - 1e-9).ceil()),
        );
        let count = (last.log10() - first.log10()).round() as i32;
        let each = 1 + count / 7;
        (0..=count)
            .filter(|at| at % each == 0)
            .map(|at| first * 10_f64.powi(at))
            .collect()
    } else {
        let begin = low.floor() as i32 - 1;
        let steps: &[f64] = if decades > 0.6 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
        };
        let all = (begin..=high.ceil() as i32 + 1)
            .flat_map(|power| steps.iter().map(move |it| it * 10_f64.powi(power)));
        let all: Vec<f64> = all.collect();
        if all
            .iter()
            .filter(|value| (first..=last).contains(*value))
            .count()
            < 3
        {
            // One number beside an axis says nothing about its scale.
            let of = |at: Option<usize>, otherwise: f64| {
                at.and_then(|at| all.get(at)).copied().unwrap_or(otherwise)
            };
            first = of(all.iter().rposition(|value| *value <= first), first);
            last = of(all.iter().position(|value| *value >= last), last);
        }
        all.into_iter()
            .filter(|value| (first * 0.999..=last * 1.001).contains(value))
            .collect()
    };
    Ticks {
        least: first,
        most: last,
        major,
        log: true,
    }
}

/// A value beside an axis: three digits, and a letter for thousands.
pub fn shown(value: f64) -> String {
    let (scaled, letter) = match value.abs() {
        size if size >= 1e9 => (value * 1e-9, "G"),
        size if size >= 1e6 => (value * 1e-6, "M"),
        size if size >= 1e4 => (value * 1e-3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 1.0 => 2,
        size if size >= 0.01 => 3,
        _ => 6,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_axis_are_round_numbers_around_all_values() {
        for (axis, values, expected) in [
            (
                Axis::linear("s"),
                [3.0, 47.0],
                &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0][..],
            ),
            (
                Axis::log("us"),
                [12.0, 80_000.0],
                &[10.0, 100.0, 1e3, 1e4, 1e5],
            ),
        ] {
            let ticks = axis.ticks(values.into_iter()).expect("two values");
            let major: Vec<f64> = ticks.major.iter().map(|value| value.round()).collect();
            assert_eq!(major, expected, "{}", axis.label);
            let ends = [expected.first(), expected.last()].map(|end| end.copied());
            assert_eq!([ticks.least, ticks.most].map(Some), ends, "{}", axis.label);
        }
        let ticks = Axis::linear("s").ticks([3.0, 47.0].into_iter());
        assert_eq!(ticks.expect("two values").place(25.0, 100.0, 0.0), 50.0);
    }

    #[test]
    fn one_value_is_enough_and_none_is_not() {
        for axis in [Axis::linear("x"), Axis::log("x")] {
            let ticks = axis.ticks([5.0].into_iter()).expect("a value");
            let is_around = ticks.least < 5.0 && ticks.most > 5.0 - 1e-9;
            assert!(is_around && !ticks.major.is_empty(), "{ticks:?}");
            assert!(axis.ticks(std::iter::empty()).is_none());
        }
    }

    #[test]
    fn a_logarithmic_axis_has_at_least_three_numbers() {
        let ranges = [
            (300.0, 300.0),
            (390.0, 410.0),
            (0.9, 1.1),
            (7.0, 9.0),
            (95.0, 130.0),
        ];
        for (least, most) in ranges.into_iter().chain([(80.0, 81.0), (1.0, 150.0)]) {
            let ticks = Axis::log("x").ticks([least, most].into_iter());
            let ticks = ticks.expect("two values");
            let is_around = ticks.least < least && most < ticks.most;
            assert!(
                (3..10).contains(&ticks.major.len()) && is_around,
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.05, 1.5, 800.0, 2000.0, 20_000.0, 1.5e6, 0.0001].map(shown);
        assert_eq!(
            all,
            ["0", "0.05", "1.5", "800", "2000", "20k", "1.5M", "0.0001"]
        );
    }
}
