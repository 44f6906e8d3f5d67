//! `thalweg inspect`: what is in the files of a journal. Reads only, also while a broker writes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use thalweg_store::inspect::inspect;
use thalweg_store::names;

use crate::cli::InspectArgs;
use crate::failure::Failure;

/// Runs the command; what the files hold goes to `out`.
pub fn run(args: &InspectArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let damages = match args.path.is_dir() {
        true => directory(&journal_in(&args.path), args.records, out)?,
        false => file(&args.path, args.records, out)?,
    };
    out.flush()?;
    match damages {
        0 => Ok(()),
        1 => Err(Failure::new("one place is damaged")),
        many => Err(Failure::new(format!("{many} places are damaged"))),
    }
    .map_err(|failure| {
        failure.mend("docs/journal.md says what damage means and what to do about it")
    })
}

/// The folder of the journal: `path` itself, or its folder `journal` if it is a broker's data directory.
pub fn journal_in(path: &Path) -> PathBuf {
    let inner = path.join(thalweg_server::JOURNAL_FOLDER);
    if inner.is_dir() {
        inner
    } else {
        path.to_owned()
    }
}

fn directory(folder: &Path, records: bool, out: &mut dyn Write) -> Result<u64, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(format!("{} cannot be read: {error}", folder.display()))
    };
    let mut known = Vec::new();
    let (mut spares, mut spare_bytes, mut others) = (0, 0, Vec::new());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if [names::CHECKPOINT, names::PACK, names::SEGMENT]
            .iter()
            .any(|kind| names::number_in(&name, kind).is_some())
        {
            known.push(name);
        } else if names::number_in(&name, names::SPARE).is_some() {
            spares += 1;
            spare_bytes += entry.metadata().map_or(0, |about| about.len());
        } else if name != names::LOCK {
            others.push(name);
        }
    }
    // Checkpoints, packs, segments: as a start reads them.
    known.sort();
    let mut damages = 0;
    for (number, name) in known.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{name}")?;
        damages += file(&folder.join(name), records, out)?;
    }
    if known.is_empty() {
        let mend = "Name a journal's folder, a broker's data_dir, or one file";
        return Err(
            Failure::new(format!("{} has no files of a journal", folder.display())).mend(mend),
        );
    }
    if spares > 0 {
        writeln!(
            out,
            "\n{spares} files of {spare_bytes} bytes in all are kept ready for coming segments"
        )?;
    }
    others.sort();
    for name in others {
        writeln!(out, "{name} is no file of a journal")?;
    }
    Ok(damages)
}

/// How many damaged places the file has.
fn file(path: &Path, records: bool, out: &mut dyn Write) -> Result<u64, Failure> {
    let file = File::open(path)
        .map_err(|error| Failure::new(format!("{} cannot be read: {error}", path.display())))?;
    Ok(inspect(&file, records, out)?.damages)
}
