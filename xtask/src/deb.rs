//! `cargo xtask deb`: Debian packages.
//!
//! `cargo xtask install` lays out the files; which of them are in which package, and everything
//! that Debian asks of packages, say the folder `debian` and debhelper.

use std::fs;

use limic_runner::folders::target;
use limic_runner::packages::{self, Need, program};
use limic_runner::{Failure, Job, console, folders};

use crate::install::{self, Install, Place};

const NEEDS: [Need; 2] = [
    Need {
        package: "debhelper",
        present: || program("dh").is_some(),
    },
    Need {
        package: "dh-dkms",
        present: || program("dh_dkms").is_some(),
    },
];

/// Installs Debian's tools for that, where they can be had.
pub(crate) fn tools() -> Result<(), Failure> {
    packages::install("deb", &NEEDS)
}

/// Makes the packages.
pub(crate) fn run(debug: bool) -> Result<(), Failure> {
    tools()?;
    let folder = target().join(if debug { "deb-debug" } else { "deb" });
    folders::make_anew(&folder)?;
    let source = folder.join("limic");
    folders::make(&source)?;
    let copy = Job::new("cp", 1).args(["--recursive", "debian"]);
    copy.arg(&source).run()?;
    let now = Job::new("date", 1).arg("--rfc-email").capture()?;
    let text = format!(
        "limic ({}) unstable; urgency=medium\n\n  * CHANGELOG.md has the changes.\n\n \
         -- The limic authors <limic@limic.example>  {now}",
        env!("CARGO_PKG_VERSION")
    );
    let changelog = source.join("debian/changelog");
    fs::write(&changelog, text).map_err(|why| Failure::file("write", &changelog, why))?;

    let staged = source.join("staged");
    let triplet = Job::new("dpkg-architecture", 1)
        .arg("--query")
        .arg("DEB_HOST_MULTIARCH");
    install::run(&Install {
        place: Place {
            prefix: "/usr".into(),
            destdir: Some(staged.clone()),
        },
        libdir: format!("lib/{}", triplet.capture()?.trim()),
        debug,
    })?;
    Job::new("make", 1)
        .args(["-C", "kernel/limic_rs", "dkms_sources"])
        .arg(format!("DESTDIR={}", staged.display()))
        .run()?;
    Job::new("dh", 10)
        .arg("binary")
        .within(&source)
        .env("DEB_BUILD_OPTIONS", "noautodbgsym")
        // As dpkg-buildpackage reads it out of debian/control; without it, root alone may.
        .env("DEB_RULES_REQUIRES_ROOT", "no")
        // What was not optimised is large, and nobody keeps it.
        .env(
            "DPKG_DEB_COMPRESSOR_TYPE",
            if debug { "none" } else { "xz" },
        )
        .run()?;
    fs::remove_dir_all(&source).map_err(|why| Failure::file("remove", &source, why))?;
    console::step(&format_args!("the packages are in {}", folder.display()));
    Ok(())
}
