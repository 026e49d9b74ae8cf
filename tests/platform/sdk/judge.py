"""Reads projections and answers (see project.c) and passes each to the packages that its
provider's users run. Prints a refused projection with its place and the reason.

    judge.py FOLDER     FOLDER/projections.jsonl, FOLDER/answers.jsonl
"""

import importlib
import json
import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
folder = sys.argv[1]


# A judge returns this for a line outside its scope; the reason stands there.
PASSED_OVER = "passed over"


def exhaust(value):
    """Walks a value: Pydantic checks an Iterable only then."""
    if isinstance(value, dict):
        for each in value.values():
            exhaust(each)
    elif hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        for each in value:
            exhaust(each)


def adapter(of):
    from pydantic import TypeAdapter
    made = TypeAdapter(of)
    return lambda value: exhaust(made.validate_python(value))


# Each returns a function that takes a line of a projection and raises if it refuses it.

def judge_openai():
    from openai.types.chat import ChatCompletionMessageParam
    check = adapter(list[ChatCompletionMessageParam])
    return lambda line: check(line["messages"])


def judge_openai_responses():
    from openai.types.responses import ResponseInputParam
    check = adapter(ResponseInputParam)
    return lambda line: check(line["messages"])


def judge_anthropic():
    from anthropic.types import MessageParam
    check = adapter(list[MessageParam])
    return lambda line: check(line["messages"])


def judge_gemini():
    from google.genai import types

    def judge(line):
        for content in line["messages"]:
            types.Content.model_validate(content)
        if "system" in line:
            types.GenerateContentConfig(system_instruction=line["system"])
    return judge


def judge_interactions():
    """The package keeps a step or a content of a type that it does not know: that is
    refused here."""
    from google.genai.interactions import Step
    from pydantic import BaseModel, TypeAdapter
    steps = TypeAdapter(list[Step])

    def known(value):
        if getattr(value, "is_unknown", False):
            raise ValueError(f"of no type that the package has: {value.raw!r:.300}")
        if isinstance(value, BaseModel):
            value = {name: getattr(value, name) for name in type(value).model_fields}
        if isinstance(value, dict):
            value = list(value.values())
        for each in value if isinstance(value, (list, tuple)) else ():
            known(each)
    return lambda line: known(steps.validate_python(line["messages"]))


def judge_pydantic_ai():
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    return lambda line: ModelMessagesTypeAdapter.validate_json(json.dumps(line["messages"]))


def judge_ollama():
    from ollama._types import ChatRequest
    return lambda line: ChatRequest(model="m", messages=line["messages"]).model_dump()


def judge_cohere():
    from cohere import types
    roles = {"system": types.SystemChatMessageV2, "user": types.UserChatMessageV2,
             "assistant": types.AssistantChatMessageV2, "tool": types.ToolChatMessageV2}

    def judge(line):
        for message in line["messages"]:
            taken = roles[message["role"]].model_validate(message)
            if taken.model_extra:
                raise ValueError(f"unknown members: {taken.model_extra}")
    return judge


def judge_bedrock():
    """The model of the service that the package validates with, and the patterns in it,
    which it does not look at."""
    import re
    from botocore import loaders, model, validate
    service = loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    converse = model.ServiceModel(service).operation_model("Converse").input_shape
    validator = validate.ParamValidator()

    def patterns(shape, value):
        pattern = shape.metadata.get("pattern")
        if pattern and isinstance(value, str) and not re.fullmatch(pattern, value):
            raise ValueError(f"{shape.name}: {value!r:.100} does not match {pattern}")
        if shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
            for name, of in value.items():
                patterns(shape.members[name], of)
        elif shape.type_name == "list":
            for of in value:
                patterns(shape.member, of)

    def judge(line):
        asked = {"modelId": "m", "messages": line["messages"]}
        if "system" in line:
            asked["system"] = [{"text": line["system"]}]
        report = validator.validate(asked, converse)
        if report.has_errors():
            raise ValueError(report.generate_report())
        patterns(converse, asked)
    return judge


def asks(line):
    """Returns the list up to where an answer is due; None without such a place."""
    messages = line["messages"]
    if messages[-1]["role"] == "assistant":
        messages = messages[:-1]
    return messages if messages and messages[-1]["role"] in ("user", "tool") else None


# Before version 5 of the request an assistant message had text or calls, not both. That
# was Mistral's own rule of 2024; its service and its later templates take both.
def has_both(messages):
    return any(m["role"] == "assistant" and m.get("content") and m.get("tool_calls")
               for m in messages)


def mistral_validator(version):
    def make():
        from mistral_common.protocol.instruct.request import ChatCompletionRequest
        from mistral_common.protocol.instruct import validator
        check = getattr(validator, f"MistralRequestValidatorV{version}")()

        def judge(line):
            messages = asks(line)
            if not messages or (version < 5 and has_both(messages)):
                return PASSED_OVER
            check.validate_request(
                ChatCompletionRequest.from_openai(messages=messages, model="m"))
        return judge
    return make


def mistral_tokenizer(name, both):
    def make():
        import mistral_common
        from mistral_common.protocol.instruct.request import ChatCompletionRequest
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
        path = os.path.join(os.path.dirname(mistral_common.__file__), "data", name)
        tokenizer = MistralTokenizer.from_file(path)

        def judge(line):
            messages = asks(line)
            if not messages or len(json.dumps(messages)) > 40000:
                return PASSED_OVER
            if "image_url" in json.dumps(messages) or (has_both(messages) and not both):
                return PASSED_OVER  # these two tokenizers have no pictures
            tokenizer.encode_chat_completion(
                ChatCompletionRequest.from_openai(messages=messages, model="m"))
        return judge
    return make


def judge_litellm_anthropic():
    from litellm.litellm_core_utils.prompt_templates.factory import anthropic_messages_pt
    import copy
    return lambda line: anthropic_messages_pt(
        copy.deepcopy([m for m in line["messages"] if m["role"] != "system"]) or
        [{"role": "user", "content": "u"}], model="claude-sonnet-4-5",
        llm_provider="anthropic")


def judge_litellm_gemini():
    from litellm.llms.vertex_ai.gemini.transformation import (
        _gemini_convert_messages_with_history)
    import copy

    def judge(line):
        if '"url": "http' in json.dumps(line["messages"]):
            return PASSED_OVER  # it fetches pictures that are given by URL
        if '"file_id"' in json.dumps(line["messages"]):
            return PASSED_OVER  # OpenAI's files are not Gemini's
        _gemini_convert_messages_with_history(
            copy.deepcopy([m for m in line["messages"] if m["role"] != "system"]))
    return judge


def judge_langchain_core():
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages

    def judge(line):
        if line["profile"] == "anthropic" and '"type": "url"' in json.dumps(line):
            return PASSED_OVER  # it knows pictures of anthropic by data only
        turned = convert_to_openai_messages(convert_to_messages(line["messages"]))
        # results of anthropic are a message each there
        if line["profile"] != "anthropic" and len(turned) != len(line["messages"]):
            raise ValueError("another number of messages")
    return judge


def judge_langchain_openai():
    from langchain_core.messages import convert_to_messages
    from langchain_openai.chat_models.base import _convert_message_to_dict
    return lambda line: [_convert_message_to_dict(m)
                         for m in convert_to_messages(line["messages"])]


def judge_langchain_anthropic():
    from langchain_anthropic.chat_models import _format_messages
    from langchain_core.messages import convert_to_messages
    return lambda line: _format_messages(convert_to_messages(line["messages"]),
                                         model="claude-sonnet-4-5")


JUDGES = [
    ("openai", judge_openai, ("openai", "chat-strict", "mistral", "deepseek", "glm",
                              "openrouter")),
    ("openai, responses", judge_openai_responses, ("openai-responses",)),
    ("anthropic", judge_anthropic, ("anthropic",)),
    ("google-genai", judge_gemini, ("gemini",)),
    ("google-genai, interactions", judge_interactions, ("gemini-interactions",)),
    ("pydantic-ai", judge_pydantic_ai, ("pydantic-ai",)),
    ("ollama", judge_ollama, ("ollama",)),
    ("cohere", judge_cohere, ("cohere",)),
    ("botocore, Converse", judge_bedrock, ("bedrock",)),
    ("mistral-common validator v3", mistral_validator(3), ("mistral",)),
    ("mistral-common validator v5", mistral_validator(5), ("mistral",)),
    ("mistral-common validator v15", mistral_validator(15), ("mistral",)),
    ("mistral-common tekken v3", mistral_tokenizer("tekken_240911.json", False),
     ("mistral",)),
    ("mistral-common sentencepiece v7",
     mistral_tokenizer("mistral_instruct_tokenizer_241114.model.v7", True), ("mistral",)),
    ("litellm to anthropic", judge_litellm_anthropic, ("openai", "chat-strict")),
    ("litellm to gemini", judge_litellm_gemini, ("openai", "chat-strict")),
    ("langchain-core", judge_langchain_core, ("openai", "chat-strict", "anthropic")),
    ("langchain-openai", judge_langchain_openai, ("openai", "chat-strict")),
    ("langchain-anthropic", judge_langchain_anthropic, ("chat-strict", "anthropic")),
]


def run(judges, name_of_file):
    """Passes each judge the lines of its profiles; prints a line for each judge."""
    ready = []
    for name, make, profiles in judges:
        try:
            ready.append([name, make(), profiles, 0, [], 0])
        except Exception as error:
            print(f"skip {name}: {type(error).__name__}: {str(error)[:120]}")
    with open(os.path.join(folder, name_of_file)) as lines:
        for text in lines:
            line = json.loads(text)
            for state in ready:
                if line["profile"] not in state[2]:
                    continue
                try:
                    if state[1](line) is PASSED_OVER:
                        state[5] += 1
                    else:
                        state[3] += 1
                except Exception as error:
                    where = f"{line['profile']} {line['source']}"
                    if "from" in line:
                        where += f" [{line['from']}, {line['to']})"
                    state[4].append(f"{where}: {type(error).__name__}: {error}")
    for name, _, _, taken, refused, over in ready:
        if refused:
            reason = " ".join(refused[0].split())[:900]
            print(f"FAIL {name}: {len(refused)} refused, {taken} taken; {reason}")
        else:
            print(f"ok {name}: {taken} taken" + (f", {over} passed over" if over else ""))


# Answers: is the body a response for the package, and does the package take the request?

def events(line):
    for row in line.get("stream", "").splitlines():
        row = row.removeprefix("data:").strip()
        if row.startswith("{"):
            yield json.loads(row)


def response(checks):
    """Makes a judge of the functions that check a body, an event and a request."""
    def make():
        body, event, request = checks()

        def judge(line):
            body(line["body"])
            for each in events(line):
                event(each)
            request(line["request"])
        return judge
    return make


@response
def response_openai():
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    return ChatCompletion.model_validate, ChatCompletionChunk.model_validate, judge_openai()


@response
def response_anthropic():
    from anthropic.types import Message, RawMessageStreamEvent
    check = adapter(RawMessageStreamEvent)
    return (Message.model_validate, lambda event: event["type"] == "ping" or check(event),
            judge_anthropic())


@response
def response_gemini():
    from google.genai import types
    check = types.GenerateContentResponse.model_validate
    return check, check, lambda request: judge_gemini()({"messages": request["contents"]})


@response
def response_ollama():
    from ollama._types import ChatResponse
    return ChatResponse.model_validate, ChatResponse.model_validate, judge_ollama()


@response
def response_cohere():
    from cohere.v2 import types

    def event(each):
        word = "".join(part.capitalize() for part in each["type"].split("-"))
        getattr(types, f"{word}V2ChatStreamResponse").model_validate(each)
    return types.V2ChatResponse.model_validate, event, judge_cohere()


RESPONSES = [
    ("answers, openai", response_openai, ("openai",)),
    ("answers, anthropic", response_anthropic, ("anthropic",)),
    ("answers, google-genai", response_gemini, ("gemini",)),
    ("answers, ollama", response_ollama, ("ollama",)),
    ("answers, cohere", response_cohere, ("cohere",)),
]

run(JUDGES, "projections.jsonl")
run(RESPONSES, "answers.jsonl")
