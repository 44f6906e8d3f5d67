//! What the listeners of all shards share: keys and certificate, read from files and read again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ring::rand::{SecureRandom, SystemRandom};

use super::super::tls::{TlsFault, TlsFiles};
use super::certificate::ServerCertificate;
use super::keys::PskTable;
use crate::access::AccessError;

/// Where a DTLS listener finds what peers are known by. At least one of the two is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DtlsFiles {
    /// The key file, see [`PskTable`].
    pub keys: Option<PathBuf>,
    /// Least bytes of a key: with a suite without key exchange, whoever records a handshake can try keys offline.
    pub key_bytes_min: usize,
    /// What clients are told to choose their identity by (RFC 4279 §5.2); empty: nothing. No secret.
    pub identity_hint: String,
    /// Certificate, key and authorities, the same as a TLS listener's.
    pub certificate: Option<TlsFiles>,
}

/// Keys and certificate of DTLS listeners, and their reload.
pub struct DtlsAcceptor {
    files: DtlsFiles,
    loaded: RwLock<Arc<Loaded>>,
    reloads: AtomicU64,
}

/// The longest hint that RFC 4279 §5.3 makes everybody understand.
const HINT_BYTES_MAX: usize = 128;

/// One state of the files.
pub(super) struct Loaded {
    pub psk: Option<PskTable>,
    pub certificate: Option<ServerCertificate>,
    pub hint: String,
    /// What the keys of nobody are made of.
    pub secret: [u8; 32],
}

impl DtlsAcceptor {
    /// Reads the files.
    pub fn new(files: DtlsFiles) -> Result<DtlsAcceptor, DtlsFault> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).map_err(|_| DtlsFault::NoRandomness)?;
        let loaded = RwLock::new(Arc::new(Loaded::read(&files, secret)?));
        Ok(DtlsAcceptor { files, loaded, reloads: AtomicU64::new(0) })
    }

    /// Reads the files again. When one is not as it must be, everything stays as it was.
    ///
    /// Associations whose key has changed or gone end at the listener's next call; those with certificates stay, as
    /// TLS connections do.
    pub fn reload(&self) -> Result<(), DtlsFault> {
        let secret = self.loaded().secret;
        let loaded = Arc::new(Loaded::read(&self.files, secret)?);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        self.reloads.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The files that [`reload`](Self::reload) reads.
    pub fn files(&self) -> &DtlsFiles {
        &self.files
    }

    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes with every reload.
    pub(super) fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Acquire)
    }
}

impl Loaded {
    fn read(files: &DtlsFiles, secret: [u8; 32]) -> Result<Loaded, DtlsFault> {
        if files.keys.is_none() && files.certificate.is_none() {
            return Err(DtlsFault::Nobody);
        }
        if files.identity_hint.len() > HINT_BYTES_MAX {
            return Err(DtlsFault::LongHint);
        }
        let keys = files.keys.as_deref().map(|path| read_keys(path, files.key_bytes_min));
        Ok(Loaded {
            psk: keys.transpose().map_err(DtlsFault::Keys)?,
            certificate: files.certificate.as_ref().map(ServerCertificate::read).transpose().map_err(DtlsFault::Tls)?,
            hint: files.identity_hint.clone(),
            secret,
        })
    }
}

fn read_keys(path: &Path, bytes_min: usize) -> Result<PskTable, Vec<AccessError>> {
    let table = PskTable::read(path)?;
    match table.shorter_than(bytes_min).as_slice() {
        [] => Ok(table),
        short => {
            let some: Vec<String> = short.iter().take(5).map(|identity| format!("{identity:?}")).collect();
            let more = if short.len() > some.len() { ", …" } else { "" };
            let (count, some) = (short.len(), some.join(", "));
            let problem = format!("keys shorter than {bytes_min} bytes can be guessed: {count} ({some}{more})");
            let mend = "use 16 random bytes (`openssl rand -hex 16`), or lower tls.psk_bytes_min";
            Err(vec![AccessError::file(path, problem, mend)])
        }
    }
}

/// Names the files and nothing of what is in them.
impl fmt::Debug for DtlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsAcceptor").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Why a DTLS listener cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DtlsFault {
    /// Neither a key file nor a certificate is named.
    Nobody,
    /// The identity hint is longer than peers have to understand.
    LongHint,
    /// The key file has faults: all of them.
    Keys(Vec<AccessError>),
    /// Certificate, key or authorities cannot be used.
    Tls(TlsFault),
    /// The system gave no random bytes.
    NoRandomness,
}

impl fmt::Display for DtlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DtlsFault::Nobody => f.write_str("DTLS needs a key file, a certificate or both; name one"),
            DtlsFault::LongHint => write!(f, "the identity hint has more than {HINT_BYTES_MAX} bytes; shorten it"),
            DtlsFault::Keys(errors) => {
                for (index, error) in errors.iter().enumerate() {
                    write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            DtlsFault::Tls(fault) => fault.fmt(f),
            DtlsFault::NoRandomness => f.write_str("the system gave no random bytes"),
        }
    }
}

impl std::error::Error for DtlsFault {}
