//! The functions of msgstore's flat interface, `bindings/msgstore_ffi.h`, and the C
//! library that they are in, compiled from its source. The crate `msgstore` has a safe
//! interface over them.
//!
//! Requests and results are JSON. A call returns 0, or the number of an `ms_result`, and in
//! `out` a text of `len` bytes that the caller frees with [`ms_ffi_free`]; it is NULL if
//! memory is exhausted. Any thread may call, except for opening and closing.

use core::ffi::{c_char, c_int};

/// A store; only ever a pointer to one.
#[repr(C)]
pub struct ms_store {
    _private: [u8; 0],
}

extern "C" {
    // Written by tools/flat.sh from bindings/flat.table.
    /// Opens a store. `args` is one JSON object, or null with a length of 0.
    pub fn ms_ffi_open(store: *mut *mut ms_store, args: *const c_char, args_len: usize,
                       out: *mut *mut c_char, len: *mut usize) -> c_int;
    /// Opens a union of stores, which must outlive it.
    pub fn ms_ffi_union(store: *mut *mut ms_store, stores: *const *mut ms_store,
                        n_stores: usize, out: *mut *mut c_char,
                        len: *mut usize) -> c_int;
    /// Calls a function by its name, which ends with a NUL.
    pub fn ms_ffi_call(store: *mut ms_store, name: *const c_char, args: *const c_char,
                       args_len: usize, body: *const c_char, body_len: usize,
                       out: *mut *mut c_char, len: *mut usize) -> c_int;
    /// Frees a result; null is allowed.
    pub fn ms_ffi_free(out: *mut c_char);
    /// Closes a store, which no other thread may use; null is allowed.
    pub fn ms_close(store: *mut ms_store);
    // End of what is written.
}
