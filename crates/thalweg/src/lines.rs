//! Standard input, line by line, as happenings of a link.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::thread;

use crate::link::Happening;

/// Asks the thread that reads lines for more.
#[derive(Debug)]
pub struct Appetite(Sender<()>);

impl Appetite {
    /// Asks for the next lines. They come as one [`Happening::Lines`], or [`Happening::LinesEnded`].
    pub fn more(&self) {
        // It fails when the input has ended, and that was told.
        let _ = self.0.send(());
    }
}

/// Reads lines in a thread of its own, since standard input cannot be waited for together with a socket. It reads only
/// when asked: what a slow broker does not take stays in the pipe.
pub fn read_lines(input: impl Read + Send + 'static, teller: SyncSender<Happening>) -> Appetite {
    let (appetite, asked) = channel();
    thread::spawn(move || read(BufReader::with_capacity(BATCH_BYTES, input), &asked, &teller));
    Appetite(appetite)
}

fn read<R: Read>(mut input: BufReader<R>, asked: &Receiver<()>, teller: &SyncSender<Happening>) {
    while asked.recv().is_ok() {
        let mut lines = Vec::new();
        let mut ended = None;
        // The first line is waited for; the others are those that came with it.
        while lines.is_empty() || input.buffer().contains(&b'\n') {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) => ended = Some(None),
                Ok(_) => {
                    if line.last() == Some(&b'\n') {
                        line.pop();
                        if line.last() == Some(&b'\r') {
                            line.pop();
                        }
                    }
                    lines.push(line);
                }
                Err(error) => ended = Some(Some(format!("standard input cannot be read: {error}"))),
            }
            if ended.is_some() {
                break;
            }
        }
        if !lines.is_empty() && teller.send(Happening::Lines(lines)).is_err() {
            return;
        }
        if let Some(words) = ended {
            let _ = teller.send(Happening::LinesEnded(words));
            return;
        }
    }
}

const BATCH_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn lines_come_when_they_are_asked_for_and_the_last_needs_no_line_feed() {
        let (teller, told) = sync_channel(4);
        let appetite = read_lines(&b"one\r\n\ntwo\nthree"[..], teller);
        assert!(told.try_recv().is_err(), "nobody asked");
        appetite.more();
        let Ok(Happening::Lines(lines)) = told.recv() else { panic!("there are lines") };
        assert_eq!(lines, [&b"one"[..], b"", b"two"]);
        appetite.more();
        let Ok(Happening::Lines(lines)) = told.recv() else { panic!("there is a last line") };
        assert_eq!(lines, [b"three"]);
        appetite.more();
        assert!(matches!(told.recv(), Ok(Happening::LinesEnded(None))));
    }
}
