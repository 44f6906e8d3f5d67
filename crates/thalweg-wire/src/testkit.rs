//! The test kit: ways of feeding a machine.
