//! What the victim is in the middle of, and what its partner does meanwhile.

use limic::Endpoint;
use limic::settings::{Path, PathSet, SettingsBuilder};
use limic_tests::content;
use limic_tests::stepped::Pace;

use crate::roles::{BACK, COPIED, EAGER, FIRST, LONG, Part, Partner, Victim};

/// One thing to be in the middle of.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// What the places in it are: its instructions, or its system calls where these are many.
    pub(crate) pace: Pace,
    pub(crate) settings: fn(SettingsBuilder) -> SettingsBuilder,
    /// Others wait for the victim: they go through one ring with it.
    pub(crate) holds_others: bool,
    /// The two have met before.
    pub(crate) have_met: bool,
    /// Bytes of the messages that the two have exchanged before.
    pub(crate) before: usize,
    /// The victim has a child that holds its sockets.
    pub(crate) has_child: bool,
    /// The victim closes its endpoint.
    pub(crate) closes: bool,
    pub(crate) victim: fn(&mut Victim<'_>),
    pub(crate) partner: for<'a> fn(&Partner<'a>) -> Part<'a>,
}

/// Most operations.
const USUAL: Operation = Operation {
    name: "",
    pace: Pace::Instruction,
    settings: |builder| builder,
    holds_others: false,
    have_met: true,
    before: 8,
    has_child: false,
    closes: false,
    victim: |victim| victim.send(8),
    partner: |partner| partner.receives(&[8]),
};

const SEND_LONG: Operation = Operation {
    victim: |victim| victim.send(LONG),
    partner: |partner| partner.receives(&[LONG]),
    ..USUAL
};

const SEND_COPIED: Operation = Operation {
    victim: |victim| victim.send(COPIED),
    partner: |partner| partner.receives(&[COPIED]),
    ..USUAL
};

const RECEIVE_LONG: Operation = Operation {
    victim: |victim| victim.receive(LONG),
    partner: |partner| partner.sends(LONG),
    ..USUAL
};

fn pipeline(builder: SettingsBuilder) -> SettingsBuilder {
    builder.eager_max(1024).long_path(Path::Pipeline)
}

fn single_copy(builder: SettingsBuilder) -> SettingsBuilder {
    builder.eager_max(1024).long_path(Path::Cma)
}

fn split_copy(builder: SettingsBuilder) -> SettingsBuilder {
    builder.eager_max(1024).long_path(Path::SplitCopy)
}

/// One-sided accesses need the help of the region's owner.
fn no_copies(builder: SettingsBuilder) -> SettingsBuilder {
    let paths = PathSet::ALL.without(Path::Cma).without(Path::SplitCopy);
    builder.allowed(paths.without(Path::Kmod))
}

pub(crate) const SENDS: [Operation; 8] = [
    Operation {
        name: "a short send through the ring of all",
        settings: |builder| builder.private_rings(0),
        holds_others: true,
        ..USUAL
    },
    Operation {
        name: "a short send through a ring of its own, with a child",
        has_child: true,
        ..USUAL
    },
    Operation {
        name: "an eager send in fragments",
        victim: |victim| victim.send(EAGER),
        partner: |partner| partner.receives(&[EAGER]),
        ..USUAL
    },
    Operation {
        name: "an eager send in one buffer",
        ..SEND_COPIED
    },
    Operation {
        name: "a send in fragments, with a child",
        settings: pipeline,
        has_child: true,
        ..SEND_COPIED
    },
    Operation {
        name: "a send by single copy",
        settings: single_copy,
        ..SEND_LONG
    },
    Operation {
        name: "a send by split copy",
        settings: split_copy,
        ..SEND_LONG
    },
    Operation {
        name: "a loan",
        victim: |victim| {
            let loan = victim.loan.take().expect("there is one");
            loan.send(victim.partner, FIRST).expect("the partner lives");
        },
        ..SEND_LONG
    },
];

pub(crate) const RECEIVES: [Operation; 6] = [
    Operation {
        name: "a short receive",
        victim: |victim| victim.receive(8),
        partner: |partner| partner.sends(8),
        ..USUAL
    },
    Operation {
        name: "a receive in fragments, with a child",
        settings: pipeline,
        has_child: true,
        victim: |victim| victim.receive(COPIED),
        partner: |partner| partner.sends(COPIED),
        ..USUAL
    },
    Operation {
        name: "a receive by single copy",
        settings: single_copy,
        ..RECEIVE_LONG
    },
    Operation {
        name: "a receive by split copy",
        settings: split_copy,
        ..RECEIVE_LONG
    },
    Operation {
        name: "a reply in recycled buffers",
        settings: pipeline,
        before: COPIED,
        victim: |victim| {
            victim.receive(COPIED);
            victim.send(COPIED);
        },
        partner: |partner| Part {
            comes: vec![COPIED],
            ..partner.sends(COPIED)
        },
        ..USUAL
    },
    Operation {
        name: "a receive of a loan",
        victim: |victim| {
            let loaned = victim.endpoint.recv_loaned((victim.partner, BACK));
            victim.loaned = Some(loaned.expect("the partner lives"));
        },
        partner: |partner| {
            let mut loan = partner.endpoint.loan(LONG).expect("a loan");
            loan.copy_from_slice(&content(BACK, LONG));
            loan.send(partner.victim, BACK).expect("the victim lives");
            partner.receives(&[])
        },
        ..USUAL
    },
];

const WRITE: Operation = Operation {
    victim: |victim| victim.write(LONG),
    partner: |partner| partner.receives(&[]),
    ..USUAL
};

const READ: Operation = Operation {
    victim: |victim| victim.read(LONG),
    ..WRITE
};

const REVOKE: Operation = Operation {
    victim: |victim| {
        let region = victim.region.take().expect("exposed before");
        victim.memory = region.revoke().expect("the partner goes on");
    },
    partner: |partner| partner.accesses(),
    ..USUAL
};

pub(crate) const ONE_SIDED: [Operation; 6] = [
    Operation {
        name: "a one-sided write",
        ..WRITE
    },
    Operation {
        name: "a one-sided write with the owner's help",
        settings: no_copies,
        victim: |victim| victim.write(COPIED),
        ..WRITE
    },
    Operation {
        name: "a one-sided read",
        ..READ
    },
    Operation {
        name: "a one-sided read with the owner's help, with a child",
        settings: no_copies,
        has_child: true,
        victim: |victim| victim.read(COPIED),
        ..READ
    },
    Operation {
        name: "the end of a region",
        ..REVOKE
    },
    Operation {
        name: "the end of a region that its owner helps with",
        settings: no_copies,
        ..REVOKE
    },
];

pub(crate) const MEETINGS: [Operation; 5] = [
    Operation {
        name: "a first contact",
        pace: Pace::Call,
        have_met: false,
        ..USUAL
    },
    Operation {
        name: "a first contact, with a child",
        pace: Pace::Call,
        have_met: false,
        has_child: true,
        ..SEND_LONG
    },
    Operation {
        name: "a first contact that the other side makes",
        pace: Pace::Call,
        have_met: false,
        victim: |victim| victim.receive(8),
        partner: |partner| partner.sends(8),
        ..USUAL
    },
    Operation {
        name: "a close",
        closes: true,
        pace: Pace::Call,
        victim: |victim| {
            drop(victim.region.take());
            victim.endpoint.close();
        },
        partner: |partner| partner.receives(&[]),
        ..USUAL
    },
    Operation {
        name: "a close behind a long message, with a child",
        closes: true,
        pace: Pace::Call,
        has_child: true,
        settings: pipeline,
        victim: |victim| {
            let sent =
                victim
                    .endpoint
                    .isend(victim.partner, FIRST, core::mem::take(&mut victim.message));
            drop(sent.expect("the partner lives"));
            drop(victim.region.take());
            victim.endpoint.close();
        },
        partner: |partner| partner.receives(&[LONG]),
        ..USUAL
    },
];
