//! STOMP 1.2 by hand: frames are text.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::amqp::Trouble;

const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// A connection that was greeted.
#[derive(Debug)]
pub struct Stomp {
    socket: TcpStream,
    unread: Vec<u8>,
    messages: VecDeque<Frame>,
    receipts: VecDeque<String>,
    closed: bool,
    next_receipt: u64,
    refused: Option<String>,
}

/// A frame from the broker.
#[derive(Clone, Debug)]
pub struct Frame {
    pub command: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Frame {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    pub fn redelivered(&self) -> bool {
        self.header("redelivered") == "true"
    }
}

impl Stomp {
    pub fn open(broker: SocketAddr) -> Result<Self, Trouble> {
        let socket = TcpStream::connect(broker).map_err(|_| Trouble::Gone)?;
        let ready = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_write_timeout(Some(ANSWERED_WITHIN)));
        ready.expect("a fresh socket takes options");
        let mut me = Self {
            socket,
            unread: Vec::new(),
            messages: VecDeque::new(),
            receipts: VecDeque::new(),
            closed: false,
            next_receipt: 0,
            refused: None,
        };
        me.send(
            "CONNECT",
            &[
                ("accept-version", "1.2"),
                ("host", "/"),
                ("heart-beat", "0,0"),
            ],
            b"",
        );
        match me.wait_for_receipt(Instant::now() + ANSWERED_WITHIN)? {
            Some(_) => Ok(me),
            None => Err(Trouble::Silent),
        }
    }

    pub fn send(&mut self, command: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut text = format!("{command}\n");
        for (name, value) in headers {
            text += &format!("{name}:{value}\n");
        }
        if !body.is_empty() {
            text += &format!("content-length:{}\n", body.len());
        }
        // A broken connection is found out by the next who reads.
        let _ = self
            .socket
            .write_all(&[text.as_bytes(), b"\n", body, b"\0"].concat());
    }

    /// Asks for a receipt; its name.
    pub fn send_for_receipt(
        &mut self,
        command: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> String {
        self.next_receipt += 1;
        let receipt = format!("r{}", self.next_receipt);
        self.send(command, &[headers, &[("receipt", &receipt)]].concat(), body);
        receipt
    }

    /// Sends and waits until this frame's receipt is there; others stay to be asked for.
    pub fn call(
        &mut self,
        command: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), Trouble> {
        let receipt = self.send_for_receipt(command, headers, body);
        let until = Instant::now() + ANSWERED_WITHIN;
        loop {
            if let Some(at) = self.receipts.iter().position(|known| *known == receipt) {
                self.receipts.remove(at);
                return Ok(());
            }
            if !self.read_until(until)? {
                return Err(Trouble::Silent);
            }
        }
    }

    pub fn receipt(&mut self, within: Duration) -> Result<Option<String>, Trouble> {
        self.wait_for_receipt(Instant::now() + within)
    }

    fn wait_for_receipt(&mut self, until: Instant) -> Result<Option<String>, Trouble> {
        loop {
            if let Some(receipt) = self.receipts.pop_front() {
                return Ok(Some(receipt));
            }
            if !self.read_until(until)? {
                return Ok(None);
            }
        }
    }

    pub fn message(&mut self, within: Duration) -> Result<Option<Frame>, Trouble> {
        let until = Instant::now() + within;
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(Some(message));
            }
            if !self.read_until(until)? {
                return Ok(None);
            }
        }
    }

    /// Takes from a queue that is there, or as a durable subscription from `/topic/…`, settling each message by itself; 0
    /// is no limit.
    pub fn consume(&mut self, name: &str, prefetch: u32) -> Result<(), Trouble> {
        let is_durable = name.starts_with('/');
        let destination = if is_durable {
            name.to_owned()
        } else {
            format!("/amq/queue/{name}")
        };
        let prefetch = prefetch.to_string();
        let mut headers = vec![
            ("id", "s"),
            ("destination", &*destination),
            ("ack", "client-individual"),
        ];
        headers.push(("prefetch-count", &prefetch));
        if is_durable {
            headers.push(("durable", "true"));
        }
        self.call("SUBSCRIBE", &headers, b"")
    }

    pub fn ack(&mut self, id: &str) {
        self.send("ACK", &[("id", id)], b"");
    }

    pub fn reject(&mut self, id: &str, requeue: bool) {
        self.send(
            "NACK",
            &[
                ("id", id),
                ("requeue", if requeue { "true" } else { "false" }),
            ],
            b"",
        );
    }

    pub fn close(mut self) {
        let _ = self.call("DISCONNECT", &[], b"");
    }

    pub fn drop_dead(self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn read_until(&mut self, until: Instant) -> Result<bool, Trouble> {
        if let Some(text) = &self.refused {
            return Err(Trouble::Refused(0, text.clone()));
        }
        if self.closed {
            return Err(Trouble::Gone);
        }
        let left = until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_micros(100));
        self.socket.set_read_timeout(Some(left)).expect("not zero");
        let mut chunk = [0; 16 * 1024];
        match self.socket.read(&mut chunk) {
            Ok(0) => self.closed = true,
            Ok(count) => {
                self.unread.extend(&chunk[..count]);
                let mut at = 0;
                while let Some((frame, length)) = read(&self.unread[at..]) {
                    at += length;
                    self.take(frame);
                }
                self.unread.drain(..at);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.closed = true,
        }
        Ok(true)
    }

    fn take(&mut self, frame: Frame) {
        match frame.command.as_str() {
            "CONNECTED" => self.receipts.push_back(String::new()),
            "RECEIPT" => self
                .receipts
                .push_back(frame.header("receipt-id").to_owned()),
            "MESSAGE" => self.messages.push_back(frame),
            _ => {
                let text = format!(
                    "{} {}",
                    frame.header("message"),
                    String::from_utf8_lossy(&frame.body)
                );
                self.refused = Some(text);
            }
        }
    }
}

/// A whole frame at the beginning, and its length with the line ends before it.
fn read(bytes: &[u8]) -> Option<(Frame, usize)> {
    let begin = bytes
        .iter()
        .position(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let text = &bytes[begin..];
    let head = text.windows(2).position(|pair| pair == b"\n\n")?;
    let mut lines = std::str::from_utf8(&text[..head])
        .expect("headers are text")
        .split('\n');
    let command = lines.next().unwrap_or_default().to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut frame = Frame {
        command,
        headers: headers.collect(),
        body: Vec::new(),
    };
    let body = &text[head + 2..];
    let size = match frame.header("content-length").parse() {
        Ok(size) => size,
        Err(_) => body.iter().position(|byte| *byte == 0)?,
    };
    if body.len() <= size {
        return None;
    }
    assert_eq!(body[size], 0, "a frame ends with NUL");
    frame.body = body[..size].to_vec();
    Some((frame, begin + head + 2 + size + 1))
}
