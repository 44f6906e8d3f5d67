//! What the listeners of all shards share: keys and certificate, read from files and read again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use thalweg_dtls::{Certificate, ConfigFault, PskTable, ServerConfig};

use super::super::tls::{TlsFault, TlsFiles};
use super::certificate::ServerCertificate;
use crate::access::AccessError;

/// Where a DTLS listener finds what peers are known by. At least one of the two is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DtlsFiles {
    /// The key file, see [`PskTable`].
    pub keys: Option<PathBuf>,
    /// Least bytes of a key: with a suite without key exchange, a recorded handshake lets an attacker try keys offline.
    pub key_bytes_min: usize,
    /// The hint by which clients choose their identity (RFC 4279 §5.2); empty sends none. Not a secret.
    pub identity_hint: String,
    /// Certificate, key and authorities, the same as a TLS listener's.
    pub certificate: Option<TlsFiles>,
}

/// Keys and certificate of DTLS listeners, and their reload.
pub struct DtlsAcceptor {
    files: DtlsFiles,
    loaded: RwLock<Arc<ServerConfig>>,
    reloads: AtomicU64,
}

impl DtlsAcceptor {
    pub fn new(files: DtlsFiles) -> Result<DtlsAcceptor, DtlsFault> {
        let loaded = RwLock::new(Arc::new(read(&files)?));
        Ok(DtlsAcceptor {
            files,
            loaded,
            reloads: AtomicU64::new(0),
        })
    }

    /// Reads the files again. When one is invalid, everything stays as it was.
    ///
    /// A shard that sees [`reloads`](Self::reloads) change gives what is [`loaded`](Self::loaded) to its sockets.
    pub fn reload(&self) -> Result<(), DtlsFault> {
        let loaded = Arc::new(read(&self.files)?);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        self.reloads.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The files that [`reload`](Self::reload) reads.
    pub fn files(&self) -> &DtlsFiles {
        &self.files
    }

    /// What was read last.
    pub fn loaded(&self) -> Arc<ServerConfig> {
        self.loaded
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes with every reload.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Acquire)
    }
}

fn read(files: &DtlsFiles) -> Result<ServerConfig, DtlsFault> {
    let keys = files
        .keys
        .as_deref()
        .map(|path| read_keys(path, files.key_bytes_min))
        .transpose()
        .map_err(DtlsFault::Keys)?;
    let certificate = files
        .certificate
        .as_ref()
        .map(ServerCertificate::read)
        .transpose()
        .map_err(DtlsFault::Tls)?;
    let certificate = certificate.map(|certificate| Box::new(certificate) as Box<dyn Certificate>);
    ServerConfig::new(keys, certificate, &files.identity_hint).map_err(DtlsFault::Config)
}

fn read_keys(path: &Path, bytes_min: usize) -> Result<PskTable, Vec<AccessError>> {
    let bytes = std::fs::read(path).map_err(|error| {
        let mend = "check the path and who may read it";
        vec![AccessError::file(
            path,
            format!("cannot be read: {error}"),
            mend,
        )]
    })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        vec![AccessError::file(
            path,
            "this is not UTF-8",
            "save the file as UTF-8",
        )]
    })?;
    let table = PskTable::parse(&text).map_err(|faults| {
        let faults = faults.into_iter();
        faults
            .map(|fault| AccessError::line(path, fault.line, fault.problem, fault.mend))
            .collect::<Vec<_>>()
    })?;
    match table.shorter_than(bytes_min).as_slice() {
        [] => Ok(table),
        short => {
            let some: Vec<String> = short
                .iter()
                .take(5)
                .map(|identity| format!("{identity:?}"))
                .collect();
            let more = if short.len() > some.len() {
                ", …"
            } else {
                ""
            };
            let (count, some) = (short.len(), some.join(", "));
            let problem = format!(
                "keys shorter than {bytes_min} bytes can be guessed: {count} ({some}{more})"
            );
            let mend = "use 16 random bytes (`openssl rand -hex 16`), or lower tls.psk_bytes_min";
            Err(vec![AccessError::file(path, problem, mend)])
        }
    }
}

/// Names the files and nothing of what is in them.
impl fmt::Debug for DtlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsAcceptor")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Why a DTLS listener cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DtlsFault {
    /// Neither a key file nor a certificate is named, or the identity hint is too long.
    Config(ConfigFault),
    /// The key file has faults: all of them.
    Keys(Vec<AccessError>),
    /// Certificate, key or authorities cannot be used.
    Tls(TlsFault),
}

impl fmt::Display for DtlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DtlsFault::Config(fault) => fault.fmt(f),
            DtlsFault::Keys(errors) => {
                for (index, error) in errors.iter().enumerate() {
                    write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            DtlsFault::Tls(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for DtlsFault {}
