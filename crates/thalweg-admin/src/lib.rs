//! thalweg-admin
