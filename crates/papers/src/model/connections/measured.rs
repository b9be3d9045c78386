//! Real queue pairs, connected to each other, and what this process and the kernel grew by.

use std::sync::Arc;

use limic_ibverbs::VerbsError;
use limic_ibverbs::objects::{
    CompletionQueue, Context, Port, PortSettings, ProtectionDomain, QueuePair, QueuePairSettings,
    ReceiveQueue, SharedReceiveQueue, devices,
};

use super::Measured;
use crate::memory::{kernel, resident};

/// What limic asks for besides the entries: the same as its connections have.
const INLINE_BYTES: u32 = 220;
const RETRIES: u8 = 6;
const TIMEOUT: u8 = 14;

/// A device, and the queues that all queue pairs share.
#[derive(Debug)]
pub(super) struct Bench {
    port: Port,
    domain: Arc<ProtectionDomain>,
    queue: Arc<CompletionQueue>,
    receives: Arc<SharedReceiveQueue>,
}

impl Bench {
    /// The first device with an active port.
    pub(super) fn open() -> Result<Self, VerbsError> {
        let mut why = VerbsError::NoDevice("its list is empty".to_owned());
        for device in devices()? {
            let opened = Context::open(&device).and_then(|context| {
                let port = context.first_port(&PortSettings::default())?;
                let domain = ProtectionDomain::new(&context)?;
                Ok(Self {
                    port,
                    queue: CompletionQueue::new(&context, 1024, None)?,
                    receives: SharedReceiveQueue::new(&domain, 16)?,
                    domain,
                })
            });
            match opened {
                Ok(bench) => return Ok(bench),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    pub(super) fn name(&self) -> String {
        self.domain.context().name().to_owned()
    }

    /// Makes and connects `count` queue pairs with `entries` send entries each.
    pub(super) fn measure(&self, entries: u16, count: u32) -> Result<Measured, VerbsError> {
        // The first few make the allocators grow, once.
        let first = self.pairs(entries, 8)?;
        let before = (resident(), kernel());
        let pairs = self.pairs(entries, count)?;
        let after = (resident(), kernel());
        let there = (pairs.len() as u32).min(counted().unwrap_or(u32::MAX));
        drop(pairs);
        drop(first);
        let each = |before: u64, after: u64| {
            after.saturating_sub(before) as f64 / f64::from(there.max(1)) / 1000.0
        };
        Ok(Measured {
            process_kb: each(before.0, after.0),
            kernel_kb: each(before.1, after.1),
            pairs: there,
        })
    }

    fn pairs(&self, entries: u16, count: u32) -> Result<Vec<QueuePair>, VerbsError> {
        let settings = QueuePairSettings {
            send_entries: entries.into(),
            slices: 1,
            inline_bytes: INLINE_BYTES,
            retries: RETRIES,
            timeout: TIMEOUT,
        };
        let new = || {
            QueuePair::new(
                &self.domain,
                &self.queue,
                ReceiveQueue::Shared(&self.receives),
                self.port,
                1,
                settings,
            )
        };
        let mut pairs = Vec::with_capacity(count as usize + 1);
        while pairs.len() < count as usize {
            let (mut one, mut other) = (new()?, new()?);
            one.connect(&other.as_remote())?;
            other.connect(&one.as_remote())?;
            pairs.extend([one, other]);
        }
        Ok(pairs)
    }
}

/// Queue pairs of this machine, by the kernel's own account (`rdma resource show`), where that
/// program is there.
fn counted() -> Option<u32> {
    let output = std::process::Command::new("rdma")
        .args(["resource", "show"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let counts = words.windows(2).filter(|pair| pair[0] == "qp");
    let sum: u32 = counts.filter_map(|pair| pair[1].parse::<u32>().ok()).sum();
    (sum > 0).then_some(sum)
}
