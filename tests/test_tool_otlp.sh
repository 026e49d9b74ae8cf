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

check export_writes_traces 0 '^\{"resourceSpans":\[' '' export "$log" --format otlp
cp "$tmp/out" "$tmp/traces"
same export_writes_a_line_for_each_session 2 "$(wc -l <"$tmp/traces")"
prints export_is_equal_when_input_is_equal "$tmp/traces" export "$log" --format otlp
counts export_writes_one_session_when_named 1 '' export "$log" --format otlp --location a
cp "$tmp/out" "$tmp/a"

# spans NAME COUNT: how many spans are called so?
spans()
{
    same "spans_$1" "$2" "$(grep -o "\"name\":\"$1\"" "$tmp/a" | wc -l)"
}
spans 'invoke_agent demo' 1
spans 'chat gpt-large' 3
spans 'execute_tool sql' 2
# has NAME PATTERN: in the trace.
has()
{
    if grep -qE -e "$2" "$tmp/a"; then ok "$1"; else fail "$1" "no '$2' in the trace"; fi
}

has trace_names_its_schema '"schemaUrl":"https://opentelemetry.io/schemas/[0-9.]+"'
has trace_has_provider '"gen_ai.provider.name","value":\{"stringValue":"openai"\}'
has trace_has_usage '"gen_ai.usage.cache_read.input_tokens","value":\{"intValue":"800"\}'
has root_has_no_parent '"spans":\[\{"traceId":"[0-9a-f]{32}","spanId":"[0-9a-f]{16}","name":"invoke_agent demo"'
has failed_call_has_its_error '"error.type","value":\{"stringValue":"DbError"\}\}\],"status":\{"code":2\}'
has call_takes_as_long_as_it_took '"startTimeUnixNano":"1772442002000000000","endTimeUnixNano":"1772442003500000000"'
has arguments_are_json_text '"gen_ai.tool.call.arguments","value":\{"stringValue":"\{\\"q\\":\\"show tables\\"\}"\}'
has thinking_is_reasoning '\\"type\\":\\"reasoning\\",\\"content\\":\\"one call is enough\\"'

counts secret_is_masked 0 "$token" export "$log" --format otlp --mask-secrets
check otlp_is_refused_elsewhere 2 '' 'table or a message format, not otlp' view "$log" --format otlp
check otlp_location_unknown 4 '' 'no messages of' export "$log" --format otlp --location nobody
check otlp_of_a_file 0 '^\{"resourceSpans":\[' '' export $demo --format otlp

exit $failed
