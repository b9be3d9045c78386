//! How far endpoints reach: what `FI_REMOTE_COMM` says.

use limic::Settings;
use limic::networks::networks;
use limic_shm::process::ValueHere;

/// Why peers on other nodes cannot be reached from here, if it is so.
pub(crate) fn no_other_node() -> Option<&'static str> {
    static WHY: ValueHere<Option<String>> = ValueHere::new();
    WHY.get_or_make(|| {
        // Settings that make no sense are told where endpoints are opened.
        let settings = Settings::from_environment().unwrap_or_default();
        let mut reasons = Vec::new();
        for network in networks(&settings) {
            match network.state {
                Ok(_) => return None,
                Err(why) => reasons.push(format!("{}: {why}", network.name)),
            }
        }
        Some(reasons.join("; "))
    })
    .as_deref()
}

/// Whether the launcher says that all of the job is on this node.
///
/// Open MPI asks for `FI_REMOTE_COMM` whatever the job's shape, and there is nobody on another node
/// then.
pub(crate) fn job_is_here() -> bool {
    is_here(|name| std::env::var(name).ok())
}

fn is_here(variable: impl Fn(&str) -> Option<String>) -> bool {
    let ranks = variable("OMPI_COMM_WORLD_SIZE");
    (ranks.is_some() && ranks == variable("OMPI_COMM_WORLD_LOCAL_SIZE"))
        || variable("SLURM_STEP_NUM_NODES").as_deref() == Some("1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_where_the_job_is() {
        let job = |known: &'static [(&str, &str)]| {
            is_here(|name| {
                let found = known.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(!job(&[]));
        assert!(!job(&[("OMPI_COMM_WORLD_SIZE", "4")]));
        assert!(!job(&[
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
        ]));
        assert!(job(&[
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")
        ]));
        assert!(job(&[("SLURM_STEP_NUM_NODES", "1")]));
        assert!(!job(&[("SLURM_STEP_NUM_NODES", "2")]));
    }
}
