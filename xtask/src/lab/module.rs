//! limic's kernel module, built against the guest's kernel.

use std::path::PathBuf;

use super::kernel::{self, Kernel};
use crate::console;
use crate::failure::Failure;
use crate::job::{root, target};

/// The module's file. `None` if this checkout has no module.
pub(crate) fn build(kernel: &Kernel) -> Result<Option<PathBuf>, Failure> {
    let source = root().join("kernel/limic_rs");
    if !source.join("Kbuild").exists() && !source.join("Makefile").exists() {
        return Ok(None);
    }
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
        Ok(Some(file))
    } else {
        Err(Failure::Wrong(format!(
            "kernel/limic_rs was built, but there is no {}",
            file.display()
        )))
    }
}
