//! Which known name an unknown one was probably meant to be.

use strsim::osa_distance as edit_distance;

/// The candidate nearest to `wanted`, if any is near enough to be worth suggesting.
pub(super) fn nearest<'a>(
    wanted: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let tolerance = (wanted.chars().count() / 3).max(2);
    candidates
        .map(|candidate| (likeness(wanted, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A distance that forgives what people do with setting names: spelling, word order (`max_messages`) and a forgotten
/// table (`connections_max` for `limits.connections_max`).
fn likeness(wanted: &str, candidate: &str) -> usize {
    let spelled = edit_distance(wanted, candidate);
    let reordered = 1 + edit_distance(&sorted_words(wanted), &sorted_words(candidate));
    let unqualified = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let misplaced = 2 + edit_distance(
        &sorted_words(&unqualified(wanted)),
        &sorted_words(&unqualified(candidate)),
    );
    spelled.min(reordered).min(misplaced)
}

fn sorted_words(name: &str) -> String {
    let mut words: Vec<&str> = name
        .split(['.', '_', '-'])
        .filter(|word| !word.is_empty())
        .collect();
    words.sort_unstable();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_each_slip_once() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "ab", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }

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
            assert_eq!(nearest(wanted, names.into_iter()), found, "{wanted}");
        }
    }
}
