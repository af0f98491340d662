//! Rounds in pairs, and one line for each figure.
//!
//! A round runs the floor, then ours (A B A B …), so that a machine that grows busier troubles both alike. The ratio
//! is taken inside each round; the line shows its median and its range over the rounds.

use super::mode::Mode;
use super::samples::percentile;

/// What a figure should be. Reported as pass or miss, never enforced.
#[derive(Clone, Copy)]
pub enum Aim {
    /// Ours over the floor, at most.
    RatioAtMost(f64),
    /// Ours over the floor, at least.
    RatioAtLeast(f64),
    /// Ours alone, at most, in the figure's unit.
    AtMost(f64),
    /// No aim: context for the figures beside it.
    Shown,
}

/// One line of the report.
pub struct Figure {
    name: String,
    unit: &'static str,
    aim: Aim,
}

pub fn figure(name: impl Into<String>, unit: &'static str, aim: Aim) -> Figure {
    Figure { name: name.into(), unit, aim }
}

/// One side's round: a value for each figure, in the order of the figures.
pub type Side<'a> = Box<dyn FnMut() -> Vec<f64> + 'a>;

/// The report of one bench.
pub struct Report {
    bench: &'static str,
    rounds: usize,
    mode: Mode,
}

impl Report {
    /// `rounds` is the number of rounds in full; quick takes one, without a warm-up.
    pub fn new(bench: &'static str, mode: Mode, rounds: usize) -> Self {
        Self { bench, rounds: mode.pick(rounds, 1), mode }
    }

    /// Runs the rounds and prints the figures. The first round of each side is a warm-up, run and not counted.
    pub fn compare(&self, figures: &[Figure], mut floor: Side<'_>, mut ours: Option<Side<'_>>) {
        let mut floor_rounds = Vec::new();
        let mut our_rounds = Vec::new();
        let warm_ups = self.mode.pick(1, 0);
        for round in 0..self.rounds + warm_ups {
            let floor_values = floor();
            assert_eq!(floor_values.len(), figures.len(), "a value for each figure");
            let our_values = ours.as_mut().map(|ours| ours());
            if round < warm_ups {
                continue;
            }
            floor_rounds.push(floor_values);
            our_rounds.extend(our_values);
        }
        for (at, figure) in figures.iter().enumerate() {
            let column = |rounds: &[Vec<f64>]| rounds.iter().map(|values| values[at]).collect::<Vec<_>>();
            self.line(figure, &column(&floor_rounds), &column(&our_rounds));
        }
    }

    /// Says why something was not measured.
    pub fn skip(&self, what: &str, why: &str) {
        println!("{:<9} {what:<44} skipped: {why}", self.bench);
    }

    fn line(&self, figure: &Figure, floor: &[f64], ours: &[f64]) {
        let ratios: Vec<f64> = ours.iter().zip(floor).map(|(ours, floor)| ours / floor).collect();
        println!(
            "{:<9} {:<44} ours {:<26} floor {:<26} ratio {:<24} aim {:<18} {}",
            self.bench,
            figure.name,
            spread(ours, figure.unit),
            spread(floor, figure.unit),
            spread(&ratios, "x"),
            aim_text(figure),
            verdict(figure.aim, ours, &ratios),
        );
    }
}

/// Median and range over the rounds, or `-` where nothing was measured.
fn spread(values: &[f64], unit: &str) -> String {
    match values {
        [] => "-".into(),
        [one] => format!("{} {unit}", short(*one)),
        many => {
            let at = |percent| short(percentile(many, percent));
            format!("{} {unit} [{}..{}]", at(50.0), at(0.0), at(100.0))
        }
    }
}

/// Three significant digits or so.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn aim_text(figure: &Figure) -> String {
    match figure.aim {
        Aim::RatioAtMost(ratio) => format!("<= {ratio} x"),
        Aim::RatioAtLeast(ratio) => format!(">= {ratio} x"),
        Aim::AtMost(value) => format!("<= {value} {}", figure.unit),
        Aim::Shown => "-".into(),
    }
}

fn verdict(aim: Aim, ours: &[f64], ratios: &[f64]) -> &'static str {
    if ours.is_empty() {
        return "-";
    }
    let met = match aim {
        Aim::RatioAtMost(ratio) => percentile(ratios, 50.0) <= ratio,
        Aim::RatioAtLeast(ratio) => percentile(ratios, 50.0) >= ratio,
        Aim::AtMost(value) => percentile(ours, 50.0) <= value,
        Aim::Shown => return "-",
    };
    if met { "pass" } else { "miss" }
}
