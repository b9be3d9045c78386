//! The layers that the distribution packages: Open MPI 4, and the test programs of UCX and
//! libfabric.

use limic_runner::Job;
use limic_runner::packages::{install_packages, program, runs};

use crate::{Kind, Mpi};

/// The distribution's Open MPI, if it is installed and of version 4.
pub(crate) fn open_mpi_4() -> Result<Mpi, String> {
    let said = Job::new("mpirun.openmpi", 1).arg("--version");
    let said = said.capture_quietly().filter(|_| runs("mpicc.openmpi"));
    let said = said.ok_or("it is not installed (packages openmpi-bin and libopenmpi-dev)")?;
    // `mpirun.openmpi (OpenRTE) 4.1.4`
    let line = said.lines().next().unwrap_or_default();
    let version = line.rsplit(' ').next().unwrap_or_default();
    if !version.starts_with('4') {
        return Err(format!("the distribution has {version}"));
    }
    Ok(Mpi {
        kind: Kind::Openmpi4,
        version: version.to_owned(),
        root: "/usr".into(),
    })
}

/// A layer below the MPIs, with the program that measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `ucx_perftest`
    Ucx,
    /// `fi_pingpong`
    Libfabric,
}

/// A tool that is there.
#[derive(Clone, Debug)]
pub struct FoundTool {
    /// Which one.
    pub tool: Tool,
    version: String,
}

impl FoundTool {
    /// `UCX 1.13.1`
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.tool.title(), self.version)
    }
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Ucx, Self::Libfabric];

    /// The name as its makers write it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Ucx => "UCX",
            Self::Libfabric => "libfabric",
        }
    }

    /// The program that measures.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Ucx => "ucx_perftest",
            Self::Libfabric => "fi_pingpong",
        }
    }

    /// Looks for it, without installing.
    fn found(self) -> Option<FoundTool> {
        program(self.program())?;
        let about = match self {
            Self::Ucx => Job::new("ucx_info", 1).arg("-v"),
            Self::Libfabric => Job::new("fi_info", 1).arg("--version"),
        };
        let version = version(&about.capture_quietly()?);
        Some(FoundTool {
            tool: self,
            version: version.unwrap_or_else(|| "of unknown version".to_owned()),
        })
    }

    /// Installs it if it is not there yet.
    ///
    /// # Errors
    /// The reason why it cannot be had.
    pub fn install(self) -> Result<FoundTool, String> {
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let (package, program) = match self {
            Self::Ucx => ("ucx-utils", self.program()),
            Self::Libfabric => ("libfabric-bin", self.program()),
        };
        let elsewhere = format!("the package of {} that holds {program}", self.title());
        install_packages(&[package], &elsewhere).map_err(|why| why.to_string())?;
        let missing = || format!("{program} was installed but does not run");
        self.found().ok_or_else(missing)
    }
}

/// The first word that is a version: `# UCT version=1.13.1`, `fi_info: 1.17.0`.
fn version(text: &str) -> Option<String> {
    text.split(|c: char| c.is_whitespace() || c == '=')
        .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_found_in_what_the_programs_print() {
        let ucx = "# Version 1.13.1\n# Git branch '<unknown>', revision 0000000\n";
        assert_eq!(version(ucx).as_deref(), Some("1.13.1"));
        let older = "# UCT version=1.12.1 revision dc92435\n";
        assert_eq!(version(older).as_deref(), Some("1.12.1"));
        let libfabric = "fi_info: 1.17.0\nlibfabric: 1.17.0\n";
        assert_eq!(version(libfabric).as_deref(), Some("1.17.0"));
        assert_eq!(version("none"), None);
    }
}
