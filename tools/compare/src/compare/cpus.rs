//! The two CPUs on which everything is measured.

use limic_runner::{Failure, cpus};

/// The CPUs that were asked for, or the first two that belong to different cores.
pub(crate) fn choose(asked: &[usize]) -> Result<[usize; 2], Failure> {
    let allowed = cpus::allowed().map_err(|why| Failure::Missing(format!("affinity: {why}")))?;
    match *asked {
        [] => distinct(&allowed, siblings),
        [a, b] if a != b && allowed.contains(&a) && allowed.contains(&b) => Some([a, b]),
        _ => None,
    }
    .ok_or_else(|| {
        Failure::Missing(format!(
            "two different CPUs are needed out of those that this process may use: {allowed:?}"
        ))
    })
}

fn distinct(allowed: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Option<[usize; 2]> {
    let first = *allowed.first()?;
    let of_its_core = siblings(first);
    let mut others = allowed.iter().copied().filter(|cpu| *cpu != first);
    let elsewhere = others.clone().find(|cpu| !of_its_core.contains(cpu));
    Some([first, elsewhere.or_else(|| others.next())?])
}

/// The hardware threads of a CPU's core.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    list(&std::fs::read_to_string(path).unwrap_or_default())
}

/// `0-1,8`
fn list(text: &str) -> Vec<usize> {
    let range = |item: &str| {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        Some(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?)
    };
    let items = text.trim().split(',');
    items.filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_core_are_taken_only_if_there_is_no_other_core() {
        let pairs = |cpu: usize| vec![cpu & !1, cpu | 1];
        assert_eq!(distinct(&[0, 1, 2, 3], pairs), Some([0, 2]));
        assert_eq!(distinct(&[4, 5], pairs), Some([4, 5]));
        assert_eq!(distinct(&[4], pairs), None);
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert!(list("").is_empty());
    }
}
