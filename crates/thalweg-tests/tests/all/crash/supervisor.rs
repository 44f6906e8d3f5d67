//! Kills the broker again and again, at random moments, and restarts it on its data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::book::Wrong;
use super::disk::Disk;
use super::ledger::{self, Sums};
use super::luck::Luck;
use super::process::{Home, Process};
use crate::broker::BrokerProgram;

/// From `ready` to the kill, in seconds; short lives are likelier, so that an hour holds many.
const LIFE: (f64, f64) = (0.05, 1.5);

/// Probability that a broker is killed before it is ready: recovery must survive its own interruption.
const KILLED_AT_START: f64 = 0.08;

/// A life of a control ends after so many acknowledgements: without any there would be nothing to lose.
const PROMISES_MIN: u64 = 100;
/// A control that gets fewer within this has failed.
const PROMISED_WITHIN: Duration = Duration::from_secs(60);

/// Counts what the broker has acknowledged to publishers, over all its lives.
#[derive(Clone, Debug, Default)]
pub struct Promises(Arc<AtomicU64>);

impl Promises {
    pub fn one_more(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Faults of the broker and its data.
#[derive(Debug)]
pub enum Way {
    /// It is killed, and restarts on its data.
    Kill,
    /// It is killed, and its data is thrown away: a control, which must be found out.
    Forget,
    /// It is left alone until the end: another control, in which nothing may be found.
    Spare,
    /// The power of the disk that its data lies on is cut.
    Cut(Box<Disk>),
}

#[derive(Clone, Copy, Debug)]
pub enum End {
    AfterKills(u32),
    At(Instant),
}

/// Results of the rounds.
#[derive(Debug, Default)]
pub struct Toll {
    pub rounds: u32,
    pub kills: u32,
    pub kills_at_start: u32,
    pub ready_after: Vec<Duration>,
    pub ledger: Sums,
    pub wrong: Vec<(Wrong, String)>,
    /// When each kill was, since the beginning.
    pub killed_at: Vec<Duration>,
}

/// Results, the running broker of the last round, and its disk.
pub type Outcome = (Toll, Option<Process>, Way);

/// The thread that does it.
pub struct Supervisor {
    thread: JoinHandle<Outcome>,
    done: Arc<AtomicBool>,
    lives: Arc<AtomicU32>,
}

impl Supervisor {
    pub fn start(home: Home, luck: Luck, way: Way, end: End, begun: Instant) -> Self {
        Self::with_lives(home, luck, way, end, begun, LIFE)
    }

    /// The same with lives of other lengths, in seconds.
    pub fn with_lives(
        home: Home,
        luck: Luck,
        way: Way,
        end: End,
        begun: Instant,
        life: (f64, f64),
    ) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let is_done = Arc::clone(&done);
        let lives: Arc<AtomicU32> = Arc::default();
        let counted = Arc::clone(&lives);
        let thread = std::thread::spawn(move || {
            let outcome = Rounds {
                home,
                luck,
                way,
                begun,
                life,
                toll: Toll::default(),
                lives: counted,
            }
            .run(end);
            is_done.store(true, Ordering::Release);
            outcome
        });
        Self {
            thread,
            done,
            lives,
        }
    }

    /// Number of starts of the broker; it rises only while none runs.
    pub fn lives(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.lives)
    }

    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) || self.thread.is_finished()
    }

    pub fn join(self) -> Outcome {
        self.thread.join().expect("the supervisor does not fail")
    }
}

struct Rounds {
    home: Home,
    luck: Luck,
    way: Way,
    begun: Instant,
    life: (f64, f64),
    toll: Toll,
    lives: Arc<AtomicU32>,
}

impl Rounds {
    fn run(mut self, end: End) -> Outcome {
        loop {
            if matches!(self.way, Way::Forget) {
                let _ = std::fs::remove_dir_all(&self.home.data);
            }
            if self.toll.rounds > 0
                && self.luck.chance(KILLED_AT_START)
                && let Err(why) = self.kill_at_start()
            {
                return self.broken(why);
            }
            let settings = self.settings();
            self.lives.fetch_add(1, Ordering::AcqRel);
            let promised = self.home.promises.count() + PROMISES_MIN;
            let mut process = match settings.start() {
                Ok(process) => process,
                Err(why) => return self.broken(why),
            };
            self.toll.rounds += 1;
            self.toll.ready_after.push(process.ready_after);
            let life = match (&self.way, end) {
                (Way::Spare, End::At(moment)) => moment
                    .saturating_duration_since(Instant::now())
                    .as_secs_f64(),
                // In the first one all clients subscribe.
                _ if self.toll.rounds == 1 => self.life.1,
                _ => self.life.0 + (self.life.1 - self.life.0) * self.luck.part().powi(3),
            };
            let until = Instant::now() + Duration::from_secs_f64(life);
            // The books are read while the load goes on, shortly before the end.
            let reading_at = self.luck.part();
            std::thread::sleep(Duration::from_secs_f64(life * reading_at));
            if self.home.kind == BrokerProgram::Thalweg {
                let reading = ledger::get(self.home.admin, "/v1/ledger");
                self.read(reading);
            }
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            let until = until + PROMISED_WITHIN;
            while self.must_lose()
                && self.home.promises.count() < promised
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            if let Some(status) = process.ended() {
                let log = process.log();
                return self.broken(format!("it ended by itself with {status}:\n{log}"));
            }
            let over = match end {
                End::AfterKills(kills) => self.toll.kills >= kills,
                End::At(moment) => Instant::now() >= moment,
            };
            if over {
                return (self.toll, Some(process), self.way);
            }
            if self.toll.rounds == 1 && matches!(self.way, Way::Cut(_)) {
                // An orderly end, so that sessions are on the disk whatever the policy; messages come and go after it.
                if !process.stop().is_some_and(|status| status.success()) {
                    self.toll
                        .wrong
                        .push((Wrong::Broker, "it did not stop in order".to_owned()));
                }
                continue;
            }
            if let Err(why) = self.killed(process) {
                return self.broken(why);
            }
        }
    }

    /// There will be no other broker, and clients are not kept waiting for one.
    fn broken(mut self, why: String) -> Outcome {
        self.toll.wrong.push((Wrong::Broker, why));
        (self.toll, None, self.way)
    }

    /// Whether this is a control, in which something must be missed.
    fn must_lose(&self) -> bool {
        matches!(self.way, Way::Forget) || self.home.has(super::UNSAFE[0])
    }

    /// Each life may have its own shards, segments and checkpoints; what another left, it must understand. Small ones let a
    /// short run see what takes hours otherwise.
    fn settings(&mut self) -> Home {
        // A small disk has no room for large ones.
        let large = if matches!(self.way, Way::Cut(_)) {
            8
        } else {
            64
        };
        let luck = &mut self.luck;
        let shards = 1 + luck.below(3);
        let segment = [1, 1, 4, large][luck.below(4)];
        let checkpoint = [1, 4, 256][luck.below(3)];
        // Small queues of AMQP and STOMP go to the disk at once, large ones never.
        let memory = if segment == 1 { "4KiB" } else { "16MiB" };
        let settings = [
            format!("queues.memory_bytes_max={memory}"),
            format!("shards={shards}"),
            format!("journal.segment_bytes={segment}MiB"),
            format!("journal.checkpoint_bytes={checkpoint}MiB"),
            "journal.checkpoint_interval=1s".to_owned(),
        ];
        settings
            .iter()
            .fold(self.home.clone(), |home, set| home.set_before(set))
    }

    fn kill_at_start(&mut self) -> Result<(), String> {
        let settings = self.settings();
        self.lives.fetch_add(1, Ordering::AcqRel);
        let process = settings.spawn();
        let most = self
            .toll
            .ready_after
            .last()
            .map_or(0.05, Duration::as_secs_f64);
        std::thread::sleep(Duration::from_secs_f64(self.luck.part() * most));
        self.toll.kills_at_start += 1;
        self.killed(process)
    }

    fn killed(&mut self, process: Process) -> Result<(), String> {
        self.toll.kills += 1;
        self.toll.killed_at.push(self.begun.elapsed());
        let log = match &self.way {
            Way::Cut(disk) => disk.cut(process)?,
            _ => process.kill(),
        };
        if log.contains("panicked") {
            self.toll
                .wrong
                .push((Wrong::Broker, format!("it panicked:\n{log}")));
        }
        Ok(())
    }

    fn read(&mut self, reading: Option<Value>) {
        let Some(reading) = reading else { return };
        let faults = ledger::faults(&reading)
            .into_iter()
            .map(|fault| (Wrong::Ledger, fault));
        self.toll.wrong.extend(faults);
        self.toll.ledger.add(&reading);
    }
}
