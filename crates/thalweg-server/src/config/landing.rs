//! How a checked value lands in a field of the typed configuration, and how the field is read back.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use thalweg_model::{Filter, Span};

use super::dials::Dial;
use super::kind::Value;
use super::policies::GroupPolicy;
use super::settings::{Bind, Config, Listener};
use super::words::Fsync;

/// Where a key lands: a field of the broker's configuration, or of a listener's.
#[derive(Clone, Copy)]
pub(super) enum Field {
    Broker {
        read: fn(&Config) -> Value,
        land: fn(&mut Config, Value) -> bool,
    },
    Listener {
        read: fn(&Listener) -> Value,
        land: fn(&mut Listener, Value) -> bool,
    },
}

/// A field's type. `from_value` is `None` only when the key table pairs a kind with a field that cannot hold it.
pub(super) trait Landing: Sized {
    fn from_value(value: Value) -> Option<Self>;
    fn to_value(&self) -> Value;
}

/// Puts `value` into `field`; `false` if it does not fit.
pub(super) fn land<T: Landing>(field: &mut T, value: Value) -> bool {
    match T::from_value(value) {
        Some(fitting) => {
            *field = fitting;
            true
        }
        None => false,
    }
}

/// A field of [`Config`], by its path.
macro_rules! broker {
    ($($path:ident).+) => {
        Field::Broker {
            read: |config| config.$($path).+.to_value(),
            land: |config, value| land(&mut config.$($path).+, value),
        }
    };
}

/// A field of a protocol's section, by its path.
macro_rules! protocol {
    ($($path:ident).+) => {
        Field::Broker {
            read: |config| config.protocols.$($path).+.to_value(),
            land: |config, value| land(&mut config.protocols.$($path).+, value),
        }
    };
}

/// A field of [`Listener`], by its path.
macro_rules! listener {
    ($($path:ident).+) => {
        Field::Listener {
            read: |listener| listener.$($path).+.to_value(),
            land: |listener, value| land(&mut listener.$($path).+, value),
        }
    };
}

pub(super) use {broker, listener, protocol};

macro_rules! landing {
    ($($type:ty: $pattern:pat => $from:expr, $this:ident => $to:expr;)+) => {
        $(impl Landing for $type {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    $pattern => $from,
                    _ => None,
                }
            }
            fn to_value(&self) -> Value {
                let $this = self;
                $to
            }
        })+
    };
}

landing! {
    bool: Value::Flag(flag) => Some(flag), this => Value::Flag(*this);
    u64: Value::Number(number) => Some(number), this => Value::Number(*this);
    u32: Value::Number(number) => number.try_into().ok(), this => Value::Number((*this).into());
    u16: Value::Number(number) => number.try_into().ok(), this => Value::Number((*this).into());
    u8: Value::Number(number) => number.try_into().ok(), this => Value::Number((*this).into());
    usize: Value::Number(number) => number.try_into().ok(), this => Value::Number(*this as u64);
    PathBuf: Value::Path(path) => Some(path), this => Value::Path(this.clone());
    SocketAddr: Value::Socket(socket) => Some(socket), this => Value::Socket(*this);
    Bind: Value::Bind(bind) => Some(bind), this => Value::Bind(this.clone());
}

impl<T: Landing> Landing for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Unset, T::to_value)
    }
}

impl Landing for Span {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(Span::FOREVER),
            Value::Length(span) => Some(span),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if *self == Span::FOREVER {
            Value::Unset
        } else {
            Value::Length(*self)
        }
    }
}

impl Landing for String {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(String::new()),
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if self.is_empty() {
            Value::Unset
        } else {
            Value::Text(self.clone())
        }
    }
}

impl Landing for Vec<IpAddr> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(Vec::new()),
            Value::Addresses(addresses) => Some(addresses),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if self.is_empty() {
            Value::Unset
        } else {
            Value::Addresses(self.clone())
        }
    }
}

impl Landing for Vec<(Filter, Fsync)> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(Vec::new()),
            Value::Policies(policies) => Some(policies),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if self.is_empty() {
            Value::Unset
        } else {
            Value::Policies(self.clone())
        }
    }
}

impl Landing for Vec<GroupPolicy> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(Vec::new()),
            Value::GroupPolicies(policies) => Some(policies),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if self.is_empty() {
            Value::Unset
        } else {
            Value::GroupPolicies(self.clone())
        }
    }
}

impl Landing for Vec<Dial> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(Vec::new()),
            Value::Dials(dials) => Some(dials),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if self.is_empty() {
            Value::Unset
        } else {
            Value::Dials(self.clone())
        }
    }
}

impl Landing for Vec<Filter> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(Vec::new()),
            Value::Filters(filters) => Some(filters),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if self.is_empty() {
            Value::Unset
        } else {
            Value::Filters(self.clone())
        }
    }
}

impl Landing for Vec<String> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(Vec::new()),
            Value::Names(names) => Some(names),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        if self.is_empty() {
            Value::Unset
        } else {
            Value::Names(self.clone())
        }
    }
}
