//! How many bytes of a stream are payload, by its protocol: just enough of MQTT, AMQP and STOMP to tell.

/// What some bytes were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounts {
    pub payload: u64,
    /// Pings, heartbeats and their answers.
    pub keep_alive: u64,
    /// A CONNECT has said which version of MQTT this is.
    pub version: Option<u8>,
}

/// One direction of a connection.
#[derive(Debug)]
pub struct Speech {
    /// The broker's usual port says the protocol.
    port: u16,
    /// The version of MQTT that the connection speaks, where that is its protocol.
    pub version: u8,
    /// What has come and is not yet understood.
    rest: Vec<u8>,
    /// Bytes of the frame under way that are payload.
    payload: u64,
    /// Bytes of it, behind the payload.
    behind: u64,
}

/// What is at the beginning of some bytes.
enum Next {
    /// So many bytes that are neither.
    Skip(usize),
    /// So many of a keep-alive.
    KeepAlive(usize),
    /// So many before a payload, the payload, so many behind.
    Message(usize, u64, u64),
}

impl Speech {
    /// With a broker's usual port; `version` of MQTT, if that is known.
    pub fn at(port: u16, version: Option<u8>) -> Speech {
        Speech {
            port,
            version: version.unwrap_or(4),
            rest: Vec::new(),
            payload: 0,
            behind: 0,
        }
    }

    /// Takes the next bytes.
    pub fn hear(&mut self, data: &[u8]) -> ByteCounts {
        let mut heard = ByteCounts::default();
        self.rest.extend_from_slice(data);
        let mut at = 0;
        loop {
            // What belongs to the frame under way needs no understanding.
            let there = (self.rest.len() - at) as u64;
            let payload = self.payload.min(there);
            let behind = self.behind.min(there - payload);
            self.payload -= payload;
            self.behind -= behind;
            heard.payload += payload;
            at += (payload + behind) as usize;
            let rest = self.rest.get(at..).unwrap_or_default();
            match self.next(rest, &mut heard) {
                None => break,
                Some(Next::Skip(count)) => at += count,
                Some(Next::KeepAlive(count)) => {
                    heard.keep_alive += count as u64;
                    at += count;
                }
                Some(Next::Message(count, payload, behind)) => {
                    (self.payload, self.behind) = (payload, behind);
                    at += count;
                }
            }
            self.version = heard.version.unwrap_or(self.version);
        }
        self.rest.drain(..at.min(self.rest.len()));
        heard
    }

    /// What is at the beginning of `rest`; None if more is needed to know. Counts are never beyond it.
    fn next(&self, rest: &[u8], heard: &mut ByteCounts) -> Option<Next> {
        match self.port {
            _ if rest.is_empty() => None,
            1883 => mqtt(rest, self.version, heard),
            5672 => amqp(rest),
            61613 => stomp(rest),
            _ => Some(Next::Skip(rest.len())),
        }
    }
}

fn mqtt(rest: &[u8], version: u8, heard: &mut ByteCounts) -> Option<Next> {
    let first = *rest.first()?;
    let (length, digits) = variable(rest.get(1..)?)?;
    let head = 1 + digits;
    Some(match first >> 4 {
        1 => {
            // CONNECT: the protocol's name, then its level.
            let name = usize::from(two(rest.get(head..)?)?);
            let level = *rest.get(head + 2 + name)?;
            heard.version = Some(level);
            Next::Message(head, 0, length)
        }
        3 => {
            let topic = usize::from(two(rest.get(head..)?)?);
            let mut before = 2 + topic + if first & 6 == 0 { 0 } else { 2 };
            if version == 5 {
                let (properties, digits) = variable(rest.get(head + before..)?)?;
                before += digits + properties as usize;
            }
            let payload = length.saturating_sub(before as u64);
            // Its head is whole only if all before the payload is there.
            rest.get(..head + before)?;
            Next::Message(head + before, payload, 0)
        }
        12 | 13 => {
            let whole = head + length as usize;
            rest.get(..whole)?;
            Next::KeepAlive(whole)
        }
        _ => Next::Message(head, 0, length),
    })
}

fn amqp(rest: &[u8]) -> Option<Next> {
    if rest.first() == Some(&b'A') {
        // The protocol header, before any frame.
        return Some(Next::Message(1, 0, 7));
    }
    let kind = *rest.first()?;
    let size = u64::from(u32::from_be_bytes(*rest.get(3..7)?.first_chunk()?));
    Some(match kind {
        3 => Next::Message(7, size, 1),
        8 => {
            let whole = 8 + size as usize;
            rest.get(..whole)?;
            Next::KeepAlive(whole)
        }
        _ => Next::Message(7, 0, size + 1),
    })
}

fn stomp(rest: &[u8]) -> Option<Next> {
    match rest.first()? {
        b'\n' => return Some(Next::KeepAlive(1)),
        b'\r' | 0 => return Some(Next::Skip(1)),
        _ => {}
    }
    // A head ends with an empty line.
    let lines = rest
        .windows(2)
        .position(|two| two == b"\n\n")
        .map(|at| at + 2);
    let returns = rest
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4);
    let head = lines.into_iter().chain(returns).min()?;
    let text = String::from_utf8_lossy(rest.get(..head)?);
    let length = text.lines().find_map(|line| {
        line.strip_prefix("content-length:")?
            .trim()
            .parse::<u64>()
            .ok()
    });
    match length {
        Some(length) => Some(Next::Message(head, length, 1)),
        // Without, it ends with the first zero; only short frames have none.
        None => {
            let end = rest.get(head..)?.iter().position(|byte| *byte == 0)?;
            Some(
                match text.starts_with("SEND") || text.starts_with("MESSAGE") {
                    true => Next::Message(head, end as u64, 1),
                    false => Next::Message(head, 0, end as u64 + 1),
                },
            )
        }
    }
}

/// A number of MQTT in one to four bytes, and how many.
fn variable(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        value |= u64::from(byte & 127) << (7 * at);
        if byte & 128 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

fn two(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|two| u16::from_be_bytes(*two))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same in one piece and in pieces of any size.
    fn heard(port: u16, stream: &[u8]) -> (u64, u64) {
        let mut found = Vec::new();
        for step in [stream.len(), 1, 2, 3, 5, 11, 64] {
            let mut speech = Speech::at(port, None);
            let mut all = (0, 0);
            for part in stream.chunks(step) {
                let heard = speech.hear(part);
                all = (all.0 + heard.payload, all.1 + heard.keep_alive);
            }
            found.push(all);
        }
        assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:?}");
        found[0]
    }

    #[test]
    fn bodies_and_heartbeats_of_amqp() {
        let mut stream = b"AMQP\0\0\x09\x01".to_vec();
        stream.extend_from_slice(b"\x01\0\0\0\0\0\x04abcd\xce");
        stream.extend_from_slice(b"\x08\0\0\0\0\0\0\xce");
        stream.extend_from_slice(b"\x03\0\x01\0\0\0\x05hello\xce");
        stream.extend_from_slice(b"\x03\0\x01\0\0\0\x03abc\xce");
        assert_eq!(heard(5672, &stream), (8, 8));
    }

    #[test]
    fn bodies_and_line_feeds_of_stomp() {
        let stream = b"CONNECT\naccept-version:1.2\n\n\0\n\nSEND\ndestination:/a\ncontent-length:5\n\nhe\0lo\0\
                       SEND\r\ndestination:/a\r\n\r\nhello\0\n";
        assert_eq!(heard(61613, stream), (10, 3));
    }

    #[test]
    fn messages_and_pings_of_mqtt() {
        let mut stream = b"\x10\x0d\0\x04MQTT\x05\x02\0\x0a\0\0\0".to_vec();
        for length in [0_usize, 1, 100, 300] {
            let whole = 2 + 3 + 2 + 1 + length;
            stream.push(0x32);
            match whole {
                0..128 => stream.push(whole as u8),
                _ => stream.extend_from_slice(&[(whole % 128) as u8 | 128, (whole / 128) as u8]),
            }
            stream.extend_from_slice(b"\0\x03a/b\0\x07\0");
            stream.resize(stream.len() + length, b'x');
            stream.extend_from_slice(b"\xc0\0");
        }
        stream.extend_from_slice(b"\x82\x08\0\x01\0\0\x02ab\x01");
        assert_eq!(heard(1883, &stream), (401, 8));
    }
}
