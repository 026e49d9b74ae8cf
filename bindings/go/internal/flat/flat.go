// Package flat is the flat interface of the C library, bindings/msgstore_ffi.h. It is a
// package of its own because its C source takes long to compile.
package flat

/*
#cgo CFLAGS: -std=c99 -DNDEBUG -I${SRCDIR}/../../csrc -I${SRCDIR}/../../../.. -I${SRCDIR}/../../..
#cgo CFLAGS: -I/usr/include/stb -I/usr/local/include/stb
#cgo !windows LDFLAGS: -pthread
#include "msgstore.h"
#include "msgstore_ffi.h"
*/
import "C"

import "unsafe"

// A Store is an open store; the zero value is none, for "verify".
type Store struct{ handle *C.ms_store }

// Decode gets the code of a call and its result, which is gone when it returns; nil: memory
// was exhausted.
type Decode func(code int, text []byte) error

const (
	OK      = int(C.MS_OK)
	Damaged = int(C.MS_E_DAMAGED)
)

// Open opens a store. args is one JSON object.
func Open(args []byte, decode Decode) (Store, error) {
	var s Store
	var out *C.char
	var n C.size_t
	code := C.ms_ffi_open(&s.handle, chars(args), C.size_t(len(args)), &out, &n)
	return s, take(code, out, n, decode)
}

// Union opens stores as one. They must be open until it is closed.
func Union(stores []Store, decode Decode) (Store, error) {
	var s Store
	var out *C.char
	var n C.size_t
	handles := make([]*C.ms_store, len(stores))
	for i, store := range stores {
		handles[i] = store.handle
	}
	code := C.ms_ffi_union(&s.handle, unsafe.SliceData(handles), C.size_t(len(handles)), &out, &n)
	return s, take(code, out, n, decode)
}

// Call calls a function by its name. body is a text beside the arguments, or nil.
func (s Store) Call(name string, args, body []byte, decode Decode) error {
	var out *C.char
	var n C.size_t
	code := C.ms_ffi_call(s.handle, chars(append([]byte(name), 0)), chars(args),
		C.size_t(len(args)), chars(body), C.size_t(len(body)), &out, &n)
	return take(code, out, n, decode)
}

// Close closes the store, which no other thread may use.
func (s Store) Close() { C.ms_close(s.handle) }

func take(code C.int, out *C.char, n C.size_t, decode Decode) error {
	if out == nil {
		return decode(int(code), nil)
	}
	defer C.ms_ffi_free(out)
	return decode(int(code), unsafe.Slice((*byte)(unsafe.Pointer(out)), int(n)))
}

func chars(text []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(text))) }
