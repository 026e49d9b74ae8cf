package msgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func memory(t testing.TB) *Store {
	t.Helper()
	s, err := Memory()
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, err error, code Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, expected %s", err, code)
	}
}

func equal(t testing.TB, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Fatalf("got %#v, expected %#v", got, wanted)
	}
}

func numbered(n int) []any {
	var list []any
	for i := range n {
		list = append(list, User("message "+strconv.Itoa(i+1)))
	}
	return list
}

func fill(t testing.TB, s *Store, location string, n int) {
	t.Helper()
	_, err := s.Append(location, numbered(n)...)
	must(t, err)
}

// seqs reads a query to its end.
func seqs(s *Store, q Query) (all []uint64, err error) {
	for m, e := range s.Messages(q) {
		if e != nil {
			return all, e
		}
		all = append(all, m.Seq)
	}
	return all, nil
}

func TestLogKeepsMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.msl")
	_, err := OpenWith(path, Options{Mode: "read"})
	is(t, err, ErrNotFound)
	s, err := OpenWith(path, Options{Sync: "each"})
	must(t, err)
	fill(t, s, "l", 2)
	must(t, s.Close())
	must(t, s.Close())
	_, err = s.Append("l", User("x"))
	is(t, err, ErrClosed)
	s, err = OpenWith(path, Options{Mode: "read"})
	must(t, err)
	p, err := s.Query(Of("l"))
	must(t, err)
	equal(t, p.Messages[1].Text(), "message 2")
	_, err = s.Append("l", User("x"))
	is(t, err, ErrReadOnly)
	must(t, s.Close())
	counts, err := Verify(path)
	must(t, err)
	equal(t, counts["messages"], uint64(2))
}

func TestIterationReadsEveryPageOnce(t *testing.T) {
	s := memory(t)
	for _, n := range []int{499, 1, 500, 501} {
		fill(t, s, "l", n)
		fill(t, s, "other", 1)
		all, err := seqs(s, Of("l"))
		must(t, err)
		p, err := s.Query(Of("l"))
		must(t, err)
		equal(t, all, p.Seqs)
	}
	newest, err := seqs(s, Query{Filter: Filter{Limit: 2}, Reverse: true})
	must(t, err)
	equal(t, newest, []uint64{1505, 1504})
	_, err = seqs(s, Query{Filter: Filter{Views: []string{"teams"}}})
	is(t, err, ErrArgument)
	for range s.Messages(Query{}) {
		break
	}
	none, err := seqs(s, Query{Filter: Filter{Types: []string{}}})
	must(t, err)
	equal(t, len(none), 0)
}

func TestAnIteratorCanBeRangedOverTwice(t *testing.T) {
	s := memory(t)
	fill(t, s, "l", page+3)
	messages := s.Messages(Of("l"))
	for range 2 {
		n := 0
		for _, err := range messages {
			must(t, err)
			n++
		}
		equal(t, n, page+3)
	}
}

func TestValuesAreThoseThatJSONHas(t *testing.T) {
	type node struct {
		Name   string
		Parent *node `json:"-"`
		up     *node
		Kids   []*node
	}
	s := memory(t)
	fill(t, s, "l", 1)
	root := &node{Name: "root"}
	kid := &node{Name: "kid", Parent: root, up: root}
	root.Kids = []*node{kid}
	must(t, s.Note(1, "tree", root))
	kid.Kids = []*node{root} // now JSON has no end
	is(t, s.Note(1, "tree", root), ErrJSON)
	is(t, s.Note(1, "tree", map[string]string{"a": "\xff"}), ErrUTF8)
}

func TestDamageEndsAnIteration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.msl")
	s, err := Open(path)
	must(t, err)
	fill(t, s, "l", 20)
	must(t, s.Close())
	bytes, err := os.ReadFile(path)
	must(t, err)
	bytes[strings.Index(string(bytes), "message 7")] ^= 1
	must(t, os.WriteFile(path, bytes, 0o600))
	counts, err := Verify(path)
	is(t, err, ErrDamaged)
	equal(t, counts["damaged"], uint64(1))
	s, err = Open(path)
	must(t, err)
	defer s.Close()
	all, err := seqs(s, Of("l"))
	is(t, err, ErrDamaged)
	equal(t, len(all), 19)
	_, err = Verify(path + ".none")
	is(t, err, ErrNotFound)
	// A log that is too damaged to be opened has no counts.
	must(t, os.WriteFile(path+".cut", bytes[:4096], 0o600))
	counts, err = Rewrite(path+".cut", Keep{})
	is(t, err, ErrDamaged)
	equal(t, counts, map[string]uint64(nil))
	bytes[20] ^= 1      // in the first page
	bytes[4096+20] ^= 1 // in its copy
	must(t, os.WriteFile(path, bytes, 0o600))
	counts, err = Verify(path)
	is(t, err, ErrDamaged)
	equal(t, err.Error(), "msgstore: '"+path+"': bytes 0 to 51 do not match their checksum")
	equal(t, counts, map[string]uint64(nil))
}

func TestCopiesHaveWhatIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.msl")
	other := path + ".copy"
	s, err := Open(path)
	must(t, err)
	fill(t, s, "l", 20)
	must(t, s.Hide(3))
	_, err = Rewrite(path, Keep{})
	is(t, err, ErrBusy)
	counts, err := s.Backup(other, Keep{Newest: 4, Locations: []string{"l"}})
	must(t, err)
	equal(t, counts["copied"], uint64(4))
	fill(t, s, "l", 1)
	must(t, s.Close())
	counts, err = Rewrite(path, Keep{})
	must(t, err)
	equal(t, counts["copied"], uint64(20))
	into := memory(t)
	_, err = into.Copy(other, Keep{})
	must(t, err)
	p, err := into.Query(Query{})
	must(t, err)
	equal(t, p.Seqs, []uint64{17, 18, 19, 20})
	_, err = into.Copy(path+".none", Keep{})
	is(t, err, ErrNotFound)
}

func TestUnionReadsStoresAsOne(t *testing.T) {
	a, b := memory(t), memory(t)
	fill(t, a, "l", 2)
	fill(t, b, "l", 3)
	all, err := Union(a, b)
	must(t, err)
	p, err := all.Query(Of("l"))
	must(t, err)
	const second = uint64(1) << 40
	equal(t, p.Seqs, []uint64{1, 2, second + 1, second + 2, second + 3})
	index, number := Member(p.Seqs[4])
	equal(t, index, 1)
	equal(t, number, uint64(3))
	fill(t, a, "l", 1)
	read, err := seqs(all, Query{Filter: Filter{AfterSeq: 2}})
	must(t, err)
	equal(t, read, []uint64{3, second + 1, second + 2, second + 3})
	_, err = all.Append("l", User("x"))
	is(t, err, ErrReadOnly)
	_, err = Union(a, all)
	is(t, err, ErrUnsupported)
	_, err = Union(a, a)
	is(t, err, ErrArgument)
	_, err = Union(a, nil)
	is(t, err, ErrArgument)
	must(t, all.Close())
	none, err := Union()
	must(t, err)
	read, err = seqs(none, Query{})
	must(t, err)
	equal(t, len(read), 0)
	must(t, none.Close())
}

func TestUnionKeepsItsStoresOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.msl")
	a, err := Open(path)
	must(t, err)
	b := memory(t)
	fill(t, a, "l", 2)
	first, err := Union(a, b)
	must(t, err)
	second, err := Union(b, a)
	must(t, err)
	must(t, a.Close())
	_, err = a.Stat()
	is(t, err, ErrClosed)
	_, err = Union(b, a)
	is(t, err, ErrClosed)
	must(t, first.Close())
	stat, err := second.Stat()
	must(t, err)
	equal(t, stat.Messages, uint64(2))
	_, err = Open(path)
	is(t, err, ErrBusy)
	must(t, second.Close())
	a, err = Open(path) // the lock is free with the last union
	must(t, err)
	must(t, a.Close())
	fill(t, b, "l", 1)
}

func TestUnionClosesBesideItsStoresAndCalls(t *testing.T) {
	for range 300 {
		var stores []*Store
		for range 3 {
			s, err := Memory()
			must(t, err)
			fill(t, s, "l", 10)
			stores = append(stores, s)
		}
		all, err := Union(stores...)
		must(t, err)
		var done sync.WaitGroup
		for _, s := range append(stores, all) {
			done.Add(2)
			go func() {
				defer done.Done()
				for {
					p, err := all.Query(Of("l"))
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil || len(p.Seqs) != 30 {
						t.Errorf("got %d messages, %v", len(p.Seqs), err)
						return
					}
				}
			}()
			go func() {
				defer done.Done()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
		}
		done.Wait()
	}
}

func TestErrorsHaveCodeTextFieldAndByte(t *testing.T) {
	s := memory(t)
	_, err := s.Append("l", User("x"), map[string]any{"type": "action"})
	is(t, err, ErrMissing)
	var e *Error
	if !errors.As(err, &e) || e.Path != "messages[1].tool" || e.Message == "" {
		t.Fatal(err)
	}
	err = s.Call("append", map[string]string{"location": "l"}, []byte("[{]"), new(any))
	if !errors.As(err, &e) || e.Code != ErrSyntax || e.Offset == nil || *e.Offset != 2 {
		t.Fatal(err)
	}
	is(t, s.Call("nothing", struct{}{}, nil, new(any)), ErrArgument)
	_, err = s.Append("\xff", User("x"))
	is(t, err, ErrUTF8)
	_, err = s.Query(Query{Filter: Filter{AgentKeys: []string{"a", "\xc0"}}})
	is(t, err, ErrUTF8)
	_, err = s.Append("l", func() {})
	is(t, err, ErrJSON)
	one := uint64(1)
	_, err = s.AppendWith(AppendOptions{Location: "l", ExpectSeq: &one}, User("x"))
	is(t, err, ErrConflict)
	if errors.Is(err, ErrBusy) {
		t.Fatal("a conflict is not busy")
	}
	stat, err := s.Stat()
	must(t, err)
	equal(t, stat.Messages, uint64(0))
}

func TestMessagesAreAnyJSON(t *testing.T) {
	s := memory(t)
	type mine struct {
		Type      string  `json:"type"`
		Content   string  `json:"content"`
		Timestamp float64 `json:"timestamp"`
		Large     uint64  `json:"large"`
		Absent    *int    `json:"absent"`
	}
	in := mine{"user_message", "π <&> \x00 😀 \"", 1720000000.123456, 1<<63 + 1, nil}
	_, err := s.Append("l", in)
	must(t, err)
	p, err := s.Query(Of("l"))
	must(t, err)
	var back mine
	must(t, p.Messages[0].Decode(&back))
	equal(t, back, in)
	if _, there := p.Messages[0].Members["absent"]; !there {
		t.Fatal("null is no absence")
	}
	_, err = s.AppendWith(AppendOptions{Location: "l", Format: "openai"},
		map[string]string{"role": "assistant", "content": "yes"})
	must(t, err)
	p, err = s.Query(Query{Filter: Filter{Location: "l"}, Format: "openai"})
	must(t, err)
	equal(t, p.Messages[1].Str("content"), "yes")
}

func TestAgentReadsAsksAndAnswers(t *testing.T) {
	s := memory(t)
	_, err := s.Append("j", User("count"), New("reasoning", "hm").With("agent_key", "other"))
	must(t, err)
	to := Answer{Provider: OpenAI, Location: "j", AgentKey: "w"}
	answered, err := s.Answer(to, []byte(`{"choices":[{"message":{"tool_calls":[{"id":"c1",
		"function":{"name":"count","arguments":"{\"of\":[1,2]}"}}],"annotations":[{}]}}]}`))
	must(t, err)
	equal(t, answered.Calls, uint64(1))
	equal(t, answered.LeftOut, uint64(1))
	pending, err := s.Pending("j", "w")
	must(t, err)
	equal(t, string(pending.Calls[0].Args), `{"of":[1,2]}`)
	_, err = s.Append("j", pending.Calls[0].Result("2"))
	must(t, err)
	ask := Ask{Provider: OpenAI, Location: "j", AgentKey: "w", Model: "m", Tools: []any{},
		Extra: map[string]int{"seed": 7}, CompactAt: 1}
	request, err := s.Request(ask)
	must(t, err)
	if !json.Valid(request.Body) || !strings.Contains(string(request.Body), `"seed":7`) ||
		!request.Report.CompactionDue || request.Report.Counts["read"] == 0 {
		t.Fatal(string(request.Body), request.Report)
	}
	h, err := s.History(History{Location: "j", AgentKey: "w"})
	must(t, err)
	equal(t, len(h.Messages), 3)
	_, err = s.Answer(to, []byte(`{"error":{"message":"quota"}}`))
	is(t, err, ErrRefused)
	_, err = s.Answer(to, nil)
	is(t, err, ErrMissing)
	for _, provider := range []string{OpenAI, OpenAIResponses, ChatStrict, Anthropic, Gemini,
		Bedrock, GeminiInteractions, Ollama, DeepSeek, GLM, OpenRouter, Cohere} {
		_, err := s.Append(provider, User("x"))
		must(t, err)
		_, err = s.Request(Ask{Provider: provider, Location: provider, Model: "m"})
		must(t, err)
	}
}

func TestHistoryIsCompacted(t *testing.T) {
	s := memory(t)
	for i := range 6 {
		_, err := s.Append("c", User(fmt.Sprint("question ", i)), Assistant(fmt.Sprint("answer ", i)))
		must(t, err)
	}
	ask := Ask{Provider: OpenAI, Location: "c", Model: "m"}
	plan, err := s.CompactPlan(ask, 10)
	must(t, err)
	prompt := "Sum it up."
	body, err := s.CompactRequest(ask, plan.Upto, &prompt)
	must(t, err)
	if !strings.Contains(string(body), prompt) {
		t.Fatal(string(body))
	}
	seq, err := s.Compact(Compaction{Provider: OpenAI, Location: "c", Upto: plan.Upto,
		Summary: "all is well"}, nil)
	must(t, err)
	equal(t, seq, uint64(13))
	request, err := s.Request(ask)
	must(t, err)
	if strings.Contains(string(request.Body), "question 0") {
		t.Fatal(string(request.Body))
	}
}

func TestChangesAreSeen(t *testing.T) {
	s := memory(t)
	fill(t, s, "l", 5)
	must(t, s.Amend(1, User("new")))
	must(t, s.Hide(2))
	must(t, s.Redact(3))
	must(t, s.Note(1, "usage", map[string]int{"input_tokens": 3, "output_tokens": 4}))
	notes, err := s.Notes(1, "usage")
	must(t, err)
	equal(t, string(notes.Notes[0].Value), `{"input_tokens":3,"output_tokens":4}`)
	equal(t, []any{len(notes.Notes), notes.Notes[0].Kind, notes.Damaged, *notes.Notes[0].Time > 1e9},
		[]any{1, "usage", uint64(0), true})
	notes, err = s.Notes(1, "rating")
	must(t, err)
	equal(t, len(notes.Notes), 0)
	usage, err := s.Usage("l")
	must(t, err)
	equal(t, usage.OutputTokens, uint64(4))
	hidden, err := s.Rewind("l", 4)
	must(t, err)
	equal(t, hidden, uint64(1))
	must(t, s.Fork("l", 4, "m"))
	must(t, s.SetFacts("l", map[string]any{"title": "t"}))
	var facts map[string]string
	must(t, s.Facts("l", &facts))
	equal(t, facts["title"], "t")
	var texts []string
	for m, err := range s.Messages(Of("m")) {
		must(t, err)
		texts = append(texts, m.Text())
	}
	equal(t, texts, []string{"new", "[redacted]", "message 4"})
	items, err := s.List(List{})
	must(t, err)
	equal(t, len(items.Items), 2)
	found, err := s.Search(Search{Filter: Filter{Location: "l"}, Text: "MESSAGE"})
	must(t, err)
	equal(t, len(found.Matches), 1)
	is(t, s.Hide(99), ErrNotFound)
	since, err := s.Query(Query{Filter: Filter{Since: Seconds(time.Now().Add(time.Hour))}})
	must(t, err)
	equal(t, len(since.Messages), 0)
}

func TestWaitEnds(t *testing.T) {
	s := memory(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Wait(ctx, 0)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	start := time.Now()
	_, err = s.Wait(ctx, 0)
	if !errors.Is(err, context.Canceled) || time.Since(start) > 20*time.Second {
		t.Fatal(err)
	}
	go s.Append("l", User("x"))
	seq, err := s.Wait(context.Background(), 0)
	must(t, err)
	equal(t, seq, uint64(1))
	time.AfterFunc(10*time.Millisecond, func() { s.Close() })
	_, err = s.Wait(context.Background(), 1)
	is(t, err, ErrClosed)
}

func TestFollowerGetsEachMessageOnce(t *testing.T) {
	s := memory(t)
	go func() {
		for i := range 50 {
			s.Append("l", User(i))
			s.Append("other", User(i))
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	for m, err := range s.Follow(ctx, Of("l")) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			break
		}
		equal(t, fmt.Sprint(m.Members["content"]), strconv.Itoa(n))
		if n++; n == 50 {
			cancel()
		}
	}
	cancel()
	equal(t, n, 50)
}

func TestFortyGoroutinesLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.msl")
	s, err := Open(path)
	must(t, err)
	var all sync.WaitGroup
	for g := range 40 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range 25 {
				if _, err := s.Append("l"+strconv.Itoa(g%4), User(i)); err != nil {
					t.Error(err)
				}
				if _, err := s.Query(Query{Filter: Filter{Limit: 3}}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	got, err := seqs(s, Query{})
	must(t, err)
	equal(t, len(got), 1000)
	must(t, s.Close())
}

// A call that is in the library for a second ends before the store is freed.
func TestCloseWaitsForACall(t *testing.T) {
	s, err := Memory()
	must(t, err)
	ended := make(chan error)
	go func() {
		args := map[string]uint64{"after_seq": 1, "timeout_ms": 1000}
		ended <- s.Call("wait", args, nil, &struct{}{})
	}()
	for calls := 0; calls == 0; {
		time.Sleep(20 * time.Millisecond)
		s.mu.Lock()
		calls = s.calls
		s.mu.Unlock()
	}
	must(t, s.Close())
	must(t, <-ended)
}

// Closes a store beside calls of 40 goroutines, MSGSTORE_CLOSES times. Each call succeeds or
// is refused as closed, and what was appended is in the log.
func TestCloseBesideCallsInFlight(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("MSGSTORE_CLOSES"))
	path := filepath.Join(t.TempDir(), "a.msl")
	var refused atomic.Int64
	for range max(runs, 20) {
		os.Remove(path)
		s, err := Open(path)
		must(t, err)
		var appended atomic.Int64
		var all, begun sync.WaitGroup
		for g := range 40 {
			all.Add(1)
			begun.Add(1)
			go func() {
				defer all.Done()
				begun.Done()
				for {
					var err error
					if g < 4 { // in the library when the store is closed
						_, err = s.Wait(context.Background(), 1<<60)
					} else if g%2 == 0 {
						if _, err = s.Append("l", User("x")); err == nil {
							appended.Add(1)
						}
					} else {
						_, err = s.Query(Query{Filter: Filter{Limit: 20}})
					}
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						refused.Add(1)
						return
					}
				}
			}()
		}
		begun.Wait()
		for calls := 0; calls < 4; { // at least so many are in the library
			time.Sleep(time.Millisecond)
			s.mu.Lock()
			calls = s.calls
			s.mu.Unlock()
		}
		go s.Close()
		must(t, s.Close())
		all.Wait()
		s, err = OpenWith(path, Options{Mode: "read"})
		must(t, err)
		stat, err := s.Stat()
		must(t, err)
		equal(t, stat.Messages, uint64(appended.Load()))
		must(t, s.Close())
	}
	equal(t, refused.Load(), int64(40*max(runs, 20)))
}
