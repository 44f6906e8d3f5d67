//! Listening on a Unix socket. Its file outlives the process, and its permission bits say who may connect.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// Removes the socket's file when it is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens, not blocking, on a socket at `path` with permission bits `mode`. A socket there on which no process listens
/// is replaced; anything else of that name stays. The error says what is wrong, in words that follow the path.
pub fn bind(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), String> {
    remove_leftover(path)?;
    let (socket, file) = named(path, mode).map_err(words)?;
    socket.listen(BACKLOG).map_err(words)?;
    socket.set_nonblocking(true).map_err(words)?;
    Ok((socket.into(), file))
}

/// A socket of that name that does not listen yet. Until it has its mode it has the bits that the umask leaves, and no
/// process can connect to a socket that does not listen.
fn named(path: &Path, mode: u32) -> io::Result<(Socket, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile(path.to_owned());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok((socket, file))
}

/// Removes the socket of a process that was killed.
fn remove_leftover(path: &Path) -> Result<(), String> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err("there is a file of that name, and it is not a socket".to_owned());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err("another process listens on it".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(words)
        }
        // It belongs to a process that does not accept us.
        Err(error) => Err(words(error)),
    }
}

/// As the standard library has it.
const BACKLOG: i32 = 128;

fn words(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not write there".to_owned(),
        io::ErrorKind::InvalidInput => {
            "the path is too long for a Unix socket (107 bytes)".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::certificates::Folder;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn nobody_connects_to_a_socket_before_it_has_its_mode() {
        let folder = Folder::new();
        let path = folder.file("broker.sock");
        let (_socket, _file) = named(&path, 0o600).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_socket_that_takes_no_streams_stays_with_its_program() {
        let folder = Folder::new();
        let path = folder.file("log.sock");
        let log = UnixDatagram::bind(&path).unwrap();
        bind(&path, 0o600).unwrap_err();
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"still here", &path).unwrap();
        assert_eq!(log.recv(&mut [0; 16]).unwrap(), 10);
    }
}
