//! Which known name an unknown one was probably meant to be.

use strsim::osa_distance as edit_distance;

/// The candidate nearest to `wanted`, if any is near enough to be worth suggesting.
pub fn nearest<T: AsRef<str>>(wanted: &str, candidates: impl IntoIterator<Item = T>) -> Option<T> {
    let tolerance = (wanted.chars().count() / 3).max(2);
    let candidates = candidates.into_iter();
    let near = candidates.map(|candidate| (likeness(wanted, candidate.as_ref()), candidate));
    let near = near.filter(|(distance, _)| *distance <= tolerance);
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A distance that forgives what people do with setting names: spelling, word order (`max_messages`) and a forgotten
/// table (`connections_max` for `limits.connections_max`).
fn likeness(wanted: &str, candidate: &str) -> usize {
    let spelled = edit_distance(wanted, candidate);
    let sorted = |one, other| edit_distance(&sorted_words(one), &sorted_words(other));
    let last = |name| str::rsplit(name, '.').next().unwrap_or(name);
    let reordered = 1 + sorted(wanted, candidate);
    let misplaced = 2 + sorted(last(wanted), last(candidate));
    spelled.min(reordered).min(misplaced)
}

fn sorted_words(name: &str) -> String {
    let words = name.split(['.', '_', '-']);
    let mut words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_forgives_spelling_order_and_place_but_is_not_a_guess() {
        let names = [
            "limits.connections_max",
            "queue.messages_max",
            "queue.overflow",
        ];
        for (wanted, found) in [
            ("queue.overlfow", Some("queue.overflow")),
            ("queue.max_messages", Some("queue.messages_max")),
            ("connections_max", Some("limits.connections_max")),
            ("persistence", None),
        ] {
            assert_eq!(nearest(wanted, names), found, "{wanted}");
        }
    }
}
