//! Many processes in one table, driven by one epoll loop: on a thread of its own ([`Running`]) or on the caller's
//! ([`Supervisor::turn`]).
//!
//! Invariant: only the turning thread reaps and closes, and a process is settled when it is reaped and both pipes
//! are at EOF. The reading is plain: one read of at most 64 KiB for each event, no coalescing, pipes of the
//! default size.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::poll::{Poll, eventfd};
use super::ring::Ring;
use super::spawn::{Exit, Program, null_input, reap, signal_group, spawn};

/// One read takes at most this much.
const READ_BYTES: usize = 64 << 10;
/// Events taken at once.
const EVENTS: usize = 64;
/// How long dropping a supervisor waits for what it killed.
const DROP_WAIT: Duration = Duration::from_secs(10);
/// The token of the eventfd that ends the loop.
const QUIT: u64 = u64::MAX;

const STDOUT: usize = 0;
const STDERR: usize = 1;
const EXIT: usize = 2;

/// What is known about one process.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub id: usize,
    pub exit: Option<Exit>,
    /// Bytes of output ever read.
    pub end: u64,
    pub settled: bool,
}

struct Slot {
    pid: libc::pid_t,
    /// stdout and stderr, each until its EOF.
    pipes: [Option<Arc<File>>; 2],
    pidfd: Option<OwnedFd>,
    exit: Option<Exit>,
    ring: Ring,
}

impl Slot {
    fn settled(&self) -> bool {
        self.pidfd.is_none() && self.pipes.iter().all(Option::is_none)
    }

    fn status(&self, id: usize) -> Status {
        Status { id, exit: self.exit, end: self.ring.end(), settled: self.settled() }
    }
}

#[derive(Default)]
struct Table {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Settled, and neither taken nor forgotten.
    settled: Vec<usize>,
}

impl Table {
    fn slot(&mut self, id: usize) -> &mut Slot {
        self.slots[id].as_mut().expect("a slot is used only before it is forgotten")
    }

    fn all(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }
}

/// What a turning thread reuses from turn to turn.
pub struct Scratch {
    events: [libc::epoll_event; EVENTS],
    bytes: Vec<u8>,
}

impl Scratch {
    pub fn new() -> Self {
        Self { events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS], bytes: vec![0; READ_BYTES] }
    }
}

/// The table, its epoll set, and a way to wait for a change.
pub struct Supervisor {
    poll: Poll,
    quit: File,
    input: OwnedFd,
    table: Mutex<Table>,
    changed: Condvar,
}

impl Supervisor {
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let quit = File::from(eventfd()?);
        poll.add(quit.as_fd(), QUIT)?;
        Ok(Self { poll, quit, input: null_input()?, table: Mutex::default(), changed: Condvar::new() })
    }

    /// Launches; returns once the program was executed and is watched.
    pub fn launch(&self, program: &Program) -> io::Result<usize> {
        let child = spawn(program, self.input.as_fd())?;
        let pipes = [child.stdout, child.stderr].map(|end| Some(Arc::new(File::from(end))));
        let slot = Slot { pid: child.pid, pipes, pidfd: Some(child.pidfd), exit: None, ring: Ring::default() };
        let mut table = self.lock();
        let id = table.free.pop().unwrap_or_else(|| {
            table.slots.push(None);
            table.slots.len() - 1
        });
        let slot = table.slots[id].insert(slot);
        for (source, pipe) in slot.pipes.iter().enumerate() {
            self.poll.add(pipe.as_ref().expect("just made").as_fd(), token(id, source))?;
        }
        self.poll.add(slot.pidfd.as_ref().expect("just made").as_fd(), token(id, EXIT))?;
        Ok(id)
    }

    pub fn status(&self, id: usize) -> Status {
        self.lock().slot(id).status(id)
    }

    pub fn list(&self) -> Vec<Status> {
        self.lock().all().map(|(id, slot)| slot.status(id)).collect()
    }

    /// Copies at most `max` bytes of output from `cursor` on.
    pub fn page(&self, id: usize, cursor: u64, max: usize) -> Vec<u8> {
        self.lock().slot(id).ring.page(cursor, max)
    }

    /// Waits until the process is settled; another thread must be turning.
    pub fn wait(&self, id: usize) -> Status {
        let mut table = self.lock();
        while !table.slot(id).settled() {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table.slot(id).status(id)
    }

    /// Waits until at least one process has settled, and takes all that have.
    pub fn take_settled(&self) -> Vec<usize> {
        let mut table = self.lock();
        while table.settled.is_empty() {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut table.settled)
    }

    /// Drops what is known about a settled process.
    pub fn forget(&self, id: usize) {
        let mut table = self.lock();
        assert!(table.slot(id).settled(), "only a settled process may be forgotten");
        table.slots[id] = None;
        table.settled.retain(|settled| *settled != id);
        table.free.push(id);
    }

    /// Kills the group of every process that has not been reaped.
    pub fn kill_all(&self) {
        for (_, slot) in self.lock().all().filter(|(_, slot)| slot.pidfd.is_some()) {
            // Held by the lock, so unreaped; the group may still be a lone zombie, which is no error either.
            let _ = signal_group(slot.pid, libc::SIGKILL);
        }
    }

    /// Handles what is ready, waiting for at most `timeout_ms` (-1 = no limit); `false` once asked to quit.
    pub fn turn(&self, scratch: &mut Scratch, timeout_ms: i32) -> io::Result<bool> {
        let ready = self.poll.wait(&mut scratch.events, timeout_ms)?;
        let mut go_on = true;
        for event in &scratch.events[..ready] {
            match event.u64 {
                QUIT => go_on = false,
                token => match split(token) {
                    (id, EXIT) => self.reap(id)?,
                    (id, stream) => self.read(id, stream, &mut scratch.bytes)?,
                },
            }
        }
        Ok(go_on)
    }

    fn read(&self, id: usize, stream: usize, bytes: &mut [u8]) -> io::Result<()> {
        debug_assert!(stream == STDOUT || stream == STDERR);
        let pipe = self.lock().slot(id).pipes[stream].clone().expect("an event comes only before EOF");
        let count = (&*pipe).read(bytes)?;
        let mut table = self.lock();
        let slot = table.slot(id);
        if count > 0 {
            slot.ring.append(&bytes[..count]);
            return Ok(());
        }
        slot.pipes[stream] = None;
        let end = Arc::into_inner(pipe).expect("the slot's own reference was just dropped");
        self.poll.remove(end.into())?;
        self.settle(table, id);
        Ok(())
    }

    fn reap(&self, id: usize) -> io::Result<()> {
        let mut table = self.lock();
        let slot = table.slot(id);
        let pidfd = slot.pidfd.take().expect("an event comes only before the reap");
        slot.exit = Some(reap(pidfd.as_fd())?);
        self.poll.remove(pidfd)?;
        self.settle(table, id);
        Ok(())
    }

    fn settle(&self, mut table: MutexGuard<'_, Table>, id: usize) {
        if table.slot(id).settled() {
            table.settled.push(id);
            drop(table);
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A supervisor with its epoll thread. Dropping it kills and reaps what still lives, then ends the thread.
pub struct Running {
    supervisor: Arc<Supervisor>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    pub fn start() -> io::Result<Self> {
        let supervisor = Arc::new(Supervisor::new()?);
        let turning = Arc::clone(&supervisor);
        let thread = std::thread::spawn(move || {
            let mut scratch = Scratch::new();
            while turning.turn(&mut scratch, -1)? {}
            Ok(())
        });
        Ok(Self { supervisor, thread: Some(thread) })
    }
}

impl Deref for Running {
    type Target = Supervisor;

    fn deref(&self) -> &Supervisor {
        &self.supervisor
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_all();
        let until = Instant::now() + DROP_WAIT;
        let mut table = self.supervisor.lock();
        while table.all().any(|(_, slot)| !slot.settled()) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let woken = self.supervisor.changed.wait_timeout(table, left);
            table = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(table);
        let asked = (&self.supervisor.quit).write_all(&1_u64.to_ne_bytes());
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            asked.expect("an eventfd takes eight bytes");
            ended.expect("the thread is joined once").expect("the epoll thread panicked").expect("the epoll loop");
        }
    }
}

fn token(id: usize, source: usize) -> u64 {
    (id as u64) << 2 | source as u64
}

fn split(token: u64) -> (usize, usize) {
    ((token >> 2) as usize, (token & 3) as usize)
}
