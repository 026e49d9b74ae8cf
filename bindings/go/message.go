package msgstore

import (
	"bytes"
	"encoding/json"
)

// A Message is an object with a "type", the members of that type, and any others. As JSON
// it is that object. Numbers that were read are json.Number.
type Message struct {
	Members map[string]any
	// The number in the store that it was read from; 0: none, or several. It is no member.
	Seq uint64
}

// New makes a message of a type that has a content.
func New(kind string, content any) Message {
	return Message{Members: map[string]any{"type": kind, "content": content}}
}

// User makes a message of the user.
func User(content any) Message { return New("user_message", content) }

// Assistant makes a message of the assistant.
func Assistant(content any) Message { return New("assistant_message", content) }

// Action makes a call of a tool. args becomes a JSON object. callID "": none.
func Action(tool string, args any, callID string) Message {
	m := Message{Members: map[string]any{"type": "action", "tool": tool, "args": args}}
	return m.id(callID)
}

// Observation makes the result of a call.
func Observation(content any, callID string) Message {
	return New("observation", content).id(callID)
}

func (m Message) id(callID string) Message {
	if callID == "" {
		return m
	}
	return m.With("tool_call_id", callID)
}

// With sets a member, such as "agent_key", "turn_id" or "timestamp" (seconds), and returns
// the message, which shares its members with m.
func (m Message) With(name string, value any) Message {
	if m.Members == nil {
		m.Members = map[string]any{}
	}
	m.Members[name] = value
	return m
}

// Type is the word of its type.
func (m Message) Type() string { return m.Str("type") }

// Text is its content where that is text, else "".
func (m Message) Text() string { return m.Str("content") }

// Str is a member that is text; "" if it is absent or of another kind.
func (m Message) Str(name string) string {
	text, _ := m.Members[name].(string)
	return text
}

// Decode fills a value of your own, as json.Unmarshal does.
func (m Message) Decode(to any) error {
	text, err := json.Marshal(m.Members)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return badJSON(err)
	}
	return nil
}

func (m Message) MarshalJSON() ([]byte, error) { return json.Marshal(m.Members) }

func (m *Message) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	m.Members = nil
	return decoder.Decode(&m.Members)
}
