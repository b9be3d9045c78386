//! A rail: one port of one device, with the queues that all connections through it share.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::connection::Stream;
use super::greeter::{DATAGRAMS, Greeter};
use super::receives::Receives;
use super::{Fabric, FabricSettings, RailAddress};
use crate::VerbsError;
use crate::objects::{
    CompletionQueue, Context, Device, DeviceEvent, Notifier, Port, ProtectionDomain, QueuePair,
    QueuePairSettings, devices, named,
};

/// Most rails: their keys for one slice of memory travel in one 64-bit word.
pub(super) const RAILS: usize = 2;

/// Bytes that are worth putting into a work request itself. Adapters say how many they take by
/// refusing more.
const INLINE: u32 = 220;

/// Most entries that a completion queue has before there are peers.
const MOST_COMPLETIONS: u32 = 65_536;

#[derive(Debug)]
pub(super) struct Rail {
    pub(super) greeter: Greeter,
    pub(super) receives: Receives,
    pub(super) queue: Arc<CompletionQueue>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) port: Port,
    pub(super) domain: Arc<ProtectionDomain>,
    inline_bytes: u32,
    /// Room in the completion queue.
    pub(super) completions: u32,
    /// It takes and gives nothing any more.
    pub(super) is_broken: bool,
    /// Its device says that this is so.
    pub(super) has_failed: bool,
    /// What its device has said of its port, and nobody has heard yet: whether it is up.
    pub(super) port_told: Option<bool>,
    /// Queue pairs that have said that they take no receive any more.
    pub(super) finished: HashSet<u32>,
    /// Whether they say so.
    pub(super) tells_ends: bool,
    /// Until then no stream is made anew here: the last one to be tried took long.
    pub(super) rests_until: Instant,
}

impl Rail {
    pub(super) fn open(
        device: &Device,
        port: Option<u8>,
        settings: &FabricSettings,
    ) -> Result<Self, VerbsError> {
        let context = Context::open(device)?;
        let port = match port {
            Some(number) => context.port(number, &settings.port)?,
            None => context.first_port(&settings.port)?,
        };
        let domain = ProtectionDomain::new(&context)?;
        let notifier = Notifier::new(&context)?;
        let mut entries = settings
            .receives
            .saturating_add(u32::from(settings.send_entries) * 64)
            .clamp(1024, MOST_COMPLETIONS)
            .min(context.limits().completions);
        let mut queue = CompletionQueue::new(&context, entries, Some(&notifier))?;
        if queue.grow(entries).is_err() {
            // This adapter's queues cannot grow with the peers, so it is large from the beginning.
            entries = MOST_COMPLETIONS.min(context.limits().completions);
            queue = CompletionQueue::new(&context, entries, Some(&notifier))?;
        }
        let counts = (settings.devices.len().max(1), settings.streams);
        Ok(Self {
            greeter: Greeter::new(&domain, &queue, &port, counts)?,
            receives: Receives::new(&domain, settings)?,
            queue,
            notifier,
            port,
            domain,
            inline_bytes: INLINE,
            completions: entries,
            is_broken: false,
            has_failed: false,
            port_told: None,
            finished: HashSet::new(),
            tells_ends: true,
            rests_until: Instant::now(),
        })
    }

    /// Where peers reach it.
    pub(super) fn address(&self) -> RailAddress {
        RailAddress {
            port: self.port.address(),
            greeter: self.greeter.number(),
        }
    }

    /// Takes what the device has told.
    pub(super) fn take_events(&mut self) {
        let (finished, has_failed) = (&mut self.finished, &mut self.has_failed);
        let (port, port_told) = (self.port.number(), &mut self.port_told);
        self.domain.context().take_events(|event| match event {
            DeviceEvent::LastReceive(number) => {
                finished.insert(number);
            }
            DeviceEvent::Failed => *has_failed = true,
            DeviceEvent::Port(number, is_up) if number == port => *port_told = Some(is_up),
            DeviceEvent::Port(..) => {}
        });
    }

    /// The port as it is now, which may have been down since, and come back with another address.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn renew_port(&mut self, settings: &FabricSettings) -> Result<(), VerbsError> {
        self.port = self.port_now(settings)?;
        Ok(())
    }

    pub(super) fn port_now(&self, settings: &FabricSettings) -> Result<Port, VerbsError> {
        let context = self.domain.context();
        context.port(self.port.number(), &settings.port)
    }

    /// Sends a datagram to the greeter of another rail.
    pub(super) fn greet(&mut self, to: &RailAddress, bytes: &[u8]) -> Result<(), VerbsError> {
        self.greeter.send(&self.port, to, bytes)
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
            .saturating_add(self.receives.most(pairs))
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
                self.receives.queue(),
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
                    if let Err(error) = self.receives.equip(&pair) {
                        let number = pair.number();
                        drop(pair);
                        self.receives.gone(number, |_| false);
                        return Err(error);
                    }
                    return Ok(pair);
                }
                error => return error,
            }
        }
    }
}

impl Fabric {
    /// The rails that a stream may go by, and that of its turn first. Only one whose port is up is
    /// of use where a peer has one stream; others wait for their port to come back.
    pub(super) fn rails_in_order(&self, turn: usize) -> Vec<usize> {
        let mut rails: Vec<usize> = self.rails_from(turn).collect();
        if self.settings.streams == 1 && rails.len() > 1 {
            rails.sort_by_key(|rail| self.rails[*rail].port_now(&self.settings).is_err());
        }
        rails
    }

    /// The rails that work, beginning with that whose turn it is.
    pub(super) fn rails_from(&self, turn: usize) -> impl Iterator<Item = usize> {
        let count = self.rails.len();
        let rails = (0..count).map(move |step| (turn + step) % count);
        rails.filter(|rail| !self.rails[*rail].is_broken)
    }

    /// A queue pair of this rail for a connection, which leads to that rail of the peer's.
    pub(super) fn new_stream(
        &mut self,
        number: u32,
        rail: usize,
        rail_there: usize,
    ) -> Result<Stream, VerbsError> {
        let pairs = self.by_pair.len() + 1;
        self.rails[rail].make_room(pairs, &self.settings)?;
        let pair = self.rails[rail].queue_pair(&self.settings)?;
        self.by_pair.insert((rail, pair.number()), number);
        Ok(Stream {
            pair,
            rail,
            rail_there,
            free: self.settings.send_entries,
            unsignalled: 0,
            posted: VecDeque::new(),
            next: 0,
        })
    }
}

/// Why nothing can be made where all rails have failed.
pub(super) fn none_works(rails: &[Rail]) -> VerbsError {
    let names = rails.iter().map(|rail| rail.domain.context().name());
    VerbsError::NoPort {
        device: names.collect::<Vec<_>>().join(" or "),
        why: "it has failed".to_owned(),
    }
}

/// Opens the rails that the settings ask for.
pub(super) fn open_all(settings: &FabricSettings) -> Result<Vec<Rail>, VerbsError> {
    let mut present = devices()?;
    if settings.devices.is_empty() {
        present.sort_by_key(|device| {
            let mut order = settings.order.iter();
            order
                .position(|name| *name == device.name)
                .unwrap_or(usize::MAX)
        });
        let (mut why, mut unset) = (Vec::new(), None);
        for device in &present {
            match Rail::open(device, None, settings) {
                Ok(rail) => return Ok(vec![rail]),
                Err(error @ VerbsError::Setting { .. }) => unset = Some(error),
                Err(error) if present.len() == 1 => return Err(error),
                Err(error) => why.push(format!("{}: {error}", device.name)),
            }
        }
        return Err(unset.unwrap_or(VerbsError::NoDevice(why.join("; "))));
    }
    let mut rails = Vec::new();
    for wanted in settings.devices.iter().take(RAILS) {
        let Some((device, port)) = named(present.iter(), wanted) else {
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
