/* The flat interface: what msgstore.wasm exports, and the arguments of each function that is
 * called by its name. Programs need none of it; test/types.ts compares it with the other
 * declarations. Written by tools/flat.sh from bindings/flat.table and
 * bindings/msgstore_ffi.h. */

import type { Format, Provider } from "./msgstore.js";

/** Pointers and sizes are numbers. */
export interface WasmExports {
  memory: WebAssembly.Memory;
  malloc(size: number): number;
  free(at: number): void;
  /** Opens a store. `args` is one JSON object, or null with a length of 0. */
  ms_ffi_open(store: number, args: number, args_len: number, out: number,
              len: number): number;
  /** Opens a union of stores, which must outlive it. */
  ms_ffi_union(store: number, stores: number, n_stores: number, out: number,
               len: number): number;
  /** Calls a function by its name, which ends with a NUL. */
  ms_ffi_call(store: number, name: number, args: number, args_len: number, body: number,
              body_len: number, out: number, len: number): number;
  /** Frees a result; null is allowed. */
  ms_ffi_free(out: number): void;
  /** Closes a store, which no other thread may use; null is allowed. */
  ms_close(store: number): void;
}

export interface Arguments {
  open: {
    path?: string;
    mode?: "create" | "write" | "new" | "read";
    sync?: "none" | "every" | "each";
    sync_ms?: number;
    lock_wait_ms?: number;
    shared?: boolean;
    keep_unset_times?: boolean;
    buffer_at?: number;
    buffer_size?: number;
    attach?: boolean;
    salvage?: boolean;
  };
  verify: {
    path: string;
  };
  append: {
    location?: string;
    format?: Format;
    lenient?: boolean;
    expect_seq?: number;
  };
  query: {
    location?: string;
    views?: ("conversation" | "agent" | "team" | "global" | "timeline")[];
    types?: string[];
    agent_key?: string;
    agent_keys?: string[];
    turn_id?: string;
    since?: number;
    until?: number;
    after_seq?: number;
    before_seq?: number;
    limit?: number;
    format?: Format;
    oldest?: boolean;
    reverse?: boolean;
    by_time?: boolean;
  };
  history: {
    location: string;
    agent_key: string;
    subordinates?: string[];
    timeline?: boolean;
    by_time?: boolean;
    conversation_limit?: number;
    agent_limit?: number;
    team_limit?: number;
    global_limit?: number;
    limit?: number;
    scope?: "all" | "orchestrator" | "manager" | "worker" | "since_task";
    turns?: number;
    phase?: number;
    previous_phase?: number;
    format?: Format;
  };
  request: {
    provider: Provider;
    location: string;
    agent_key?: string;
    subordinates?: string[];
    model?: string;
    system?: string;
    tools?: unknown;
    extra?: unknown;
    newest?: number;
    budget?: number;
    thinking?: boolean | "off" | "on" | "running" | "calls" | "all";
    text_type?: string;
    compact_at?: number;
    full?: boolean;
    cache?: "off" | "5m" | "1h";
    cache_key?: string;
    previous?: boolean;
  };
  pending: {
    location: string;
    agent_key?: string;
    subordinates?: string[];
  };
  answer: {
    provider: Provider;
    location: string;
    agent_key?: string;
    text_type?: string;
    sent?: string;
  };
  compact_plan: {
    provider: Provider;
    location: string;
    agent_key?: string;
    subordinates?: string[];
    model?: string;
    system?: string;
    tools?: unknown;
    extra?: unknown;
    newest?: number;
    budget?: number;
    thinking?: boolean | "off" | "on" | "running" | "calls" | "all";
    text_type?: string;
    compact_at?: number;
    full?: boolean;
    cache?: "off" | "5m" | "1h";
    cache_key?: string;
    previous?: boolean;
    keep: number;
  };
  compact_request: {
    provider: Provider;
    location: string;
    agent_key?: string;
    subordinates?: string[];
    model?: string;
    system?: string;
    tools?: unknown;
    extra?: unknown;
    newest?: number;
    budget?: number;
    thinking?: boolean | "off" | "on" | "running" | "calls" | "all";
    text_type?: string;
    compact_at?: number;
    full?: boolean;
    cache?: "off" | "5m" | "1h";
    cache_key?: string;
    previous?: boolean;
    upto: number;
    prompt?: string;
  };
  compact: {
    provider: Provider;
    location: string;
    upto: number;
    agent_key?: string;
    model?: string;
    summary?: string;
    items?: unknown;
    all?: boolean;
    cause?: string;
    tokens_before?: number;
    tokens_after?: number;
  };
  search: {
    location?: string;
    views?: ("conversation" | "agent" | "team" | "global" | "timeline")[];
    types?: string[];
    agent_key?: string;
    agent_keys?: string[];
    turn_id?: string;
    since?: number;
    until?: number;
    after_seq?: number;
    before_seq?: number;
    limit?: number;
    text: string;
    exact_case?: boolean;
    oldest_first?: boolean;
  };
  amend: {
    seq: number;
    message: unknown;
    format?: Format;
  };
  hide: {
    seq: number;
  };
  rewind: {
    location: string;
    seq?: number;
  };
  redact: {
    seq: number;
  };
  note: {
    seq: number;
    kind: string;
    value: unknown;
  };
  notes: {
    seq: number;
    kind?: string;
  };
  fork: {
    location: string;
    seq: number;
    to: string;
  };
  set_facts: {
    location: string;
    value: unknown;
  };
  facts: {
    location: string;
  };
  list: {
    agents?: boolean;
    location?: string;
    prefix?: string;
    limit?: number;
  };
  stat: {
  };
  usage: {
    location?: string;
  };
  sync: {
  };
  wait: {
    after_seq?: number;
    timeout_ms?: number;
  };
  backup: {
    to_path: string;
    newest?: number;
    newest_bytes?: number;
    since?: number;
    whole_turns?: boolean;
    locations?: string[];
    dry_run?: boolean;
  };
  copy: {
    from_path: string;
    newest?: number;
    newest_bytes?: number;
    since?: number;
    whole_turns?: boolean;
    locations?: string[];
    dry_run?: boolean;
  };
  rewrite: {
    path: string;
    lock_wait_ms?: number;
    newest?: number;
    newest_bytes?: number;
    since?: number;
    whole_turns?: boolean;
    locations?: string[];
    dry_run?: boolean;
  };
}
