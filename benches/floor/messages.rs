//! The least a call by message costs: one thread owns the table, requests reach it through a channel, and answers
//! come back through another. No mailbox for each process, no rules, no supervision.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::supervisor::{Running, Status};

/// One call on one process.
#[derive(Clone, Copy)]
pub enum Verb {
    Status,
    /// At most this many bytes from the beginning.
    Page(usize),
    List,
}

/// What came back, to whom, and when that call was sent.
pub struct Answer {
    pub session: usize,
    pub sent: Instant,
    /// How much there is of it: bytes of output, of a page, or processes of a list.
    pub size: u64,
}

struct Call {
    session: usize,
    /// The session's processes.
    ids: Arc<[usize]>,
    verb: Verb,
    sent: Instant,
}

/// The thread that owns a supervisor, and the two ends of the channels to it.
pub struct Owner {
    calls: Option<Sender<Call>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    pub fn start(supervisor: Running) -> Self {
        let (calls, inbox) = channel::<Call>();
        let (outbox, answers) = channel();
        let thread = std::thread::spawn(move || {
            for call in inbox {
                let size = answer(&supervisor, call.verb, &call.ids);
                if outbox.send(Answer { session: call.session, sent: call.sent, size }).is_err() {
                    return;
                }
            }
        });
        Self { calls: Some(calls), answers, thread: Some(thread) }
    }

    /// Sends a call for one session; its answer comes from [`Owner::next`].
    pub fn send(&self, session: usize, ids: &Arc<[usize]>, verb: Verb) {
        let call = Call { session, ids: Arc::clone(ids), verb, sent: Instant::now() };
        self.calls.as_ref().expect("there until the drop").send(call).expect("the owner outlives its callers");
    }

    pub fn next(&self) -> Answer {
        self.answers.recv().expect("the owner outlives its callers")
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.calls = None;
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("the thread is joined once").expect("the owner panicked");
        }
    }
}

fn answer(supervisor: &Running, verb: Verb, ids: &[usize]) -> u64 {
    match verb {
        Verb::Status => supervisor.status(ids[0]).end,
        Verb::Page(max) => supervisor.page(ids[0], 0, max).len() as u64,
        Verb::List => {
            let statuses: Vec<Status> = ids.iter().map(|id| supervisor.status(*id)).collect();
            statuses.len() as u64
        }
    }
}
