//! A type of Cyclone DDS whose samples are their serialized bytes and a key hash.
//!
//! Cyclone DDS calls the functions of two tables: one of the type (`ddsi_sertype_ops`), one of its samples (`ddsi_serdata_ops`).
//! Types and samples are allocated here, as boxes, and counted by Cyclone DDS; at 0 it calls the `free` of its table. The
//! layouts are those of the release that the manifest pins.

pub use crate::key::KeyHash;
use crate::key::Keyed;
use cyclors::{
    ddsi_keyhash, ddsi_rdata, ddsi_serdata, ddsi_serdata_init, ddsi_serdata_kind,
    ddsi_serdata_kind_SDK_DATA, ddsi_serdata_kind_SDK_KEY, ddsi_serdata_ops, ddsi_sertype,
    ddsi_sertype_fini, ddsi_sertype_init_flags, ddsi_sertype_ops, ddsi_sertype_v0, ddsrt_iovec_t,
    ddsrt_msg_iovlen_t,
};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of `ddsi_sertype_init_flags`: a type without a key, and one whose writers are asked to send the hash of the key.
const NO_KEY: u32 = 1;
const REQUEST_KEYHASH: u32 = 2;
/// Bytes of the largest sample that is read for its key.
const KEYED_MAX: usize = 1 << 20;
/// Bytes of the largest sample.
const SIZE_MAX: usize = 256 << 20;

/// Allows a table of functions in a static.
struct Table<T>(T);

// SAFETY: the tables hold pointers to functions, and null; they are never written to.
unsafe impl<T> Sync for Table<T> {}

static TYPE_OPS: Table<ddsi_sertype_ops> = Table(ddsi_sertype_ops {
    version: Some(ddsi_sertype_v0),
    arg: ptr::null_mut(),
    free: Some(type_free),
    zero_samples: Some(type_zero_samples),
    realloc_samples: Some(type_realloc_samples),
    free_samples: Some(type_free_samples),
    equal: Some(type_equal),
    hash: Some(type_hash),
    type_id: None,
    type_map: None,
    type_info: None,
    derive_sertype: None,
    get_serialized_size: None,
    serialize_into: None,
});

static DATA_OPS: Table<ddsi_serdata_ops> = Table(ddsi_serdata_ops {
    eqkey: Some(data_eqkey),
    get_size: Some(data_size),
    from_ser: Some(data_from_ser),
    from_ser_iov: Some(data_from_ser_iov),
    from_keyhash: Some(data_from_keyhash),
    from_sample: None,
    to_ser: Some(data_to_ser),
    to_ser_ref: Some(data_to_ser_ref),
    to_ser_unref: Some(data_to_ser_unref),
    to_sample: None,
    to_untyped: Some(data_to_untyped),
    untyped_to_sample: None,
    free: Some(data_free),
    print: None,
    get_keyhash: Some(data_get_keyhash),
    from_loaned_sample: None,
    from_psmx: None,
});

/// A type. Cyclone DDS knows the first field only.
#[repr(C)]
struct Type {
    head: ddsi_sertype,
    /// Tells the key of samples that came without its hash.
    keyed: Option<Keyed>,
}

/// A new type of this name, with one reference, which the creation of a topic takes.
pub(super) fn new_type(name: &CStr, is_keyless: bool, keyed: Option<Keyed>) -> *mut ddsi_sertype {
    // SAFETY: all fields are numbers and pointers, for which zero is a value; Cyclone DDS's own code begins so, too.
    let head: ddsi_sertype = unsafe { std::mem::zeroed() };
    let made = Box::into_raw(Box::new(Type { head, keyed })).cast::<ddsi_sertype>();
    let flags = if is_keyless { NO_KEY } else { REQUEST_KEYHASH };
    // SAFETY: `made` is valid and unshared; the name is copied; the tables are static.
    unsafe { ddsi_sertype_init_flags(made, name.as_ptr(), &TYPE_OPS.0, &DATA_OPS.0, flags) };
    made
}

/// A sample. Cyclone DDS knows the first field only.
#[repr(C)]
struct Data {
    head: ddsi_serdata,
    /// With the encapsulation; as long as `size`, and zeros up to a multiple of four bytes.
    bytes: Box<[u8]>,
    size: usize,
    key: KeyHash,
    /// It was received, and counts in [`RECEIVED`] as long as it is there.
    is_received: bool,
}

/// Bytes of the samples that were received and are there still.
static RECEIVED: AtomicUsize = AtomicUsize::new(0);

pub(super) fn received() -> usize {
    RECEIVED.load(Ordering::Relaxed)
}

/// Readers that are being deleted: the library waits until nothing is on its way into them.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// Does something while there is always room.
pub(super) fn with_room(of: impl FnOnce()) {
    ENDING.fetch_add(1, Ordering::Relaxed);
    of();
    ENDING.fetch_sub(1, Ordering::Relaxed);
}

/// Whether received samples are no more than so many bytes, or this one is alone.
///
/// # Safety
/// `data` is a sample of this module, which the caller has a reference to.
pub(super) unsafe fn has_room(data: *const ddsi_serdata, bytes_max: usize) -> bool {
    // SAFETY: the caller vouches for it.
    let size = unsafe { (*data.cast::<Data>()).size };
    received() <= bytes_max.max(size) || ENDING.load(Ordering::Relaxed) > 0
}

/// Room for so many bytes and for the zeros behind them, so that they stay where they are.
fn room_for(size: usize) -> Vec<u8> {
    Vec::with_capacity(size.next_multiple_of(4))
}

/// A sample of this type with one reference, whose head says nothing but the kind.
///
/// # Safety
/// `of` is a type of this module that outlives the call; the sample must not be used when it is gone.
unsafe fn new_data(
    of: *const ddsi_sertype,
    kind: ddsi_serdata_kind,
    mut bytes: Vec<u8>,
    key: KeyHash,
) -> *mut ddsi_serdata {
    let size = bytes.len();
    bytes.resize(size.next_multiple_of(4), 0);
    // SAFETY: as in `new_type`; `ddsi_serdata_init` sets what is not zero.
    let head: ddsi_serdata = unsafe { std::mem::zeroed() };
    let made = Box::into_raw(Box::new(Data {
        head,
        bytes: bytes.into(),
        size,
        key,
        is_received: false,
    }));
    // SAFETY: `made` is valid and unshared, its head is its first field, and the caller vouches for `of`.
    unsafe {
        let head = ptr::addr_of_mut!((*made).head);
        ddsi_serdata_init(head, of, kind);
        (*head).hash = hash_of(&key) ^ (*of).serdata_basehash;
        head
    }
}

/// A sample to be written.
///
/// # Safety
/// As for [`new_data`].
pub(super) unsafe fn sample(
    of: *const ddsi_sertype,
    kind: ddsi_serdata_kind,
    bytes: &[u8],
    key: KeyHash,
) -> *mut ddsi_serdata {
    let mut own = room_for(bytes.len());
    own.extend_from_slice(bytes);
    // SAFETY: the caller vouches for it.
    unsafe { new_data(of, kind, own, key) }
}

/// The bytes and the key of a sample.
///
/// # Safety
/// `data` is a sample of this module, which the caller has a reference to for `'a`.
pub(super) unsafe fn content<'a>(data: *const ddsi_serdata) -> (&'a [u8], KeyHash) {
    // SAFETY: only this module makes samples with its tables, so `data` is the first field of a `Data`.
    let data = unsafe { &*data.cast::<Data>() };
    (&data.bytes[..data.size], data.key)
}

fn hash_of(key: &KeyHash) -> u32 {
    // FNV-1a: keys are hashes, or short.
    key.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

// What follows is called by Cyclone DDS. SAFETY of all of it: types and samples come from this module, pointers are valid for the
// call, and samples are not changed once they are made. None of it can panic: lengths are checked.

unsafe extern "C" fn type_free(of: *mut ddsi_sertype) {
    // SAFETY: the last reference is gone, and it was a box.
    unsafe {
        ddsi_sertype_fini(of);
        drop(Box::from_raw(of.cast::<Type>()));
    }
}

/// Types of one name, which was compared already, are alike unless keys are told differently.
unsafe extern "C" fn type_equal(one: *const ddsi_sertype, other: *const ddsi_sertype) -> bool {
    // SAFETY: see above.
    unsafe {
        match (&(*one.cast::<Type>()).keyed, &(*other.cast::<Type>()).keyed) {
            (Some(one), Some(other)) => one.is_same(other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

unsafe extern "C" fn type_hash(_: *const ddsi_sertype) -> u32 {
    0
}

/// There are no samples as structures of C, so there is nothing to do with them.
unsafe extern "C" fn type_zero_samples(_: *const ddsi_sertype, _: *mut c_void, _: usize) {}

unsafe extern "C" fn type_realloc_samples(
    samples: *mut *mut c_void,
    _: *const ddsi_sertype,
    _: *mut c_void,
    _: usize,
    count: usize,
) {
    for at in 0..count {
        // SAFETY: there is room for so many pointers.
        unsafe { *samples.add(at) = ptr::null_mut() };
    }
}

unsafe extern "C" fn type_free_samples(
    _: *const ddsi_sertype,
    _: *mut *mut c_void,
    _: usize,
    _: cyclors::dds_free_op_t,
) {
}

unsafe extern "C" fn data_eqkey(one: *const ddsi_serdata, other: *const ddsi_serdata) -> bool {
    // SAFETY: see above.
    unsafe { (*one.cast::<Data>()).key == (*other.cast::<Data>()).key }
}

unsafe extern "C" fn data_size(data: *const ddsi_serdata) -> u32 {
    // SAFETY: see above. Sizes are below `SIZE_MAX`.
    unsafe { (*data.cast::<Data>()).size as u32 }
}

/// The beginning of `struct ddsi_rdata` (`ddsi_radmin.h`): a fragment of a sample that was received.
#[repr(C)]
struct Fragment {
    message: *const u8,
    next: *const Fragment,
    /// Where it begins in the sample, and ends.
    min: u32,
    end: u32,
    submessage: u16,
    payload: u16,
    keyhash: u16,
}

/// `struct ddsi_rmsg` as far as its size matters: the packet is behind it.
#[repr(C)]
struct MessageHead {
    refcount: u32,
    last_chunk: *const u8,
    trace: bool,
    buffer: *const u8,
    next: *const u8,
    size: u64,
}

unsafe extern "C" fn data_from_ser(
    of: *const ddsi_sertype,
    kind: ddsi_serdata_kind,
    fragments: *const ddsi_rdata,
    size: usize,
) -> *mut ddsi_serdata {
    if !(4..=SIZE_MAX).contains(&size) {
        return ptr::null_mut();
    }
    let mut bytes = room_for(size);
    let mut key = KeyHash::default();
    let first = fragments.cast::<Fragment>();
    let mut next = first;
    // SAFETY: the chain is valid for the call, and the packet of each fragment is behind the head of its message.
    unsafe {
        let packet = |of: *const Fragment| (*of).message.add(size_of::<MessageHead>());
        if (*first).keyhash != 0 {
            let bytes = packet(first).add(usize::from((*first).keyhash));
            ptr::copy_nonoverlapping(bytes, key.as_mut_ptr(), key.len());
        }
        while let Some(fragment) = next.as_ref() {
            let (min, end) = (fragment.min as usize, fragment.end as usize);
            // Fragments are in order, but may overlap.
            let at = bytes.len();
            if end > at {
                if min > at || end > size {
                    return ptr::null_mut();
                }
                let payload = packet(next).add(usize::from(fragment.payload));
                bytes.extend_from_slice(slice::from_raw_parts(payload.add(at - min), end - at));
            }
            next = fragment.next;
        }
        if bytes.len() != size {
            return ptr::null_mut();
        }
        // Writers need not send the hash (DDSI-RTPS 2.5 §9.6.4.8); Fast DDS does when an instance ends, and not before.
        let is_whole = kind == ddsi_serdata_kind_SDK_DATA && size <= KEYED_MAX;
        if (*first).keyhash == 0
            && is_whole
            && let Some(keyed) = &(*of.cast::<Type>()).keyed
        {
            key = keyed.hash(&bytes).unwrap_or_default();
        }
        let made = new_data(of, kind, bytes, key);
        (*made.cast::<Data>()).is_received = true;
        RECEIVED.fetch_add(size, Ordering::Relaxed);
        made
    }
}

unsafe extern "C" fn data_from_ser_iov(
    of: *const ddsi_sertype,
    kind: ddsi_serdata_kind,
    count: ddsrt_msg_iovlen_t,
    parts: *const ddsrt_iovec_t,
    size: usize,
) -> *mut ddsi_serdata {
    if size > SIZE_MAX {
        return ptr::null_mut();
    }
    let mut bytes = room_for(size);
    // SAFETY: so many parts are there, each as long as it says.
    unsafe {
        let parts = match count {
            0 => &[],
            count => slice::from_raw_parts(parts, count),
        };
        for part in parts {
            if part.iov_len > 0 {
                let part = slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len);
                bytes.extend_from_slice(part);
            }
        }
        bytes.resize(size, 0);
        new_data(of, kind, bytes, KeyHash::default())
    }
}

unsafe extern "C" fn data_from_keyhash(
    of: *const ddsi_sertype,
    key: *const ddsi_keyhash,
) -> *mut ddsi_serdata {
    // SAFETY: see above.
    unsafe {
        new_data(
            of,
            ddsi_serdata_kind_SDK_KEY,
            vec![0, 1, 0, 0],
            (*key).value,
        )
    }
}

unsafe extern "C" fn data_to_ser(
    data: *const ddsi_serdata,
    from: usize,
    count: usize,
    into: *mut c_void,
) {
    // SAFETY: the range is within the padded size, and there is room for it.
    unsafe {
        let bytes = &(&(*data.cast::<Data>()).bytes)[..];
        if let Some(part) = from.checked_add(count).and_then(|end| bytes.get(from..end)) {
            ptr::copy_nonoverlapping(part.as_ptr(), into.cast(), part.len());
        }
    }
}

unsafe extern "C" fn data_to_ser_ref(
    data: *const ddsi_serdata,
    from: usize,
    count: usize,
    part: *mut ddsrt_iovec_t,
) -> *mut ddsi_serdata {
    // SAFETY: the range is within the padded size; the bytes live as long as the reference that is taken here; the
    // library does not write through the pointer.
    unsafe {
        let bytes = &(&(*data.cast::<Data>()).bytes)[..];
        let from = from.min(bytes.len());
        (*part).iov_base = bytes.as_ptr().add(from).cast_mut().cast();
        (*part).iov_len = count.min(bytes.len() - from) as _;
        let data = data.cast_mut();
        reference(data);
        data
    }
}

unsafe extern "C" fn data_to_ser_unref(data: *mut ddsi_serdata, _: *const ddsrt_iovec_t) {
    // SAFETY: the reference that `data_to_ser_ref` took.
    unsafe { cyclors::ddsi_serdata_unref(data) };
}

/// Takes a reference, as `ddsi_serdata_ref` does, which is inline in C.
///
/// # Safety
/// `data` is valid.
unsafe fn reference(data: *mut ddsi_serdata) {
    // SAFETY: the count is a number of 32 bits that all threads change atomically.
    let count = unsafe {
        std::sync::atomic::AtomicU32::from_ptr(ptr::addr_of_mut!((*data).refc).cast::<u32>())
    };
    count.fetch_add(1, Ordering::SeqCst);
}

/// What stands for the instance in tables that types share.
unsafe extern "C" fn data_to_untyped(data: *const ddsi_serdata) -> *mut ddsi_serdata {
    // SAFETY: see above; an untyped sample has no type, but keeps the table.
    unsafe {
        let of = (*data).type_;
        let key = (*data.cast::<Data>()).key;
        let made = new_data(of, ddsi_serdata_kind_SDK_KEY, vec![0, 1, 0, 0], key);
        (*made).type_ = ptr::null();
        made
    }
}

unsafe extern "C" fn data_free(data: *mut ddsi_serdata) {
    // SAFETY: the last reference is gone, and it was a box of a `Data`.
    let data = unsafe { Box::from_raw(data.cast::<Data>()) };
    if data.is_received {
        RECEIVED.fetch_sub(data.size, Ordering::Relaxed);
    }
}

unsafe extern "C" fn data_get_keyhash(
    data: *const ddsi_serdata,
    into: *mut ddsi_keyhash,
    _force_md5: bool,
) {
    // SAFETY: see above.
    unsafe { (*into).value = (*data.cast::<Data>()).key };
}

/// The text behind a pointer of Cyclone DDS; what is not UTF-8 is replaced.
///
/// # Safety
/// It is null or a terminated string.
pub(super) unsafe fn text(of: *const c_char) -> String {
    if of.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(of) }.to_string_lossy().into_owned()
}
