//! Statistics: what a handful of repeats allows one to say, and histograms of latencies in HdrHistogram's formats.
//!
//! *Knows:* numbers. *Must never know:* what they measure, files, clocks. A crate of its own, so that tests run it optimised.
//! Start reading at [`median_interval`].
//!
//! Means carry Student's interval, medians a seeded bootstrap; two groups are told apart by Welch, many
//! comparisons by Holm; "equal" is only what two one-sided tests within a stated margin say. Histograms are
//! merged, never their percentiles averaged: that is not done here but where they are kept.
#![forbid(unsafe_code)]

mod compare;
mod describe;
pub mod histograms;
pub mod random;
mod special;

pub use compare::{hedges_g, holm, logs, tost_ratio, welch};
pub use describe::{Interval, ascend, mean, mean_interval, median, median_interval, quantile, sd};
pub use special::{normal_cdf, t_cdf};
