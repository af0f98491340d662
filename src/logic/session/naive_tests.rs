//! A session as a list of processes that is searched for everything: slow, plain, and written from the contract.
//!
//! It shares no rule with the real one. `model_tests` asks both the same things.

use super::Sees;
use crate::protocol::error::Code;
use crate::protocol::spec::OnConflict;

/// Who calls: an agent by number; `None` is the operator, whose processes belong to agent 0.
pub(super) type Who = Option<usize>;

/// What is asked to start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wish {
    pub who: Who,
    pub label: Option<u8>,
    pub on_conflict: Option<OnConflict>,
    pub start_id: Option<u8>,
    pub foreground: bool,
    pub command: u8,
}

/// What a caller names a process by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Id(u128),
    Label(u8),
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub id: u128,
    pub agent: usize,
    pub label: Option<u8>,
    pub wish: Wish,
    pub live: bool,
    pub uncertain: bool,
    pub hidden: bool,
    /// Its turn among the ends.
    pub end: u64,
}

impl Process {
    pub fn holds_place(&self) -> bool {
        self.live || self.uncertain
    }
}

/// What a start leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    New,
    Existing(u128),
    Replace(u128),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Naive {
    /// In order of admission.
    pub processes: Vec<Process>,
    pub agents: Vec<(usize, Sees)>,
    pub live_max: usize,
    pub finished_max: usize,
    pub deleted: bool,
    /// Every start with a start id that ever made a process.
    pub starts: Vec<(u8, u128)>,
    pub ends: u64,
}

impl Naive {
    pub fn get(&self, id: u128) -> Option<&Process> {
        self.processes.iter().find(|process| process.id == id)
    }

    pub fn get_mut(&mut self, id: u128) -> &mut Process {
        self.processes.iter_mut().find(|process| process.id == id).expect("is known")
    }

    pub fn places(&self) -> usize {
        self.processes.iter().filter(|process| process.holds_place()).count()
    }

    pub fn drop(&mut self, id: u128) {
        self.processes.retain(|process| process.id != id);
    }

    pub fn sees_of(&self, agent: usize) -> Option<Sees> {
        self.agents.iter().find(|(open, _)| *open == agent).map(|(_, sees)| *sees)
    }

    pub fn open_agent(&mut self, agent: usize, sees: Option<Sees>) -> Result<Sees, Code> {
        match (self.sees_of(agent), sees) {
            (None, asked) => {
                self.agents.push((agent, asked.unwrap_or(Sees::Own)));
                Ok(asked.unwrap_or(Sees::Own))
            }
            (Some(has), Some(asked)) if has != asked => Err(Code::Conflict),
            (Some(has), _) => Ok(has),
        }
    }

    pub fn admit(&mut self, id: u128, wish: Wish) -> Result<Fate, Code> {
        if self.deleted {
            return Err(Code::Unavailable);
        }
        let agent = wish.who.unwrap_or(0);
        let used = wish.start_id.and_then(|start_id| self.starts.iter().rev().find(|(used, _)| *used == start_id));
        if let Some(process) = used.and_then(|(_, id)| self.get(*id)) {
            let same = Wish { who: None, ..process.wish } == Wish { who: None, ..wish } && process.agent == agent;
            return if same { Ok(Fate::Existing(process.id)) } else { Err(Code::Conflict) };
        }
        let namesake = self.namesake(agent, wish.label).map(|process| process.id);
        match (namesake, wish.on_conflict) {
            (Some(other), Some(OnConflict::Reuse)) => return Ok(Fate::Existing(other)),
            (Some(other), Some(OnConflict::Replace)) => return Ok(Fate::Replace(other)),
            (Some(_), Some(OnConflict::Refuse)) => return Err(Code::Conflict),
            (_, Some(OnConflict::Allow) | None) | (None, _) => {}
        }
        if self.places() >= self.live_max {
            return Err(Code::LimitReached);
        }
        self.add(id, agent, wish);
        Ok(Fate::New)
    }

    /// A live process of the agent that has the label; the newest.
    pub fn namesake(&self, agent: usize, label: Option<u8>) -> Option<&Process> {
        let same = |process: &&Process| {
            label.is_some() && process.label == label && process.agent == agent && process.live && !process.hidden
        };
        self.processes.iter().rev().find(same)
    }

    pub fn add(&mut self, id: u128, agent: usize, wish: Wish) {
        let _ = self.open_agent(agent, None);
        if let Some(start_id) = wish.start_id {
            self.starts.push((start_id, id));
        }
        let label = wish.label;
        self.processes.push(Process { id, agent, label, wish, live: true, uncertain: false, hidden: false, end: 0 });
    }

    /// It settles. Whether its place is free, and which records go.
    pub fn settle(&mut self, id: u128, uncertain: bool) -> (bool, Vec<u128>) {
        self.ends += 1;
        let (end, deleted) = (self.ends, self.deleted);
        let process = self.get_mut(id);
        (process.live, process.uncertain, process.end) = (false, uncertain, end);
        if process.hidden && !uncertain {
            return (true, vec![id]);
        }
        process.hidden = false;
        if deleted && !uncertain { (true, vec![id]) } else { (!uncertain, self.too_many()) }
    }

    /// What was uncertain is proven.
    pub fn confirm(&mut self, id: u128) -> Vec<u128> {
        self.get_mut(id).uncertain = false;
        if self.deleted { vec![id] } else { self.too_many() }
    }

    fn too_many(&self) -> Vec<u128> {
        let mut kept: Vec<&Process> = self.processes.iter().filter(|process| !process.holds_place()).collect();
        kept.sort_by_key(|process| process.end);
        let mut gone = Vec::new();
        while kept.len() > self.finished_max {
            let but_newest = &kept[..kept.len() - 1];
            let victim = but_newest.iter().position(|process| process.wish.foreground).unwrap_or(0);
            gone.push(kept.remove(victim).id);
        }
        gone
    }

    pub fn visible(&self, who: Who) -> Vec<&Process> {
        let all = who.is_none_or(|agent| self.sees_of(agent) == Some(Sees::Session));
        self.processes.iter().filter(|process| !process.hidden && (all || Some(process.agent) == who)).collect()
    }

    pub fn find(&self, who: Who, name: Name) -> Result<u128, Code> {
        let visible = self.visible(who);
        let label = match name {
            Name::Id(id) => {
                return visible.iter().find(|process| process.id == id).map(|p| p.id).ok_or(Code::UnknownProcess);
            }
            Name::Label(label) => Some(label),
        };
        let named: Vec<&&Process> = visible.iter().rev().filter(|process| process.label == label).collect();
        let live: Vec<&&&Process> = named.iter().filter(|process| process.live).collect();
        if let Some(own) = live.iter().find(|process| Some(process.agent) == who) {
            return Ok(own.id);
        }
        match live.first() {
            Some(first) if live.iter().all(|process| process.agent == first.agent) => Ok(first.id),
            Some(_) => Err(Code::Ambiguous),
            None => {
                let own = named.iter().find(|process| Some(process.agent) == who);
                own.or(named.first()).map(|process| process.id).ok_or(Code::UnknownProcess)
            }
        }
    }

    /// Rows up to the limit; live, finished, uncertain; whether there were more.
    pub fn list(&self, who: Who, limit: usize) -> (Vec<u128>, [u64; 3], bool) {
        let visible = self.visible(who);
        let count = |is: fn(&Process) -> bool| visible.iter().filter(|process| is(process)).count() as u64;
        let mut rows: Vec<&&Process> = visible.iter().rev().collect();
        rows.sort_by_key(|process| !process.live);
        let ids = rows.iter().take(limit).map(|process| process.id).collect();
        (ids, [count(|p| p.live), count(|p| !p.live), count(|p| p.uncertain)], rows.len() > limit)
    }

    pub fn clear(&self, who: Who, name: Name) -> Result<(u128, bool), Code> {
        let id = self.find(who, name)?;
        let process = self.get(id).expect("was found");
        match who {
            _ if process.live => Err(Code::StillRunning),
            Some(_) if process.uncertain => Err(Code::CleanupUncertain),
            _ => Ok((id, process.uncertain)),
        }
    }
}
