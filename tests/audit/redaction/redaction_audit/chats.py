"""Chats as they turn up in failures: requests, responses, streams, tool calls, reprs, debug logs, truncated or escaped."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from redaction_audit import frames
from redaction_audit.chat_contents import content, image
from redaction_audit.draw import Draw
from redaction_audit.plants import Chat, Plant, heard

_MODELS = ("gpt-4o-mini", "claude-sonnet-4-5", "gemini-2.0-flash", "llama-3.1-8b", "o4-mini")


@dataclass(slots=True)
class Script:
    """Hands out what is said in one chat and remembers it; `mute` hands out the same number of dots."""

    draw: Draw
    mute: bool = False
    said: list[str] = field(default_factory=list)

    def say(self, make: Callable[[Draw], str] = content) -> str:
        """The next thing that is said."""
        self.said.append(make(self.draw))
        return "." if self.mute else self.said[-1]

    def model(self) -> str:
        """The name of a model, which must stay."""
        return self.draw.choice(_MODELS)


Shape = Callable[[Script], object]


def _openai_request(chat: Script) -> object:
    return {
        "model": chat.model(),
        "messages": [
            {"role": "system", "content": chat.say()},
            {"role": "user", "content": chat.say()},
            {"role": "assistant", "content": chat.say()},
            {"role": "user", "name": "operator", "content": chat.say()},
        ],
        "temperature": 0.2,
        "max_tokens": 512,
    }


def _content_first(chat: Script) -> object:
    return {"messages": [{"content": chat.say(), "role": "user"}, {"content": chat.say(), "role": "tool", "tool_call_id": "call_1"}],
            "model": chat.model()}  # fmt: skip


def _openai_parts(chat: Script) -> object:
    url = f"data:image/png;base64,{chat.say(image)}"
    parts = [{"type": "text", "text": chat.say()}, {"type": "image_url", "image_url": {"url": url, "detail": "low"}}]
    return {"model": chat.model(), "messages": [{"role": "user", "content": parts}], "stream": False}


def _openai_response(chat: Script) -> object:
    message = {"role": "assistant", "content": chat.say(), "refusal": None}
    return {
        "id": chat.draw.fill("chatcmpl-{a29}"),
        "object": "chat.completion",
        "model": chat.model(),
        "choices": [{"index": 0, "message": message, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 211, "completion_tokens": 512, "total_tokens": 723},
    }


def _openai_tools(chat: Script) -> object:
    call = {
        "id": "call_9",
        "type": "function",
        "function": {"name": "search", "arguments": json.dumps({"query": chat.say(), "limit": 5})},
    }
    answer = {"role": "tool", "tool_call_id": "call_9", "content": json.dumps({"rows": [chat.say()]})}
    return {"model": chat.model(), "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}, answer]}


def _function_call(chat: Script) -> object:
    call = {"name": "file_report", "arguments": json.dumps({"title": chat.say(), "body": chat.say()})}
    return {
        "model": chat.model(),
        "choices": [{"message": {"role": "assistant", "content": None, "function_call": call}}],
    }


def _responses_request(chat: Script) -> object:
    given = [{"role": "user", "content": [{"type": "input_text", "text": chat.say()}]}]
    return {"model": chat.model(), "instructions": chat.say(), "input": given, "store": False}


def _responses_plain(chat: Script) -> object:
    return {"model": chat.model(), "input": chat.say(), "instructions": chat.say()}


def _responses_output(chat: Script) -> object:
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": chat.say(), "annotations": []}],
    }
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": chat.say()}]}
    return {
        "id": chat.draw.fill("resp_{h48}"),
        "status": "incomplete",
        "model": chat.model(),
        "output": [thought, said],
    }


def _completion(chat: Script) -> object:
    return {"model": chat.model(), "prompt": chat.say(), "suffix": None, "max_tokens": 64}


def _completion_response(chat: Script) -> object:
    return {"model": chat.model(), "choices": [{"text": chat.say(), "index": 0, "finish_reason": "stop"}]}


def _embeddings(chat: Script) -> object:
    return {"model": "text-embedding-3-small", "input": [chat.say(), chat.say()], "encoding_format": "float"}


def _anthropic_request(chat: Script) -> object:
    used = {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"customer": chat.say(), "depth": 2}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": chat.say()}]}
    return {
        "model": chat.model(),
        "max_tokens": 1024,
        "system": chat.say(),
        "messages": [
            {"role": "user", "content": chat.say()},
            {"role": "assistant", "content": [{"type": "text", "text": chat.say()}, used]},
            {"role": "user", "content": [result]},
        ],
    }


def _anthropic_system_blocks(chat: Script) -> object:
    system = [{"type": "text", "text": chat.say(), "cache_control": {"type": "ephemeral"}}]
    source = {"type": "base64", "media_type": "image/png", "data": chat.say(image)}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": chat.say()}]
    return {"model": chat.model(), "system": system, "messages": [{"role": "user", "content": blocks}]}


def _anthropic_response(chat: Script) -> object:
    return {
        "id": chat.draw.fill("msg_01{a22}"),
        "type": "message",
        "role": "assistant",
        "model": chat.model(),
        "content": [
            {"type": "thinking", "thinking": chat.say(), "signature": "x"},
            {"type": "text", "text": chat.say()},
        ],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 2095, "output_tokens": 503},
    }


def _gemini_request(chat: Script) -> object:
    return {
        "systemInstruction": {"parts": [{"text": chat.say()}]},
        "contents": [
            {
                "role": "user",
                "parts": [{"text": chat.say()}, {"inlineData": {"mimeType": "image/png", "data": chat.say(image)}}],
            },
            {"role": "model", "parts": [{"text": chat.say()}]},
        ],
        "generationConfig": {"temperature": 0.1, "maxOutputTokens": 256},
    }


def _gemini_response(chat: Script) -> object:
    said = {"parts": [{"text": chat.say()}], "role": "model"}
    return {"candidates": [{"content": said, "finishReason": "SAFETY", "index": 0}], "modelVersion": chat.model()}


def _langchain_serialized(chat: Script) -> object:
    def message(kind: str) -> object:
        return {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", kind],
            "kwargs": {"content": chat.say(), "type": "human"},
        }

    return {"model": chat.model(), "messages": [[message("SystemMessage"), message("HumanMessage")]]}


def _prompts(chat: Script) -> object:
    return {"prompts": [f"System: {chat.say()}\nHuman: {chat.say()}"], "run": chat.model()}


def _named_prompts(chat: Script) -> object:
    return {
        "model": chat.model(),
        "system_prompt": chat.say(),
        "userPrompt": chat.say(),
        "completion": chat.say(),
        "attempt": 2,
    }


OBJECTS: dict[str, Shape] = {
    shape.__name__.strip("_").replace("_", "-"): shape
    for shape in (
        _openai_request, _content_first, _openai_parts, _openai_response, _openai_tools, _function_call, _responses_request,
        _responses_plain, _responses_output, _completion, _completion_response, _embeddings, _anthropic_request,
        _anthropic_system_blocks, _anthropic_response, _gemini_request, _gemini_response, _langchain_serialized, _prompts,
        _named_prompts,
    )
}  # fmt: skip


def _kwargs(value: object) -> str:
    assert isinstance(value, dict)
    return ", ".join(f"{name}={item!r}" for name, item in value.items())


NOTATIONS: dict[str, Callable[[object], str]] = {
    "compact": lambda value: json.dumps(value, separators=(",", ":")),
    "spaced": json.dumps,
    "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    "unicode": lambda value: json.dumps(value, ensure_ascii=False),
    "repr": repr,
    "kwargs-call": lambda value: f"client.create({_kwargs(value)})",
    "request-options": lambda value: (
        f"DEBUG:openai._base_client:Request options: {{'method': 'post', 'url': '/chat/completions', 'files': None, 'json_data': {value!r}}}"
    ),
    "http-body": lambda value: (
        f'HTTP Request: POST https://api.example.com/v1 "HTTP/1.1 400 Bad Request" body={json.dumps(value)!r}'
    ),
    "curl": lambda value: (
        f"curl -X POST https://api.example.com/v1/x -H 'Content-Type: application/json' -d '{json.dumps(value)}'"
    ),
}

_FRAMES = (
    "raw",
    "log",
    "traceback-message",
    "traceback-source",
    "json-1",
    "json-2",
    "json-3",
    "bytes-repr",
    "dataclass-repr",
    "logfmt",
    "tracker",
    "structlog",
)
_PER_SHAPE = 16


def written(shape: Callable[[Script], str], seed: int, kind: str, embedding: str, frame: str) -> Chat:
    """The shape twice from one seed, once spoken and once mute."""
    texts = []
    for mute in (False, True):
        draw = Draw(seed)
        chat = Script(draw, mute=mute)
        text, keep = frames.LINE_FRAMES[frame](draw, shape(chat))
        texts.append((text, tuple(chat.said), keep))
    (text, said, keep), (quiet, _, _) = texts
    return Chat(Plant(kind, embedding, text, said, keep), quiet)


def planted_chats(seed: int) -> Iterator[Chat]:
    """All of them; the same for the same seed."""
    draw = Draw(seed + 3)
    for kind, shape in OBJECTS.items():
        for at in range(_PER_SHAPE):
            notation = sorted(NOTATIONS)[at % len(NOTATIONS)]
            frame = "raw" if draw.random() < 0.3 else draw.choice(_FRAMES)
            write = NOTATIONS[notation]
            chat = written(
                lambda it, shape=shape, write=write: write(shape(it)),
                draw.getrandbits(40),
                kind,
                f"{frame} {notation}",
                frame,
            )
            yield chat
            cut = _cut(draw, chat)
            if at % 2 and heard(cut, cut.plant.text):
                yield cut


def _cut(draw: Draw, chat: Chat) -> Chat:
    """The same, cut off inside something that is said."""
    plant = chat.plant
    low, high = len(plant.text) // 4, len(plant.text) * 9 // 10
    text = plant.text[: draw.randint(low, high)] + draw.choice(("", "...", "... [truncated]", "…"))
    return Chat(Plant(plant.kind, f"{plant.embedding} cut", text, plant.secrets), chat.frame)
