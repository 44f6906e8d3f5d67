//! A protocol of its own: lines of text, outside the broker's crates, through [`DeferredFront`].
//!
//! ```text
//! C: LOGIN <user> <password> [<window>]      S: OK | ERR <why>     optional where the listener lets in strangers
//! C: SUB <filter>                            S: OK | ERR <why>     `$share/<group>/<filter>` shares it
//! C: PUB <address> <text>                    S: OK | ERR <why>     OK when the message is as safe as the broker promises
//! S: MSG <tag> <address> <text>              C: ACK <tag>          AGAIN instead of MSG if it may have come before
//! S: BYE <why>                               the broker ends the connection
//! ```
//!
//! Fields are separated by spaces. In a field `%HH` stands for a byte; spaces, control characters and `%` are written so.
//! A session ends with its connection; what it did not acknowledge of a shared filter goes to others.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_fronts::{
    AnyFront, Cx, DeferredFront, Delivered, Effect, Fate, FrontMetric, FrontSettings, LoginAnswer,
    LoginAsk, LoginRefusal, ShowCount, Step,
};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    CloseReason, Closing, Draft, Grants, LastValueWish, OpenSession, Outcome, SessionId,
    Subscribed, Verdict, Wish,
};
use thalweg_model::{Reliability, Span};

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct LineSettings {
    /// Bytes of the longest line; a longer one ends the connection.
    pub line_bytes_max: usize,
    /// Publishes per second of a connection in place of the broker's limit; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How long a peer may be silent.
    pub silence_max: Option<Span>,
}

impl Default for LineSettings {
    fn default() -> Self {
        LineSettings {
            line_bytes_max: 64 << 10,
            publish_rate: None,
            silence_max: None,
        }
    }
}

impl FrontSettings for LineSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(AnyFront::extension(LineFront {
            settings: self,
            nonce,
            anonymous,
            state: State::ExpectLogin,
            window: None,
            ticket_last: 0,
            late: VecDeque::new(),
            fault: None,
            published: 0,
        }))
    }
}

/// Why a message is refused that nothing keeps.
const NO_ROOM: &str = "there is no room";

struct LineFront {
    settings: Arc<LineSettings>,
    /// Makes the session's name.
    nonce: u64,
    /// What a peer that does not log in may do, if that needs no question.
    anonymous: Option<Access>,
    state: State,
    /// How much the peer wants to have unacknowledged.
    window: Option<u16>,
    ticket_last: u16,
    /// Answers from the first on that waits for what other shards say: the question, 0 if it waits only for those before it,
    /// and why the request is refused.
    late: VecDeque<(u64, Option<&'static str>)>,
    fault: Option<String>,
    published: u64,
}

static PUBLISHED: FrontMetric = FrontMetric {
    name: "thalweg_lines_published_total",
    label: None,
    values: &[""],
    unit: "messages",
    help: "Messages published by PUB, refused ones included.",
};

/// ```text
/// ExpectLogin --LOGIN, or anything else--> ExpectVerdict --allowed--> Open --> Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ExpectLogin,
    /// Input is held. LOGIN is answered; who did not log in has other things to say.
    ExpectVerdict {
        answers: bool,
    },
    Open,
    Closed,
}

impl LineFront {
    fn say(cx: &mut Cx<'_>, word: &str, fields: &[&str]) {
        let mut line = word.to_owned();
        for field in fields {
            line.push(' ');
            escape(field.as_bytes(), &mut line);
        }
        line.push('\n');
        cx.send(line.as_bytes());
    }

    fn fail(&mut self, what: &str, cx: &mut Cx<'_>) {
        self.fault = Some(what.to_owned());
        self.bye(what, cx);
    }

    fn bye(&mut self, what: &str, cx: &mut Cx<'_>) {
        LineFront::say(cx, "BYE", &[what]);
        self.state = State::Closed;
        cx.end(Closing::Cut, None);
    }

    /// Who it is, if it said so.
    fn log_in(&mut self, credentials: Option<(String, String)>, cx: &mut Cx<'_>) {
        let answers = credentials.is_some();
        self.state = State::ExpectVerdict { answers };
        match (credentials, self.anonymous.take()) {
            (None, Some(access)) => self.open(None, access, cx),
            (credentials, _) => {
                let (user, password) = credentials.unzip();
                cx.ask_login(LoginAsk::Password {
                    client: cx.kernel.unused_client_id(self.nonce),
                    chosen: false,
                    user: user.map(Into::into),
                    password: password.map(|password| password.into_bytes().into()),
                });
            }
        }
    }

    fn open(&mut self, user: Option<Box<str>>, access: Access, cx: &mut Cx<'_>) {
        let client = cx.kernel.unused_client_id(self.nonce);
        let open = OpenSession {
            in_flight_max: self.window,
            user: user.map(Into::into),
            grants: Grants::of_listener(self.settings.publish_rate, None),
            ..OpenSession::of_link(&client, cx.id, access, "lines")
        };
        match cx.open_session(open) {
            Ok(opened) => {
                if self.state == (State::ExpectVerdict { answers: true }) {
                    LineFront::say(cx, "OK", &[]);
                }
                self.state = State::Open;
                cx.start(opened.session);
            }
            Err(_) => self.bye("there is no room for another session", cx),
        }
    }

    fn on_line(&mut self, line: &str, session: SessionId, cx: &mut Cx<'_>) {
        let mut fields = line.split(' ').map(unescape);
        let mut field = || fields.next().flatten();
        let (word, first, second) = (field(), field(), field());
        match (word.as_deref(), first, second) {
            (Some("SUB"), Some(filter), None) => self.subscribe(&filter, session, cx),
            (Some("PUB"), Some(address), text) => {
                let text = text.unwrap_or_default();
                self.published += 1;
                self.publish(&address, &text, session, cx);
            }
            (Some("ACK"), Some(tag), None) => {
                // One that is not known was settled before.
                if let Ok(tag) = tag.parse() {
                    let settled = Verdict::Accept;
                    cx.kernel.settle(session, tag, settled, cx.now, cx.links);
                }
            }
            _ => self.fail("that is no command: LOGIN, SUB, PUB and ACK are", cx),
        }
    }

    fn subscribe(&mut self, filter: &str, session: SessionId, cx: &mut Cx<'_>) {
        let shared = filter.strip_prefix("$share/");
        let (group, filter) = match shared.map(|rest| rest.split_once('/')) {
            Some(Some((group, filter))) => (Some(group), filter),
            Some(None) => return LineFront::say(cx, "ERR", &["a shared filter names a group"]),
            None => (None, filter),
        };
        let wish = Wish {
            filter,
            group,
            reliability: Reliability::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Never,
            id: 0,
        };
        self.ticket_last = self.ticket_last.wrapping_add(1);
        let (ticket, now) = (self.ticket_last, cx.now);
        cx.kernel.subscribe(session, ticket, &[wish], now, cx.links);
    }

    fn publish(&mut self, address: &str, text: &str, session: SessionId, cx: &mut Cx<'_>) {
        let draft = Draft::new(address, text.as_bytes(), Reliability::AtLeastOnce);
        if thalweg_model::Address::check(address).is_err() {
            return self.answer(0, Some("that is no address"), cx);
        }
        // What is written now leaves when the message is safe.
        let (question, refused) = match cx.publish(session, draft) {
            Outcome::Accepted | Outcome::NoMatch => (0, None),
            Outcome::Asked => (cx.kernel.question(), None),
            Outcome::Denied => (0, Some("the access rules do not allow it")),
            Outcome::BadAddress => (0, Some("the address is too long")),
            Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => (0, Some(NO_ROOM)),
        };
        self.answer(question, refused, cx);
    }

    /// Answers are in the order of their requests.
    fn answer(&mut self, question: u64, refused: Option<&'static str>, cx: &mut Cx<'_>) {
        self.late.push_back((question, refused));
        self.answer_late(cx);
    }

    fn answer_late(&mut self, cx: &mut Cx<'_>) {
        while let Some((_, refused)) = self.late.pop_front_if(|(question, _)| *question == 0) {
            match refused {
                None => LineFront::say(cx, "OK", &[]),
                Some(why) => LineFront::say(cx, "ERR", &[why]),
            }
        }
    }

    fn on_published(&mut self, question: u64, is_refused: bool, cx: &mut Cx<'_>) {
        let mut late = self.late.iter_mut();
        if let Some(answer) = late.find(|(of, _)| *of == question) {
            *answer = (0, is_refused.then_some(NO_ROOM));
        }
        self.answer_late(cx);
    }

    fn on_delivered(delivered: &Delivered, cx: &mut Cx<'_>) {
        let word = if delivered.deliveries > 0 {
            "AGAIN"
        } else {
            "MSG"
        };
        let message = &delivered.message;
        let mut line = format!("{word} {} ", delivered.tag);
        escape(message.address().as_bytes(), &mut line);
        line.push(' ');
        escape(message.payload(), &mut line);
        line.push('\n');
        cx.send(line.as_bytes());
    }
}

impl DeferredFront for LineFront {
    type Note = Effect;

    fn name(&self) -> &'static str {
        "lines"
    }

    fn step(&mut self, input: &[u8], cx: &mut Cx<'_>) -> Step {
        if matches!(self.state, State::ExpectVerdict { .. } | State::Closed) {
            return Step::Hold;
        }
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            if input.len() > self.settings.line_bytes_max {
                self.fail("the line is too long", cx);
                return Step::Hold;
            }
            return Step::NeedMore;
        };
        let Ok(line) = std::str::from_utf8(&input[..end]) else {
            self.fail("the line is not UTF-8", cx);
            return Step::Hold;
        };
        let line = line.trim_end_matches('\r');
        if self.state == State::ExpectLogin {
            let mut fields = line.split(' ').map(unescape);
            if fields.next().flatten().as_deref() != Some("LOGIN") {
                // It is asked for the same line again when it is known what strangers may do.
                self.log_in(None, cx);
                return Step::Consumed(0);
            }
            let mut field = || fields.next().flatten();
            let credentials = field().zip(field());
            self.window = field().and_then(|window| window.parse().ok());
            match credentials {
                Some(credentials) => self.log_in(Some(credentials), cx),
                None => self.fail("LOGIN is followed by a user and a password", cx),
            }
        } else if let Some(session) = cx.session() {
            self.on_line(line, session, cx);
        }
        Step::Consumed(end + 1)
    }

    fn on_login(&mut self, _: &str, answer: LoginAnswer, cx: &mut Cx<'_>) {
        if !matches!(self.state, State::ExpectVerdict { .. }) {
            return;
        }
        match answer {
            LoginAnswer::Allowed { user, access, .. } => self.open(user, access, cx),
            LoginAnswer::Refused(LoginRefusal::Busy) => self.bye("try again later", cx),
            LoginAnswer::Refused(_) | LoginAnswer::Continue { .. } => {
                self.bye("user or password are wrong", cx);
            }
        }
    }

    fn on_notes(&mut self, notes: &mut VecDeque<Effect>, _: &mut Vec<u64>, cx: &mut Cx<'_>) {
        for note in notes.drain(..) {
            match note {
                Effect::Delivered(delivered) => LineFront::on_delivered(&delivered, cx),
                Effect::Subscribed(_, outcomes) => match outcomes.first() {
                    Some(Subscribed::Granted(_)) => self.answer(0, None, cx),
                    Some(Subscribed::BadFilter) => self.answer(0, Some("no such filter"), cx),
                    _ => self.answer(0, Some("the rules or limits do not allow it"), cx),
                },
                Effect::Published {
                    question,
                    is_refused,
                } => self.on_published(question, is_refused, cx),
                // By something that it did itself: the link ends with its session.
                Effect::Disconnected(why) => {
                    self.state = State::Closed;
                    LineFront::say(cx, "BYE", &[words(why)]);
                }
                // It asks for nothing else.
                _ => {}
            }
        }
    }

    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate {
        self.state = State::Closed;
        let mut line = "BYE ".to_owned();
        escape(words(why).as_bytes(), &mut line);
        line.push('\n');
        out.extend_from_slice(line.as_bytes());
        Fate::LinkEnds
    }

    fn takes_deliveries(&self) -> bool {
        true
    }

    fn is_connected(&self) -> bool {
        self.state == State::Open
    }

    fn holds_input(&self) -> bool {
        matches!(self.state, State::ExpectVerdict { .. })
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    fn counts(&self, show: &mut ShowCount<'_>) {
        show(&PUBLISHED, "", self.published);
    }

    fn silence_max(&self) -> Option<Span> {
        self.settings.silence_max
    }
}

fn words(why: CloseReason) -> &'static str {
    match why {
        CloseReason::TakenOver => "another connection has this session",
        CloseReason::Kicked => "an operator has ended the connection",
        CloseReason::NotAuthorized => "your credentials or rights have ended",
        CloseReason::ShuttingDown => "the broker is going down",
        CloseReason::QueueFull => "too much waits for this connection",
        CloseReason::Stalled => "messages were not acknowledged in time",
        CloseReason::Buffers => "memory is short",
    }
}

pub fn escape(bytes: &[u8], line: &mut String) {
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'%' => line.push(char::from(*byte)),
            _ => line.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Reads a field; nothing if it is no text.
pub fn unescape(field: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = rest.get(2..)?;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}
