//! `cargo xtask wheel`: what users of MPIs need, as a Python wheel.
//!
//! The wheel is a few files without any Python, so no build system for Python packages fits. They
//! are laid out here, and `wheel pack` of the Python Packaging Authority makes RECORD and the
//! archive. What lies below `data` in a wheel goes below the environment's prefix, where `limic
//! env` finds the libraries as it does after `cargo xtask install`.

use std::env::consts::ARCH;
use std::fs;
use std::path::PathBuf;

use limic_peers::Environment;
use limic_runner::folders::{self, root, target};
use limic_runner::{Failure, Job, console, setup};

use crate::install::{self, COMMAND, HEAP, PROVIDER, Tree};

/// What the names of the wheel's folders begin with.
const NAME: &str = concat!("limic_ofi-", env!("CARGO_PKG_VERSION"));

/// Makes the wheel.
pub(crate) fn run(debug: bool) -> Result<(), Failure> {
    setup::build()?;
    let built = install::build(&[], debug)?;
    let folder = target().join(if debug { "wheel-debug" } else { "wheel" });
    folders::make_anew(&folder)?;
    let tools = Environment::fresh(&folder.join("tools")).map_err(Failure::Missing)?;
    tools.install_kept(&["wheel"]).map_err(Failure::Missing)?;

    let layout = folder.join("layout");
    let mut tree = Tree::at(&layout)?;
    let programs = format!("{NAME}.data/scripts");
    let libraries = format!("{NAME}.data/data/lib");
    let compiled = [
        (COMMAND.1, format!("{programs}/limic")),
        (PROVIDER.1, format!("{libraries}/{}", PROVIDER.2)),
        (HEAP.1, format!("{libraries}/{}", HEAP.2)),
    ];
    for (file, place) in &compiled {
        tree.file(&built.join(file), place, 0o755)?;
    }
    let compiled = compiled.map(|(_, place)| layout.join(place));
    Job::new("strip", 2).args(&compiled).run()?;
    let platform = platform(&compiled)?;

    let sources = root().join("xtask/wheel");
    let limic_env = sources.join("limic-env");
    tree.file(&limic_env, &format!("{programs}/limic-env"), 0o755)?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let place = format!("{NAME}.dist-info/licenses/{name}");
        tree.file(&root().join(name), &place, 0o644)?;
    }
    for name in ["METADATA", "WHEEL"] {
        let source = sources.join(name);
        let text = fs::read_to_string(&source)
            .map_err(|why| Failure::file("read", &source, why))?
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
            .replace("@PLATFORM@", &platform);
        tree.text(&text, &format!("{NAME}.dist-info/{name}"))?;
    }
    let pack = tools.python().args(["-m", "wheel", "pack", "--dest-dir"]);
    pack.arg(&folder).arg(&layout).run()?;
    console::step(&format_args!("the wheel is in {}", folder.display()));
    Ok(())
}

/// The tag of the systems whose C library has all symbols that these files ask for.
fn platform(files: &[PathBuf]) -> Result<String, Failure> {
    let said = Job::new("readelf", 1).args(["--wide", "--version-info"]);
    let said = said.args(files).capture()?;
    let minor = |rest: &str| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    let newest: Option<u32> = said.split("GLIBC_2.").skip(1).filter_map(minor).max();
    let newest = newest.ok_or_else(|| {
        Failure::Missing("wheels are for the GNU C library, and this is another one".to_owned())
    })?;
    Ok(format!("manylinux_2_{newest}_{ARCH}"))
}
