//! The line latency between the two CPUs at this moment: the time to hand one cache line over.
//!
//! On a virtual machine it changes several times over when the hypervisor moves a virtual CPU to
//! another part of the machine, and stays so for seconds or minutes. Results from before and after
//! such a change cannot be compared.

use serde::{Deserialize, Serialize};

use super::load::{DOUBTFUL, Load};
use super::pattern::{Pattern, Portion};
use super::samples::Spread;

/// Between two readings of one machine, there is no larger factor.
const CHANGED: f64 = 1.3;

/// Whether the machine has changed between two readings.
pub(crate) fn changed(a: f64, b: f64) -> bool {
    a.max(b) > CHANGED * a.min(b)
}

/// One pass of a portion through all subjects, and the line latency before the pass, between the
/// subjects and after the pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pass {
    /// Counted from 1.
    pub(super) round: u32,
    pub(super) pattern: Pattern,
    /// The first size and the last one.
    pub(super) bytes: (u64, u64),
    /// None if one of the readings failed: what was between the others is not known.
    pub(super) line_latency_us_least: Option<f64>,
    pub(super) line_latency_us_most: Option<f64>,
    /// How long the pass took.
    pub(super) seconds: f64,
    /// Whether other programs, or other guests, took much of the CPUs meanwhile.
    disturbed: bool,
    /// It counts all the same: `--busy` was given.
    busy: bool,
}

impl Pass {
    /// Begins after this reading.
    pub(super) fn new(round: u32, portion: &Portion, reading: Option<f64>) -> Self {
        Self {
            round,
            pattern: portion.pattern,
            bytes: portion.ends(),
            line_latency_us_least: reading,
            line_latency_us_most: reading,
            seconds: 0.0,
            disturbed: false,
            busy: false,
        }
    }

    /// Whether it is one of a portion's.
    pub(super) fn is_of(&self, portion: &Portion) -> bool {
        (self.pattern, self.bytes) == (portion.pattern, portion.ends())
    }

    /// Takes in a further reading.
    pub(super) fn read(&mut self, reading: Option<f64>) {
        let both = |known: Option<f64>, of: fn(f64, f64) -> f64| {
            known.zip(reading).map(|(known, us)| of(known, us))
        };
        self.line_latency_us_least = both(self.line_latency_us_least, f64::min);
        self.line_latency_us_most = both(self.line_latency_us_most, f64::max);
    }

    /// Takes in what others did until the end of the pass. With `busy` it counts all the same.
    pub(super) fn end(&mut self, load: &Load, busy: bool) {
        self.seconds = load.seconds;
        self.disturbed = !load.warnings().is_empty();
        self.busy = busy;
    }

    /// Why it does not count, if so.
    pub(super) fn refused(&self) -> Option<&'static str> {
        if self.is_unread() {
            Some("the distance could not be read")
        } else if self.changed() {
            Some("the distance has changed meanwhile")
        } else if self.disturbed && !self.busy {
            Some("others have used the CPUs meanwhile")
        } else {
            None
        }
    }

    /// Whether a reading failed.
    fn is_unread(&self) -> bool {
        self.line_latency_us_least.is_none()
    }

    /// Whether others took the CPUs, as was asked for. Then readings tell more of the others' turns
    /// than of the distance.
    fn is_beside_others(&self) -> bool {
        self.disturbed && self.busy
    }

    /// Whether the machine changed meanwhile, as far as it is known.
    fn changed(&self) -> bool {
        if self.is_beside_others() {
            return false;
        }
        let both = self.line_latency_us_least.zip(self.line_latency_us_most);
        both.is_some_and(|(least, most)| changed(least, most))
    }

    /// The middle of the readings on a logarithmic scale, if the pass counts and they say
    /// something.
    fn steady(&self) -> Option<f64> {
        let (least, most) = (self.line_latency_us_least?, self.line_latency_us_most?);
        let says = self.refused().is_none() && !self.is_beside_others();
        says.then(|| middle(least, most))
    }
}

/// The middle on a logarithmic scale.
fn middle(a: f64, b: f64) -> f64 {
    (a * b).sqrt()
}

/// The distance of the CPUs, on a machine that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Distance {
    Near,
    Far,
}

impl Distance {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// The distance in each round of each pattern. On a machine that did not change there is none.
#[derive(Debug, Default)]
pub(super) struct Distances {
    /// The line latency that parts near from far, in microseconds.
    border: Option<f64>,
    passes: Vec<Pass>,
}

impl Distances {
    pub(super) fn of(passes: &[Pass]) -> Self {
        let mut steady: Vec<f64> = passes.iter().filter_map(Pass::steady).collect();
        steady.sort_by(f64::total_cmp);
        // The widest step between two neighbours parts them. It is wider than a steady pass, so
        // that none lies across.
        let steps = steady.windows(2).map(|two| (two[0], two[1]));
        let widest = steps.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let unknown = passes.iter().any(Pass::is_beside_others);
        let parting = widest.filter(|(below, above)| changed(*below, *above) && !unknown);
        Self {
            border: parting.map(|(below, above)| middle(below, above)),
            passes: passes.to_vec(),
        }
    }

    /// Those that the machine showed: near and far, or none on a machine that did not change.
    pub(super) fn seen(&self) -> Vec<Option<Distance>> {
        match self.border {
            Some(_) => vec![Some(Distance::Near), Some(Distance::Far)],
            None => vec![None],
        }
    }

    /// Whether a size of a pattern met the machine at this distance in a round, from the first
    /// subject to the last one. `round` is counted from 0.
    pub(super) fn holds(
        &self,
        (pattern, bytes): (Pattern, u64),
        round: usize,
        distance: Option<Distance>,
    ) -> bool {
        let pattern = pattern.measured_with().unwrap_or(pattern);
        let mut passes = self.passes.iter();
        let pass = passes.find(|pass| {
            let (first, last) = pass.bytes;
            pass.pattern == pattern
                && pass.round as usize == round + 1
                && (first..=last).contains(&bytes)
        });
        pass.is_some_and(|pass| self.is_at(pass, distance))
    }

    /// The rounds of a portion at a distance.
    pub(super) fn rounds(&self, portion: &Portion, distance: Option<Distance>) -> usize {
        let of = self.passes.iter().filter(|pass| pass.is_of(portion));
        of.filter(|pass| self.is_at(pass, distance)).count()
    }

    /// Not where the pass does not count.
    fn is_at(&self, pass: &Pass, distance: Option<Distance>) -> bool {
        if pass.refused().is_some() {
            return false;
        }
        match (self.border, distance) {
            (None, None) => true,
            (Some(border), Some(distance)) => {
                let here = |us| (us < border) == (distance == Distance::Near);
                pass.steady().is_some_and(here)
            }
            _ => false,
        }
    }
}

/// The readings of the passes that count, in microseconds.
pub(super) fn spread(passes: &[Pass]) -> Option<Spread> {
    let readings = passes
        .iter()
        .filter(|pass| pass.steady().is_some())
        .flat_map(|pass| [pass.line_latency_us_least, pass.line_latency_us_most]);
    Spread::of(readings.flatten())
}

/// Everything that the passes say about the results.
pub(super) fn warnings(passes: &[Pass]) -> Vec<String> {
    let mut warnings = Vec::new();
    let distances = Distances::of(passes);
    if let (Some(border), Some(all)) = (distances.border, spread(passes)) {
        warnings.push(format!(
            "the CPUs did not keep their distance: the line latency was {:.3} to {:.3} us; there is \
             a table for the rounds below {border:.3} us (near) and one for those above (far)",
            all.least, all.most
        ));
    }
    warnings.extend(doubts(passes));
    let count = |is_so: fn(&Pass) -> bool| passes.iter().filter(|pass| is_so(pass)).count();
    let (changed, unread) = (count(Pass::changed), count(Pass::is_unread));
    for (count, what) in [(changed, "changed"), (unread, "could not be read")] {
        if count > 0 {
            warnings.push(format!(
                "the distance {what} within {count} of {} passes through all peers, which do not \
                 count",
                passes.len()
            ));
        }
    }
    warnings.extend(disturbed(passes, false, "which do not count"));
    warnings
}

/// In how many passes others took much of the CPUs, with or without `--busy`, in words.
fn disturbed(passes: &[Pass], busy: bool, so: &str) -> Option<String> {
    let of = passes
        .iter()
        .filter(|pass| pass.disturbed && pass.busy == busy && !pass.changed() && !pass.is_unread());
    let (count, all, limit) = (of.count(), passes.len(), 100.0 * DOUBTFUL);
    (count > 0).then(|| {
        format!(
            "other programs or other guests took more than {limit:.0} % of the measured CPUs' time \
             within {count} of {all} passes through all peers, {so}"
        )
    })
}

/// Reasons to doubt the rounds that count.
pub(super) fn doubts(passes: &[Pass]) -> Vec<String> {
    let distances = Distances::of(passes);
    let mut doubts = Vec::new();
    // There is one border at most, so that a machine with three distances mixes two of them.
    for distance in distances.seen() {
        let steady = passes.iter().filter(|pass| distances.is_at(pass, distance));
        if let Some(all) = Spread::of(steady.filter_map(Pass::steady))
            && changed(all.least, all.most)
        {
            let name = distance.map_or_else(String::new, |one| format!(" {}", one.name()));
            doubts.push(format!(
                "the{name} rounds mix distances of the CPUs: their line latency was {:.3} to {:.3} \
                 us",
                all.least, all.most
            ));
        }
    }
    doubts.extend(disturbed(passes, true, "which count because of --busy"));
    doubts
}

#[cfg(test)]
mod tests {
    use super::super::load::Average;
    use super::*;

    fn of(pattern: Pattern) -> Portion {
        Portion {
            pattern,
            sizes: vec![8],
        }
    }

    fn pass(before: f64, after: f64) -> Pass {
        let mut pass = Pass::new(1, &of(Pattern::Rate), Some(before));
        pass.read(Some(after));
        pass
    }

    #[test]
    fn a_machine_that_changes_is_noticed() {
        assert!(!pass(0.06, 0.07).changed());
        assert!(pass(0.06, 0.18).changed() && pass(0.18, 0.06).changed());
        assert!(!Pass::new(1, &of(Pattern::Rate), None).changed());
        assert!(warnings(&[pass(0.06, 0.07)]).is_empty());
        assert_eq!(warnings(&[pass(0.06, 0.07), pass(0.17, 0.18)]).len(), 1);
        assert_eq!(warnings(&[pass(0.06, 0.18)]).len(), 1);
    }

    #[test]
    fn a_pass_whose_distance_could_not_be_read_does_not_count() {
        let portion = of(Pattern::Rate);
        for readings in [[None, None], [None, Some(0.06)], [Some(0.06), None]] {
            let mut pass = Pass::new(1, &portion, readings[0]);
            pass.read(readings[1]);
            pass.read(Some(0.06));
            let distances = Distances::of(std::slice::from_ref(&pass));
            assert_eq!(distances.rounds(&portion, None), 0, "{readings:?}");
            assert!(!distances.holds((Pattern::Rate, 8), 0, None));
            let said = warnings(&[pass]);
            assert!(said.len() == 1 && said[0].contains("could not be read within 1 of 1"));
        }
    }

    #[test]
    fn rounds_of_one_name_that_mix_distances_raise_a_doubt() {
        let at = |us| pass(us, us);
        let said = warnings(&[at(0.03), at(0.1), at(0.18)]);
        let words = "the far rounds mix distances of the CPUs: their line latency was 0.100 to \
                     0.180 us";
        assert_eq!(said[1..], [words]);
        assert_eq!(doubts(&[at(0.03), at(0.1), at(0.18)]), [words]);
        // Near and far alone have tables of their own.
        assert!(doubts(&[at(0.03), at(0.18), pass(0.03, 0.18)]).is_empty());
        // No step is wide enough for a border.
        let said = warnings(&[at(0.1), at(0.125), at(0.15)]);
        let words = "the rounds mix distances of the CPUs: their line latency was 0.100 to 0.150 \
                     us";
        assert_eq!(said, [words]);
    }

    #[test]
    fn rounds_are_near_far_or_neither() {
        let mut passes = [pass(0.03, 0.031), pass(0.18, 0.17), pass(0.03, 0.18)];
        for (round, pass) in (1..).zip(&mut passes) {
            pass.round = round;
        }
        let distances = Distances::of(&passes);
        let (near, far) = (Some(Distance::Near), Some(Distance::Far));
        assert_eq!(distances.seen(), [near, far]);
        let rounds = |distance| -> Vec<usize> {
            let holds = |round: &usize| distances.holds((Pattern::Rate, 8), *round, distance);
            (0..4).filter(holds).collect()
        };
        assert_eq!((rounds(near), rounds(far)), (vec![0], vec![1]));
        assert!(!distances.holds((Pattern::Latency, 8), 0, near));
        assert!(!distances.holds((Pattern::Rate, 16), 0, near));
        assert_eq!(distances.rounds(&of(Pattern::Rate), far), 1);
        let calm = Distances::of(&passes[..1]);
        assert_eq!(calm.seen(), [None]);
        assert!(calm.holds((Pattern::Rate, 8), 0, None));
        // A reading of a pass that does not count moves no border.
        passes[2] = pass(0.03, 9.0);
        passes[2].round = 3;
        let border = Distances::of(&passes).border.expect("two distances");
        assert!((0.031..0.17).contains(&border), "{border}");
        // A round in which the machine changed counts nowhere.
        let torn = Distances::of(&passes[2..]);
        assert_eq!(torn.seen(), [None]);
        assert_eq!(torn.rounds(&of(Pattern::Rate), None), 0);
    }

    #[test]
    fn a_pass_in_which_others_took_the_cpus_counts_only_if_that_is_asked_for() {
        let average = Average { load: 0.0, cpus: 2 };
        let ended = |others, busy| {
            let mut pass = pass(0.06, 0.07);
            let load = Load {
                before: average,
                after: average,
                others,
                stolen: 0.0,
                seconds: 2.0,
            };
            pass.end(&load, busy);
            pass
        };
        let rounds = |pass: &Pass| {
            let distances = Distances::of(std::slice::from_ref(pass));
            distances.rounds(&of(Pattern::Rate), None)
        };
        let (calm, bursts, asked) = (ended(0.01, false), ended(0.2, false), ended(0.2, true));
        assert_eq!([&calm, &bursts, &asked].map(rounds), [1, 0, 1]);
        let passes = [calm, bursts];
        assert!(doubts(&passes).is_empty());
        let said = warnings(&passes);
        assert!(
            said.len() == 1
                && said[0].ends_with("1 of 2 passes through all peers, which do not count"),
            "{said:?}"
        );
        // Beside others a reading says nothing of the distance.
        let mut changed = asked.clone();
        changed.read(Some(0.2));
        assert_eq!(rounds(&changed), 1);
        let both = [asked, changed];
        assert_eq!(Distances::of(&both).seen(), [None]);
        let said = doubts(&both);
        assert!(
            said.len() == 1 && said[0].ends_with("because of --busy"),
            "{said:?}"
        );
    }
}
