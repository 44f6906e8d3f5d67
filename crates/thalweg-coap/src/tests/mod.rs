//! Tests of the codec.

pub(crate) mod mutations;
mod properties;
mod sizes;
mod transcripts;

use crate::*;
