//! How long a stop takes, from the request to the proof that nothing of the tree is left.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use floor::{Program, Subreaper, Tree};
use support::{Aim, Mode, Report, Samples, census, figure, writer};

const ROUNDS: usize = 5;
/// A shell with three children; the byte it writes says that all of them were forked.
const TREE: &str = "sleep 1000 & sleep 1000 & sleep 1000 & echo; wait";
/// The shell and its children.
const MEMBERS: usize = 4;

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
    report.compare(&figures, Box::new(|| floor_stops(&program, each)), None);
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
    [50.0, 90.0, 99.0].map(|percent| stops.percentile(percent)).to_vec()
}
