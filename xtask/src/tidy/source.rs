//! Rust source told apart into code and the rest, well enough for rules about words.

/// The same text with comments, strings and character literals blanked out, line for line.
pub fn code_only(text: &str) -> String {
    blank(text, |kind| kind != PieceKind::Code)
}

/// The comments of the text, line for line; everything else is blanked out.
pub fn comments_only(text: &str) -> String {
    blank(text, |kind| kind != PieceKind::Comment)
}

/// The same text with strings and character literals blanked out: what is left is code and comments.
pub fn without_strings(text: &str) -> String {
    blank(text, |kind| kind == PieceKind::Literal)
}

/// The lines (counted from 1) that are not test code: nothing in test files, and nothing after `#[cfg(test)] mod`.
pub fn lines_outside_tests<'a>(
    path: &str,
    text: &'a str,
) -> impl Iterator<Item = (usize, &'a str)> {
    let is_test_file = ["/tests/", "/testkit/", "/benches/", "/examples/", "fuzz/"]
        .iter()
        .any(|part| path.contains(part))
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs");
    let mut end = if is_test_file { 0 } else { usize::MAX };
    let lines: Vec<&str> = text.lines().collect();
    for (at, pair) in lines.windows(2).enumerate() {
        if pair[0].trim() == "#[cfg(test)]"
            && pair[1].trim_start().starts_with("mod ")
            && pair[1].ends_with('{')
        {
            end = end.min(at);
        }
    }
    text.lines()
        .enumerate()
        .take_while(move |(at, _)| *at < end)
        .map(|(at, line)| (at + 1, line))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceKind {
    Code,
    Comment,
    Literal,
}

/// Replaces every character of the kinds that `hide` names by a space; line ends stay.
fn blank(text: &str, hide: impl Fn(PieceKind) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (kind, length) = piece(text.as_bytes(), at);
        let shown = &text[at..at + length];
        match hide(kind) {
            true => out.extend(shown.chars().map(|c| if c == '\n' { c } else { ' ' })),
            false => out.push_str(shown),
        }
        at += length;
    }
    out
}

/// What starts at `at`, and how many bytes belong to it; never zero. In bytes, because each rule reads every file; what a piece
/// begins and ends with is ASCII.
fn piece(bytes: &[u8], at: usize) -> (PieceKind, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|&c| c == b'\n');
        return (PieceKind::Comment, end.unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return (PieceKind::Comment, block_comment(rest));
    }
    let follows_word = at > 0 && is_of_word(bytes[at - 1]);
    if rest[0] == b'r' && !follows_word {
        let hashes = rest[1..].iter().take_while(|&&c| c == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            return (PieceKind::Literal, raw_string(rest, hashes));
        }
    }
    if rest[0] == b'"' {
        return (PieceKind::Literal, quoted(rest, b'"'));
    }
    // A quote starts a character when it closes after one (perhaps escaped) character; otherwise a lifetime.
    if rest[0] == b'\'' {
        let width = rest[1..].iter().skip(1).take_while(|&&c| c & 0xC0 == 0x80);
        let close = 2 + width.count();
        if rest.get(1) == Some(&b'\\') || rest.get(close) == Some(&b'\'') {
            return (PieceKind::Literal, quoted(rest, b'\''));
        }
    }
    let mut length = 1;
    while length < rest.len() && !matches!(rest[length], b'/' | b'r' | b'"' | b'\'') {
        length += 1;
    }
    (PieceKind::Code, length)
}

fn is_of_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || !c.is_ascii()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8], hashes: usize) -> usize {
    let mut at = hashes + 2;
    while at < rest.len() {
        if rest[at] == b'"'
            && rest[at + 1..]
                .iter()
                .take(hashes)
                .filter(|&&c| c == b'#')
                .count()
                == hashes
        {
            return at + 1 + hashes;
        }
        at += 1;
    }
    rest.len()
}

/// Rust's block comments nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match (rest[at], rest.get(at + 1)) {
            (b'/', Some(b'*')) => (depth, at) = (depth + 1, at + 2),
            (b'*', Some(b'/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Whether `word` stands in `line` with no letter, digit or underscore beside it.
pub fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_part);
        let after = line[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_not() {
        let text = "let a = \"x // y\"; // tail\nlet b = 'q'; fn f<'a>(x: &'a str) {}\n/* one /* two */ one */ c\n";
        let code = code_only(text);
        assert_eq!(code.lines().count(), 3);
        assert!(code.contains("fn f<'a>(x: &'a str) {}"));
        assert!(code.trim_end().ends_with('c'));
        for hidden in ["y", "tail", "q", "one", "two"] {
            assert!(!has_word(&code, hidden), "{hidden} in {code}");
        }
        assert!(without_strings(text).contains("tail"));
    }

    #[test]
    fn escapes_and_raw_strings_end_where_they_end() {
        let code = code_only(
            r###"let a = "\" b"; let c = r#"d " e"#; let f = '\''; let g = b"h"; let k = 'é'; i"###,
        );
        for hidden in ["b\"", "d", "e", "h", "'é'"] {
            assert!(!code.contains(&format!(" {hidden} ")), "{code}");
        }
        assert!(code.ends_with('i'));
        assert!(has_word(&code, "g"));
    }

    #[test]
    fn tests_at_the_end_of_a_file_are_tests() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(
            lines_outside_tests("crates/x/src/a.rs", text)
                .map(|(n, _)| n)
                .collect::<Vec<_>>(),
            [1]
        );
        assert_eq!(lines_outside_tests("crates/x/tests/a.rs", text).count(), 0);
        let elsewhere = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(
            lines_outside_tests("crates/x/src/a.rs", elsewhere).count(),
            3
        );
    }

    #[test]
    fn words_have_edges() {
        assert!(has_word("use rand::Rng;", "rand"));
        assert!(!has_word("operand", "rand"));
        assert!(!has_word("rand_like", "rand"));
    }
}
