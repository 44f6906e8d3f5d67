//! Streams of tests through what is between a socket and a protocol.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use thalweg_server::transport::{Filtered, Transport};

/// A blocking stream through the client's ends of TLS and WebSocket.
pub struct Pipe {
    pub socket: TcpStream,
    pub filters: Box<Filtered>,
    pub plain: Vec<u8>,
}

impl Pipe {
    pub fn new(socket: TcpStream, transport: Transport) -> Pipe {
        let Transport::Filtered(filters) = transport else {
            panic!("a filter")
        };
        Pipe {
            socket,
            filters,
            plain: Vec::new(),
        }
    }
}

/// What is below all filters.
pub trait Wire {
    fn wire(&mut self) -> &mut TcpStream;
}

impl Wire for TcpStream {
    fn wire(&mut self) -> &mut TcpStream {
        self
    }
}

impl Wire for Pipe {
    fn wire(&mut self) -> &mut TcpStream {
        &mut self.socket
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            let mut wire = Vec::new();
            self.filters.take_output(&mut wire);
            self.socket.write_all(&wire)?;
            let mut bytes = [0; 4096];
            let count = self.socket.read(&mut bytes)?;
            if count == 0 {
                return Ok(0);
            }
            self.filters
                .handle_input(&bytes[..count], &mut self.plain)
                .map_err(io::Error::other)?;
        }
        let count = self.plain.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.plain[..count]);
        self.plain.drain(..count);
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wire = Vec::new();
        self.filters
            .encode(bytes, &mut wire)
            .map_err(io::Error::other)?;
        self.socket.write_all(&wire)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
