//! Which launcher started this process: reads the environment, connects to the one that it names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Bootstrap, BootstrapError, Pmi1, Single};

/// Bound on each wait for the launcher, unless `LIMIC_BOOTSTRAP_TIMEOUT` says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Set once this process has spoken to its PMI-1 launcher: the protocol has no second start.
static PMI1_USED: AtomicBool = AtomicBool::new(false);

/// The environment, looked up by name; a table in tests.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What the environment asks for.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Descriptor { number: i32, rank: u32, size: u32 },
    Port { address: String, id: u32 },
    Pmix { reason: &'static str },
    Single,
}

/// Connects to the launcher that started this process; without one, a job of one. The crate's own
/// page says which variables are looked at, in which order.
///
/// `warn` gets a line for the user, if the environment is that of a job and names no launcher.
///
/// # Errors
/// A launcher is named but cannot be reached, or the environment contradicts itself. A process that
/// merely has no launcher is no error.
pub fn detect(warn: impl FnOnce(&str)) -> Result<Box<dyn Bootstrap>, BootstrapError> {
    let environment = |name: &str| {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    let limit = time_limit(&environment)?;
    match choose(&environment)? {
        Choice::Descriptor { number, rank, size } => {
            claim_pmi1()?;
            Ok(Box::new(Pmi1::from_descriptor(number, rank, size, limit)?))
        }
        Choice::Port { address, id } => {
            claim_pmi1()?;
            Ok(Box::new(Pmi1::from_port(&address, id, limit)?))
        }
        #[cfg(feature = "pmix")]
        Choice::Pmix { .. } => Ok(Box::new(super::Pmix::connect(limit)?)),
        #[cfg(not(feature = "pmix"))]
        Choice::Pmix { reason } => Err(BootstrapError::FeatureMissing { reason }),
        Choice::Single => {
            warn_of_lonely_ranks(&environment, warn);
            Ok(Box::new(Single::new()))
        }
    }
}

fn claim_pmi1() -> Result<(), BootstrapError> {
    // Relaxed: the flag guards the right to start, it publishes no data.
    if PMI1_USED.swap(true, Ordering::Relaxed) {
        return Err(BootstrapError::AlreadyConnected { launcher: "PMI-1" });
    }
    Ok(())
}

fn choose(environment: Lookup<'_>) -> Result<Choice, BootstrapError> {
    let forced = environment("LIMIC_BOOTSTRAP").filter(|value| !value.is_empty());
    match forced.as_deref() {
        Some("single") => Ok(Choice::Single),
        Some("pmi1") => pmi1(environment),
        Some("pmix") => Ok(Choice::Pmix {
            reason: "LIMIC_BOOTSTRAP=pmix",
        }),
        Some(other) => Err(BootstrapError::Environment {
            launcher: "limic",
            variable: "LIMIC_BOOTSTRAP",
            found: format!("{other:?}"),
            expected: "pmi1, pmix or single",
        }),
        None if environment("PMI_FD").is_some() || environment("PMI_PORT").is_some() => {
            pmi1(environment)
        }
        None if environment("PMIX_NAMESPACE").is_some() => Ok(Choice::Pmix {
            reason: "PMIX_NAMESPACE is set",
        }),
        None => Ok(Choice::Single),
    }
}

fn pmi1(environment: Lookup<'_>) -> Result<Choice, BootstrapError> {
    match (environment("PMI_FD"), environment("PMI_PORT")) {
        (None, Some(address)) => Ok(Choice::Port {
            address,
            id: number(environment, "PMI_ID")?,
        }),
        _ => Ok(Choice::Descriptor {
            number: number(environment, "PMI_FD")?,
            rank: number(environment, "PMI_RANK")?,
            size: number(environment, "PMI_SIZE")?,
        }),
    }
}

fn number<N: std::str::FromStr>(
    environment: Lookup<'_>,
    variable: &'static str,
) -> Result<N, BootstrapError> {
    let value = environment(variable);
    let parsed = value.as_deref().and_then(|value| value.trim().parse().ok());
    parsed.ok_or_else(|| BootstrapError::Environment {
        launcher: "PMI-1",
        variable,
        found: value.map_or("not set".into(), |value| format!("{value:?}")),
        expected: "a number, set by the launcher",
    })
}

/// `None` is no limit.
fn time_limit(environment: Lookup<'_>) -> Result<Option<Duration>, BootstrapError> {
    let variable = "LIMIC_BOOTSTRAP_TIMEOUT";
    let Some(value) = environment(variable).filter(|value| !value.is_empty()) else {
        return Ok(Some(DEFAULT_TIMEOUT));
    };
    match value.trim().parse::<u32>() {
        Ok(0) => Ok(None),
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds.into()))),
        Err(_) => Err(BootstrapError::Environment {
            launcher: "limic",
            variable,
            found: format!("{value:?}"),
            expected: "whole seconds, 0 for no limit",
        }),
    }
}

/// Several processes that each believe to be alone are a common surprise under a launcher that was
/// told to offer no PMI: one line says so.
fn warn_of_lonely_ranks(environment: Lookup<'_>, warn: impl FnOnce(&str)) {
    if environment("LIMIC_BOOTSTRAP").is_some_and(|value| value == "single") {
        return;
    }
    for (variable, advice) in [
        ("SLURM_STEP_NUM_TASKS", "use srun --mpi=pmix or --mpi=pmi2"),
        (
            "OMPI_COMM_WORLD_SIZE",
            "the launcher passed no PMIX_NAMESPACE on",
        ),
        ("PMI_SIZE", "the launcher passed no PMI_FD on"),
    ] {
        let count = environment(variable).and_then(|value| value.parse::<u32>().ok());
        if let Some(count) = count.filter(|&count| count > 1) {
            warn(&format!(
                "{variable}={count}, but no PMI-1 or PMIx launcher is reachable, so this process \
                 is a job of one; {advice}, or set LIMIC_BOOTSTRAP=single if that is meant"
            ));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(table: &[(&str, &str)]) -> Result<Choice, String> {
        let lookup = |name: &str| {
            let mut rows = table.iter();
            rows.find(|row| row.0 == name).map(|row| row.1.to_owned())
        };
        choose(&lookup).map_err(|error| error.to_string())
    }

    const HYDRA: [(&str, &str); 3] = [("PMI_FD", "9"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
    const ON_9: Choice = Choice::Descriptor {
        number: 9,
        rank: 1,
        size: 2,
    };

    #[test]
    fn each_launcher_is_recognised_by_its_variables() {
        assert_eq!(chosen(&[]), Ok(Choice::Single));
        assert_eq!(chosen(&HYDRA), Ok(ON_9));
        assert_eq!(
            chosen(&[("PMI_PORT", "node:7"), ("PMI_ID", "3")]),
            Ok(Choice::Port {
                address: "node:7".into(),
                id: 3
            })
        );
        assert!(matches!(
            chosen(&[("PMIX_NAMESPACE", "job")]),
            Ok(Choice::Pmix { .. })
        ));
    }

    #[test]
    fn nested_launchers_the_descriptor_wins_unless_forced() {
        let mut both = HYDRA.to_vec();
        both.extend([
            ("PMIX_NAMESPACE", "job"),
            ("PMI_PORT", "node:7"),
            ("PMI_ID", "3"),
        ]);
        assert_eq!(chosen(&both), Ok(ON_9));
        both.push(("LIMIC_BOOTSTRAP", "pmix"));
        assert!(matches!(chosen(&both), Ok(Choice::Pmix { .. })));
        both.pop();
        both.push(("LIMIC_BOOTSTRAP", "single"));
        assert_eq!(chosen(&both), Ok(Choice::Single));
    }

    #[test]
    fn a_contradiction_names_the_variable() {
        for (table, name) in [
            (
                &[("PMI_FD", "9"), ("PMI_SIZE", "2")][..],
                "PMI_RANK is not set",
            ),
            (
                &[("PMI_FD", "nine"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")],
                "PMI_FD is \"nine\"",
            ),
            (&[("PMI_PORT", "node:7")], "PMI_ID is not set"),
            (&[("LIMIC_BOOTSTRAP", "mpi")], "LIMIC_BOOTSTRAP is \"mpi\""),
            (&[("LIMIC_BOOTSTRAP", "pmi1")], "PMI_FD is not set"),
        ] {
            let error = chosen(table).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn the_time_limit_is_whole_seconds() {
        let limit = |value: &str| time_limit(&|_| Some(value.to_owned())).ok();
        assert_eq!(limit("0"), Some(None));
        assert_eq!(limit("7"), Some(Some(Duration::from_secs(7))));
        assert_eq!(limit(""), Some(Some(DEFAULT_TIMEOUT)));
        assert_eq!(limit("soon"), None);
    }
}
