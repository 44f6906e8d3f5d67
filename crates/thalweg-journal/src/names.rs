//! Names of the files in a journal's directory.

/// The file that is locked while a process has the directory.
pub const LOCK: &str = "lock";
/// Prefix of segments, before 16 hexadecimal digits.
pub const SEGMENT: &str = "segment-";
/// Prefix of spare files, before a number of their own.
pub const SPARE: &str = "spare-";
/// Suffix of a file that is not finished.
pub const NEW: &str = ".new";

/// The name of segment `number`.
pub fn segment(number: u64) -> String {
    format!("{SEGMENT}{number:016x}")
}

/// The name of spare file `number`.
pub fn spare(number: u64) -> String {
    format!("{SPARE}{number:016x}")
}

/// The number in `name` after `prefix`, if it is written exactly as we write it.
pub fn number_in(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let is_ours = digits.len() == 16
        && digits
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if is_ours {
        u64::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}
