//! A sample can be taken in the thread that receives it, and a wait for samples reports only the others.
#![cfg(feature = "cyclone")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_dds::cyclone::{Listener, Participant, Reader, SampleKind, Topic};
use thalweg_dds::qos::Qos;
use thalweg_dds::settings::DdsSettings;
use thalweg_server::config::Config;

const DOMAIN: u32 = 149;
const TOKEN: u32 = 7;
const ROUNDS_MAX: usize = 3000;
const MOMENT: Duration = Duration::from_millis(10);

/// Takes samples at once if it is to.
#[derive(Default)]
struct TakingListener {
    takes: AtomicBool,
    reader: Mutex<Option<Reader>>,
    taken: Mutex<Vec<u8>>,
}

impl TakingListener {
    fn take(&self) {
        let reader = self.reader.lock().expect("no test has failed");
        reader.as_ref().expect("a reader").take(|sample| {
            let mut taken = self.taken.lock().expect("no test has failed");
            taken.push(sample.bytes[4]);
        });
    }

    fn has_taken(&self, numbers: &[u8]) -> bool {
        *self.taken.lock().expect("no test has failed") == numbers
    }
}

impl Listener for TakingListener {
    fn on_samples(&self, token: u32) {
        assert_eq!(token, TOKEN);
        if self.takes.load(Ordering::SeqCst) {
            self.take();
        }
    }
}

fn participant() -> Participant {
    let sets = [format!("dds.domain={DOMAIN}")];
    let read = Config::from_text(None, std::iter::empty(), &sets);
    let (config, _) = read.expect("the settings are right");
    let settings = DdsSettings::of(&config.protocols.dds).expect("they can be used");
    Participant::new(&settings.xml(), &settings.types).expect("it joins")
}

fn until(mut is_so: impl FnMut() -> bool) {
    assert!((0..ROUNDS_MAX).any(|_| is_so()));
}

#[test]
fn what_a_listener_takes_is_not_waited_for() {
    let topic = Topic {
        name: "Seldom".into(),
        type_name: "Seldom".into(),
        is_keyless: true,
    };
    let (near, far) = (participant(), participant());
    let taker = Arc::<TakingListener>::default();
    let listener: Arc<dyn Listener> = taker.clone();
    far.listen(Arc::downgrade(&listener));
    let offer = Qos {
        is_reliable: true,
        representations: vec![0],
        ..Qos::default()
    };
    let writer = near.writer(&topic, &offer).expect("a writer");
    let request = Qos::of_reader_for(&offer, Duration::ZERO);
    let reader = far.reader(&topic, &request, TOKEN, false);
    *taker.reader.lock().expect("no test has failed") = Some(reader.expect("a reader"));
    until(|| {
        std::thread::sleep(MOMENT);
        writer.opposites() == 1
    });
    let write = |number| {
        let written = writer.write(SampleKind::Data, &[0, 1, 0, 0, number], [0; 16]);
        written.expect("there is room");
        writer.flush();
    };
    // It reports what was discovered until that is taken.
    let wait = || {
        far.take_discovered(|_| ());
        far.wait(MOMENT).readers
    };
    for number in [1, 2] {
        taker.takes.store(true, Ordering::SeqCst);
        write(number);
        until(|| {
            std::thread::sleep(MOMENT);
            taker.has_taken(&[number])
        });
        assert!(wait().is_empty());
        // What it leaves is reported until it is taken.
        taker.takes.store(false, Ordering::SeqCst);
        write(number + 10);
        until(|| wait() == [TOKEN]);
        assert_eq!(wait(), [TOKEN]);
        assert!(taker.has_taken(&[number]));
        taker.take();
        assert!(wait().is_empty());
        assert!(taker.has_taken(&[number, number + 10]));
        taker.taken.lock().expect("no test has failed").clear();
    }
    // A reader ends while its listener is there.
    *taker.reader.lock().expect("no test has failed") = None;
}
