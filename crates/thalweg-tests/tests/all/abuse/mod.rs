//! Abuse.
