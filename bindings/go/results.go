package msgstore

import "encoding/json"

// A Page has the messages of a query or a history.
type Page struct {
	// Where a format joins messages there are fewer of them than Seqs, and their Seq is 0.
	Messages []Message `json:"messages"`
	Seqs     []uint64  `json:"seqs"`
	// Unreadable records that this page met; it may lack their messages.
	Damaged uint64 `json:"damaged"`
}

// A Request is the body of a request, as it is to be sent, and what was done to it.
type Request struct {
	Body   json.RawMessage `json:"body"`
	Report Report          `json:"report"`
}

// A Report has the counts of ms_project_report, by their names.
type Report struct {
	CompactionDue bool
	Sent          string // for Answer.Sent, if the request had Previous
	Counts        map[string]uint64
}

func (r *Report) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	r.Counts = make(map[string]uint64, len(members))
	for name, value := range members {
		var err error
		switch name {
		case "compaction_due":
			err = json.Unmarshal(value, &r.CompactionDue)
		case "sent":
			err = json.Unmarshal(value, &r.Sent)
		default:
			var count uint64
			err = json.Unmarshal(value, &count)
			r.Counts[name] = count
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Answered says what was stored of an answer.
type Answered struct {
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	Messages uint64 `json:"messages"`
	Calls    uint64 `json:"calls"`    // 0: no tool is to be called
	LeftOut  uint64 `json:"left_out"` // names of members that are not stored
	Stop     string `json:"stop"`     // the provider's reason to stop
}

// A Call is a call of a tool without a result.
type Call struct {
	Seq      uint64          `json:"seq"`
	ID       string          `json:"id"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args"` // a string where the model wrote no JSON
	AgentKey string          `json:"agent_key"`
}

// Result makes the message that is its result.
func (c Call) Result(content any) Message {
	m := Observation(content, c.ID)
	if c.AgentKey != "" {
		m = m.With("agent_key", c.AgentKey)
	}
	return m
}

// Pending has the calls without a result, oldest first.
type Pending struct {
	Calls      []Call `json:"calls"`
	Unfinished uint64 `json:"unfinished"` // left out: of a stream that has not ended
	Abandoned  uint64 `json:"abandoned"`  // left out: the agent has answered since
	Answered   bool   `json:"answered"`   // nothing is to be run or asked
}

// A Plan is what a compaction would cover.
type Plan struct {
	Due      bool   `json:"due"`
	Cost     uint64 `json:"cost"`
	FirstSeq uint64 `json:"first_seq"`
	Upto     uint64 `json:"upto"` // 0: nothing can be covered now
	Messages uint64 `json:"messages"`
	Kept     uint64 `json:"kept"`
}

// Matches of a search. Damaged: unreadable records, which may have matched.
type Matches struct {
	Matches []Match `json:"matches"`
	Damaged uint64  `json:"damaged"`
}

type Match struct {
	Seq      uint64 `json:"seq"`
	Location string `json:"location"`
	AgentKey string `json:"agent_key"`
	Type     string `json:"type"`
	Field    string `json:"field"`
	Snippet  string `json:"snippet"`
}

// Items of a listing. Damaged, not 0: names or counts of damaged messages may be missing.
type Items struct {
	Items   []Item `json:"items"`
	Damaged uint64 `json:"damaged"`
}

type Item struct {
	Location  string   `json:"location"`
	AgentKey  string   `json:"agent_key"`
	Messages  uint64   `json:"messages"`
	FirstSeq  uint64   `json:"first_seq"`
	LastSeq   uint64   `json:"last_seq"`
	FirstTime *float64 `json:"first_time"` // seconds since 1970
	LastTime  *float64 `json:"last_time"`
}

type Stat struct {
	Version    string `json:"version"` // of the C library
	Messages   uint64 `json:"messages"`
	LastSeq    uint64 `json:"last_seq"`
	Bytes      uint64 `json:"bytes"`
	IndexBytes uint64 `json:"index_bytes"`
	Hidden     uint64 `json:"hidden"`
	Changes    uint64 `json:"changes"`
	Damaged    uint64 `json:"damaged"`
}

// Notes of a message. Damaged: unreadable records, which may have been notes.
type Notes struct {
	Notes   []NoteOf `json:"notes"`
	Damaged uint64   `json:"damaged"`
}

// A NoteOf is a note of a message.
type NoteOf struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"` // nil: it has none
	Time  *float64        `json:"time"`  // seconds since 1970
}

// Usage is the sum of usage notes. Damaged: unreadable records, which may have been notes.
type Usage struct {
	Notes           uint64  `json:"notes"`
	InputTokens     uint64  `json:"input_tokens"`
	OutputTokens    uint64  `json:"output_tokens"`
	CachedTokens    uint64  `json:"cached_tokens"`
	ReasoningTokens uint64  `json:"reasoning_tokens"`
	Seconds         float64 `json:"seconds"`
	Damaged         uint64  `json:"damaged"`
}
