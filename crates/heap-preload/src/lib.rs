//! `liblimic-heap.so`: preloaded, it serves the long blocks of a program's `malloc` from memory
//! that its peers may read, so that unmodified MPI programs over limic send them with one copy.
//!
//! Short blocks, and all that the heap cannot serve, are the C library's as before. The functions
//! have the names and the contracts of the C library's.
//!
//! `LIMIC_HEAP_FROM` says from how many bytes on a block is long, 4K or more; 0 switches the
//! library off.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use limic_heap::{INTERFACE, Interface, raw};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// Where libraries which contain limic ask for this heap.
#[unsafe(no_mangle)]
pub static limic_heap_v1: Interface = INTERFACE;

/// From how many bytes on a block is long; 0 before that is known.
static FROM: AtomicUsize = AtomicUsize::new(0);

/// Shorter messages gain nothing.
const USUAL: usize = 16 << 10;

/// Of shorter blocks the C library writes some of its own in a new child before anybody is called
/// there: locks of its open files. They must not lie in memory that parent and child share until
/// then.
const LEAST: usize = 4 << 10;

fn from() -> usize {
    match FROM.load(Relaxed) {
        0 => {
            let from = from_environment();
            FROM.store(from, Relaxed);
            from
        }
        from => from,
    }
}

/// Nothing here may allocate.
#[cold]
fn from_environment() -> usize {
    // SAFETY: a name that ends with a zero.
    let value: *const c_char = unsafe { libc::getenv(c"LIMIC_HEAP_FROM".as_ptr()) };
    if value.is_null() {
        return USUAL;
    }
    // SAFETY: what the C library gives ends with a zero.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    // As with all settings, empty counts as not set.
    if value.is_empty() {
        return USUAL;
    }
    match bytes_of(value) {
        Some(0) => usize::MAX,
        Some(bytes) if bytes >= LEAST => bytes,
        _ => {
            let text = c"liblimic-heap: LIMIC_HEAP_FROM is no number of bytes from 4K on (16384, \
                         64K, 1M), nor 0: 16K\n";
            // SAFETY: a text with its length.
            unsafe { libc::write(2, text.as_ptr().cast(), text.count_bytes()) };
            USUAL
        }
    }
}

/// A number with an optional suffix K, M or G.
fn bytes_of(value: &[u8]) -> Option<usize> {
    let (digits, unit) = match value.split_last()? {
        (b'k' | b'K', digits) => (digits, 1 << 10),
        (b'm' | b'M', digits) => (digits, 1 << 20),
        (b'g' | b'G', digits) => (digits, 1 << 30),
        _ => (value, 1),
    };
    core::str::from_utf8(digits)
        .ok()?
        .parse::<usize>()
        .ok()?
        .checked_mul(unit)
}

/// A block of the heap if it is long, and can be had there; else what the C library gives.
fn allocate(
    size: usize,
    align: usize,
    zeroed: bool,
    theirs: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if size >= from() {
        let block = raw::allocate(size, align, zeroed);
        if !block.is_null() {
            return block.cast();
        }
    }
    theirs()
}

/// See malloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the C library's function.
    allocate(size, 1, false, || unsafe { __libc_malloc(size) })
}

/// See calloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // What is too much for a number is too much for the heap, and the C library refuses it.
    let bytes = count.saturating_mul(size);
    // SAFETY: the C library's function.
    allocate(bytes, 1, true, || unsafe { __libc_calloc(count, size) })
}

/// See free(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller's promise. What the C library does here leaves `errno` as it was.
    unsafe {
        let before = *libc::__errno_location();
        if !raw::free(block.cast()) {
            return __libc_free(block);
        }
        *libc::__errno_location() = before;
    }
}

/// See realloc(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    let is_long = raw::contains(block.cast());
    if !is_long && size < from() {
        // SAFETY: the caller's promise; the C library allocated it.
        return unsafe { __libc_realloc(block, size) };
    }
    if size == 0 {
        // SAFETY: the caller gives it up.
        unsafe { free(block) };
        return null_mut();
    }
    // SAFETY: the caller's block, of which it keeps `size` bytes.
    if size >= from() && unsafe { raw::resize(block.cast(), size) } {
        return block;
    }
    // SAFETY: the caller's block.
    let bytes = unsafe { malloc_usable_size(block) };
    if bytes == 0 {
        // A function that the heap itself calls, and another library wraps, is here: nobody knows
        // how much is to be copied.
        return no_memory();
    }
    let new = malloc(size);
    if !new.is_null() {
        // SAFETY: two blocks with as many bytes, of which the old one ends here.
        unsafe {
            let bytes = bytes.min(size);
            core::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), bytes);
            free(block);
        }
    }
    new
}

/// See malloc_usable_size(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if raw::contains(block.cast()) {
        // SAFETY: the caller's block. In a thread that is in the heap none of it is known.
        return unsafe { raw::length(block.cast()) }.unwrap_or(0);
    }
    let theirs = usable_size();
    if theirs.is_null() {
        return 0;
    }
    type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;
    // SAFETY: the C library's function of this name.
    unsafe { core::mem::transmute::<*const c_void, UsableSize>(theirs)(block) }
}

/// The C library's `malloc_usable_size`, the only function of malloc's family that has no second
/// name. The next one of its name may be that of another allocator, to which these blocks are
/// strange.
fn usable_size() -> *const c_void {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    found_once(&FOUND, || {
        // SAFETY: names that end with a zero; the C library is there, and stays.
        unsafe {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
            let library = libc::dlopen(c"libc.so.6".as_ptr(), flags);
            // Without it the name would be looked up everywhere.
            if library.is_null() {
                return library;
            }
            libc::dlsym(library, c"malloc_usable_size".as_ptr())
        }
    })
}

/// The address that is looked up until it is found. Null: there is none.
fn found_once(found: &AtomicUsize, look_up: impl FnOnce() -> *mut c_void) -> *const c_void {
    let mut address = found.load(Relaxed);
    if address == 0 {
        address = look_up().expose_provenance();
        found.store(address, Relaxed);
    }
    core::ptr::with_exposed_provenance(address)
}

/// Runs when the library is loaded, before there are threads that fork or load others.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;

extern "C" fn prepare() {
    usable_size();
    raw::prepare();
}

type AtFork = Option<unsafe extern "C" fn()>;

/// What pthread_atfork(3) calls. The heap's functions are the first to be entered: so those of all
/// other libraries, which may wait for threads that write long blocks, are done before a fork
/// copies them.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    before: AtFork,
    in_parent: AtFork,
    in_child: AtFork,
    library: *mut c_void,
) -> c_int {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    // Which comes here too, and finds that it is under way.
    raw::prepare();
    let theirs = found_once(&FOUND, || {
        // SAFETY: looks a name up, which ends with a zero: what would be called without this one.
        unsafe { libc::dlsym(libc::RTLD_NEXT, c"__register_atfork".as_ptr()) }
    });
    if theirs.is_null() {
        return libc::ENOMEM;
    }
    type Register = unsafe extern "C" fn(AtFork, AtFork, AtFork, *mut c_void) -> c_int;
    // SAFETY: the C library's function of this name.
    let theirs = unsafe { core::mem::transmute::<*const c_void, Register>(theirs) };
    // SAFETY: the caller's promise.
    unsafe { theirs(before, in_parent, in_child, library) }
}

/// See memalign(3).
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the C library's function.
    allocate(size, align, false, || unsafe {
        __libc_memalign(align, size)
    })
}

/// See aligned_alloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

/// See posix_memalign(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    block: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let new = memalign(align, size);
    if new.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { block.write(new) };
    0
}

/// A page of the system, in bytes.
fn page() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// See valloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(page(), size)
}

/// See pvalloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(page()) {
        Some(size) => memalign(page(), size),
        None => no_memory(),
    }
}

fn no_memory() -> *mut c_void {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}
