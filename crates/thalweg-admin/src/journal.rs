//! `GET /v1/journal`, `POST /v1/journal/checkpoint` and `POST /v1/journal/backup`.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;
use thalweg_server::{JournalStatus, Observer};

/// State of the journal.
#[derive(Debug, Serialize)]
pub(crate) struct JournalView {
    state: &'static str,
    written: Written,
    disk: Disk,
    checkpoints: Checkpoints,
    fetched: u64,
    unreadable: u64,
    recovery: Recovery,
}

/// Writes since the start.
#[derive(Debug, Serialize)]
struct Written {
    frames: u64,
    bytes: u64,
    writes: u64,
    syncs: u64,
    sync_seconds: f64,
    sync_seconds_mean: Option<f64>,
    frames_per_write_mean: Option<f64>,
}

/// Disk space of the journal.
#[derive(Debug, Serialize)]
struct Disk {
    bytes_used: u64,
    bytes_spare: u64,
    bytes_limit: u64,
}

/// Checkpoints, which bound the time of the next start.
#[derive(Debug, Serialize)]
struct Checkpoints {
    made: u64,
    seconds: f64,
    last_bytes: u64,
}

/// Results of this start's recovery.
#[derive(Debug, Serialize)]
struct Recovery {
    frames: u64,
    dropped_tail_frames: u64,
    quarantined: u64,
    seconds: f64,
}

impl JournalView {
    pub(crate) fn new(status: &JournalStatus) -> Self {
        let mean = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
        JournalView {
            state: status.state,
            written: Written {
                frames: status.frames,
                bytes: status.bytes,
                writes: status.groups,
                syncs: status.syncs,
                sync_seconds: status.sync_seconds,
                sync_seconds_mean: mean(status.sync_seconds, status.syncs),
                frames_per_write_mean: mean(status.frames as f64, status.groups),
            },
            disk: Disk {
                bytes_used: status.bytes_used,
                bytes_spare: status.bytes_spare,
                bytes_limit: status.bytes_limit,
            },
            checkpoints: Checkpoints {
                made: status.checkpoints,
                seconds: status.checkpoint_seconds,
                last_bytes: status.checkpoint_bytes,
            },
            fetched: status.fetched,
            unreadable: status.unreadable,
            recovery: Recovery {
                frames: status.recovered_frames,
                dropped_tail_frames: status.dropped_tail_frames,
                quarantined: status.quarantined,
                seconds: status.recovery_seconds,
            },
        }
    }
}

pub(crate) async fn show(State(asker): State<Asker>) -> Answer<JournalView> {
    let status = asker.observer().journal().ok_or_else(switched_off)?;
    Ok(Json(JournalView::new(&status)))
}

/// Result of a checkpoint.
#[derive(Debug, Serialize)]
pub(crate) struct Checkpointed {
    done: String,
    seconds: f64,
}

pub(crate) async fn checkpoint(State(asker): State<Asker>) -> Answer<Checkpointed> {
    let begun = Instant::now();
    let done = work(&asker, |observer| {
        let done = observer.checkpoint();
        if let Ok(words) = &done {
            tracing::info!("asked for by an operator: {words}");
        }
        done
    });
    let mend = "the checkpoints before it still count; look at the log and at the disk";
    match done.await? {
        Ok(done) => Ok(Json(Checkpointed {
            done,
            seconds: begun.elapsed().as_secs_f64(),
        })),
        Err(words) => Err(Fault::new(StatusCode::INTERNAL_SERVER_ERROR, words, mend)),
    }
}

/// Where a backup goes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    target: PathBuf,
}

/// Contents of a backup.
#[derive(Debug, Serialize)]
pub(crate) struct BackedUp {
    target: PathBuf,
    index: u64,
    files_linked: u64,
    files_copied: u64,
    bytes_copied: u64,
    sessions: usize,
    subscriptions: usize,
    entries: usize,
    last_values: usize,
    seconds: f64,
}

pub(crate) async fn backup(
    State(asker): State<Asker>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<BackedUp> {
    let target = target_of(body)?;
    let wanted = target.clone();
    let begun = Instant::now();
    let made = work(&asker, move |observer| {
        let made = observer.backup(&wanted);
        // Logged here, because the client may have stopped waiting.
        match &made {
            Ok(backup) => tracing::info!(
                "backup in {} goes to frame {}",
                wanted.display(),
                backup.index
            ),
            Err(words) => tracing::error!("no backup in {}: {words}", wanted.display()),
        }
        made
    });
    let mend = "name a new directory that the broker's user can make, with room, on this machine";
    let made = made
        .await?
        .map_err(|words| Fault::new(StatusCode::CONFLICT, words, mend))?;
    Ok(Json(BackedUp {
        target,
        index: made.index,
        files_linked: made.files_linked,
        files_copied: made.files_copied,
        bytes_copied: made.bytes_copied,
        sessions: made.counts.sessions,
        subscriptions: made.counts.subscriptions,
        entries: made.counts.entries,
        last_values: made.counts.last_values,
        seconds: begun.elapsed().as_secs_f64(),
    }))
}

fn target_of(body: Result<Bytes, BytesRejection>) -> Result<PathBuf, Fault> {
    let mend = "send {\"target\": \"/absolute/path/of/a/new/directory\"}";
    let body =
        body.map_err(|rejection| Fault::new(rejection.status(), rejection.body_text(), mend))?;
    let order = serde_json::from_slice::<Order>(&body);
    let Order { target } = order
        .map_err(|error| Fault::bad(format!("the body does not name a target: {error}"), mend))?;
    // The caller's current directory is not the broker's.
    match target.is_absolute() {
        true => Ok(target),
        false => Err(Fault::bad(
            format!("{} is not an absolute path", target.display()),
            mend,
        )),
    }
}

/// Does what takes long and waits for the disk on a thread of its own. It goes on if the client stops waiting.
async fn work<T: Send + 'static>(
    asker: &Asker,
    f: impl FnOnce(&Observer) -> T + Send + 'static,
) -> Result<T, Fault> {
    let observer = asker.observer().clone();
    if observer.journal().is_none() {
        return Err(switched_off());
    }
    tokio::task::spawn_blocking(move || f(&observer))
        .await
        .map_err(|_| Fault::stopping())
}

fn switched_off() -> Fault {
    let mend = "set journal.enabled = true and restart the broker";
    Fault::new(
        StatusCode::CONFLICT,
        "there is no journal: it is switched off",
        mend,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_absolute_path_and_nothing_else() {
        let target = |body: &'static str| target_of(Ok(Bytes::from_static(body.as_bytes()))).ok();
        assert_eq!(
            target(r#"{"target":"/srv/backup"}"#),
            Some("/srv/backup".into())
        );
        assert_eq!(target(r#"{"target":"backup"}"#), None);
        assert_eq!(target(r#"{"target":"/a","other":1}"#), None);
        assert_eq!(target(""), None);
    }

    #[test]
    fn means_are_left_out_before_there_is_anything_to_divide_by() {
        let view = JournalView::new(&JournalStatus::default());
        assert_eq!(
            (
                view.written.sync_seconds_mean,
                view.written.frames_per_write_mean
            ),
            (None, None)
        );
        let status = JournalStatus {
            frames: 6,
            groups: 2,
            ..JournalStatus::default()
        };
        assert_eq!(
            JournalView::new(&status).written.frames_per_write_mean,
            Some(3.0)
        );
    }
}
