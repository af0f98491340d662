//! How long a stop takes, from the request to the proof that nothing of the tree is left.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::time::Instant;

use floor::{Program, Subreaper, Tree};
use procession::Cleanup;
use support::{Aim, Mode, Ours, Report, Samples, census, figure, ours, writer};

const ROUNDS: usize = 5;
/// A shell with three children; the byte it writes says that all of them were forked.
const TREE: &str = "sleep 1000 & sleep 1000 & sleep 1000 & echo; wait";
/// The shell and its children.
const MEMBERS: usize = 4;
/// Longest time until the tree stands.
const SAYS_SO_MS: u64 = 10_000;

fn main() {
    writer::run_if_asked();
    let mode = Mode::from_arguments();
    let report = Report::new("stop", mode, ROUNDS);
    let program = Program::shell(TREE, &census::environment());
    let each = mode.pick(50, 3);
    let figures = [
        figure("sh with three children p50", "us", Aim::RatioAtMost(1.5)),
        figure("sh with three children p90", "us", Aim::Shown),
        figure("sh with three children p99", "us", Aim::Shown),
    ];
    report.compare(&figures, Box::new(|| floor_stops(&program, each)), Some(Box::new(|| our_stops(each))));
    census::finish();
}

/// TERM to the group until every member is reaped by this process and both pipes are at EOF.
fn floor_stops(program: &Program, each: usize) -> Vec<f64> {
    // Only for the floor's round: ours must not gain or lose by it.
    let subreaper = Subreaper::become_one().expect("any process may become a subreaper");
    let mut stops = Samples::default();
    for _ in 0..each {
        let tree = Tree::launch(program, &subreaper).expect("launch");
        let reaped = stops.time(|| tree.stop().expect("stop"));
        assert_eq!(reaped, MEMBERS, "every member was reaped here");
    }
    percentiles(&stops)
}

/// From the call to its answer, which says that nothing of the group is left.
fn our_stops(each: usize) -> Vec<f64> {
    let ours = Ours::start();
    let agent = ours.agent(0);
    ours.run(async move {
        let mut stops = Samples::default();
        for _ in 0..each {
            let process = agent.start(ours::shell(TREE)).await.expect("a start");
            let said = process.output().wait_ms(SAYS_SO_MS).page().await.expect("a page");
            assert_eq!(said.text(), "\n", "the tree stands");
            let began = Instant::now();
            let status = process.stop(None).await.expect("a stop");
            stops.push(began.elapsed());
            assert_eq!(status.cleanup, Some(Cleanup::Confirmed), "nothing is left");
            process.clear().await.expect("a clear");
        }
        percentiles(&stops)
    })
}

fn percentiles(stops: &Samples) -> Vec<f64> {
    [50.0, 90.0, 99.0].map(|percent| stops.percentile(percent)).to_vec()
}
