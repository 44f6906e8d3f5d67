//! Peers that send anything to a server in datagrams. The input is a list of steps: a byte says who sends, or what the
//! application does, or how much time passes; a datagram has its length before it.
#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use thalweg_coap::{
    Code, Datagrams, Delivery, Event, ExchangeId, Message, RelationId, Response, ServerSettings,
    ServerSide, SharedBody,
};
use thalweg_wire::{Span, Time};

fn settings() -> ServerSettings {
    ServerSettings {
        peers_max: 3,
        exchanges_max: 6,
        exchanges_per_peer: 3,
        remembered_max: 20,
        remembered_bytes_max: 1000,
        relations_max: 6,
        relations_per_peer: 3,
        waiting_per_peer: 2,
        sendings_max: 8,
        transfer_bytes_max: 200,
        transfers_max: 3,
        kept_responses_max: 2,
        ..ServerSettings::default()
    }
}

struct World {
    server: ServerSide,
    now: Time,
    out: Datagrams,
    open: Vec<ExchangeId>,
    relations: Vec<RelationId>,
}

impl World {
    fn feed(&mut self, peer: u8, datagram: &[u8]) {
        let from = SocketAddr::from(([10, 0, 0, peer % 5], 5683));
        if let Some(Event::Request(request)) =
            self.server
                .handle_datagram(from, datagram, self.now, &mut self.out)
        {
            assert!(request.code.is_request());
            if request.observe.is_some() {
                self.relations
                    .extend(self.server.observe(request.exchange, 1, None, self.now));
            }
            self.open.push(request.exchange);
        }
    }

    fn act(&mut self, what: u8) {
        let payload = vec![1; [0, 60, 300, 3000][usize::from(what >> 3 & 3)]];
        let response = Response {
            code: Code::CONTENT,
            options: &[],
            payload: &payload,
        };
        let now = self.now;
        match (what & 7, self.open.pop()) {
            (0, Some(exchange)) => self.server.respond_later(exchange, now, &mut self.out),
            (1, Some(exchange)) => self.server.ignore(exchange, now, &mut self.out),
            (2, Some(exchange)) => {
                let _ = self
                    .server
                    .respond_confirmed(exchange, 1, &response, now, &mut self.out);
            }
            (_, Some(exchange)) => {
                let _ = self.server.respond(exchange, &response, now, &mut self.out);
            }
            (0, None) => {
                let relation = self.relations.pop();
                relation
                    .into_iter()
                    .for_each(|r| self.server.end_observation(r, None, now, &mut self.out));
            }
            (kind, None) => {
                let body = Arc::new(SharedBody::new(Code::CONTENT, &[], &payload));
                let delivery = [
                    Delivery::Auto,
                    Delivery::Confirmable,
                    Delivery::NonConfirmable,
                ][usize::from(kind % 3)];
                for relation in &self.relations {
                    let _ = self
                        .server
                        .notify(*relation, &body, delivery, now, &mut self.out);
                }
            }
        }
    }

    fn wait(&mut self, eighths: u8) {
        self.now += Span::from_millis(125 * u64::from(eighths));
        self.server.handle_timeout(self.now, &mut self.out);
        assert!(self.server.poll_timeout() > self.now);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut world = World {
        server: ServerSide::new(Arc::new(settings()), 1),
        now: Time::from_secs(1_795_000_000),
        out: Datagrams::new(),
        open: Vec::new(),
        relations: Vec::new(),
    };
    let mut rest = input;
    while let [step, value, tail @ ..] = rest {
        rest = tail;
        match step % 4 {
            0 => world.act(*value),
            1 => world.wait(*value),
            _ => {
                let (datagram, tail) = rest.split_at(usize::from(*value).min(rest.len()));
                rest = tail;
                world.feed(step >> 2, datagram);
            }
        }
        for (_, datagram) in world.out.iter() {
            assert!(Message::decode(datagram).is_ok());
        }
        world.out.clear();
        while world.server.poll_event().is_some() {}
        let World {
            server, relations, ..
        } = &mut world;
        relations.retain(|relation| server.relation(*relation).is_some());
        assert!(server.peers() <= 3 && server.relations() <= 6);
    }
});
