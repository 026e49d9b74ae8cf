#!/usr/bin/env bash
# The message formats in build/msgstore: which format a message shows, bodies of requests,
# round trips through every format, transcripts of other programs, requests for providers
# (history --format), the linter (check), the originals of shortened messages (lookup).
. "$(dirname "$0")/tool_checks.sh"
providers='openai chat-strict anthropic gemini pydantic-ai'
log=$tmp/a.log


# ---- Help and usage.

session <<'END'
== help_lists_formats_and_commands
-h => session => task => envelope-rows => anthropic => gemini => pydantic-ai => bedrock => gemini-interactions
=> claude-code => lookup => check

== formats_and_options_are_refused_when_they_do_not_fit
convert --to klingon - -> 2 ^message formats: framework .*openai
convert --to pi - -> 2 a message format, not pi
convert --from klingon --to openai - -> 2  claude-code codex .* pi .
history $demo --format klingon -> 2 ^providers: openai .*gemini
check --as klingon - -> 2 ^providers: openai .*gemini
check - -> 2 needs the option --as
history $demo -> 2 --agent, or --format PROVIDER
history $demo --format task -> 2 --agent, or --format PROVIDER
history $demo --agent orchestrator --budget 9 -> 2 history --budget is for requests
history $demo --agent orchestrator --step 2 -> 2 history --step is for requests
history $demo --agent orchestrator --system x -> 2 history --system is for requests
history $demo --agent orchestrator --report -> 2 history --report is for requests
history $demo --agent orchestrator --format openai --team a --report -> 2 --report is for requests
history $demo --format openai --budget x -> 2 a number, not x
history $demo --format openai --system '' -> 2 expects a text
history $demo shop-osaka x --format openai -> 2 not x$
history $demo --agent data_worker --format framework => ^\{"type":
END


# ---- Which format a message shows: how it is read tells what it becomes.

# reads TEXT ARGUMENTS: the text in the framework format.
reads()
{
    "$tool" convert --to framework - "${@:2}" <<<"$1"
}

# kinds: of each message its type and its content, all on one line.
kinds()
{
    sed -E 's/.*"type":"([a-z_]*)",.*"content":"?([^,"}]*).*/\1=\2/' | tr '\n' ' ' | sed 's/ $//'
}

session <<'END'
== message_is_read_in_the_format_that_its_members_show
$ reads '{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}' => "type":"action","tool":"f","args":\{\}
$ reads '{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]}' => "type":"action","tool":"f","args":\{"a":1\},"tool_call_id":"c"
$ reads '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}' => "type":"observation","content":"r","tool_call_id":"c"
$ reads '{"id":"m","type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}]}' => "type":"assistant_message".*stop_reason.*end_turn
$ reads '{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}' => "type":"action","tool":"f","args":\{\}
$ reads '{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{"a":1}}}]}' => "type":"action","tool":"f","args":\{"a":1\},"tool_call_id":"c"
$ reads '{"role":"user","content":[{"text":"hi"}]}' => "type":"user_message","content":"hi"
$ reads '{"type":"function_call","id":"c","name":"f","arguments":{}}' => "type":"action","tool":"f","args":\{\},"tool_call_id":"c"
$ reads '{"type":"function_result","call_id":"c","result":"r"}' => "type":"observation","content":"r"
$ reads '{"type":"model_output","content":[{"type":"text","text":"hi"}]}' => "type":"assistant_message","content":"hi"
$ reads '{"kind":"response","parts":[{"part_kind":"tool-call","tool_name":"f","args":{},"tool_call_id":"c"}]}' => "type":"action","tool":"f"
$ reads '{"role":"tool","content":"r","tool_name":"f","timestamp":"2026-03-02T09:00:00Z"}' => "type":"observation","content":"r","tool":"f".*"timestamp":
$ reads '{"role":"user","content":"x","created_at":"2026-03-02T09:00:00Z"}' => "timestamp":1772442000
$ reads '{"role":"user","content":"a","timestamp":"yesterday"}' => "content":"a","source":".*timestamp\\":\\"yesterday
$ reads '{"role":"assistant","timestamp":"yesterday","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}' => "tool":"f"
$ reads '{"type":"text","author":"agent","content":"hi"}' => "type":"assistant_message","content":"hi"
$ reads '{"id":"1","task_id":"t","content":{"type":"tool_response","author":"agent","tool_call_id":"c","name":"f","content":5}}' => "type":"observation","content":5,"tool":"f"
$ reads '{"schema":"agents-api.message","version":1,"type":"tool_result","role":"tool","content":"r","payload":{}}' => "type":"observation","content":"r"
$ reads '{"version":1,"type":"tool_call","role":"assistant","content":"","payload":{"tool_name":"f","parameters":{}}}' => "type":"action","tool":"f"
$ reads '{"role":"assistant","content":"x","metadata":{"type":"final_result"}}' => "type":"final"
$ reads '{"type":"task","role":"user","content":"a"}' => "type":"task"
$ reads '{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}' => "type":"assistant_message","content":"hi"
$ reads '{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}' => "type":"action","tool":"f","args":\{\},"tool_call_id":"c"
$ reads '{"type":"shell_call_output","call_id":"c","output":[]}' => "type":"observation","content":\[\],"tool_call_id":"c"
$ reads '{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"hm"}]}' => "type":"reasoning","content":"hm"
$ reads '{"type":"web_search_call","id":"ws","status":"completed"}' => "type":"multimodal_part","content":\{"type":"web_search_call"
$ reads '{"type":"reasoning","content":"hm"}' => ^\{"type":"reasoning","content":"hm"\}$
$ reads '{"r\u006fle":"user","content":"a"}' => "type":"user_message","content":"a"
view - --strict <<<'{"silly":1}' -> 1 line 1, column 1 \(byte 0\): this message shows no format
view - --strict <<<'{"role":"model","parts":[{"functionCall":{"args":5}}]}' -> 1 gemini message: .

== body_of_a_request_is_read_with_its_system_text
$ reads '{"model":"m","messages":[{"role":"user","content":"a"}]}' | kinds => ^user_message=a$
$ reads '{"model":"m","system":"s","messages":[{"role":"user","content":"a"}]}' | kinds => ^injected_context=s user_message=a$
$ reads '{"system":"s","messages":[{"role":"user","content":"a"}]}' --from anthropic | kinds => ^injected_context=s user_message=a$
$ reads '{"system":null,"messages":[{"role":"user","content":"a"}]}' --from anthropic | kinds => ^user_message=a$
$ reads '{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}]}' | kinds => ^injected_context=s user_message=a assistant_message=b$
$ reads '{"instructions":"s","input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[]},{"role":"assistant","content":"b"}]}' | kinds => ^injected_context=s user_message=a reasoning= assistant_message=b$
$ reads '{"instructions":"s","input":[{"role":"user","content":"a"}]}' --from openai-responses | kinds => ^injected_context=s user_message=a$
$ reads '{"system_instruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"}]}]}' | kinds => ^injected_context=s user_message=a$
$ reads '{"system_instruction":{"parts":5},"contents":[{"role":"user","parts":[{"text":"a"}]}]}' --strict -> 1 column 23 \(byte 22\): the system text: .
$ reads '{"system":[{"text":"s"}],"messages":[{"role":"user","content":[{"text":"a"}]}]}' | kinds => ^injected_context=s user_message=a$
$ reads '{"model":"m","system_instruction":"s","input":[{"type":"user_input","content":[{"type":"text","text":"a"}]},{"type":"model_output","content":[{"type":"text","text":"b"}]}]}' | kinds => ^injected_context=s user_message=a assistant_message=b$
$ reads '{"input":[{"role":"user","content":"a"},{"type":"function_call_output","call_id":"c","output":"r"}]}' => "user_message","content":"a","source":"r!
$ reads '{"system_instruction":"s","input":[{"role":"user","content":"a"},{"type":"message","role":"assistant","content":"b"}]}' => "user_message","content":"a","source":"r!
$ reads '{"system_instruction":"s","input":[{"role":"user","content":"a"},{"type":"reasoning","id":"i"}]}' => "user_message","content":"a","source":"r!
$ reads '{"input":[{"role":"user","content":"a"}]}' => "user_message","content":"a","source":"r!
$ reads '{"input":[{"role":"user","content":"a"},{"type":"thought","signature":"s"}]}' => "user_message","content":"a","source":"i!
$ reads '{"instructions":"s","input":[{"role":"user","content":"a"},{"type":"function_result","call_id":"c","result":"r"}]}' => "user_message","content":"a","source":"i!
$ reads '{"input":[{"role":"user","content":"a"},{"role":"model","content":"b"}]}' => "user_message","content":"a","source":"i!
$ reads '{"system_instruction":"s","input":[{"role":"user","content":"a"}]}' | kinds => ^injected_context=s user_message=a$
$ reads '{"history":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":"r"}],"input":"q"}' | kinds => ^user_message=a observation=r$
$ reads '{"system_instruction":"s","messages":[{"role":"user","content":"a"}],"input":[]}' | kinds => ^user_message=a$
$ reads '{"system":"s","messages":[]}' | kinds => ^injected_context=s$
$ reads '[{"messages":[{"role":"user","content":"a"}]},{"system":"s","messages":[{"role":"user","content":"b"}]}]' | kinds => ^user_message=a injected_context=s user_message=b$
$ reads '{"messages":[{"version":1,"type":"text","role":"user","content":"a","payload":{}}]}' --from envelope | kinds => ^user_message=a$
$ reads '{"system":5,"messages":[{"role":"user","content":"a"}]}' --from anthropic --strict -> 1 column 11 \(byte 10\): the system text: .
$ reads '{"system":"s","messages":[{"role":"user","content":"a"},{"role":"user"}]}' --strict => "content":"a" -> 1 column 57 \(byte 56\): .*content
END


# ---- Each format by its name, there and back (test_crossing has all pairs).

cat >"$tmp/openai" <<'END'
{"role":"user","content":"Which tables?"}
{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"tables","arguments":"{\"limit\":5}"}},{"id":"c2","type":"function","function":{"name":"views","arguments":"{}"}}]}
{"role":"tool","tool_call_id":"c1","content":"users, orders"}
{"role":"tool","tool_call_id":"c2","content":"none"}
{"role":"assistant","content":"Two: \"users\" and 注文."}
{"role":"user","content":"Thanks"}
END
cat >"$tmp/open" <<'END'
{"role":"user","content":"u"}
{"role":"assistant","tool_calls":[{"id":"bad id!","type":"function","function":{"name":"a b","arguments":"[]"}}]}
{"role":"user","content":"and?"}
END

# Some formats want the tool's name with its result, and keep it; a row that is taken for a
# chat message keeps its order of members.
unnamed()
{
    sed -E 's/("role":"tool".*),"name":"(tables|views)"/\1/
        s/("content":"[^"]*"),("tool_call_id":"[^"]*")/\2,\1/'
}

# good ARGUMENTS: a history is one request for the provider, which passes its check; it
# stays in $tmp/request.
good()
{
    "$tool" history "$@" --format "$provider" >"$tmp/request" &&
        [ "$(wc -l <"$tmp/request")" -eq 1 ] &&
        "$tool" check --as "$provider" "$tmp/request"
}

for provider in $providers; do
    format=${provider/chat-strict/openai}
    session <<'END'
== chat_is_the_same_when_it_comes_back_from_a_format
convert --from openai --to $provider $tmp/openai >$tmp/there
$ "$tool" convert --from $provider --to openai $tmp/there | unnamed == $tmp/openai
$ "$tool" convert --to openai $tmp/there | unnamed == $tmp/openai

== request_passes_the_check_of_its_provider
$ good $tmp/openai =0>
$ good $demo =0>
$ good $demo --agent data_worker --system 'You are.' =0>
$ good $demo -n 3 =0>
$ good $demo --budget 400 =0>
$ good $demo -n 4 --step 4 =0>
$ good $tmp/open =0>
convert --from openai --to $format $tmp/open >$tmp/naive
check --as $provider $tmp/naive => naive: (messages|contents) -> 1
END
done
session <<'END'
== chat_is_the_same_when_it_comes_back_from_items
convert --from openai --to openai-responses $tmp/openai >$tmp/there
$ wc -l <$tmp/there => ^8$
$ "$tool" convert --from openai-responses --to openai --array $tmp/there | tr -d '\n' => "content":"I look.*"name":"tables".*"name":"views"
$ "$tool" convert --from openai-responses --to openai-responses $tmp/there == $tmp/there
END

talks='[{"task_id":1,"traj":[{"role":"user","content":"one"}]},
    {"task_id":2,"traj":[{"role":"user","content":"two"}]}]'
chat='{"role":"user","content":"a"}
{"role":"assistant","content":"b"}
{"role":"user","content":"c"}'
counts=$(sed -n '/^typedef struct ms_project_report/,/^}/p' msgstore.h | grep -c uint64_t)
session <<'END'
== request_has_what_is_asked_for
history $demo shop-osaka --format anthropic --agent orchestrator --system 'You are.' => ^\{"system":"You are\."
$ for p in openai chat-strict anthropic gemini pydantic-ai ollama deepseek openai-responses bedrock gemini-interactions cohere; do "$tool" history $demo shop-osaka --format $p --agent orchestrator --system 'You are.' >$tmp/body; grep -c 'You are\.' $tmp/body; "$tool" check --as $p $tmp/body || echo "$p refuses it"; done | sort -u | tr '\n' ' ' => ^1 $
history $demo x --format openai -> 4 no messages of session x
history $demo shop-osaka --format openai >$tmp/request
history $demo --location shop-osaka --format openai => "tool_calls":\[\{"id" == $tmp/request
history $demo --format openai --agent report_worker => "content":"\[data_worker\]
history $demo --format openai --report => ^\[ -> 0 ^ +31  messages read$
history $demo --format openai --report -n 5 => ^\[ -> 0 ^ +[1-9][0-9]*  left out before the window$
history $demo --format openai --report -n 5 => ^\[ -> 0 ^ +0  messages put after assistant text
history - --format anthropic --report <<<"${chat%$'\n'*}" => "\(Continue\.\)" -> 0 ^ +1  messages put after assistant text, so that the user ends$
$ [ "$("$tool" history $demo --format openai --report 2>&1 >/dev/null | wc -l)" -eq "$counts" ] =0>
history $demo --format openai --budget 3 -> 1 the budget is 3
history - --format openai -n 1 <<<$chat => ^\[\{"role":"user","content":"c"\}\]$
history - --format gemini <<<$talks -> 2 there are sessions:
history - 2 --format gemini <<<$talks => "text":"two"
$ provider=ollama good $demo =0>
history - --format ollama <<<$chat => ^\[\{"role":"user","content":"a"\},
history $demo --agent data_worker --timeline --format ollama -> 2 no messages in the format of ollama
view $demo --format ollama -> 2 table or a message format, not ollama
history -h => ^refuse, on one line: a list; for anthropic, gemini, gemini-interactions, bedrock$
# With an option of lists they stay lines, one a message.
history $demo --agent data_worker --timeline --format anthropic =14>


# ---- check: the violations, the files, the exit codes.

== violations_are_named_with_their_file_and_path
$ echo '[{"role":"user","content":"a"}]' >$tmp/fine.json
$ echo '[{"role":"user","content":null}]' >$tmp/bad.json
$ printf '\xef\xbb\xbf[{"role":"user","content":"a"}]' >$tmp/mark.json
check --as openai - <<<'[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"r"}]' => ^standard input: messages\[1\]\.tool_call_id: -> 1
check --as openai <<<'{"model":"m","stream":true,"messages":[{"role":"tool","tool_call_id":"x","content":"r"}]}' => ^standard input: messages\[0\]\.tool_call_id: -> 1
check --as anthropic - <<<'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}' =0>
check --as anthropic - <<<'{"model":"m","system":5,"messages":[{"role":"user","content":"a"}]}' => ^standard input: system: -> 1
check --as anthropic - <<<$'{"role":"user","content":"a"}\n{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}' => ^standard input: messages\[1\]\.content\[0\]\.tool_use_id: -> 1
check --as ollama - <<<'[{"role":"user","content":"a"},{"role":"user","content":"b"}]' => ^standard input: messages\[1\]\.role: roles must alternate -> 1
check --as gemini - <<<'{"role":"user","content":"a"}' => standard input: . -> 1
check --as openai - <<<'{"role":"user","content":"a"}' =0>
check --as openai - <<<'{"role":"tool","tool_call_id":"x","content":"r"}' => ^standard input: messages\[0\]\.tool_call_id: -> 1
check --as gemini - <<<'{"role":"user","parts":[{"text":"a"}]}' =0>
check --as gemini - <<<'{"system_instruction":5,"contents":[{"role":"user","parts":[{"text":"a"}]}]}' => ^standard input: systemInstruction: must be an object, is 5$ -> 1
check --as pydantic-ai - <<<'{"kind":"request","parts":[]}' =0>
check --as openai-responses - <<<'{"type":"message","role":"user","content":"a"}' =0>
check --as openai - <<<'{"model":"m"}' => ^standard input: messages: must be a list, is an object$ -> 1
check --as openai - <<<'[{"role":"user","content":"a"}' -> 2 standard input: line 2, column 1 \(byte 31\): .
check --as openai - -> 2 standard input: line
check --as openai - <<<$'{"role":"user","content":"a"}\n{"role":"user","content":"b\xff"}' -> 2 line 2, column 28 \(byte 57\): .*UTF-8
check --as openai - <<<$'{"role":"user","content":"a"}\n\n5' -> 2 line 3, column 1 \(byte 31\): no message object
check --as openai $tmp/none -> 2 none: No such file
check --as openai $tmp -> 2 directory
check --as openai $tmp/fine.json $tmp/fine.json $tmp/mark.json =0>
check --as openai $tmp/fine.json $tmp/bad.json => bad.json: messages\[0\]\.content: -> 1
check --as openai $tmp/none $tmp/bad.json => bad.json: messages\[0\]\.content: -> 2 none: No such
$ "$tool" check --as openai - <<<'[{"role":"\u001b[31m","content":"a"}]' | LC_ALL=C grep -c $'\033' => ^0$ -> 1
END


# ---- lookup.

printf '%s\n' '{"role":"user","content":"first\nline"}' \
    '{"role":"assistant","content":"the long answer"}' \
    '{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}' \
    >"$tmp/chat.jsonl"
for place in job 3:ann/abc x-msg-7; do
    "$tool" import "$log" "$tmp/chat.jsonl" --location "$place" >"$tmp/out"
done
session <<'END'
== original_of_a_shortened_message_is_found_by_its_key
lookup $log session-job-msg-1 =$1> first line
lookup $log session-job-msg-2 => ^the long answer$
lookup $log session-job-msg-3 => ^\{"type":"action","tool":"f"
lookup $log session-job-msg-1 --format openai => ^\{"role":"user","content":"first\\nline"\}$
lookup $log session-x-msg-7-msg-8 => ^the long
lookup $log session-abc-msg-5 --user ann => ^the long answer$
lookup $log session-abc-msg-5 --user bob -> 1 not found for user bob
lookup $log session-abc-msg-5 -> 1 needs --user
lookup $log session-job-msg-4 -> 1 session-job-msg-4: not found
lookup $log session-job-msg-18446744073709551615 -> 1 not found
lookup $tmp/chat.jsonl session-chat-msg-2 => ^the long answer$
compact $log $tmp/kept.log --keep-last 1 => .
lookup $tmp/kept.log session-job-msg-3 => "tool":"f"
lookup $tmp/kept.log session-job-msg-2 -> 1 not found
END
for key in '' job session- session-job session-job-msg- session--msg-1 session-job-msg-01 \
    session-job-msg-+1 session-job-msg--1 session-job-msg-1x msg-1; do
    session <<'END'
== nothing_is_found_when_a_key_is_misspelled
lookup $log "$key" -> 1 not found
lookup $log "$key" --user ann -> 1 not found
END
done


# ---- Transcripts of other programs.

# pi LINES: a session of these messages.
pi()
{
    echo '{"type":"session","id":"s1","timestamp":"2025-11-20T23:33:50Z","cwd":"/x"}'
    printf '{"type":"message","timestamp":"2025-11-20T23:33:51Z","message":%s}\n' "$@"
    echo '{"type":"model_change","modelId":"m"}'
}

file=$tmp/pi.jsonl
pi '{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1763681630791}' \
    '{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s"},{"type":"text","text":"I look."},{"type":"toolCall","id":"c1","name":"ls","arguments":{"a":1},"partialJson":"{"}],"model":"m","usage":{"input":3},"timestamp":1763681630800}' \
    '{"role":"toolResult","toolCallId":"c1","toolName":"ls","details":{"n":1},"content":[{"type":"text","text":"a"}],"isError":false}' \
    '{"role":"toolResult","toolCallId":"c1","toolName":"ls","content":[],"isError":true}' \
    '{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","data":"x"}]}' \
    '{"role":"assistant","content":[],"stopReason":"aborted"}' >"$file"
{ cat "$file"; sed 's/"s1"/"s2"/' "$file"; } >"$tmp/two.jsonl"
session <<'END'
== session_of_pi_becomes_messages
convert --to framework --with-location $file =8> -> 0 left out what is not a message: (1 session, 1 model_change|1 model_change, 1 session)
=> "type":"user_message","content":"hi","timestamp":1763681630.791,.*"location":"s1"
=> "content":"hi",.*"pi":\{"timestamp":"2025-11-20T23:33:51Z"\}
=> "type":"reasoning","content":"hm".*"usage":\{"input":3\} => "hm".*"part":\{"thinkingSignature":"s"\}
=> "type":"assistant_message","content":"I look.".*"joined":true
=> "type":"action","tool":"ls","args":\{"a":1\}.*"tool_call_id":"c1" => "action".*"joined":true
=> "action".*"partialJson":"\{"
=> "type":"observation","content":"a","tool":"ls","timestamp":1763681631,
=> "observation".*"details":\{"n":1\}
=> "type":"error","content":""
=> "content":\[\{"type":"text","text":"see"\},\{"type":"image","data":"x"\}\]
=> "type":"assistant_message","content":"".*"stopReason":"aborted"
convert --from pi --to framework --with-location $file >$tmp/read -> 0 *
convert --to framework --with-location $file == $tmp/read -> 0 *
convert --to framework --with-location --location here $file => "location":"here" -> 0 *
info $tmp/two.jsonl => ^ +8 .*bytes  s1$ => ^ +8 .*bytes  s2$ -> 0 *
info $file => ^ +3 .*bytes  assistant$ -> 0 *
END
for bad in 'x|{"role":"x","content":"a"}' 'message without content|{"role":"user"}' \
    'message without content|{"role":"user","content":5}' 'message without content|5' \
    'part|{"role":"assistant","content":[5]}'; do
    pi "${bad#*|}" >"$tmp/bad.jsonl"
    kind=${bad%%|*}
    session <<'END'
== unknown_message_of_pi_is_kept_whole
$ "$tool" convert --strict --to framework $tmp/bad.jsonl 2>&1 | grep -c "line 2 (byte [0-9]*): pi:$kind is unknown" => ^1$
$ "$tool" convert --to framework $tmp/bad.jsonl 2>&1 | grep -cE "\"type\":\"pi:$kind\"|unknown, kept whole: 1 pi:$kind\$" => ^2$
END
done

claude='"sessionId":"s2","timestamp":"2025-06-14T10:00:00Z","version":"1"'
cat >"$tmp/claude.jsonl" <<END
{"type":"summary","summary":"s","leafUuid":"u2"}
{"type":"user","uuid":"u1","parentUuid":null,$claude,"message":{"role":"user","content":"hi"}}
{"type":"assistant","uuid":"u2",$claude,"message":{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"ls","input":{"a":1}}]}}
{"type":"user","uuid":"u3",$claude,"toolUseResult":{"n":1},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r","is_error":true}]}}
{"type":"assistant","uuid":"u4","isSidechain":true,$claude,"message":{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"ls","input":{}}]}}
{"type":"progress","uuid":"u5"}
END
cat >"$tmp/bad.jsonl" <<END
{"type":"user","uuid":"u1",$claude,"message":{"role":"user","content":"hi"}}
{"silly":"this"}
{"type":"user","uuid":"u2","message":"error"}
{"type":"user","uuid":"u3"}
{"type":"user","uuid":"u4","message":{"role":"user","content":[7]}}
42
{"type":"user","uuid":"u6","message":{"role":"user","content":"end"}}
END
session <<'END'
== session_of_claude_code_becomes_messages
convert --to framework --with-location $tmp/claude.jsonl =5> -> 0 left out what is not a message: (1 summary, 1 progress|1 progress, 1 summ)
=> "content":"hi","timestamp":1749895200,.*"location":"s2".*"id":"u1"
=> "hi".*"claude-code":\{"parentUuid":null,"timestamp":.*"version":"1"\}
=> "content":"I look.".*model.*x
=> "type":"action","tool":"ls","args":\{"a":1\}.*"joined":true
=> "type":"error","content":"r".*"toolUseResult":\{"n":1\}
=> "agent_key":"sidechain"
convert --from claude-code --to anthropic $tmp/claude.jsonl => "content":\[\{"type":"text",.*\{"type":"tool_use","id":"t1" -> 0 *

== unknown_lines_are_kept_whole_and_counted
convert --strict --to framework $tmp/bad.jsonl => * -> 1 line 2 \(byte [0-9]+\): claude-code:entry without a type
$ rm $log
import $log $tmp/bad.jsonl => ^appended   7 messages -> 0 unknown, kept whole: 1 claude-code:entry

== surrogate_alone_is_repaired_when_it_is_imported
$ printf '{"type":"message","message":{"role":"user","content":"%s"},"id":"e1"}\n' 'a\ud800' b >$tmp/lone.jsonl
convert --strict --to framework $tmp/lone.jsonl => * -> 1 line 1
$ rm $log
import $log $tmp/lone.jsonl => ^appended   2 messages -> 0 *
export $log => "content":"a�".*"id":"e1"
END

# ---- Recorded sessions (tests/tool/transcripts.txt has what is read in each).

pi=$shared/pi-session/large-session.jsonl
old=$shared/claude-code-jsonl
if [ -f "$pi" ] && [ -d "$old" ]; then
    rm -f "$log"
    session <<'END'
== recorded_session_is_imported_once_with_its_steps
import $log $pi => ^appended   1111 messages -> 0 103 thinking_level_change
info $log => ^ +391 .*  action$ => ^ +354 .*  observation$ => ^ +19 .*  error$
=> ^ +88 .*  user_message$ => ^ +1 .*  reasoning$
$ "$tool" export $log | grep -cv '"joined":true' => ^914$
import --keys $tmp/keys.log $pi => . -> 0 *
import --keys $tmp/keys.log $pi => appended   0 messages, the last is number 1111 -> 0 *

== odd_lines_of_a_recorded_session_are_kept_whole
import $tmp/odd.log $old/edge_cases.jsonl => ^appended   19 messages -> 0 unknown, kept whole: 2 claude-code:user without content, 3 claude-code:line
END
    for provider in $providers; do
        session <<'END'
== recorded_session_becomes_a_request_that_passes
$ good $log --report =0> -> 0 ^ +18  results made up
$ good $pi -n 100 --step 50 =0> -> 0 *
END
        for name in representative_messages session_b todowrite_examples; do
            session <<'END'
== recorded_session_of_claude_code_becomes_a_request_that_passes
$ rm -f $tmp/of.log
import $tmp/of.log $old/$name.jsonl => ^appended -> 0 *
$ good $tmp/of.log =0> -> 0 *
$ good $old/$name.jsonl =0> -> 0 *
END
        done
    done
else
    echo "skip recorded: no $pi or no $old"
fi
exit "$failed"
