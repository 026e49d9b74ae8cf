//! What calls return.

use crate::Message;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::Value;
use std::collections::BTreeMap;

/// Messages of a query or a history.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// In a format that joins messages there are fewer of them than `seqs`, and their
    /// `seq` is 0.
    pub messages: Vec<Message>,
    pub seqs: Vec<u64>,
    /// Unreadable records that this page met; it may lack their messages.
    pub damaged: u64,
}

/// The body of a request and what was done so that the provider takes it.
#[derive(Clone, Debug, Deserialize)]
pub struct Request {
    /// `body.get()` is the text as it is to be sent.
    pub body: Box<RawValue>,
    pub report: Report,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Report {
    pub compaction_due: bool,
    /// For [`Answer::sent`](crate::Answer::sent), if the request had `previous`.
    #[serde(default)]
    pub sent: Option<String>,
    /// The counts of `ms_project_report`: `left_out`, `merged`, `synthesised`, ...
    #[serde(flatten)]
    pub counts: BTreeMap<String, u64>,
}

/// What was stored of an answer.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Answered {
    pub first_seq: u64,
    pub last_seq: u64,
    pub messages: u64,
    /// 0: no tool is to be called.
    pub calls: u64,
    /// Names of members that are not stored.
    #[serde(default)]
    pub left_out: u64,
    /// The provider's reason to stop.
    #[serde(default)]
    pub stop: String,
}

/// A call of a tool that has no result.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    pub seq: u64,
    #[serde(default)]
    pub id: Option<String>,
    pub tool: String,
    /// JSON; a string where the model wrote no JSON.
    #[serde(default)]
    pub args: Value,
    #[serde(default)]
    pub agent_key: Option<String>,
}

impl Call {
    /// The message that is its result.
    pub fn result(&self, content: impl Into<Value>) -> Message {
        let message = Message::observation(content, self.id.as_deref());
        match &self.agent_key {
            Some(agent) => message.with("agent_key", agent.as_str()),
            None => message,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pending {
    pub calls: Vec<Call>,
    /// Left out: calls of a stream that has not ended.
    pub unfinished: u64,
    /// Left out: calls that the agent has answered since.
    pub abandoned: u64,
    /// Nothing is to be run or asked.
    pub answered: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Plan {
    pub due: bool,
    pub cost: u64,
    pub first_seq: u64,
    /// 0: nothing can be covered now.
    pub upto: u64,
    pub messages: u64,
    pub kept: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Match {
    pub seq: u64,
    #[serde(default)]
    pub location: Option<String>,
    #[serde(default)]
    pub agent_key: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
    pub field: String,
    pub snippet: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Matches {
    pub matches: Vec<Match>,
    /// Unreadable records, which may have matched.
    pub damaged: u64,
}

/// A note of a message.
#[derive(Clone, Debug, Deserialize)]
pub struct Note {
    pub kind: String,
    /// `None` where the note has no value.
    #[serde(default)]
    pub value: Option<serde_json::Value>,
    /// Seconds since 1970.
    #[serde(default)]
    pub time: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Notes {
    pub notes: Vec<Note>,
    /// Unreadable records, which may have been notes.
    pub damaged: u64,
}

/// A location, or an agent of one.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Item {
    #[serde(default)]
    pub location: Option<String>,
    #[serde(default)]
    pub agent_key: Option<String>,
    pub messages: u64,
    pub first_seq: u64,
    pub last_seq: u64,
    /// Seconds since 1970.
    pub first_time: Option<f64>,
    pub last_time: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Items {
    pub items: Vec<Item>,
    /// Not 0: names or counts of damaged messages may be missing.
    #[serde(default)]
    pub damaged: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Stat {
    /// Of the C library.
    pub version: String,
    pub messages: u64,
    pub last_seq: u64,
    pub bytes: u64,
    pub index_bytes: u64,
    pub hidden: u64,
    pub changes: u64,
    pub damaged: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Usage {
    pub notes: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
    pub seconds: f64,
    /// Unreadable records, which may have been notes.
    pub damaged: u64,
}

/// The result of [`verify`](crate::verify) and of copies, which have all but what is damaged.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    pub damaged: bool,
    /// The counts of `ms_log_report`, or of `ms_copy_report`.
    pub counts: BTreeMap<String, u64>,
}
