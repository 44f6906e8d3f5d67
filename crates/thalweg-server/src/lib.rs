//! thalweg-server
