// Package msgstore is a message store for agent programs: messages, tool calls and results
// in memory or in one log file, the history of one agent, requests to providers and their
// answers. See README.md.
package msgstore

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"msgstore/internal/flat"
)

const (
	page  = 500                   // messages in one read of an iteration
	slice = 50 * time.Millisecond // a wait looks so often whether it was cancelled
)

// A Store is a log file, or an arena in memory. Any goroutine may use it, and may close it
// while others do: calls in flight end first, later ones return ErrClosed.
type Store struct {
	flat   flat.Store
	mu     sync.Mutex
	idle   sync.Cond // calls is 0, and the store is closing
	calls  int
	closed bool // no call begins
	once   sync.Once
	err    error // of Close
	// A union keeps its members: one that is closed is freed after its last union.
	members []*Store
	unions  int
	free    bool // with the last union
}

// Open opens a log, or makes one.
func Open(path string) (*Store, error) { return OpenWith(path, Options{}) }

// OpenWith opens a log.
func OpenWith(path string, options Options) (*Store, error) {
	return open(struct {
		Path string `json:"path"`
		Options
	}{path, options})
}

// Memory opens an empty store in memory.
func Memory() (*Store, error) { return open(struct{}{}) }

func open(args any) (*Store, error) {
	text, err := encode(args)
	if err != nil {
		return nil, err
	}
	store, err := flat.Open(text, decoder(discard))
	if err != nil {
		return nil, err
	}
	return opened(store, nil), nil
}

func opened(store flat.Store, members []*Store) *Store {
	s := &Store{flat: store, members: members}
	s.idle.L = &s.mu
	runtime.SetFinalizer(s, func(s *Store) { s.Close() })
	return s
}

// Union opens several stores as one, for reading: the messages of the first one, then those
// of the second one, and so on; with Query.ByTime in order of time. Message n of stores[k]
// has the number k<<40 + n, which Member takes apart. What is appended to the stores shows in
// it. It keeps them: a store that is closed before it refuses calls of its own, and the union
// reads on; its file and lock are in use until the union is closed.
func Union(stores ...*Store) (*Store, error) {
	members := make([]*Store, 0, len(stores))
	flats := make([]flat.Store, 0, len(stores))
	leave := func(err error) (*Store, error) {
		for _, member := range members {
			member.leave()
		}
		return nil, err
	}
	for i, member := range stores {
		if member == nil {
			return leave(&Error{Code: ErrArgument, Message: "the store is nil",
				Path: "stores[" + strconv.Itoa(i) + "]"})
		}
		if !member.join() {
			return leave(&Error{Code: ErrClosed, Message: "the store is closed",
				Path: "stores[" + strconv.Itoa(i) + "]"})
		}
		members = append(members, member)
		flats = append(flats, member.flat)
	}
	store, err := flat.Union(flats, decoder(discard))
	if err != nil {
		return leave(err)
	}
	return opened(store, members), nil
}

// Member returns the index of the store that a message of a union lies in, and its number
// there.
func Member(seq uint64) (index int, number uint64) { return int(seq >> 40), seq & (1<<40 - 1) }

// join keeps the store for a union, unless it is closed; leave follows it.
func (s *Store) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.unions++
	}
	return !s.closed
}

func (s *Store) leave() {
	s.mu.Lock()
	s.unions--
	free := s.free && s.unions == 0
	s.mu.Unlock()
	if free {
		s.flat.Close()
	}
}

// Close makes appends durable and closes the store; it waits for the calls in flight. The
// error is that of the sync. Further calls of Close return the same. A store that a union
// reads is freed with the union.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		for s.calls > 0 {
			s.idle.Wait()
		}
		s.mu.Unlock()
		s.err = s.flat.Call("sync", []byte("{}"), nil, decoder(discard))
		if errors.Is(s.err, ErrReadOnly) {
			s.err = nil
		}
		s.mu.Lock()
		s.free = s.unions > 0
		kept := s.free
		s.mu.Unlock()
		if !kept {
			s.flat.Close()
		}
		for _, member := range s.members {
			member.leave()
		}
		runtime.SetFinalizer(s, nil)
	})
	return s.err
}

// begin counts a call, unless the store is closed; end follows it.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.calls++
	return nil
}

func (s *Store) end() {
	s.mu.Lock()
	s.calls--
	if s.closed && s.calls == 0 {
		s.idle.Signal()
	}
	s.mu.Unlock()
}

// Call calls a function of the flat interface by its name: args becomes its JSON object,
// body the text beside it (nil: none), its result is decoded into to. The other methods do
// so.
func (s *Store) Call(name string, args any, body []byte, to any) error {
	text, err := encode(args)
	if err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	return s.flat.Call(name, text, body, decoder(into(to)))
}

func discard([]byte) error { return nil }

func into(to any) func([]byte) error {
	return func(text []byte) error { return json.Unmarshal(text, to) }
}

// decoder decodes the result of a call, or the error that stands there instead.
func decoder(decode func([]byte) error) flat.Decode {
	return func(code int, text []byte) error {
		if text == nil {
			return &Error{Code: ErrNoMemory, Message: "out of memory"}
		}
		e := &Error{}
		if code != flat.OK {
			decode = into(e)
		}
		if err := decode(text); err != nil {
			return badJSON(err)
		}
		if code != flat.OK {
			return e
		}
		return nil
	}
}

// encode writes arguments. Of text that is not UTF-8 encoding/json would make other text,
// so that two names became one: it is refused.
func encode(args any) ([]byte, error) {
	text, err := marshal(args) // which also refuses a value that contains itself
	if err == nil {
		err = valid(reflect.ValueOf(args))
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, badJSON(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// valid looks at the strings that marshal has written of a value: no cycle is among them.
// What a value makes of itself (MarshalJSON, MarshalText) is not looked at.
func valid(v reflect.Value) error {
	if v.IsValid() && (v.Type().Implements(jsonMarshaler) || v.Type().Implements(textMarshaler) ||
		reflect.PointerTo(v.Type()).Implements(jsonMarshaler) ||
		reflect.PointerTo(v.Type()).Implements(textMarshaler)) {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return &Error{Code: ErrUTF8, Message: "an argument is not valid UTF-8"}
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return valid(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
				continue
			}
			if err := valid(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if err := errors.Join(valid(key), valid(v.MapIndex(key))); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 { // JSON, which the library checks
			return nil
		}
		for i := range v.Len() {
			if err := valid(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Verify checks every byte of a log, without a store. It returns the counts of
// ms_log_report; with damage, these and ErrDamaged.
func Verify(path string) (map[string]uint64, error) {
	return counted(flat.Store{}, "verify", map[string]string{"path": path})
}

// Rewrite replaces a log by one without what is hidden or replaced, and without what keep
// leaves out. ErrBusy: a writer has it open. The next call of a reader or a shared writer is
// ErrConflict, once. It returns the counts of ms_copy_report; with damage, these and
// ErrDamaged: then the new log has all that is readable.
func Rewrite(path string, keep Keep) (map[string]uint64, error) {
	return counted(flat.Store{}, "rewrite", struct {
		Keep
		Path string `json:"path"`
	}{keep, path})
}

// Backup writes the store to a new log, and goes on as it is. The result is that of Rewrite.
func (s *Store) Backup(path string, keep Keep) (map[string]uint64, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	return counted(s.flat, "backup", struct {
		Keep
		Path string `json:"to_path"`
	}{keep, path})
}

// Copy appends the messages of a log, with notes and facts. They keep their numbers, which
// must be larger than those of this store. The result is that of Rewrite.
func (s *Store) Copy(path string, keep Keep) (map[string]uint64, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	return counted(s.flat, "copy", struct {
		Keep
		Path string `json:"from_path"`
	}{keep, path})
}

func counted(store flat.Store, name string, args any) (map[string]uint64, error) {
	text, err := encode(args)
	if err != nil {
		return nil, err
	}
	var counts map[string]uint64
	err = store.Call(name, text, nil, func(code int, text []byte) error {
		if code == flat.Damaged && json.Unmarshal(text, &counts) == nil {
			return &Error{Code: ErrDamaged, Message: "the log has damaged records"}
		}
		counts = nil // an error instead of counts may have left some of its members
		return decoder(into(&counts))(code, text)
	})
	return counts, err
}

// ---- Appending.

// Append appends messages to a location, all or none, and returns their numbers. A message
// is a Message, or any value that becomes such an object.
func (s *Store) Append(location string, messages ...any) ([]uint64, error) {
	return s.AppendWith(AppendOptions{Location: location}, messages...)
}

// AppendWith does so with options: another format, or a comparison first.
func (s *Store) AppendWith(options AppendOptions, messages ...any) ([]uint64, error) {
	if messages == nil {
		messages = []any{}
	}
	body, err := marshal(messages)
	if err != nil {
		return nil, err
	}
	var got struct {
		Seqs []uint64 `json:"seqs"`
	}
	err = s.Call("append", options, body, &got)
	return got.Seqs, err
}

// ---- Reading.

// Query reads one page of messages.
func (s *Store) Query(q Query) (Page, error) { return s.page("query", q) }

// History reads what an agent reads.
func (s *Store) History(h History) (Page, error) { return s.page("history", h) }

func (s *Store) page(name string, args any) (Page, error) {
	var p Page
	if err := s.Call(name, args, nil, &p); err != nil {
		return Page{}, err
	}
	if len(p.Messages) == len(p.Seqs) {
		for i := range p.Messages {
			p.Messages[i].Seq = p.Seqs[i]
		}
	}
	return p, nil
}

// Messages iterates over a query, oldest first, and reads as it goes on. An error ends it:
// the last one is ErrDamaged if records were unreadable. A query with Limit, Reverse, ByTime
// or Format is read at once.
func (s *Store) Messages(q Query) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		q := q // each range begins anew
		if damaged, ok := s.each(&q, yield); ok && damaged > 0 {
			yield(Message{}, &Error{Code: ErrDamaged,
				Message: "records were unreadable: messages may be missing"})
		}
	}
}

// each yields what a query has, and moves its AfterSeq. False: the loop has ended.
func (s *Store) each(q *Query, yield func(Message, error) bool) (damaged uint64, ok bool) {
	once := q.Reverse || q.ByTime || q.Format != "" || q.Limit > 0
	for {
		part := *q
		if !once {
			part.Limit, part.Oldest = page, true
		}
		p, err := s.Query(part)
		if err != nil {
			yield(Message{}, err)
			return damaged, false
		}
		damaged = max(damaged, p.Damaged)
		for i, m := range p.Messages {
			if !yield(m, nil) {
				return damaged, false
			}
			if i < len(p.Seqs) {
				q.AfterSeq = max(q.AfterSeq, m.Seq)
			}
		}
		if once || len(p.Seqs) < page {
			return damaged, true
		}
	}
}

// Follow iterates over a query and goes on with messages as they come, also from other
// processes, until the context ends (its error is the last one) or the store is closed.
func (s *Store) Follow(ctx context.Context, q Query) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		q := q // each range begins anew
		var newest uint64
		for {
			damaged, ok := s.each(&q, yield)
			if !ok {
				return
			}
			if damaged > 0 {
				yield(Message{}, &Error{Code: ErrDamaged,
					Message: "records were unreadable: messages may be missing"})
				return
			}
			if q.Limit > 0 || q.Reverse || q.ByTime || q.Format != "" {
				yield(Message{}, &Error{Code: ErrArgument, Message: "a query that is followed " +
					"has no Limit, Reverse, ByTime or Format"})
				return
			}
			var err error
			if newest, err = s.Wait(ctx, max(newest, q.AfterSeq)); err != nil {
				yield(Message{}, err)
				return
			}
		}
	}
}

// Wait waits for a message after a number, and returns the newest number. It ends with the
// context's error, and with ErrClosed when the store is closed.
func (s *Store) Wait(ctx context.Context, afterSeq uint64) (uint64, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		ms := slice
		if end, ok := ctx.Deadline(); ok {
			ms = max(min(ms, time.Until(end)), 0)
		}
		var got struct {
			LastSeq uint64 `json:"last_seq"`
		}
		args := map[string]uint64{"after_seq": afterSeq, "timeout_ms": uint64(ms.Milliseconds())}
		if err := s.Call("wait", args, nil, &got); err != nil {
			return 0, err
		}
		if got.LastSeq > afterSeq {
			return got.LastSeq, nil
		}
	}
}

// Search finds texts.
func (s *Store) Search(search Search) (found Matches, err error) {
	return found, s.Call("search", search, nil, &found)
}

// List lists locations or agents.
func (s *Store) List(list List) (found Items, err error) {
	return found, s.Call("list", list, nil, &found)
}

// Stat returns counts of the whole store.
func (s *Store) Stat() (stat Stat, err error) {
	return stat, s.Call("stat", struct{}{}, nil, &stat)
}

// Usage returns the sum of the usage notes of a location; "": of all.
func (s *Store) Usage(location string) (sum Usage, err error) {
	return sum, s.Call("usage", List{Location: location}, nil, &sum)
}

// ---- Requests and answers.

// Request writes the body of the next request.
func (s *Store) Request(ask Ask) (request Request, err error) {
	return request, s.Call("request", ask, nil, &request)
}

// Answer stores the answer of a provider: the body of its response.
func (s *Store) Answer(to Answer, body []byte) (answered Answered, err error) {
	if body == nil {
		body = []byte{}
	}
	return answered, s.Call("answer", to, body, &answered)
}

// Pending lists the calls without a result, of one agent; "": of each.
func (s *Store) Pending(location, agentKey string) (pending Pending, err error) {
	return pending, s.Call("pending", Answer{Location: location, AgentKey: agentKey}, nil, &pending)
}

// CompactPlan says what a compaction would cover that keeps so many tokens.
func (s *Store) CompactPlan(ask Ask, keep uint64) (plan Plan, err error) {
	return plan, s.Call("compact_plan", struct {
		Ask
		Keep uint64 `json:"keep"`
	}{ask, keep}, nil, &plan)
}

// CompactRequest writes the request for a summary up to Plan.Upto. prompt nil: the
// library's own.
func (s *Store) CompactRequest(ask Ask, upto uint64, prompt *string) (json.RawMessage, error) {
	var got struct {
		Body json.RawMessage `json:"body"`
	}
	err := s.Call("compact_request", struct {
		Ask
		Upto   uint64  `json:"upto"`
		Prompt *string `json:"prompt"`
	}{ask, upto, prompt}, nil, &got)
	return got.Body, err
}

// Compact stores a compaction and returns its number. body: the provider's answer, or nil.
func (s *Store) Compact(c Compaction, body []byte) (uint64, error) {
	var got struct {
		Seq uint64 `json:"seq"`
	}
	err := s.Call("compact", c, body, &got)
	return got.Seq, err
}

// ---- Changes.

type about struct {
	Seq      *uint64 `json:"seq,omitempty"`
	Location string  `json:"location,omitempty"`
	To       string  `json:"to,omitempty"`
	Kind     string  `json:"kind,omitempty"`
	Message  any     `json:"message,omitempty"`
	Value    any     `json:"value,omitempty"`
}

func (s *Store) change(name string, args about) error {
	var done struct{}
	return s.Call(name, args, nil, &done)
}

// Amend replaces a message; its number and place stay.
func (s *Store) Amend(seq uint64, message any) error {
	return s.change("amend", about{Seq: &seq, Message: message})
}

// Hide removes a message from every view.
func (s *Store) Hide(seq uint64) error { return s.change("hide", about{Seq: &seq}) }

// Rewind hides all messages of a location after a number; it returns how many.
func (s *Store) Rewind(location string, seq uint64) (uint64, error) {
	var got struct {
		Hidden uint64 `json:"hidden"`
	}
	err := s.Call("rewind", about{Location: location, Seq: &seq}, nil, &got)
	return got.Hidden, err
}

// Redact erases the content of a message.
func (s *Store) Redact(seq uint64) error { return s.change("redact", about{Seq: &seq}) }

// Note attaches a value to a message.
func (s *Store) Note(seq uint64, kind string, value any) error {
	return s.change("note", about{Seq: &seq, Kind: kind, Value: value})
}

// Notes returns the notes of a message that is shown, oldest first; kind "": of all kinds.
func (s *Store) Notes(seq uint64, kind string) (found Notes, err error) {
	return found, s.Call("notes", about{Seq: &seq, Kind: kind}, nil, &found)
}

// Fork copies the messages of a location up to a number to another.
func (s *Store) Fork(location string, seq uint64, to string) error {
	return s.change("fork", about{Location: location, Seq: &seq, To: to})
}

// SetFacts sets facts of a location: members of an object; null removes one.
func (s *Store) SetFacts(location string, facts any) error {
	return s.change("set_facts", about{Location: location, Value: facts})
}

// Facts decodes the facts of a location.
func (s *Store) Facts(location string, to any) error {
	return s.Call("facts", about{Location: location}, nil, to)
}

// Sync makes everything durable; it returns the last durable number.
func (s *Store) Sync() (uint64, error) {
	var got struct {
		DurableSeq uint64 `json:"durable_seq"`
	}
	err := s.Call("sync", struct{}{}, nil, &got)
	return got.DurableSeq, err
}
