//! Names of variables: those that other parts of limic read, and the known one that was meant.

/// Variables that other parts of limic read: start-up, the libfabric provider and tests. Not settings, so no warning.
const ELSEWHERE: [&str; 4] = ["LIMIC_RANK", "LIMIC_SIZE", "LIMIC_LOG", "LIMIC_JOB"];
/// Beginnings of further ones.
const ELSEWHERE_PREFIXES: [&str; 8] = [
    "LIMIC_BOOTSTRAP",
    "LIMIC_COPY_",
    "LIMIC_FI_",
    "LIMIC_JOB_",
    "LIMIC_LAB_",
    "LIMIC_LOCAL_",
    "LIMIC_PMIX_",
    "LIMIC_TEST_",
];
/// Whether `name` belongs to another part of limic.
pub(super) fn is_read_elsewhere(name: &str) -> bool {
    ELSEWHERE.contains(&name) || ELSEWHERE_PREFIXES.iter().any(|p| name.starts_with(p))
}

/// The name among `known` that takes the fewest edits to come from `name`.
pub(super) fn nearest(name: &str, known: impl IntoIterator<Item = &'static str>) -> &'static str {
    known
        .into_iter()
        .min_by_key(|other| distance(name, other))
        .unwrap_or("")
}

/// Levenshtein's distance between two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys::Key;

    #[test]
    fn the_nearest_name_is_found() {
        let names = || Key::ALL.map(|key| key.info().variable);
        assert_eq!(nearest("LIMIC_EAGR_MAX", names()), "LIMIC_EAGER_MAX");
        assert_eq!(nearest("LIMIC_SPIN", names()), "LIMIC_SPIN_US");
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }
}
