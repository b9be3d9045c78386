//! The kind of machine that a guest is, and the words that tell QEMU so.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use limic_runner::{Failure, packages};

use super::guest::PORTS;
use super::image::{self, Contents};
use super::kernel::Kernel;
use super::{Flavour, FlavourArguments};

/// Options that say what kind of machine a guest is.
#[derive(Debug, Clone, Args)]
pub struct Machine {
    #[command(flatten)]
    pub(crate) flavour: FlavourArguments,
    /// Processors of each guest [default: 2; for tests as many as each program needs]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) cpus: Option<u8>,
    /// Memory of each guest, in MiB.
    #[arg(long, default_value_t = 2048, value_name = "MIB")]
    pub(crate) memory: u32,
    /// Emulation; the processor's own virtualisation, where it works; or emulation whose clock
    /// counts instructions, 1 ns each, so that times do not hang on the host's load (one processor
    /// only).
    #[arg(long, default_value = "tcg", value_parser = ["tcg", "kvm", COUNTED])]
    pub(crate) accel: String,
    /// Put the tools of Soft-RoCE and Soft-iWARP in, and a device rxe0.
    #[arg(long)]
    pub(crate) rdma: bool,
    /// A further program of this machine to put in, with its libraries.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) with: Vec<String>,
}

/// Emulation whose clock counts instructions.
const COUNTED: &str = "counted";

impl Machine {
    /// Processors of each guest.
    pub(crate) fn processors(&self) -> u8 {
        match self.accel.as_str() {
            COUNTED => 1,
            _ => self.cpus.unwrap_or(2),
        }
    }

    /// The contents that every guest of this kind has.
    pub(crate) fn contents(&self) -> Result<Contents, Failure> {
        let mut contents = Contents {
            rdma: self.rdma,
            ..Contents::default()
        };
        for name in &self.with {
            let path = packages::program(name)
                .or_else(|| Some(PathBuf::from(name)).filter(|path| path.is_file()))
                .ok_or_else(|| Failure::Missing(format!("there is no program '{name}' here")))?;
            contents.programs.push(path);
        }
        Ok(contents)
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            flavour: FlavourArguments::default(),
            cpus: None,
            memory: 2048,
            accel: "tcg".to_owned(),
            rdma: false,
            with: Vec::new(),
        }
    }
}

/// The start of QEMU for all kinds of guests. QEMU ends when this program ends, even if it
/// is killed.
pub(crate) fn qemu(kernel: &Kernel, machine: &Machine, image: &Path, words: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    let accel = match machine.accel.as_str() {
        "kvm" => "kvm",
        COUNTED => "tcg,thread=single",
        _ => "tcg,thread=multi",
    };
    let mut add = |name: &str, value: String| {
        command.arg(name).arg(value);
    };
    add("-accel", accel.to_owned());
    // With 'erms' the kernel copies user memory by `rep movsb`, which emulation executes byte by
    // byte, so that no other cost would show.
    let cpu = match kernel.flavour {
        // With page tables of five levels, KASAN takes an interrupt for a wild access if it comes
        // while the kernel identifies its processor, because the kernel knows of four levels then.
        Flavour::Kasan => "max,-erms,-fsrm,-la57",
        Flavour::Fast | Flavour::Debug => "max,-erms,-fsrm",
    };
    add("-cpu", cpu.to_owned());
    if machine.accel == COUNTED {
        add("-icount", "shift=0,sleep=off".to_owned());
    }
    add("-smp", machine.processors().to_string());
    add("-m", format!("{}M", machine.memory));
    add("-kernel", kernel.image().display().to_string());
    add("-initrd", image.display().to_string());
    // A kernel that is unwell stops at once, so that the test that ran is the one to blame.
    // An idle processor halts, because the other way to idle (mwait) spins in emulation.
    // A busy host gives an emulated processor no time for many seconds, so that a lockup takes two
    // minutes. QEMU translates a program's code for one address, so that all processes of a program
    // get the same addresses: else it would translate the code anew for each.
    let base = "console=ttyS0 loglevel=5 panic=-1 oops=panic panic_on_warn=1 idle=halt norandmaps \
                rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 lab.on=1";
    // KASAN records the stack of each allocation. Two more records would slow the boot much.
    let more = match kernel.flavour {
        Flavour::Kasan => " kmemleak=off slab_debug=-",
        Flavour::Fast | Flavour::Debug => "",
    };
    add("-append", format!("{base}{more} {words}"));
    for (number, share) in image::shares().iter().enumerate() {
        let path = share.display().to_string().replace(',', ",,");
        add(
            "-virtfs",
            format!(
                "local,path={path},mount_tag=share{number},security_model=none,readonly=on,\
                 multidevs=remap"
            ),
        );
    }
    command.args(["-no-reboot", "-nodefaults", "-display", "none"]);
    command
}

/// A guest that runs steps: its ports, and the cable to the other guest if there are two.
pub(super) fn command(
    kernel: &Kernel,
    machine: &Machine,
    folder: &Path,
    (number, count): (usize, usize),
    nonce: &str,
) -> Command {
    let rdma = if machine.rdma { " lab.rdma=1" } else { "" };
    let words = format!("lab.nonce={nonce} lab.guest={number}{rdma}");
    let mut command = qemu(kernel, machine, &folder.join("initramfs"), &words);
    let mut add = |name: &str, value: String| {
        command.arg(name).arg(value);
    };
    for (_, name) in PORTS {
        let path = folder.join(format!("{name}{number}"));
        add(
            "-chardev",
            format!("socket,id={name},path={}", path.display()),
        );
    }
    add("-serial", "chardev:console".to_owned());
    add("-device", "virtio-serial-pci".to_owned());
    for name in ["out", "err"] {
        add(
            "-device",
            format!("virtserialport,chardev={name},name=limic.{name}"),
        );
    }
    if count > 1 {
        let end = |number: usize| folder.join(format!("cable{number}")).display().to_string();
        let (here, there) = (end(number), end(1 - number.min(1)));
        add(
            "-netdev",
            format!(
                "dgram,id=cable,local.type=unix,local.path={here},remote.type=unix,\
                 remote.path={there}"
            ),
        );
        add(
            "-device",
            format!(
                "virtio-net-pci,netdev=cable,mac=52:54:00:77:00:{:02x}",
                number + 1
            ),
        );
    }
    command
}
