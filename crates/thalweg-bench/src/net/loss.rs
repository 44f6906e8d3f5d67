//! Loss by the kernel: nftables drops packets at random in the forward chain of the namespace between.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::space::Space;
use super::tools::run;
use super::units::Loss;

/// Packets that came into the link from one side, and those of them that were lost there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub came: u64,
    pub lost: u64,
}

/// Makes counters and a chain without rules, in `space`, then loses nothing.
pub fn prepare(space: &Space) -> io::Result<()> {
    let mut text = format!("add table {TABLE}\n");
    for side in SIDES {
        for what in ["came", "lost"] {
            text.push_str(&format!("add counter {TABLE} {side}_{what}\n"));
        }
    }
    text.push_str(&format!(
        "add chain {TABLE} link {{ type filter hook forward priority 0; }}\n"
    ));
    nft(space, &["-f", "-"], &text)?;
    set(space, Loss::NONE)
}

/// Changes the loss of both directions. nftables takes a file whole or not at all, so there is no moment between.
pub fn set(space: &Space, loss: Loss) -> io::Result<()> {
    let mut text = format!("flush chain {TABLE} link\n");
    for side in SIDES {
        text.push_str(&format!(
            "add rule {TABLE} link iifname \"{side}\" counter name {side}_came\n"
        ));
        if loss > Loss::NONE {
            let count = loss.as_millionths();
            text.push_str(&format!(
                "add rule {TABLE} link iifname \"{side}\" numgen random mod 1000000 < {count} counter name {side}_lost drop\n"
            ));
        }
    }
    nft(space, &["-f", "-"], &text).map(drop)
}

/// What came from the client's side and from the broker's.
pub fn tallies(space: &Space) -> io::Result<[Tally; 2]> {
    let listed: Value = serde_json::from_str(&nft(space, &["-j", "list", "counters"], "")?)?;
    let packets = |name: &str| {
        let entries = listed["nftables"].as_array().into_iter().flatten();
        let mut counters = entries.map(|entry| &entry["counter"]);
        counters
            .find(|counter| counter["name"] == name)
            .and_then(|counter| counter["packets"].as_u64())
            .unwrap_or(0)
    };
    Ok(SIDES.map(|side| Tally {
        came: packets(&format!("{side}_came")),
        lost: packets(&format!("{side}_lost")),
    }))
}

fn nft(space: &Space, arguments: &[&str], input: &str) -> io::Result<String> {
    // Not through `ip netns exec`: that mounts /sys anew each time, and this is done while something is measured.
    space.within(|| run("nft", arguments, input))
}

const TABLE: &str = "inet thalweg";
/// The devices of the namespace between, by whom they lead to.
pub const SIDES: [&str; 2] = ["ep", "br"];
