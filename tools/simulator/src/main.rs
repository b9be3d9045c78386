//! Runs whole endpoints in one thread, each as if it were a process, under a seeded scheduler:
//! `cargo xtask simulate`. docs/simulator.md says what it does and what it checks.
//!
//! - `sim`: the state of one run: clock, processes, random numbers, faults, what was found;
//! - `schedule`: who has the next turn; a process that is killed;
//! - `system`: what limic's seams (`limic_shm::system`, `limic_copy::simulated`) call;
//! - `script`: which messages go in a run, drawn from its seed;
//! - `honest`, `hostile`: what a process does;
//! - `oracle`: what MPI says about the messages that came;
//! - `campaign`: many seeds, in a process that may crash.

#[cfg(limic_sim)]
mod campaign;
#[cfg(limic_sim)]
mod honest;
#[cfg(limic_sim)]
mod hostile;
#[cfg(limic_sim)]
mod oracle;
#[cfg(limic_sim)]
mod schedule;
#[cfg(limic_sim)]
mod script;
#[cfg(limic_sim)]
mod sim;
#[cfg(limic_sim)]
mod system;

#[cfg(limic_sim)]
fn main() -> std::process::ExitCode {
    // Peer-readable memory is the whole program's, and no simulated process's to give back.
    let _heap = limic::Buffer::new(1);
    campaign::main()
}

#[cfg(not(limic_sim))]
fn main() -> std::process::ExitCode {
    eprintln!("built without its seams: start it by cargo xtask simulate");
    std::process::ExitCode::from(2)
}
