//! thalweg-kernel
