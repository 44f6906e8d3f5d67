//! A driver in a process of its own: a program written against a stock library, in any language.
//!
//! It is started with nothing, and talks in lines:
//!
//! ```text
//!  to the program                                   from the program
//!  {"cell":…, "run":7, "publish_at":"10.80.2.2:1883",
//!   "subscribe_at":…, "topics":["lab/0",…],
//!   "schedule":"/tmp/…/schedule.csv"}    ──>
//!                                        <──  ready            connected, all subscriptions stand
//!  begin 123456789000                    ──>                   CLOCK_MONOTONIC in ns, to which offsets are added
//!                                        <──  s 0 17 123 456   flow, seq, tried, handed over (ns of CLOCK_MONOTONIC)
//!                                        <──  r 0 0 17 789     copy, flow, seq, received
//!                                        <──  a 0 17           flow, seq: acknowledged
//!                                        <──  n words          a note
//!  end                                   ──>                   (or the end of standard input)
//!                                        <──  overflow 3       received and thrown away
//!                                        <──  end              or: fault words
//! ```
//!
//! `schedule.csv` has a line `offset_ns,flow,seq,size` for each message, in order of time; it is empty for a flood or a
//! closed loop, which the cell's `load` describes; message `seq` of flow `flow` then has the size in line
//! `(7919 * flow + seq) mod lines` of `sizes.csv`. A payload is `size` bytes, in the layout of [`crate::load::header`] where a
//! subscriber of another process has to read it; the program may say what it wants in them otherwise. Lines may be written
//! late, all at the end if need be: they carry times of their own.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Fault;

/// What a program says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEvent {
    Ready,
    Sent(SentMessage),
    Received(ReceivedMessage),
    /// A message was acknowledged.
    Acknowledged,
    Note(String),
    /// Messages that were received and thrown away.
    Overflow(u64),
    End,
    /// It is done because of this.
    Fault(String),
}

/// Flow, number, when it was tried first, when it was handed over.
pub type SentMessage = (u32, u32, u64, u64);
/// Which of the topic's subscribers has it, flow, number, when it came.
pub type ReceivedMessage = (u32, u32, u32, u64);

impl ProgramEvent {
    pub fn read(line: &str) -> Result<ProgramEvent, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers = rest.split_ascii_whitespace();
        let numbers: Vec<u64> = numbers.map_while(|it| it.parse().ok()).collect();
        let said = match (word, &numbers[..]) {
            ("ready", _) => Some(ProgramEvent::Ready),
            ("s", &[flow, seq, tried, at]) => {
                let sent = (flow as u32, seq as u32, tried, at);
                Some(ProgramEvent::Sent(sent))
            }
            ("r", &[copy, flow, seq, at]) => {
                let received = (copy as u32, flow as u32, seq as u32, at);
                Some(ProgramEvent::Received(received))
            }
            ("a", _) => Some(ProgramEvent::Acknowledged),
            ("n", _) => Some(ProgramEvent::Note(rest.to_owned())),
            ("overflow", &[count]) => Some(ProgramEvent::Overflow(count)),
            ("end", _) => Some(ProgramEvent::End),
            ("fault", _) => Some(ProgramEvent::Fault(rest.to_owned())),
            _ => None,
        };
        said.ok_or_else(|| format!("the program says {line:?}"))
    }
}

/// A program that runs; killed when dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    said: Receiver<ProgramEvent>,
}

impl Program {
    /// Starts it, gives it the job, and waits until it is ready.
    pub fn start(mut command: Command, job: &Value, within: Duration) -> Result<Program, Fault> {
        let words = |error: io::Error| format!("the program: {error}");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(words)?;
        let (tell, said) = channel();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        thread::spawn(move || {
            let lines = stdout.into_iter().map(|out| BufReader::new(out).lines());
            for line in lines.flatten().map_while(Result::ok) {
                let said = ProgramEvent::read(&line).unwrap_or_else(ProgramEvent::Fault);
                if tell.send(said).is_err() {
                    return;
                }
            }
            // A program that ended without a line has ended too early.
            let lines = stderr.into_iter().map(|err| BufReader::new(err).lines());
            let why = lines.flatten().map_while(Result::ok).last();
            let why = why.unwrap_or_else(|| "it has ended".to_owned());
            let _ = tell.send(ProgramEvent::Fault(why));
        });
        let mut program = Program { child, said };
        program.tell(&job.to_string())?;
        loop {
            match program.said.recv_timeout(within) {
                Ok(ProgramEvent::Ready) => return Ok(program),
                Ok(ProgramEvent::Note(_)) => {}
                Ok(ProgramEvent::Fault(why)) => return Err(format!("the program: {why}")),
                Ok(other) => return Err(format!("the program says {other:?} before it is ready")),
                Err(_) => return Err("the program does not get ready".to_owned()),
            }
        }
    }

    pub fn begin(&mut self, at: u64) -> Result<(), Fault> {
        self.tell(&format!("begin {at}"))
    }

    pub fn end(&mut self) -> Result<(), Fault> {
        self.tell("end")
    }

    /// What it says next, if that is soon.
    pub fn hear(&self, within: Duration) -> Option<ProgramEvent> {
        match self.said.recv_timeout(within) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(ProgramEvent::Fault("it has ended".to_owned()))
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn tell(&mut self, line: &str) -> Result<(), Fault> {
        let words = |error: io::Error| format!("the program takes nothing: {error}");
        let Some(stdin) = &mut self.child.stdin else {
            return Ok(());
        };
        stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.write_all(b"\n"))
            .and_then(|()| stdin.flush())
            .map_err(words)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It keeps nothing that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_others_refused() {
        for (line, event) in [
            ("s 1 2 30 40", ProgramEvent::Sent((1, 2, 30, 40))),
            ("r 0 1 2 99", ProgramEvent::Received((0, 1, 2, 99))),
            ("n paho 1.6", ProgramEvent::Note("paho 1.6".to_owned())),
            ("fault no route", ProgramEvent::Fault("no route".to_owned())),
        ] {
            assert_eq!(ProgramEvent::read(line), Ok(event));
        }
        for line in ["", "s 1 2 3", "r 1", "x 1 2 3", "overflow many"] {
            assert!(ProgramEvent::read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_program_that_ends_too_early_is_a_fault_with_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "read job; echo ready; read begin; echo n $begin; echo s 0 0 1 2; echo sorry >&2; exit 3"]);
        let mut program =
            Program::start(command, &Value::Null, Duration::from_secs(60)).expect("it starts");
        program.begin(77).expect("it takes that");
        for event in [
            ProgramEvent::Note("begin 77".to_owned()),
            ProgramEvent::Sent((0, 0, 1, 2)),
            ProgramEvent::Fault("sorry".to_owned()),
        ] {
            assert_eq!(program.hear(Duration::from_secs(60)), Some(event));
        }
    }
}
