//! What launchers have told a process in its environment: nobody is asked.

/// The launchers' names of the job, the first that is whole. Slurm counts its steps anew in each
/// job.
const JOB: [&[&str]; 4] = [
    &["PMIX_NAMESPACE"],
    &["PMI_JOBID"],
    &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    &["SLURM_JOB_ID"],
];

/// This process's rank, if a launcher told.
#[must_use]
pub fn rank() -> Option<u32> {
    number([
        "LIMIC_RANK",
        "PMI_RANK",
        "PMI_ID",
        "PMIX_RANK",
        "OMPI_COMM_WORLD_RANK",
    ])
}

/// How many ranks of the job the launcher has started on this machine, if it told.
#[must_use]
pub fn ranks_here() -> Option<u32> {
    number([
        "LIMIC_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ])
}

/// A name of the job that no other job of its launcher has. `None`: it names none, as Hydra does.
#[must_use]
pub fn job() -> Option<String> {
    job_of(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
}

/// The first of these variables that is a number.
fn number<const N: usize>(names: [&str; N]) -> Option<u32> {
    names
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}

fn job_of(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    JOB.iter().find_map(|names| {
        let parts = names
            .iter()
            .map(|name| Some(format!("{name}={} ", variable(name)?)));
        parts.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::job_of;

    #[test]
    fn steps_of_different_jobs_are_different_jobs() {
        let slurm = |job_id: &'static str, step: Option<&'static str>| {
            job_of(move |name| match name {
                "SLURM_JOB_ID" => Some(job_id.to_owned()),
                "SLURM_STEP_ID" => step.map(str::to_owned),
                _ => None,
            })
        };
        assert_ne!(slurm("17", Some("0")), slurm("18", Some("0")));
        assert_ne!(slurm("17", Some("0")), slurm("17", Some("1")));
        assert_ne!(slurm("17", Some("0")), slurm("17", None));
        assert_eq!(job_of(|_| None), None);
        // A step alone names no job.
        let step = |name: &str| (name == "SLURM_STEP_ID").then(|| "0".to_owned());
        assert_eq!(job_of(step), None);
    }
}
