"""Prints requests that providers have accepted, and what they answered, as lines for
recorded.c: from the recordings that packages test themselves with.

    recorded.py REPOSITORY...     git repositories: cassettes/*.yaml, __fixtures__/*.json

A cassette is one of VCR: pairs of a request and a response.
"""

import json
import sys

import yaml
from recordings import LOADER, files, json_of, recorded

# members of a request that the lint looks at
RESPONSES = ("instructions", "store", "previous_response_id", "conversation", "input")


def pairs(data):
    """URL, body and answer of each accepted request of a cassette."""
    for each in (yaml.load(data, Loader=LOADER) or {}).get("interactions", []):
        request, response = each["request"], each["response"]
        if (response.get("status") or {}).get("code") != 200:
            continue
        body = request.get("parsed_body") or json_of(request.get("body"))
        answer = response.get("parsed_body")
        if answer is None:
            answer = (response.get("body") or {}).get("string")
        yield request.get("uri", ""), body, answer


def put(**line):
    try:
        print(json.dumps(line))
    except TypeError:  # YAML has dates
        print(json.dumps(line, default=str))


def outputs(name, answer):
    """The items of an answer, whole or streamed."""
    if isinstance(answer, (bytes, str)):
        text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
        answer = None
        for line in text.splitlines():
            event = json_of(line[5:]) if line.startswith("data:") else None
            if isinstance(event, dict) and isinstance(event.get("response"), dict):
                answer = event["response"]
    if isinstance(answer, dict) and isinstance(answer.get("output"), list) and \
            str(answer.get("object", "")).startswith("response"):
        put(name=name, format="openai-responses", list=answer["output"])


def responses(name, url, body, answer):
    """What is not stored is stated: the provider's default is to store."""
    if "/responses" not in url or not isinstance(body, dict) or "input" not in body:
        return
    request = {key: body[key] for key in RESPONSES if key in body}
    request.setdefault("store", True)
    put(name=name, **{"as": "openai-responses"}, format="openai-responses",
        request=request)
    outputs(name + ", answer", answer)


for repository in sys.argv[1:]:
    for name, data in files(repository, recorded(".json")):
        if name.endswith(".json"):
            outputs(name, json_of(data))
        elif b"/responses" in data:
            for number, (url, body, answer) in enumerate(pairs(data)):
                responses(f"{name}[{number}]", url, body, answer)
