//! Values of a scenario. Every quantity carries its unit; counts have none.

use std::str::FromStr;

use clap::ValueEnum;

use crate::cell;
use crate::net::units;

/// A part of one from `5%`.
pub fn part(text: &str) -> Result<f64, String> {
    units::loss(text).map(|loss| loss.part())
}

/// Nanoseconds from `50ms`.
pub fn time(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Err("0: a time carries its unit, such as 0ms".to_owned());
    }
    Ok(units::span(text)?.as_nanos() as u64)
}

/// Bytes from `60B`, `2kB` (1,000), `4KiB` (1,024); up to 16 MiB.
pub fn bytes(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(_) => Err(format!("{text}: a size carries its unit, such as 60B")),
        Err(_) => Ok(units::size(text)? as u32),
    }
}

pub fn count<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text}: a count is expected"))
}

/// A count from 1.
pub fn some(text: &str) -> Result<u32, String> {
    count(text).and_then(|count| {
        if count > 0 {
            Ok(count)
        } else {
            Err("0: at least 1".to_owned())
        }
    })
}

/// A number without a unit.
pub fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(factor),
        _ => Err(format!("{text}: a factor above 0 is expected")),
    }
}

pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{text}: true or false")),
    }
}

pub fn word(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("it is empty".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// One of the words of a choice.
pub fn chosen<T: ValueEnum + Copy>(text: &str) -> Result<T, String> {
    let known = T::value_variants().iter().map(|it| (cell::word(*it), *it));
    one_of(text, &known.collect::<Vec<_>>())
}

/// One of these words.
pub fn among<const N: usize>(text: &str, known: [&'static str; N]) -> Result<&'static str, String> {
    one_of(text, &known.map(|word| (word, word)))
}

/// What one of these words stands for.
pub fn one_of<T: Copy>(text: &str, known: &[(impl AsRef<str>, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| name.as_ref() == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_ref()).collect();
        format!("{text}: one of {} is expected", names.join(", "))
    })
}
