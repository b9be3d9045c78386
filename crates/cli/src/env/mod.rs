//! `limic env`: what makes an MPI send over limic.

mod folders;
mod mpi;

use std::env::var_os;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{PathBuf, absolute};
use std::process::{Command, ExitCode};

use mpi::Mpi;

/// Print the variables that make an MPI send over limic, or run a command with them
///
/// The lines are for a shell: eval "$(limic env --mpi mpich)".
///
/// FI_PROVIDER_PATH names limic's provider and then what it named before. If it named nothing, the
/// folder follows that the MPI's libfabric takes by itself: beside the mpiexec in PATH, or else the
/// system's. So other providers stay usable. If there is no such folder, only those stay that are
/// built into libfabric.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The MPI
    #[arg(long, value_enum)]
    mpi: Mpi,

    /// The folder with liblimic-fi.so [default: that of this command's own installation]
    #[arg(long, value_name = "DIR")]
    provider: Option<PathBuf>,

    /// Preload liblimic-heap.so too, so that long messages out of malloc are copied once
    #[arg(long)]
    heap: bool,

    /// A command that gets the variables; nothing is printed then
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Prints or runs; errors are printed.
pub(crate) fn execute(args: &Args) -> ExitCode {
    let failed = |why: &str, code: u8| {
        let _unread = writeln!(io::stderr(), "limic env: {why}");
        ExitCode::from(code)
    };
    let variables = match variables(args) {
        Ok(variables) => variables,
        Err(why) => return failed(&why, 1),
    };
    if let [program, words @ ..] = args.command.as_slice() {
        let why = Command::new(program).args(words).envs(variables).exec();
        // As shells say it.
        let code = 126 + u8::from(why.kind() == ErrorKind::NotFound);
        return failed(&format!("{}: {why}", program.display()), code);
    }
    let lines: String = variables
        .iter()
        .map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', r"'\''")))
        .collect();
    match io::stdout().write_all(lines.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(&why.to_string(), 1),
    }
}

fn variables(args: &Args) -> Result<Vec<(&'static str, String)>, String> {
    let mut provider = match &args.provider {
        Some(folder) => absolute(folder.join("liblimic-fi.so"))
            .ok()
            .filter(|file| file.is_file())
            .ok_or_else(|| format!("{} has no liblimic-fi.so", folder.display()))?,
        None => folders::installed("libfabric/liblimic-fi.so")
            .map_err(|why| format!("{why}; --provider DIR names its folder"))?,
    };
    provider.pop();
    // Lists of folders have no way to quote, and the list of what is preloaded has none either.
    if provider.as_os_str().as_encoded_bytes().contains(&b':') {
        let folder = provider.display();
        return Err(format!(
            "{folder}: FI_PROVIDER_PATH cannot name a folder with a colon"
        ));
    }
    let set = |name| var_os(name).unwrap_or_default().display().to_string();
    let folders = folders::providers(&provider, &set("FI_PROVIDER_PATH"));
    let mut all = vec![("FI_PROVIDER_PATH", folders)];
    let fixed = args.mpi.variables().iter();
    all.extend(fixed.map(|(name, value)| (*name, (*value).to_owned())));
    // Open MPI takes limic by a variable of its own, but cannot where libfabric leaves it out.
    if matches!(args.mpi, Mpi::Openmpi) && leaves_limic_out(&set("FI_PROVIDER")) {
        all.push(("FI_PROVIDER", "limic".to_owned()));
    }
    if args.heap {
        let library = folders::installed("liblimic-heap.so")?;
        let library = library.display().to_string();
        if library.contains([' ', ':']) {
            return Err(format!(
                "{library}: LD_PRELOAD cannot name a file with a space or a colon"
            ));
        }
        let before = set("LD_PRELOAD");
        let others = before
            .split([' ', ':'])
            .filter(|one| !one.is_empty() && *one != library);
        let preloaded: Vec<&str> = [&*library].into_iter().chain(others).collect();
        all.push(("LD_PRELOAD", preloaded.join(" ")));
    }
    Ok(all)
}

/// Whether libfabric leaves limic out: `FI_PROVIDER` lists the providers that it takes, or, after
/// `^`, those that it does not take.
fn leaves_limic_out(filter: &str) -> bool {
    let others = filter.strip_prefix('^');
    let mut names = others.unwrap_or(filter).split(',');
    let is_named = names.any(|name| name.eq_ignore_ascii_case("limic"));
    !filter.is_empty() && is_named == others.is_some()
}
