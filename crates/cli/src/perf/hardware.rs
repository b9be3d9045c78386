//! What processor and kernel count while messages move: cycles, instructions, cache misses,
//! page faults, context switches.
//!
//! Each rank counts its own thread, from the moment in which the clock starts until the pattern has
//! returned; the processor in user mode alone. What the machine does not grant is left out, with
//! the reason. [`super::control`] adds what limic itself counts.

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter, ReadFormat};

/// Columns and JSON fields, in this order everywhere.
pub(super) const NAMES: [&str; 9] = [
    "cycles",
    "instructions",
    "l1d_misses",
    "llc_misses",
    "page_faults",
    "context_switches",
    "unexpected",
    "waited",
    "sleeps",
];

/// How many of them the processor counts; the kernel's two and limic's three follow.
const PROCESSOR: usize = 4;
/// Where limic's begin.
pub(super) const LIMIC: usize = 6;

/// Sums of what was counted; `None` where some rank could not count it.
pub(super) type Counts = [Option<u64>; NAMES.len()];

/// The counters of one thread.
#[derive(Debug, Default)]
pub(super) struct Meter {
    counters: [Option<Counter>; PROCESSOR],
    /// At the start.
    kernel: Option<Kernel>,
    /// Why some are missing, with their names.
    refused: Vec<String>,
}

impl Meter {
    /// Opens the counters for the calling thread.
    pub(super) fn open() -> Self {
        let mut meter = Self::default();
        let l1d = Cache {
            which: CacheId::L1D,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        };
        let llc = Cache {
            which: CacheId::LL,
            ..l1d.clone()
        };
        let opened = [
            open(Hardware::CPU_CYCLES),
            open(Hardware::INSTRUCTIONS),
            open(l1d),
            open(llc),
        ];
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for ((name, slot), counter) in NAMES.iter().zip(&mut meter.counters).zip(opened) {
            match counter {
                Ok(counter) => *slot = Some(counter),
                Err(error) => {
                    let why = explain(&error);
                    match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                        Some((_, names)) => names.push(name),
                        None => reasons.push((why, vec![name])),
                    }
                }
            }
        }
        let line =
            |(why, names): (String, Vec<&str>)| format!("not granted: {}: {why}", names.join(", "));
        meter.refused = reasons.into_iter().map(line).collect();
        if Kernel::now().is_none() {
            let names = NAMES[PROCESSOR..LIMIC].join(", ");
            let why = "/proc/thread-self cannot be read";
            meter.refused.push(format!("not granted: {names}: {why}"));
        }
        meter
    }

    /// One line for each reason, with the counters that it keeps away.
    pub(super) fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Counts from 0 on.
    pub(super) fn start(&mut self) {
        self.kernel = Kernel::now();
        for slot in &mut self.counters {
            let started = slot
                .as_mut()
                .is_none_or(|counter| counter.reset().and_then(|()| counter.enable()).is_ok());
            if !started {
                *slot = None;
            }
        }
    }

    /// What was counted since; limic's own counts are not here.
    pub(super) fn stop(&mut self) -> Counts {
        let mut counts = Counts::default();
        for (count, slot) in counts.iter_mut().zip(&mut self.counters) {
            if let Some(counter) = slot
                && counter.disable().is_ok()
            {
                *count = read(counter);
            }
        }
        if let (Some(before), Some(after)) = (self.kernel.take(), Kernel::now()) {
            counts[PROCESSOR] = Some(after.page_faults.saturating_sub(before.page_faults));
            let switches = after.switches.saturating_sub(before.switches);
            counts[PROCESSOR + 1] = Some(switches);
        }
        counts
    }
}

/// What the kernel counts of a thread, without asking for leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kernel {
    page_faults: u64,
    switches: u64,
}

impl Kernel {
    fn now() -> Option<Self> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/{name}")).ok();
        Self::parse(&read("stat")?, &read("status")?)
    }

    /// `tid (name) state ...`, where minor and major faults are the fields 10 and 12; and lines
    /// `name: number`.
    fn parse(stat: &str, status: &str) -> Option<Self> {
        let (_, behind_name) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let fault = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let switches = status.lines().filter_map(|line| {
            let (name, number) = line.split_once(':')?;
            let wanted = name.ends_with("voluntary_ctxt_switches");
            wanted.then_some(number.trim().parse::<u64>().ok()?)
        });
        let switches: Vec<u64> = switches.collect();
        Some(Self {
            page_faults: fault(10)? + fault(12)?,
            switches: (switches.len() == 2).then(|| switches.iter().sum())?,
        })
    }
}

fn open(event: impl Event) -> std::io::Result<Counter> {
    Builder::new(event)
        .exclude_kernel(true)
        .exclude_hv(true)
        .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING)
        .build()
}

/// Scaled up if the processor had too few counters for all, so that they took turns.
fn read(counter: &mut Counter) -> Option<u64> {
    let data = counter.read_full().ok()?;
    let (enabled, running) = (data.time_enabled()?, data.time_running()?);
    if running.is_zero() {
        // Nothing ran at all between start and stop, or the counter never got its turn.
        return enabled.is_zero().then_some(data.count());
    }
    let scale = enabled.as_secs_f64() / running.as_secs_f64();
    Some((data.count() as f64 * scale) as u64)
}

/// Adds what another rank, or another round, has counted.
pub(super) fn add(sum: &mut Counts, more: &Counts) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.zip(*more).map(|(a, b)| a.saturating_add(b));
    }
}

/// Why the kernel did not open a counter, and what to do.
fn explain(error: &std::io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let level = level.map_or("unknown".to_owned(), |level| level.trim().to_owned());
            format!(
                "kernel.perf_event_paranoid is {level}: set it to 2 or less, or run with CAP_PERFMON; in a container, \
                 seccomp may refuse it too"
            )
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            let pmu = ["cpu", "cpu_core", "armv8_pmuv3_0"].iter().any(|name| {
                std::path::Path::new("/sys/bus/event_source/devices")
                    .join(name)
                    .exists()
            });
            if pmu {
                "this processor does not count that".to_owned()
            } else {
                "the kernel sees no counters of the processor (no PMU in /sys/bus/event_source/devices): in a virtual \
                 machine, the host has to pass them on"
                    .to_owned()
            }
        }
        Some(libc::ENOSYS) => "this kernel has no perf events, or a sandbox hides them".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => {
            "no file descriptors are left: see ulimit -n".to_owned()
        }
        _ => return format!("perf_event_open: {error}"),
    };
    format!("perf_event_open: {error}; {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_somewhere_is_missing() {
        let mut sum: Counts = [Some(1); NAMES.len()];
        sum[1] = None;
        sum[2] = Some(u64::MAX);
        let mut more: Counts = [Some(2); NAMES.len()];
        more[3] = None;
        add(&mut sum, &more);
        assert_eq!(sum[..5], [Some(3), None, Some(u64::MAX), None, Some(3)]);
    }

    #[test]
    fn every_counter_counts_or_says_why_not() {
        let mut meter = Meter::open();
        meter.start();
        // More than any cache holds, touched for the first time.
        let bytes = std::hint::black_box(vec![1_u8; 64 << 20]);
        let counts = meter.stop();
        drop(bytes);
        // One that is there may still have had no turn.
        for (name, count) in NAMES.iter().zip(&counts) {
            let said = meter.refused().iter().any(|line| line.contains(name));
            assert!(!said || count.is_none(), "{name}: {count:?}");
        }
        for line in meter.refused() {
            println!("SKIPPED: {line}");
        }
        if let Some(faults) = counts[PROCESSOR] {
            assert!(faults > 0);
        }
    }

    #[test]
    fn the_kernels_counts_are_read() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 100 8 11 10 200 300\n";
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
        let expected = Kernel {
            page_faults: 111,
            switches: 7,
        };
        assert_eq!(Kernel::parse(stat, status), Some(expected));
        assert_eq!(Kernel::parse(stat, "Name: a\n"), None);
        assert_eq!(Kernel::parse("", status), None);
    }

    #[test]
    fn refusals_are_explained() {
        let errno = |errno| explain(&std::io::Error::from_raw_os_error(errno));
        assert!(errno(libc::EACCES).contains("perf_event_paranoid is"));
        assert!(errno(libc::ENOSYS).contains("no perf events"));
        assert!(errno(libc::E2BIG).starts_with("perf_event_open: "));
    }
}
