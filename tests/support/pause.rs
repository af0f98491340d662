//! The only places where a test lets time pass.
//!
//! [`look_again`] is for what the kernel announces to nobody (a stranger's state in `/proc`): a short pause between
//! two looks, inside a loop with a bound. [`spend`] is for tests whose subject is time itself: idleness, an age.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::Duration;

/// Pause between two looks at what gives no event.
const LOOK: Duration = Duration::from_millis(1);

/// Lets a moment pass before looking again.
pub async fn look_again() {
    tokio::time::sleep(LOOK).await;
}

/// The same without a runtime.
pub fn look_again_blocking() {
    std::thread::sleep(LOOK);
}

/// [`spend`] without a runtime.
pub fn spend_blocking(time: Duration) {
    std::thread::sleep(time);
}

/// Lets `time` pass because that is what is tested.
pub async fn spend(time: Duration) {
    tokio::time::sleep(time).await;
}
