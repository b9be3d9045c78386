//! Endpoints of limic under the owner.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use std::time::{Duration, Instant};

use limic_ofi_abi::endpoint::fid_ep;
use limic_ofi_abi::entries::{fi_av_attr, fi_cntr_attr, fi_cq_attr};
use limic_ofi_abi::info::{fi_fabric_attr, fi_info, fi_rx_attr};
use limic_ofi_abi::objects::{fid_av, fid_cntr, fid_cq, fid_domain, fid_fabric};
use limic_ofi_abi::peer::*;
use limic_ofi_abi::*;

use super::{Behind, CNTR_OWNER, CQ_OWNER, Completion, Held, Posted, SRX_OWNER, fill, free_entry};

/// The longest that anything is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// A libfabric that was loaded from a file.
pub(crate) struct Libfabric(*mut c_void);

impl Libfabric {
    pub(crate) fn load(file: &CStr) -> Self {
        // SAFETY: a library whose start has no conditions.
        let loaded = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
        assert!(!loaded.is_null(), "{file:?} cannot be loaded");
        Self(loaded)
    }

    /// # Safety
    /// `F` is the type of the function of this name.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: a library that is never unloaded.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?} is not there");
        // SAFETY: the caller's promise.
        unsafe { core::mem::transmute_copy(&found) }
    }

    /// What limic offers to an owner; or the error number.
    pub(crate) fn info(&self) -> Result<*mut fi_info, c_int> {
        self.info_with(FI_PEER | FI_AV_USER_ID)
    }

    /// What it offers to an application.
    pub(crate) fn info_without_owner(&self) -> *mut fi_info {
        self.info_with(0).expect("limic is offered")
    }

    fn info_with(&self, caps: u64) -> Result<*mut fi_info, c_int> {
        type Dup = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
        type Get = unsafe extern "C" fn(
            u32,
            *const libc::c_char,
            *const libc::c_char,
            u64,
            *const fi_info,
            *mut *mut fi_info,
        ) -> c_int;
        // SAFETY: as their manual pages say.
        unsafe {
            let hints = self.function::<Dup>(c"fi_dupinfo")(core::ptr::null());
            (*hints).caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV;
            (*hints).caps |= caps;
            (*hints).mode = FI_CONTEXT2;
            (*(*hints).fabric_attr).prov_name = libc::strdup(c"limic".as_ptr());
            let mut info = null_mut();
            let get = self.function::<Get>(c"fi_getinfo");
            match get(
                fi_version(1, 17),
                core::ptr::null(),
                core::ptr::null(),
                0,
                hints,
                &mut info,
            ) {
                0 => Ok(info),
                code => Err(-code),
            }
        }
    }

    /// A domain of limic.
    pub(crate) fn domain(&self, info: *mut fi_info) -> *mut fid_domain {
        type Fabric =
            unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
        let (mut fabric, mut domain) = (null_mut(), null_mut());
        // SAFETY: as above, and as the tables say.
        unsafe {
            let open = self.function::<Fabric>(c"fi_fabric");
            assert_eq!(open((*info).fabric_attr, &mut fabric, null_mut()), 0);
            let open = (*(*fabric).ops).domain;
            assert_eq!(open(fabric, info, &mut domain, null_mut()), 0);
        }
        domain
    }
}

/// Opens a queue that an owner has; gives the error number too.
pub(crate) fn open_queue(domain: *mut fid_domain, held: &'static Held) -> (c_int, *mut fid_cq) {
    open_queue_of(domain, held, &CQ_OWNER, size_of::<fi_peer_cq_context>())
}

/// The same with functions and a length of the caller's.
pub(crate) fn open_queue_of(
    domain: *mut fid_domain,
    held: &'static Held,
    owner_ops: *const fi_ops_cq_owner,
    size: usize,
) -> (c_int, *mut fid_cq) {
    let head = fid_peer_cq {
        fid: no_fid(),
        owner_ops,
    };
    let behind = Box::leak(Box::new(Behind { head, held }));
    let mut context = fi_peer_cq_context {
        size,
        cq: (&raw mut *behind).cast(),
    };
    // SAFETY: a structure of numbers and pointers.
    let mut attr: fi_cq_attr = unsafe { core::mem::zeroed() };
    attr.flags = FI_PEER;
    let mut queue = null_mut();
    // SAFETY: as the table says.
    let code = unsafe {
        let open = (*(*domain).ops).cq_open;
        open(domain, &mut attr, &mut queue, (&raw mut context).cast())
    };
    (-code, queue)
}

fn no_fid() -> fid {
    // SAFETY: numbers and pointers.
    unsafe { core::mem::zeroed() }
}

/// Two endpoints of one domain, under an owner.
pub(crate) struct Ends {
    pub(crate) held: &'static Held,
    pub(crate) domain: *mut fid_domain,
    pub(crate) ends: [*mut fid_ep; 2],
    contexts: [*mut fid_ep; 2],
    names: [[u8; 64]; 2],
    vector: *mut fid_av,
    pub(crate) queue: *mut fid_cq,
    pub(crate) counter: *mut fid_cntr,
    peer_ops: *const fi_ops_srx_peer,
}

impl Ends {
    pub(crate) fn open(info: *mut fi_info, domain: *mut fid_domain) -> Self {
        let held: &'static Held = Box::leak(Box::default());
        let (code, queue) = open_queue(domain, held);
        assert_eq!(code, 0);
        let (mut vector, mut counter) = (null_mut(), null_mut());
        let mut all = Self {
            held,
            domain,
            ends: [null_mut(); 2],
            contexts: [null_mut(); 2],
            names: [[0; 64]; 2],
            vector,
            queue,
            counter,
            peer_ops: core::ptr::null(),
        };
        // SAFETY: structures of numbers and pointers; calls as the tables say.
        unsafe {
            let ops = &*(*domain).ops;
            let mut attr: fi_av_attr = core::mem::zeroed();
            assert_eq!((ops.av_open)(domain, &mut attr, &mut vector, null_mut()), 0);
            let head = fid_peer_cntr {
                fid: no_fid(),
                owner_ops: &CNTR_OWNER,
            };
            let behind = Box::leak(Box::new(Behind { head, held }));
            let mut context = fi_peer_cntr_context {
                size: size_of::<fi_peer_cntr_context>(),
                cntr: (&raw mut *behind).cast(),
            };
            let mut attr: fi_cntr_attr = core::mem::zeroed();
            attr.flags = FI_PEER;
            let place = (&raw mut context).cast();
            assert_eq!((ops.cntr_open)(domain, &mut attr, &mut counter, place), 0);
            (all.vector, all.counter) = (vector, counter);
            for at in 0..2 {
                let end = &mut all.ends[at];
                assert_eq!((ops.endpoint)(domain, info, end, null_mut()), 0);
                let mut head: fid_peer_srx = core::mem::zeroed();
                head.owner_ops = &SRX_OWNER;
                let behind = Box::leak(Box::new(Behind { head, held }));
                let mut context = fi_peer_srx_context {
                    size: size_of::<fi_peer_srx_context>(),
                    srx: (&raw mut *behind).cast(),
                };
                let mut attr: fi_rx_attr = core::mem::zeroed();
                attr.op_flags = FI_PEER;
                let receives = &mut all.contexts[at];
                let place = (&raw mut context).cast();
                assert_eq!((ops.srx_ctx)(domain, &mut attr, receives, place), 0);
                all.peer_ops = behind.head.peer_ops;
                let head = &(**end).fid;
                let bind = |other, flags| ((*head.ops).bind)((*end).cast(), other, flags);
                assert_eq!(bind(vector.cast(), 0), 0);
                assert_eq!(bind(queue.cast(), FI_SEND | FI_RECV), 0);
                assert_eq!(bind(counter.cast(), FI_SEND | FI_RECV), 0);
                assert_eq!(bind((*receives).cast(), 0), 0);
                let mut len = 64;
                let name = all.names[at].as_mut_ptr().cast();
                assert_eq!(((*(**end).cm).getname)((*end).cast(), name, &mut len), 0);
                let control = (*head.ops).control;
                assert_eq!(control((*end).cast(), command::ENABLE, null_mut()), 0);
            }
        }
        all
    }

    /// Puts an endpoint into the address vector under a name; gives where it stands.
    pub(crate) fn insert(&self, end: usize, name: fi_addr_t) -> fi_addr_t {
        let mut place = name;
        let address = self.names[end].as_ptr().cast();
        // SAFETY: as the table says; so below.
        let good = unsafe {
            let insert = (*(*self.vector).ops).insert;
            insert(
                self.vector,
                address,
                1,
                &mut place,
                FI_AV_USER_ID,
                null_mut(),
            )
        };
        assert_eq!(good, 1);
        place
    }

    /// Sends, with a tag or without.
    pub(crate) fn send(
        &self,
        end: usize,
        to: fi_addr_t,
        bytes: &[u8],
        tag: Option<u64>,
        data: u64,
        context: usize,
    ) {
        let from = self.ends[end];
        let (start, len) = (bytes.as_ptr().cast(), bytes.len());
        let context = core::ptr::without_provenance_mut(context);
        // SAFETY: the caller keeps the bytes until it has seen the completion.
        let code = unsafe {
            match tag {
                Some(tag) => {
                    let send = (*(*from).tagged).senddata;
                    send(from, start, len, null_mut(), data, to, tag, context)
                }
                None => {
                    let send = (*(*from).msg).senddata;
                    send(from, start, len, null_mut(), data, to, context)
                }
            }
        };
        assert_eq!(code, 0);
    }

    /// Posts a receive at the owner, as `fi_trecv` does where it has a tag.
    pub(crate) fn receive(
        &self,
        from: fi_addr_t,
        tag: Option<u64>,
        room: &mut [u8],
        context: usize,
    ) {
        let posted = Posted {
            tagged: tag.is_some(),
            from,
            tag: tag.unwrap_or(0),
            ignore: 0,
            context,
            room: libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            },
        };
        match self.queued(&posted) {
            None => self.held.posted.borrow_mut().push(posted),
            // SAFETY: an entry that was queued; the caller keeps the room until it has seen the
            // completion.
            Some(entry) => unsafe {
                fill(entry, &posted);
                let peer = &*self.peer_ops;
                let start = if posted.tagged {
                    peer.start_tag
                } else {
                    peer.start_msg
                };
                assert_eq!(start(entry), 0);
            },
        }
    }

    /// Takes out the oldest message without a receive that fits.
    fn queued(&self, posted: &Posted) -> Option<*mut fi_peer_rx_entry> {
        let mut all = self.held.unexpected.borrow_mut();
        let fits = |(tagged, entry): &(bool, *mut fi_peer_rx_entry)| {
            // SAFETY: it is the owner's.
            let entry = unsafe { &**entry };
            *tagged == posted.tagged
                && (posted.from == FI_ADDR_UNSPEC || posted.from == entry.addr)
                && posted.tag == entry.tag
        };
        let at = all.iter().position(fits)?;
        Some(all.remove(at).1)
    }

    /// Drops the oldest message without a receive.
    pub(crate) fn discard(&self) {
        let (_, entry) = self.held.unexpected.borrow_mut().remove(0);
        // SAFETY: an entry that was queued, which is the owner's to free.
        unsafe {
            assert_eq!(((*self.peer_ops).discard_tag)(entry), 0);
            // It is not there any more.
            assert_eq!(((*self.peer_ops).discard_tag)(entry), -libc::EINVAL);
            free_entry(entry);
        }
    }

    /// Data and sender of the oldest message without a receive.
    pub(crate) fn first_unexpected(&self) -> (u64, fi_addr_t) {
        let all = self.held.unexpected.borrow();
        // SAFETY: it is the owner's.
        let entry = unsafe { &*all[0].1 };
        assert_ne!(entry.flags & FI_REMOTE_CQ_DATA, 0);
        (entry.cq_data, entry.addr)
    }

    /// Makes progress until so many messages wait for receives.
    pub(crate) fn wait_for_unexpected(&self, count: usize) {
        self.wait(|| self.held.unexpected.borrow().len() == count);
    }

    /// Waits for so many completions, and takes them.
    pub(crate) fn completions(&self, count: usize) -> Vec<Completion> {
        self.wait(|| self.held.completions.borrow().len() >= count);
        let all = self.held.completions.take();
        assert_eq!(all.len(), count, "{all:?}");
        all
    }

    fn wait(&self, there: impl Fn() -> bool) {
        let begin = Instant::now();
        while !there() {
            // SAFETY: as the table says: without room it makes progress.
            unsafe { ((*(*self.queue).ops).read)(self.queue, null_mut(), 0) };
            assert!(begin.elapsed() < LIMIT, "it does not come");
        }
    }

    pub(crate) fn read_counter(&self) -> (u32, u32) {
        // SAFETY: as above.
        unsafe { ((*(*self.counter).ops).read)(self.counter) };
        self.held.counted.get()
    }

    /// Closes all of them, and then drops a message that is still queued.
    pub(crate) fn close_and_discard(self) {
        let (held, peer_ops) = (self.held, self.peer_ops);
        self.close();
        let (_, entry) = held.unexpected.borrow_mut().remove(0);
        // SAFETY: as above.
        unsafe {
            assert_eq!(((*peer_ops).discard_tag)(entry), -libc::EINVAL);
            assert_eq!(((*peer_ops).start_tag)(entry), -libc::EINVAL);
            free_entry(entry);
        }
    }

    /// Closes all of them, in the order in which `lnx` does.
    pub(crate) fn close(self) {
        let close = |fid: *mut fid| {
            // SAFETY: it is open, and not used any more.
            let code = unsafe { ((*(*fid).ops).close)(fid) };
            assert_eq!(code, 0);
        };
        for (end, context) in self.ends.iter().zip(self.contexts) {
            close((*end).cast());
            close(context.cast());
        }
        close(self.queue.cast());
        close(self.counter.cast());
        close(self.vector.cast());
        close(self.domain.cast());
    }
}
