//! What host, broker, guardian and waiting root say to each other: one message in one packet (`packet`).
//!
//! Every number is little-endian; a string is its length (4 bytes) and its bytes; a list is its count and its items.
//! The first byte of a packet is the message's kind. Descriptors travel beside the packet.
//!
//! Invariant: any bytes are read without a panic, to a message or to [`Malformed`]; nothing longer than the packet is
//! ever allocated.

use std::fmt;

/// Which language is spoken; both sides say theirs first, and part if they differ.
pub const VERSION: u32 = 1;
/// Most members that one answer names.
pub const NAMED_MAX: usize = 20;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes that are no message of this version")
    }
}

impl std::error::Error for Malformed {}

/// How a root ended, as the kernel told its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// The same, and a core was written.
    Dumped(i32),
}

/// A member of the tree that is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its number.
    pub pid: i32,
    /// Its real user; [`u32::MAX`] where nobody can tell.
    pub uid: u32,
    /// Milliseconds since it started.
    pub age_ms: u64,
    /// The letter that `/proc` gives its state; 0 where nobody can tell.
    pub state: u8,
    /// Whether the guardian may not signal it.
    pub refused: bool,
    /// Whether another program traces it.
    pub traced: bool,
    /// Its name, as `/proc` has it.
    pub name: Vec<u8>,
}

/// What one process is launched with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The file to execute, as seen from the working directory.
    pub program: Vec<u8>,
    /// Its arguments, the first is its name.
    pub argv: Vec<Vec<u8>>,
    /// Its whole environment.
    pub env: Vec<Vec<u8>>,
    /// The mask of its new files.
    pub umask: u32,
    /// Whether it is to say [`Message::Executing`], for a host that cannot see it in `/proc`.
    pub tell: bool,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Both ways between host and broker, first; beside the host's the page in which it counts.
    Hello {
        /// [`VERSION`] of the sender.
        version: u32,
        /// How long that count may stand still before every tree is ended, in milliseconds; 0 = for ever. The broker's
        /// own is 0.
        silence_ms: u64,
    },
    /// Host to broker: make so many spares.
    Spares {
        /// How many.
        count: u32,
        /// The grace of their guardians until they are told another, in milliseconds.
        grace_ms: u64,
    },
    /// Broker to host: a spare; beside it the host's ends of its launch socket and of its guardian's.
    Spare,
    /// Broker to host: a spare could not be made.
    NoSpare {
        /// The system's error.
        errno: i32,
    },
    /// Broker to host: a guardian died before its tree, and the broker has ended what was left of it.
    Orphans {
        /// The guardian.
        guardian: i32,
        /// The newest orphans reaped, by number: how each ended.
        ends: Vec<(i32, End)>,
    },
    /// Host to broker: this guardian does not answer. It is resumed, and killed if that does not help.
    Silent {
        /// The guardian.
        guardian: i32,
    },
    /// Guardian to host, first.
    Ready {
        /// The guardian.
        guardian: i32,
        /// The root that waits.
        root: i32,
    },
    /// Host to guardian: what it is to do if the host is gone, or too late.
    Policy {
        /// The first signal.
        signal: i32,
        /// Milliseconds between it and KILL.
        grace_ms: u64,
        /// When it ends the tree by itself, in milliseconds of CLOCK_MONOTONIC; 0 = never.
        deadline_ms: u64,
    },
    /// Host to guardian: this signal to every member, then CONT.
    Signal {
        /// The signal.
        signal: i32,
    },
    /// Host to guardian: end the tree, until nothing is left.
    Kill,
    /// Host to guardian: who is left?
    Inspect,
    /// Guardian to host: the root ended.
    RootEnded {
        /// How.
        end: End,
        /// Whether it had executed its program before.
        executed: bool,
        /// Whether nothing else is left either; then nothing follows.
        gone: bool,
        /// How many others were alive then.
        left: u32,
    },
    /// Guardian to host: it ends the tree by itself, because the deadline has passed or the host is silent.
    Alone,
    /// Guardian to host: nothing is left. Nothing follows.
    Gone,
    /// Guardian to host: who is left.
    Survivors {
        /// At most [`NAMED_MAX`] of them.
        named: Vec<Left>,
        /// How many there are.
        count: u32,
    },
    /// Host to the waiting root; beside it the working directory and the three standard descriptors, and with
    /// [`Message::Sealed`] the file that holds this message.
    Launch(Launch),
    /// Host to the waiting root: the launch is in the sealed file beside.
    Sealed,
    /// Root to host, where it was asked to: the program is executed now, unless [`Message::NotExecuted`] follows.
    Executing,
    /// Root to host: the program could not be executed.
    NotExecuted {
        /// The system's error.
        errno: i32,
    },
}

impl Message {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(64));
        match self {
            Message::Hello { version, silence_ms } => out.kind(1).u32(*version).u64(*silence_ms),
            Message::Spares { count, grace_ms } => out.kind(2).u32(*count).u64(*grace_ms),
            Message::Spare => out.kind(3),
            Message::NoSpare { errno } => out.kind(4).i32(*errno),
            Message::Orphans { guardian, ends } => {
                let out = out.kind(5).i32(*guardian).u32(len(ends));
                ends.iter().fold(out, |out, (pid, end)| out.i32(*pid).end(*end))
            }
            Message::Silent { guardian } => out.kind(6).i32(*guardian),
            Message::Ready { guardian, root } => out.kind(7).i32(*guardian).i32(*root),
            Message::Policy { signal, grace_ms, deadline_ms } => {
                out.kind(8).i32(*signal).u64(*grace_ms).u64(*deadline_ms)
            }
            Message::Signal { signal } => out.kind(9).i32(*signal),
            Message::Kill => out.kind(10),
            Message::Inspect => out.kind(11),
            Message::RootEnded { end, executed, gone, left } => {
                out.kind(12).end(*end).bool(*executed).bool(*gone).u32(*left)
            }
            Message::Gone => out.kind(13),
            Message::Survivors { named, count } => {
                let out = out.kind(14).u32(*count).u32(len(named));
                named.iter().fold(out, |out, left| {
                    let out = out.i32(left.pid).u32(left.uid).u64(left.age_ms).u8(left.state);
                    out.bool(left.refused).bool(left.traced).bytes(&left.name)
                })
            }
            Message::Launch(launch) => out
                .kind(15)
                .u32(launch.umask)
                .bool(launch.tell)
                .bytes(&launch.program)
                .list(&launch.argv)
                .list(&launch.env),
            Message::Sealed => out.kind(16),
            Message::NotExecuted { errno } => out.kind(17).i32(*errno),
            Message::Alone => out.kind(18),
            Message::Executing => out.kind(19),
        };
        out.0
    }

    /// From the bytes of one packet.
    ///
    /// # Errors
    /// [`Malformed`] for anything that is not exactly one message.
    pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut from = Reader(bytes);
        let message = match from.u8()? {
            1 => Message::Hello { version: from.u32()?, silence_ms: from.u64()? },
            2 => Message::Spares { count: from.u32()?, grace_ms: from.u64()? },
            3 => Message::Spare,
            4 => Message::NoSpare { errno: from.i32()? },
            5 => {
                let (guardian, count) = (from.i32()?, from.u32()?);
                let ends = (0..count).map(|_| Ok((from.i32()?, from.end()?))).collect::<Result<Vec<_>, Malformed>>()?;
                Message::Orphans { guardian, ends }
            }
            6 => Message::Silent { guardian: from.i32()? },
            7 => Message::Ready { guardian: from.i32()?, root: from.i32()? },
            8 => Message::Policy { signal: from.i32()?, grace_ms: from.u64()?, deadline_ms: from.u64()? },
            9 => Message::Signal { signal: from.i32()? },
            10 => Message::Kill,
            11 => Message::Inspect,
            12 => {
                let end = from.end()?;
                Message::RootEnded { end, executed: from.bool()?, gone: from.bool()?, left: from.u32()? }
            }
            13 => Message::Gone,
            14 => {
                let (count, named) = (from.u32()?, from.u32()?);
                let one = |from: &mut Reader<'_>| {
                    Ok(Left {
                        pid: from.i32()?,
                        uid: from.u32()?,
                        age_ms: from.u64()?,
                        state: from.u8()?,
                        refused: from.bool()?,
                        traced: from.bool()?,
                        name: from.bytes()?.to_vec(),
                    })
                };
                let named = (0..named).map(|_| one(&mut from)).collect::<Result<Vec<Left>, Malformed>>()?;
                Message::Survivors { named, count }
            }
            15 => {
                let (umask, tell) = (from.u32()?, from.bool()?);
                let program = from.bytes()?.to_vec();
                Message::Launch(Launch { umask, tell, program, argv: from.list()?, env: from.list()? })
            }
            16 => Message::Sealed,
            17 => Message::NotExecuted { errno: from.i32()? },
            18 => Message::Alone,
            19 => Message::Executing,
            _ => return Err(Malformed),
        };
        if from.0.is_empty() { Ok(message) } else { Err(Malformed) }
    }
}

fn len<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

struct Writer(Vec<u8>);

impl Writer {
    fn kind(&mut self, kind: u8) -> &mut Self {
        self.u8(kind)
    }

    fn u8(&mut self, number: u8) -> &mut Self {
        self.0.push(number);
        self
    }

    fn bool(&mut self, yes: bool) -> &mut Self {
        self.u8(u8::from(yes))
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn i32(&mut self, number: i32) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn end(&mut self, end: End) -> &mut Self {
        let (how, number) = match end {
            End::Exited(code) => (0, code),
            End::Killed(signal) => (1, signal),
            End::Dumped(signal) => (2, signal),
        };
        self.u8(how).i32(number)
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(len(bytes));
        self.0.extend_from_slice(bytes);
        self
    }

    fn list(&mut self, items: &[Vec<u8>]) -> &mut Self {
        self.u32(len(items));
        items.iter().fold(self, |out, item| out.bytes(item))
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn end(&mut self) -> Result<End, Malformed> {
        let (how, number) = (self.u8()?, self.i32()?);
        match how {
            0 => Ok(End::Exited(number)),
            1 => Ok(End::Killed(number)),
            2 => Ok(End::Dumped(number)),
            _ => Err(Malformed),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    fn list(&mut self) -> Result<Vec<Vec<u8>>, Malformed> {
        let count = self.u32()?;
        (0..count).map(|_| self.bytes().map(<[u8]>::to_vec)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> impl Strategy<Value = Message> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        let list = move || proptest::collection::vec(bytes(), 0..5);
        let end = || {
            (0..3, any::<i32>()).prop_map(|(how, number)| match how {
                0 => End::Exited(number),
                1 => End::Killed(number),
                _ => End::Dumped(number),
            })
        };
        let left = (any::<(i32, u32, u64, u8, bool, bool)>(), bytes()).prop_map(|(facts, name)| {
            let (pid, uid, age_ms, state, refused, traced) = facts;
            Left { pid, uid, age_ms, state, refused, traced, name }
        });
        let launch = (bytes(), list(), list(), any::<(u32, bool)>())
            .prop_map(|(program, argv, env, (umask, tell))| Launch { program, argv, env, umask, tell });
        prop_oneof![
            any::<(u32, u64)>().prop_map(|(version, silence_ms)| Message::Hello { version, silence_ms }),
            any::<(u32, u64)>().prop_map(|(count, grace_ms)| Message::Spares { count, grace_ms }),
            Just(Message::Spare),
            any::<i32>().prop_map(|errno| Message::NoSpare { errno }),
            (any::<i32>(), proptest::collection::vec((any::<i32>(), end()), 0..4))
                .prop_map(|(guardian, ends)| Message::Orphans { guardian, ends }),
            any::<i32>().prop_map(|guardian| Message::Silent { guardian }),
            any::<(i32, i32)>().prop_map(|(guardian, root)| Message::Ready { guardian, root }),
            any::<(i32, u64, u64)>().prop_map(|(signal, grace_ms, deadline_ms)| Message::Policy {
                signal,
                grace_ms,
                deadline_ms
            }),
            any::<i32>().prop_map(|signal| Message::Signal { signal }),
            Just(Message::Kill),
            Just(Message::Inspect),
            (end(), any::<(bool, bool, u32)>()).prop_map(|(end, (executed, gone, left))| Message::RootEnded {
                end,
                executed,
                gone,
                left
            }),
            Just(Message::Gone),
            Just(Message::Alone),
            Just(Message::Executing),
            (proptest::collection::vec(left, 0..4), any::<u32>())
                .prop_map(|(named, count)| Message::Survivors { named, count }),
            launch.prop_map(Message::Launch),
            Just(Message::Sealed),
            any::<i32>().prop_map(|errno| Message::NotExecuted { errno }),
        ]
    }

    proptest! {
        #[test]
        fn every_message_reads_back_and_no_part_of_it_does(message in messages()) {
            let bytes = message.encode();
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
            for cut in 0..bytes.len() {
                prop_assert!(Message::decode(&bytes[..cut]).is_err());
            }
            prop_assert!(Message::decode(&[&bytes[..], &[0]].concat()).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }
}
