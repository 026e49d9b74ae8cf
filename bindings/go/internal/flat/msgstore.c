/* The C library and its flat interface, in a file of their own: cgo compiles the comment
 * of a Go file several times. */
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FFI_IMPLEMENTATION
#include "msgstore.h"
#include "msgstore_ffi.h"
