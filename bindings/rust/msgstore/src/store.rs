use crate::*;
use msgstore_sys as sys;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{json, Map, Value};
use std::ffi::{c_char, CStr};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// How many messages one read of an iteration has.
const PAGE: usize = 500;

/// A message store: a log file, or an arena in memory.
///
/// Any thread may call it at any time: it is `Send` and `Sync`, as the C library promises.
/// Closing needs the store alone, which the borrow checker sees to: nothing that borrows it
/// can be alive then. After a fork the child must open the log again.
///
/// ```compile_fail,E0505
/// let store = msgstore::Store::memory().unwrap();
/// let mut messages = store.messages(msgstore::Query::default());
/// drop(store);
/// messages.next();
/// ```
///
/// ```compile_fail,E0505
/// let store = msgstore::Store::memory().unwrap();
/// std::thread::scope(|threads| {
///     threads.spawn(|| store.stat());
///     store.close()
/// });
/// ```
#[derive(Debug)]
pub struct Store {
    handle: NonNull<sys::ms_store>,
}

// SAFETY: "Any thread may call, except for opening and closing" (msgstore_ffi.h). Opening
// makes a handle that no other thread has; closing takes the store by value.
unsafe impl Send for Store {}
unsafe impl Sync for Store {}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and &mut self says that no call is in flight.
        unsafe { sys::ms_close(self.handle.as_ptr()) }
    }
}

/// A result of the library, freed when it is dropped.
struct Out {
    text: *mut c_char,
    len: usize,
    code: i32,
}

impl Out {
    fn bytes(&self) -> &[u8] {
        if self.text.is_null() {
            return b"";
        }
        // SAFETY: the library returned so many bytes, which are ours until ms_ffi_free.
        unsafe { std::slice::from_raw_parts(self.text.cast(), self.len) }
    }

    /// The result, or the error that stands in it.
    fn check<T: DeserializeOwned>(&self) -> Result<T> {
        #[derive(Deserialize)]
        struct Failure {
            code: String,
            message: String,
            path: Option<String>,
            offset: Option<u64>,
        }
        if self.text.is_null() {
            let text = "out of memory".into();
            return Err(Error::NoMemory(Detail { text, ..Detail::default() }));
        }
        if self.code == 0 {
            return Ok(serde_json::from_slice(self.bytes())?);
        }
        let f: Failure = serde_json::from_slice(self.bytes())?;
        Err(Error::of(&f.code, Detail { text: f.message, path: f.path, offset: f.offset }))
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // SAFETY: it is the library's, and freed once.
        unsafe { sys::ms_ffi_free(self.text) }
    }
}

fn open(args: &Value) -> Result<Store> {
    let args = args.to_string();
    let mut handle = ptr::null_mut();
    let mut out = Out { text: ptr::null_mut(), len: 0, code: 0 };
    // SAFETY: the arguments live until the call returns; the outputs are ours.
    out.code = unsafe {
        sys::ms_ffi_open(&mut handle, args.as_ptr().cast(), args.len(), &mut out.text,
                         &mut out.len)
    };
    let opened = NonNull::new(handle).map(|handle| Store { handle });
    out.check::<Value>()?;
    opened.ok_or_else(|| Error::Closed(Detail::default()))
}

/// Several stores as one, for reading: the messages of the first one, then those of the
/// second one, and so on; with [`Query::by_time`] in order of time. Message n of store k has
/// the number `(k << 40) + n`, which [`Union::member`] takes apart. What is appended to the
/// stores shows in it. All calls of a [`Store`] work; those that change something return
/// [`Error::ReadOnly`].
///
/// It borrows its stores, so that none of them is closed before it:
///
/// ```compile_fail,E0505
/// let store = msgstore::Store::memory().unwrap();
/// let union = msgstore::Union::open(&[&store]).unwrap();
/// store.close().unwrap();
/// union.stat().unwrap();
/// ```
///
/// ```compile_fail,E0597
/// let union;
/// let store = msgstore::Store::memory().unwrap();
/// union = msgstore::Union::open(&[&store]).unwrap();
/// ```
#[derive(Debug)]
pub struct Union<'a> {
    store: Store,
    members: PhantomData<&'a Store>,
}

impl<'a> Union<'a> {
    /// Opens a union. A store that is listed twice is [`Error::Argument`], a union
    /// [`Error::Unsupported`].
    pub fn open(stores: &[&'a Store]) -> Result<Union<'a>> {
        let handles: Vec<_> = stores.iter().map(|store| store.handle.as_ptr()).collect();
        let mut handle = ptr::null_mut();
        let mut out = Out { text: ptr::null_mut(), len: 0, code: 0 };
        // SAFETY: the handles are open, and stay so for 'a.
        out.code = unsafe {
            sys::ms_ffi_union(&mut handle, handles.as_ptr(), handles.len(), &mut out.text,
                              &mut out.len)
        };
        let opened = NonNull::new(handle).map(|handle| Store { handle });
        out.check::<Value>()?;
        let store = opened.ok_or_else(|| Error::Closed(Detail::default()))?;
        Ok(Union { store, members: PhantomData })
    }

    /// The index of the store that a message lies in, and its number there.
    pub fn member(seq: u64) -> (usize, u64) {
        ((seq >> 40) as usize, seq & ((1 << 40) - 1))
    }
}

impl std::ops::Deref for Union<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

// So that the stores live until it is dropped, and not only until its last use.
impl Drop for Union<'_> {
    fn drop(&mut self) {}
}

fn call(handle: *mut sys::ms_store, name: &CStr, args: &impl Serialize, body: Option<&[u8]>)
    -> Result<Out> {
    let args = serde_json::to_vec(args)?;
    let (at, len) = body.map_or((ptr::null(), 0), |body| (body.as_ptr(), body.len()));
    let mut out = Out { text: ptr::null_mut(), len: 0, code: 0 };
    // SAFETY: as in open(); the handle is null or open.
    out.code = unsafe {
        sys::ms_ffi_call(handle, name.as_ptr(), args.as_ptr().cast(), args.len(), at.cast(),
                         len, &mut out.text, &mut out.len)
    };
    Ok(out)
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| Error::argument("path", format!("{} is not UTF-8", path.display())))
}

/// Checks every byte of a log, without a store.
pub fn verify(path: impl AsRef<Path>) -> Result<Verified> {
    let args = json!({"path": text_of(path.as_ref())?});
    counted(ptr::null_mut(), c"verify", &args)
}

/// Replaces a log by one without what is hidden or replaced, and without what `keep` leaves
/// out. No writer may have it open ([`Error::Busy`]); the next call of a
/// reader or a shared writer is [`Error::Conflict`], once.
pub fn rewrite(path: impl AsRef<Path>, keep: &Keep) -> Result<Verified> {
    counted(ptr::null_mut(), c"rewrite", &with_path(keep, "path", path.as_ref())?)
}

fn with_path(keep: &Keep, name: &str, path: &Path) -> Result<Value> {
    let mut args = serde_json::to_value(keep)?;
    args[name] = text_of(path)?.into();
    Ok(args)
}

fn counted(handle: *mut sys::ms_store, name: &CStr, args: &Value) -> Result<Verified> {
    let out = call(handle, name, args, None)?;
    let counts = serde_json::from_slice(out.bytes());
    match out.check::<Value>() {
        Ok(_) => Ok(Verified { damaged: false, counts: counts? }),
        // Damage comes with the same counts; an error has texts instead.
        Err(error) => match counts {
            Ok(counts) => Ok(Verified { damaged: true, counts }),
            Err(_) => Err(error),
        },
    }
}

impl Options {
    /// Opens a log.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        let mut args = serde_json::to_value(self)?;
        args["path"] = text_of(path.as_ref())?.into();
        open(&args)
    }
}

impl Store {
    /// Opens a log, or makes one.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Options::default().open(path)
    }

    /// Opens an empty store in memory.
    pub fn memory() -> Result<Store> {
        open(&json!({}))
    }

    /// Makes appends durable and closes. Dropping a store does, too, but cannot return that
    /// its sync failed.
    pub fn close(self) -> Result<()> {
        match self.sync() {
            Ok(_) | Err(Error::ReadOnly(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Calls a function of the flat interface by its name; the others here do so.
    pub fn call<T: DeserializeOwned>(&self, name: &CStr, args: &impl Serialize,
                                     body: Option<&[u8]>) -> Result<T> {
        call(self.handle.as_ptr(), name, args, body)?.check()
    }

    // ---- Appending.

    /// Appends messages to a location, all or none, and returns their numbers.
    pub fn append<M: Serialize>(&self, location: &str, messages: &[M]) -> Result<Vec<u64>> {
        self.append_with(&Append { location: Some(location), ..Append::default() }, messages)
    }

    /// The same with options: another format, or a comparison first.
    pub fn append_with<M: Serialize>(&self, how: &Append, messages: &[M]) -> Result<Vec<u64>> {
        #[derive(Deserialize)]
        struct Seqs {
            seqs: Vec<u64>,
        }
        let body = serde_json::to_vec(messages)?;
        Ok(self.call::<Seqs>(c"append", how, Some(&body))?.seqs)
    }

    // ---- Reading.

    /// One page of messages.
    pub fn query(&self, query: &Query) -> Result<Page> {
        self.page(c"query", query)
    }

    /// What an agent reads.
    pub fn history(&self, history: &History) -> Result<Page> {
        self.page(c"history", history)
    }

    fn page(&self, name: &CStr, args: &impl Serialize) -> Result<Page> {
        #[derive(Deserialize)]
        struct Found {
            messages: Vec<Message>,
            seqs: Vec<u64>,
            damaged: u64,
        }
        let mut found: Found = self.call(name, args, None)?;
        if found.messages.len() == found.seqs.len() {
            for (message, seq) in found.messages.iter_mut().zip(&found.seqs) {
                message.seq = *seq;
            }
        }
        Ok(Page { messages: found.messages, seqs: found.seqs, damaged: found.damaged })
    }

    /// All messages of a query, oldest first, read as the iterator goes on. The last item is
    /// [`Error::Damaged`] if records were unreadable. A query with `limit`, `reverse`,
    /// `by_time` or `format` is read at once.
    pub fn messages<'a>(&'a self, query: Query<'a>) -> Messages<'a> {
        Messages { store: self, query, page: Vec::new().into_iter(), damaged: 0, more: true }
    }

    pub fn search(&self, search: &Search) -> Result<Matches> {
        self.call(c"search", search, None)
    }

    pub fn list(&self, list: &List) -> Result<Items> {
        self.call(c"list", list, None)
    }

    pub fn stat(&self) -> Result<Stat> {
        self.call(c"stat", &json!({}), None)
    }

    /// The sum of the usage notes of a location, or of all.
    pub fn usage(&self, location: Option<&str>) -> Result<Usage> {
        self.call(c"usage", &json!({"location": location}), None)
    }

    /// Waits until there is a message after `after_seq`, at most so long; returns the newest
    /// number.
    pub fn wait(&self, after_seq: u64, timeout: Duration) -> Result<u64> {
        let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        self.number(c"wait", &json!({"after_seq": after_seq, "timeout_ms": ms}), "last_seq")
    }

    // ---- Requests and answers.

    /// The body of the next request.
    pub fn request(&self, ask: &Ask) -> Result<Request> {
        self.call(c"request", ask, None)
    }

    /// Stores the answer of a provider: the body of its response.
    pub fn answer(&self, to: &Answer, body: impl AsRef<[u8]>) -> Result<Answered> {
        self.call(c"answer", to, Some(body.as_ref()))
    }

    /// The calls without a result, of each agent or of one.
    pub fn pending(&self, location: &str, agent_key: Option<&str>) -> Result<Pending> {
        self.call(c"pending", &json!({"location": location, "agent_key": agent_key}), None)
    }

    /// What a compaction would cover that keeps so many tokens.
    pub fn compact_plan(&self, ask: &Ask, keep: u64) -> Result<Plan> {
        let mut args = serde_json::to_value(ask)?;
        args["keep"] = keep.into();
        self.call(c"compact_plan", &args, None)
    }

    /// The request for a summary up to [`Plan::upto`]. `prompt` `None`: the library's own.
    pub fn compact_request(&self, ask: &Ask, upto: u64, prompt: Option<&str>)
        -> Result<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Body {
            body: Box<RawValue>,
        }
        let mut args = serde_json::to_value(ask)?;
        args["upto"] = upto.into();
        args["prompt"] = prompt.into();
        Ok(self.call::<Body>(c"compact_request", &args, None)?.body)
    }

    /// Stores a compaction, `body`: the provider's answer; returns its number.
    pub fn compact(&self, compaction: &Compaction, body: Option<&[u8]>) -> Result<u64> {
        let seq: Map<String, Value> = self.call(c"compact", compaction, body)?;
        Ok(seq.get("seq").and_then(Value::as_u64).unwrap_or(0))
    }

    // ---- Changes.

    /// Replaces a message; its number and place stay.
    pub fn amend(&self, seq: u64, message: &impl Serialize) -> Result<()> {
        self.done(c"amend", &json!({"seq": seq, "message": serde_json::to_value(message)?}))
    }

    pub fn hide(&self, seq: u64) -> Result<()> {
        self.done(c"hide", &json!({"seq": seq}))
    }

    /// Hides all messages of a location after `seq`; returns how many were visible.
    pub fn rewind(&self, location: &str, seq: u64) -> Result<u64> {
        self.number(c"rewind", &json!({"location": location, "seq": seq}), "hidden")
    }

    /// Erases the content of a message.
    pub fn redact(&self, seq: u64) -> Result<()> {
        self.done(c"redact", &json!({"seq": seq}))
    }

    /// Attaches a value to a message.
    pub fn note(&self, seq: u64, kind: &str, value: impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value)?;
        self.done(c"note", &json!({"seq": seq, "kind": kind, "value": value}))
    }

    /// The notes of a message that is shown, oldest first; with `kind` of it alone.
    pub fn notes(&self, seq: u64, kind: Option<&str>) -> Result<Notes> {
        self.call(c"notes", &json!({"seq": seq, "kind": kind}), None)
    }

    /// Copies the messages of a location up to `seq` to another.
    pub fn fork(&self, location: &str, seq: u64, to: &str) -> Result<()> {
        self.done(c"fork", &json!({"location": location, "seq": seq, "to": to}))
    }

    /// Sets facts of a location; null removes one.
    pub fn set_facts(&self, location: &str, facts: &impl Serialize) -> Result<()> {
        let value = serde_json::to_value(facts)?;
        self.done(c"set_facts", &json!({"location": location, "value": value}))
    }

    pub fn facts<T: DeserializeOwned>(&self, location: &str) -> Result<T> {
        self.call(c"facts", &json!({"location": location}), None)
    }

    /// Makes everything durable; returns the last durable number.
    pub fn sync(&self) -> Result<u64> {
        self.number(c"sync", &json!({}), "durable_seq")
    }

    /// Writes the store to a new log, and goes on as it is.
    pub fn backup(&self, path: impl AsRef<Path>, keep: &Keep) -> Result<Verified> {
        let args = with_path(keep, "to_path", path.as_ref())?;
        counted(self.handle.as_ptr(), c"backup", &args)
    }

    /// Appends the messages of a log, with notes and facts. They keep their numbers, which
    /// must be larger than those of this store.
    pub fn copy(&self, path: impl AsRef<Path>, keep: &Keep) -> Result<Verified> {
        let args = with_path(keep, "from_path", path.as_ref())?;
        counted(self.handle.as_ptr(), c"copy", &args)
    }

    fn done(&self, name: &CStr, args: &Value) -> Result<()> {
        self.call::<Value>(name, args, None).map(drop)
    }

    fn number(&self, name: &CStr, args: &Value, member: &str) -> Result<u64> {
        let result: Map<String, Value> = self.call(name, args, None)?;
        Ok(result.get(member).and_then(Value::as_u64).unwrap_or(0))
    }
}

/// The messages of a query; see [`Store::messages`].
#[derive(Debug)]
pub struct Messages<'a> {
    store: &'a Store,
    query: Query<'a>,
    page: std::vec::IntoIter<Message>,
    damaged: u64,
    more: bool,
}

impl Messages<'_> {
    fn read(&mut self) -> Result<()> {
        let q = &self.query;
        let at_once = q.reverse || q.by_time || q.format.is_some() || q.limit.unwrap_or(0) > 0;
        self.more = false;
        let page = if at_once {
            self.store.query(q)?
        } else {
            self.store.query(&Query { limit: Some(PAGE), oldest: true, ..q.clone() })?
        };
        self.damaged = self.damaged.max(page.damaged);
        self.more = !at_once && page.seqs.len() == PAGE;
        self.query.after_seq = page.seqs.last().copied().or(self.query.after_seq);
        self.page = page.messages.into_iter();
        Ok(())
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<Message>;

    fn next(&mut self) -> Option<Result<Message>> {
        loop {
            if let Some(message) = self.page.next() {
                return Some(Ok(message));
            }
            if !self.more {
                break;
            }
            if let Err(error) = self.read() {
                return Some(Err(error));
            }
        }
        let n = std::mem::take(&mut self.damaged);
        (n > 0).then(|| {
            let text = format!("{n} unreadable records: messages may be missing");
            Err(Error::Damaged(Detail { text, ..Detail::default() }))
        })
    }
}

impl std::iter::FusedIterator for Messages<'_> {}
