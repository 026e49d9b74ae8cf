//! The words of the interface, as enums.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$about])* $variant,)* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl FromStr for $name {
            type Err = crate::Error;
            fn from_str(word: &str) -> Result<$name, crate::Error> {
                $name::ALL.iter().copied().find(|each| each.word() == word).ok_or_else(|| {
                    crate::Error::argument("word", format!(
                        "{word:?} is no {}", stringify!($name)))
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.word())
            }
        }
    };
}

words! {
    /// The types of messages, `MS_TYPES` of msgstore.h.
    Type {
        UserMessage "user_message",
        AssistantMessage "assistant_message",
        Text "text",
        /// A call of a tool.
        Action "action",
        /// The result of a call.
        Observation "observation",
        /// The failure of a call.
        Error "error",
        Final "final",
        Task "task",
        Synthesis "synthesis",
        StrategicPlan "strategic_plan",
        SuggestedPlan "suggested_plan",
        ScriptPlan "script_plan",
        ScriptInstruction "script_instruction",
        Delegation "delegation",
        GlobalObservation "global_observation",
        DirectorContext "director_context",
        InjectedContext "injected_context",
        InputRequired "input_required",
        ApprovalRequired "approval_required",
        Delta "delta",
        MultimodalPart "multimodal_part",
        Data "data",
        Reasoning "reasoning",
        Compaction "compaction",
    }
}

words! {
    /// What a query selects; each message once.
    View {
        Conversation "conversation",
        /// The steps of `agent_key`.
        Agent "agent",
        /// Everything of `agent_keys`.
        Team "team",
        Global "global",
        Timeline "timeline",
    }
}

words! {
    /// Who takes a request, and whose answer it is.
    Provider {
        OpenAi "openai",
        OpenAiResponses "openai-responses",
        ChatStrict "chat-strict",
        Anthropic "anthropic",
        Gemini "gemini",
        Bedrock "bedrock",
        GeminiInteractions "gemini-interactions",
        Ollama "ollama",
        DeepSeek "deepseek",
        Glm "glm",
        OpenRouter "openrouter",
        Cohere "cohere",
    }
}

words! {
    /// How messages are written and read.
    Format {
        /// That of [`Message`](crate::Message).
        Framework "framework",
        OpenAi "openai",
        OpenAiResponses "openai-responses",
        Anthropic "anthropic",
        Gemini "gemini",
        GeminiInteractions "gemini-interactions",
        Bedrock "bedrock",
        PydanticAi "pydantic-ai",
        Envelope "envelope",
        Task "task",
        Session "session",
    }
}

words! {
    /// How a log is opened.
    Mode {
        /// It is made if it is missing.
        Create "create",
        /// It must be there.
        Write "write",
        /// It must not be there.
        New "new",
        /// Nothing is locked or written.
        Read "read",
    }
}

words! {
    /// When appends become durable. They survive the death of the process in each mode.
    SyncMode {
        /// When `sync` or a close says so.
        None "none",
        /// Every `sync_ms`, as long as appends go on.
        Every "every",
        /// Before each append returns.
        Each "each",
    }
}

words! {
    /// How long anthropic and bedrock cache what a request shares with the next.
    Cache { FiveMinutes "5m", OneHour "1h", }
}

words! {
    /// Whose thinking goes back to its provider.
    Thinking {
        /// As the provider wants it.
        On "on",
        Running "running",
        Calls "calls",
        All "all",
    }
}

words! {
    /// What of a history an agent reads.
    Scope {
        Orchestrator "orchestrator",
        Manager "manager",
        Worker "worker",
        SinceTask "since_task",
    }
}
