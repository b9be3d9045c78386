//! The windows of both phases: with computing, and after it.

use indicatif::{ProgressBar, ProgressStyle};
use limic::Endpoint;
use limic::settings::{ByteSize, Path};
use limic_measure::MeasureError;
use limic_measure::content::{fill, seed};
use limic_measure::control::Control;
use limic_measure::numbers::Spread;

use super::super::args::Pattern;
use super::super::lane::skipped_path;
use super::super::measure::{explain, one};
use super::super::measured::Measured;
use super::super::pattern::{WINDOW, Work};
use super::super::report::{Report, Row};
use super::row::SkewRow;
use super::sides::{consume, micros, produce};
use super::{Args, NAME, Variant};

/// Windows in which a change of the thresholds must show.
const PATIENCE: u32 = 100;

/// One of the two ranks at work.
pub(super) struct Bench<'a> {
    pub(super) args: &'a Args,
    pub(super) control: Control,
    pub(super) report: Report,
    pub(super) progress: ProgressBar,
}

impl Bench<'_> {
    fn failed(&self) -> impl Fn(limic::Error) -> MeasureError + use<> {
        let rank = self.control.rank();
        move |source| MeasureError::Rank { rank, source }
    }

    /// Everything, in order.
    pub(super) fn all(
        &mut self,
        skewed: &mut [Variant],
        long: &mut [Variant],
    ) -> Result<(), MeasureError> {
        let rounds = u64::from(self.args.timed.rounds.rounds);
        if self.control.rank() == 0 {
            let computes = self.args.c2.len() as u64;
            let steps = computes * (rounds + 1);
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
            self.progress = ProgressBar::new(steps + rounds * (long.len() as u64 + 1))
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        for c2_us in self.args.c2.clone() {
            self.skewed(skewed, c2_us)?;
        }
        self.after(skewed, long)?;
        self.progress.finish_and_clear();
        Ok(())
    }

    /// Windows with computing, all variants in turn.
    fn skewed(&mut self, variants: &mut [Variant], c2_us: f64) -> Result<(), MeasureError> {
        let skew = self.args;
        let (window, bytes) = (skew.window, skew.message_bytes());
        self.progress
            .set_message(format!("c2 {c2_us} us: checking"));
        let mut firsts = Vec::new();
        let mut changes = Vec::new();
        for variant in variants.iter_mut() {
            let aware = variant.name == "aware";
            let already = aware && self.lags(variant)?;
            firsts.push(self.window(variant, c2_us, true)?);
            let change = if aware {
                self.until(
                    variant,
                    |lags| lags,
                    |bench, variant| bench.window(variant, c2_us, false).map(drop),
                )?
            } else {
                None
            };
            changes.push(change.map(|more| if already { 0 } else { 1 + more }));
        }
        self.progress.inc(1);
        self.progress.set_message(format!("c2 {c2_us} us"));
        let windows = windows_per_round(self.args, window as f64 * c2_us * 1e-6);
        let mut seconds = vec![Vec::new(); variants.len()];
        let mut moved = vec![Measured::default(); variants.len()];
        let mut ahead = vec![0; variants.len()];
        for _ in 0..self.args.timed.rounds.rounds {
            let mut round = vec![Vec::new(); variants.len()];
            // Window by window in turn: the machine's moods hit all alike.
            for _ in 0..windows {
                for (index, variant) in variants.iter_mut().enumerate() {
                    let before = variant.lane.teams[0].endpoint.counters();
                    round[index].push(self.window(variant, c2_us, false)?);
                    let endpoint = &variant.lane.teams[0].endpoint;
                    moved[index].count(endpoint, &before);
                    ahead[index] += endpoint.counters().ahead.messages - before.ahead.messages;
                }
            }
            for (all, round) in seconds.iter_mut().zip(round) {
                all.push(Spread::of(&round).median);
            }
            self.progress.inc(1);
        }
        let reference = Spread::of(&seconds[0]).median;
        for (index, variant) in variants.iter().enumerate() {
            let all = moved[index].of_all(&self.control).map_err(self.failed())?;
            let spread = Spread::of(&seconds[index]).scaled(1e6);
            let row = SkewRow {
                phase: "skewed",
                c1_us: skew.c1,
                c2_us,
                window,
                c3_us: Some(spread.median),
                first_c3_us: Some(firsts[index] * 1e6),
                windows_to_change: changes[index],
                ahead_messages: ahead[index],
                ratio: spread.median / (reference * 1e6).max(1e-6),
            };
            if variant.name == "eager" && all.path().map(Path::setting) != Some(Path::Eager) {
                self.report.notes.push(format!(
                    "the reference did not go eagerly but by {}: ratios to it mean little",
                    all.path().map_or("nothing", Path::name)
                ));
            }
            if variant.name == "off" && all.path().map(Path::setting) == Some(Path::Eager) {
                self.report.notes.push(format!(
                    "messages of {} go eagerly in any case, as long as the ring holds them: choose longer ones to see \
                     thresholds follow the skew",
                    ByteSize(bytes as u64)
                ));
            }
            let row = self.row(variant.name, all.path(), spread, windows, row);
            self.report.rows.push(row);
        }
        Ok(())
    }

    /// Windows without computing: thresholds come back, and what then is moved is compared with the
    /// long paths.
    fn after(&mut self, skewed: &mut [Variant], long: &mut [Variant]) -> Result<(), MeasureError> {
        let Some(aware) = skewed
            .iter_mut()
            .position(|variant| variant.name == "aware")
        else {
            return Ok(());
        };
        let bytes = self.args.message_bytes();
        let work = |iterations, check| Work {
            pattern: Pattern::Bandwidth,
            bytes,
            iterations,
            warmup: 0,
            reuse: None,
            check,
            rewrite: false,
        };
        let change = self.until(
            &mut skewed[aware],
            |lags| !lags,
            |bench, variant| bench.stream(variant, &work(1, false)).map(drop),
        )?;
        let mut variants = vec![&mut skewed[aware]];
        for variant in long.iter_mut() {
            let checked = self.stream(variant, &work(3, true))?;
            let asked = variant.lane.wanted.path();
            match asked {
                Some(path) if checked.path().map(Path::setting) != Some(path) => {
                    let why = skipped_path(path, checked.path());
                    let note = format!(
                        "{}, {}: not measured: {why}",
                        variant.name,
                        ByteSize(bytes as u64)
                    );
                    self.report.notes.push(note);
                }
                _ => variants.push(variant),
            }
        }
        let mut iterations = Vec::new();
        for variant in &mut variants {
            let seconds = self.stream(variant, &work(4, false))?.seconds / 4.0;
            iterations.push(u64::from(windows_per_round(self.args, seconds)));
        }
        let mut seconds = vec![Vec::new(); variants.len()];
        let mut moved = vec![Measured::default(); variants.len()];
        let mut ahead = 0;
        for _ in 0..self.args.timed.rounds.rounds {
            for (index, variant) in variants.iter_mut().enumerate() {
                self.progress
                    .set_message(format!("after: {}", variant.name));
                let before = variant.lane.teams[0].endpoint.counters().ahead.messages;
                let measured = self.stream(variant, &work(iterations[index], false))?;
                seconds[index].push(measured.seconds / iterations[index] as f64);
                moved[index].add(&measured);
                if index == 0 {
                    ahead += variant.lane.teams[0].endpoint.counters().ahead.messages - before;
                }
                self.progress.inc(1);
            }
        }
        let best = seconds[1..]
            .iter()
            .map(|rounds| Spread::of(rounds).median)
            .fold(f64::INFINITY, f64::min);
        for (index, variant) in variants.iter().enumerate() {
            let spread = Spread::of(&seconds[index]);
            let row = SkewRow {
                phase: "after",
                c1_us: 0.0,
                c2_us: 0.0,
                window: WINDOW,
                c3_us: None,
                first_c3_us: None,
                windows_to_change: change.filter(|_| index == 0),
                ahead_messages: if index == 0 { ahead } else { 0 },
                ratio: best / spread.median.max(1e-12),
            };
            let (name, path) = (variant.name, moved[index].path());
            let row = self.row(
                name,
                path,
                spread.scaled(1e6),
                iterations[index] as u32,
                row,
            );
            self.report.rows.push(row);
        }
        Ok(())
    }

    /// Repeats until the producer's thresholds are as they should be. Gives the number of
    /// repetitions, none if that did not happen within [`PATIENCE`].
    fn until(
        &mut self,
        variant: &mut Variant,
        done: impl Fn(bool) -> bool,
        mut repeat: impl FnMut(&mut Self, &mut Variant) -> Result<(), MeasureError>,
    ) -> Result<Option<u32>, MeasureError> {
        for windows in 0..PATIENCE {
            if done(self.lags(variant)?) {
                return Ok(Some(windows));
            }
            repeat(self, variant)?;
        }
        self.report.notes.push(format!(
            "{}: the thresholds did not follow within {PATIENCE} windows",
            variant.name
        ));
        Ok(None)
    }

    /// Whether the producer's thresholds follow the skew now; the same for both ranks.
    fn lags(&self, variant: &Variant) -> Result<bool, MeasureError> {
        let endpoint = &variant.lane.teams[0].endpoint;
        // The word of the consumer may still lie in the ring.
        while endpoint.progress() {}
        let lags = !endpoint.counters().lagging.is_empty();
        let all = self
            .control
            .gather(&[u8::from(lags)])
            .map_err(self.failed())?;
        Ok(all[0] == [1])
    }

    /// One window with computing: the producer's seconds.
    fn window(&self, variant: &mut Variant, c2_us: f64, check: bool) -> Result<f64, MeasureError> {
        let rank = self.control.rank();
        let skew = self.args;
        let (window, bytes) = (skew.window, skew.message_bytes());
        let team = &variant.lane.teams[0];
        let (produce_for, consume_for) = (micros(skew.c1), micros(c2_us));
        let outcome = if team.first {
            let out = variant
                .buffers
                .send
                .take(window * bytes)
                .map_err(self.failed())?;
            if check {
                for (index, message) in out.chunks_exact_mut(bytes).enumerate() {
                    fill(message, seed(rank, 0, index));
                }
            }
            self.control.barrier().map_err(self.failed())?;
            produce(team, out, bytes, produce_for)
        } else {
            let into = variant.buffers.receive.take(bytes).map_err(self.failed())?;
            self.control.barrier().map_err(self.failed())?;
            consume(team, into, window, consume_for, check)
        };
        let seconds = outcome
            .map_err(|stopped| explain(stopped, rank))?
            .as_secs_f64();
        let all = self
            .control
            .gather(&seconds.to_le_bytes())
            .map_err(self.failed())?;
        Ok(f64::from_le_bytes(all[0]))
    }

    /// Windows without computing.
    fn stream(&self, variant: &mut Variant, work: &Work) -> Result<Measured, MeasureError> {
        let start = || self.control.barrier();
        let team = &variant.lane.teams[0];
        let mine = one(team, &mut variant.buffers, work, false, &start)
            .map_err(|stopped| explain(stopped, self.control.rank()))?;
        mine.of_all(&self.control).map_err(self.failed())
    }

    fn row(
        &self,
        wanted: &'static str,
        path: Option<Path>,
        spread: Spread,
        windows: u32,
        skew: SkewRow,
    ) -> Row {
        let bytes = self.args.message_bytes();
        let each = spread.scaled(1.0 / skew.window as f64);
        let ranks = self.control.size();
        Row {
            path: path.map_or(wanted, Path::name).to_owned(),
            rounds: self.args.timed.rounds.rounds,
            iterations: u64::from(windows),
            skew: Some(skew),
            ..Row::new(NAME, wanted, ranks, bytes, each, 1.0)
        }
    }
}

/// Windows that fit a round; at least three, so that there is a median.
fn windows_per_round(args: &Args, seconds: f64) -> u32 {
    let fits = args.timed.round() / seconds.max(1e-7);
    let asked = args
        .timed
        .rounds
        .iterations
        .map_or(fits, |iterations| iterations as f64);
    asked.clamp(1.0, 10_000.0).max(3.0) as u32
}
