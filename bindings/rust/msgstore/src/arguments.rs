//! The arguments of calls. `None`, `false` and `Default::default()` leave one out.

use crate::{Cache, Format, Mode, Provider, Scope, SyncMode, Thinking, Type, View};
use serde::{ser::Error, Serialize, Serializer};
use serde_json::Value;

/// Writes seconds. JSON has neither NaN nor infinity: as null a bound would be none.
fn finite<S: Serializer>(seconds: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match seconds {
        Some(s) if !s.is_finite() => Err(S::Error::custom("a time is not finite")),
        _ => seconds.serialize(to),
    }
}

/// How a log is opened. [`Options::open`] does it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Options {
    /// `None`: [`Mode::Create`].
    pub mode: Option<Mode>,
    /// `None`: [`SyncMode::None`].
    pub sync: Option<SyncMode>,
    /// Milliseconds between syncs of [`SyncMode::Every`].
    pub sync_ms: Option<u32>,
    /// How long an append waits for another process that writes.
    pub lock_wait_ms: Option<u32>,
    /// Several processes write; each of them sets it.
    pub shared: bool,
    /// Messages without a time stay without one.
    pub keep_unset_times: bool,
}

/// What [`Store::append_with`](crate::Store::append_with) does with a list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Append<'a> {
    /// Of all messages; `None`: each has a member `location`.
    pub location: Option<&'a str>,
    pub format: Option<Format>,
    /// Items that the format does not have are kept as they are.
    pub lenient: bool,
    /// [`Error::Conflict`](crate::Error::Conflict) unless that is the number of the last
    /// message of `location`; 0: it has none.
    pub expect_seq: Option<u64>,
}

/// What a copy has; the default is everything. The limits are of each location.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Keep<'a> {
    /// The newest so many messages.
    pub newest: Option<u64>,
    /// The newest of at most so many bytes together.
    pub newest_bytes: Option<u64>,
    /// Seconds since 1970; messages without a time stay, too.
    #[serde(serialize_with = "finite")]
    pub since: Option<f64>,
    /// A turn of which one message stays is whole.
    pub whole_turns: bool,
    /// Only these.
    pub locations: Option<&'a [&'a str]>,
    /// Only counts.
    pub dry_run: bool,
}

macro_rules! filtered {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Serialize)]
        pub struct $name<'a> {
            $($(#[$about])* pub $field: $type,)*
            /// `None`: all locations.
            pub location: Option<&'a str>,
            /// `None`: everything, or with `agent_key` or `agent_keys` what these wrote. An
            /// empty list of views, types or agents selects nothing.
            pub views: Option<&'a [View]>,
            pub types: Option<&'a [Type]>,
            pub agent_key: Option<&'a str>,
            pub agent_keys: Option<&'a [&'a str]>,
            pub turn_id: Option<&'a str>,
            /// Seconds since 1970.
            #[serde(serialize_with = "finite")]
            pub since: Option<f64>,
            /// Before this time.
            #[serde(serialize_with = "finite")]
            pub until: Option<f64>,
            pub after_seq: Option<u64>,
            pub before_seq: Option<u64>,
            /// At most so many; 0: all.
            pub limit: Option<usize>,
        }
    };
}

filtered! {
    /// A selection of messages, oldest first; `limit` keeps the newest.
    Query {
        /// `limit` keeps the oldest.
        oldest: bool,
        /// Newest first.
        reverse: bool,
        by_time: bool,
        /// Of [`Page::messages`](crate::Page::messages); `None`: [`Format::Framework`].
        format: Option<Format>,
    }
}

filtered! {
    /// A search, newest message first; `limit` counts matches and is 100 if left out.
    Search {
        text: &'a str,
        exact_case: bool,
        oldest_first: bool,
    }
}

impl<'a> Query<'a> {
    /// Everything of a location.
    pub fn location(location: &'a str) -> Query<'a> {
        Query { location: Some(location), ..Query::default() }
    }
}

impl<'a> Search<'a> {
    pub fn text(text: &'a str) -> Search<'a> {
        Search { text, ..Search::default() }
    }
}

/// What an agent reads: conversation, its own steps, its team's, global messages.
#[derive(Clone, Debug, Default, Serialize)]
pub struct History<'a> {
    pub location: &'a str,
    pub agent_key: &'a str,
    pub subordinates: Option<&'a [&'a str]>,
    /// One list by number instead of blocks; `limit` keeps its newest.
    pub timeline: bool,
    pub by_time: bool,
    pub conversation_limit: Option<usize>,
    pub agent_limit: Option<usize>,
    pub team_limit: Option<usize>,
    pub global_limit: Option<usize>,
    pub limit: Option<usize>,
    pub scope: Option<Scope>,
    pub turns: Option<usize>,
    pub phase: Option<i64>,
    pub previous_phase: Option<i64>,
    pub format: Option<Format>,
}

/// A request to a provider. [`Ask::new`] leaves all out that can be.
#[derive(Clone, Debug, Serialize)]
pub struct Ask<'a> {
    pub provider: Provider,
    pub location: &'a str,
    /// The request has what this agent reads.
    pub agent_key: Option<&'a str>,
    pub subordinates: Option<&'a [&'a str]>,
    pub model: Option<&'a str>,
    pub system: Option<&'a str>,
    /// A list as the provider has it.
    pub tools: Option<Value>,
    /// An object: more members of the request, such as max_tokens.
    pub extra: Option<Value>,
    /// At most so many messages.
    pub newest: Option<usize>,
    /// At most so many tokens.
    pub budget: Option<usize>,
    pub thinking: Option<Thinking>,
    pub text_type: Option<Type>,
    /// [`Report::compaction_due`](crate::Report::compaction_due) from so many tokens on.
    pub compact_at: Option<u64>,
    /// All messages, although a compaction covers them.
    pub full: bool,
    pub cache: Option<Cache>,
    pub cache_key: Option<&'a str>,
    /// Only what is new is sent; pass [`Report::sent`](crate::Report::sent) on to
    /// [`Answer::sent`]. For openai-responses and gemini-interactions.
    pub previous: bool,
}

impl<'a> Ask<'a> {
    pub fn new(provider: Provider, location: &'a str) -> Ask<'a> {
        Ask { provider, location, agent_key: None, subordinates: None, model: None,
              system: None, tools: None, extra: None, newest: None, budget: None,
              thinking: None, text_type: None, compact_at: None, full: false, cache: None,
              cache_key: None, previous: false }
    }
}

/// Where an answer is stored.
#[derive(Clone, Debug, Serialize)]
pub struct Answer<'a> {
    pub provider: Provider,
    pub location: &'a str,
    pub agent_key: Option<&'a str>,
    /// For whom its texts are: [`Type::AssistantMessage`] (`None`) for all agents,
    /// [`Type::Final`] for the agent and its managers, [`Type::Synthesis`] for all.
    pub text_type: Option<Type>,
    /// [`Report::sent`](crate::Report::sent) of its own request.
    pub sent: Option<&'a str>,
}

impl<'a> Answer<'a> {
    pub fn new(provider: Provider, location: &'a str) -> Answer<'a> {
        Answer { provider, location, agent_key: None, text_type: None, sent: None }
    }
}

/// A compaction to be stored: the provider's answer, or a summary, items, or both.
#[derive(Clone, Debug, Serialize)]
pub struct Compaction<'a> {
    pub provider: Provider,
    pub location: &'a str,
    /// [`Plan::upto`](crate::Plan::upto).
    pub upto: u64,
    pub agent_key: Option<&'a str>,
    pub model: Option<&'a str>,
    pub summary: Option<&'a str>,
    pub items: Option<Value>,
    /// For all agents.
    pub all: bool,
    pub cause: Option<&'a str>,
    pub tokens_before: Option<u64>,
    pub tokens_after: Option<u64>,
}

impl<'a> Compaction<'a> {
    pub fn new(provider: Provider, location: &'a str, upto: u64) -> Compaction<'a> {
        Compaction { provider, location, upto, agent_key: None, model: None, summary: None,
                     items: None, all: false, cause: None, tokens_before: None,
                     tokens_after: None }
    }
}

/// A listing of locations, or of agents, newest activity first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct List<'a> {
    pub agents: bool,
    /// Of which agents are listed; `None`: of all locations.
    pub location: Option<&'a str>,
    pub prefix: Option<&'a str>,
    pub limit: Option<usize>,
}
