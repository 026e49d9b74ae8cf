#!/usr/bin/env bash
# msgstore export --format otlp: a line for each session, its spans and their attributes, equal
# lines for equal input. OpenTelemetry's own parser reads them in `make test-otlp`.
. "$(dirname "$0")/tool_checks.sh"

token=gh"p_"R7kq2ZpX9vLm4TnB8wYc3HsJ6dFgQ1aEuV5o
cat >"$tmp/run.jsonl" <<END
{"type":"user_message","content":"list the tables","timestamp":1772442000,"location":"a"}
{"type":"reasoning","content":"one call is enough","agent_key":"w","timestamp":1772442001,"location":"a"}
{"type":"action","tool":"sql","args":{"q":"show tables"},"agent_key":"w","tool_call_id":"c1","timestamp":1772442002,"location":"a"}
{"type":"error","content":"no database","error_type":"DbError","agent_key":"w","tool_call_id":"c1","timestamp":1772442003.5,"location":"a"}
{"type":"action","tool":"sql","args":{"q":"use main"},"agent_key":"w","tool_call_id":"c2","timestamp":1772442004,"location":"a"}
{"type":"assistant_message","content":"There is no database. $token","timestamp":1772442005,"location":"a"}
{"type":"user_message","content":"thanks","timestamp":1772442006,"location":"b"}
END
log=$tmp/run.log
"$tool" import "$log" "$tmp/run.jsonl" --from framework >/dev/null 2>&1
"$tool" location "$log" a '{"agent":"demo","model":"gpt-large"}' >/dev/null
"$tool" note "$log" 3 usage '{"input_tokens":900,"output_tokens":40,"cached_tokens":800}' --json >/dev/null

session <<'END'
== export_writes_a_trace_for_each_session
export $log --format otlp >$tmp/traces
$ cat $tmp/traces =2> ^\{"resourceSpans":\[
export $log --format otlp == $tmp/traces
export $demo --format otlp => ^\{"resourceSpans":\[
export $log --format otlp --array -> 2 --array is for message formats
export $log --location a --format codex --array -> 2 --array is for message formats
view $log --format otlp -> 2 table or a message format, not otlp
export $log --format otlp --location nobody -> 4 no messages of
$ "$tool" export $log --format otlp --mask-secrets | grep -c $token => ^0$ -> 1

== trace_has_a_span_for_each_answer_and_call
export $log --format otlp --location a >$tmp/a
$ cat $tmp/a =1>
$ grep -o '"name":"invoke_agent demo"' $tmp/a =1>
$ grep -o '"name":"chat gpt-large"' $tmp/a =3>
$ grep -o '"name":"execute_tool sql"' $tmp/a =2>

== trace_has_its_schema_times_usage_and_errors
$ cat $tmp/a => "schemaUrl":"https://opentelemetry.io/schemas/[0-9.]+"
=> "gen_ai.provider.name","value":\{"stringValue":"openai"\}
=> "gen_ai.usage.cache_read.input_tokens","value":\{"intValue":"800"\}
=> "spans":\[\{"traceId":"[0-9a-f]{32}","spanId":"[0-9a-f]{16}","name":"invoke_agent demo"
=> "error.type","value":\{"stringValue":"DbError"\}\}\],"status":\{"code":2\}
=> "startTimeUnixNano":"1772442002000000000","endTimeUnixNano":"1772442003500000000"
=> "gen_ai.tool.call.arguments","value":\{"stringValue":"\{\\"q\\":\\"show tables\\"\}"\}
=> \\"type\\":\\"reasoning\\",\\"content\\":\\"one call is enough\\"

== name_of_a_span_is_cut_at_a_character
$ long=a$(printf '\303\251%.0s' {1..100}); echo '{"type":"action","tool":"'$long'","args":{},"agent_key":"w","location":"a"}' >$tmp/long.jsonl
$ "$tool" export $tmp/long.jsonl --format otlp >$tmp/long; iconv -f utf-8 -t utf-8 $tmp/long >$tmp/read
$ cat $tmp/long => "name":"execute_tool aé{99}","kind"
END

exit $failed
