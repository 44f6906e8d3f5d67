//! CoAP over TCP, TLS and WebSocket: [`CoapStream`]. RFC 8323
//!
//! The transport repeats and keeps order, so many publishes may be under way, and each is answered under its token.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_coap::stream::{ClientEvent, ClientSide, NotSent, StreamMessage, StreamSettings};
use thalweg_coap::{Code, Encoder, Observe, OptionOut, Token, Value, option};
use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Time};

use super::CoapSettings;
use super::observations::Observations;
use super::wording::{self, Answer, Wording};
use crate::message::Retain;
use crate::plugin::{Asked, Connection, Cx, Plugin, Step, has_connection};
use crate::transport::{
    Capabilities, Departure, Endpoint, Events, LinkFault, MessageId, Opening, Outbound, Refusal,
    RequestId, SubscribeWish, SubscriptionId, Welcome,
};

/// A lane that speaks CoAP over a stream.
#[derive(Debug)]
pub struct CoapStream {
    conn: Connection,
    requests: Requests,
    observations: Observations<Token>,
    in_flight: usize,
    pause_until: Time,
    wording: Wording,
}

/// Requests that wait for their responses.
#[derive(Debug)]
struct Requests {
    side: ClientSide,
    asked: HashMap<Token, Request, FixedState>,
}

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
struct Request {
    purpose: Purpose,
    sent_at: Time,
    /// An observation's first response has come.
    has_state: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Hello,
    Publish(MessageId),
    Observe(SubscriptionId),
    Question(RequestId),
    Read(RequestId),
}

/// Publishes under way at a time.
const WINDOW: usize = 1024;

impl Requests {
    fn ask(
        &mut self,
        (code, options): (Code, &[OptionOut<'_>]),
        payload: &[u8],
        purpose: Purpose,
        sent_at: Time,
        out: &mut Vec<u8>,
    ) -> Asked<Token> {
        let observes = matches!(purpose, Purpose::Observe(_));
        let write = |encoder: &mut Encoder<'_>| {
            if observes {
                encoder.uint(option::OBSERVE, Observe::Register.encode());
            }
            put(options, encoder);
        };
        let token = self.side.request(code, observes, write, payload, out);
        let token = token.map_err(not_sent)?;
        let request = Request {
            purpose,
            sent_at,
            has_state: false,
        };
        self.asked.insert(token, request);
        Ok(token)
    }

    fn forget(&mut self, token: Token) {
        self.asked.remove(&token);
        self.side.forget(token);
    }
}

impl CoapStream {
    /// A lane to this endpoint, not connected yet.
    pub fn new(endpoint: Endpoint, settings: CoapSettings) -> Self {
        CoapStream {
            conn: Connection::new(endpoint, usize::MAX),
            requests: Requests {
                side: machine(&settings),
                asked: HashMap::with_hasher(FixedState::default()),
            },
            observations: Observations::default(),
            in_flight: 0,
            pause_until: Time::ZERO,
            wording: Wording::new(settings, true),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &CoapSettings {
        self.wording.settings()
    }

    fn observe(
        &mut self,
        id: SubscriptionId,
        address: &str,
        reliability: Reliability,
        out: &mut Vec<u8>,
    ) -> Asked<Token> {
        let queue = self.settings().queue;
        let queries = [format_args!("queue={queue}"), format_args!("qos=1")];
        let wanted = match reliability {
            Reliability::AtMostOnce => &[][..],
            _ => &queries[..],
        };
        let options = self.wording.get(address, wanted)?;
        let (get, purpose) = ((Code::GET, options.as_slice()), Purpose::Observe(id));
        self.requests.ask(get, &[], purpose, self.conn.now(), out)
    }

    fn register_due(&mut self, out: &mut Vec<u8>) {
        let mut observations = std::mem::take(&mut self.observations);
        observations.register_due(self.conn.now(), |id, address, reliability| {
            self.observe(id, address, reliability, out)
        });
        self.observations = observations;
    }

    fn on_event(&mut self, event: ClientEvent<'_>, cx: &mut Cx<'_>) -> Step {
        let side = &mut self.requests.side;
        match event {
            ClientEvent::Csm(_) | ClientEvent::Ignored => {}
            ClientEvent::Response { message, is_last } => {
                self.on_response(&message, is_last, cx.events);
            }
            // We are no server. RFC 7252 §5.9.3.2
            ClientEvent::Request(message) => {
                let _ = side.respond(message.token, Code::NOT_IMPLEMENTED, |_| {}, &[], cx.out);
            }
            ClientEvent::Ping { token, custody } => side.pong(token, custody, cx.out),
            ClientEvent::Pong { .. } => _ = self.conn.answered(cx.events),
            ClientEvent::Release(_) => {
                return Err(LinkFault::temporary(
                    "the server wants the connection to end",
                ));
            }
            ClientEvent::Abort(abort) => {
                let words = String::from_utf8_lossy(abort.diagnostic);
                let words = format!("the server ends the connection: {words}");
                return Err(LinkFault::temporary(words));
            }
        }
        Ok(())
    }

    fn on_response(&mut self, message: &StreamMessage<'_>, is_last: bool, events: &mut dyn Events) {
        let now = self.conn.now();
        let answer = Answer {
            code: message.code,
            options: &message.options,
            payload: message.payload,
        };
        let Some(request) = self.requests.asked.get_mut(&message.token) else {
            return;
        };
        let before = *request;
        request.has_state = true;
        if is_last {
            self.requests.asked.remove(&message.token);
        }
        if let Some(pause) = answer.pause() {
            self.pause_until = self.pause_until.max(now + pause);
            self.conn.hold();
            events.pressed();
        }
        match before.purpose {
            Purpose::Hello => {
                self.wording.stamps = answer.announces(STAMPS_ANNOUNCEMENT);
                events.round_trip(now.since(before.sent_at));
                self.conn.be_up(&Welcome::default(), events);
            }
            Purpose::Publish(id) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                events.round_trip(now.since(before.sent_at));
                events.settled(id, answer.outcome());
            }
            Purpose::Observe(id) if is_last => {
                self.observations.ended(id, Some(&answer), now, events);
            }
            Purpose::Observe(id) => {
                if let Some(found) = self.observations.get_mut(id) {
                    found.notified(!before.has_state, &answer, events);
                }
            }
            Purpose::Question(request) => answer.tell_answer(request, events),
            Purpose::Read(request) => answer.tell_value(request, events),
        }
    }
}

impl Plugin for CoapStream {
    const PROTOCOL: &'static str = "coap";
    type Scratch = ();

    has_connection!();

    fn offers(&self) -> Capabilities {
        let message_bytes_max = self.requests.side.peer().message_bytes_max as usize;
        Capabilities {
            // Room for the path and other options.
            payload_bytes_max: message_bytes_max.saturating_sub(512),
            ..super::offers(&self.wording)
        }
    }

    fn connect(&mut self, _: &Opening, out: &mut Vec<u8>) -> Step {
        self.requests.side.open(out);
        // It is smaller than the size that every server accepts. §5.3.1
        let get = (Code::GET, &wording::hello()[..]);
        let _ = self
            .requests
            .ask(get, &[], Purpose::Hello, self.conn.now(), out);
        Ok(())
    }

    fn step(&mut self, input: &[u8], _: &mut (), cx: &mut Cx<'_>) -> Step<Option<usize>> {
        match self.requests.side.handle_input(input) {
            Ok(Some((len, event))) => self.on_event(event, cx).map(|()| Some(len)),
            Ok(None) => Ok(None),
            Err(fault) => {
                self.requests.side.fault(&fault, cx.out);
                Err(LinkFault::temporary(fault))
            }
        }
    }

    fn after_input(&mut self, cx: &mut Cx<'_>) {
        self.register_due(cx.out);
    }

    fn next_timeout(&self) -> Time {
        let is_paused = self.conn.was_full() && self.pause_until > Time::ZERO;
        let pause = Some(self.pause_until).filter(|_| is_paused);
        self.observations
            .next_retry()
            .min(pause.unwrap_or(Time::NEVER))
    }

    fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Step {
        if self.pause_until <= self.conn.now() {
            self.pause_until = Time::ZERO;
        }
        self.register_due(cx.out);
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.in_flight < WINDOW && self.pause_until <= self.conn.now()
    }

    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure> {
        let (now, is_unanswered) = (
            self.conn.now(),
            message.reliability == Reliability::AtMostOnce,
        );
        if self.pause_until > now || (!is_unanswered && self.in_flight >= WINDOW) {
            return Err(Refusal::Window);
        }
        let payload = match message.retain {
            Retain::Clear => &[][..],
            _ => message.payload,
        };
        let (code, options) = self.wording.publish(message, is_unanswered)?;
        let options = options.as_slice();
        if is_unanswered {
            let write = |encoder: &mut Encoder<'_>| put(options, encoder);
            let told = self.requests.side.tell(code, write, payload, out);
            return told.map(|()| Departure::Gone).map_err(not_sent);
        }
        let purpose = Purpose::Publish(message.id);
        self.requests
            .ask((code, options), payload, purpose, now, out)?;
        self.in_flight += 1;
        Ok(Departure::Awaited)
    }

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, out: &mut Vec<u8>) -> Asked {
        if let Some(refusal) = super::unobservable(wish.filter, self.wording.stamps) {
            return Err(refusal);
        }
        self.end_subscription(wish.subscription, out);
        let token = self.observe(wish.subscription, wish.filter, wish.reliability, out)?;
        self.observations.add(wish, token);
        Ok(())
    }

    fn end_subscription(&mut self, id: SubscriptionId, out: &mut Vec<u8>) {
        let Some(gone) = self.observations.remove(id) else {
            return;
        };
        let Some(token) = gone.request else { return };
        self.requests.forget(token);
        if let Ok(options) = self.wording.get(&gone.address, &[]) {
            let write = |encoder: &mut Encoder<'_>| {
                encoder.uint(option::OBSERVE, Observe::Deregister.encode());
                put(options.as_slice(), encoder);
            };
            // The answer is one more that nobody waits for.
            let side = &mut self.requests.side;
            let _ = side.request_again(token, Code::GET, write, &[], out);
        }
    }

    fn ask(&mut self, id: RequestId, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked {
        let (code, options) = self.wording.question(message)?;
        let (said, purpose) = ((code, options.as_slice()), Purpose::Question(id));
        let now = self.conn.now();
        let token = self.requests.ask(said, message.payload, purpose, now, out);
        token.map(drop)
    }

    fn ask_value(&mut self, id: RequestId, address: &str, out: &mut Vec<u8>) -> Asked {
        let options = self.wording.get(address, &[])?;
        let (get, purpose) = ((Code::GET, options.as_slice()), Purpose::Read(id));
        let token = self.requests.ask(get, &[], purpose, self.conn.now(), out);
        token.map(drop)
    }

    fn drop_question(&mut self, id: RequestId) {
        let is_it = |request: &Request| matches!(request.purpose, Purpose::Question(asked) | Purpose::Read(asked) if asked == id);
        let mut asked = self.requests.asked.iter();
        if let Some(token) = asked.find(|(_, it)| is_it(it)).map(|(token, _)| *token) {
            // Later responses to this token are ignored.
            self.requests.forget(token);
        }
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        self.requests.side.ping(Token::EMPTY, false, out);
    }

    fn say_goodbye(&mut self, out: &mut Vec<u8>) {
        self.requests.side.release(out);
    }

    fn reset(&mut self) {
        self.requests.side = machine(self.wording.settings());
        self.requests.asked.clear();
        self.observations = Observations::default();
        self.in_flight = 0;
        self.pause_until = Time::ZERO;
    }
}

fn machine(settings: &CoapSettings) -> ClientSide {
    let message_bytes_max =
        u32::try_from(settings.body_bytes_max.saturating_add(1024)).unwrap_or(u32::MAX);
    // Without blocks a server sends what there is as one message, or says that it is too large.
    ClientSide::new(StreamSettings {
        message_bytes_max,
        blockwise: false,
    })
}

fn put(options: &[OptionOut<'_>], encoder: &mut Encoder<'_>) {
    for (number, value) in options {
        match *value {
            Value::Uint(value) => encoder.uint(*number, value),
            Value::Opaque(value) => encoder.option(*number, value),
        };
    }
}

fn not_sent(why: NotSent) -> Refusal {
    match why {
        NotSent::TooLarge { message_bytes_max } => Refusal::TooLarge {
            limit: (message_bytes_max as usize).saturating_sub(512),
        },
        NotSent::TooManyRequests => Refusal::Window,
        NotSent::Closed => Refusal::NotConnected,
    }
}
