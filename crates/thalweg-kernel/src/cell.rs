//! What comes to a watched address.
