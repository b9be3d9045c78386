//! How much a fabric takes, and how patient it is.

use core::time::Duration;

use crate::objects::PortSettings;

/// Which registrations are kept for the next transfer of the same memory. Peers that were
/// given a key can use it for as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keep {
    /// None.
    Nothing,
    /// Those with on-demand paging, on devices that have it.
    #[default]
    OnDemand,
    /// On other devices too: a thread of this process then reads what the kernel tells of memory
    /// that is unmapped (userfaultfd), for which every thread that unmaps has to wait a moment.
    Watched,
}

/// The numbers that a [`Fabric`](super::Fabric) is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricSettings {
    /// Devices by name, in order, at most two: streams are dealt out to them in turn. `NAME:PORT`
    /// takes that port, else the first one that is up. Empty: the first device with such a port.
    pub devices: Vec<String>,
    /// The order in which devices are tried where none is named; those that are not here come last.
    pub order: Vec<String>,
    /// How the port of each is used.
    pub port: PortSettings,
    /// Streams (queue pairs) to each peer, 1 to 8.
    pub streams: u8,
    /// Entries of each stream's send queue, 2 to 4096. A connection's memory grows with it.
    pub send_entries: u16,
    /// Whether messages share packets while no entry is free.
    pub coalesce: bool,
    /// Bytes of a packet, 256 to 65 536: the longest message that is sent eagerly, plus 24.
    pub packet_bytes: u32,
    /// Receives for the packets of all peers together.
    pub receives: u32,
    /// Packets on their way to all peers together.
    pub packets: u32,
    /// Slots of the ring that a peer which talks a lot gets; 0 for none.
    pub ring_slots: u16,
    /// Bytes of a slot.
    pub slot_bytes: u16,
    /// Packets after which a peer talks a lot.
    pub ring_after: u32,
    /// Most peers that get a ring.
    pub rings: u16,
    /// Which registrations are kept for the next transfer.
    pub keep: Keep,
    /// Bytes of one RDMA work request: longer transfers are cut, and dealt out to the streams.
    pub stripe_bytes: u32,
    /// Times that an unanswered packet is repeated by the adapter, 1 to 6. (7 means for ever to
    /// Soft-RoCE: a peer that died would never be noticed.)
    pub retries: u8,
    /// The wait before that, as adapters count: 4.096 us x 2^n, 1 to 31.
    pub timeout: u8,
    /// How long the first contact may take before a peer counts as unreachable: it answers when
    /// it makes a call.
    pub greeting: Duration,
    /// Silence after which a peer is asked whether it lives. Its death is known this, and the
    /// retries, later.
    pub keep_alive: Duration,
}

impl FabricSettings {
    /// What users get who ask for nothing.
    pub const DEFAULT: Self = Self {
        devices: Vec::new(),
        order: Vec::new(),
        port: PortSettings {
            gid_index: None,
            partition: None,
            service_level: 0,
            traffic_class: 0,
            mtu: None,
        },
        streams: 1,
        send_entries: 10,
        coalesce: true,
        packet_bytes: 8192,
        receives: 256,
        packets: 128,
        ring_slots: 16,
        slot_bytes: 512,
        ring_after: 16,
        rings: 32,
        keep: Keep::OnDemand,
        stripe_bytes: 256 << 10,
        retries: 6,
        timeout: 17,
        greeting: Duration::from_secs(300),
        keep_alive: Duration::from_secs(1),
    };

    /// The `timeout` with which `retries` repetitions take at least this long. Every one of them
    /// waits as long as the first.
    #[must_use]
    pub fn timeout_for(time: Duration, retries: u8) -> u8 {
        let step = |timeout: u8| 4096_u128 << timeout;
        let waits = u128::from(retries) + 1;
        let enough = |timeout: &u8| step(*timeout) * waits >= time.as_nanos();
        (1..31).find(enough).unwrap_or(31)
    }

    /// Checks every number.
    ///
    /// # Errors
    /// Says which one is wrong and what it may be.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} is {value}, but must be {least} to {most}"))
            }
        };
        within(
            "devices",
            self.devices.len() as u64,
            0,
            super::rail::RAILS as u64,
        )?;
        within("streams", self.streams.into(), 1, 8)?;
        within("send_entries", self.send_entries.into(), 2, 4096)?;
        within("packet_bytes", self.packet_bytes.into(), 256, 65_536)?;
        within("receives", self.receives.into(), 8, 65_536)?;
        within("packets", self.packets.into(), 4, 65_536)?;
        within("ring_slots", self.ring_slots.into(), 0, 1024)?;
        within("slot_bytes", self.slot_bytes.into(), 64, 8192)?;
        within("stripe_bytes", self.stripe_bytes.into(), 4096, 1 << 30)?;
        within("retries", self.retries.into(), 1, 6)?;
        within("timeout", self.timeout.into(), 1, 31)
    }
}

impl Default for FabricSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_the_next_step_that_is_long_enough() {
        let after = |millis| FabricSettings::timeout_for(Duration::from_millis(millis), 6);
        // 4.096 us x 2^17 x 7 = 3.76 s
        assert_eq!(after(3000), FabricSettings::DEFAULT.timeout);
        assert_eq!((after(0), after(3758), after(3759)), (1, 17, 18));
        assert_eq!(after(u64::MAX), 31);
    }

    #[test]
    fn numbers_out_of_bounds_are_named() {
        assert_eq!(FabricSettings::DEFAULT.check(), Ok(()));
        let wrong = FabricSettings {
            streams: 9,
            ..FabricSettings::DEFAULT
        };
        assert_eq!(
            wrong.check().unwrap_err(),
            "streams is 9, but must be 1 to 8"
        );
    }
}
