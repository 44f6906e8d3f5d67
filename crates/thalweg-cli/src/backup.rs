//! `thalweg backup` and `thalweg restore`: copies of a journal, made from a running broker or a stopped one.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use thalweg_server::JOURNAL_FOLDER;
use thalweg_store::{Options, OsDisk, Verified, backup};

use crate::admin_api::{AdminApi, number};
use crate::cli::{BackupArgs, RestoreArgs};
use crate::failure::Failure;
use crate::inspect::journal_in;

/// Runs `thalweg backup`; what it made goes to `out`.
pub fn run(args: &BackupArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let target = std::path::absolute(&args.target).map_err(|error| {
        Failure::usage(format!("{} is no path: {error}", args.target.display()))
    })?;
    let made = match &args.data {
        Some(data) => of_stopped(data, &target)?,
        None => of_running(args, &target)?,
    };
    writeln!(
        out,
        "{} goes to frame {} and holds:",
        target.display(),
        made.index
    )?;
    let Made {
        sessions,
        subscriptions,
        entries,
        last_values,
        linked,
        copied,
        bytes,
        ..
    } = made;
    writeln!(
        out,
        "  {sessions} sessions, {subscriptions} subscriptions, {entries} messages queued or in flight,"
    )?;
    writeln!(
        out,
        "  {last_values} retained messages; {linked} files linked, {copied} copied ({bytes} bytes)"
    )?;
    Ok(out.flush()?)
}

/// What a backup has.
struct Made {
    index: f64,
    sessions: f64,
    subscriptions: f64,
    entries: f64,
    last_values: f64,
    linked: f64,
    copied: f64,
    bytes: f64,
}

fn of_running(args: &BackupArgs, target: &Path) -> Result<Made, Failure> {
    let api = AdminApi::new(&args.admin)?;
    let answer = api.post("/v1/journal/backup", &json!({ "target": target }), PATIENCE)?;
    let get = |name| number(&answer, name);
    Ok(Made {
        index: get("index"),
        sessions: get("sessions"),
        subscriptions: get("subscriptions"),
        entries: get("entries"),
        last_values: get("last_values"),
        linked: get("files_linked"),
        copied: get("files_copied"),
        bytes: get("bytes_copied"),
    })
}

fn of_stopped(data: &Path, target: &Path) -> Result<Made, Failure> {
    let made = backup::backup_stopped(existing(data)?, &new(target)?, Options::default()).map_err(
        |error| {
            Failure::new(error.to_string())
                .mend("A running broker makes its backup itself: leave --data out")
        },
    )?;
    Ok(Made {
        index: made.index as f64,
        sessions: made.counts.sessions as f64,
        subscriptions: made.counts.subscriptions as f64,
        entries: made.counts.entries as f64,
        last_values: made.counts.last_values as f64,
        linked: made.files_linked as f64,
        copied: made.files_copied as f64,
        bytes: made.bytes_copied as f64,
    })
}

/// Runs `thalweg restore`; what it copied and found goes to `out`.
pub fn restore(args: &RestoreArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let source = existing(&args.source)?;
    let target = args.data_dir.join(JOURNAL_FOLDER);
    let restored = backup::restore(&source, &new(&target)?, Options::default(), args.verify)
        .map_err(|error| Failure::new(error.to_string()))?;
    writeln!(
        out,
        "{} files ({} bytes) are in {}",
        restored.files,
        restored.bytes,
        target.display()
    )?;
    match &restored.verified {
        Some(verified) => report(verified, out)?,
        None => writeln!(
            out,
            "nothing was read; --verify reads everything, as a broker would"
        )?,
    }
    Ok(out.flush()?)
}

fn report(verified: &Verified, out: &mut dyn Write) -> Result<(), Failure> {
    let Verified {
        index,
        frames,
        counts,
        messages,
        bytes,
        unreadable,
        faults,
    } = verified;
    writeln!(
        out,
        "read to frame {index}, {frames} of them behind the checkpoint:"
    )?;
    writeln!(
        out,
        "  {} sessions, {} subscriptions, {} messages queued or in flight, {} retained messages",
        counts.sessions, counts.subscriptions, counts.entries, counts.last_values
    )?;
    writeln!(
        out,
        "  {messages} messages of {bytes} bytes were read, {unreadable} could not be"
    )?;
    for fault in faults {
        writeln!(out, "  {fault}")?;
    }
    out.flush()?;
    match unreadable {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{unreadable} messages cannot be read"))
            .mend("Restore an older backup, or start with `thalweg serve --repair` to go on without them")),
    }
}

/// The journal at `path`, which must be there: opening must not make one.
fn existing(path: &Path) -> Result<OsDisk, Failure> {
    let folder = journal_in(path);
    if !folder.is_dir() {
        return Err(Failure::usage(format!(
            "{} is not a directory",
            folder.display()
        )));
    }
    OsDisk::at(&folder)
        .map_err(|error| Failure::new(format!("{} cannot be read: {error}", folder.display())))
}

/// A directory to write to, made if it is not there. The store refuses one that has anything in it.
fn new(path: &Path) -> Result<OsDisk, Failure> {
    OsDisk::at(path)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", path.display())))
}

/// Longer than the broker works on it while somebody waits.
const PATIENCE: Duration = Duration::from_secs(270);
