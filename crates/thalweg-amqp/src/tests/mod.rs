//! Tests of both machines.
