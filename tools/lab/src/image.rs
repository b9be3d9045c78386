//! The contents of a guest: a static busybox, the first program, the steps that it runs, and the
//! libraries for them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use limic_runner::folders::{root, target};
use limic_runner::{Failure, packages};

use super::initramfs::Initramfs;
use super::{libraries, needs};

/// One command that the guest runs.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Letters, digits, `-` and `_`. Steps run in the order of their names.
    pub(crate) name: String,
    /// For the guest's shell.
    pub(crate) script: String,
}

/// The contents of a guest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    pub(crate) steps: Vec<Step>,
    /// Programs whose libraries go in. A program outside of the shared folders goes in itself.
    pub(crate) programs: Vec<PathBuf>,
    /// Kernel modules, loaded in this order.
    pub(crate) modules: Vec<PathBuf>,
    /// The tools of RDMA devices in software, and their parts of libibverbs.
    pub(crate) rdma: bool,
    /// Variables beside the host's own `LIMIC_*` and `RUST_*`.
    pub(crate) environment: Vec<(String, String)>,
}

impl Contents {
    /// A program, with a variable that tells the tests where it is.
    pub(crate) fn add(&mut self, variable: &str, program: PathBuf) {
        let path = program.display().to_string();
        self.environment.push((variable.to_owned(), path));
        self.programs.push(program);
    }
}

/// Folders of the host that a guest sees at the same path, read-only.
pub(crate) fn shares() -> Vec<PathBuf> {
    let mut shares = vec![root().to_owned()];
    let target = target();
    if !target.starts_with(root()) {
        shares.push(target);
    }
    shares
}

/// Writes the archive that the kernel unpacks.
pub(crate) fn pack(contents: &Contents, into: &Path) -> Result<(), Failure> {
    let mut archive = Initramfs::default();
    archive.device(Path::new("/dev/console"), 5, 1);
    archive.file(Path::new("/init"), 0o755, read(&root().join("lab/init"))?);
    let busybox = needs::busybox().ok_or_else(|| {
        Failure::Missing("there is no static busybox; install busybox-static".to_owned())
    })?;
    archive.file(Path::new("/bin/busybox"), 0o755, read(&busybox)?);
    for folder in ["proc", "sys", "dev", "tmp", "lab/modules"] {
        archive.folder(Path::new(folder));
    }
    accounts(&mut archive);

    let mut tags = String::new();
    for (number, share) in shares().iter().enumerate() {
        tags.push_str(&format!("share{number} {}\n", share.display()));
    }
    archive.file(Path::new("/lab/shares"), 0o644, tags.into_bytes());
    for step in &contents.steps {
        let path = Path::new("/lab/steps").join(&step.name);
        archive.file(&path, 0o644, step.script.clone().into_bytes());
    }
    let mut text = |path: &str, text: String| {
        archive.file(Path::new(path), 0o644, text.into_bytes());
    };
    text("/lab/environment", environment(contents));
    text("/lab/directory", directory().display().to_string());
    for (number, module) in contents.modules.iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("/lab/modules/{number:02}-{name}");
        archive.file(Path::new(&path), 0o644, read(module)?);
    }
    let mut programs = contents.programs.clone();
    if contents.rdma {
        programs.extend(rdma(&mut archive)?);
    }
    for program in &programs {
        with_libraries(&mut archive, program)?;
    }
    archive.write(into)
}

/// The files in which programs look users up: a few users, so that tests can become another one.
fn accounts(archive: &mut Initramfs) {
    let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n\
                 one:x:1001:1001::/tmp:/bin/sh\ntwo:x:1002:1002::/tmp:/bin/sh\n";
    archive.file(Path::new("/etc/passwd"), 0o644, users.into());
    let groups = "root:x:0:\nnogroup:x:65534:\none:x:1001:\ntwo:x:1002:\n";
    archive.file(Path::new("/etc/group"), 0o644, groups.into());
    let hosts = "127.0.0.1 localhost\n";
    archive.file(Path::new("/etc/hosts"), 0o644, hosts.into());
}

/// The parts of libibverbs for devices in software, and the programs that set these up. Those of
/// hardware stay out, because libibverbs complains about each whose device is missing.
fn rdma(archive: &mut Initramfs) -> Result<Vec<PathBuf>, Failure> {
    let mut programs = Vec::new();
    for name in needs::DRIVERS {
        let path = format!("/etc/libibverbs.d/{name}.driver");
        archive.file(Path::new(&path), 0o644, format!("driver {name}\n").into());
        programs.push(needs::driver(name));
    }
    for name in ["rdma", "ip"] {
        programs.push(packages::program(name).ok_or_else(|| {
            Failure::Missing(format!("there is no program '{name}'; install iproute2"))
        })?);
    }
    Ok(programs)
}

fn with_libraries(archive: &mut Initramfs, program: &Path) -> Result<(), Failure> {
    if !shares().iter().any(|share| program.starts_with(share)) {
        copy(archive, program)?;
    }
    for library in libraries::of(program)? {
        copy(archive, &library)?;
    }
    Ok(())
}

/// Puts a file where the host has it. A folder that is a link on the host, such as `/lib`, is a
/// link in the guest too.
fn copy(archive: &mut Initramfs, path: &Path) -> Result<(), Failure> {
    let above = path.parent().unwrap_or(Path::new("/"));
    let real = above
        .canonicalize()
        .map_err(|why| Failure::file("find", above, why))?;
    if real != above
        && let Some(first) = above.iter().nth(1)
    {
        let link = Path::new("/").join(first);
        if let Ok(to) = std::fs::read_link(&link)
            && !archive.holds(&link)
        {
            archive.link(&link, &to);
        }
    }
    let place = real.join(path.file_name().unwrap_or_default());
    if archive.holds(&place) {
        return Ok(());
    }
    let permissions = std::fs::metadata(path)
        .map_err(|why| Failure::file("read", path, why))?
        .permissions()
        .mode();
    archive.file(&place, permissions, read(path)?);
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|why| Failure::file("read", path, why))
}

/// The host's directory if the guest sees it, else the root of the checkout.
pub(crate) fn directory() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let seen = shares().iter().any(|share| here.starts_with(share));
    if seen { here } else { root().to_owned() }
}

fn environment(contents: &Contents) -> String {
    let passed = std::env::vars().filter(|(name, _)| {
        ["LIMIC_", "RUST_"]
            .iter()
            .any(|start| name.starts_with(start))
    });
    let all = passed.chain(contents.environment.iter().cloned());
    all.map(|(name, value)| format!("export {name}={}\n", quoted(&value)))
        .collect()
}

/// A word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_survive_the_shell() {
        assert_eq!(super::quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
