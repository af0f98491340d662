//! A: descendants that keep the output pipe open; what "finished" means.

use procession::{Exit, State};

use crate::support::{Bench, running, text};

#[tokio::test]
async fn r01_a_quiet_background_child_does_not_hold_the_call() {
    let bench = Bench::new().await;
    for (command, said) in [
        ("echo up; sleep 60101 & exit 0", "up\n"),
        ("sleep 60102 >/dev/null & exit 0", ""),
        ("sleep 60103 </dev/null >/dev/null 2>&1 & exit 0", ""),
    ] {
        let (process, status) = bench.run(command).await;
        assert_eq!((status.state, status.exit), (State::Exited, Some(Exit::code(0))), "{command}");
        assert!(
            status.warnings.iter().any(|warning| warning.contains("1 process")),
            "{command}: {:?}",
            status.warnings
        );
        assert_eq!(text(&process).await, said);
    }
    for line in ["sleep 60101", "sleep 60102", "sleep 60103"] {
        assert!(running(line).is_empty(), "{line}");
    }
    bench.ended().await;
}
