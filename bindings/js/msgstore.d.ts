/// <reference lib="esnext.disposable" />

/* A message in the format of the options; by default the library's own. */
export interface Message {
  type: string;
  content?: unknown;
  tool?: string;
  args?: Record<string, unknown>;
  tool_call_id?: string;
  agent_key?: string;
  turn_id?: string;
  timestamp?: number;
  location?: string;
  [member: string]: unknown;
  /** Its number in the store; not enumerable. */
  readonly seq?: number;
}

/** A message that was read in the library's own format. */
export interface Stored extends Message {
  readonly seq: number;
}

/* A page. damaged: the number of unreadable records that it met. */
export type Messages<M = Message> = M[] & { readonly damaged: number };

/* What was found or is listed. damaged, not 0: unreadable records may belong to it. */
export type Found<T> = T[] & { readonly damaged: number };
/* Written by tools/flat.sh. */
export type Format = "framework" | "task" | "session" | "envelope"
  | "envelope-rows" | "openai" | "chat-strict" | "anthropic" | "gemini"
  | "pydantic-ai" | "openai-responses" | "bedrock" | "gemini-interactions";
export type Provider = "openai" | "chat-strict" | "anthropic" | "gemini" | "ollama"
  | "deepseek" | "glm" | "openrouter" | "openai-responses" | "bedrock"
  | "gemini-interactions" | "cohere";
export type View = "conversation" | "agent" | "team" | "global" | "timeline";
/* End of what is written. */

export interface Filter {
  location?: string;
  views?: View[];
  types?: string[];
  /* The agent of the view "agent"; without views, the writer. */
  agentKey?: string;
  /* The agents of the view "team". */
  agentKeys?: string[];
  turnId?: string;
  /** Seconds since 1970. */
  since?: number;
  until?: number;
  afterSeq?: number;
  beforeSeq?: number;
  limit?: number;
}

export interface Query extends Filter {
  oldest?: boolean;
  reverse?: boolean;
  byTime?: boolean;
  format?: Format;
}

export interface HistoryOptions {
  subordinates?: string[];
  /* One list in order of numbers, of which limit keeps the newest; else blocks. */
  timeline?: boolean;
  byTime?: boolean;
  conversationLimit?: number;
  agentLimit?: number;
  teamLimit?: number;
  globalLimit?: number;
  limit?: number;
  scope?: "orchestrator" | "manager" | "worker" | "since_task";
  turns?: number;
  phase?: number;
  previousPhase?: number;
  format?: Format;
}

export interface RequestOptions {
  model?: string;
  system?: string;
  tools?: unknown[];
  agentKey?: string;
  subordinates?: string[];
  newest?: number;
  budget?: number;
  /** true: sent back as the provider wants it. */
  thinking?: boolean | "off" | "on" | "running" | "calls" | "all";
  /** The type of the agent's own answers, if it is not in its views. */
  textType?: string;
  /** The report's compaction_due: the history costs more than so many tokens. */
  compactAt?: number;
  /** No compaction is read: all messages are sent. */
  full?: boolean;
  /** How long anthropic and bedrock cache what a request shares with the next one. */
  cache?: "off" | "5m" | "1h";
  /** Of requests that begin alike, for openai and openai-responses. */
  cacheKey?: string;
  /** The server of openai-responses or gemini-interactions keeps its responses, and a
   * request has only what came after the newest one, which it names. */
  previous?: boolean;
  /** Further members of the request, such as max_tokens. */
  [member: string]: unknown;
}

/* What was changed or left out so that the provider accepts the request. */
export interface Report {
  /* Messages that the compaction in use covers, its number (0: none), those that it keeps
   * and that are not there, and newer compactions that say nothing to this provider and
   * model, or not what they keep. */
  compacted: number;
  compaction_seq: number;
  compaction_missing: number;
  compaction_unusable: number;
  compaction_due: boolean;
  /* Marks of `cache`; 0: the provider has none. */
  breakpoints: number;
  /* Of `previous`: the first message of the response that the request names (0: none), the
   * messages that the server has, and 1 if all is sent although there is a response. */
  previous_seq: number;
  held: number;
  previous_unusable: number;
  /* With `previous`: for answer. */
  sent?: string;
  [count: string]: number | boolean | string | undefined;
}

export interface CompactionPlan {
  due: boolean;
  /* Tokens of all that a request has now. */
  cost: number;
  first_seq: number;
  /* The last message to cover; 0: nothing can be covered now. */
  upto: number;
  messages: number;
  /* Tokens of the messages that stay. */
  kept: number;
}

export interface Compaction {
  /* The provider's answer to compactRequest; without it a summary, items, or both. */
  body?: string | Uint8Array | object;
  summary?: string;
  /* What only the provider and the model read, as they made it. */
  items?: unknown[];
  model?: string;
  agentKey?: string;
  /* Of all agents, not of agentKey alone. */
  forAll?: boolean;
  cause?: string;
  tokensBefore?: number;
  tokensAfter?: number;
}

export interface Call {
  seq: number;
  id?: string;
  tool: string;
  /* The arguments; a string if the model wrote no JSON. */
  args: any;
  agent_key?: string;
}

export interface Pending {
  calls: Call[];
  /* Left out: calls that were cut off. */
  unfinished: number;
  /* Left out: calls whose agent has answered since. */
  abandoned: number;
  /* There is nothing to run and nothing to ask. */
  answered: boolean;
}

export interface Answered {
  first_seq: number;
  last_seq: number;
  messages: number;
  /* The number of tools to call now. */
  calls: number;
  /* The number of names of members that are not stored, such as `annotations`. */
  left_out: number;
  /* The provider's word for the reason of its stop. */
  stop: string;
}

export interface Match {
  seq: number;
  location: string;
  agent_key?: string;
  type: string;
  field: string;
  snippet: string;
}

export interface Info {
  location: string;
  agent_key?: string;
  messages: number;
  first_seq: number;
  last_seq: number;
  first_time: number | null;
  last_time: number | null;
}

export interface Note {
  kind: string;
  /** Absent where the note, of another language, has none. */
  value?: any;
  time?: number;
}

export interface Usage {
  notes: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  reasoning_tokens: number;
  seconds: number;
  damaged: number;
}

export interface Stat {
  version: string;
  messages: number;
  last_seq: number;
  bytes: number;
  index_bytes: number;
  hidden: number;
  changes: number;
  damaged: number;
  image_size: number;
}

export class MsgstoreError extends Error {
  readonly code: string;
  readonly path?: string;
  readonly offset?: number;
  /** Of E_DAMAGED: the report of a call of msgstore/native. */
  readonly result?: any;
}

export class Store {
  append(messages: Partial<Message> | object[], location?: string,
    options?: { format?: Format; lenient?: boolean; expectSeq?: number }): number[];
  query(location?: string, options?: Query & { format?: "framework" }): Messages<Stored>;
  query(location: string | undefined, options: Query): Messages;
  history(location: string, agentKey: string,
    options?: HistoryOptions & { format?: "framework" }): Messages<Stored>;
  history(location: string, agentKey: string, options: HistoryOptions): Messages;
  /** The report is not enumerable. */
  request(location: string, provider: Provider, options?: RequestOptions):
    Record<string, any> & { readonly report: Report };
  /** keep: tokens of the newest messages, which stay. */
  compactPlan(location: string, provider: Provider, keep: number, options?: RequestOptions):
    CompactionPlan;
  /** Without a prompt it is the library's; "": the provider's own form. */
  compactRequest(location: string, provider: Provider, upto: number,
    options?: RequestOptions & { prompt?: string }): Record<string, any>;
  /** Nothing is deleted. Returns the number of the compaction. */
  compact(location: string, provider: Provider, upto: number, options?: Compaction): number;
  pending(location: string, options?: { agentKey?: string; subordinates?: string[] }):
    Pending;
  /** An error with the path "usage": the messages are stored, the note of their usage is
   * not. Repeat the note, not the answer. */
  answer(body: string | Uint8Array | object, provider: Provider, location: string,
    options?: { agentKey?: string; textType?: string; sent?: string }): Answered;
  search(text: string, options?: Filter & { exactCase?: boolean; oldestFirst?: boolean }):
    Found<Match>;
  amend(seq: number, message: object, options?: { format?: Format }): void;
  hide(seq: number): void;
  rewind(location: string, seq?: number): number;
  redact(seq: number): void;
  note(seq: number, kind: string, value: unknown): void;
  /** The notes of a message that is shown, oldest first; of one kind alone, if it is given. */
  notes(seq: number, kind?: string): Found<Note>;
  fork(location: string, seq: number, to: string): void;
  facts(location: string, facts?: Record<string, unknown>): Record<string, unknown>;
  locations(options?: { prefix?: string; limit?: number }): Found<Info>;
  agents(location?: string, options?: { limit?: number }): Found<Info>;
  usage(location?: string): Usage;
  stat(): Stat;
  /** The bytes of the store: keep them, and open() them again. */
  image(): Uint8Array;
  close(): void;
  [Symbol.dispose](): void;
}

export interface OpenOptions {
  image?: Uint8Array | ArrayBuffer;
  /** Bytes of the first buffer; it doubles as it must, up to maxSize. */
  size?: number;
  maxSize?: number;
  keepUnsetTimes?: boolean;
}

export class Library {
  open(options?: OpenOptions): Store;
}

/** Compiles the module: from bytes, a Response, or a compiled WebAssembly.Module. */
export function load(source: BufferSource | Response | WebAssembly.Module
  | Promise<BufferSource | Response | WebAssembly.Module>): Promise<Library>;

export function user(content: unknown, more?: object): Message;
export function assistant(content: unknown, more?: object): Message;
export function action(tool: string, args: object | string, callId?: string, more?: object): Message;
export function observation(content: unknown, callId?: string, more?: object): Message;
