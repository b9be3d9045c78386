//! Sets of CPUs.

use core::fmt;
use core::str::FromStr;
use std::io;

use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

/// CPU numbers above this are taken for garbage.
const MAX_CPU: u32 = 1 << 20;

/// A set of CPUs, by the operating system's numbers. Read and printed as the kernel's lists are:
/// `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet {
    /// Bit n of word m is CPU 64 m + n; the last word is not 0, so that equal sets are equal.
    words: Vec<u64>,
}

impl CpuSet {
    /// No CPU.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The CPUs that the calling thread may run on.
    ///
    /// # Errors
    /// What the kernel says, if both `sched_getaffinity` and `/proc/thread-self/status` fail.
    pub fn allowed() -> io::Result<Self> {
        if let Ok(set) = sched_getaffinity(None) {
            return Ok(Self::from(set));
        }
        // A kernel for more CPUs than the fixed-size set holds refuses it with EINVAL.
        let status = std::fs::read_to_string("/proc/thread-self/status")?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .and_then(|list| list.trim().parse().ok())
            .ok_or_else(|| io::Error::other("no Cpus_allowed_list in /proc/thread-self/status"))
    }

    /// The CPUs that the first thread of a process may run on. `None`: the kernel does not say, or
    /// the process is simulated.
    #[must_use]
    pub fn allowed_to(process: i32) -> Option<Self> {
        if cfg!(limic_sim) {
            return None;
        }
        let set = sched_getaffinity(Some(Pid::from_raw(process)?)).ok()?;
        Some(Self::from(set))
    }

    /// Adds all of another set.
    pub fn insert_all(&mut self, other: &Self) {
        other.iter().for_each(|cpu| self.insert(cpu));
    }

    /// Adds a CPU. Numbers of 1048576 and above are ignored.
    pub fn insert(&mut self, cpu: u32) {
        if cpu >= MAX_CPU {
            return;
        }
        let (word, bit) = Self::position(cpu);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = Self::position(cpu);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Whether every CPU of `other` is in this set.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        other.iter().all(|cpu| self.contains(cpu))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The lowest CPU number.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The CPU numbers, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..)
            .step_by(64)
            .zip(&self.words)
            .flat_map(|(base, word)| {
                (0..64)
                    .filter(move |bit| word & (1 << bit) != 0)
                    .map(move |bit| base + bit)
            })
    }

    fn position(cpu: u32) -> (usize, u64) {
        (
            usize::try_from(cpu / 64).unwrap_or(usize::MAX),
            1 << (cpu % 64),
        )
    }
}

impl From<rustix::thread::CpuSet> for CpuSet {
    fn from(set: rustix::thread::CpuSet) -> Self {
        let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

/// The text is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list of CPUs; accepted: numbers below 1048576 and ranges, as 0-3,8")]
pub struct ParseCpuSetError(String);

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let bad = || ParseCpuSetError(list.to_owned());
        let number = |text: &str| {
            text.trim()
                .parse()
                .ok()
                .filter(|cpu| *cpu < MAX_CPU)
                .ok_or_else(bad)
        };
        let mut set = Self::new();
        if list.trim().is_empty() {
            return Ok(set);
        }
        for part in list.trim().split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(bad());
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn where_a_process_may_run_is_known_by_its_number() {
        let own = i32::try_from(std::process::id()).expect("a number");
        assert!(CpuSet::allowed_to(own).is_some_and(|cpus| !cpus.is_empty()));
        assert_eq!(CpuSet::allowed_to(0), None);
        assert_eq!(CpuSet::allowed_to(i32::MAX), None);
    }

    #[test]
    fn lists_read_as_the_kernel_writes_them() {
        let set: CpuSet = "0-3,8,100-101\n".parse().expect("a CPU list");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8, 100, 101]);
        assert_eq!((set.len(), set.first()), (7, Some(0)));
        assert_eq!(set.to_string(), "0-3,8,100-101");
        assert_eq!("\n".parse::<CpuSet>(), Ok(CpuSet::new()));
        for bad in ["a", "3-1", "1,,2", "-", "1048576", "0-99999999999"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(cpus in proptest::collection::vec(0..600_u32, 0..40)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set.clone()));
            prop_assert!(cpus.iter().all(|cpu| set.contains(*cpu)));
            prop_assert!(set.iter().all(|cpu| cpus.contains(&cpu)));
        }
    }
}
