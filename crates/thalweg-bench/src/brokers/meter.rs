//! What processes have used, from /proc.

use std::fs;

use super::Usage;

/// What a process and its descendants have used.
pub fn usage(root: u32) -> Usage {
    family(root)
        .into_iter()
        .fold(Usage::default(), |sum, process| {
            let one = of_one(process).unwrap_or_default();
            Usage {
                cpu_s: sum.cpu_s + one.cpu_s,
                rss_kib: sum.rss_kib + one.rss_kib,
                pss_kib: sum.pss_kib + one.pss_kib,
                switches: sum.switches + one.switches,
            }
        })
}

/// Processor seconds of this process and of its descendants, those that have ended too.
pub fn family_cpu_s() -> f64 {
    let all = family(std::process::id()).into_iter();
    all.filter_map(|process| cpu_s(&stat(process)?)).sum()
}

/// User and system time, its own and that of children that have ended.
fn cpu_s(fields: &[String]) -> Option<f64> {
    let ticks = fields.get(10..14)?.iter();
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(ticks / TICKS)
}

/// A process and all that come from it and are still there.
pub fn family(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = processes
        .filter_map(|process| Some((process, stat(process)?.first()?.parse().ok()?)))
        .collect();
    let mut all = vec![root];
    let mut at = 0;
    while let Some(&one) = all.get(at) {
        all.extend(
            parents
                .iter()
                .filter(|(process, parent)| *parent == one && *process != one)
                .map(|(process, _)| *process),
        );
        at += 1;
    }
    all
}

/// When a process was started, in ticks since the machine was: with its number what tells it from all others.
pub fn born(process: u32) -> Option<u64> {
    stat(process)?.get(18)?.parse().ok()
}

fn of_one(process: u32) -> Option<Usage> {
    let cpu_s = cpu_s(&stat(process)?)?;
    let read =
        |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let switches = tasks
        .map(|task| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            number(&status, "voluntary_ctxt_switches:")
                + number(&status, "nonvoluntary_ctxt_switches:")
        })
        .sum();
    Some(Usage {
        cpu_s,
        rss_kib: number(&read("status"), "VmRSS:"),
        pss_kib: memory(&process.to_string()).1,
        switches,
    })
}

/// Resident memory and the proportional share of it of a process, KiB.
pub fn memory(process: &str) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    (number(&text, "Rss:"), number(&text, "Pss:"))
}

/// The fields of /proc/…/stat that follow the state: the first is the parent.
fn stat(process: u32) -> Option<Vec<String>> {
    fields(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

fn fields(line: &str) -> Option<Vec<String>> {
    // The name in parentheses may hold anything.
    let words = line.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some(words.map(str::to_owned).collect())
}

/// The number behind a word at the beginning of a line.
fn number(text: &str, word: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(word));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Clock ticks per second, which Linux has fixed for programs.
const TICKS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn time_and_memory_of_children_count() {
        // A shell that starts a busy one and waits for its input to end.
        let mut child = Command::new("sh")
            .args([
                "-c",
                "sh -c 'while :; do :; done' & busy=$!; read _; kill $busy",
            ])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        let patience = Instant::now() + Duration::from_secs(60);
        let mut used = usage(child.id());
        while used.cpu_s < 0.05 && Instant::now() < patience {
            used = usage(child.id());
        }
        let count = family(child.id()).len();
        drop(child.stdin.take());
        child.wait().expect("it ends");
        assert!(
            used.cpu_s >= 0.05 && used.rss_kib > 100 && used.pss_kib > 0 && used.switches > 0,
            "{used:?}"
        );
        assert_eq!(count, 2);
        assert_eq!(
            usage(child.id()),
            Usage::default(),
            "one that has ended uses nothing"
        );
    }

    #[test]
    fn a_line_of_a_process_with_a_strange_name_is_read() {
        let line = "42 (a b) c)) S 7 42 42 0 -1 4194560 1 0 0 0 10 20 3 4 20 0 1 0 5 6 7";
        let fields = fields(line).expect("a line");
        assert_eq!((fields[0].as_str(), cpu_s(&fields)), ("7", Some(0.37)));
    }

    #[test]
    fn a_process_is_known_by_when_it_was_born() {
        let own = std::process::id();
        assert!(born(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(born(own), born(own));
    }
}
