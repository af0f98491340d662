//! Every order of events in a small world, and that mistakes in joining the rules are found.

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::play::{Detail, Event};
use crate::world::{Plant, World};

/// A world with so many places.
struct Machine {
    limit: u32,
    with: (usize, Detail),
    plant: Plant,
}

const HOLDERS: &str = "places are held by what is live or uncertain, and by nothing else";
const FAULTS: &str = "nothing is refused, answered or changed that should not be";
const END: &str = "with everything proven, no place is held";

/// What must be possible, or the rest says little.
const LATE: &str = "what was uncertain is proven later";
const REFUSED: &str = "a start is refused";
const FULL: &str = "all places are held, one of them by what is uncertain";

impl Model for Machine {
    type State = World;
    type Action = (usize, Event);

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.limit, self.with, self.plant)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<(usize, Event)>) {
        actions.extend(world.events());
    }

    fn next_state(&self, world: &World, (at, event): (usize, Event)) -> Option<World> {
        let mut next = world.clone();
        next.happen(at, event);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HOLDERS, |machine: &Machine, world: &World| {
                let holding = world.processes.iter().flatten().filter(|process| process.holds_place()).count() as u64;
                let in_sessions: u64 = world.sessions.iter().map(|session| session.places_held()).sum();
                world.host.held() == holding && holding == in_sessions && holding <= u64::from(machine.limit)
            }),
            Property::always(FAULTS, |_: &Machine, world: &World| world.faults.is_empty()),
            Property::always(END, |_: &Machine, world: &World| {
                let proven = world.processes.iter().flatten().all(|process| !process.holds_place());
                !proven || world.host.held() == 0
            }),
            Property::sometimes(LATE, |_: &Machine, world: &World| {
                world.processes.iter().flatten().any(|process| process.proven_late)
            }),
            Property::sometimes(REFUSED, |_: &Machine, world: &World| world.refused),
            Property::sometimes(FULL, |machine: &Machine, world: &World| {
                let uncertain = world.processes.iter().flatten().any(|p| p.core.settled() && p.holds_place());
                uncertain && world.host.held() == u64::from(machine.limit)
            }),
        ]
    }
}

/// Follows every order of events; the states, and the properties that do not hold.
fn check(limit: u32, with: (usize, Detail), plant: Plant) -> Vec<&'static str> {
    // One mistake is enough; the right rules are followed to the end.
    let until = if plant == Plant::None || plant == Plant::FreesTwice {
        HasDiscoveries::All
    } else {
        HasDiscoveries::AnyFailures
    };
    let checker = Machine { limit, with, plant }.checker().finish_when(until).spawn_bfs().join();
    println!(
        "{plant:?}, {with:?} starters, {limit} places: {} states, {} different, depth {}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth()
    );
    if with.0 > 2 && plant == Plant::None {
        for name in [LATE, REFUSED, FULL] {
            assert!(checker.discovery(name).is_some(), "never: {name}");
        }
    }
    let mut broken: Vec<&str> =
        [HOLDERS, FAULTS, END].into_iter().filter(|name| checker.discovery(name).is_some()).collect();
    for name in &broken {
        let path = checker.discovery(name).expect("was just found");
        println!("{name}: {:?} after {:?}", path.last_state().faults, path.clone().into_actions());
    }
    broken.sort_unstable();
    broken
}

#[test]
fn no_order_of_events_leaks_a_place_or_loses_an_answer() {
    for (limit, with) in [(2, (1, Detail::Fine)), (2, (4, Detail::Coarse)), (3, (4, Detail::Whole))] {
        assert_eq!(check(limit, with, Plant::None), [""; 0]);
    }
}

#[test]
fn a_place_that_is_given_back_twice_takes_none_from_anybody() {
    assert_eq!(check(2, (3, Detail::Whole), Plant::FreesTwice), [""; 0]);
}

#[test]
fn mistakes_in_joining_the_rules_are_found() {
    let check = |plant, rule| assert!(check(2, (3, Detail::Whole), plant).contains(&rule), "{plant:?} breaks {rule:?}");
    check(Plant::FreesBeforeProof, HOLDERS);
    check(Plant::NeverFreesAFailedLaunch, HOLDERS);
    check(Plant::FreesAnothers, HOLDERS);
    check(Plant::AnswersEarly, FAULTS);
    check(Plant::StartsAfterShutdown, FAULTS);
}
