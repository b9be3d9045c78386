//! `cargo xtask lab run`: one command in a guest.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use limic_runner::{Failure, Job, packages};

use super::guest::{Guests, Heard, Port};
use super::image::{self, Step};
use super::machine::Machine;
use super::{kernel, module, needs};

/// The command, and the guests that run it.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    machine: Machine,
    /// How many guests run the command; two have a network between them. `LIMIC_LAB_GUEST` is 0 or
    /// 1 in them, and `LIMIC_LAB_PEER` the address of the other one.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    guests: u8,
    /// When the guests are ended, in seconds.
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Do not load limic's kernel module.
    #[arg(long)]
    no_module: bool,
    /// A program of this checkout, of busybox, or of this machine, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let machine = &arguments.machine;
    let kernel = kernel::build(machine.flavour.flavour(), false)?;
    needs::machine(machine.rdma)?;
    let mut contents = machine.contents()?;
    if !arguments.no_module {
        contents.modules.push(module::build(&kernel)?);
    }
    let (program, copied) = find(arguments.command.first().map_or("", String::as_str))?;
    contents.programs.extend(copied);
    let words = std::iter::once(&program).chain(arguments.command.iter().skip(1));
    let words: Vec<String> = words.map(|word| image::quoted(word)).collect();
    contents.steps.push(Step {
        name: "command".to_owned(),
        script: format!("exec {}\n", words.join(" ")),
    });
    let count = usize::from(arguments.guests);
    let mut guests = Guests::start(&kernel, machine, &contents, count)?;
    let deadline = Instant::now() + Duration::from_secs(arguments.limit);
    let mut codes: Vec<Option<i32>> = vec![None; count];
    let mut lines = vec![Vec::new(); count];
    loop {
        match guests.next(deadline) {
            Heard::Output(_, port, bytes) if count == 1 => show(port, &bytes),
            Heard::Output(number, _, bytes) => {
                // Whole lines, each with its guest's number.
                if let Some(line) = lines.get_mut(number) {
                    line.extend(bytes);
                    print_lines(number, line, false);
                }
            }
            Heard::Begin => {}
            Heard::End(number, code) => {
                if count > 1
                    && let Some(line) = lines.get_mut(number)
                {
                    print_lines(number, line, true);
                }
                if let Some(slot) = codes.get_mut(number) {
                    *slot = Some(code);
                }
                if let Some(codes) = codes.iter().copied().collect::<Option<Vec<i32>>>() {
                    return match codes.into_iter().find(|code| *code != 0) {
                        None => Ok(()),
                        Some(code) => Err(Failure::Exit(code)),
                    };
                }
            }
            Heard::Complaint(number, words) => {
                return Err(unwell(
                    &guests,
                    number,
                    &format!("its kernel says '{words}'"),
                ));
            }
            Heard::Died(number) => return Err(unwell(&guests, number, "it ended by itself")),
            Heard::Late => {
                let why = format!(
                    "it was ended after {} s (--limit sets another limit)",
                    arguments.limit
                );
                return Err(unwell(&guests, 0, &why));
            }
        }
    }
}

/// The name by which the guest knows a program, and its path if libraries have to go in for it.
fn find(name: &str) -> Result<(String, Option<PathBuf>), Failure> {
    if name.contains('/') {
        let path = Path::new(name)
            .canonicalize()
            .map_err(|why| Failure::Missing(format!("there is no program '{name}': {why}")))?;
        return Ok((path.display().to_string(), Some(path)));
    }
    let applets = needs::busybox()
        .and_then(|busybox| Job::new(busybox, 1).arg("--list").capture_quietly())
        .unwrap_or_default();
    if applets.lines().any(|applet| applet == name) {
        return Ok((name.to_owned(), None));
    }
    let path = packages::program(name).ok_or_else(|| {
        Failure::Missing(format!(
            "there is no program '{name}' on this machine; a program of the checkout is named by \
             its path"
        ))
    })?;
    Ok((name.to_owned(), Some(path)))
}

fn show(port: Port, bytes: &[u8]) {
    // A reader that closed the stream does not want to read.
    let _ = match port {
        Port::Err => std::io::stderr().write_all(bytes),
        _ => std::io::stdout()
            .write_all(bytes)
            .and_then(|()| std::io::stdout().flush()),
    };
}

fn print_lines(number: usize, kept: &mut Vec<u8>, all: bool) {
    while let Some(end) = kept.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = kept.drain(..=end).collect();
        print!("[{number}] {}", String::from_utf8_lossy(&line));
    }
    if all && !kept.is_empty() {
        println!("[{number}] {}", String::from_utf8_lossy(kept));
        kept.clear();
    }
}

/// Shows the messages of the kernel, and makes a failure of them.
fn unwell(guests: &Guests, number: usize, why: &str) -> Failure {
    for line in guests.console(number) {
        eprintln!("[console {number}] {line}");
    }
    Failure::Wrong(format!("guest {number}: {why}; its console is above"))
}
