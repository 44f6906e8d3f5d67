//! The cache of a reader, in which samples wait until they are taken: the library's own, bounded by bytes.
//!
//! The library bounds it by samples, whatever their size, and as many as are too few at a high rate of small ones are gigabytes of large
//! ones. So the function that stores a sample is replaced in a copy of its table of functions. One that finds no room there is offered
//! again by the library, which meanwhile acknowledges nothing more to its writer; of a writer that is not reliable it is lost.

use super::sertype;
use cyclors::{dds_qos_t, dds_rhc, ddsi_domaingv, ddsi_serdata, ddsi_sertype};
use std::ffi::c_void;
use std::sync::OnceLock;

/// Bytes of the samples that wait in all readers of the process, or are being taken from them.
pub const BYTES_MAX: usize = 64 << 20;

/// `ddsi_rhc_store_t`: whether the sample is done with.
type Store =
    unsafe extern "C" fn(*mut Cache, *const c_void, *mut ddsi_serdata, *mut c_void) -> bool;

/// `struct dds_rhc_ops` (`dds_rhc.h`): functions, of which the first stores a sample.
#[derive(Clone, Copy)]
#[repr(C)]
struct Ops {
    store: Store,
    others: [unsafe extern "C" fn(); 9],
}

/// The beginning of `struct dds_rhc`.
#[repr(C)]
struct Cache {
    ops: *const Ops,
}

unsafe extern "C" {
    /// It is no part of the bindings.
    fn dds_rhc_default_new(
        domain: *mut ddsi_domaingv,
        of: *const ddsi_sertype,
        qos: *const dds_qos_t,
    ) -> *mut dds_rhc;
}

/// What the library's own caches do.
static THEIRS: OnceLock<Ops> = OnceLock::new();
static RELIABLE: OnceLock<Ops> = OnceLock::new();
static BEST_EFFORT: OnceLock<Ops> = OnceLock::new();

/// A cache for a reader that is made with it, and frees it.
///
/// # Safety
/// The type is one of this module's in a domain, and the quality of service is that of the reader.
pub(super) unsafe fn new(
    of: *const ddsi_sertype,
    qos: *const dds_qos_t,
    is_reliable: bool,
) -> *mut dds_rhc {
    // SAFETY: the caller vouches for the arguments. What is made begins with a pointer to a static table, and nothing else has it yet.
    unsafe {
        let domain = (*of).gv.v as *mut ddsi_domaingv;
        let made = dds_rhc_default_new(domain, of, qos);
        let cache = made.cast::<Cache>();
        let theirs = *THEIRS.get_or_init(|| *(*cache).ops);
        let (table, store): (_, Store) = match is_reliable {
            true => (&RELIABLE, store_or_wait),
            false => (&BEST_EFFORT, store_or_lose),
        };
        (*cache).ops = table.get_or_init(|| Ops { store, ..theirs });
        made
    }
}

// What follows is called by Cyclone DDS. SAFETY of it: the cache is one of `new`, so that the library's table is known, and the other
// arguments are for the library's own function.

unsafe extern "C" fn store_or_wait(
    cache: *mut Cache,
    writer: *const c_void,
    sample: *mut ddsi_serdata,
    instance: *mut c_void,
) -> bool {
    // SAFETY: see above.
    unsafe { sertype::has_room(sample, BYTES_MAX) && store(cache, writer, sample, instance) }
}

unsafe extern "C" fn store_or_lose(
    cache: *mut Cache,
    writer: *const c_void,
    sample: *mut ddsi_serdata,
    instance: *mut c_void,
) -> bool {
    // SAFETY: see above.
    unsafe { !sertype::has_room(sample, BYTES_MAX) || store(cache, writer, sample, instance) }
}

/// # Safety
/// See above.
unsafe fn store(
    cache: *mut Cache,
    writer: *const c_void,
    sample: *mut ddsi_serdata,
    instance: *mut c_void,
) -> bool {
    match THEIRS.get() {
        // SAFETY: see above.
        Some(theirs) => unsafe { (theirs.store)(cache, writer, sample, instance) },
        None => true,
    }
}
