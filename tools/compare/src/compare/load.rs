//! The load of other programs on the measured CPUs.

use std::fs::read_to_string;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Share of the measured CPUs' time beyond which other programs, or other guests, make figures
/// doubtful.
pub(super) const DOUBTFUL: f64 = 0.05;

/// The load average over the last minute, and the number of CPUs, of the whole machine.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Average {
    pub(super) load: f64,
    pub(super) cpus: usize,
}

/// The load during all rounds, or during one pass.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) before: Average,
    pub(super) after: Average,
    /// Share of the measured CPUs' time that other programs took.
    pub(super) others: f64,
    /// Share of the measured CPUs' time that the hypervisor gave to other guests.
    pub(super) stolen: f64,
    pub(super) seconds: f64,
}

impl Average {
    fn now() -> Self {
        let text = read_to_string("/proc/loadavg").unwrap_or_default();
        let first = text.split_whitespace().next();
        Self {
            load: first.and_then(|word| word.parse().ok()).unwrap_or(0.0),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Load {
    /// The load of this run and of a later run that went on from it.
    pub(super) fn and(self, later: Self) -> Self {
        let seconds = (self.seconds + later.seconds).max(f64::MIN_POSITIVE);
        let both = |a: f64, b: f64| (a * self.seconds + b * later.seconds) / seconds;
        Self {
            before: self.before,
            after: later.after,
            others: both(self.others, later.others),
            stolen: both(self.stolen, later.stolen),
            seconds,
        }
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (share, who) in [
            (self.others, "other programs"),
            (self.stolen, "other guests"),
        ] {
            if share > DOUBTFUL {
                warnings.push(format!(
                    "{who} took {:.0} % of the measured CPUs' time",
                    share * 100.0
                ));
            }
        }
        warnings
    }
}

/// The machine is watched for so long, and so often, before it counts as busy.
const LOOK: Duration = Duration::from_millis(700);
const LOOKS: u32 = 6;

/// Why nothing that is measured now would mean anything, if so.
pub(super) fn busy(cpus: &[usize]) -> Option<String> {
    let mut said = Vec::new();
    for _ in 0..LOOKS {
        let watch = Watch::start(cpus);
        // Of the CPUs' use there is no event, only an account over some time.
        std::thread::sleep(LOOK);
        said = watch.finish().warnings();
        if said.is_empty() {
            return None;
        }
    }
    Some(said.join("; "))
}

/// Watches the measured CPUs. What other CPUs do would hide what happens on these.
pub(super) struct Watch<'a> {
    cpus: &'a [usize],
    before: Average,
    begin: Instant,
    ticks: Ticks,
}

impl<'a> Watch<'a> {
    pub(super) fn start(cpus: &'a [usize]) -> Self {
        Self {
            cpus,
            before: Average::now(),
            begin: Instant::now(),
            ticks: Ticks::now(cpus),
        }
    }

    pub(super) fn finish(&self) -> Load {
        let (after, ticks) = (Average::now(), Ticks::now(self.cpus));
        let share = |of: fn(&Ticks) -> u64| {
            let all = ticks.all.saturating_sub(self.ticks.all).max(1);
            of(&ticks).saturating_sub(of(&self.ticks)) as f64 / all as f64
        };
        let others = share(|ticks| ticks.busy) - share(|ticks| ticks.own);
        Load {
            before: self.before,
            after,
            others: others.max(0.0),
            stolen: share(|ticks| ticks.stolen),
            seconds: self.begin.elapsed().as_secs_f64(),
        }
    }
}

/// The kernel's accounts of CPU time, in its clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    all: u64,
    busy: u64,
    stolen: u64,
    /// Those of this process and its descendants that have ended. What they measure runs on these
    /// CPUs.
    own: u64,
}

impl Ticks {
    fn now(cpus: &[usize]) -> Self {
        let read = |path| read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/stat"), &read("/proc/self/stat"), cpus)
    }

    /// `cpu0 user nice system idle iowait irq softirq steal ...` and `pid (name) state ...`, whose
    /// fields 14 to 17 are user and system time of the process and of its children.
    fn parse(stat: &str, own: &str, cpus: &[usize]) -> Self {
        let mut sums = [0; 8];
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().and_then(|word| word.strip_prefix("cpu"));
            let cpu = name.and_then(|number| number.parse().ok());
            if cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
                for (sum, word) in sums.iter_mut().zip(words) {
                    *sum += word.parse::<u64>().unwrap_or(0);
                }
            }
        }
        let sum = |columns: &[usize]| columns.iter().map(|at| sums[*at]).sum::<u64>();
        let behind_name = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let times = behind_name.split_whitespace().skip(11).take(4);
        Self {
            all: sum(&[0, 1, 2, 3, 4, 5, 6, 7]),
            // Interrupts are of no program: over TCP, they carry what is measured.
            busy: sum(&[0, 1, 2]),
            stolen: sum(&[7]),
            own: times.filter_map(|word| word.parse::<u64>().ok()).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_accounts_of_the_measured_cpus_are_read() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 20 30 400 50 6 7 80 0 0\n\
                    cpu1 1 1 1 1 1 1 1 1 0 0\ncpu10 0 0 0 5 0 0 0 0 0 0\nintr 7 8\n";
        let own = "77 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0\n";
        let expected = Ticks {
            all: 608,
            busy: 60,
            stolen: 80,
            own: 127,
        };
        assert_eq!(Ticks::parse(stat, own, &[0, 10]), expected);
        assert_eq!(Ticks::parse("", "", &[0]), Ticks::default());
    }

    #[test]
    fn shares_of_two_runs_are_weighed_by_their_time() {
        let of = |load, others, seconds| Load {
            before: Average { load, cpus: 2 },
            after: Average { load, cpus: 2 },
            others,
            stolen: 0.0,
            seconds,
        };
        let both = of(1.0, 0.4, 10.0).and(of(2.0, 0.0, 30.0));
        assert_eq!((both.before.load, both.after.load), (1.0, 2.0));
        assert_eq!((both.others, both.seconds), (0.1, 40.0));
    }

    #[test]
    fn a_busy_machine_is_said_so() {
        let of = |load, others| Load {
            before: Average { load, cpus: 2 },
            after: Average { load, cpus: 2 },
            others,
            stolen: 0.0,
            seconds: 1.0,
        };
        assert!(of(0.5, 0.01).warnings().is_empty());
        assert_eq!(of(3.0, 0.5).warnings().len(), 1);
    }
}
