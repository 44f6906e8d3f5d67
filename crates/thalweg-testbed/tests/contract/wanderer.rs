//! A front whose connections move to a home that their first bytes name: of the contracts, and of the server's tests.

use std::collections::VecDeque;
use thalweg_fronts::{Cx, DeferredFront, Effect, Fate, LoginAnswer, Step};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, OpenSession};

/// Lines: the first is `HOME <key>`, which opens the session there; each is answered by the shard it was handled on.
#[derive(Default)]
pub struct Wanderer {
    key: Option<u64>,
    moves: u32,
    is_open: bool,
}

impl DeferredFront for Wanderer {
    type Note = Effect;

    fn name(&self) -> &'static str {
        "wanderer"
    }

    fn step(&mut self, input: &[u8], cx: &mut Cx<'_>) -> Step {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            return Step::NeedMore;
        };
        let line = String::from_utf8_lossy(&input[..end]).into_owned();
        let shard = cx.kernel.shard().0;
        if let Some(key) = line.strip_prefix("HOME ")
            && self.key.is_none()
        {
            self.key = key.parse().ok();
            cx.send(format!("{shard}: from here\n").as_bytes());
            return Step::Consumed(end + 1);
        }
        if let Some(key) = self.key
            && self.moves == 0
        {
            self.moves += 1;
            return Step::Rehome(key);
        }
        if !self.is_open {
            let name = format!("wanderer {}", cx.id.0);
            let open = OpenSession::of_link(&name, cx.id, Access::ALL, "wanderer");
            cx.open_session(open).expect("there is room");
            self.is_open = true;
        }
        cx.send(format!("{shard}: {line}\n").as_bytes());
        Step::Consumed(end + 1)
    }

    fn on_login(&mut self, _: &str, _: LoginAnswer, _: &mut Cx<'_>) {}

    fn on_notes(&mut self, notes: &mut VecDeque<Effect>, _: &mut Vec<u64>, _: &mut Cx<'_>) {
        notes.clear();
    }

    fn disconnect(&mut self, _: CloseReason, out: &mut Vec<u8>) -> Fate {
        out.extend_from_slice(b"bye\n");
        Fate::LinkEnds
    }
}
