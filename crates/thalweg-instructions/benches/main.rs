//! Operations whose instructions `cargo xtask bench-instructions` counts. `COUNT [PART]` does those with `PART` in their name COUNT
//! and twice COUNT times, and nothing that depends on COUNT otherwise, each time in a process of its own. A line for each: crate,
//! operation, the two processes.
//!
//! *Knows:* the crates that it measures, as their users do. *Must never know:* a socket, a file, a clock. One program for all of
//! them: the linker optimises the kernel once. Start reading at the file of a crate.

mod amqp;
mod coap;
mod fronts;
mod kernel;
mod mqtt;
mod stomp;
mod zmtp;

/// A name and what it does so many times.
type Operation = (&'static str, fn(u32));

const CRATES: [(&str, &[Operation]); 7] = [
    ("thalweg-amqp", amqp::OPERATIONS),
    ("thalweg-coap", coap::OPERATIONS),
    ("thalweg-fronts", fronts::OPERATIONS),
    ("thalweg-kernel", kernel::OPERATIONS),
    ("thalweg-mqtt", mqtt::OPERATIONS),
    ("thalweg-stomp", stomp::OPERATIONS),
    ("thalweg-zmtp", zmtp::OPERATIONS),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (count, part) = match &words[..] {
        [count] => (count, ""),
        [count, part] => (count, part.as_str()),
        _ => panic!("words: COUNT [PART]"),
    };
    let count: u32 = count.parse().expect("COUNT is a number");
    for (krate, operations) in CRATES {
        for (name, operation) in operations.iter().filter(|(name, _)| name.contains(part)) {
            let [once, twice] = [count, 2 * count].map(|count| apart(*operation, count));
            println!("{krate} {name} {once} {twice}");
        }
    }
}

/// Does an operation in a copy of this process, with an allocator that is as new as for the others, and returns its number.
/// Valgrind starts once and keeps what it translated.
fn apart(operation: fn(u32), count: u32) -> i32 {
    let mut status = 0;
    // SAFETY: this process has one thread, so the copy has every lock in a state that this thread knows.
    match unsafe { libc::fork() } {
        0 => {
            operation(count);
            std::process::exit(0);
        }
        child => {
            // SAFETY: `status` outlives the call.
            let ended = unsafe { libc::waitpid(child, &mut status, 0) };
            assert!(ended == child && status == 0, "an operation failed");
            child
        }
    }
}
