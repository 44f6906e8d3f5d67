//! thalweg-fronts
