"""The C functions of the flat interface for ctypes, each with its result and its arguments;
and the arguments of the functions that are called by their names.

Written by tools/flat.sh from bindings/flat.table and bindings/msgstore_ffi.h.
"""

import ctypes
from typing import Any, Dict, List, Tuple

STORE = ctypes.c_void_p
OUT = ctypes.POINTER(ctypes.c_void_p)
SIZE = ctypes.POINTER(ctypes.c_size_t)

FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "ms_ffi_open": (ctypes.c_int, [OUT, ctypes.c_char_p, ctypes.c_size_t, OUT, SIZE]),
    "ms_ffi_union": (ctypes.c_int, [OUT, OUT, ctypes.c_size_t, OUT, SIZE]),
    "ms_ffi_call": (ctypes.c_int, [STORE, ctypes.c_char_p, ctypes.c_char_p,
                                   ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
                                   OUT, SIZE]),
    "ms_ffi_free": (None, [ctypes.c_void_p]),
    "ms_close": (None, [STORE]),
}

ARGUMENTS: Dict[str, Tuple[str, ...]] = {
    "open": ("path", "mode", "sync", "sync_ms", "lock_wait_ms", "shared",
        "keep_unset_times", "buffer_at", "buffer_size", "attach", "salvage",),
    "verify": ("path",),
    "append": ("location", "format", "lenient", "expect_seq",),
    "query": ("location", "views", "types", "agent_key", "agent_keys", "turn_id",
        "since", "until", "after_seq", "before_seq", "limit", "format", "oldest",
        "reverse", "by_time",),
    "history": ("location", "agent_key", "subordinates", "timeline", "by_time",
        "conversation_limit", "agent_limit", "team_limit", "global_limit", "limit",
        "scope", "turns", "phase", "previous_phase", "format",),
    "request": ("provider", "location", "agent_key", "subordinates", "model", "system",
        "tools", "extra", "newest", "budget", "thinking", "text_type", "compact_at",
        "full", "cache", "cache_key", "previous",),
    "pending": ("location", "agent_key", "subordinates",),
    "answer": ("provider", "location", "agent_key", "text_type", "sent",),
    "compact_plan": ("provider", "location", "agent_key", "subordinates", "model",
        "system", "tools", "extra", "newest", "budget", "thinking", "text_type",
        "compact_at", "full", "cache", "cache_key", "previous", "keep",),
    "compact_request": ("provider", "location", "agent_key", "subordinates", "model",
        "system", "tools", "extra", "newest", "budget", "thinking", "text_type",
        "compact_at", "full", "cache", "cache_key", "previous", "upto", "prompt",),
    "compact": ("provider", "location", "upto", "agent_key", "model", "summary",
        "items", "all", "cause", "tokens_before", "tokens_after",),
    "search": ("location", "views", "types", "agent_key", "agent_keys", "turn_id",
        "since", "until", "after_seq", "before_seq", "limit", "text", "exact_case",
        "oldest_first",),
    "amend": ("seq", "message", "format",),
    "hide": ("seq",),
    "rewind": ("location", "seq",),
    "redact": ("seq",),
    "note": ("seq", "kind", "value",),
    "notes": ("seq", "kind",),
    "fork": ("location", "seq", "to",),
    "set_facts": ("location", "value",),
    "facts": ("location",),
    "list": ("agents", "location", "prefix", "limit",),
    "stat": (),
    "usage": ("location",),
    "sync": (),
    "wait": ("after_seq", "timeout_ms",),
    "backup": ("to_path", "newest", "newest_bytes", "since", "whole_turns",
        "locations", "dry_run",),
    "copy": ("from_path", "newest", "newest_bytes", "since", "whole_turns",
        "locations", "dry_run",),
    "rewrite": ("path", "lock_wait_ms", "newest", "newest_bytes", "since",
        "whole_turns", "locations", "dry_run",),
}
