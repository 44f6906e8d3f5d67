//! Requests and responses of CoAP as text: `CON PUT /ps/data/a/b?retain=false ct=50 max-age=5 : 21`, `ACK 2.04`, `NON 2.05 observe
//! ct=50 : 21`.

use thalweg_coap::{Block, Code, Encoder, Message, Token, Type, option};

/// A message as a peer got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub kind: Type,
    pub code: Code,
    pub id: u16,
    pub token: Vec<u8>,
    pub options: Vec<(u16, Vec<u8>)>,
    pub payload: Vec<u8>,
}

impl ReceivedMessage {
    pub fn read(bytes: &[u8]) -> Self {
        let message = Message::decode(bytes).expect("the server writes what can be read");
        ReceivedMessage {
            kind: message.kind,
            code: message.code,
            id: message.id,
            token: message.token.as_slice().to_vec(),
            options: message
                .options
                .iter()
                .map(|(number, value)| (number, value.to_vec()))
                .collect(),
            payload: message.payload.to_vec(),
        }
    }

    pub fn option(&self, number: u16) -> Option<&[u8]> {
        self.options
            .iter()
            .find(|(known, _)| *known == number)
            .map(|(_, value)| &**value)
    }

    pub fn uint(&self, number: u16) -> Option<u32> {
        self.option(number).map(number_of)
    }

    /// The message on one line. ETags and the numbers of Observe are left out: they are what they are.
    pub fn line(&self) -> String {
        let kind = match self.kind {
            Type::Confirmable => "CON",
            Type::NonConfirmable => "NON",
            Type::Acknowledgement => "ACK",
            Type::Reset => "RST",
        };
        if self.code == Code::EMPTY {
            return kind.to_owned();
        }
        let mut line = format!("{kind} {}", self.code);
        let location: Vec<_> = self
            .options
            .iter()
            .filter(|(number, _)| *number == option::LOCATION_PATH)
            .collect();
        if !location.is_empty() {
            line += " at ";
            for (_, level) in location {
                line += &format!("/{}", String::from_utf8_lossy(level));
            }
        }
        for (number, value) in &self.options {
            match *number {
                option::OBSERVE => line += " observe",
                option::CONTENT_FORMAT => line += &format!(" ct={}", number_of(value)),
                option::MAX_AGE => line += &format!(" max-age={}", number_of(value)),
                option::BLOCK1 => line += &format!(" block1={}", block_text(value)),
                option::BLOCK2 => line += &format!(" block2={}", block_text(value)),
                option::OFFERED => line += &format!(" offered={}", number_of(value)),
                option::SIZE2 => line += &format!(" size2={}", number_of(value)),
                _ => {}
            }
        }
        let is_error = self.code.class() >= 4;
        if !self.payload.is_empty() && !is_error {
            line += " : ";
            line += &match std::str::from_utf8(&self.payload) {
                Ok(text) if !text.contains(char::is_control) => text.to_owned(),
                _ => self
                    .payload
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            };
        }
        line
    }
}

fn number_of(value: &[u8]) -> u32 {
    value
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn block_text(value: &[u8]) -> String {
    let block = Block::decode(number_of(value)).expect("a block");
    format!(
        "{}{}/{}",
        block.number,
        if block.more { "+" } else { "" },
        block.size()
    )
}

/// Writes the request that a line says.
pub fn request(line: &str, id: u16, token: &[u8]) -> Vec<u8> {
    request_with(line, None, id, token)
}

/// The same with a payload that is no text.
pub fn request_with(line: &str, payload: Option<&[u8]>, id: u16, token: &[u8]) -> Vec<u8> {
    let (head, text) = match line.split_once(" : ") {
        Some((head, text)) => (head, text),
        None => (line, ""),
    };
    let mut words = head.split(' ').peekable();
    let kind = match words.peek() {
        Some(&"NON") => Type::NonConfirmable,
        _ => Type::Confirmable,
    };
    words.next_if(|word| *word == "CON" || *word == "NON");
    let method = words.next().expect("a method");
    let code = match method {
        "GET" => Code::GET,
        "PUT" => Code::PUT,
        "POST" => Code::POST,
        "DELETE" => Code::DELETE,
        "FETCH" => Code::FETCH,
        "IPATCH" => Code::IPATCH,
        "PATCH" => Code::PATCH,
        other => panic!("no method: {other}"),
    };
    let mut options: Vec<(u16, Vec<u8>)> = Vec::new();
    let uri = words.next().expect("a path");
    let (path, query) = uri
        .split_once('?')
        .map_or((uri, None), |(path, query)| (path, Some(query)));
    if path != "/" {
        let levels = path
            .strip_prefix('/')
            .expect("paths begin with /")
            .split('/');
        options.extend(levels.map(|level| (option::URI_PATH, decoded(level))));
    }
    for query in query.into_iter().flat_map(|query| query.split('&')) {
        options.push((option::URI_QUERY, decoded(query)));
    }
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let hex = || {
            (0..value.len() / 2)
                .map(|at| u8::from_str_radix(&value[2 * at..2 * at + 2], 16).expect("hex"))
        };
        let uint = || {
            let number: u32 = value.parse().expect("a number");
            number
                .to_be_bytes()
                .into_iter()
                .skip_while(|byte| *byte == 0)
                .collect::<Vec<u8>>()
        };
        options.push(match name {
            "observe" => (option::OBSERVE, uint()),
            "ct" => (option::CONTENT_FORMAT, uint()),
            "accept" => (option::ACCEPT, uint()),
            "max-age" => (option::MAX_AGE, uint()),
            "if-none-match" => (option::IF_NONE_MATCH, Vec::new()),
            "if-match" => (option::IF_MATCH, hex().collect()),
            "etag" => (option::ETAG, hex().collect()),
            "block1" => (option::BLOCK1, block(value)),
            "block2" => (option::BLOCK2, block(value)),
            "host" => (option::URI_HOST, value.as_bytes().to_vec()),
            "port" => (option::URI_PORT, uint()),
            "stamp" => (thalweg_model::STAMP_OPTION, hex().collect()),
            "no-response" => (option::NO_RESPONSE, uint()),
            "proxy" => (option::PROXY_URI, value.as_bytes().to_vec()),
            other => panic!("no option: {other}"),
        });
    }
    options.sort_by_key(|(number, _)| *number);
    let token = Token::new(token).expect("eight bytes at the most");
    let mut out = Vec::new();
    let mut encoder = Encoder::start(&mut out, kind, code, id, token);
    for (number, value) in &options {
        encoder.option(*number, value);
    }
    encoder.payload(payload.unwrap_or(text.as_bytes()));
    out
}

/// `2+/64` is block 2 of 64 bytes, and more follow.
fn block(text: &str) -> Vec<u8> {
    let (number, size) = text.split_once('/').expect("number/size");
    let more = number.ends_with('+');
    let number: u32 = number.trim_end_matches('+').parse().expect("a number");
    let size: usize = size.parse().expect("a size");
    let block = Block {
        number,
        more,
        size_exponent: Block::size_exponent_for(size),
    };
    block
        .encode()
        .to_be_bytes()
        .into_iter()
        .skip_while(|byte| *byte == 0)
        .collect()
}

/// Undoes `%HH`.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [
                    bytes.next().expect("a digit"),
                    bytes.next().expect("a digit"),
                ];
                let digits = std::str::from_utf8(&digits).expect("digits").to_owned();
                out.push(u8::from_str_radix(&digits, 16).expect("hex"));
            }
            byte => out.push(byte),
        }
    }
    out
}
