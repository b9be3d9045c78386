//! The client of the PMI-1 wire protocol: what Hydra's `mpiexec` and `limic run` serve over
//! `PMI_FD`.
//!
//! The steps are those of MPICH's own client (`src/pmi/src/pmi_v1.c`): init, get_maxes,
//! get_my_kvsname; then put, barrier and get for each exchange; finalize. Values are hexadecimal,
//! because a PMI-1 value is text without blanks.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use super::channel::Channel;
use super::wire::{Message, from_hex, to_hex};
use super::{Bootstrap, BootstrapError, MAX_BLOB, check_blob};

const LAUNCHER: &str = "PMI-1";

/// Longest value in one put, in bytes. Old servers announce values of 1024 bytes, yet cut whole
/// lines at 1024.
const MAX_VALUE: usize = 512;

/// A rank's connection to a PMI-1 launcher.
#[derive(Debug)]
pub struct Pmi1 {
    channel: Channel,
    rank: u32,
    size: u32,
    /// Name of the job's key-value space.
    kvs: String,
    /// Longest key, in bytes.
    key_max: usize,
    /// Longest piece of a value, in bytes.
    value_max: usize,
    /// Number of the next exchange: the keys of one are never used again.
    serial: u64,
    finalized: bool,
}

impl Pmi1 {
    /// Speaks over a connected stream socket, as rank `rank` of `size`. `limit` bounds each wait.
    ///
    /// # Errors
    /// What went wrong between this process and the launcher.
    pub fn from_socket(
        socket: OwnedFd,
        rank: u32,
        size: u32,
        limit: Option<Duration>,
    ) -> Result<Self, BootstrapError> {
        Self::start(Channel::new(socket, limit), rank, size)
    }

    /// Speaks over the descriptor number that `PMI_FD` holds.
    pub(super) fn from_descriptor(
        number: RawFd,
        rank: u32,
        size: u32,
        limit: Option<Duration>,
    ) -> Result<Self, BootstrapError> {
        let step = "use of PMI_FD";
        // The numbers 0 to 2 are the standard streams, never the launcher's socket.
        let closed = || BootstrapError::Environment {
            launcher: LAUNCHER,
            variable: "PMI_FD",
            found: format!("{number}, which is no open socket here"),
            expected: "the launcher's socket (a program started by a rank does not inherit it)",
        };
        if number <= 2 {
            return Err(closed());
        }
        #[expect(unsafe_code, reason = "PMI hands a descriptor over by its number")]
        // SAFETY: the number is not negative. Whether it is open is found out by the next call,
        // which fails with EBADF if it is not; nobody in this process owns it, because it was
        // inherited from the launcher.
        let inherited = unsafe { BorrowedFd::borrow_raw(number) };
        // A duplicate is ours to close; the inherited one stays open, so its number cannot come to
        // mean another file.
        let own = rustix::io::fcntl_dupfd_cloexec(inherited, 3).map_err(|_| closed())?;
        if rustix::net::sockopt::socket_type(&own).is_err() {
            return Err(closed());
        }
        // Programs that this rank starts must not speak to the launcher in its place.
        rustix::io::fcntl_setfd(inherited, rustix::io::FdFlags::CLOEXEC).map_err(|errno| {
            BootstrapError::Io {
                launcher: LAUNCHER,
                step,
                source: errno.into(),
                advice: "start the job again",
            }
        })?;
        Self::from_socket(own, rank, size, limit)
    }

    /// Connects to the `host:port` that `PMI_PORT` holds, and names itself by `PMI_ID`; the
    /// launcher answers with rank and size (`mpiexec -pmi-port`).
    pub(super) fn from_port(
        address: &str,
        id: u32,
        limit: Option<Duration>,
    ) -> Result<Self, BootstrapError> {
        let step = "connection to PMI_PORT";
        let failed = |source| BootstrapError::Io {
            launcher: LAUNCHER,
            step,
            source,
            advice: "PMI_PORT must hold the launcher's host:port, reachable from this node",
        };
        let mut result = Err(std::io::ErrorKind::AddrNotAvailable.into());
        for address in address.to_socket_addrs().map_err(failed)? {
            result = match limit {
                Some(limit) => TcpStream::connect_timeout(&address, limit),
                None => TcpStream::connect(address),
            };
            if result.is_ok() {
                break;
            }
        }
        let stream = result.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut channel = Channel::new(OwnedFd::from(stream), limit);

        channel.send(step, &Message::new("initack").with("pmiid", id.to_string()))?;
        expect(step, &channel.receive(step)?, "initack")?;
        let (mut size, mut rank) = (None, None);
        for _ in 0..3 {
            let set = channel.receive(step)?;
            expect(step, &set, "set")?;
            size = set.number("size").or(size);
            rank = set.number("rank").or(rank);
        }
        let (Some(rank), Some(size)) = (rank, size) else {
            return Err(protocol(
                step,
                "the launcher did not say rank and size".into(),
            ));
        };
        Self::start(channel, rank, size)
    }

    fn start(channel: Channel, rank: u32, size: u32) -> Result<Self, BootstrapError> {
        let mut pmi = Self {
            channel,
            rank,
            size,
            kvs: String::new(),
            key_max: 0,
            value_max: 0,
            serial: 0,
            finalized: false,
        };
        if rank >= size {
            return Err(protocol("init", format!("rank {rank} of {size}")));
        }
        let init = Message::new("init")
            .with("pmi_version", "1")
            .with("pmi_subversion", "1");
        let answer = pmi.ask("init", &init, "response_to_init")?;
        if answer.number("pmi_version") != Some(1) {
            return Err(protocol(
                "init",
                "the launcher does not speak PMI version 1".into(),
            ));
        }
        let maxes = pmi.ask("get_maxes", &Message::new("get_maxes"), "maxes")?;
        // The limits count a closing NUL.
        let limit = |key| maxes.number::<usize>(key).unwrap_or(0).saturating_sub(1);
        pmi.key_max = limit("keylen_max");
        pmi.value_max = limit("vallen_max").min(MAX_VALUE);
        if pmi.value_max < 16 {
            return Err(protocol("get_maxes", "no usable vallen_max".into()));
        }
        let name = pmi.ask(
            "get_my_kvsname",
            &Message::new("get_my_kvsname"),
            "my_kvsname",
        )?;
        pmi.kvs = name.text("kvsname").unwrap_or_default();
        if pmi.kvs.is_empty() {
            return Err(protocol(
                "get_my_kvsname",
                "no kvsname in the answer".into(),
            ));
        }
        tracing::debug!(rank, size, kvs = pmi.kvs, "connected to the PMI-1 launcher");
        Ok(pmi)
    }

    /// Sends a request and checks its answer.
    fn ask(
        &mut self,
        step: &'static str,
        request: &Message,
        answer: &str,
    ) -> Result<Message, BootstrapError> {
        if self.finalized {
            return Err(BootstrapError::Finalized {
                launcher: LAUNCHER,
                step,
            });
        }
        self.channel.send(step, request)?;
        let message = self.channel.receive(step)?;
        expect(step, &message, answer)?;
        Ok(message)
    }

    /// The key of a piece of a rank's blob in the current exchange.
    fn key(&self, rank: u32, piece: usize) -> Result<String, BootstrapError> {
        let key = format!("limic-{}-{rank}-{piece}", self.serial);
        if key.len() > self.key_max {
            return Err(protocol(
                "put",
                format!(
                    "keylen_max of {} is below the {} bytes needed",
                    self.key_max,
                    key.len()
                ),
            ));
        }
        Ok(key)
    }

    /// Stores `<length>:<hexadecimal digits>` under as many keys as the launcher's limit asks for.
    fn put(&mut self, blob: &[u8]) -> Result<(), BootstrapError> {
        let value = format!("{}:{}", blob.len(), to_hex(blob));
        for (piece, text) in value.as_bytes().chunks(self.value_max).enumerate() {
            let put = Message::new("put")
                .with("kvsname", &self.kvs)
                .with("key", self.key(self.rank, piece)?)
                .with("value", text);
            self.ask("put", &put, "put_result")?;
        }
        Ok(())
    }

    /// Collects a rank's blob. How many pieces it has is told by its length, which leads the first
    /// piece.
    fn get(&mut self, rank: u32) -> Result<Vec<u8>, BootstrapError> {
        let wrong = || {
            protocol(
                "get",
                format!("rank {rank} stored something that is not a blob"),
            )
        };
        let mut digits: Vec<u8> = Vec::new();
        let mut expected = None;
        for piece in 0.. {
            let get = Message::new("get")
                .with("kvsname", &self.kvs)
                .with("key", self.key(rank, piece)?);
            let answer = self.ask("get", &get, "get_result")?;
            let mut text = answer
                .get("value")
                .filter(|text| !text.is_empty())
                .ok_or_else(wrong)?;
            if expected.is_none() {
                let colon = text
                    .iter()
                    .position(|&byte| byte == b':')
                    .ok_or_else(wrong)?;
                let length = std::str::from_utf8(&text[..colon]).ok();
                let length: usize = length
                    .and_then(|text| text.parse().ok())
                    .ok_or_else(wrong)?;
                if length > MAX_BLOB {
                    return Err(wrong());
                }
                expected = Some(2 * length);
                text = &text[colon + 1..];
            }
            digits.extend_from_slice(text);
            if digits.len() >= expected.unwrap_or_default() {
                break;
            }
        }
        if Some(digits.len()) != expected {
            return Err(wrong());
        }
        from_hex(&digits).ok_or_else(wrong)
    }

    fn fence(&mut self, step: &'static str) -> Result<(), BootstrapError> {
        self.ask(step, &Message::new("barrier_in"), "barrier_out")
            .map(drop)
    }
}

impl Bootstrap for Pmi1 {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn kind(&self) -> &'static str {
        "pmi1"
    }

    fn job_id(&self) -> &str {
        &self.kvs
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, BootstrapError> {
        check_blob(mine)?;
        self.put(mine)?;
        self.fence("all_gather")?;
        let ranks = 0..self.size;
        let all = ranks.map(|rank| {
            if rank == self.rank {
                Ok(mine.to_vec())
            } else {
                self.get(rank)
            }
        });
        let all = all.collect();
        self.serial += 1;
        all
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.fence("barrier")
    }

    fn abort(&mut self, code: i32, message: &str) {
        // Blanks and equal signs would end the field; the length keeps the line below old servers'
        // limit.
        let text = message.chars().take(200).map(|c| match c {
            c if c.is_whitespace() => '_',
            '=' => ':',
            c => c,
        });
        let abort = Message::new("abort")
            .with("exitcode", code.to_string())
            .with("message", text.collect::<String>());
        if let Err(error) = self.channel.send("abort", &abort) {
            tracing::warn!(%error, "the launcher could not be asked to end the job");
        }
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        if !self.finalized {
            self.ask("finalize", &Message::new("finalize"), "finalize_ack")?;
            self.finalized = true;
        }
        Ok(())
    }
}

fn protocol(step: &'static str, detail: String) -> BootstrapError {
    BootstrapError::Protocol {
        launcher: LAUNCHER,
        step,
        detail,
    }
}

/// Checks that a message is the expected one and reports success; a missing `rc` is success in this
/// protocol.
fn expect(step: &'static str, message: &Message, command: &str) -> Result<(), BootstrapError> {
    let found = message.command();
    let failed = message.get("rc").is_some() && message.number::<i64>("rc") != Some(0);
    if failed {
        let text = message.text("msg").or_else(|| message.text("errmsg"));
        let code = message.text("rc").unwrap_or_default();
        return Err(BootstrapError::Refused {
            launcher: LAUNCHER,
            step,
            text: text.unwrap_or_else(|| format!("{found} with code {code}")),
        });
    }
    if found == command {
        Ok(())
    } else {
        Err(protocol(
            step,
            format!("received {found:?} where {command:?} was expected"),
        ))
    }
}

#[cfg(test)]
mod tests;
