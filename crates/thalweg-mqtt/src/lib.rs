//! thalweg-mqtt
