"""Prints lists that were recorded between clients and providers, a JSON object a line.

    recorded_lists.py FOLDER...

Git directories, bare or not: pydantic-ai (github.com/pydantic/pydantic-ai), whose
cassettes have requests to Bedrock's Converse, and ai (github.com/vercel/ai), whose fixtures
have answers of Gemini's Interactions. They are read from the newest commit. Nothing is
copied. recorded_lists.c judges the lines.
"""

import json
import os
import sys

import yaml
from recordings import files

# Requests that the service accepted and the judge refuses, with the reason.
REFUSED = {
    "test_bedrock_anthropic_message_history_starting_with_response.yaml#0":
        "begins with assistant",
    "test_bedrock_cache_write_and_read.yaml#0": "has a text that is a line feed",
    "test_bedrock_cache_write_and_read.yaml#1": "has a text that is a line feed",
    "test_video_url_input.yaml#1": "has the format video/mp4, edited by hand",
}


def print_line(form, name, items, request, accepted, refused=False):
    print(json.dumps({"format": form, "name": name, "list": items, "request": request,
                      "accepted": accepted, "refused": refused}))


def converse(folder):
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    wanted = lambda name: "/cassettes/" in name and name.endswith(".yaml")
    for name, text in files(folder, wanted):
        if b"/converse" not in text:
            continue
        for n, call in enumerate(yaml.load(text, Loader=loader)["interactions"]):
            request = call["request"]
            if "/converse" not in request.get("uri", ""):
                continue
            body = request.get("parsed_body") or request.get("body")
            try:
                body = body if isinstance(body, dict) else json.loads(body)
            except ValueError:
                continue  # edited by hand: no JSON
            refused = f"{os.path.basename(name)}#{n}" in REFUSED
            print_line("bedrock", f"{name}#{n}", body["messages"], body,
                       call["response"]["status"]["code"] == 200, refused)


def steps_of(name, text):
    """The steps of an answer: whole, or as its stream begins them."""
    if name.endswith(".json"):
        return json.loads(text).get("steps", [])
    steps = {}
    for line in text.decode().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("event_type") == "step.start":
            steps[event["index"]] = event["step"]
    return [steps[index] for index in sorted(steps)]


def interactions(folder):
    wanted = lambda name: "/interactions/__fixtures__/" in name
    for name, text in files(folder, wanted):
        steps = steps_of(name, text)
        if not steps:
            continue
        # A request that goes on from the answer: with a result for each open call.
        results = [{"type": "function_result", "call_id": step["id"], "result": "r"}
                   for step in steps if step["type"] == "function_call"]
        said = [{"type": "user_input", "content": [{"type": "text", "text": "a"}]}]
        print_line("gemini-interactions", name, steps,
                   {"input": said + steps + (results or said)}, True)


def main():
    for folder in sys.argv[1:]:
        converse(folder)
        interactions(folder)


main()
