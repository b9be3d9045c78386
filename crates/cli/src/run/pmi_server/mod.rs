//! The server's side of PMI-1: a state machine from lines to answers, without any I/O.
//!
//! The commands and their answers are those of Hydra's `mpiexec` (MPICH, `src/pm/hydra`), which
//! MPICH's client expects. Version 1.1 is announced, so clients use no barrier groups.

use std::collections::HashMap;

use limic::bootstrap::wire::Message;

use super::MAX_RANKS;

/// Announced limits, in bytes with a closing NUL.
const KVS_NAME_MAX: usize = 256;
const KEY_MAX: usize = 256;
const VALUE_MAX: usize = 4096;

/// All keys and values of a job may take this many bytes; ranks could fill the memory otherwise.
const STORE_MAX: usize = 256 << 20;

/// There may be so many of them: short ones take more memory than their bytes.
const ENTRIES_MAX: usize = 128 * MAX_RANKS as usize;

/// How far a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    InBarrier,
    /// Finalized or dead: it enters no barrier any more.
    Left,
}

/// What the launcher is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Send this to the rank.
    Answer(u32, Message),
    /// End the job with this code; the rank asked for it with this text.
    Abort { code: i32, text: String },
    /// Tell the user.
    Warn(String),
}

/// The key-value space of a job and the stages of its ranks.
#[derive(Debug)]
pub(super) struct PmiServer {
    name: String,
    values: HashMap<Vec<u8>, Vec<u8>>,
    stored: usize,
    stages: Vec<Stage>,
    /// Which rank left first; barriers that cannot end name it.
    left: Option<u32>,
    /// Whether the rank is inside a command of several lines (`mcmd=spawn` to `endcmd`).
    in_long: Vec<bool>,
    /// Whether the user was warned of the rank: a warning may wait for its reader.
    warned: Vec<bool>,
    /// Which ranks are on which node, in Hydra's notation.
    mapping: String,
}

impl PmiServer {
    /// `name` names the job in no other way than to tell it from others; `counts` says how many
    /// ranks each node has, in one block.
    pub(super) fn new(name: String, counts: &[u32]) -> Self {
        let ranks: u32 = counts.iter().sum();
        // Each block: its first node, how many nodes, ranks on each. One for each node would be
        // longer than a value may be where there are hundreds.
        let mut node = 0;
        let blocks = counts.chunk_by(|one, next| one == next);
        let blocks: String = blocks
            .map(|alike| {
                let first = node;
                node += alike.len();
                format!(",({first},{},{})", alike.len(), alike[0])
            })
            .collect();
        Self {
            mapping: format!("(vector{blocks})"),
            name,
            values: HashMap::new(),
            stored: 0,
            stages: vec![Stage::Running; ranks as usize],
            left: None,
            in_long: vec![false; ranks as usize],
            warned: vec![false; ranks as usize],
        }
    }

    /// Takes one line from a rank.
    pub(super) fn handle(&mut self, rank: u32, line: &[u8]) -> Vec<Effect> {
        let index = rank as usize;
        if self.in_long[index] {
            if line.trim_ascii() != b"endcmd" {
                return Vec::new();
            }
            self.in_long[index] = false;
            let text = "limic_run_does_not_start_processes_later";
            let answer = Message::new("spawn_result").with("rc", "-1");
            return vec![Effect::Answer(
                rank,
                answer.with("errmsg", text).with("msg", text),
            )];
        }
        if line.starts_with(b"mcmd=") {
            self.in_long[index] = true;
            return Vec::new();
        }
        match Message::parse(line) {
            Ok(message) => self.command(rank, &message),
            Err(error) => {
                let warning = format!("rank {rank} sent {error} over PMI; it was refused");
                self.refuse_with(rank, "a_line_without_cmd", warning)
            }
        }
    }

    fn command(&mut self, rank: u32, message: &Message) -> Vec<Effect> {
        let ok = |name: &str| Message::new(name).with("rc", "0");
        let command = message.command();
        let answer = match command.as_str() {
            "init" if message.get("pmi_version") == Some(b"1") => ok("response_to_init")
                .with("pmi_version", "1")
                .with("pmi_subversion", "1"),
            "init" => refuse("response_to_init", "only_pmi_version_1_is_served")
                .with("pmi_version", "1")
                .with("pmi_subversion", "1"),
            "get_maxes" => ok("maxes")
                .with("kvsname_max", KVS_NAME_MAX.to_string())
                .with("keylen_max", KEY_MAX.to_string())
                .with("vallen_max", VALUE_MAX.to_string()),
            "get_appnum" => ok("appnum").with("appnum", "0"),
            "get_my_kvsname" => ok("my_kvsname").with("kvsname", &self.name),
            "get_universe_size" => ok("universe_size").with("size", self.stages.len().to_string()),
            "put" => self.put(message),
            "get" => self.get(message),
            "barrier_in" => return self.enter_barrier(rank),
            "finalize" => {
                let mut effects = vec![Effect::Answer(rank, ok("finalize_ack"))];
                effects.extend(self.leave(rank));
                return effects;
            }
            "abort" => {
                return vec![Effect::Abort {
                    code: message.number("exitcode").unwrap_or(1),
                    text: message
                        .text("message")
                        .unwrap_or_default()
                        .replace('_', " "),
                }];
            }
            "publish_name" => refuse("publish_result", "names_are_not_served"),
            "unpublish_name" => refuse("unpublish_result", "names_are_not_served"),
            "lookup_name" => refuse("lookup_result", "names_are_not_served"),
            other => {
                let name: String = other.chars().take(40).collect();
                let warning =
                    format!("rank {rank} sent the PMI command {name:?}, which is unknown");
                return self.refuse_with(rank, "unknown_command", warning);
            }
        };
        vec![Effect::Answer(rank, answer)]
    }

    /// Refuses what is no command, and warns the user of the first such line of a rank.
    fn refuse_with(&mut self, rank: u32, text: &str, warning: String) -> Vec<Effect> {
        let mut effects = vec![Effect::Answer(rank, refuse("unrecognized", text))];
        if !std::mem::replace(&mut self.warned[rank as usize], true) {
            effects.push(Effect::Warn(warning));
        }
        effects
    }

    fn put(&mut self, message: &Message) -> Message {
        let (Some(key), Some(value)) = (message.get("key"), message.get("value")) else {
            return refuse("put_result", "key_or_value_missing");
        };
        if key.len() >= KEY_MAX || value.len() >= VALUE_MAX {
            return refuse("put_result", "key_or_value_too_long");
        }
        let old = self.values.get(key);
        let freed = old.map_or(0, |old| key.len() + old.len());
        let stored = self.stored + key.len() + value.len() - freed;
        let is_one_more = old.is_none() && self.values.len() >= ENTRIES_MAX;
        if stored > STORE_MAX || is_one_more {
            return refuse("put_result", "the_jobs_key_value_space_is_full");
        }
        self.stored = stored;
        self.values.insert(key.to_vec(), value.to_vec());
        Message::new("put_result").with("rc", "0")
    }

    fn get(&self, message: &Message) -> Message {
        let key = message.get("key").unwrap_or_default();
        let found = Message::new("get_result").with("rc", "0");
        if let Some(value) = self.values.get(key) {
            return found.with("value", value);
        }
        if key == b"PMI_process_mapping" {
            return found.with("value", &self.mapping);
        }
        let key = String::from_utf8_lossy(key).into_owned();
        refuse("get_result", &format!("key_{key}_not_found"))
    }

    fn enter_barrier(&mut self, rank: u32) -> Vec<Effect> {
        if self.stages[rank as usize] == Stage::InBarrier {
            let answer = refuse("barrier_out", "already_in_the_barrier");
            return vec![Effect::Answer(rank, answer)];
        }
        if self.stages[rank as usize] == Stage::Running {
            self.stages[rank as usize] = Stage::InBarrier;
        }
        if let Some(left) = self.left {
            return self.release(&broken(left), Some(rank));
        }
        if self.stages.iter().all(|&stage| stage == Stage::InBarrier) {
            return self.release(&Message::new("barrier_out").with("rc", "0"), None);
        }
        Vec::new()
    }

    /// Answers all ranks that wait in the barrier, and `also` in any case.
    fn release(&mut self, answer: &Message, also: Option<u32>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (rank, stage) in (0..).zip(&mut self.stages) {
            if *stage == Stage::InBarrier {
                *stage = Stage::Running;
                effects.push(Effect::Answer(rank, answer.clone()));
            } else if also == Some(rank) {
                effects.push(Effect::Answer(rank, answer.clone()));
            }
        }
        effects
    }

    /// The rank finalized, ended, or closed its connection: a barrier that others wait in cannot
    /// end any more, and they are told instead of left waiting.
    pub(super) fn leave(&mut self, rank: u32) -> Vec<Effect> {
        self.stages[rank as usize] = Stage::Left;
        let left = *self.left.get_or_insert(rank);
        self.release(&broken(left), None)
    }
}

fn refuse(name: &str, text: &str) -> Message {
    Message::new(name).with("rc", "-1").with("msg", text)
}

fn broken(left: u32) -> Message {
    refuse(
        "barrier_out",
        &format!("rank_{left}_left_the_job_before_this_barrier"),
    )
}

#[cfg(test)]
mod tests;
