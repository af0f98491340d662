//! One task for each launch that was sent: it learns from the launch socket whether the program was executed, and from
//! the guardian how its tree ends.
//!
//! Invariant: "launched" is said on the kernel's own mark of an exec, "nothing is left" on the kernel's word to the
//! tree's parent. A guardian that dies or does not answer is replaced by the broker's word for the same.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::unix::AsyncFd;

use super::broker::Broker;
use super::line::Line;
use crate::os::frame::{End, Left, Message};
use crate::os::guardian::is_unexecuted;
use crate::os::launch::{Fact, LaunchError, LaunchRequest};
use crate::os::packet::{self, Received};
use crate::os::pipe::Pipe;
use crate::os::{group, members, root, spawn};
use crate::protocol::state::{Exit, Proof, Survivor};

/// What a guardian's answer may take: more than [`NAMED_MAX`](crate::os::frame::NAMED_MAX) members with their names.
const ANSWER_BYTES: usize = 4096;
/// How long after a kill a guardian may be silent before it is asked, and then to answer.
const SILENCE: Duration = Duration::from_millis(1000);

/// What explains a program that could not be executed.
pub(super) struct Origin {
    pub(super) directory: OwnedFd,
    pub(super) program: CString,
    pub(super) request: LaunchRequest,
}

/// The task's own part.
pub(super) struct Watch {
    pub(super) line: Arc<Line>,
    pub(super) broker: Arc<Broker>,
    pub(super) control: AsyncFd<Arc<OwnedFd>>,
    pub(super) guardian: i32,
    pub(super) root: i32,
}

/// The part of it that ends with the launch.
pub(super) struct Launching {
    pub(super) socket: AsyncFd<OwnedFd>,
    pub(super) stat: Option<File>,
    pub(super) stdout: Pipe,
    pub(super) stderr: Pipe,
    pub(super) origin: Origin,
}

/// How a launch went.
enum Verdict {
    Launched,
    NotExecuted(i32),
    /// It died before it executed the program.
    Died,
    /// The root is reaped: its parent knows.
    AskGuardian,
}

/// What comes from a guardian.
enum Word {
    Said(Message),
    /// It is gone.
    End,
}

impl Watch {
    /// Watches to the end.
    pub(super) async fn run(mut self, launching: Launching) {
        let mut word = None;
        let verdict = match launching.verdict().await {
            Verdict::AskGuardian => {
                let said = self.word().await;
                let executed = match &said {
                    Word::Said(Message::RootEnded { executed, .. }) => *executed,
                    // Nobody can tell any more: what has no parent to speak for it is taken to have run.
                    _ => true,
                };
                word = Some(said);
                if executed { Verdict::Launched } else { Verdict::Died }
            }
            verdict => verdict,
        };
        let Launching { stdout, stderr, origin, socket, stat } = launching;
        drop((socket, stat));
        match verdict {
            Verdict::NotExecuted(errno) => {
                let errno = Errno::from_raw_os_error(errno);
                return self.line.fail(spawn::execute_error(
                    errno,
                    &origin.request,
                    &origin.directory,
                    &origin.program,
                ));
            }
            Verdict::Died => return self.line.fail(self.died()),
            Verdict::Launched | Verdict::AskGuardian => {}
        }
        drop(origin);
        self.line.report(Fact::Launched { stdout, stderr });
        self.line.tell_policy();
        self.keep(word).await;
    }

    fn died(&self) -> LaunchError {
        let (operation, hint) = match self.line.is_killing() {
            true => ("cancelled", "The launch was given up before the program was started."),
            false => ("execute", "The process was killed before it could execute the program."),
        };
        LaunchError { operation, errno: 0, path: None, hint: hint.to_owned() }
    }

    /// From the launch to the end.
    async fn keep(&mut self, mut word: Option<Word>) {
        let mut root_told = false;
        loop {
            let next = match word.take() {
                Some(word) => word,
                None => self.word_or_silence().await,
            };
            match next {
                Word::Said(Message::RootEnded { end, gone, left, .. }) if !root_told => {
                    root_told = true;
                    if gone {
                        self.line.close();
                    }
                    self.line.report(Fact::RootEnded(exit_of(end)));
                    if gone {
                        return self.line.report(Fact::Gone(Proof::NoChildren));
                    }
                    if left > 0 {
                        self.line.report(Fact::Leftovers(left as usize));
                    }
                }
                Word::Said(Message::Alone) => self.line.report(Fact::Alone),
                Word::Said(Message::Survivors { named, count }) => {
                    self.line.report(Fact::Survivors(survivors(named, count).await));
                }
                Word::Said(Message::Gone) => {
                    self.line.close();
                    return self.line.report(Fact::Gone(Proof::NoChildren));
                }
                Word::Said(_) => {}
                Word::End => return self.after_guardian(root_told).await,
            }
        }
    }

    /// The guardian died before its tree: the broker adopts and ends what it left.
    async fn after_guardian(&self, root_told: bool) {
        let ends = self.broker.orphans_ended(self.guardian).await;
        if !root_told {
            let of_root = ends.iter().flatten().find(|(pid, _)| *pid == self.root);
            self.line.report(Fact::RootEnded(of_root.map_or(root::UNSEEN, |(_, end)| exit_of(*end))));
        }
        // Without a broker either, nobody can prove anything.
        if ends.is_some() {
            self.line.close();
            self.line.report(Fact::Gone(Proof::NoChildren));
        }
    }

    async fn word(&self) -> Word {
        while let Ok(mut ready) = self.control.readable().await {
            // Made after the wait, so that an idle process does not hold it.
            let mut buffer = [0; ANSWER_BYTES];
            match packet::receive(self.control.get_ref(), &mut buffer, RecvFlags::DONTWAIT) {
                Ok(Received::Packet(length, _)) => {
                    if let Ok(message) = Message::decode(&buffer[..length]) {
                        return Word::Said(message);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => ready.clear_ready(),
                Ok(Received::End) | Err(_) => return Word::End,
            }
        }
        Word::End
    }

    /// The next word. A guardian that is to kill and says nothing is asked; one that does not answer is ended by the
    /// broker, and then its end is the word.
    async fn word_or_silence(&self) -> Word {
        loop {
            tokio::select! {
                biased;
                word = self.word() => return word,
                () = self.line.command() => {}
            }
            if !self.line.is_killing() {
                continue;
            }
            for _ in 0..2 {
                match tokio::time::timeout(SILENCE, self.word()).await {
                    Ok(word) => return word,
                    Err(_) if self.line.say(&Message::Inspect) => {}
                    Err(_) => break,
                }
            }
            self.broker.end_silent(self.guardian);
        }
    }
}

impl Launching {
    async fn verdict(&self) -> Verdict {
        let mut executing = false;
        while let Ok(mut ready) = self.socket.readable().await {
            let mut buffer = [0; 64];
            match packet::receive(self.socket.get_ref(), &mut buffer, RecvFlags::DONTWAIT) {
                Ok(Received::Packet(length, _)) => match Message::decode(&buffer[..length]) {
                    Ok(Message::NotExecuted { errno }) => return Verdict::NotExecuted(errno),
                    Ok(Message::Executing) => executing = true,
                    _ => {}
                },
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => ready.clear_ready(),
                Ok(Received::End) | Err(_) => break,
            }
        }
        // Closed: by an exec, or by a death before it. The kernel's mark on the process tells which.
        // Without `/proc` its own word does; a death in the very call of execve is then told as an end by a signal.
        let Some(stat) = &self.stat else {
            return if executing { Verdict::Launched } else { Verdict::Died };
        };
        let mut text = [0; 1024];
        match stat.read_at(&mut text, 0).ok() {
            Some(read) => match is_unexecuted(&text[..read]) {
                Some(true) => Verdict::Died,
                Some(false) => Verdict::Launched,
                None => Verdict::AskGuardian,
            },
            None => Verdict::AskGuardian,
        }
    }
}

fn exit_of(end: End) -> Exit {
    match end {
        End::Exited(code) => Exit::code(code),
        End::Killed(signal) => Exit::signal(group::signal_name(signal), false),
        End::Dumped(signal) => Exit::signal(group::signal_name(signal), true),
    }
}

/// What is told of members that are still there. Looking up users may block.
async fn survivors(named: Vec<Left>, count: u32) -> Vec<Survivor> {
    let describe = move || -> Vec<Survivor> {
        let unnamed = (count as usize).saturating_sub(named.len());
        let told = named.iter().map(|left| {
            let user = members::user_name((left.uid != u32::MAX).then_some(left.uid));
            let why = match left {
                Left { refused: true, .. } => format!("may not be signalled: runs as {user}"),
                Left { traced: true, .. } => "traced by another program".to_owned(),
                Left { state: b'D', .. } => "in uninterruptible sleep".to_owned(),
                Left { state: b'T' | b't', .. } => "stopped".to_owned(),
                _ => "still running".to_owned(),
            };
            Survivor { name: String::from_utf8_lossy(&left.name).into_owned(), user, age_ms: left.age_ms, why }
        });
        told.chain((0..unnamed).map(|_| members::hidden())).collect()
    };
    tokio::task::spawn_blocking(describe).await.unwrap_or_else(|_| vec![members::hidden()])
}
