//! What is measured: messages, and the trial they belong to. Everything that is printed or drawn comes from these.

/// A message, in nanoseconds since the trial's first moment; [`NEVER`] for what did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it should have been published.
    pub intended: u64,
    pub sent: u64,
    /// When a worker had it first.
    pub received: u64,
    /// When a worker took it from its queue first.
    pub taken: u64,
    /// When it was processed first.
    pub done: u64,
    /// The member that processed it first, or else received it first; [`NOBODY`] if none received it.
    pub member: u16,
    /// How often it was delivered.
    pub deliveries: u16,
    /// When it was delivered for the second time.
    pub again: u64,
    /// How many deliveries were marked as repetitions.
    pub marked: u16,
    /// When it was first delivered with a mark.
    pub resent: u64,
    /// How often it was processed.
    pub processed: u16,
}

/// What did not happen.
pub const NEVER: u64 = u64::MAX;
pub const NOBODY: u16 = u16::MAX;

impl Message {
    /// One that is still to be sent.
    pub fn due(intended: u64) -> Message {
        Message {
            intended,
            sent: NEVER,
            received: NEVER,
            taken: NEVER,
            done: NEVER,
            member: NOBODY,
            deliveries: 0,
            again: NEVER,
            marked: 0,
            resent: NEVER,
            processed: 0,
        }
    }

    /// Milliseconds from publish until a worker took it from its queue: the latency of the thesis.
    pub fn wait_ms(&self) -> Option<f64> {
        (self.taken != NEVER).then(|| ms(self.taken.saturating_sub(self.intended)))
    }

    /// Milliseconds from publish until it was processed.
    pub fn response_ms(&self) -> Option<f64> {
        (self.done != NEVER).then(|| ms(self.done.saturating_sub(self.intended)))
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 * 1e-6
}

/// Whether a trial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    /// What sent or worked was not able to keep its own times.
    GeneratorLimited,
    /// It came to no regular end.
    Invalid,
}

impl Verdict {
    pub const ALL: [Verdict; 3] = [Verdict::Valid, Verdict::GeneratorLimited, Verdict::Invalid];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Valid => "valid",
            Verdict::GeneratorLimited => "generator-limited",
            Verdict::Invalid => "invalid",
        }
    }
}

/// One run of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The number of the trial in its run.
    pub number: u32,
    /// Which part of the study: `core`, `bars`, or the name of a sweep.
    pub part: String,
    /// What is run: `S1`, `S2`, or a row.
    pub scenario: String,
    /// Where on the axis of a sweep, such as `ping=0.3s`.
    pub point: String,
    /// Strategy, and how the broker is told, such as `adaptive+events`.
    pub variant: String,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// What arrivals and service demands were drawn from.
    pub seed: u64,
    /// Quality of service of the publishes.
    pub qos: u8,
    /// Mean time between two messages in milliseconds, as intended.
    pub period_ms: f64,
    /// Milliseconds that a message takes on average, by member.
    pub service_ms: Vec<f64>,
    /// Messages before this number, and of these the ones due in this time, do not count in the response figures.
    pub counted: (f64, f64),
    /// Bars for mean and 99th percentile, as multiples of the limit.
    pub bars: Option<(f64, f64)>,
    /// Mean and 99th percentile of the limit for the same arrivals and demands, in milliseconds.
    pub limit_ms: (f64, f64),
    /// The limit's mean time until a message is taken, in milliseconds.
    pub limit_wait_ms: f64,
    /// Mean and 99th percentile of the same messages in virtual time, in milliseconds, where that was asked for.
    pub virtual_ms: Option<(f64, f64)>,
    /// Whether it counts, and why not.
    pub verdict: Verdict,
    /// Why it does not count, in words; empty if it does.
    pub why: String,
    /// Messages per second sent, as a part of those intended.
    pub achieved: f64,
    /// 99th percentile of the time between when a message was due and when it left, in microseconds.
    pub lag_p99_us: f64,
    /// Time by which workers woke too late, in microseconds: mean, 99th percentile, longest.
    pub wake_us: (f64, f64, f64),
    /// Reports of load that were sent, and their bytes with everything else that workers sent.
    pub reports: u64,
    /// Bytes that workers sent, acknowledgements included.
    pub worker_bytes: u64,
    /// Connections that the broker ended.
    pub closed: u32,
    /// When the incident of the trial happened, in nanoseconds; [`NEVER`] without one.
    pub incident: u64,
    pub messages: Vec<Message>,
}

impl Trial {
    /// What all repeats of a cell have in common.
    pub fn cell(&self) -> (String, String, String, String) {
        (
            self.part.clone(),
            self.scenario.clone(),
            self.point.clone(),
            self.variant.clone(),
        )
    }

    /// Mean wait in milliseconds: publish until taken from the worker's queue, of all messages that were.
    pub fn wait_mean(&self) -> f64 {
        mean(self.messages.iter().filter_map(Message::wait_ms))
    }

    /// Mean and 99th percentile of publish until processed, of the messages that count, in milliseconds.
    pub fn response(&self) -> (f64, f64) {
        let (from, to) = self.counted;
        let counts = |message: &&Message| (from..to).contains(&(message.intended as f64 * 1e-9));
        let mut took: Vec<f64> = self
            .messages
            .iter()
            .filter(counts)
            .filter_map(Message::response_ms)
            .collect();
        (mean(took.iter().copied()), quantile(&mut took, 0.99))
    }

    /// Mean and 99th percentile as multiples of the limit.
    pub fn ratio(&self) -> (f64, f64) {
        let (mean, p99) = self.response();
        (mean / self.limit_ms.0, p99 / self.limit_ms.1)
    }

    /// Messages that were sent and never processed.
    pub fn lost(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| message.sent != NEVER && message.done == NEVER)
            .count()
    }

    /// Messages that were delivered more than once.
    pub fn repeated(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| message.deliveries > 1)
            .count()
    }

    /// Messages that were processed more than once.
    pub fn processed_twice(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| message.processed > 1)
            .count()
    }

    /// Messages whose first receiver did not process them: another one got them, or the same one again. Those whose
    /// first delivery was not seen are known by their mark.
    pub fn exposed(&self) -> impl Iterator<Item = &Message> {
        self.messages
            .iter()
            .filter(|message| message.marked > 0 || message.deliveries > 1)
    }

    /// Longest time until a message that was with a member when something happened to it, or was sent there afterwards,
    /// came to a member that processed it, in milliseconds.
    pub fn resent_after_ms(&self) -> f64 {
        let after = |message: &Message| {
            // Without a mark it is a fault, but it came.
            ms(message
                .resent
                .min(message.again)
                .saturating_sub(message.intended.max(self.incident)))
        };
        self.exposed().map(after).fold(0.0, f64::max)
    }

    /// Messages that came again without a mark.
    pub fn unmarked(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| message.deliveries > 1 && message.marked + 1 < message.deliveries)
            .count()
    }

    /// Messages 500 to 1000, by member: the steady part of the thesis.
    pub fn steady(&self, member: u16) -> Vec<f64> {
        let steady = self.messages.iter().skip(500).take(500);
        steady
            .filter(|message| message.member == member)
            .filter_map(Message::wait_ms)
            .collect()
    }
}

/// The mean; not a number for nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    if count == 0 {
        f64::NAN
    } else {
        sum / count as f64
    }
}

/// The value that so large a part is not above; sorts.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values
        .get(at.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

/// Half of the 95 % confidence interval of a mean, by Student's t.
pub fn half_interval(values: &[f64]) -> f64 {
    let count = values.len();
    if count < 2 {
        return f64::NAN;
    }
    let middle = mean(values.iter().copied());
    let variance = values
        .iter()
        .map(|value| (value - middle).powi(2))
        .sum::<f64>()
        / (count - 1) as f64;
    // For 1, 2, … degrees of freedom.
    const T: [f64; 15] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131,
    ];
    T.get(count - 2).copied().unwrap_or(2.0) * (variance / count as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.99), 199.0);
        assert_eq!(quantile(&mut values, 0.0), 1.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }

    #[test]
    fn the_interval_of_eight_repeats_uses_the_t_of_seven() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        assert!((half_interval(&values) - 2.365 * (6.0_f64 / 8.0).sqrt()).abs() < 1e-9);
    }
}
