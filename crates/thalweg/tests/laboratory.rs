//! `thalweg bench` starts another program.

use std::path::Path;
use std::process::Command;

#[test]
fn the_laboratory_beside_the_broker_is_started_and_how_to_get_it_is_said_otherwise() {
    let folder = std::env::temp_dir().join(format!("thalweg-laboratory-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let (program, laboratory) = (folder.join("thalweg"), folder.join("thalweg-bench"));
    // Files that are to be run are written by another process: none that is forked here has them open.
    let make = |script: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-ec", script])
            .arg(Path::new(env!("CARGO_BIN_EXE_thalweg")))
            .args([&program, &laboratory]);
        assert!(sh.status().expect("sh runs").success(), "{script}");
    };
    let run = || {
        let mut bench = Command::new(&program);
        bench
            .args(["bench", "suite", "--help"])
            .env("PATH", "/nowhere");
        let output = bench.env_remove("THALWEG_BIN").output();
        output.expect("the broker's binary runs")
    };
    make(r#"cp "$0" "$1""#);
    let alone = run();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(2), "{said}");
    assert!(
        said.contains("cargo build --release -p thalweg-bench"),
        "{said}"
    );
    make(r#"printf '#!/bin/sh\necho $* of $THALWEG_BIN; exit 3' > "$2"; chmod +x "$2""#);
    let both = run();
    assert_eq!(both.status.code(), Some(3));
    assert_eq!(
        String::from_utf8_lossy(&both.stdout),
        format!("suite --help of {}\n", program.display())
    );
    std::fs::remove_dir_all(&folder).expect("ours");
}
