package msgstore

import "strings"

// A Code is the name of a result of the C library. It is an error, for errors.Is:
//
//	if errors.Is(err, msgstore.ErrConflict) { ... }
type Code string

func (c Code) Error() string { return "msgstore: " + string(c) }

// The codes. ErrJSON is this package's own: a value cannot be written as JSON, or a result
// not be read.
const (
	ErrArgument    Code = "E_ARGUMENT"
	ErrClosed      Code = "E_CLOSED"
	ErrNoMemory    Code = "E_NO_MEMORY"
	ErrArena       Code = "E_ARENA"
	ErrFull        Code = "E_FULL"
	ErrTooLarge    Code = "E_TOO_LARGE"
	ErrNotFound    Code = "E_NOT_FOUND"
	ErrConflict    Code = "E_CONFLICT"
	ErrKeyReused   Code = "E_KEY_REUSED"
	ErrSyntax      Code = "E_SYNTAX"
	ErrUTF8        Code = "E_UTF8"
	ErrDepth       Code = "E_DEPTH"
	ErrKind        Code = "E_KIND"
	ErrRange       Code = "E_RANGE"
	ErrMissing     Code = "E_MISSING"
	ErrType        Code = "E_TYPE"
	ErrDamaged     Code = "E_DAMAGED"
	ErrForeign     Code = "E_FOREIGN"
	ErrUnsupported Code = "E_UNSUPPORTED"
	ErrIO          Code = "E_IO"
	ErrBusy        Code = "E_BUSY"
	ErrReadOnly    Code = "E_READ_ONLY"
	ErrForked      Code = "E_FORKED"
	ErrPoisoned    Code = "E_POISONED"
	ErrHidden      Code = "E_HIDDEN"
	ErrRefused     Code = "E_REFUSED"
	ErrUnreachable Code = "E_UNREACHABLE"
	ErrJSON        Code = "JSON"
)

// An Error is a call that failed. The store is as before; an answer may have kept its
// messages.
type Error struct {
	Code    Code
	Message string  // a sentence
	Path    string  // the field that it is about, "messages[3].args"; "": none
	Offset  *uint64 // the byte of the input, where that is known
	Err     error   // of encoding/json, for ErrJSON
}

func (e *Error) Error() string {
	if e.Path != "" && !strings.Contains(e.Message, e.Path) {
		return "msgstore: " + e.Path + ": " + e.Message
	}
	return "msgstore: " + e.Message
}

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

func (e *Error) Unwrap() error { return e.Err }

func badJSON(err error) error {
	return &Error{Code: ErrJSON, Message: err.Error(), Err: err}
}

var errClosed = &Error{Code: ErrClosed, Message: "the store is closed"}
