//! How a section of the configuration is written: one struct, whose fields are its keys.
//!
//! A field says all there is to a key: its comment is the help text, then come type, kind (with range and unit), default as it
//! would be written behind `--set`, the word for "none" if there is one, and when a change applies. Parser, checks,
//! `config explain`, the reference, environment variables and reload follow from that; serde moves the values.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use thalweg_kernel::GroupStrategy;
use thalweg_model::{Filter, Span};

use super::choices::Words;
use super::keys::Key;

/// Declares a section. A field that is a section itself comes last, as `in "its.prefix." field: Type;`.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $Name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $Type:ty =
            $kind:expr, $default:literal $(or $none:literal)?, $reload:ident;)*
        $(in $table:literal $(#[$inner_meta:meta])* $inner:ident: $Inner:ty;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $Name {
            $($(#[doc = $doc])+ #[serde(with = "crate::config::section")] pub $field: $Type,)*
            $($(#[$inner_meta])* pub $inner: $Inner,)*
        }

        impl $crate::config::section::Section for $Name {
            fn keys(table: &str, keys: &mut Vec<$crate::config::keys::Key>) {
                $(keys.push($crate::config::keys::Key {
                    name: format!("{table}{}", stringify!($field).trim_start_matches("r#")),
                    kind: {
                        use $crate::config::kind::prelude::*;
                        $kind
                    },
                    default: $default,
                    none: None$(.or(Some($none)))?,
                    reload: $crate::config::keys::Reload::$reload,
                    doc: [$($doc.trim()),+].join(" "),
                });)*
                $(<$Inner as $crate::config::section::Section>::keys(&format!("{table}{}", $table), keys);)*
            }
        }
    };
}

pub(super) use section;

/// What [`section!`] declares.
pub(super) trait Section {
    /// Adds the keys, in the order of the reference; their names begin with `table`.
    fn keys(table: &str, keys: &mut Vec<Key>);
}

pub(super) fn keys_of<T: Section>() -> Vec<Key> {
    let mut keys = Vec::new();
    T::keys("", &mut keys);
    keys
}

impl<T: Section> Section for BTreeMap<String, T> {
    fn keys(table: &str, keys: &mut Vec<Key>) {
        T::keys(&format!("{table}<name>."), keys);
    }
}

/// The type of a key: how its value is held while it has no type. Null is unset.
pub trait Setting: Sized {
    fn to_value(&self) -> Value;
    /// `None` if the key's kind lets values pass that the type cannot hold.
    fn from_value(value: Value) -> Option<Self>;
}

/// With [`deserialize`], what `#[serde(with)]` of a key names.
pub(super) fn serialize<T: Setting, S: Serializer>(this: &T, to: S) -> Result<S::Ok, S::Error> {
    this.to_value().serialize(to)
}

pub(super) fn deserialize<'de, T: Setting, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    let words = format!("{value} does not fit");
    T::from_value(value).ok_or_else(|| D::Error::custom(words))
}

macro_rules! settings_by_serde {
    ($($Type:ty),+) => {$(
        impl $crate::config::section::Setting for $Type {
            fn to_value(&self) -> serde_json::Value {
                serde_json::json!(self)
            }
            fn from_value(value: serde_json::Value) -> Option<Self> {
                serde_json::from_value(value).ok()
            }
        }
    )+};
}

pub(super) use settings_by_serde;

settings_by_serde!(bool, u64, u32, u16, u8, usize, PathBuf, SocketAddr, IpAddr);

impl<T: Words> Setting for T {
    fn to_value(&self) -> Value {
        self.word().into()
    }
    fn from_value(value: Value) -> Option<Self> {
        T::from_word(value.as_str()?)
    }
}

impl<T: Setting> Setting for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn to_value(&self) -> Value {
        match self.is_empty() {
            true => Value::Null,
            false => self.iter().map(T::to_value).collect(),
        }
    }
    fn from_value(value: Value) -> Option<Self> {
        let items: Option<Vec<Value>> = serde_json::from_value(value).ok()?;
        items
            .unwrap_or_default()
            .into_iter()
            .map(T::from_value)
            .collect()
    }
}

impl<A: Setting, B: Setting> Setting for (A, B) {
    fn to_value(&self) -> Value {
        json!([self.0.to_value(), self.1.to_value()])
    }
    fn from_value(value: Value) -> Option<Self> {
        let (one, other) = serde_json::from_value(value).ok()?;
        Some((A::from_value(one)?, B::from_value(other)?))
    }
}

impl Setting for String {
    fn to_value(&self) -> Value {
        self.as_str().into()
    }
    fn from_value(value: Value) -> Option<Self> {
        serde_json::from_value::<Option<String>>(value)
            .ok()
            .map(Option::unwrap_or_default)
    }
}

/// In nanoseconds; [`Span::FOREVER`] is what a word for "none" means where there is always a length.
impl Setting for Span {
    fn to_value(&self) -> Value {
        self.nanos().into()
    }
    fn from_value(value: Value) -> Option<Self> {
        let nanos: Option<u64> = serde_json::from_value(value).ok()?;
        Some(nanos.map_or(Span::FOREVER, Span::from_nanos))
    }
}

impl Setting for Filter {
    fn to_value(&self) -> Value {
        self.as_str().into()
    }
    fn from_value(value: Value) -> Option<Self> {
        Filter::new(value.as_str()?).ok()
    }
}

impl Setting for GroupStrategy {
    fn to_value(&self) -> Value {
        self.name().into()
    }
    fn from_value(value: Value) -> Option<Self> {
        GroupStrategy::named(value.as_str()?)
    }
}
