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
use serde_json::Value;
use thalweg_kernel::GroupStrategy;
use thalweg_model::{Filter, Span};

use super::choices::{Fsync, Words};
use super::keys::Key;

/// Declares sections. A field that is a section itself comes last, as `in "its.prefix." field: Type;`.
macro_rules! section {
    ($($(#[$meta:meta])* pub struct $Name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $Type:ty =
            $kind:expr, $default:literal $(or $none:literal)?, $reload:ident;)*
        $(in $table:literal $(#[$inner_meta:meta])* $inner:ident: $Inner:ty;)*
    })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $Name {
            $($(#[doc = $doc])+ #[serde(with = "crate::section")] pub $field: $Type,)*
            $($(#[$inner_meta])* pub $inner: $Inner,)*
        }

        $crate::section::settings! { by serde: $Name }

        impl $crate::section::Section for $Name {
            fn keys(table: &str, keys: &mut Vec<$crate::keys::Key>) {
                #[allow(unused_imports, reason = "not every section needs it")]
                use $crate::kind::prelude::*;
                $(keys.push($crate::keys::Key {
                    name: [table, stringify!($field).trim_start_matches("r#")].concat(),
                    kind: $kind,
                    default: $default,
                    none: None$(.or(Some($none)))?,
                    reload: $crate::keys::Reload::$reload,
                    doc: concat!($($doc),+).trim_start(),
                });)*
                $(<$Inner as $crate::section::Section>::keys(&format!("{table}{}", $table), keys);)*
            }
        }
    )+};
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
    let value = any_value(from)?;
    T::from_value(value).ok_or_else(|| D::Error::custom("a value does not fit its key"))
}

/// Once for all types: what is written for each of 300 keys makes the program larger.
#[inline(never)]
fn any_value<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Value::deserialize(from)
}

/// The types of keys: what makes a value of one, and what makes one of a value.
macro_rules! settings {
    ($([$($T:ident: $Trait:ident)*] $Type:ty: $write:expr, $read:expr;)+) => {$(
        impl<$($T: $Trait)*> $crate::section::Setting for $Type {
            fn to_value(&self) -> serde_json::Value {
                let write: fn(&Self) -> serde_json::Value = $write;
                write(self)
            }
            fn from_value(value: serde_json::Value) -> Option<Self> {
                let read: fn(serde_json::Value) -> Option<Self> = $read;
                read(value)
            }
        }
    )+};
    (by serde: $($Type:ty)+) => {
        $crate::section::settings! {
            $([] $Type: |it| serde_json::json!(it), |value| serde_json::from_value(value).ok();)+
        }
    };
}

pub(super) use settings;

settings! { by serde: bool u64 u32 u16 u8 usize PathBuf SocketAddr IpAddr }

settings! {
    [T: Words] T: |it| it.word().into(), |value| T::from_word(value.as_str()?);
    [T: Setting] Option<T>: |it| it.as_ref().map_or(Value::Null, T::to_value), |value| match value {
        Value::Null => Some(None),
        value => T::from_value(value).map(Some),
    };
    [T: Setting] Vec<T>: |it| match it.is_empty() {
        true => Value::Null,
        false => it.iter().map(T::to_value).collect(),
    }, |value| match value {
        Value::Array(items) => items.into_iter().map(T::from_value).collect(),
        value => value.is_null().then(Vec::new),
    };
    [] Vec<(Filter, Fsync)>: |it| match it.is_empty() {
        true => Value::Null,
        false => it.iter().map(|(filter, fsync)| (filter.to_string(), fsync.to_value())).collect(),
    }, |value| match value {
        Value::Object(pairs) => pairs.into_iter().map(|(filter, fsync)| {
            Some((Filter::new(&filter).ok()?, Fsync::from_value(fsync)?))
        }).collect(),
        value => value.is_null().then(Vec::new),
    };
    [] String: |it| it.as_str().into(), |value| match value {
        Value::String(text) => Some(text),
        value => value.is_null().then(String::new),
    };
    // In nanoseconds; `FOREVER` is what a word for "none" means where there is always a length.
    [] Span: |it| it.nanos().into(), |value| match value {
        Value::Null => Some(Span::FOREVER),
        value => value.as_u64().map(Span::from_nanos),
    };
    [] Filter: |it| it.as_str().into(), |value| Filter::new(value.as_str()?).ok();
    [] GroupStrategy: |it| it.name().into(), |value| GroupStrategy::named(value.as_str()?);
}
