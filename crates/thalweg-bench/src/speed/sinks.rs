//! The sinks: as much of MQTT, AMQP 0-9-1, STOMP and CoAP as a publisher needs to see.

use super::sink::Sink;

/// MQTT 3.1.1 and 5: QoS 0 and 1.
#[derive(Debug, Default)]
pub struct Mqtt {
    is_five: bool,
}

impl Sink for Mqtt {
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>, messages: &mut u64) -> Option<usize> {
        let mut taken = 0;
        while let Some((first, body, length)) = packet(input.get(taken..)?) {
            taken += length;
            match first >> 4 {
                // CONNECT: the protocol's name, then its level.
                1 => {
                    self.is_five = body.get(6) == Some(&5);
                    match self.is_five {
                        true => out.extend_from_slice(&[0x20, 3, 0, 0, 0]),
                        false => out.extend_from_slice(&[0x20, 2, 0, 0]),
                    }
                }
                3 => {
                    *messages += 1;
                    if first & 0b110 == 0b010 {
                        let topic = usize::from(u16::from_be_bytes(*body.first_chunk()?));
                        let [high, low] = body.get(2 + topic..)?.first_chunk()?;
                        out.extend_from_slice(&[0x40, 2, *high, *low]);
                    }
                }
                8 => {
                    let [high, low] = body.first_chunk()?;
                    match self.is_five {
                        true => out.extend_from_slice(&[0x90, 4, *high, *low, 0, 0]),
                        false => out.extend_from_slice(&[0x90, 3, *high, *low, 0]),
                    }
                }
                12 => out.extend_from_slice(&[0xd0, 0]),
                14 => return None,
                _ => {}
            }
        }
        Some(taken)
    }
}

/// First byte, body and whole length of the packet at the beginning.
fn packet(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (&first, rest) = input.split_first()?;
    let mut length = 0;
    for (at, &byte) in rest.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let body = rest.get(at + 1..at + 1 + length)?;
            return Some((first, body, at + 2 + length));
        }
    }
    None
}

/// AMQP 0-9-1: any login, any queue, publisher confirms.
#[derive(Debug, Default)]
pub struct Amqp {
    greeted: bool,
    /// Bytes of the body of a message that are still to come.
    missing: u64,
    confirms: bool,
}

impl Sink for Amqp {
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>, messages: &mut u64) -> Option<usize> {
        let mut taken = 0;
        if !self.greeted {
            if input.len() < 8 {
                return Some(0);
            }
            self.greeted = true;
            taken = 8;
            // Connection.Start: version 0-9, no properties, mechanisms, locales.
            let mut start = vec![0, 10, 0, 10, 0, 9, 0, 0, 0, 0];
            for text in [&b"PLAIN"[..], b"en_US"] {
                start.extend_from_slice(&(text.len() as u32).to_be_bytes());
                start.extend_from_slice(text);
            }
            frame(0, &start, out);
        }
        let before = *messages;
        let mut channel_of_confirm = 0;
        while let Some((kind, channel, body, length)) = amqp_frame(input.get(taken..)?) {
            taken += length;
            match kind {
                1 => {
                    let class = u16::from_be_bytes(*body.first_chunk()?);
                    let method = u16::from_be_bytes(*body.get(2..)?.first_chunk()?);
                    if !self.method((class, method), channel, body, out) {
                        return None;
                    }
                    continue;
                }
                // Content header: class, weight, size of the body.
                2 => self.missing = u64::from_be_bytes(*body.get(4..)?.first_chunk()?),
                3 => self.missing = self.missing.saturating_sub(body.len() as u64),
                _ => continue,
            }
            *messages += u64::from(self.missing == 0);
            channel_of_confirm = channel;
        }
        if self.confirms && *messages > before {
            // Basic.Ack of everything so far.
            let mut ack = vec![0, 60, 0, 80];
            ack.extend_from_slice(&messages.to_be_bytes());
            ack.push(1);
            frame(channel_of_confirm, &ack, out);
        }
        Some(taken)
    }
}

impl Amqp {
    /// Answers a method; false when the connection is over.
    fn method(&mut self, id: (u16, u16), channel: u16, body: &[u8], out: &mut Vec<u8>) -> bool {
        let answer: &[u8] = match id {
            // Start-Ok: Tune with 2,047 channels, frames of 128 KiB, no heartbeats.
            (10, 11) => &[0, 10, 0, 30, 7, 0xff, 0, 2, 0, 0, 0, 0],
            (10, 40) => &[0, 10, 0, 41, 0],
            (20, 10) => &[0, 20, 0, 11, 0, 0, 0, 0],
            (20, 40) => &[0, 20, 0, 41],
            (40, 10) => &[0, 40, 0, 11],
            // Queue.Declare: named q, nothing in it.
            (50, 10) => &[0, 50, 0, 11, 1, b'q', 0, 0, 0, 0, 0, 0, 0, 0],
            (50, 20) => &[0, 50, 0, 21],
            (60, 10) => &[0, 60, 0, 11],
            (85, 10) => {
                self.confirms = true;
                // The last bit asks for no answer.
                if body.get(4) == Some(&1) {
                    return true;
                }
                &[0, 85, 0, 11]
            }
            (10, 50) => {
                frame(0, &[0, 10, 0, 51], out);
                return false;
            }
            _ => return true,
        };
        frame(channel, answer, out);
        true
    }
}

fn amqp_frame(input: &[u8]) -> Option<(u8, u16, &[u8], usize)> {
    let [kind, high, low, size @ ..] = *input.first_chunk::<7>()?;
    let length = u32::from_be_bytes(size) as usize;
    let body = input.get(7..7 + length)?;
    input.get(7 + length)?;
    Some((kind, u16::from_be_bytes([high, low]), body, 8 + length))
}

fn frame(channel: u16, body: &[u8], out: &mut Vec<u8>) {
    out.push(1);
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out.push(0xce);
}

/// STOMP 1.2: any login, receipts.
#[derive(Debug, Default)]
pub struct Stomp;

impl Sink for Stomp {
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>, messages: &mut u64) -> Option<usize> {
        let mut taken = 0;
        loop {
            let rest = input.get(taken..)?;
            let is_beat = |byte: &&u8| matches!(byte, b'\n' | b'\r');
            let beats = rest.iter().take_while(is_beat).count();
            let rest = rest.get(beats..)?;
            let Some(head_end) = rest.windows(2).position(|pair| pair == b"\n\n") else {
                return Some(taken);
            };
            let head = rest.get(..head_end)?;
            let header = |name: &[u8]| {
                let mut lines = head.split(|byte| *byte == b'\n');
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(b":"))
            };
            let length = header(b"content-length");
            let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            let body = rest.get(head_end + 2..)?;
            let end = match length {
                Some(length) => Some(length).filter(|length| body.len() > *length),
                None => body.iter().position(|byte| *byte == 0),
            };
            let Some(end) = end else {
                return Some(taken);
            };
            taken += beats + head_end + 2 + end + 1;
            let command = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
            match command {
                b"CONNECT" | b"STOMP" => {
                    out.extend_from_slice(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
                }
                b"SEND" => *messages += 1,
                _ => {}
            }
            if let Some(receipt) = header(b"receipt") {
                out.extend_from_slice(b"RECEIPT\nreceipt-id:");
                out.extend_from_slice(receipt);
                out.extend_from_slice(b"\n\n\0");
            }
            if command == b"DISCONNECT" {
                return None;
            }
        }
    }
}

/// CoAP over UDP: appends the answer to a datagram; whether it was a message.
pub fn coap(datagram: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(&[first, code, high, low]) = datagram.first_chunk() else {
        return false;
    };
    let token = datagram.get(4..4 + usize::from(first & 0xf));
    let token = token.unwrap_or_default();
    let is_confirmable = first & 0x30 == 0;
    let is_message = matches!(code, 2 | 3);
    match (is_confirmable, code) {
        // An empty confirmable message is a ping: Reset.
        (true, 0) => out.extend_from_slice(&[0x70, 0, high, low]),
        // 2.04, or 2.05 without payload, on the acknowledgement.
        (true, 1..=31) => {
            let code = if is_message { 0x44 } else { 0x45 };
            out.extend_from_slice(&[0x60 | first & 0xf, code, high, low]);
            out.extend_from_slice(token);
        }
        _ => {}
    }
    is_message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mqtt_is_acknowledged_packet_by_packet() {
        let (mut sink, mut out, mut count) = (Mqtt::default(), Vec::new(), 0);
        let connect = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 60, 0, 0, 0];
        let publish = [0x32, 7, 0, 1, b't', 1, 2, 0, b'x'];
        let mut input = [&connect[..], &publish, &[0x30, 5]].concat();
        assert_eq!(
            sink.take(&input, &mut out, &mut count),
            Some(input.len() - 2),
            "a torn packet waits"
        );
        assert_eq!(out, [0x20, 3, 0, 0, 0, 0x40, 2, 1, 2]);
        input = vec![0x30, 5, 0, 1, b't', 0, b'x', 0xe0, 0];
        out.clear();
        assert_eq!(sink.take(&input, &mut out, &mut count), None);
        assert_eq!((count, out.len()), (2, 0));
    }

    #[test]
    fn amqp_is_confirmed_at_once_for_all_that_came() {
        let (mut sink, mut out, mut count) = (Amqp::default(), Vec::new(), 0);
        assert_eq!(
            sink.take(b"AMQP\0\0\x09\x01", &mut out, &mut count),
            Some(8)
        );
        assert_eq!(out.get(7..11), Some(&[0, 10, 0, 10][..]));
        let mut input = Vec::new();
        frame(1, &[0, 85, 0, 10, 0], &mut input);
        for _ in 0..3 {
            frame(1, &[0, 60, 0, 40, 0, 0, 0, 1, b'r', 0], &mut input);
            input.extend_from_slice(&[
                2, 0, 1, 0, 0, 0, 14, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xce,
            ]);
            input.extend_from_slice(&[3, 0, 1, 0, 0, 0, 2, b'h', b'i', 0xce]);
        }
        out.clear();
        assert_eq!(sink.take(&input, &mut out, &mut count), Some(input.len()));
        assert_eq!(count, 3);
        let mut wanted = Vec::new();
        frame(1, &[0, 85, 0, 11], &mut wanted);
        frame(1, &[0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 3, 1], &mut wanted);
        assert_eq!(out, wanted);
    }

    #[test]
    fn stomp_gives_receipts() {
        let (mut out, mut count) = (Vec::new(), 0);
        let input =
            b"CONNECT\naccept-version:1.2\n\n\0\nSEND\ndestination:/a\ncontent-length:3\nreceipt:7\n\na\0b\0SEND\n\nx";
        let taken = Stomp.take(input, &mut out, &mut count);
        assert_eq!((taken, count), (Some(input.len() - 7), 1));
        assert!(out.ends_with(b"RECEIPT\nreceipt-id:7\n\n\0"), "{out:?}");
    }

    #[test]
    fn coap_is_acknowledged_if_it_is_confirmable() {
        let mut out = Vec::new();
        assert!(coap(&[0x42, 3, 9, 8, 1, 2, 0xff, b'x'], &mut out));
        assert_eq!(out, [0x62, 0x44, 9, 8, 1, 2]);
        out.clear();
        assert!(coap(&[0x50, 2, 9, 9, 0xff, b'x'], &mut out) && out.is_empty());
        assert!(!coap(&[0x40, 0, 9, 9], &mut out) && out == [0x70, 0, 9, 9]);
        assert!(!coap(&[0x40], &mut out));
    }
}
