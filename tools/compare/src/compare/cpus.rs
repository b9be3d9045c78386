//! The CPUs on which everything is measured.

use limic_runner::{Failure, cpus};
use rustix::thread::CpuSet;

/// The CPUs of a list such as `0,2` or `0-15`, or the first two that belong to different cores.
/// Their number is even.
pub(crate) fn choose(asked: Option<&str>) -> Result<Vec<usize>, Failure> {
    let allowed = cpus::allowed().map_err(|why| Failure::Missing(format!("affinity: {why}")))?;
    match asked {
        None => distinct(&allowed, siblings),
        Some(text) => list(text).and_then(|asked| pairs(asked, &allowed)),
    }
    .ok_or_else(|| {
        Failure::Missing(format!(
            "an even number of different CPUs is needed, such as 0,2 or 0-15, out of those that \
             this process may use: {allowed:?}"
        ))
    })
}

/// The two CPUs of the first pair: of all ranks, the first half pairs up with the other half.
pub(super) fn first_pair(cpus: &[usize]) -> [usize; 2] {
    [cpus[0], cpus[cpus.len() / 2]]
}

/// `0, 2`
pub(super) fn names(cpus: &[usize]) -> String {
    let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
    names.join(", ")
}

fn pairs(mut asked: Vec<usize>, allowed: &[usize]) -> Option<Vec<usize>> {
    let count = asked.len();
    let fits =
        count > 0 && count.is_multiple_of(2) && asked.iter().all(|cpu| allowed.contains(cpu));
    // limic binds its ranks in this order.
    asked.sort_unstable();
    asked.dedup();
    (fits && asked.len() == count).then_some(asked)
}

fn distinct(allowed: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Option<Vec<usize>> {
    let first = *allowed.first()?;
    let of_its_core = siblings(first);
    let mut others = allowed.iter().copied().filter(|cpu| *cpu != first);
    let elsewhere = others.clone().find(|cpu| !of_its_core.contains(cpu));
    Some(vec![first, elsewhere.or_else(|| others.next())?])
}

/// The hardware threads of a CPU's core.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    list(&std::fs::read_to_string(path).unwrap_or_default()).unwrap_or_default()
}

/// `0-1,8`
fn list(text: &str) -> Option<Vec<usize>> {
    let range = |item: &str| {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        (to < CpuSet::MAX_CPU).then_some(from..=to)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_core_are_taken_only_if_there_is_no_other_core() {
        let pairs = |cpu: usize| vec![cpu & !1, cpu | 1];
        assert_eq!(distinct(&[0, 1, 2, 3], pairs), Some(vec![0, 2]));
        assert_eq!(distinct(&[4, 5], pairs), Some(vec![4, 5]));
        assert_eq!(distinct(&[4], pairs), None);
        assert_eq!(list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        for wrong in ["", "0,x", "0-18446744073709551615"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranks_on_many_cpus_make_pairs() {
        let allowed = [0, 1, 2, 3, 5];
        let chosen = |text| pairs(list(text)?, &allowed);
        assert_eq!(chosen("0-3"), Some(vec![0, 1, 2, 3]));
        assert_eq!(chosen("5, 1"), Some(vec![1, 5]));
        for wrong in ["1", "0-2", "1,1", "3,4"] {
            assert_eq!(chosen(wrong), None, "{wrong}");
        }
        assert_eq!(first_pair(&[4, 5, 6, 7]), [4, 6]);
    }
}
