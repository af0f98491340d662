//! The rules of the host: places for live processes, finished records over all sessions, its end.
//!
//! A place is taken before anything is launched and given back when its process is proven to be gone; a start that
//! finds none is refused, never queued.

use std::collections::{BTreeMap, HashMap};

use slotmap::{SlotMap, new_key_type};

use crate::protocol::bounds::HOLDERS_MAX;
use crate::protocol::id::{AgentName, Label, ProcessId, SessionName};
use crate::protocol::settings::HostLimits;
use crate::protocol::state::Containment;
use crate::protocol::time::Moment;
use crate::protocol::verb::host::{Holder, HostStatus, Places, ShutdownMode};

new_key_type! {
    /// A place for one live process. Never shown to a caller.
    pub struct PlaceKey;
}

/// Who holds a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenant {
    /// The process.
    pub process_id: ProcessId,
    /// Its session.
    pub session: SessionName,
    /// Its agent.
    pub agent: AgentName,
    /// Its label.
    pub label: Option<Label>,
    /// When it was admitted.
    pub admitted: Moment,
    /// Whether it is settled but not proven to be gone.
    pub uncertain: bool,
}

/// Why a place was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All are taken.
    Full {
        /// How many there are.
        limit: u64,
    },
    /// The host is shutting down.
    ShuttingDown,
}

/// The rules of one host.
#[derive(Clone, Debug)]
pub struct HostCore {
    limits: HostLimits,
    places: SlotMap<PlaceKey, Tenant>,
    finished: BTreeMap<u64, (SessionName, ProcessId)>,
    finished_at: HashMap<ProcessId, u64>,
    next_end: u64,
    ending: Option<ShutdownMode>,
}

impl HostCore {
    /// A host without processes.
    pub fn new(limits: HostLimits) -> Self {
        HostCore {
            limits,
            places: SlotMap::with_key(),
            finished: BTreeMap::new(),
            finished_at: HashMap::new(),
            next_end: 0,
            ending: None,
        }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// [`Refusal`] says why there is none.
    pub fn take(&mut self, tenant: Tenant) -> Result<PlaceKey, Refusal> {
        if self.ending.is_some() {
            return Err(Refusal::ShuttingDown);
        }
        let limit = u64::from(self.limits.live_per_host);
        if self.places.len() as u64 >= limit {
            return Err(Refusal::Full { limit });
        }
        Ok(self.places.insert(tenant))
    }

    /// Gives a place back. A key that is no longer valid is nothing: places are never freed twice.
    pub fn free(&mut self, key: PlaceKey) {
        self.places.remove(key);
    }

    /// The process in a place changed: another one took it over, or its end is not proven.
    pub fn pass(&mut self, key: PlaceKey, tenant: Tenant) {
        if let Some(place) = self.places.get_mut(key) {
            *place = tenant;
        }
    }

    /// A session is gone with everything in it: its places are free, its records forgotten.
    pub fn evict(&mut self, session: &SessionName) {
        self.places.retain(|_, tenant| tenant.session != *session);
        let gone: Vec<ProcessId> =
            self.finished.values().filter(|(name, _)| name == session).map(|(_, id)| id.clone()).collect();
        for id in &gone {
            self.forgotten(id);
        }
    }

    /// Places taken.
    pub fn held(&self) -> u64 {
        self.places.len() as u64
    }

    /// A process finished and its record is kept. Records over the limit, oldest end first, go.
    pub fn finished(&mut self, session: SessionName, id: ProcessId) -> Vec<(SessionName, ProcessId)> {
        // Told again of the same end, it keeps its turn.
        if self.finished_at.contains_key(&id) {
            return Vec::new();
        }
        self.finished_at.insert(id.clone(), self.next_end);
        self.finished.insert(self.next_end, (session, id));
        self.next_end += 1;
        let over = self.finished.len().saturating_sub(self.limits.finished_per_host as usize);
        let goes: Vec<_> = self.finished.values().take(over).cloned().collect();
        for (_, id) in &goes {
            self.forgotten(id);
        }
        goes
    }

    /// A record is gone.
    pub fn forgotten(&mut self, id: &ProcessId) {
        if let Some(at) = self.finished_at.remove(id) {
            self.finished.remove(&at);
        }
    }

    /// Whether another session may open.
    pub fn room_for_session(&self, open: usize) -> bool {
        open < self.limits.sessions as usize
    }

    /// Nothing starts from now on. A `now` after a `drain` hurries it.
    pub fn end(&mut self, mode: ShutdownMode) {
        if self.ending != Some(ShutdownMode::Now) {
            self.ending = Some(mode);
        }
    }

    /// How it is ending, if it is.
    pub fn ending(&self) -> Option<ShutdownMode> {
        self.ending
    }

    /// Who holds places, oldest first.
    pub fn holders(&self, now: Moment) -> Vec<Holder> {
        let mut tenants: Vec<&Tenant> = self.places.values().collect();
        tenants.sort_by_key(|tenant| tenant.admitted);
        tenants.into_iter().take(HOLDERS_MAX).map(|tenant| holder(now, tenant)).collect()
    }

    /// The host as it stands.
    pub fn status(&self, now: Moment, sessions: usize, containment: Containment) -> HostStatus {
        let uncertain = self.places.values().filter(|tenant| tenant.uncertain).count() as u64;
        let live = self.held() - uncertain;
        let mut blockers = Vec::new();
        if live > 0 {
            blockers.push(format!("{live} live"));
        }
        if uncertain > 0 {
            blockers.push(format!("{uncertain} not proven to be gone"));
        }
        HostStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            live,
            places: Places {
                held: self.held(),
                limit: u64::from(self.limits.live_per_host),
                holders: self.holders(now),
            },
            can_suspend: self.places.is_empty(),
            blockers,
            containment,
            sessions: sessions as u64,
            shutting_down: self.ending.is_some(),
        }
    }
}

fn holder(now: Moment, tenant: &Tenant) -> Holder {
    Holder {
        process_id: tenant.process_id.clone(),
        session: tenant.session.clone(),
        agent: tenant.agent.clone(),
        label: tenant.label.clone(),
        age_ms: now.ms_since(tenant.admitted),
        uncertain: tenant.uncertain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(live_per_host: u32, finished_per_host: u32) -> HostCore {
        HostCore::new(HostLimits { live_per_host, finished_per_host, sessions: 2, timeout_max_ms: None })
    }

    fn tenant(bits: u128) -> Tenant {
        Tenant {
            process_id: ProcessId::from_bits(bits),
            session: SessionName::new("s").expect("a name"),
            agent: AgentName::main(),
            label: None,
            admitted: Moment::from_ms(u64::try_from(bits).expect("small")),
            uncertain: false,
        }
    }

    #[test]
    fn a_place_is_refused_when_all_are_taken_and_given_back_once() {
        let mut host = host(2, 10);
        let first = host.take(tenant(1)).expect("a place");
        host.take(tenant(2)).expect("a place");
        assert_eq!(host.take(tenant(3)), Err(Refusal::Full { limit: 2 }));
        host.free(first);
        let third = host.take(tenant(3)).expect("a place");
        host.free(first);
        assert_eq!(host.held(), 2, "an old key frees nothing");
        host.free(third);
        assert_eq!(host.holders(Moment::from_ms(10))[0].age_ms, 8);
    }

    #[test]
    fn a_host_that_ends_gives_no_place_and_drain_can_be_hurried() {
        let mut host = host(2, 10);
        host.end(ShutdownMode::Drain);
        assert_eq!(host.take(tenant(1)), Err(Refusal::ShuttingDown));
        host.end(ShutdownMode::Now);
        host.end(ShutdownMode::Drain);
        assert_eq!(host.ending(), Some(ShutdownMode::Now));
    }

    #[test]
    fn the_oldest_end_goes_first() {
        let mut host = host(2, 2);
        let session = SessionName::new("s").expect("a name");
        let mut end = |bits| host.finished(session.clone(), ProcessId::from_bits(bits));
        assert!(end(1).is_empty() && end(2).is_empty() && end(1).is_empty());
        assert_eq!(end(3), [(session.clone(), ProcessId::from_bits(1))]);
        host.forgotten(&ProcessId::from_bits(2));
        assert!(host.finished(session, ProcessId::from_bits(4)).is_empty());
    }

    #[test]
    fn it_can_be_suspended_only_when_no_place_is_held() {
        let mut host = host(2, 2);
        let kind = crate::protocol::state::ContainmentKind::Group;
        let containment = Containment { kind, why: None };
        let status = |host: &HostCore| host.status(Moment::ZERO, 0, containment.clone());
        assert!(status(&host).can_suspend);
        let key = host.take(Tenant { uncertain: true, ..tenant(1) }).expect("a place");
        assert_eq!((status(&host).live, status(&host).can_suspend), (0, false));
        assert_eq!(status(&host).blockers, ["1 not proven to be gone"]);
        host.free(key);
        assert!(status(&host).can_suspend);
    }
}
