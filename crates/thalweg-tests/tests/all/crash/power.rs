//! Power cuts: the broker's data is on an ext4 file system in a file, and a copy of that file at a random moment is all
//! that remains.
//!
//! By default nothing acknowledged may be lost. With `fsync = never` it must be, or the test proves nothing.

use std::time::{Duration, Instant};

use super::book::Wrong;
use super::disk::Disk;
use super::process::Home;
use super::supervisor::{End, Way};
use super::{Cast, UNSAFE, Verdict, cast, oracle, run_with};

const IMAGE_MEBIBYTES: u32 = 512;
const SHORT_CUTS: u32 = 6;

/// A control that lost nothing after so many has failed.
const CONTROL_CUTS: u32 = 5;

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let Some(verdict) = cuts("power", 4, End::AfterKills(SHORT_CUTS), &[], cast::few) else {
        return;
    };
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn a_power_cut_loses_acknowledged_messages_without_fsync() {
    let Some(verdict) = control("no-fsync", 5) else {
        return;
    };
    assert!(
        verdict.book.count(Wrong::Lost) > 0,
        "nothing was lost, so this would not have seen it:\n{}",
        verdict.text
    );
}

#[test]
#[ignore = "takes minutes: cargo xtask soak power-cuts"]
fn for_minutes() {
    let (seconds, seed) = super::asked_for();
    let end = End::At(Instant::now() + Duration::from_secs(seconds));
    let verdict =
        cuts("power-long", seed, end, &[], cast::few).expect("this machine can mount an image");
    println!("{}", verdict.text);
    assert!(
        verdict.book.counted().is_empty(),
        "the run with seed {seed} found the above"
    );
    let control = control("power-control", seed).expect("this machine can mount an image");
    println!("the control, {UNSAFE:?}: {:?}", control.book.counted());
    assert!(
        control.book.count(Wrong::Lost) > 0,
        "the control lost nothing, so nothing is shown"
    );
}

fn control(name: &str, seed: u64) -> Option<Verdict> {
    cuts(
        name,
        seed,
        End::AfterKills(CONTROL_CUTS),
        &UNSAFE,
        cast::messages_only,
    )
}

fn cuts(name: &str, seed: u64, end: End, sets: &[&str], cast: Cast) -> Option<Verdict> {
    if oracle() {
        return None;
    }
    let home = Home::new(name);
    let disk = match Disk::image(&home, IMAGE_MEBIBYTES) {
        Ok(disk) => disk,
        Err(why) => {
            println!("SKIPPED {name}: no image can be mounted here: {why}");
            return None;
        }
    };
    let home = home.on(disk.path().join("data"));
    let home = sets.iter().fold(home, |home, set| home.set(set));
    Some(run_with(home, seed, Way::Cut(Box::new(disk)), end, cast))
}
