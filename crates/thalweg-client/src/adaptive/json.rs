//! The part of JSON that a calibration needs: objects, arrays, texts without escapes, numbers. Everything else is an error.
//!
//! A small JSON reader, because the smallest gateway reads only two kinds of JSON: the built-in calibration, and the
//! broker's presence messages, which are flat objects.

use super::calibration::CalibrationError;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Object(Object),
    Array(Vec<Value>),
    Text(String),
    Number(f64),
}

/// An object whose members are taken out one by one; what is left at the end was unknown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    members: Vec<(String, Value)>,
}

/// Reads one object, and nothing after it.
pub(crate) fn read(text: &str) -> Result<Object, CalibrationError> {
    let mut reader = Reader {
        rest: text,
        len: text.len(),
    };
    let Value::Object(object) = reader.value(0)? else {
        return Err(wrong("a calibration is one object in braces"));
    };
    reader.skip();
    if reader.rest.is_empty() {
        Ok(object)
    } else {
        Err(reader.fault("there is something after the end"))
    }
}

impl Object {
    /// Takes a number that lies in a range.
    pub(crate) fn number(
        &mut self,
        key: &str,
        least: f64,
        most: f64,
    ) -> Result<f64, CalibrationError> {
        self.optional(key, least, most)?
            .ok_or_else(|| wrong(&format!("`{key}` is missing")))
    }

    /// Takes a number that may be missing.
    pub(crate) fn optional(
        &mut self,
        key: &str,
        least: f64,
        most: f64,
    ) -> Result<Option<f64>, CalibrationError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Number(number)) if (least..=most).contains(&number) => Ok(Some(number)),
            Some(Value::Number(number)) => Err(wrong(&format!(
                "`{key}` is {number}, not within {least} to {most}"
            ))),
            Some(_) => Err(wrong(&format!("`{key}` is no number"))),
        }
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<String, CalibrationError> {
        match self.take(key) {
            Some(Value::Text(text)) => Ok(text),
            Some(_) => Err(wrong(&format!("`{key}` is no text"))),
            None => Err(wrong(&format!("`{key}` is missing"))),
        }
    }

    pub(super) fn object(&mut self, key: &str) -> Result<Object, CalibrationError> {
        match self.take(key) {
            Some(Value::Object(object)) => Ok(object),
            Some(_) => Err(wrong(&format!("`{key}` is no object"))),
            None => Err(wrong(&format!("`{key}` is missing"))),
        }
    }

    /// Takes an array of objects.
    pub(super) fn objects(&mut self, key: &str) -> Result<Vec<Object>, CalibrationError> {
        let Some(Value::Array(values)) = self.take(key) else {
            return Err(wrong(&format!("`{key}` is no array")));
        };
        let object = |value| match value {
            Value::Object(object) => Ok(object),
            _ => Err(wrong(&format!("`{key}` holds something that is no object"))),
        };
        values.into_iter().map(object).collect()
    }

    /// All members have been taken.
    pub(super) fn end(self, of: &str) -> Result<(), CalibrationError> {
        match self.members.first() {
            None => Ok(()),
            Some((key, _)) => Err(wrong(&format!("`{key}` is not known in {of}"))),
        }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        let at = self.members.iter().position(|(name, _)| name == key)?;
        Some(self.members.remove(at).1)
    }
}

/// A fault in words.
pub(super) fn wrong(words: &str) -> CalibrationError {
    CalibrationError {
        words: words.to_owned(),
    }
}

struct Reader<'t> {
    rest: &'t str,
    len: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self, depth: usize) -> Result<Value, CalibrationError> {
        self.skip();
        match self.rest.chars().next() {
            _ if depth > DEPTH_MAX => Err(self.fault("too deep")),
            Some('{') => self.object(depth),
            Some('[') => {
                let mut values = Vec::new();
                self.list('[', ']', |it| {
                    values.push(it.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Value::Array(values))
            }
            Some('"') => Ok(Value::Text(self.text()?.to_owned())),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, CalibrationError> {
        let mut members: Vec<(String, Value)> = Vec::new();
        self.list('{', '}', |it| {
            it.skip();
            let key = it.text()?.to_owned();
            it.expect(':')?;
            let value = it.value(depth + 1)?;
            if members.iter().any(|(name, _)| *name == key) {
                return Err(it.fault(&format!("`{key}` is there twice")));
            }
            members.push((key, value));
            Ok(())
        })?;
        Ok(Value::Object(Object { members }))
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        mut each: impl FnMut(&mut Self) -> Result<(), CalibrationError>,
    ) -> Result<(), CalibrationError> {
        self.expect(open)?;
        if self.found(close) {
            return Ok(());
        }
        loop {
            each(self)?;
            if self.found(close) {
                return Ok(());
            }
            self.expect(',')?;
        }
    }

    fn text(&mut self) -> Result<&'t str, CalibrationError> {
        self.expect('"')?;
        let (text, rest) = self
            .rest
            .split_once('"')
            .ok_or_else(|| self.fault("a text does not end"))?;
        if text.contains(|c: char| c == '\\' || c.is_control()) {
            return Err(self.fault("a text with an escape or a control character"));
        }
        self.rest = rest;
        Ok(text)
    }

    fn number(&mut self) -> Result<Value, CalibrationError> {
        let end = self
            .rest
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
        let (digits, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let number: f64 = digits
            .parse()
            .map_err(|_| self.fault("neither object, array, text nor number"))?;
        self.rest = rest;
        if number.is_finite() {
            Ok(Value::Number(number))
        } else {
            Err(self.fault("a number without bounds"))
        }
    }

    fn found(&mut self, what: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, what: char) -> Result<(), CalibrationError> {
        if self.found(what) {
            Ok(())
        } else {
            Err(self.fault(&format!("`{what}` is expected")))
        }
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn fault(&self, words: &str) -> CalibrationError {
        wrong(&format!("at byte {}: {words}", self.len - self.rest.len()))
    }
}

/// Deeper than any calibration is.
const DEPTH_MAX: usize = 6;
