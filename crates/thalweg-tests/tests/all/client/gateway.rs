//! The minimal gateway of `examples/gateway`: its size and its memory.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::broker::Broker;

/// Of the stripped program.
const PROGRAM_BYTES_MAX: u64 = 3 << 19;
/// Of its memory, after 1,000 messages.
const MEMORY_KIB_MAX: u64 = 6 << 10;

mod interop {
    use super::*;

    #[test]
    #[ignore = "builds a release: cargo xtask interop"]
    fn the_minimal_gateway_is_small_and_needs_little() {
        let Some(broker) = Broker::with().coap().start_for_queues() else {
            return;
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gateway");
        let target = std::env::var_os("THALWEG_GATEWAY_TARGET")
            .map_or_else(|| folder.join("target"), Into::into);
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--release", "--target-dir"])
            .arg(&target)
            .current_dir(&folder)
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the gateway does not build");
        let program = target.join("release/thalweg-gateway");
        let bytes = std::fs::metadata(&program).expect("it was built").len();
        assert!(
            bytes <= PROGRAM_BYTES_MAX,
            "{bytes} bytes of program, at most {PROGRAM_BYTES_MAX}"
        );

        let urls = [
            format!("mqtt://{}", broker.mqtt()),
            format!("coap://{}", broker.coap()),
        ];
        for urls in [&urls[..], &urls[..1], &urls[1..]] {
            let mut gateway = Command::new(&program)
                .args(urls)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("it was built");
            let mut readings = gateway.stdin.take().expect("piped");
            for number in 0..1_000 {
                writeln!(readings, "plant/{}/temperature {number}", number % 10).expect("it reads");
            }
            drop(readings);
            let output = gateway.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{said}");
            let number_behind = |word: &str| -> u64 {
                let mut words = said
                    .split_whitespace()
                    .skip_while(|found| *found != word)
                    .skip(1);
                words
                    .next()
                    .and_then(|number| number.parse().ok())
                    .unwrap_or_else(|| panic!("no {word}: {said}"))
            };
            assert_eq!(
                (number_behind("acknowledged"), number_behind("failed")),
                (1_000, 0),
                "{said}"
            );
            let memory = number_behind("memory");
            assert!(
                memory <= MEMORY_KIB_MAX,
                "{memory} KiB of memory, at most {MEMORY_KIB_MAX}: {said}"
            );
            println!("{urls:?}: {bytes} bytes of program, {memory} KiB of memory");
        }
    }
}
