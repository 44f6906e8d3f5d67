//! A CoAP peer that sends each request once (RFC 7252 §3); `crash::coap` has those that repeat.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::amqp::Trouble;

const CONFIRMABLE: u8 = 0;
const ACKNOWLEDGEMENT: u8 = 2;
const POST: u8 = 2;
const PUT: u8 = 3;
const URI_PATH: usize = 11;

pub struct Coap {
    socket: UdpSocket,
    id: u16,
    refused: bool,
}

impl Coap {
    pub fn open(broker: SocketAddr, first_id: u16) -> Result<Self, Trouble> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback address has free ports");
        socket.connect(broker).map_err(|_| Trouble::Gone)?;
        Ok(Self {
            socket,
            id: first_id,
            refused: false,
        })
    }

    /// POST to a queue, PUT elsewhere; what names it in its answer.
    pub fn request(&mut self, root: &str, path: &str, payload: &[u8]) -> u16 {
        self.id = self.id.wrapping_add(1);
        let code = if root == "q" { POST } else { PUT };
        let mut datagram = vec![0x40 | CONFIRMABLE << 4 | 2, code];
        datagram.extend(self.id.to_be_bytes());
        datagram.extend(self.id.to_be_bytes());
        let mut before = 0;
        for level in root.split('/').chain(path.split('/')) {
            assert!(
                level.len() < 13,
                "longer ones are written in another way (RFC 7252 §3.1)"
            );
            datagram.push(((URI_PATH - before) << 4 | level.len()) as u8);
            datagram.extend(level.as_bytes());
            before = URI_PATH;
        }
        datagram.push(0xFF);
        datagram.extend(payload);
        // The error of a closed port is reported once, to the next call on the socket.
        self.refused |= self.socket.send(&datagram).is_err();
        self.id
    }

    /// The next answer: to which request, and its code.
    pub fn answer(&mut self, within: Duration) -> Result<Option<(u16, u8)>, Trouble> {
        self.socket
            .set_read_timeout(Some(within))
            .expect("not zero");
        let mut datagram = [0; 2048];
        loop {
            if self.refused {
                return Err(Trouble::Gone);
            }
            let count = match self.socket.recv(&mut datagram) {
                Ok(count) => count,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Ok(None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(Trouble::Gone),
            };
            let [head, code, id_1, id_2, token_1, token_2] = datagram[..count.min(6)] else {
                continue;
            };
            if head >> 4 & 3 == CONFIRMABLE {
                let _ = self
                    .socket
                    .send(&[0x40 | ACKNOWLEDGEMENT << 4, 0, id_1, id_2]);
            }
            if code != 0 {
                return Ok(Some((u16::from_be_bytes([token_1, token_2]), code)));
            }
        }
    }
}
