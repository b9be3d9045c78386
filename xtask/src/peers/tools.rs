//! The test programs of UCX and libfabric, as the distribution packages them.

use crate::job::Job;
use crate::setup;

/// A layer below the MPIs, with the program that measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `ucx_perftest`
    Ucx,
    /// `fi_pingpong`
    Libfabric,
}

/// One that is there.
#[derive(Clone, Debug)]
pub(crate) struct FoundTool {
    pub(crate) tool: Tool,
    pub(crate) version: String,
}

impl FoundTool {
    /// `UCX 1.13.1`
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.tool.title(), self.version)
    }
}

impl Tool {
    pub(crate) const ALL: [Self; 2] = [Self::Ucx, Self::Libfabric];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ucx => "UCX",
            Self::Libfabric => "libfabric",
        }
    }

    /// The program that measures.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Ucx => "ucx_perftest",
            Self::Libfabric => "fi_pingpong",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Ucx => "ucx-utils",
            Self::Libfabric => "libfabric-bin",
        }
    }

    /// Looks for it, without installing.
    pub(crate) fn found(self) -> Option<FoundTool> {
        let program = match self {
            Self::Ucx => Job::new("ucx_info", 1).args(&["-v"]),
            Self::Libfabric => Job::new("fi_info", 1).args(&["--version"]),
        };
        let text = program.capture_quietly()?;
        on_path(self.program()).then(|| FoundTool {
            tool: self,
            version: version(&text).unwrap_or_else(|| "of unknown version".to_owned()),
        })
    }

    /// Installs it if it is not there yet. `Err` says why it cannot be had.
    pub(crate) fn install(self) -> Result<FoundTool, String> {
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let elsewhere = format!(
            "the package of {} that holds {}",
            self.title(),
            self.program()
        );
        setup::install_packages(&[self.package()], &elsewhere).map_err(|why| why.to_string())?;
        let missing = || format!("{} was installed but does not run", self.program());
        self.found().ok_or_else(missing)
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
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
