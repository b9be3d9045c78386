//! A rail: one port of one device, with the queues that all connections through it share.

use std::sync::Arc;

use super::FabricSettings;
use super::greeter::DATAGRAMS;
use crate::VerbsError;
use crate::objects::{
    Access, Bytes, CompletionQueue, Context, Device, LocalSlice, MemoryRegion, Notifier, Port,
    ProtectionDomain, QueuePair, QueuePairSettings, SharedReceiveQueue, devices,
};

/// Most rails: their keys for one slice of memory travel in one 64-bit word.
pub(super) const RAILS: usize = 2;

/// Receives of the shared queue have this bit in their number, with the buffer below.
pub(super) const RECEIVE: u64 = 1 << 63;

/// Bytes that are worth putting into a work request itself. Adapters say how many they take by
/// refusing more.
const INLINE: u32 = 220;

#[derive(Debug)]
pub(super) struct Rail {
    // Dropped in this order: the queues before the memory that they may still fill.
    pub(super) receives: Arc<SharedReceiveQueue>,
    pub(super) queue: Arc<CompletionQueue>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) buffers: MemoryRegion<Bytes>,
    pub(super) port: Port,
    pub(super) domain: Arc<ProtectionDomain>,
    packet_bytes: usize,
    inline_bytes: u32,
    /// Room in the completion queue.
    completions: u32,
}

impl Rail {
    pub(super) fn open(
        device: &Device,
        port: Option<u8>,
        settings: &FabricSettings,
    ) -> Result<Self, VerbsError> {
        let context = Context::open(device)?;
        let port = match port {
            Some(number) => context.port(number)?,
            None => context.first_port()?,
        };
        let domain = ProtectionDomain::new(&context)?;
        let notifier = Notifier::new(&context)?;
        let entries = settings
            .receives
            .saturating_add(u32::from(settings.send_entries) * 64)
            .clamp(1024, 65_536)
            .min(context.limits().completions);
        let queue = CompletionQueue::new(&context, entries, Some(&notifier))?;
        let receives = SharedReceiveQueue::new(&domain, settings.receives)?;
        let packet_bytes = settings.packet_bytes as usize;
        let bytes = packet_bytes * settings.receives as usize;
        let buffers = MemoryRegion::new(&domain, Bytes::zeroed(bytes)?, Access::LOCAL)?;
        let rail = Self {
            receives,
            queue,
            notifier,
            buffers,
            port,
            domain,
            packet_bytes,
            inline_bytes: INLINE,
            completions: entries,
        };
        for buffer in 0..settings.receives {
            rail.post_receive(buffer)?;
        }
        Ok(rail)
    }

    /// Has room for the completions of so many queue pairs, all of whose work may end before the
    /// queue is looked at again: one completion more than it holds would break every connection.
    pub(super) fn make_room(
        &mut self,
        pairs: usize,
        settings: &FabricSettings,
    ) -> Result<(), VerbsError> {
        let pairs = u32::try_from(pairs).unwrap_or(u32::MAX);
        let needed = pairs
            .saturating_mul(settings.send_entries.into())
            .saturating_add(settings.receives)
            .saturating_add(DATAGRAMS);
        if needed <= self.completions {
            return Ok(());
        }
        let limit = self.domain.context().limits().completions;
        let entries = needed.checked_next_power_of_two().unwrap_or(needed);
        let entries = entries.min(limit.max(needed));
        self.queue.grow(entries)?;
        self.completions = entries;
        Ok(())
    }

    /// Lends a receive buffer to the adapter.
    pub(super) fn post_receive(&self, buffer: u32) -> Result<(), VerbsError> {
        let at = buffer as usize * self.packet_bytes;
        let Some(slice) = LocalSlice::of(self.buffers.registration(), at, self.packet_bytes) else {
            return Ok(());
        };
        // SAFETY: the buffer was posted at the start, or its receive has completed and its bytes
        // were copied out; the region outlives the queue (field order), and nothing but
        // `copy_packet` looks at it.
        unsafe { self.receives.post(RECEIVE | u64::from(buffer), slice) }
    }

    /// Copies a received packet out of its buffer.
    pub(super) fn copy_packet(&self, buffer: u32, len: u32, into: &mut Vec<u8>) {
        let at = buffer as usize * self.packet_bytes;
        let room = self.buffers.registration().len();
        let len = (len as usize).min(self.packet_bytes);
        into.clear();
        if at <= room && len <= room - at {
            into.resize(len, 0);
            self.buffers.memory().read(at, into);
        }
    }

    pub(super) fn queue_pair(
        &mut self,
        settings: &FabricSettings,
    ) -> Result<QueuePair, VerbsError> {
        let first_packet = getrandom::u32().unwrap_or(1);
        let mut inline_bytes = self.inline_bytes;
        loop {
            let made = QueuePair::new(
                &self.domain,
                &self.queue,
                &self.receives,
                self.port,
                first_packet,
                QueuePairSettings {
                    send_entries: settings.send_entries.into(),
                    slices: 1,
                    inline_bytes,
                    retries: settings.retries,
                    timeout: settings.timeout,
                },
            );
            match made {
                Err(VerbsError::Call { .. }) if inline_bytes > 0 => inline_bytes /= 2,
                Ok(pair) => {
                    self.inline_bytes = inline_bytes;
                    return Ok(pair);
                }
                error => return error,
            }
        }
    }
}

/// Opens the rails that the settings ask for.
pub(super) fn open_all(settings: &FabricSettings) -> Result<Vec<Rail>, VerbsError> {
    let present = devices()?;
    if settings.devices.is_empty() {
        let mut why = Vec::new();
        for device in &present {
            match Rail::open(device, None, settings) {
                Ok(rail) => return Ok(vec![rail]),
                Err(error) if present.len() == 1 => return Err(error),
                Err(error) => why.push(format!("{}: {error}", device.name)),
            }
        }
        return Err(VerbsError::NoDevice(why.join("; ")));
    }
    let mut rails = Vec::new();
    for wanted in settings.devices.iter().take(RAILS) {
        let named = |name: &str| present.iter().find(|device| device.name == name);
        let found = named(wanted).map(|device| (device, None)).or_else(|| {
            let (name, port) = wanted.rsplit_once(':')?;
            Some((named(name)?, Some(port.parse().ok()?)))
        });
        let Some((device, port)) = found else {
            let names: Vec<&str> = present.iter().map(|device| device.name.as_str()).collect();
            return Err(VerbsError::UnknownDevice {
                wanted: wanted.clone(),
                present: names.join(", "),
            });
        };
        rails.push(Rail::open(device, port, settings)?);
    }
    Ok(rails)
}
