"""Reads files of msgstore export --format otlp with OpenTelemetry's own protobuf parser, and
checks their spans: ids, parents, times, names, attributes. Prints "ok NAME" or "FAIL NAME: reason"
a line, and at the end "N passed, N failed, 0 skipped".

    check.py TOOL FILE...     files of messages, transcripts or logs
"""

import base64
import json
import subprocess
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, error_attributes
from opentelemetry.semconv.schemas import Schemas

KNOWN = {value for name, value in vars(gen_ai_attributes).items()
         if name.startswith("GEN_AI_") and isinstance(value, str)} | {error_attributes.ERROR_TYPE}
OPERATIONS = {"chat", "execute_tool", "invoke_agent"}
failed = 0


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def attributes_of(span):
    return {a.key: a.value.string_value if a.value.HasField("string_value") else a.value.int_value
            for a in span.attributes}


def check_messages(text, finished):
    roles = {"system", "user", "assistant", "tool"}
    for message in json.loads(text):
        check(message["role"] in roles, "role " + message["role"])
        check(not finished or message["finish_reason"] in ("stop", "tool_call"), "no finish_reason")
        for part in message["parts"]:
            check(part["type"] in ("text", "reasoning", "tool_call", "tool_call_response"), part["type"])
            check(part["type"] != "tool_call" or isinstance(part["name"], str), "a call without a name")


def check_span(span, spans, root):
    found = attributes_of(span)
    check(len(span.trace_id) == 16 and any(span.trace_id), "trace id")
    check(len(span.span_id) == 8 and any(span.span_id), "span id")
    check(span.end_time_unix_nano >= span.start_time_unix_nano, "it ends before it begins")
    check(span is root or span.parent_span_id in spans, "its parent is not there")
    check(found["gen_ai.operation.name"] in OPERATIONS, "operation")
    check(span.name.startswith(found["gen_ai.operation.name"]), "name " + span.name)
    check("gen_ai.conversation.id" in found, "no conversation")
    for key in found:
        check(key in KNOWN, "attribute " + key)
    for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
        if key in found:
            check_messages(found[key], key == "gen_ai.output.messages")
    return found


def with_bytes(value):
    """Turns ids from hexadecimal digits, as in OTLP, into base64, as in protobuf's JSON."""
    if isinstance(value, list):
        return [with_bytes(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in ("traceId", "spanId", "parentSpanId")
            else with_bytes(v) for k, v in value.items()}


def check_trace(line):
    request = json_format.ParseDict(with_bytes(json.loads(line)), ExportTraceServiceRequest())
    back = ExportTraceServiceRequest()
    back.ParseFromString(request.SerializeToString())
    check(back == request, "protobuf does not return it")
    scope = request.resource_spans[0].scope_spans[0]
    check(scope.scope.name == "msgstore", "scope")
    check(scope.schema_url in {s.value for s in Schemas}, "schema " + scope.schema_url)
    spans = {span.span_id: span for span in scope.spans}
    check(len(spans) == len(scope.spans), "a duplicate span id")
    roots = [span for span in scope.spans if not span.parent_span_id]
    check(len(roots) == 1 and roots[0] is scope.spans[0], "roots")
    found = [check_span(span, spans, roots[0]) for span in scope.spans]
    top = found[0]
    check("gen_ai.input.messages" in top or "gen_ai.output.messages" in top
          or "gen_ai.system_instructions" in top, "the root has no messages")
    for key in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        total = sum(f.get(key, 0) for f in found if f["gen_ai.operation.name"] == "chat")
        check(total == top.get(key, 0), key + ": " + str(total) + " in answers, " + str(top.get(key, 0)))
    return found


def main(tool, files):
    global failed
    counts = {name: 0 for name in OPERATIONS}
    for file in files:
        name = "/".join(file.split("/")[-2:])
        try:
            done = subprocess.run([tool, "export", file, "--format", "otlp"], capture_output=True)
            check(done.returncode == 0, "exit code %d: %s" % (done.returncode, done.stderr[:200]))
            for line in done.stdout.decode().splitlines():
                for found in check_trace(line):
                    counts[found["gen_ai.operation.name"]] += 1
            again = subprocess.run([tool, "export", file, "--format", "otlp"], capture_output=True)
            check(again.stdout == done.stdout, "a second export is another one")
            print("ok otlp_" + name)
        except Exception as error:  # a broken trace is a failed check, whatever it breaks
            print("FAIL otlp_%s: %s: %s" % (name, type(error).__name__, str(error)[:300]))
            failed += 1
    print("tally: spans " + ", ".join("%d %s" % (n, name) for name, n in sorted(counts.items())))
    print("%d passed, %d failed, 0 skipped" % (len(files) - failed, failed))
    sys.exit(1 if failed else 0)


main(sys.argv[1], sys.argv[2:])
