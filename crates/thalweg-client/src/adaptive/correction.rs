//! By how much the model is off for a lane: what was measured against what was predicted, fading.

use std::collections::VecDeque;

use super::conditions::Fading;

/// Measured and predicted, in the same unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Correction {
    measured: Fading,
    predicted: Fading,
    samples: Fading,
    /// Recent comparisons: the loss at the time of the prediction is known some seconds later. If the network turns out
    /// to have changed, the deviation is not the model's.
    young: VecDeque<Young>,
}

#[derive(Clone, Copy, Debug)]
struct Young {
    age_seconds: f64,
    measured: f64,
    predicted: f64,
    samples: f64,
}

impl Correction {
    /// Without samples: more of what was compared before.
    pub(super) fn add(&mut self, measured: f64, predicted: f64, samples: f64) {
        let is_predicted = predicted > 0.0 || samples == 0.0;
        if measured.is_finite() && is_predicted && measured >= 0.0 {
            self.young.push_back(Young {
                age_seconds: 0.0,
                measured,
                predicted,
                samples,
            });
        }
    }

    /// Time passes: what is old enough counts from now on.
    pub(super) fn pass(&mut self, seconds: f64, memory: f64) {
        self.fade(seconds, memory);
        self.young
            .iter_mut()
            .for_each(|it| it.age_seconds += seconds);
        while let Some(it) = self
            .young
            .pop_front_if(|it| it.age_seconds >= YOUNG_SECONDS)
        {
            self.measured.add(it.measured);
            self.predicted.add(it.predicted);
            self.samples.add(it.samples);
        }
    }

    /// The network has changed: what was compared lately says nothing, what was known before counts for less.
    pub(super) fn changed(&mut self, fading: f64) {
        self.young.clear();
        self.fade(fading, 1.0);
    }

    fn fade(&mut self, seconds: f64, memory: f64) {
        self.measured.fade(seconds, memory);
        self.predicted.fade(seconds, memory);
        self.samples.fade(seconds, memory);
    }

    /// By how much the model is off, so far as there is evidence, within bounds.
    pub(super) fn ratio(&self) -> f64 {
        let predicted = self.predicted.get();
        if predicted <= 0.0 {
            return 1.0;
        }
        let ratio = (self.measured.get() / predicted).clamp(1.0 / CORRECTION_MAX, CORRECTION_MAX);
        ratio.powf(self.weight())
    }

    /// The weight of the deviation, from 0 to 1.
    pub(super) fn weight(&self) -> f64 {
        self.samples.get() / (self.samples.get() + CORRECTION_SAMPLES)
    }
}

const CORRECTION_MAX: f64 = 4.0;
/// Latencies have long tails: few samples say little.
const CORRECTION_SAMPLES: f64 = 40.0;
/// A change of loss is found out within so many seconds, as a rule ([`super::conditions`]).
const YOUNG_SECONDS: f64 = 15.0;
