//! The audit trail in the log: who changed what, and what came of it.

use super::*;
use std::fmt::{Debug, Write as _};
use std::sync::Once;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What the interface has logged, each event on a line.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("thalweg_admin")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} ", event.metadata().level());
        event.record(&mut Fields(&mut line));
        LINES.lock().expect("no test has failed").push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The lines about a path, of which no other test may ask.
fn lines(path: &str) -> Vec<String> {
    let all = LINES.lock().expect("no test has failed");
    let about = format!("path={path:?}");
    all.iter()
        .filter(|line| line.contains(&about))
        .cloned()
        .collect()
}

#[test]
fn each_action_is_logged_with_who_asked_and_what_came_of_it_and_a_question_is_not() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Log).expect("there is no other"));
    let broker = Broker::start(Some("secret"));
    let _client = broker.client("audited");
    let path = "/v1/connections/audited";
    let question = "/v1/session/audited";
    assert_eq!(broker.ask("GET", question, &[], b"").0, 200);
    assert_eq!(lines(question), [""; 0], "a question changes nothing");
    let (status, _) = broker.ask("DELETE", path, &["X-Thalweg: 1"], b"");
    assert!((200..300).contains(&status), "{status}");
    let (again, _) = broker.ask("DELETE", path, &["X-Thalweg: 1"], b"");
    let logged = lines(path);
    assert_eq!(logged.len(), 2, "{logged:?}");
    for (line, status) in logged.iter().zip([status, again]) {
        for part in [
            "INFO ",
            "admin action",
            "method=DELETE",
            "caller=127.0.0.1:",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(line.contains(&format!("status={status} ")), "{line}");
        assert!(!line.contains("secret"), "{line}");
    }
    // Without the header that no web page can send, and without the token.
    let refused = "/v1/connections/refused";
    assert_eq!(broker.ask("DELETE", refused, &[], b"").0, 403);
    let stranger = Broker {
        token: None,
        ..broker
    };
    assert_eq!(
        stranger.ask("DELETE", refused, &["X-Thalweg: 1"], b"").0,
        401
    );
    let logged = lines(refused);
    assert_eq!(logged.len(), 2, "{logged:?}");
    for (line, status) in logged.iter().zip([403, 401]) {
        assert!(line.starts_with("WARN "), "{line}");
        assert!(line.contains("admin request refused"), "{line}");
        assert!(line.contains(&format!("status={status} ")), "{line}");
    }
}
