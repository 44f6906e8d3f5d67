//! Operations whose instructions `cargo xtask bench-instructions` counts. Without words it names them, a crate and an operation on
//! each line; `CRATE NAME COUNT` does one COUNT times, and nothing that depends on COUNT otherwise.
//!
//! *Knows:* the crates that it measures, as their users do. *Must never know:* a socket, a file, a clock. One program for all of
//! them: the linker optimises the kernel once. Start reading at the file of a crate.
#![forbid(unsafe_code)]

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
    let wanted = match &words[..] {
        [krate, name, count] => count.parse().ok().map(|count| (krate, name, count)),
        _ => None,
    };
    for (krate, (name, operation)) in CRATES
        .iter()
        .flat_map(|(krate, all)| all.iter().map(move |it| (*krate, *it)))
    {
        match &wanted {
            None => println!("{krate} {name}"),
            Some((its, it, count)) if *its == krate && *it == name => operation(*count),
            Some(_) => {}
        }
    }
}
