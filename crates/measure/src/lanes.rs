//! Lanes over verbs: one for each combination of send entries, coalescing and streams,
//! so that all of them are measured by the same processes in turn.

use limic::settings::{FabricUse, Settings, SettingsBuilder, SettingsError, VerbsSettings};

/// How an endpoint of a lane uses verbs; these are fields of the JSON's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct VerbsLane {
    /// Entries of the send queue.
    #[serde(rename = "wqe")]
    pub entries: u16,
    /// Whether messages share packets while no entry is free.
    pub coalesce: bool,
    /// Queue pairs.
    pub streams: u8,
    /// Most peers that get a ring to write into.
    pub rings: u16,
}

impl Default for VerbsLane {
    /// As the environment says; what makes no sense there is an error when the first endpoint is
    /// opened.
    fn default() -> Self {
        let settings = Settings::builder().build();
        let default = settings.map_or_else(|_| VerbsSettings::default(), |found| found.verbs());
        Self {
            entries: default.entries,
            coalesce: default.coalesce,
            streams: default.streams,
            rings: default.rings,
        }
    }
}

impl VerbsLane {
    /// Every peer is reached over verbs, those on this node too.
    ///
    /// # Errors
    /// A variable of the environment makes no sense.
    pub fn settings(self) -> Result<Settings, SettingsError> {
        self.builder().build()
    }

    /// As [`settings`](Self::settings), for more of them.
    pub fn builder(self) -> SettingsBuilder {
        Settings::builder()
            .fabric(FabricUse::VerbsOnly)
            .verbs_entries(self.entries)
            .verbs_coalesce(self.coalesce)
            .verbs_streams(self.streams)
            .verbs_rings(self.rings)
    }

    /// The name of its line in a picture.
    pub fn name(self) -> String {
        let coalesce = if self.coalesce { "on" } else { "off" };
        format!(
            "{} entries, coalescing {coalesce}, {} stream{}, rings {}",
            self.entries,
            self.streams,
            if self.streams == 1 { "" } else { "s" },
            self.rings
        )
    }
}

/// What the command line says about lanes over verbs.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct VerbsArgs {
    /// Over verbs (Soft-RoCE too), also on one node: send-queue entries of each connection, several
    /// are compared
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(2..=4096))]
    wqe: Vec<u16>,

    /// Over verbs: whether messages share packets while no entry is free
    #[arg(long, value_enum, value_name = "on,off", value_delimiter = ',')]
    coalesce: Vec<Switch>,

    /// Over verbs: queue pairs to each peer
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=8))]
    streams: Vec<u8>,

    /// Over verbs: most peers that get a ring to write into by RDMA; 0: all messages by send and
    /// receive
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..=1024))]
    rings: Vec<u16>,
}

/// Of coalescing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// They share packets
    On,
    /// Each message has a packet of its own
    Off,
}

impl VerbsArgs {
    /// All combinations; none, if nothing was said about verbs. What was not named is as limic has
    /// it by default.
    pub fn lanes(&self) -> Vec<VerbsLane> {
        if *self == Self::default() {
            return Vec::new();
        }
        let default = VerbsLane::default();
        let or = |list: &[u16], default| match list {
            [] => vec![default],
            list => list.to_vec(),
        };
        let switches: Vec<bool> = match self.coalesce.as_slice() {
            [] => vec![default.coalesce],
            list => list.iter().map(|switch| *switch == Switch::On).collect(),
        };
        let streams: Vec<u16> = self.streams.iter().map(|count| u16::from(*count)).collect();
        let mut lanes = Vec::new();
        for entries in or(&self.wqe, default.entries) {
            for &coalesce in &switches {
                for streams in or(&streams, default.streams.into()) {
                    for rings in or(&self.rings, default.rings) {
                        let lane = VerbsLane {
                            entries,
                            coalesce,
                            streams: streams as u8,
                            rings,
                        };
                        if !lanes.contains(&lane) {
                            lanes.push(lane);
                        }
                    }
                }
            }
        }
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_all_combinations_once() {
        assert_eq!(VerbsArgs::default().lanes(), []);
        let args = VerbsArgs {
            wqe: vec![5, 10, 5],
            coalesce: vec![Switch::On, Switch::Off],
            streams: Vec::new(),
            rings: Vec::new(),
        };
        let lanes = args.lanes();
        assert_eq!(lanes.len(), 4);
        assert_eq!(
            lanes[0].name(),
            "5 entries, coalescing on, 1 stream, rings 32"
        );
        let streams = VerbsArgs {
            streams: vec![1, 2],
            ..VerbsArgs::default()
        };
        let lanes = streams.lanes();
        assert_eq!((lanes.len(), lanes[1].streams), (2, 2));
        assert!(lanes.iter().all(|lane| lane.coalesce));
    }
}
