//! What an application asks of `fi_getinfo`, and whether this provider has it.

use core::ffi::{CStr, c_char, c_void};

use crate::call::IOV_LIMIT;
use crate::info::{
    ACCESS_ORDER, INJECT_SIZE, LONGEST, MR_IOV_LIMIT, OP_FLAGS, ORDER, QUEUE_SIZE, TAG_FORMAT, caps,
};
use crate::names::Name;
use crate::{peer, remote_comm};
use limic_ofi_abi::info::fi_info;
use limic_ofi_abi::*;

/// The hints, with nothing asked where there are none.
#[derive(Default)]
pub(crate) struct Hints {
    given: bool,
    caps: u64,
    /// Capabilities of one direction or of the domain, which ask for no more of an endpoint.
    part_caps: u64,
    protocol: u32,
    mode: u64,
    addr_format: u32,
    ep_type: u32,
    tag_format: u64,
    threading: u32,
    control_progress: u32,
    data_progress: u32,
    av_type: u32,
    mr_mode: Option<i32>,
    tx_flags: u64,
    rx_flags: u64,
    /// Operations under way.
    tx_size: usize,
    rx_size: usize,
    orders: u64,
    comp_order: u64,
    /// Amounts that are asked for, with those that there are, and their names.
    amounts: Vec<(usize, usize, &'static str)>,
    /// Names that do not agree with this provider's.
    stranger: Option<String>,
    /// Addresses of the endpoint and of the one that it talks to, as they are given.
    pub(crate) source: Option<Vec<u8>>,
    pub(crate) target: Option<Vec<u8>>,
}

impl Hints {
    /// # Safety
    /// `hints` is null or points to hints, whose attributes may be missing.
    pub(crate) unsafe fn read(hints: *const fi_info, version: u32) -> Self {
        // SAFETY: the caller's promise; so below.
        let Some(info) = (unsafe { hints.as_ref() }) else {
            return Self::default();
        };
        let mut read = Self {
            given: true,
            caps: info.caps,
            mode: info.mode,
            addr_format: info.addr_format,
            ..Self::default()
        };
        let mut rma_pieces = 0;
        // Before version 1.5 nobody has authorization keys, whatever stands there (fi_domain(3)).
        let key = |len| if version < fi_version(1, 5) { 0 } else { len };
        let bytes_of_key = "bytes of an authorization key";
        // SAFETY: as above; addresses are as long as the hints say.
        unsafe {
            read.source = bytes(info.src_addr, info.src_addrlen);
            read.target = bytes(info.dest_addr, info.dest_addrlen);
            if let Some(ep) = info.ep_attr.as_ref() {
                read.ep_type = ep.r#type;
                read.protocol = ep.protocol;
                read.tag_format = ep.mem_tag_format;
                // Contexts that endpoints share (`FI_SHARED_CONTEXT`) are more than any number.
                read.asks(ep.tx_ctx_cnt, 1, "contexts to transmit");
                read.asks(ep.rx_ctx_cnt, 1, "contexts to receive");
                read.asks(key(ep.auth_key_size), 0, bytes_of_key);
                read.asks(ep.max_msg_size, LONGEST, "bytes of a message");
            }
            if let Some(tx) = info.tx_attr.as_ref() {
                read.part_caps |= tx.caps;
                read.tx_flags = tx.op_flags;
                read.tx_size = tx.size;
                read.orders |= tx.msg_order;
                read.comp_order |= tx.comp_order;
                read.asks(tx.inject_size, INJECT_SIZE, "bytes of an injected message");
                read.asks(tx.iov_limit, IOV_LIMIT, "pieces of a buffer");
                rma_pieces = tx.rma_iov_limit;
                read.asks(tx.size, 1 << 20, "operations under way");
            }
            if let Some(rx) = info.rx_attr.as_ref() {
                read.part_caps |= rx.caps;
                read.rx_flags = rx.op_flags;
                read.rx_size = rx.size;
                read.orders |= rx.msg_order;
                read.comp_order |= rx.comp_order;
                read.asks(rx.iov_limit, IOV_LIMIT, "pieces of a buffer");
                read.asks(rx.size, 1 << 20, "operations under way");
            }
            if let Some(domain) = info.domain_attr.as_ref() {
                read.threading = domain.threading;
                read.control_progress = domain.control_progress;
                read.data_progress = domain.data_progress;
                read.av_type = domain.av_type;
                read.mr_mode = Some(domain.mr_mode);
                read.part_caps |= domain.caps;
                let pieces = "pieces of a memory region";
                read.asks(domain.mr_iov_limit, MR_IOV_LIMIT, pieces);
                read.asks(domain.cq_data_size, 8, "bytes of data in a completion");
                read.asks(domain.mr_key_size, 8, "bytes of a key");
                read.asks(key(domain.auth_key_size), 0, bytes_of_key);
                read.names(domain.name, "domain");
            }
            if let Some(fabric) = info.fabric_attr.as_ref() {
                read.names(fabric.name, "fabric");
            }
        }
        let most = if read.asks_for_events() { 1 } else { IOV_LIMIT };
        read.asks(rma_pieces, most, "pieces of remote memory");
        read
    }

    fn asks(&mut self, wanted: usize, there: usize, what: &'static str) {
        self.amounts.push((wanted, there, what));
    }

    /// # Safety
    /// `name` is null or a C string.
    unsafe fn names(&mut self, name: *const c_char, what: &str) {
        if name.is_null() {
            return;
        }
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        if name != self.own_name() {
            self.stranger = Some(format!("{what} '{}'", name.to_string_lossy()));
        }
    }

    /// Why this provider has not what is asked for.
    pub(crate) fn refusal(&self) -> Option<String> {
        if !matches!(self.ep_type, FI_EP_UNSPEC | FI_EP_RDM) {
            return Some("endpoints are of type FI_EP_RDM alone".to_owned());
        }
        if !matches!(self.protocol, 0 | FI_PROTO_LIMIC) {
            return Some(format!(
                "protocol {:#x} is another provider's",
                self.protocol
            ));
        }
        if self.has_owner() {
            if let Some(why) = peer::refusal() {
                return Some(why.to_owned());
            }
            if self.data_progress == FI_PROGRESS_AUTO {
                return Some("beside other providers the owner makes progress".to_owned());
            }
        }
        if self.asks_for_events() {
            if self.has_owner() {
                return Some("beside other providers accesses are not counted".to_owned());
            }
            let given = self.caps_given();
            if given & (FI_RMA | FI_ATOMIC) == 0 || given & (FI_REMOTE_READ | FI_REMOTE_WRITE) == 0
            {
                return Some(
                    "peers may access no memory, and there are no events of that".to_owned(),
                );
            }
        }
        let missing = (self.caps | self.part_caps) & !(caps() | FI_PEER | FI_RMA_EVENT);
        if missing == FI_REMOTE_COMM
            && let Some(why) = remote_comm::no_other_node()
        {
            if !remote_comm::job_is_here() {
                return Some(format!(
                    "other nodes are out of reach ({why}), and no launcher says that the job is on this one alone"
                ));
            }
        } else if missing != 0 {
            return Some(format!("capabilities {missing:#x} are not there"));
        }
        let formats = [FI_FORMAT_UNSPEC, FI_ADDR_STR, FI_ADDR_LIMIC];
        if !formats.contains(&self.addr_format) {
            return Some(format!("address format {} is unknown", self.addr_format));
        }
        let (source, target) = (self.source.as_deref(), self.target.as_deref());
        let is_strange = |address: &[u8]| Name::or_unnamed(address, self.text()).is_err();
        if source.is_some_and(is_strange) || target.is_some_and(is_strange) {
            return Some("an address is none of this provider's, or cut".to_owned());
        }
        let orders = self.orders & !(ORDER | ACCESS_ORDER);
        if orders != 0 {
            return Some(format!("orders {orders:#x} are not kept"));
        }
        if self.comp_order != 0 {
            return Some("completions are not ordered".to_owned());
        }
        let flags = (self.tx_flags | self.rx_flags) & !OP_FLAGS;
        if flags != 0 {
            return Some(format!("operation flags {flags:#x} are unknown"));
        }
        if self.tag_format >> 63 != 0 {
            return Some("tags have 63 bits".to_owned());
        }
        let too_much = self
            .amounts
            .iter()
            .find(|(wanted, there, _)| wanted > there);
        if let Some((wanted, there, what)) = too_much {
            let wanted = match *wanted {
                // FI_SHARED_CONTEXT.
                usize::MAX => "shared, or without end:".to_owned(),
                wanted => wanted.to_string(),
            };
            return Some(format!("{wanted} {what}; there are {there}"));
        }
        self.stranger.clone()
    }

    /// The capabilities of the answer: what is asked for, and what costs nothing beside it.
    pub(crate) fn caps_given(&self) -> u64 {
        const KINDS: u64 = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
        const MESSAGES: u64 = FI_SEND | FI_RECV;
        const ACCESSES: u64 = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        // Events cost time, so only an application that asks for them has them.
        let events = self.part_caps & FI_RMA_EVENT;
        if self.caps & KINDS == 0 {
            return if self.caps == 0 {
                caps() | events
            } else {
                caps() & !KINDS | self.caps | events
            };
        }
        // Without modifiers a kind means all of its directions.
        let mut caps = self.caps | events | caps() & (FI_LOCAL_COMM | FI_REMOTE_COMM);
        if caps & (FI_MSG | FI_TAGGED) != 0 && caps & MESSAGES == 0 {
            caps |= MESSAGES;
        }
        if caps & (FI_RMA | FI_ATOMIC) != 0 && caps & ACCESSES == 0 {
            caps |= ACCESSES;
        }
        caps
    }

    /// The mode of the answer: with `FI_CONTEXT2` the provider allocates nothing, but it works
    /// without.
    pub(crate) fn mode_given(&self) -> u64 {
        if self.has_owner() {
            // The application hears of another provider's modes, and may lend nothing.
            0
        } else if self.given {
            self.mode & FI_CONTEXT2
        } else {
            FI_CONTEXT2
        }
    }

    /// Whether another provider asks, which is to own the queues.
    pub(crate) fn has_owner(&self) -> bool {
        self.caps & FI_PEER != 0
    }

    /// The name of fabric and domain. `lnx` uses a provider within the node alone if its fabric is
    /// named `shm`.
    pub(crate) fn own_name(&self) -> &'static CStr {
        if self.has_owner() { c"shm" } else { c"limic" }
    }

    /// Most pieces of a buffer. `lnx` has this many, and opens no endpoint where there are more.
    pub(crate) fn iov_limit(&self) -> usize {
        if self.has_owner() { 4 } else { IOV_LIMIT }
    }

    /// Whether accesses of peers are to be counted.
    fn asks_for_events(&self) -> bool {
        (self.caps | self.part_caps) & FI_RMA_EVENT != 0
    }

    /// Most pieces of remote memory: one where accesses are counted, since each piece would count
    /// as an access of its own.
    pub(crate) fn rma_iov_limit(&self) -> usize {
        if self.asks_for_events() {
            1
        } else {
            self.iov_limit()
        }
    }

    /// The orders of the answer. Those of accesses cost time, so only an application that asks for
    /// them has them.
    pub(crate) fn order(&self) -> u64 {
        ORDER | self.orders & ACCESS_ORDER
    }

    /// Whether addresses are text.
    pub(crate) fn text(&self) -> bool {
        self.addr_format == FI_ADDR_STR
    }

    pub(crate) fn address_format(&self) -> u32 {
        if self.text() {
            FI_ADDR_STR
        } else {
            FI_ADDR_LIMIC
        }
    }

    pub(crate) fn tx_flags(&self) -> u64 {
        self.tx_flags
    }

    pub(crate) fn rx_flags(&self) -> u64 {
        self.rx_flags
    }

    /// Queues grow as they are used: each size is as good as any other.
    pub(crate) fn tx_size(&self) -> usize {
        self.tx_size.max(QUEUE_SIZE)
    }

    pub(crate) fn rx_size(&self) -> usize {
        self.rx_size.max(QUEUE_SIZE)
    }

    pub(crate) fn tag_format(&self) -> u64 {
        if self.tag_format == 0 {
            TAG_FORMAT
        } else {
            self.tag_format
        }
    }

    /// Control calls are over when they return: all of them make progress by themselves.
    pub(crate) fn control_progress(&self) -> u32 {
        progress(self.control_progress)
    }

    pub(crate) fn data_progress(&self) -> u32 {
        progress(self.data_progress)
    }

    /// Every level is offered; only `FI_THREAD_DOMAIN` saves a lock.
    pub(crate) fn threading(&self) -> u32 {
        match self.threading {
            FI_THREAD_UNSPEC => FI_THREAD_SAFE,
            level => level,
        }
    }

    /// Both types are alike here, and none is better: who asks for none is told of none.
    pub(crate) fn av_type(&self) -> u32 {
        self.av_type
    }

    /// Keys and offsets are the application's to choose, unless it knows nothing but keys and
    /// addresses of the provider's choice, as applications before version 1.5 may. Those know two
    /// modes, and no bits.
    pub(crate) fn mr_mode(&self, version: u32) -> i32 {
        match self.mr_mode {
            Some(FI_MR_BASIC) => FI_MR_BASIC,
            Some(FI_MR_SCALABLE) => FI_MR_SCALABLE,
            _ if version < fi_version(1, 5) => FI_MR_SCALABLE,
            // Nothing needs it here; who knows it may bind counters before peers reach a region.
            Some(mode) if self.asks_for_events() => mode & FI_MR_RMA_EVENT,
            _ => 0,
        }
    }
}

/// Progress by a thread is for those who ask for it.
fn progress(asked: u32) -> u32 {
    if asked == FI_PROGRESS_AUTO {
        FI_PROGRESS_AUTO
    } else {
        FI_PROGRESS_MANUAL
    }
}

/// A copy of an address of hints; one without bytes is none.
///
/// # Safety
/// `start` is null, or valid for so many bytes.
unsafe fn bytes(start: *const c_void, len: usize) -> Option<Vec<u8>> {
    // SAFETY: the caller's promise.
    (!start.is_null() && len > 0)
        .then(|| unsafe { core::slice::from_raw_parts(start.cast(), len) }.to_vec())
}

const _: () = assert!(QUEUE_SIZE <= 1 << 20);
