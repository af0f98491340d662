//! Who is in a process group. Never looked up on the path of a process that leaves nothing behind.
//!
//! Invariant: a member is known by number *and* start, so that a reused number is nobody. A zombie is not alive
//! unless threads of it still run. Lacks: any signal but 0.

use rustix::process::Pid;

use crate::protocol::state::Survivor;

#[cfg_attr(target_os = "linux", path = "members_linux.rs")]
#[cfg_attr(target_os = "macos", path = "members_macos.rs")]
#[cfg_attr(not(any(target_os = "linux", target_os = "macos")), path = "members_absent.rs")]
mod platform;

#[cfg(target_os = "linux")]
pub(super) use platform::is_still;
pub(super) use platform::scan;

/// A live member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Its number.
    pub(super) pid: Pid,
    /// When it started, in the platform's own count.
    started: u64,
    /// What it does, as far as that explains why it is alive.
    doing: &'static str,
    name: String,
}

/// What one scan found.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Members that are alive.
    pub(super) live: Vec<Member>,
    /// Zombie members.
    pub(super) dead: Vec<Pid>,
    /// Whether every process can be seen. Then nothing found means nothing there.
    pub(super) complete: bool,
}

/// What the platform says of a member now.
#[derive(Debug, Default)]
struct Details {
    uid: Option<u32>,
    age_ms: u64,
    traced: bool,
}

/// What is told of members that are still there.
pub(super) fn survivors(members: &[Member]) -> Vec<Survivor> {
    let describe = |member: &Member| {
        let details = platform::details(member);
        let user = user_name(details.uid);
        let why = why_alive(member, details.traced, &user);
        Survivor { name: member.name.clone(), user, age_ms: details.age_ms, why }
    };
    members.iter().map(describe).collect()
}

/// A member the kernel counts and nothing shows.
pub(super) fn hidden() -> Survivor {
    let unknown = || "unknown".to_owned();
    Survivor { name: unknown(), user: unknown(), age_ms: 0, why: "not visible to this program".to_owned() }
}

fn why_alive(member: &Member, traced: bool, user: &str) -> String {
    // Signal 0 tests permission and disturbs nobody, whoever the number belongs to by now.
    if rustix::process::test_kill_process(member.pid) == Err(rustix::io::Errno::PERM) {
        return format!("may not be signalled: runs as {user}");
    }
    if traced {
        return "traced by another program".to_owned();
    }
    member.doing.to_owned()
}

/// The name of a user, or the number.
pub(super) fn user_name(uid: Option<u32>) -> String {
    let Some(uid) = uid else { return "unknown".to_owned() };
    match nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_in_its_own_group() {
        let census = scan(rustix::process::getpgrp());
        let own = census.live.iter().find(|member| member.pid == rustix::process::getpid()).unwrap();
        let told = survivors(std::slice::from_ref(own));
        assert!(told[0].age_ms < 3_600_000, "{told:?}");
        #[cfg(target_os = "linux")]
        assert!(is_still(own, rustix::process::getpgrp()));
    }
}
