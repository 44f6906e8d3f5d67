//! Cyclone DDS behind a safe interface: a participant of a domain, what it discovers, readers and writers of serialized samples.
//!
//! All `unsafe` code of the project is here and below (ADR 0074). Its soundness: entities are numbers that the library
//! looks up under locks, so a number of a deleted entity is an error and no fault; every entity here is deleted by its
//! owner alone; samples and types are this module's own (`sertype`).

mod cache;
mod qos;
mod sertype;
mod typeobj;

use crate::announced::{Announced, Described, TypeId, Unknown};
use crate::key::Keyed;
use crate::mirror::locked;
use crate::qos::Qos;
use crate::types::{Known, Types};
pub use cache::BYTES_MAX as WAITING_BYTES_MAX;
use cyclors::{
    DDS_ALIVE_INSTANCE_STATE, DDS_ANY_STATE, DDS_BUILTIN_TOPIC_DCPSPUBLICATION,
    DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION, DDS_NOT_ALIVE_DISPOSED_INSTANCE_STATE, DDS_RETCODE_TIMEOUT,
    dds_attach_t, dds_builtintopic_endpoint_t, dds_entity_t, dds_guid_t, dds_return_t,
    dds_sample_info_t, ddsi_serdata, ddsi_serdata_kind_SDK_DATA, ddsi_serdata_kind_SDK_KEY,
    ddsi_sertype,
};
use qos::Native;
pub use sertype::KeyHash;
use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// Error of the library for a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: &'static str,
    code: dds_return_t,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: it gives a static text for every number.
        let words = unsafe { sertype::text(cyclors::dds_strretcode(self.code)) };
        write!(f, "{}: {words}", self.what)
    }
}

impl std::error::Error for Error {}

/// The number of an entity, or the error that it is in truth.
fn checked(entity: dds_entity_t, what: &'static str) -> Result<dds_entity_t, Error> {
    match entity {
        0.. => Ok(entity),
        code => Err(Error { what, code }),
    }
}

fn c_text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error {
        what: "a name has a NUL",
        code: cyclors::DDS_RETCODE_BAD_PARAMETER,
    })
}

/// An entity, which is deleted with this, and with it all that were made of it.
struct Entity(dds_entity_t);

impl Drop for Entity {
    fn drop(&mut self) {
        // SAFETY: a number that is none any more is refused.
        unsafe { cyclors::dds_delete(self.0) };
    }
}

pub use crate::nodes::Guid;

fn guid_of(entity: &Entity) -> Result<Guid, Error> {
    let mut guid = dds_guid_t { v: [0; 16] };
    // SAFETY: there is room for it.
    let code = unsafe { cyclors::dds_get_guid(entity.0, &mut guid) };
    checked(code, "the entity has no id").map(|_| guid.v)
}

/// A topic: its name, the name of its type, and whether samples have a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    pub name: String,
    pub type_name: String,
    pub is_keyless: bool,
}

/// A writer or reader of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub guid: Guid,
    pub participant: Guid,
    pub topic: Topic,
    pub qos: Qos,
    /// The type that it announces, if it announces a complete one.
    pub type_id: Option<TypeId>,
}

/// A discovered remote endpoint or participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovered {
    Writer(Endpoint),
    Reader(Endpoint),
    WriterGone(Guid),
    ReaderGone(Guid),
}

impl Discovered {
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Discovered::Writer(it) | Discovered::Reader(it) => Some(it),
            Discovered::WriterGone(_) | Discovered::ReaderGone(_) => None,
        }
    }

    pub fn guid(&self) -> &Guid {
        match self {
            Discovered::Writer(it) | Discovered::Reader(it) => &it.guid,
            Discovered::WriterGone(guid) | Discovered::ReaderGone(guid) => guid,
        }
    }
}

/// Kind of a sample's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    Data,
    /// Its instance is gone: nothing but the key.
    Dispose,
    /// Its writer holds the instance no longer; other writers may. Only written.
    Unregister,
}

/// A sample that was taken.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub kind: SampleKind,
    /// With the four bytes that say how it is encoded.
    pub bytes: &'a [u8],
    /// Of its key, where its writer sent it or the type is known.
    pub key: KeyHash,
    /// Writer of the sample; see [`Reader::writer`].
    pub writer: u64,
}

/// A domain, and a participant of it.
pub struct Participant(Arc<Inner>);

/// Is told in the library's own thread that a reader has a sample, with the reader's token. Unless all is taken meanwhile,
/// [`Participant::wait`] reports it as well. Nothing else arrives until it returns.
pub trait Listener: Send + Sync {
    fn on_samples(&self, token: u32);
}

/// The argument of a reader's listener in the library.
struct Listening {
    listener: Weak<dyn Listener>,
    token: u32,
}

/// Fields are dropped in this order: the domain last.
struct Inner {
    waitset: Entity,
    guard: Entity,
    writers: Entity,
    readers: Entity,
    participant: Entity,
    guid: Guid,
    types: Arc<Types>,
    announced: Mutex<Announced>,
    listener: OnceLock<Weak<dyn Listener>>,
    _domain: Entity,
}

/// Token by which [`Participant::wait`] reports discovery, and [`Participant::wake`].
const DISCOVERY: dds_attach_t = -1;
const WOKEN: dds_attach_t = -2;
/// Added to the token of a reader that is watched.
const WATCHED: dds_attach_t = 1 << 32;
/// A reader has samples.
const HAS_SAMPLES: u32 = 1 << cyclors::dds_status_id_DDS_DATA_AVAILABLE_STATUS_ID;
/// What a reader notices of its writers.
const NOTICEABLE: u32 = 1 << cyclors::dds_status_id_DDS_REQUESTED_DEADLINE_MISSED_STATUS_ID
    | 1 << cyclors::dds_status_id_DDS_LIVELINESS_CHANGED_STATUS_ID;
/// Readers that one wait reports.
const REPORTED_MAX: usize = 256;
/// Samples that are taken at once.
const TAKEN_MAX: usize = 256;
/// Endpoints that are taken from discovery at once.
const DISCOVERED_MAX: usize = 64;

/// Pending work after a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    pub discovery: bool,
    /// Tokens of readers that have samples, or are watched and have noticed something.
    pub readers: Vec<u32>,
    /// Those of them that are watched.
    pub watched: Vec<u32>,
}

/// What a reader has noticed of its writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Instances that were not written in time since it was last asked.
    pub deadlines_missed: u64,
    /// Writers that ceased to say that they are alive since then.
    pub fell_silent: u64,
    /// Whether one of them is alive now.
    pub is_alive: bool,
}

impl Participant {
    /// `xml` is a configuration of Cyclone DDS, and says which domain it is (`ExternalDomainId`): the number that the library
    /// calls it by is unique in the process. Of `types` the keys of samples are told that come without their hash.
    pub fn new(xml: &str, types: &Arc<Types>) -> Result<Participant, Error> {
        static DOMAIN_NEXT: AtomicU32 = AtomicU32::new(0);
        let domain = DOMAIN_NEXT.fetch_add(1, Ordering::Relaxed);
        let xml = c_text(xml)?;
        let (none, no_listener) = (ptr::null(), ptr::null());
        // SAFETY: the text is terminated and copied; null is "defaults" and "no listener". The same below.
        let of_domain = unsafe { cyclors::dds_create_domain(domain, xml.as_ptr()) };
        let of_domain = Entity(checked(of_domain, "cannot make the domain")?);
        let participant = unsafe { cyclors::dds_create_participant(domain, none, no_listener) };
        let participant = Entity(checked(participant, "cannot make a participant")?);
        let guid = guid_of(&participant)?;
        let found = |topic| {
            // SAFETY: as above; topics of discovery are fixed numbers.
            let reader =
                unsafe { cyclors::dds_create_reader(participant.0, topic, none, no_listener) };
            checked(reader, "cannot read what is discovered").map(Entity)
        };
        let writers = found(DDS_BUILTIN_TOPIC_DCPSPUBLICATION)?;
        let readers = found(DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION)?;
        // SAFETY: numbers only.
        let waitset = unsafe { cyclors::dds_create_waitset(participant.0) };
        let waitset = Entity(checked(waitset, "cannot wait for samples")?);
        // SAFETY: numbers only.
        let guard = unsafe { cyclors::dds_create_guardcondition(participant.0) };
        let guard = Entity(checked(guard, "cannot wait for samples")?);
        let inner = Inner {
            waitset,
            guard,
            writers,
            readers,
            participant,
            guid,
            types: types.clone(),
            announced: Mutex::default(),
            listener: OnceLock::new(),
            _domain: of_domain,
        };
        inner.attach(inner.guard.0, WOKEN)?;
        for reader in [&inner.writers, &inner.readers] {
            let condition = condition_of(reader.0)?;
            inner.attach(condition, DISCOVERY)?;
        }
        Ok(Participant(Arc::new(inner)))
    }

    /// Sets the listener of all readers that are made from now on. There is one for the participant's life.
    pub fn listen(&self, listener: Weak<dyn Listener>) {
        let is_first = self.0.listener.set(listener).is_ok();
        debug_assert!(is_first, "there is a listener already");
    }

    pub fn guid(&self) -> Guid {
        self.0.guid
    }

    pub fn announced(&self) -> &Mutex<Announced> {
        &self.0.announced
    }

    /// The type of this name: a file's, or else, where that is wanted, a peer's.
    pub fn known(&self, type_name: &str, or_announced: bool) -> Option<Known> {
        let announced = || locked(&self.0.announced).find(type_name).cloned();
        let known = self.0.types.known(type_name);
        known.or_else(|| or_announced.then(announced).flatten())
    }

    /// The content of a type object, which is asked for if no peer has sent it.
    pub fn described(&self, id: &TypeId) -> Result<Described, Unknown> {
        let (entity, identifier) = (self.0.participant.0, typeobj::identifier(id));
        let id = ptr::from_ref(&identifier).cast();
        let mut object = ptr::null_mut();
        // SAFETY: the identifier is what a `ddsi_typeid` begins with. The object is ours until it is freed. Without a timeout
        // the library looks for it under its lock; the domain that it is asked in lives as long as the participant.
        unsafe {
            if cyclors::dds_get_typeobj(entity, id, 0, &mut object) != 0 || object.is_null() {
                let mut sertype = ptr::null();
                if cyclors::dds_get_entity_sertype(self.0.writers.0, &mut sertype) == 0 {
                    let domain = (*sertype).gv.v as *mut cyclors::ddsi_domaingv;
                    typeobj::ddsi_tl_request_type(domain, id, ptr::null(), 0);
                }
                return Err(Unknown::Yet);
            }
            let described = typeobj::described(&*object.cast());
            cyclors::dds_free_typeobj(object);
            described
        }
    }

    /// Waits until there is something to do, or another thread wakes it.
    pub fn wait(&self, timeout: Duration) -> Ready {
        let mut tokens = [0; REPORTED_MAX];
        let timeout = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: there is room for so many.
        let count = unsafe {
            cyclors::dds_waitset_wait(self.0.waitset.0, tokens.as_mut_ptr(), REPORTED_MAX, timeout)
        };
        let mut ready = Ready::default();
        let count = usize::try_from(count).unwrap_or(0).min(REPORTED_MAX);
        for token in &tokens[..count] {
            match *token {
                DISCOVERY => ready.discovery = true,
                WOKEN => {
                    let mut was = false;
                    // SAFETY: there is room for it.
                    unsafe { cyclors::dds_take_guardcondition(self.0.guard.0, &mut was) };
                }
                token => {
                    let of = u32::try_from(token % WATCHED);
                    ready.readers.extend(of);
                    ready.watched.extend(of.ok().filter(|_| token >= WATCHED));
                }
            }
        }
        ready
    }

    /// Ends the wait of another thread.
    pub fn wake(&self) {
        // SAFETY: numbers only.
        unsafe { cyclors::dds_set_guardcondition(self.0.guard.0, true) };
    }

    /// Takes what was discovered since the last time. Endpoints of this participant are left out.
    pub fn take_discovered(&self, mut on: impl FnMut(Discovered)) {
        for (reader, are_writers) in [(&self.0.writers, true), (&self.0.readers, false)] {
            while self.take_endpoints(reader.0, are_writers, &mut on) == DISCOVERED_MAX {}
        }
    }

    fn take_endpoints(
        &self,
        reader: dds_entity_t,
        are_writers: bool,
        on: &mut dyn FnMut(Discovered),
    ) -> usize {
        let mut samples = [ptr::null_mut::<c_void>(); DISCOVERED_MAX];
        // SAFETY: numbers, for which zero is a value.
        let mut infos: [dds_sample_info_t; DISCOVERED_MAX] = unsafe { std::mem::zeroed() };
        let (buffer, max) = (samples.as_mut_ptr(), DISCOVERED_MAX);
        // SAFETY: there is room for so many; null asks for loans, which are returned below.
        let count =
            unsafe { cyclors::dds_take(reader, buffer, infos.as_mut_ptr(), max, max as u32) };
        let taken = usize::try_from(count).unwrap_or(0).min(max);
        for (sample, info) in samples.iter().zip(&infos).take(taken) {
            let endpoint = sample.cast::<dds_builtintopic_endpoint_t>();
            if endpoint.is_null() {
                continue;
            }
            // SAFETY: samples of these topics are of this type, and valid until they are returned. Where only the key is
            // valid, the rest is null.
            let found = unsafe { &*endpoint };
            let is_here = info.instance_state == DDS_ALIVE_INSTANCE_STATE && info.valid_data;
            match (is_here, are_writers) {
                (false, true) => on(Discovered::WriterGone(found.key.v)),
                (false, false) => on(Discovered::ReaderGone(found.key.v)),
                (true, _) if found.participant_key.v == self.0.guid => {}
                (true, _) => {
                    // SAFETY: as above.
                    let endpoint = unsafe { endpoint_of(found) };
                    on(match are_writers {
                        true => Discovered::Writer(endpoint),
                        false => Discovered::Reader(endpoint),
                    });
                }
            }
        }
        if taken > 0 {
            // SAFETY: what `dds_take` has lent.
            unsafe { cyclors::dds_return_loan(reader, buffer, taken as i32) };
        }
        taken
    }

    /// A reader; `token` is what [`Participant::wait`] reports it by, with what it notices if it is watched.
    pub fn reader(
        &self,
        topic: &Topic,
        qos: &Qos,
        token: u32,
        is_watched: bool,
    ) -> Result<Reader, Error> {
        let (of_topic, sertype) = self.0.topic(topic)?;
        let is_reliable = qos.is_reliable;
        let qos = Native::of(qos);
        let listening = self.0.listener.get().map(|listener| {
            let listener = listener.clone();
            Box::new(Listening { listener, token })
        });
        let parent = self.0.participant.0;
        // SAFETY: the quality of service and the listener are copied; the argument of that is dropped when the reader has been deleted,
        // which waits for calls under way; the type is the topic's; the cache is the reader's from now on.
        let reader = unsafe {
            let listener = cyclors::dds_create_listener(ptr::null_mut());
            if let Some(listening) = &listening {
                let argument = ptr::from_ref::<Listening>(listening).cast_mut().cast();
                cyclors::dds_lset_data_available_arg(listener, Some(on_samples), argument, false);
            }
            let cache = cache::new(sertype, qos.0, is_reliable);
            let reader = cyclors::dds_create_reader_rhc(parent, of_topic.0, qos.0, listener, cache);
            cyclors::dds_delete_listener(listener);
            reader
        };
        let reader = Entity(checked(reader, "cannot make a reader")?);
        let (mask, watched) = match is_watched {
            true => (HAS_SAMPLES | NOTICEABLE, WATCHED),
            false => (HAS_SAMPLES, 0),
        };
        // SAFETY: numbers only.
        let code = unsafe { cyclors::dds_set_status_mask(reader.0, mask) };
        checked(code, "cannot wait for samples")?;
        self.0.attach(reader.0, watched + token as dds_attach_t)?;
        Ok(Reader {
            guid: guid_of(&reader)?,
            reader,
            _listening: listening,
            _topic: of_topic,
            of: self.0.clone(),
        })
    }

    /// A writer of samples that are serialized already.
    pub fn writer(&self, topic: &Topic, qos: &Qos) -> Result<Writer, Error> {
        let (of_topic, sertype) = self.0.topic(topic)?;
        Writer::of(&self.0, Arc::new(of_topic), sertype, qos)
    }
}

/// # Safety
/// All of it is valid, and terminated where it is text.
unsafe fn endpoint_of(found: &dds_builtintopic_endpoint_t) -> Endpoint {
    // SAFETY: the caller vouches for it.
    let (name, type_name) = unsafe {
        (
            sertype::text(found.topic_name),
            sertype::text(found.type_name),
        )
    };
    let mut info = ptr::null();
    // SAFETY: the caller vouches for it; what is found is valid as long as the rest.
    let type_id = unsafe {
        let found = ptr::from_ref(found).cast_mut();
        cyclors::dds_builtintopic_get_endpoint_type_info(found, &mut info);
        typeobj::complete(info)
    };
    // The last byte is the kind of entity (DDSI-RTPS 2.5 §9.3.1.2): writers and readers without a key.
    let is_keyless = matches!(found.key.v[15] & 0x0f, 0x03 | 0x04);
    Endpoint {
        guid: found.key.v,
        participant: found.participant_key.v,
        topic: Topic {
            name,
            type_name,
            is_keyless,
        },
        qos: match found.qos.is_null() {
            true => Qos::default(),
            // SAFETY: the caller vouches for it.
            false => unsafe { qos::read(found.qos) },
        },
        type_id,
    }
}

/// Called by Cyclone DDS. SAFETY: the argument is what the reader was made with.
unsafe extern "C" fn on_samples(_: dds_entity_t, argument: *mut c_void) {
    // SAFETY: see above; it lives as long as the reader.
    let Listening { listener, token } = unsafe { &*argument.cast::<Listening>() };
    if let Some(listener) = listener.upgrade() {
        listener.on_samples(*token);
    }
}

/// Met as long as a reader has samples. Deleted with its reader.
fn condition_of(reader: dds_entity_t) -> Result<dds_entity_t, Error> {
    // SAFETY: numbers only.
    let condition = unsafe { cyclors::dds_create_readcondition(reader, DDS_ANY_STATE) };
    checked(condition, "cannot wait for samples")
}

impl Inner {
    fn attach(&self, entity: dds_entity_t, token: dds_attach_t) -> Result<(), Error> {
        // SAFETY: numbers only.
        let code = unsafe { cyclors::dds_waitset_attach(self.waitset.0, entity, token) };
        checked(code, "cannot wait for samples").map(|_| ())
    }

    /// The topic and its type, which lives as long as it.
    fn topic(&self, topic: &Topic) -> Result<(Entity, *const ddsi_sertype), Error> {
        let (name, type_name) = (c_text(&topic.name)?, c_text(&topic.type_name)?);
        let known = self.types.known(&topic.type_name);
        let known = known.or_else(|| locked(&self.announced).find(&topic.type_name).cloned());
        let keyed = known.and_then(Keyed::of).filter(|_| !topic.is_keyless);
        let mut of = sertype::new_type(&type_name, topic.is_keyless, keyed);
        let null = ptr::null();
        // SAFETY: the name is copied; the reference to the type is taken over, and `of` becomes the type that is used, which
        // may be one of that name that there was.
        let made = unsafe {
            cyclors::dds_create_topic_sertype(
                self.participant.0,
                name.as_ptr(),
                &mut of,
                null,
                ptr::null(),
                ptr::null(),
            )
        };
        Ok((Entity(checked(made, "cannot make the topic")?), of))
    }
}

/// Reads samples of a topic.
pub struct Reader {
    pub guid: Guid,
    reader: Entity,
    _listening: Option<Box<Listening>>,
    _topic: Entity,
    of: Arc<Inner>,
}

impl Reader {
    /// Takes samples, oldest first; how many, which is a round number if there may be more.
    pub fn take(&self, mut on: impl FnMut(Sample<'_>)) -> usize {
        let mut samples = [ptr::null_mut::<ddsi_serdata>(); TAKEN_MAX];
        // SAFETY: numbers, for which zero is a value.
        let mut infos: [dds_sample_info_t; TAKEN_MAX] = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for so many. Each sample comes with a reference, which is released below.
        let count = unsafe {
            cyclors::dds_takecdr(
                self.reader.0,
                samples.as_mut_ptr(),
                TAKEN_MAX as u32,
                infos.as_mut_ptr(),
                DDS_ANY_STATE,
            )
        };
        let count = usize::try_from(count).unwrap_or(0).min(TAKEN_MAX);
        for (sample, info) in samples.iter().zip(&infos).take(count) {
            // SAFETY: readers of our topics have samples of our type.
            let (bytes, key) = unsafe { sertype::content(*sample) };
            let kind = match info.valid_data {
                true => Some(SampleKind::Data),
                false if info.instance_state == DDS_NOT_ALIVE_DISPOSED_INSTANCE_STATE => {
                    Some(SampleKind::Dispose)
                }
                // A writer has gone.
                false => None,
            };
            if let Some(kind) = kind {
                on(Sample {
                    kind,
                    bytes,
                    key,
                    writer: info.publication_handle,
                });
            }
            // SAFETY: our reference.
            unsafe { cyclors::ddsi_serdata_unref(*sample) };
        }
        count
    }

    /// Bytes of samples that wait in readers of this process, or are being taken.
    pub fn waiting_bytes() -> usize {
        sertype::received()
    }

    /// Most samples per [`Reader::take`].
    pub const TAKEN_MAX: usize = TAKEN_MAX;

    /// Resets what counts since the last time.
    pub fn noticed(&self) -> Noticed {
        // SAFETY: numbers, for which zero is a value; there is room for them.
        unsafe {
            let mut missed: cyclors::dds_requested_deadline_missed_status_t = std::mem::zeroed();
            let mut lively: cyclors::dds_liveliness_changed_status_t = std::mem::zeroed();
            cyclors::dds_get_requested_deadline_missed_status(self.reader.0, &mut missed);
            cyclors::dds_get_liveliness_changed_status(self.reader.0, &mut lively);
            Noticed {
                deadlines_missed: missed.total_count_change.max(0) as u64,
                fell_silent: lively.not_alive_count_change.max(0) as u64,
                is_alive: lively.alive_count > 0,
            }
        }
    }

    /// How many writers it matches.
    pub fn opposites(&self) -> usize {
        // SAFETY: numbers only; no array is no room.
        let count =
            unsafe { cyclors::dds_get_matched_publications(self.reader.0, ptr::null_mut(), 0) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The writer of a sample; `None` if it has gone.
    pub fn writer(&self, writer: u64) -> Option<Endpoint> {
        // SAFETY: it gives a copy, or null.
        unsafe {
            let found = cyclors::dds_get_matched_publication_data(self.reader.0, writer);
            let endpoint = found.as_ref().map(|found| endpoint_of(found));
            if !found.is_null() {
                cyclors::dds_builtintopic_free_endpoint(found);
            }
            endpoint
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: numbers only; one that is not attached is refused.
        unsafe {
            cyclors::dds_waitset_detach(self.of.waitset.0, self.reader.0);
        }
        // A sample that finds no room would hold this up until its writer's lease ends.
        sertype::with_room(|| {
            // SAFETY: numbers only; there is nothing left for the entity's own end.
            unsafe { cyclors::dds_delete(self.reader.0) };
        });
    }
}

/// Writes samples of a topic.
pub struct Writer {
    pub guid: Guid,
    writer: Entity,
    sertype: *const ddsi_sertype,
    qos: Qos,
    topic: Arc<Entity>,
    of: Arc<Inner>,
}

// SAFETY: writing locks the writer; the type is counted atomically and does not change.
unsafe impl Send for Writer {}
// SAFETY: as above.
unsafe impl Sync for Writer {}

/// Why a sample was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// A reliable reader has not acknowledged enough in time.
    Slow,
    Failed(Error),
}

/// Of the status of samples (DDSI-RTPS 2.5 §9.6.4.9).
const STATUS_DISPOSE: u32 = 1;
const STATUS_UNREGISTER: u32 = 2;

impl Writer {
    /// `sertype` is the type of this topic.
    fn of(
        of: &Arc<Inner>,
        topic: Arc<Entity>,
        sertype: *const ddsi_sertype,
        qos: &Qos,
    ) -> Result<Writer, Error> {
        let native = Native::of(qos);
        let (parent, listener) = (of.participant.0, ptr::null());
        // SAFETY: the quality of service is copied.
        let writer = unsafe { cyclors::dds_create_writer(parent, topic.0, native.0, listener) };
        let writer = Entity(checked(writer, "cannot make a writer")?);
        Ok(Writer {
            guid: guid_of(&writer)?,
            writer,
            sertype,
            qos: qos.clone(),
            topic,
            of: of.clone(),
        })
    }

    /// Another writer of the same topic, which never waits for readers: it can repeat so many samples of each instance.
    pub fn beside(&self, depth: u32) -> Result<Writer, Error> {
        let qos = Qos {
            depth: depth.max(1),
            late_depth: 1,
            ..self.qos.clone()
        };
        Writer::of(&self.of, self.topic.clone(), self.sertype, &qos)
    }

    /// How many readers it matches.
    pub fn opposites(&self) -> usize {
        // SAFETY: numbers only; no array is no room.
        let count =
            unsafe { cyclors::dds_get_matched_subscriptions(self.writer.0, ptr::null_mut(), 0) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Whether samples are to be of XCDR2.
    pub fn is_xcdr2(&self) -> bool {
        self.qos.representations.first() == Some(&2)
    }

    pub fn is_exclusive(&self) -> bool {
        self.qos.is_exclusive
    }

    /// Whether all reliable readers have acknowledged everything.
    pub fn is_acknowledged(&self) -> bool {
        // SAFETY: numbers only.
        unsafe { cyclors::dds_wait_for_acks(self.writer.0, 0) == 0 }
    }

    /// Writes a sample, or ends an instance. It may leave only with [`Writer::flush`].
    pub fn write(&self, kind: SampleKind, bytes: &[u8], key: KeyHash) -> Result<(), Unwritten> {
        let (of_kind, status) = match kind {
            SampleKind::Data => (ddsi_serdata_kind_SDK_DATA, 0),
            SampleKind::Dispose => (ddsi_serdata_kind_SDK_KEY, STATUS_DISPOSE),
            SampleKind::Unregister => (ddsi_serdata_kind_SDK_KEY, STATUS_UNREGISTER),
        };
        // SAFETY: the type lives as long as the topic that we hold; the sample is ours until it is handed over, which takes
        // its reference in any case.
        let code = unsafe {
            let sample = sertype::sample(self.sertype, of_kind, bytes, key);
            (*sample).timestamp.v = cyclors::dds_time();
            (*sample).statusinfo = status;
            cyclors::dds_forwardcdr(self.writer.0, sample)
        };
        match code {
            0.. => Ok(()),
            DDS_RETCODE_TIMEOUT => Err(Unwritten::Slow),
            code => Err(Unwritten::Failed(Error {
                what: "cannot write",
                code,
            })),
        }
    }

    /// Sends what is gathered.
    pub fn flush(&self) {
        // SAFETY: numbers only.
        unsafe { cyclors::dds_write_flush(self.writer.0) };
    }
}
