//! `limic manual`: man pages and shell completions, made of the command's own definition.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;

/// Write man pages and shell completions, as packages install them
///
/// Below DIR they lie as below a prefix: share/man/man1, share/bash-completion/completions,
/// share/zsh/site-functions and share/fish/vendor_completions.d.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that gets them; made if it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Where each shell looks for completions, below a prefix.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/limic"),
    (Shell::Zsh, "share/zsh/site-functions/_limic"),
    (Shell::Fish, "share/fish/vendor_completions.d/limic.fish"),
];

/// Writes; errors are printed.
pub(crate) fn execute(args: &Args, command: clap::Command) -> ExitCode {
    match write(&args.dir, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err((path, why)) => {
            let place = path.display();
            let _unread = writeln!(
                io::stderr(),
                "limic manual: cannot write {place}: {why}; name a folder that you may write to"
            );
            ExitCode::FAILURE
        }
    }
}

fn write(dir: &Path, mut command: clap::Command) -> Result<(), (PathBuf, io::Error)> {
    let name = command.get_name().to_owned();
    // Completions add the subcommand help to the definition, and it would have pages too.
    let pages = command.clone().disable_help_subcommand(true);
    for (shell, place) in COMPLETIONS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, &name, &mut script);
        let path = dir.join(place);
        put(&path, &script).map_err(|why| (path, why))?;
    }
    let folder = dir.join("share/man/man1");
    fs::create_dir_all(&folder)
        .and_then(|()| clap_mangen::generate_to(pages, &folder))
        .map_err(|why| (folder, why))
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}
