//! The password file: one `user:hash` per line, as `mosquitto_passwd` and `thalweg passwd` write it.
//!
//! A line that is blank or begins with `#` says nothing. A user has at most one line with a password hash and at most
//! one with a SCRAM verifier; [`PasswordHash`] lists the forms. Editing keeps every other line as it is, byte for byte.

use super::password_hash::fill_random;
use super::{AccessError, PasswordHash};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thalweg_scram::{ITERATIONS_MIN, ScramHash, ScramVerifier};

pub use super::password_hash::hash_password;

/// A password file, read and checked.
#[derive(Debug, Default)]
pub struct PasswordFile {
    entries: Vec<Entry>,
    /// Where each user's entry is.
    places: HashMap<Box<str>, usize>,
    /// Which entries have a SCRAM verifier, in order.
    with_scram: Vec<usize>,
}

#[derive(Debug, Default)]
struct Entry {
    password: Option<PasswordHash>,
    scram: Option<PasswordHash>,
}

impl PasswordFile {
    pub fn read(path: &Path) -> Result<Self, Vec<AccessError>> {
        Self::parse(&read_text(path).map_err(|error| vec![error])?, path)
    }

    /// Reads a file's text; `path` is only named in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Vec<AccessError>> {
        let (mut file, mut errors) = (PasswordFile::default(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            if let Err((problem, mend)) = file.take_line(line) {
                errors.push(AccessError::line(path, index + 1, problem, mend));
            }
        }
        match errors.is_empty() {
            true => {
                let has_scram = |place: &usize| {
                    file.entries
                        .get(*place)
                        .is_some_and(|entry| entry.scram.is_some())
                };
                file.with_scram = (0..file.entries.len()).filter(has_scram).collect();
                Ok(file)
            }
            false => Err(errors),
        }
    }

    /// Whether `password` is `user`'s. Takes as long for a user who is not in the file: then it is compared with the
    /// hash of some user who is, always the same one for the same name, so that even a file that mixes cheap and dear
    /// hashes does not tell who is in it. `secret` chooses, unseen.
    pub fn verify(&self, secret: &[u8; 32], user: &str, password: &[u8]) -> bool {
        let (known, entry) = match self.places.get(user) {
            Some(place) => (true, self.entries.get(*place)),
            None => (false, self.decoy(secret, user)),
        };
        let hash = entry.and_then(|entry| entry.password.as_ref().or(entry.scram.as_ref()));
        // The comparison comes first: `known` must not shorten the work.
        hash.is_some_and(|hash| hash.verify(password)) && known
    }

    /// The user's SCRAM verifier, or a fake one if there is none. The fake looks like a real one out of the file.
    pub fn scram_verifier(&self, secret: &[u8; 32], user: &str) -> ScramVerifier {
        let fake = ScramVerifier::fake(secret, user, self.scram_decoy(secret, user));
        let entry = self
            .places
            .get(user)
            .and_then(|place| self.entries.get(*place));
        entry
            .and_then(|entry| entry.scram.as_ref()?.scram().cloned())
            .unwrap_or(fake)
    }

    /// Whether the user is in the file.
    pub fn contains(&self, user: &str) -> bool {
        self.places.contains_key(user)
    }

    /// How many users there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn take_line(&mut self, line: &str) -> Result<(), (String, String)> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let Some((user, stored)) = line.split_once(':') else {
            return Err((
                "there is no \":\"".into(),
                "write user:hash, or use `thalweg passwd FILE USER`".into(),
            ));
        };
        let user = user.trim();
        if let Some(problem) = user_name_problem(user) {
            return Err((problem.into(), "rename the user or remove the line".into()));
        }
        let mend = || format!("set it again with `thalweg passwd FILE {user}`");
        let hash = PasswordHash::parse(stored.trim()).map_err(|problem| (problem, mend()))?;
        let place = *self.places.entry(user.into()).or_insert_with(|| {
            self.entries.push(Entry::default());
            self.entries.len() - 1
        });
        // The place was handed out above and entries are never removed.
        let entry = &mut self.entries[place];
        let slot = if hash.scram().is_some() {
            &mut entry.scram
        } else {
            &mut entry.password
        };
        match slot.replace(hash) {
            Some(_) => Err((
                format!("user \"{user}\" has two of these lines"),
                "remove the one that is old".into(),
            )),
            None => Ok(()),
        }
    }

    /// Whom an unknown name is compared with instead.
    fn decoy(&self, secret: &[u8; 32], user: &str) -> Option<&Entry> {
        self.entries.get(pick(secret, user, self.entries.len())?)
    }

    fn scram_decoy(&self, secret: &[u8; 32], user: &str) -> Option<&ScramVerifier> {
        let place = self
            .with_scram
            .get(pick(secret, user, self.with_scram.len())?)?;
        self.entries.get(*place)?.scram.as_ref()?.scram()
    }
}

/// Sets a user's password, in a file that is made if it does not exist. True: the user had one before.
pub fn add_password(path: &Path, user: &str, password: &[u8]) -> Result<bool, AccessError> {
    let hash = hash_password(password)
        .map_err(|error| AccessError::file(path, error.to_string(), "try again"))?;
    put_line(path, user, &hash, |stored| {
        !stored.starts_with(ScramVerifier::PREFIX)
    })
}

/// Sets a user's SCRAM verifier, likewise. True: the user had one before.
pub fn add_scram_verifier(path: &Path, user: &str, password: &[u8]) -> Result<bool, AccessError> {
    let mut salt = [0; 16];
    fill_random(&mut salt)
        .map_err(|error| AccessError::file(path, error.to_string(), "try again"))?;
    let verifier =
        ScramVerifier::derive(ScramHash::Sha256, password, &salt, ITERATIONS_MIN).to_string();
    put_line(path, user, &verifier, |stored| {
        stored.starts_with(ScramVerifier::PREFIX)
    })
}

/// Removes all lines of a user. False: there were none.
pub fn delete_user(path: &Path, user: &str) -> Result<bool, AccessError> {
    let text = read_text(path)?;
    let kept: String = text
        .split_inclusive('\n')
        .filter(|line| stored_of(line, user).is_none())
        .collect();
    if kept.len() == text.len() {
        return Ok(false);
    }
    replace_file(path, &kept)?;
    Ok(true)
}

/// Why a name cannot stand in a password file, if it cannot.
pub fn user_name_problem(user: &str) -> Option<&'static str> {
    if user.is_empty() {
        Some("the user name is empty")
    } else if user.contains(':') {
        Some("the user name contains \":\"")
    } else if user.starts_with('#') {
        Some("the user name begins with \"#\", which marks a comment")
    } else if user.chars().any(char::is_control) {
        Some("the user name contains a control character")
    } else if user.trim() != user {
        Some("the user name begins or ends with a space")
    } else if user.len() > USER_BYTES_LIMIT {
        Some("the user name is longer than 65,535 bytes")
    } else {
        None
    }
}

/// Replaces the user's line of one kind in place, or appends it.
fn put_line(
    path: &Path,
    user: &str,
    stored: &str,
    same_kind: fn(&str) -> bool,
) -> Result<bool, AccessError> {
    if let Some(problem) = user_name_problem(user) {
        return Err(AccessError::file(path, problem, "choose another user name"));
    }
    let text = match path.exists() {
        true => read_text(path)?,
        false => String::new(),
    };
    let line = format!("{user}:{stored}\n");
    let (mut edited, mut replaced) = (String::with_capacity(text.len() + line.len()), false);
    for old in text.split_inclusive('\n') {
        match stored_of(old, user).is_some_and(same_kind) {
            // A second line of the same kind is an error to readers; setting the password mends it.
            true if replaced => {}
            true => {
                edited.push_str(&line);
                replaced = true;
            }
            false => edited.push_str(old),
        }
    }
    if !replaced {
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push('\n');
        }
        edited.push_str(&line);
    }
    replace_file(path, &edited)?;
    Ok(replaced)
}

/// What stands behind `user:` if this is one of the user's lines.
fn stored_of<'a>(line: &'a str, user: &str) -> Option<&'a str> {
    let line = line.trim();
    let (name, stored) = line.split_once(':')?;
    (!line.starts_with('#') && name.trim() == user).then(|| stored.trim())
}

pub(super) fn read_text(path: &Path) -> Result<String, AccessError> {
    let bytes = fs::read(path).map_err(|error| {
        AccessError::file(
            path,
            format!("cannot be read: {error}"),
            "check the path and who may read it",
        )
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error
            .as_bytes()
            .iter()
            .take(valid)
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        AccessError::line(path, line, "this is not UTF-8", "save the file as UTF-8")
    })
}

/// Writes a new file beside the old one and renames it: a reader sees the old text or the new, never a part.
pub(super) fn replace_file(path: &Path, text: &str) -> Result<(), AccessError> {
    // Renaming over a symbolic link would replace the link; what it points to is meant.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    write_and_rename(&target, text).map_err(|error| {
        AccessError::file(
            path,
            format!("cannot be written: {error}"),
            "check who may write to the file's folder",
        )
    })
}

fn write_and_rename(target: &Path, text: &str) -> io::Result<()> {
    let mut suffix = [0; 8];
    fill_random(&mut suffix)?;
    let mut name = target
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_os_string();
    name.push(format!(".{:016x}.new", u64::from_be_bytes(suffix)));
    let temporary = Temporary(target.with_file_name(name));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary.0)?;
    if let Ok(old) = fs::metadata(target) {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            // Only root may give a file away; for others the owner is the same already.
            let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
        }
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary.0, target)?;
    // The rename itself must survive a power loss too; file systems that cannot sync a folder are left alone.
    if let Some(folder) = target.parent() {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// A file that is gone afterwards, unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A choice among `count` that is the same for the same name and cannot be foretold without the secret.
fn pick(secret: &[u8; 32], user: &str, count: usize) -> Option<usize> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret)
        .expect("HMAC takes keys of any length (RFC 2104 §2)");
    mac.update(b"decoy");
    mac.update(user.as_bytes());
    let digest: [u8; 32] = mac.finalize().into_bytes().into();
    let number = digest
        .iter()
        .take(8)
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    number.checked_rem(count as u64).map(|index| index as usize)
}

/// MQTT's own limit of a string.
const USER_BYTES_LIMIT: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const SECRET: [u8; 32] = [5; 32];

    /// Lines 3 to 5 were made once with `mosquitto_passwd` 2.0.11.
    const MIXED: &str = "\
# people

alice:$7$101$s8tBNlcCb1oR0ol7$4N9eqYgSXkQJWl/DKS/XHK6z3pZpP9ziluJgqOFk4FwNS+rwjXHtz036sa153GDV53M0joOIP5zt/WcSQW3+fQ==
bob:$7$101$6nAWvMB1YQSwSRw1$qXIH1R+NXtnm46tVzOZlgp9vIklYjrjVlkNGBDClyAR/UaN+n+Erp2I4kagSiAZ/9hLGp2GDNs6R4myJ6bpwmg==\r
 carol :$6$rsZ13T8sfB4kmiu6$EHp8he1qYgYrB6ttPR4WiLGrAWXZOJJn19CJg1k3NgZjJPx5SlxPFU018sqcWx9M6vUy9du0hFG696c4HpcPVw==
alice:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=
dora:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=
";

    fn mixed() -> PasswordFile {
        PasswordFile::parse(MIXED, Path::new("passwords")).expect("legal")
    }

    #[test]
    fn a_file_of_mosquitto_with_lines_of_ours_is_read() {
        let file = mixed();
        let table = [
            ("alice", "correct horse", true),
            ("alice", "pencil", false), // her SCRAM line is for SCRAM; the password hash is what counts
            ("bob", "pässwörd:mit$", true),
            ("carol", "salted6", true),
            ("dora", "pencil", true), // a user with nothing but a verifier can send the password too
            ("dora", "pencils", false),
            ("nobody", "correct horse", false),
            ("", "", false),
        ];
        for (user, password, expected) in table {
            assert_eq!(
                file.verify(&SECRET, user, password.as_bytes()),
                expected,
                "{user} {password}"
            );
        }
        assert_eq!(file.len(), 4);
    }

    #[test]
    fn an_unknown_user_never_gets_in_with_the_decoys_password() {
        let file = mixed();
        for number in 0..40 {
            for password in ["correct horse", "pässwörd:mit$", "salted6"] {
                assert!(!file.verify(&SECRET, &format!("nobody{number}"), password.as_bytes()));
            }
        }
    }

    #[test]
    fn every_unknown_user_is_compared_with_somebody() {
        let file = mixed();
        let mut seen = [false; 4];
        for number in 0..100 {
            seen[pick(&SECRET, &format!("nobody{number}"), file.len()).expect("not empty")] = true;
        }
        assert_eq!(seen, [true; 4]);
        assert_eq!(pick(&SECRET, "nobody", 0), None);
    }

    #[test]
    fn scram_verifiers_are_real_for_those_who_have_one_and_fake_for_the_rest() {
        let file = mixed();
        assert!(file.scram_verifier(&SECRET, "alice").verify(b"pencil"));
        for user in ["bob", "nobody"] {
            let fake = file.scram_verifier(&SECRET, user);
            assert!(!fake.verify(b"pencil"));
            assert_eq!(fake, file.scram_verifier(&SECRET, user));
        }
    }

    #[test]
    fn every_fault_is_reported_with_its_line() {
        let text = "ok:$6$AAAA$bad\n\nno colon\n:$6$x\ncarol:plain\n# fine\n";
        let errors = PasswordFile::parse(text, Path::new("pw")).expect_err("faulty");
        let lines: Vec<_> = errors.iter().filter_map(|error| error.line).collect();
        assert_eq!(lines, [1, 3, 4, 5]);
        assert_eq!(
            errors[1].to_string(),
            "pw:3: there is no \":\"; write user:hash, or use `thalweg passwd FILE USER`"
        );
        let twice = format!(
            "{MIXED}alice:$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA\n"
        );
        let errors = PasswordFile::parse(&twice, Path::new("pw")).expect_err("faulty");
        assert!(
            errors[0].problem.contains("two of these lines"),
            "{errors:?}"
        );
        assert_eq!(errors[0].line, Some(8));
    }

    #[test]
    fn editing_keeps_every_other_line_as_it_is() {
        let folder = Folder::new();
        let path = folder.0.join("passwords");
        fs::write(&path, MIXED).expect("written");
        assert_eq!(add_password(&path, "bob", b"new"), Ok(true));
        assert_eq!(add_password(&path, "eve", b"evening"), Ok(false));
        assert_eq!(add_scram_verifier(&path, "eve", b"scrammed"), Ok(false));
        let text = fs::read_to_string(&path).expect("read");
        let (old, new): (Vec<_>, Vec<_>) =
            (MIXED.split('\n').collect(), text.split('\n').collect());
        assert_eq!(new.len(), old.len() + 2);
        for (index, line) in old
            .iter()
            .enumerate()
            .filter(|(index, line)| *index != 3 && !line.is_empty())
        {
            assert_eq!(new[index], *line);
        }
        let file = PasswordFile::read(&path).expect("legal");
        assert!(file.verify(&SECRET, "bob", b"new") && file.verify(&SECRET, "eve", b"evening"));
        assert!(file.scram_verifier(&SECRET, "eve").verify(b"scrammed"));
        assert!(file.verify(&SECRET, "alice", b"correct horse"));
        assert_eq!(delete_user(&path, "eve"), Ok(true));
        assert_eq!(delete_user(&path, "eve"), Ok(false));
        assert!(!PasswordFile::read(&path).expect("legal").contains("eve"));
        assert_eq!(
            fs::read_dir(&folder.0).expect("listed").count(),
            1,
            "no temporary file stays behind"
        );
    }

    #[test]
    fn a_new_file_is_for_its_owner_only_and_an_old_one_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new();
        let path = folder.0.join("passwords");
        let mode = || fs::metadata(&path).expect("exists").permissions().mode() & 0o777;
        assert_eq!(add_scram_verifier(&path, "eve", b"x"), Ok(false));
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        assert_eq!(add_scram_verifier(&path, "eve", b"y"), Ok(true));
        assert_eq!(mode(), 0o640);
        assert!(add_password(&path, "a:b", b"x").is_err());
        assert!(delete_user(&folder.0.join("absent"), "eve").is_err());
    }

    /// A folder of one test's own.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir()
                .join(format!("thalweg-passwords-{}-{number}", std::process::id()));
            fs::create_dir_all(&path).expect("made");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
