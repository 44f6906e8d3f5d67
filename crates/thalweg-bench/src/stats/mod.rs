//! Statistics: what a handful of repeats allows one to say.
//!
//! *Knows:* numbers. *Must never know:* what they measure.
//!
//! Means carry Student's interval, medians a seeded bootstrap; two groups are told apart by Welch, many
//! comparisons by Holm; "equal" is only what two one-sided tests within a stated margin say. Histograms are
//! merged, never their percentiles averaged: that is not done here but where they are kept ([`crate::results`]).

mod compare;
mod describe;
mod special;

pub use compare::{hedges_g, holm, logs, tost_ratio, welch};
pub use describe::{Interval, mean, mean_interval, median, median_interval, quantile, sd};
pub use special::{normal_cdf, t_cdf};
