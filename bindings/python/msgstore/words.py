"""The words that arguments take, for type checkers. The library checks them, too.

Written by tools/flat.sh from bindings/msgstore_ffi.h.
"""

from typing import Literal

Mode = Literal["create", "write", "new", "read"]
Sync = Literal["none", "every", "each"]
View = Literal["conversation", "agent", "team", "global", "timeline"]
Format = Literal["framework", "task", "session", "envelope", "envelope-rows",
                 "openai", "chat-strict", "anthropic", "gemini", "pydantic-ai",
                 "openai-responses", "bedrock", "gemini-interactions"]
Provider = Literal["openai", "chat-strict", "anthropic", "gemini", "ollama",
                   "deepseek", "glm", "openrouter", "openai-responses", "bedrock",
                   "gemini-interactions", "cohere"]
Cache = Literal["off", "5m", "1h"]
Thinking = Literal["off", "on", "running", "calls", "all"]
