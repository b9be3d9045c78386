//! `cargo xtask lab shell`: a guest with a console.

use limic_runner::{Failure, console};

use super::folder::Folder;
use super::machine::{Machine, qemu};
use super::{image, kernel, module, needs};

pub(crate) fn run(machine: &Machine) -> Result<(), Failure> {
    let kernel = kernel::build(machine.flavour.flavour(), false)?;
    needs::machine(machine.rdma)?;
    let mut contents = machine.contents()?;
    contents.modules.push(module::build(&kernel)?);
    let folder = Folder::new()?;
    let image = folder.path().join("initramfs");
    image::pack(&contents, &image)?;
    let rdma = if machine.rdma { " lab.rdma=1" } else { "" };
    console::detail(&"leave with 'exit', or end the machine with Ctrl-A X");
    let mut command = qemu(
        &kernel,
        machine,
        &image,
        &format!("lab.shell=1 lab.guest=0{rdma}"),
    );
    let status = command
        .args(["-serial", "mon:stdio"])
        .status()
        .map_err(|source| Failure::Start {
            command: "qemu-system-x86_64".to_owned(),
            source,
        })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Status {
            command: "qemu-system-x86_64".to_owned(),
            status,
        })
    }
}
