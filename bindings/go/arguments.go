package msgstore

import "time"

// Providers, for Ask and Answer.
const (
	OpenAI             = "openai"
	OpenAIResponses    = "openai-responses"
	ChatStrict         = "chat-strict" // others that copy chat completions
	Anthropic          = "anthropic"
	Gemini             = "gemini"
	GeminiInteractions = "gemini-interactions"
	Bedrock            = "bedrock"
	Ollama             = "ollama"
	DeepSeek           = "deepseek"
	GLM                = "glm"
	OpenRouter         = "openrouter"
	Cohere             = "cohere"
)

// Seconds is a time for Query.Since and Query.Until.
func Seconds(t time.Time) *float64 {
	seconds := float64(t.UnixMicro()) / 1e6
	return &seconds
}

// Options of a log. The zero value is the default.
type Options struct {
	Mode           string `json:"mode,omitempty"`    // "create", "write", "new", "read"
	Sync           string `json:"sync,omitempty"`    // "none", "every", "each"
	SyncMS         uint32 `json:"sync_ms,omitempty"` // of "every"
	LockWaitMS     uint32 `json:"lock_wait_ms,omitempty"`
	Shared         bool   `json:"shared,omitempty"` // several processes write, each sets it
	KeepUnsetTimes bool   `json:"keep_unset_times,omitempty"`
}

// Keep is what a copy has. The zero value is everything; the limits are of each location.
type Keep struct {
	Newest      uint64   `json:"newest,omitempty"`
	NewestBytes uint64   `json:"newest_bytes,omitempty"`
	Since       *float64 `json:"since,omitempty"` // messages without a time stay, too
	WholeTurns  bool     `json:"whole_turns,omitempty"`
	Locations   []string `json:"locations"`         // nil: all
	DryRun      bool     `json:"dry_run,omitempty"` // only counts
}

// AppendOptions say what AppendWith does with a list.
type AppendOptions struct {
	Location  string  `json:"location,omitempty"` // "": each message has its own
	Format    string  `json:"format,omitempty"`
	Lenient   bool    `json:"lenient,omitempty"`
	ExpectSeq *uint64 `json:"expect_seq,omitempty"` // ErrConflict unless it is the last one
}

// A Filter selects messages. The zero value is all of all locations. A list that is nil is
// left out; one that is empty selects nothing.
type Filter struct {
	Location  string   `json:"location,omitempty"`
	Views     []string `json:"views"` // "conversation", "agent", "team", "global", "timeline"
	Types     []string `json:"types"`
	AgentKey  string   `json:"agent_key,omitempty"`
	AgentKeys []string `json:"agent_keys"`
	TurnID    *string  `json:"turn_id,omitempty"`
	Since     *float64 `json:"since,omitempty"` // seconds since 1970
	Until     *float64 `json:"until,omitempty"` // before this time
	AfterSeq  uint64   `json:"after_seq,omitempty"`
	BeforeSeq uint64   `json:"before_seq,omitempty"`
	Limit     int      `json:"limit,omitempty"` // 0: all; of a search 100
}

// A Query reads messages, oldest first; Limit keeps the newest.
type Query struct {
	Filter
	Oldest  bool   `json:"oldest,omitempty"`  // Limit keeps the oldest
	Reverse bool   `json:"reverse,omitempty"` // newest first
	ByTime  bool   `json:"by_time,omitempty"`
	Format  string `json:"format,omitempty"`
}

// Of is a query for a location.
func Of(location string) Query { return Query{Filter: Filter{Location: location}} }

// A Search finds a text, newest message first.
type Search struct {
	Filter
	Text        string `json:"text"`
	ExactCase   bool   `json:"exact_case,omitempty"`
	OldestFirst bool   `json:"oldest_first,omitempty"`
}

// A History is what an agent reads.
type History struct {
	Location          string   `json:"location,omitempty"`
	AgentKey          string   `json:"agent_key,omitempty"`
	Subordinates      []string `json:"subordinates"`
	Timeline          bool     `json:"timeline,omitempty"`
	ByTime            bool     `json:"by_time,omitempty"`
	ConversationLimit int      `json:"conversation_limit,omitempty"`
	AgentLimit        int      `json:"agent_limit,omitempty"`
	TeamLimit         int      `json:"team_limit,omitempty"`
	GlobalLimit       int      `json:"global_limit,omitempty"`
	Limit             int      `json:"limit,omitempty"` // of a timeline
	Scope             string   `json:"scope,omitempty"`
	Turns             int      `json:"turns,omitempty"`
	Phase             *int64   `json:"phase,omitempty"`
	PreviousPhase     *int64   `json:"previous_phase,omitempty"`
	Format            string   `json:"format,omitempty"`
}

// An Ask is a request to a provider.
type Ask struct {
	Provider     string   `json:"provider,omitempty"`
	Location     string   `json:"location,omitempty"`
	AgentKey     string   `json:"agent_key,omitempty"` // it has what this agent reads
	Subordinates []string `json:"subordinates"`
	Model        string   `json:"model,omitempty"`
	System       string   `json:"system,omitempty"`
	Tools        any      `json:"tools,omitempty"` // a list as the provider has it
	Extra        any      `json:"extra,omitempty"` // an object: max_tokens, ...
	Newest       int      `json:"newest,omitempty"`
	Budget       int      `json:"budget,omitempty"`   // tokens
	Thinking     string   `json:"thinking,omitempty"` // "on", "running", "calls", "all"
	TextType     string   `json:"text_type,omitempty"`
	CompactAt    uint64   `json:"compact_at,omitempty"`
	Full         bool     `json:"full,omitempty"`
	Cache        string   `json:"cache,omitempty"` // "5m", "1h"
	CacheKey     string   `json:"cache_key,omitempty"`
	Previous     bool     `json:"previous,omitempty"`
}

// An Answer says where the answer of a provider is stored.
type Answer struct {
	Provider string `json:"provider,omitempty"`
	Location string `json:"location,omitempty"`
	AgentKey string `json:"agent_key,omitempty"`
	TextType string `json:"text_type,omitempty"`
	Sent     string `json:"sent,omitempty"` // Report.Sent of its own request
}

// A Compaction is stored from a provider's answer, or from a summary, items, or both.
type Compaction struct {
	Provider     string `json:"provider,omitempty"`
	Location     string `json:"location,omitempty"`
	Upto         uint64 `json:"upto"` // of the plan
	AgentKey     string `json:"agent_key,omitempty"`
	Model        string `json:"model,omitempty"`
	Summary      string `json:"summary,omitempty"`
	Items        any    `json:"items,omitempty"`
	All          bool   `json:"all,omitempty"`
	Cause        string `json:"cause,omitempty"`
	TokensBefore uint64 `json:"tokens_before,omitempty"`
	TokensAfter  uint64 `json:"tokens_after,omitempty"`
}

// A List is of locations, or of agents, newest activity first.
type List struct {
	Agents   bool   `json:"agents,omitempty"`
	Location string `json:"location,omitempty"`
	Prefix   string `json:"prefix,omitempty"`
	Limit    int    `json:"limit,omitempty"`
}
