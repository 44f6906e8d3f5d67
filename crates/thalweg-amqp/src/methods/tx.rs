//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 90, `tx`: transactions of publishes and settlements.

use crate::codec::{Arguments, Malformed, MethodId, put_id};

/// `tx.select`: publish and settle in transactions from now on.
///
/// Sent by the client; answered by `tx.select-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Select;

impl Select {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(90, 10);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(Select)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `tx.select-ok`: the channel is transactional.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectOk;

impl SelectOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(90, 11);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(SelectOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `tx.commit`: commit the transaction; a new one begins.
///
/// Sent by the client; answered by `tx.commit-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit;

impl Commit {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(90, 20);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(Commit)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `tx.commit-ok`: the transaction is committed.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitOk;

impl CommitOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(90, 21);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(CommitOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `tx.rollback`: roll the transaction back; a new one begins.
///
/// Sent by the client; answered by `tx.rollback-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollback;

impl Rollback {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(90, 30);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(Rollback)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `tx.rollback-ok`: the transaction is rolled back.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollbackOk;

impl RollbackOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(90, 31);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(RollbackOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}
