//! Which group of the module an endpoint joins: its job's.

use std::os::fd::RawFd;

use limic_copy::Group;

use crate::{Error, Result};

/// Ranks that a group has room for. They are given out once in its life.
const RANKS: u32 = 16384;

/// The launchers' names of the job, the first that is whole. Slurm counts its steps anew in each
/// job.
const JOB: [&[&str]; 4] = [
    &["PMIX_NAMESPACE"],
    &["PMI_JOBID"],
    &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    &["SLURM_JOB_ID"],
];

/// The name of the job, from the launcher's variables.
fn job(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    JOB.iter().find_map(|names| {
        let parts = names
            .iter()
            .map(|name| Some(format!("{name}={} ", variable(name)?)));
        parts.collect()
    })
}

/// The group that the settings name, or that of the launcher's job; without either, as under Hydra,
/// which names no job, the one of all endpoints of this user. The module keeps groups of different
/// users apart in any case.
pub(super) fn find(setting: Option<&str>) -> Result<Group> {
    let Some(word) = setting else {
        let job = job(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()));
        return Ok(Group::Token(token(&job.unwrap_or_default()), RANKS));
    };
    let Some(descriptor) = word.strip_prefix("fd:") else {
        return Ok(Group::Token(token(&format!("word={word}")), RANKS));
    };
    let number: RawFd = descriptor.parse().map_err(|_| {
        Error::Settings(format!(
            "LIMIC_KERNEL_GROUP=fd:{descriptor}: a number of a descriptor is expected behind 'fd:'"
        ))
    })?;
    Ok(Group::Descriptor(number))
}

/// 128 bits of a word, the same in every process: FNV-1a from two beginnings.
fn token(word: &str) -> [u64; 2] {
    [0xcbf2_9ce4_8422_2325, 0x9e37_79b9_7f4a_7c15].map(|start: u64| {
        let bytes = b"limic ".iter().chain(word.as_bytes());
        let hash = bytes.fold(start, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash.max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_different_jobs_are_different_jobs() {
        let slurm = |job_id: &'static str, step: Option<&'static str>| {
            job(move |name| match name {
                "SLURM_JOB_ID" => Some(job_id.to_owned()),
                "SLURM_STEP_ID" => step.map(str::to_owned),
                _ => None,
            })
        };
        assert_ne!(slurm("17", Some("0")), slurm("18", Some("0")));
        assert_ne!(slurm("17", Some("0")), slurm("17", Some("1")));
        assert_ne!(slurm("17", Some("0")), slurm("17", None));
        assert_eq!(job(|_| None), None);
        // A step alone names no job.
        assert_eq!(
            job(|name| (name == "SLURM_STEP_ID").then(|| "0".to_owned())),
            None
        );
    }

    #[test]
    fn words_are_groups_of_their_own() {
        let token = |word| match find(Some(word)) {
            Ok(Group::Token(token, _)) => token,
            other => panic!("{other:?}"),
        };
        assert_eq!(token("one"), token("one"));
        assert_ne!(token("one"), token("two"));
        assert_eq!(find(Some("fd:12")), Ok(Group::Descriptor(12)));
        let error = find(Some("fd:x")).expect_err("no number");
        assert!(error.to_string().contains("fd:x"), "{error}");
    }
}
