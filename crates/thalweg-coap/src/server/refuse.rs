//! Answers of the machine itself: the application does not hear of these requests.

use thalweg_wire::Time;

use super::ServerSide;
use super::receive::Asked;
use crate::dedup::Again;
use crate::outgoing::put;
use crate::{Code, Datagrams, Encoder, OptionOut, Type, Value, option};

impl ServerSide {
    pub(super) fn demand_echo(&mut self, asked: &Asked, now: Time, out: &mut Datagrams) {
        self.counts.echo_demanded += 1;
        let value = self.echo.value(asked.from, now);
        let own = Some((option::ECHO, Value::Opaque(&value)));
        self.answer(asked, Code::UNAUTHORIZED, &[own], &[], false, now, out);
    }

    #[cold]
    pub(super) fn overloaded(
        &mut self,
        asked: &Asked,
        why: &str,
        seconds: u32,
        now: Time,
        out: &mut Datagrams,
    ) {
        self.counts.overloaded += 1;
        let age = Some((option::MAX_AGE, Value::Uint(seconds)));
        self.refuse(asked, Code::SERVICE_UNAVAILABLE, &[age], why, now, out);
    }

    /// Answers with an error and a diagnostic payload. RFC 7252 §5.5.2
    #[cold]
    pub(super) fn refuse(
        &mut self,
        asked: &Asked,
        code: Code,
        own: &[Option<OptionOut<'_>>],
        why: &str,
        now: Time,
        out: &mut Datagrams,
    ) {
        *if code.class() == 4 {
            &mut self.counts.refused
        } else {
            &mut self.counts.failed
        } += 1;
        let mut payload = Vec::new();
        Encoder::body(&mut payload).payload(why.as_bytes());
        self.answer(asked, code, own, &payload, false, now, out);
    }

    /// Answers without the application: `own` are options, behind them `body` as on the wire.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn answer(
        &mut self,
        asked: &Asked,
        code: Code,
        own: &[Option<OptionOut<'_>>],
        body: &[u8],
        remember: bool,
        now: Time,
        out: &mut Datagrams,
    ) {
        if asked.unwanted.suppresses(code) {
            return;
        }
        let (kind, id) = match asked.is_confirmable {
            true => (Type::Acknowledgement, asked.key.id),
            false => (Type::NonConfirmable, self.endpoint.next_id(asked.peer)),
        };
        out.push(asked.from, |out| {
            let mut encoder = Encoder::start(out, kind, code, id, asked.token);
            for (number, value) in own.iter().flatten() {
                put(&mut encoder, *number, *value);
            }
            out.extend_from_slice(body);
        });
        if remember {
            let again = if asked.is_confirmable {
                Again::Respond(code)
            } else {
                Again::Ignore
            };
            let body = out.last().get(4 + asked.token.len()..).unwrap_or_default();
            let (most, most_bytes) = (
                self.settings.remembered_max,
                self.settings.remembered_bytes_max,
            );
            self.remembered.forget_some_old(self.exchange_lifetime, now);
            self.remembered
                .insert(asked.key, again, body, now, most, most_bytes);
        }
    }
}
