//! A second protocol, written from "Add a protocol" in CONTRIBUTING and nothing else: what the page says holds while this
//! compiles and passes. One request publishes its body: `POST /plant/1` to the address `plant/1`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;
use thalweg_fronts::{
    AnyFront, Cx, DeferredFront, Effect, Fate, FrontSettings, LoginAnswer, LoginRefusal, Step,
};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Closing, Draft, OpenSession, Outcome};
use thalweg_model::{Address, Reliability};

const DONE: &str = "204 No Content";
const NO_ROOM: &str = "503 Service Unavailable";

struct PostSettings {
    /// Bytes of a request, head and body together.
    request_bytes_max: usize,
}

impl FrontSettings for PostSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(AnyFront::extension(PostFront {
            settings: self,
            nonce,
            anonymous,
            state: State::ExpectRequest,
            late: VecDeque::new(),
            fault: None,
        }))
    }
}

struct PostFront {
    settings: Arc<PostSettings>,
    nonce: u64,
    anonymous: Option<Access>,
    state: State,
    /// Answers from the first on that waits for other shards: their question, 0 if it waits only for those before it.
    late: VecDeque<(u64, &'static str)>,
    fault: Option<String>,
}

#[derive(PartialEq)]
enum State {
    /// The first request of a connection says who all of them are from.
    ExpectRequest,
    ExpectVerdict,
    Open,
    /// The last answer ends the connection.
    Ending,
    Closed,
}

/// What one POST says, head and body.
struct Request<'a> {
    address: &'a str,
    user: Option<(String, String)>,
    body: &'a [u8],
    /// Bytes of all of it.
    len: usize,
}

impl PostFront {
    /// The request at the start of the input, if it is whole.
    fn read<'a>(&self, input: &'a [u8]) -> Result<Option<Request<'a>>, &'static str> {
        let Some(head_len) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
            return match input.len() > self.settings.request_bytes_max {
                true => Err("431 Request Header Fields Too Large"),
                false => Ok(None),
            };
        };
        let head = input.get(..head_len).unwrap_or_default();
        let head = std::str::from_utf8(head).map_err(|_| "400 Bad Request")?;
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (first.next(), first.next().unwrap_or_default());
        if method != Some("POST") {
            return Err("405 Method Not Allowed");
        }
        let (mut body_len, mut user) = (0, None);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                body_len = value.trim().parse().map_err(|_| "400 Bad Request")?;
            } else if name.eq_ignore_ascii_case("authorization") {
                user = Some(credentials(value).ok_or("401 Unauthorized")?);
            }
        }
        let len = (head_len + 4).saturating_add(body_len);
        if len > self.settings.request_bytes_max {
            return Err("413 Content Too Large");
        }
        let body = input.get(head_len + 4..len);
        let address = target.trim_start_matches('/');
        Ok(body.map(|body| Request {
            address,
            user,
            body,
            len,
        }))
    }

    /// Answers are in the order of their requests.
    fn answer(&mut self, question: u64, status: &'static str, cx: &mut Cx<'_>) {
        self.late.push_back((question, status));
        self.answer_late(cx);
    }

    fn answer_late(&mut self, cx: &mut Cx<'_>) {
        while let Some((_, status)) = self.late.pop_front_if(|(question, _)| *question == 0) {
            cx.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
        if self.state == State::Ending && self.late.is_empty() {
            self.state = State::Closed;
            cx.end(Closing::Cut, None);
        }
    }

    fn fail(&mut self, status: &'static str, cx: &mut Cx<'_>) {
        self.fault = Some(status.to_owned());
        self.state = State::Ending;
        self.answer(0, status, cx);
    }

    fn open(&mut self, user: Option<Box<str>>, access: Access, cx: &mut Cx<'_>) {
        let client = cx.kernel.unused_client_id(self.nonce);
        let open = OpenSession {
            user: user.map(Into::into),
            ..OpenSession::of_link(&client, cx.id, access, "post")
        };
        match cx.open_session(open) {
            Ok(opened) => {
                self.state = State::Open;
                cx.start(opened.session);
            }
            Err(_) => self.fail("503 Service Unavailable", cx),
        }
    }
}

impl DeferredFront for PostFront {
    type Note = Effect;

    fn name(&self) -> &'static str {
        "post"
    }

    fn step(&mut self, input: &[u8], cx: &mut Cx<'_>) -> Step {
        if !matches!(self.state, State::ExpectRequest | State::Open) {
            return Step::Hold;
        }
        let request = match self.read(input) {
            Ok(Some(request)) => request,
            Ok(None) => return Step::NeedMore,
            Err(status) => {
                self.fail(status, cx);
                return Step::Hold;
            }
        };
        let Some(session) = cx.session() else {
            // It comes again when it is known whose it is.
            match (request.user, self.anonymous.take()) {
                (None, Some(access)) => self.open(None, access, cx),
                (user, _) => {
                    self.state = State::ExpectVerdict;
                    let client = cx.kernel.unused_client_id(self.nonce);
                    let (user, password) = user.unzip();
                    let password = password.map(|password| password.into_bytes().into());
                    cx.ask_password(client, user.map(Into::into), password);
                }
            }
            return Step::Consumed(0);
        };
        if Address::check(request.address).is_err() {
            self.answer(0, "400 Bad Request", cx);
            return Step::Consumed(request.len);
        }
        let draft = Draft::new(request.address, request.body, Reliability::AtLeastOnce);
        let (question, status) = match cx.publish(session, draft) {
            Outcome::Accepted | Outcome::NoMatch => (0, DONE),
            Outcome::Asked => (cx.kernel.question(), DONE),
            Outcome::Denied => (0, "403 Forbidden"),
            Outcome::BadAddress => (0, "414 URI Too Long"),
            Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => (0, NO_ROOM),
        };
        self.answer(question, status, cx);
        Step::Consumed(request.len)
    }

    fn on_login(&mut self, _: &str, answer: LoginAnswer, cx: &mut Cx<'_>) {
        if self.state != State::ExpectVerdict {
            return;
        }
        match answer {
            LoginAnswer::Allowed { user, access, .. } => self.open(user, access, cx),
            LoginAnswer::Refused(LoginRefusal::Busy) => self.fail("503 Service Unavailable", cx),
            LoginAnswer::Refused(_) | LoginAnswer::Continue { .. } => {
                self.fail("401 Unauthorized", cx);
            }
        }
    }

    fn on_notes(&mut self, notes: &mut VecDeque<Effect>, _: &mut Vec<u64>, cx: &mut Cx<'_>) {
        for note in notes.drain(..) {
            let Effect::Published {
                question,
                is_refused,
            } = note
            else {
                continue;
            };
            if let Some(answer) = self.late.iter_mut().find(|(of, _)| *of == question) {
                *answer = (0, if is_refused { NO_ROOM } else { DONE });
            }
        }
        self.answer_late(cx);
    }

    /// HTTP has no word for it.
    fn disconnect(&mut self, _: CloseReason, _: &mut Vec<u8>) -> Fate {
        self.state = State::Closed;
        Fate::LinkEnds
    }

    fn is_connected(&self) -> bool {
        self.state == State::Open
    }

    fn holds_input(&self) -> bool {
        self.state == State::ExpectVerdict
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

fn credentials(value: &str) -> Option<(String, String)> {
    let encoded = value.trim().strip_prefix("Basic ")?;
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn request(target: &str, more: &str, body: &str) -> String {
    let len = body.len();
    format!("POST {target} HTTP/1.1\r\nContent-Length: {len}\r\n{more}\r\n{body}")
}

#[test]
fn a_post_is_a_publish_and_its_status_what_became_of_it() {
    let settings = PostSettings {
        request_bytes_max: 1000,
    };
    let rules = std::env::temp_dir().join(format!("thalweg-post-{}.acl", std::process::id()));
    std::fs::write(&rules, "topic readwrite plant/#\n").expect("a file of rules");
    let acl = format!("access.acl_file={}", rules.display());
    let server = super::start(&[&acl], Some(Arc::new(settings))).expect("it starts");
    let mut client = super::Client::connect(&server);
    for (sent, status) in [
        (request("/plant/1", "", "20 degrees"), "204"),
        (request("/plant/2", "", ""), "204"),
        (request("/other/1", "", "x"), "403"),
        (request("/plant/#", "", "x"), "400"),
        // The first that breaks the rules is the last.
        (request("/plant/1", "", &"x".repeat(1000)), "413"),
    ] {
        // In two pieces, as a network may have it.
        let (one, two) = sent.split_at(sent.len() / 2);
        let socket = client.0.get_mut();
        socket.write_all(one.as_bytes()).expect("it is taken");
        socket.write_all(two.as_bytes()).expect("it is taken");
        assert_eq!(client.status(), status, "{sent}");
    }
    assert_eq!(client.0.read(&mut [0]).expect("it is closed in order"), 0);
    // Who says a name is asked about, and this broker knows no passwords.
    for (value, status) in [("Basic YWRhOng=", "204"), ("Basic ?", "401")] {
        let mut client = super::Client::connect(&server);
        let sent = request("/plant/1", &format!("Authorization: {value}\r\n"), "x");
        client.0.get_mut().write_all(sent.as_bytes()).expect("sent");
        assert_eq!(client.status(), status, "{value}");
    }
    std::fs::remove_file(rules).expect("it is still there");
}

impl super::Client {
    /// The status of the next answer.
    fn status(&mut self) -> String {
        let first = self.hears();
        while !self.hears().is_empty() {}
        first.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}
