//! Memory that connections take, by the kernel's account.

/// Bytes of this process's own memory (not mapped files or devices) that are there; 0 where the
/// system does not say.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Bytes of the kernel that queue pairs and sockets are among: slab, vmalloc, page tables and
/// per-CPU memory of the whole machine.
pub(crate) fn kernel() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let parts = [
        "Slab:",
        "VmallocUsed:",
        "PageTables:",
        "Percpu:",
        "KernelStack:",
    ];
    let kib = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let number: u64 = words.next()?.parse().ok()?;
        parts.contains(&name).then_some(number)
    });
    kib.sum::<u64>() * 1024
}
