//! Types from IDL (OMG IDL 4.2): modules, structures, unions, enumerations, typedefs and constants.
//!
//! Features without a JSON form are refused with their line: maps, wide text, mutable unions. An included file must be given, too, and
//! come first in the order of names.

use crate::key::md5;
use crate::types::{ARRAY_MAX, Case, Field, FieldType, Form, Struct, Types, Union, plain_name};
use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

/// Deepest nesting of modules and types in the text.
const DEPTH_MAX: usize = 32;
/// The largest id of a member.
const ID_MAX: u32 = 0x0fff_ffff;

/// The error and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: usize,
    pub what: String,
}

type Read<T> = Result<T, Fault>;

/// Types by their full names: `a::b::C`.
#[derive(Clone, Debug, Default)]
pub struct Names {
    kinds: HashMap<String, FieldType>,
    constants: HashMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A word, a number, or a text in quotes.
    Word(String),
    Mark(char),
    /// `::`
    Scope,
}

struct Parser<'a> {
    tokens: Peekable<IntoIter<(usize, Token)>>,
    line: usize,
    scope: Vec<String>,
    names: &'a mut Names,
    types: &'a mut Types,
}

/// Annotations before a declaration.
#[derive(Default)]
struct Notes {
    is_key: bool,
    is_optional: bool,
    form: Option<Form>,
    /// By number, or by the name that its hash is of (DDS-XTypes 1.3 §7.3.1.2.1.1).
    id: Option<u32>,
    hashed: Option<String>,
    /// Members without an id of their own have that of their names.
    are_hashed: bool,
}

/// Adds the types of a text to those that are known. `names` are those of the texts before it.
pub fn add(text: &str, names: &mut Names, types: &mut Types) -> Read<()> {
    let mut parser = Parser {
        tokens: tokens_of(text)?.into_iter().peekable(),
        line: 1,
        scope: Vec::new(),
        names,
        types,
    };
    while parser.tokens.peek().is_some() {
        parser.definition()?;
    }
    Ok(())
}

fn tokens_of(text: &str) -> Read<Vec<(usize, Token)>> {
    let mut tokens = Vec::new();
    let mut in_comment = false;
    for (text, line) in text.lines().zip(1..) {
        let mut rest = text;
        if !in_comment && rest.trim_start().starts_with('#') {
            continue;
        }
        while let Some(next) = rest.chars().next() {
            if in_comment {
                let Some((_, after)) = rest.split_once("*/") else {
                    break;
                };
                (rest, in_comment) = (after, false);
                continue;
            }
            if rest.starts_with("//") {
                break;
            }
            if let Some(after) = rest.strip_prefix("/*") {
                (rest, in_comment) = (after, true);
                continue;
            }
            if let Some(after) = rest.strip_prefix("::") {
                tokens.push((line, Token::Scope));
                rest = after;
                continue;
            }
            let is_word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '.');
            let length = match next {
                '"' => {
                    let end = rest[1..].find('"').ok_or_else(|| Fault {
                        line,
                        what: "a text has no end".into(),
                    })?;
                    end + 2
                }
                next if is_word(next) => rest.find(|it| !is_word(it)).unwrap_or(rest.len()),
                next => next.len_utf8(),
            };
            let (token, after) = rest.split_at(length);
            rest = after;
            if next == '"' || is_word(next) {
                tokens.push((line, Token::Word(token.to_owned())));
            } else if !next.is_whitespace() {
                tokens.push((line, Token::Mark(next)));
            }
        }
    }
    Ok(tokens)
}

impl Parser<'_> {
    fn fault<T>(&self, what: impl Into<String>) -> Read<T> {
        Err(Fault {
            line: self.line,
            what: what.into(),
        })
    }

    fn next(&mut self) -> Read<Token> {
        match self.tokens.next() {
            Some((line, token)) => {
                self.line = line;
                Ok(token)
            }
            None => self.fault("the text ends too early"),
        }
    }

    fn word(&mut self) -> Read<String> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            _ => self.fault("a name is missing"),
        }
    }

    fn is_next(&mut self, mark: char) -> bool {
        let is_next = self.tokens.peek().map(|(_, token)| token) == Some(&Token::Mark(mark));
        if is_next {
            // It is there.
            let _ = self.next();
        }
        is_next
    }

    fn expect(&mut self, mark: char) -> Read<()> {
        match self.next()? {
            Token::Mark(found) if found == mark => Ok(()),
            _ => self.fault(format!("a {mark} is missing")),
        }
    }

    fn full(&self, name: &str) -> String {
        let mut full = self.scope.join("::");
        if !full.is_empty() {
            full.push_str("::");
        }
        full + name
    }

    fn definition(&mut self) -> Read<()> {
        let notes = self.notes()?;
        match &*self.word()? {
            "module" => {
                let name = self.word()?;
                if self.scope.len() == DEPTH_MAX {
                    return self.fault("modules are nested too deep");
                }
                self.scope.push(name);
                self.expect('{')?;
                while !self.is_next('}') {
                    self.definition()?;
                }
                self.scope.pop();
            }
            "struct" => self.structure(&notes)?,
            "union" => self.union(&notes)?,
            "enum" => self.enumeration()?,
            "typedef" => {
                let kind = self.kind(0)?;
                loop {
                    let (name, kind) = self.declarator(kind.clone())?;
                    let name = self.full(&name);
                    self.names.kinds.insert(name, kind);
                    if !self.is_next(',') {
                        break;
                    }
                }
            }
            "const" => {
                self.kind(0)?;
                let name = self.word()?;
                self.expect('=')?;
                let mut value = Vec::new();
                while let Some((_, token)) = self.tokens.peek()
                    && *token != Token::Mark(';')
                {
                    value.push(self.next()?);
                }
                // Only a plain number may be the size of something.
                if let [Token::Word(word)] = &value[..]
                    && let Some(number) = number_of(word)
                {
                    let name = self.full(&name);
                    self.names.constants.insert(name, number);
                }
            }
            other => return self.fault(format!("{other} is not supported")),
        }
        self.expect(';')
    }

    fn notes(&mut self) -> Read<Notes> {
        let mut notes = Notes::default();
        while self.is_next('@') {
            let word = self.word()?;
            let mut first = None;
            if self.is_next('(') {
                let mut depth = 1;
                while depth > 0 {
                    match self.next()? {
                        Token::Mark('(') => depth += 1,
                        Token::Mark(')') => depth -= 1,
                        Token::Word(word) => first = first.or(Some(word)),
                        _ => {}
                    }
                }
            }
            match (&*word, first.as_deref()) {
                ("key", None | Some("TRUE")) => notes.is_key = true,
                ("final", _) | ("extensibility", Some("FINAL")) => notes.form = Some(Form::Final),
                ("appendable", _) | ("extensibility", Some("APPENDABLE")) => {
                    notes.form = Some(Form::Appendable);
                }
                ("mutable", _) | ("extensibility", Some("MUTABLE")) => {
                    notes.form = Some(Form::Mutable);
                }
                ("optional", None | Some("TRUE")) => notes.is_optional = true,
                ("autoid", None | Some("HASH")) => notes.are_hashed = true,
                ("hashid", name) => {
                    notes.hashed = Some(name.unwrap_or_default().trim_matches('"').to_owned());
                }
                ("id", Some(number)) => match number_of(number).map(u32::try_from) {
                    Some(Ok(id)) => notes.id = Some(id),
                    _ => return self.fault("@id is no number"),
                },
                ("external", _) => return self.fault("@external is not supported"),
                ("bit_bound", Some(bits)) if bits != "32" => {
                    return self.fault("enumerations of other than 32 bits are not supported");
                }
                _ => {}
            }
        }
        Ok(notes)
    }

    fn structure(&mut self, of: &Notes) -> Read<()> {
        let name = self.word()?;
        let full = self.full(&name);
        let plain = plain_name(&full);
        // It may be named by its own members, in sequences, and by preceding types.
        self.names
            .kinds
            .insert(full, FieldType::Struct(plain.clone()));
        if self.tokens.peek().map(|(_, token)| token) == Some(&Token::Mark(';')) {
            return Ok(());
        }
        let (mut fields, mut keys) = (Vec::new(), Vec::new());
        if self.is_next(':') {
            let FieldType::Struct(base) = self.kind(0)? else {
                return self.fault("the base is no structure");
            };
            let Some(base) = self.types.get(&base) else {
                return self.fault("the base is not known yet");
            };
            (fields, keys) = (base.fields.clone(), base.keys.clone());
        }
        self.expect('{')?;
        while !self.is_next('}') {
            let notes = self.notes()?;
            let kind = self.kind(0)?;
            loop {
                let (name, kind) = self.declarator(kind.clone())?;
                let id = match &notes.hashed {
                    Some(hashed) if hashed.is_empty() => id_of(&name),
                    Some(hashed) => id_of(hashed),
                    None if of.are_hashed => id_of(&name),
                    None => fields.last().map_or(0, |it: &Field| it.id + 1),
                };
                let id = notes.id.unwrap_or(id);
                if id > ID_MAX || fields.iter().any(|it| it.id == id) {
                    return self.fault(format!("the id of {name} is not one of its own"));
                }
                if notes.is_key {
                    // The hash of a key takes them by their ids, ours by their places.
                    if keys.last().is_some_and(|at: &usize| fields[*at].id > id) {
                        return self.fault("keys out of the order of their ids are not supported");
                    }
                    keys.push(fields.len());
                }
                if notes.is_key && notes.is_optional {
                    return self.fault("a key cannot be optional");
                }
                fields.push(Field {
                    name,
                    kind,
                    id,
                    is_optional: notes.is_optional,
                });
                if !self.is_next(',') {
                    break;
                }
            }
            self.expect(';')?;
        }
        if fields.is_empty() {
            return self.fault("a structure without members is not supported");
        }
        self.types.insert(Struct {
            name: plain,
            fields,
            keys,
            form: of.form,
        });
        Ok(())
    }

    fn union(&mut self, of: &Notes) -> Read<()> {
        let name = self.word()?;
        if of.form == Some(Form::Mutable) {
            return self.fault("mutable unions are not supported");
        }
        if !self.is_word("switch") {
            return self.fault("a union without switch is not supported");
        }
        self.expect('(')?;
        self.notes()?;
        let discriminator = self.kind(0)?;
        self.expect(')')?;
        let is_usable = matches!(
            discriminator,
            FieldType::Bool | FieldType::Unsigned(_) | FieldType::Signed(_) | FieldType::Enum(_)
        );
        if !is_usable {
            return self.fault("the discriminator is no number, truth value or enumeration");
        }
        self.expect('{')?;
        let mut cases: Vec<Case> = Vec::new();
        while !self.is_next('}') {
            let (mut labels, mut is_default) = (Vec::new(), false);
            loop {
                if self.is_word("case") {
                    labels.push(self.label(&discriminator)?);
                } else if self.is_word("default") {
                    is_default = true;
                } else {
                    break;
                }
                self.expect(':')?;
            }
            self.notes()?;
            let kind = self.kind(0)?;
            let (name, kind) = self.declarator(kind)?;
            self.expect(';')?;
            let is_taken = |label| cases.iter().any(|it: &Case| it.labels.contains(label));
            let is_second = is_default && cases.iter().any(|it| it.is_default);
            if labels.iter().any(is_taken) || is_second || labels.is_empty() && !is_default {
                return self.fault(format!("{name} has no label, or one of another case"));
            }
            cases.push(Case {
                name,
                kind,
                labels,
                is_default,
            });
        }
        let made = Union {
            discriminator,
            cases,
            form: of.form,
        };
        let full = self.full(&name);
        let kind = FieldType::Union(Arc::new(made));
        self.names.kinds.insert(full, kind);
        Ok(())
    }

    /// The value of the discriminator that a case has.
    fn label(&mut self, discriminator: &FieldType) -> Read<i64> {
        let sign = if self.is_next('-') { -1 } else { 1 };
        if self.is_next('\'') {
            let letter = self.word()?;
            self.expect('\'')?;
            return match letter.as_bytes() {
                [letter] => Ok(i64::from(*letter)),
                _ => self.fault("a label is no letter"),
            };
        }
        let name = self.name()?;
        let last = name.rsplit("::").next().unwrap_or_default();
        let found = match discriminator {
            FieldType::Enum(names) => {
                let named = names.iter().find(|(it, _)| it == last);
                named.map(|(_, number)| i64::from(*number))
            }
            FieldType::Bool => match last {
                "TRUE" => Some(1),
                "FALSE" => Some(0),
                _ => None,
            },
            _ => number_of(&name)
                .or_else(|| self.constant(&name))
                .and_then(|it| i64::try_from(it).ok()),
        };
        match found {
            Some(label) => Ok(sign * label),
            None => self.fault(format!("{name} is no value of the discriminator")),
        }
    }

    fn enumeration(&mut self) -> Read<()> {
        let name = self.word()?;
        let full = self.full(&name);
        self.expect('{')?;
        let mut values: Vec<(String, u32)> = Vec::new();
        while !self.is_next('}') {
            let mut number = values.last().map_or(0, |(_, last)| last.wrapping_add(1));
            while self.is_next('@') {
                let word = self.word()?;
                if self.is_next('(') {
                    let value = self.word()?;
                    match number_of(&value).and_then(|it| u32::try_from(it).ok()) {
                        Some(value) if word == "value" => number = value,
                        None if word == "value" => return self.fault("@value is no number"),
                        _ => {}
                    }
                    self.expect(')')?;
                }
            }
            values.push((self.word()?, number));
            if !self.is_next(',') {
                self.expect('}')?;
                break;
            }
        }
        self.names
            .kinds
            .insert(full, FieldType::Enum(values.into()));
        Ok(())
    }

    /// Returns the name of a field or a type, and its kind with its dimensions.
    fn declarator(&mut self, kind: FieldType) -> Read<(String, FieldType)> {
        let name = self.word()?;
        let mut sizes = Vec::new();
        while self.is_next('[') {
            sizes.push(self.size()?);
            self.expect(']')?;
        }
        let all = sizes
            .iter()
            .try_fold(1usize, |all, it| all.checked_mul(*it));
        if all.is_none_or(|all| all == 0 || all > ARRAY_MAX) {
            return self.fault("an array is empty or too large");
        }
        let of = |kind, size: &usize| FieldType::Array(Box::new(kind), *size);
        let kind = sizes.iter().rev().fold(kind, of);
        match depth_of(&kind) > DEPTH_MAX {
            true => self.fault("a type is nested too deep"),
            false => Ok((name, kind)),
        }
    }

    fn size(&mut self) -> Read<usize> {
        let name = self.name()?;
        match number_of(&name).or_else(|| self.constant(&name)) {
            Some(number) => Ok(number),
            None => self.fault(format!("{name} is no number")),
        }
    }

    fn constant(&self, name: &str) -> Option<usize> {
        let constants = &self.names.constants;
        self.in_scopes(name, |full| constants.get(full).copied())
    }

    /// A name with those of its modules before it, as it is written.
    fn name(&mut self) -> Read<String> {
        let mut name = String::new();
        if self.tokens.peek().map(|(_, token)| token) != Some(&Token::Scope) {
            name = self.word()?;
        }
        while self.tokens.peek().map(|(_, token)| token) == Some(&Token::Scope) {
            self.next()?;
            name.push_str("::");
            name.push_str(&self.word()?);
        }
        Ok(name)
    }

    /// Looks a name up in this module, or else in the enclosing ones.
    fn in_scopes<T>(&self, name: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        if let Some(name) = name.strip_prefix("::") {
            return find(name);
        }
        let mut scopes = (0..=self.scope.len()).rev();
        scopes.find_map(|depth| match depth {
            0 => find(name),
            depth => find(&format!("{}::{name}", self.scope[..depth].join("::"))),
        })
    }

    fn kind(&mut self, depth: usize) -> Read<FieldType> {
        if depth == DEPTH_MAX {
            return self.fault("a type is nested too deep");
        }
        let name = self.name()?;
        Ok(match &*name {
            "boolean" => FieldType::Bool,
            "octet" | "uint8" | "char" => FieldType::Unsigned(1),
            "int8" => FieldType::Signed(1),
            "short" | "int16" => FieldType::Signed(2),
            "uint16" => FieldType::Unsigned(2),
            "int32" => FieldType::Signed(4),
            "uint32" => FieldType::Unsigned(4),
            "int64" => FieldType::Signed(8),
            "uint64" => FieldType::Unsigned(8),
            "float" => FieldType::Float(4),
            "double" => FieldType::Float(8),
            "long" => match self.is_word("double") {
                true => return self.fault("long double is not supported"),
                false => FieldType::Signed(if self.is_word("long") { 8 } else { 4 }),
            },
            "unsigned" => match &*self.word()? {
                "short" => FieldType::Unsigned(2),
                "long" => FieldType::Unsigned(if self.is_word("long") { 8 } else { 4 }),
                _ => return self.fault("unsigned of what is not known"),
            },
            "string" => {
                if self.is_next('<') {
                    self.size()?;
                    self.expect('>')?;
                }
                FieldType::Text
            }
            "sequence" => {
                self.expect('<')?;
                let of = self.kind(depth + 1)?;
                if self.is_next(',') {
                    self.size()?;
                }
                self.expect('>')?;
                FieldType::Sequence(Box::new(of))
            }
            _ => {
                let kinds = &self.names.kinds;
                match self.in_scopes(&name, |full| kinds.get(full).cloned()) {
                    Some(kind) => kind,
                    None => return self.fault(format!("{name} is not a type that is known")),
                }
            }
        })
    }

    fn is_word(&mut self, word: &str) -> bool {
        let is_word = matches!(self.tokens.peek(), Some((_, Token::Word(found))) if found == word);
        if is_word {
            // It is there.
            let _ = self.next();
        }
        is_word
    }
}

/// A number without a sign.
fn number_of(word: &str) -> Option<usize> {
    let hexadecimal = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The id that a name has by its hash (DDS-XTypes 1.3 §7.3.1.2.1.1).
fn id_of(name: &str) -> u32 {
    let [a, b, c, d, ..] = md5(name.as_bytes());
    u32::from_le_bytes([a, b, c, d]) & ID_MAX
}

fn depth_of(kind: &FieldType) -> usize {
    let mut depth = 0;
    let mut kind = kind;
    while let FieldType::Array(of, _) | FieldType::Sequence(of) = kind {
        (kind, depth) = (of, depth + 1);
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Read<Types> {
        let mut types = Types::default();
        add(text, &mut Names::default(), &mut types)?;
        Ok(types)
    }

    #[test]
    fn structures_of_modules_are_types() {
        let types = read(
            r#"
#include "base.idl"
/* A comment
   of two lines. */
module plant { // what follows is in it
    const long COUNT = 0x3;
    enum Mode { IDLE, @value(5) BUSY, LATE };
    typedef sequence<long long, 8> Times;
    module part {
        @appendable @nested struct Axis { double at[COUNT][2]; boolean is_on; };
    };
    @final
    struct State {
        @key long id; @key string<COUNT> name;
        Mode mode; Times times; unsigned long long a, b[2];
        sequence<part::Axis> axes; ::plant::part::Axis last;
        @default(value="x(1)") octet raw[4];
    };
    struct More : State { float f; };
};
"#,
        )
        .expect("it is good");
        let axis = types.find("plant::part::Axis").expect("there");
        assert_eq!(axis.form, Some(Form::Appendable));
        let two = FieldType::Array(Box::new(FieldType::Float(8)), 2);
        assert_eq!(axis.fields[0].kind, FieldType::Array(Box::new(two), 3));
        let state = types.find("plant::State").expect("there");
        assert_eq!(
            (&state.keys[..], state.form),
            (&[0, 1][..], Some(Form::Final))
        );
        let names: Vec<&str> = state.fields.iter().map(|it| &*it.name).collect();
        let expected = [
            "id", "name", "mode", "times", "a", "b", "axes", "last", "raw",
        ];
        assert_eq!(names, expected);
        let FieldType::Enum(values) = &state.fields[2].kind else {
            panic!("an enumeration");
        };
        let values: Vec<(&str, u32)> = values.iter().map(|(name, it)| (&**name, *it)).collect();
        assert_eq!(values, [("IDLE", 0), ("BUSY", 5), ("LATE", 6)]);
        assert_eq!(
            state.fields[3].kind,
            FieldType::Sequence(Box::new(FieldType::Signed(8)))
        );
        assert_eq!(
            state.fields[5].kind,
            FieldType::Array(Box::new(FieldType::Unsigned(8)), 2)
        );
        assert_eq!(
            state.fields[7].kind,
            FieldType::Struct("plant/part/Axis".into())
        );
        let more = types.find("plant::More").expect("there");
        assert_eq!((more.fields.len(), &more.keys[..]), (10, &[0, 1][..]));
    }

    #[test]
    fn what_is_not_supported_is_refused_with_its_line() {
        for wrong in [
            "@mutable union U switch (long) { case 1: long a; };",
            "union U switch (double) { case 1: long a; };",
            "union U switch (long) { case 1: long a; case 1: long b; };",
            "union U switch (boolean) { case 1: long a; };",
            "union U switch (long) { long a; };",
            "union U switch (long) { case 1: U a; };",
            "struct S { wstring a; };",
            "struct S { @key @optional long a; };",
            "struct S { @id(1) long a; @id(1) long b; };",
            "struct S { @id(0x10000000) long a; };",
            "struct S { @id(2) @key long a; @id(1) @key long b; };",
            "struct S { @external long a; };",
            "struct S { long double a; };",
            "struct S { Other a; };",
            "struct S { long a[0]; };",
            "struct S { long a[2000000]; };",
            "struct S { long a; }",
            "struct S { long a;",
            "struct S { };",
            "const string A = \"x;",
            "enum E { @value(x) A };",
        ] {
            let fault = read(&format!("\n{wrong}")).expect_err(wrong);
            assert_eq!(fault.line, 2, "{wrong}");
        }
        let mut deep = "typedef long T0;".to_owned();
        for at in 0..DEPTH_MAX + 1 {
            deep += &format!("typedef sequence<T{at}> T{};", at + 1);
        }
        assert!(read(&deep).is_err());
        assert!(read(&"module a { ".repeat(1000)).is_err());
        assert!(read(&format!("typedef {}", "sequence<".repeat(1000))).is_err());
    }
}
