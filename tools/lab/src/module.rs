//! limic's kernel module, built against the guest's kernel.

use std::path::PathBuf;

use limic_runner::folders::{root, target};
use limic_runner::{Failure, console};

use super::kernel::{self, Kernel};

/// Builds the module. Returns its file.
pub(crate) fn build(kernel: &Kernel) -> Result<PathBuf, Failure> {
    let source = root().join("kernel/limic_rs");
    console::step(&format_args!(
        "lab: building the module for Linux {} ({})",
        kernel.version,
        kernel.flavour.name()
    ));
    let name = kernel.folder.file_name().unwrap_or_default();
    let output = target().join("lab").join(name).join("module");
    kernel::module(kernel, &source, &output)?;
    let file = output.join("limic.ko");
    if file.exists() {
        Ok(file)
    } else {
        Err(Failure::Wrong(format!(
            "kernel/limic_rs was built, but there is no {}",
            file.display()
        )))
    }
}
