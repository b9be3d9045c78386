//! What the numbers were measured on.

use std::fs::{metadata, read_to_string};
use std::time::{SystemTime, UNIX_EPOCH};

use limic::Settings;
use limic::topology::Summary;

/// A description of the machine, its system and this moment.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// The instruction set.
    pub architecture: &'static str,
    /// CPUs (hardware threads), those that may be used, caches and NUMA nodes.
    pub topology: Summary,
    /// Of CPU 0, smallest first.
    pub caches: Vec<Cache>,
    /// Name and release.
    pub kernel: String,
    /// What runs this virtual machine; `None` on bare metal, or where it does not show.
    pub hypervisor: Option<String>,
    /// All of it.
    pub memory_bytes: u64,
    /// As the system is set.
    pub transparent_huge_pages: Option<String>,
    /// Of CPU 0.
    pub frequency_governor: Option<String>,
    /// Over 1, 5 and 15 minutes, before the measurement.
    pub load_average: Vec<f64>,
    /// UTC, RFC 3339, at the beginning.
    pub date: String,
    /// `release` or `debug`.
    pub build: &'static str,
    /// The profile of `limic tune` that the endpoints go by, and when it was written; without one,
    /// built-in rows.
    pub profile: Option<String>,
}

/// A cache of CPU 0.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Cache {
    /// 1 is next to the core.
    pub level: u8,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// The CPUs that share it, as a list.
    pub cpus: String,
}

impl Machine {
    /// This one, now.
    pub fn describe() -> Self {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let load = read_to_string("/proc/loadavg").unwrap_or_default();
        let memory = read_to_string("/proc/meminfo").unwrap_or_default();
        let first_number = |text: &str| text.split_whitespace().next()?.parse::<u64>().ok();
        Self {
            cpu: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".to_owned()),
            architecture: std::env::consts::ARCH,
            topology: Summary::current(),
            caches: caches(),
            kernel: format!(
                "{} {}",
                line("/proc/sys/kernel/ostype").unwrap_or_default(),
                line("/proc/sys/kernel/osrelease").unwrap_or_default()
            ),
            hypervisor: hypervisor(&cpuinfo),
            memory_bytes: field(&memory, "MemTotal")
                .and_then(|text| first_number(&text))
                .unwrap_or(0)
                .saturating_mul(1024),
            transparent_huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text)),
            frequency_governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_average: load
                .split_whitespace()
                .take(3)
                .filter_map(|word| word.parse().ok())
                .collect(),
            date: date(SystemTime::now()),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            profile: profile(),
        }
    }

    /// The load average, if it means that other programs want the CPUs too.
    pub fn busy(&self) -> Option<f64> {
        let load = self.load_average.first().copied()?;
        let cpus = self.topology.cpus.max(self.topology.allowed_count);
        (load > 0.75 * cpus as f64).then_some(load)
    }

    /// What makes the numbers doubtful.
    pub fn warnings(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if cfg!(debug_assertions) {
            notes.push("this is a debug build: the times mean nothing".to_owned());
        }
        if let Some(load) = self.busy() {
            notes.push(format!(
                "the machine is busy (load {load:.1}, {} CPUs): trust ratios within this run, not times",
                self.topology.cpus
            ));
        }
        notes
    }

    /// The machine in a few words.
    pub fn line(&self) -> String {
        let load = self.load_average.first().copied().unwrap_or(0.0);
        format!(
            "{}, {} CPUs, {}, load {load:.1}, {}",
            self.cpu, self.topology.cpus, self.kernel, self.date
        )
    }
}

fn profile() -> Option<String> {
    let settings = Settings::builder().build().ok()?;
    let path = settings.profile()?;
    let written = metadata(path).and_then(|of| of.modified()).map(date);
    let written = written.unwrap_or_else(|_| "an unknown time".to_owned());
    Some(format!("{} of {written}", path.display()))
}

/// The value of a `key : value` line.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
}

fn line(path: &str) -> Option<String> {
    let text = read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    let kind = line("/sys/hypervisor/type");
    if kind.is_none() && !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return None;
    }
    let product = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|name| line(&format!("/sys/class/dmi/id/{name}")))
        .collect::<Vec<_>>()
        .join(" ");
    let product = Some(product).filter(|name| !name.is_empty());
    let name = kind.or_else(signature).or(product);
    Some(name.unwrap_or_else(|| "unknown".to_owned()))
}

/// What the hypervisor calls itself: `KVMKVMKVM`, `Microsoft Hv`, `VMwareVMware`.
#[cfg(target_arch = "x86_64")]
fn signature() -> Option<String> {
    #[allow(
        unused_unsafe,
        reason = "newer compilers know that every x86-64 processor has this instruction"
    )]
    // SAFETY: every x86-64 processor has the instruction, and under a hypervisor it has this leaf.
    let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    let text: String = bytes
        .as_flattened()
        .iter()
        .filter(|byte| byte.is_ascii_graphic() || **byte == b' ')
        .map(|byte| char::from(*byte))
        .collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(not(target_arch = "x86_64"))]
fn signature() -> Option<String> {
    None
}

fn caches() -> Vec<Cache> {
    let of = |index: u32| {
        let read = |name: &str| {
            line(&format!(
                "/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"
            ))
        };
        let limic::settings::ByteSize(bytes) = read("size")?.parse().ok()?;
        Some(Cache {
            level: read("level")?.parse().ok()?,
            kind: read("type")?.to_lowercase(),
            bytes,
            cpus: read("shared_cpu_list")?,
        })
    };
    (0..8).map_while(of).collect()
}

/// A moment as `2026-01-31T12:00:00Z`. Years, months and days from a day number as in
/// H. Hinnant, "chrono-compatible low-level date algorithms".
pub fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn kernel_texts_are_read() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(field("a\t: 1\nb: 2 3\n", "b").as_deref(), Some("2 3"));
        assert_eq!(field("a: 1", "c"), None);
    }
}
