use crate::{Result, Type};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A message: an object with a `type`, the members of that type and any others. It is
/// written and read by serde as that object; [`Message::parse`] makes a type of your own
/// of it, and any `Serialize` can be appended.
///
/// ```
/// use msgstore::Message;
/// let message = Message::user("hello").with("turn_id", "t1").with("mood", 3);
/// assert_eq!(serde_json::to_value(&message).unwrap()["type"], "user_message");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message {
    pub members: Map<String, Value>,
    /// The number in the store that it was read from; 0: none, or several. It is no member.
    #[serde(skip)]
    pub seq: u64,
}

impl Message {
    pub fn new(kind: Type, content: impl Into<Value>) -> Message {
        Message::default().with("type", kind.word()).with("content", content)
    }

    pub fn user(content: impl Into<Value>) -> Message {
        Message::new(Type::UserMessage, content)
    }

    pub fn assistant(content: impl Into<Value>) -> Message {
        Message::new(Type::AssistantMessage, content)
    }

    /// A call of a tool; `args` is an object.
    pub fn action(tool: &str, args: impl Into<Value>, call_id: Option<&str>) -> Message {
        let message = Message::default().with("type", Type::Action.word()).with("tool", tool);
        message.with("args", args).id(call_id)
    }

    /// The result of a call.
    pub fn observation(content: impl Into<Value>, call_id: Option<&str>) -> Message {
        Message::new(Type::Observation, content).id(call_id)
    }

    fn id(self, call_id: Option<&str>) -> Message {
        match call_id {
            Some(id) => self.with("tool_call_id", id),
            None => self,
        }
    }

    /// Sets a member: `agent_key`, `turn_id`, `timestamp` (seconds), or one of your own.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Message {
        self.members.insert(name.into(), value.into());
        self
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// The word of its type, also of a type that [`Type`] does not have.
    pub fn kind(&self) -> &str {
        self.str("type")
    }

    /// Its content where that is text, else `""`.
    pub fn text(&self) -> &str {
        self.str("content")
    }

    /// A member that is text; `""` if it is absent or of another kind.
    pub fn str(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or("")
    }

    /// Makes a type of your own of it.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_value(Value::Object(self.members.clone()))?)
    }
}
