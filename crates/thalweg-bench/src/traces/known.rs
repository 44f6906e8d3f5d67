//! The classes of study A without a file: distributions that are made when a cell first asks for them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::classes::{Class, Order, generate};
use super::trace::{Body, Trace};
use crate::cell::word;
use crate::report::stat::mean;

/// The day of one of its publishers: 1,000 sensors, 16,000 cars of one company or the other, 10 cameras.
pub fn day_of(name: &str, seed: u64) -> Result<Arc<Trace>, String> {
    use Class::{Complex, Multimedia, Simple};
    let known = [Simple, Complex, Multimedia];
    let class = known.into_iter().find(|class| word(*class) == name);
    let class =
        class.ok_or_else(|| format!("there is no class {name:?}: simple, complex, multimedia"))?;
    let mut days = DAYS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(day) = days.get(&(name.to_owned(), seed)) {
        return Ok(day.clone());
    }
    let usual = Order::of(class, seed);
    // One publisher of the study stands for ten cameras.
    let members = match class {
        Multimedia => 10,
        _ => usual.members,
    };
    let day = Arc::new(generate(&Order {
        is_binned: true,
        members,
        ..usual
    })?);
    days.insert((name.to_owned(), seed), day.clone());
    Ok(day)
}

/// Messages a second of a source, over the whole of a trace of distributions and all of its kinds; 0 for any other.
pub fn mean_rate(trace: &Trace) -> f64 {
    match &trace.body {
        Body::Bins(bins) => mean(bins.iter().flatten().map(|bin| bin.rate)),
        Body::Messages(_) => 0.0,
    }
}

/// Making one takes a second, so each is made once.
static DAYS: LazyLock<Mutex<Days>> = LazyLock::new(Mutex::default);

/// By name and seed.
type Days = BTreeMap<(String, u64), Arc<Trace>>;
