//! Records go out and come back; what they add up to is what they say.
