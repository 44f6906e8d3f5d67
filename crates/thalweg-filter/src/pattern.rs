//! LIKE.

/// A pattern of LIKE: `%` is any text, `_` any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<[Piece]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    AnyText,
    AnyChar,
    Char(char),
}

impl Pattern {
    /// `escape` takes the meaning from the character behind it. `None` if no character is behind it.
    pub fn new(text: &str, escape: Option<char>) -> Option<Pattern> {
        let mut pieces = Vec::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            pieces.push(match c {
                _ if Some(c) == escape => Piece::Char(chars.next()?),
                '%' => Piece::AnyText,
                '_' => Piece::AnyChar,
                _ => Piece::Char(c),
            });
        }
        // Several in a row would be tried one by one.
        pieces.dedup_by(|a, b| *a == Piece::AnyText && *b == Piece::AnyText);
        Some(Pattern(pieces.into()))
    }

    /// Whether all of `text` fits; `None` if `steps`, of which each comparison of a character takes one, do not suffice.
    pub(crate) fn matches(&self, text: &str, steps: &mut u32) -> Option<bool> {
        let pieces = &*self.0;
        let (mut at, mut rest) = (0, text);
        // Where to go on when what follows the last `%` does not fit: that `%` takes one character more then.
        let mut again: Option<(usize, &str)> = None;
        loop {
            *steps = steps.checked_sub(1)?;
            let next = rest.chars().next();
            match (pieces.get(at), next) {
                (Some(Piece::AnyText), _) => {
                    at += 1;
                    again = Some((at, rest));
                    continue;
                }
                (Some(Piece::AnyChar), Some(c)) => {
                    (at, rest) = (at + 1, &rest[c.len_utf8()..]);
                    continue;
                }
                (Some(Piece::Char(wanted)), Some(c)) if *wanted == c => {
                    (at, rest) = (at + 1, &rest[c.len_utf8()..]);
                    continue;
                }
                (None, None) => return Some(true),
                _ => {}
            }
            let Some((from, tail)) = again else {
                return Some(false);
            };
            let Some(c) = tail.chars().next() else {
                return Some(false);
            };
            rest = &tail[c.len_utf8()..];
            (at, again) = (from, Some((from, rest)));
        }
    }
}
