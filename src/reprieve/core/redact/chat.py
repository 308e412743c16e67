"""What people and models say to each other: prompts and message contents in any payload that holds them."""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.patterns import Span, compiled
from reprieve.core.redact.values import MARKER, Quote, block, bracket_end, quote_at, string_end, to_line_end

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE: Final = "chat"

_STRONG: Final = (
    rb"content|contents|page_content|prompt|prompts|messages|completion|output_text|input_text|system_prompt|systemPrompt|user_prompt|userPrompt|"
    rb"system_instruction|systemInstruction|system_message|instructions|user_message|userMessage|assistant_message|user_input|userInput|reasoning_content|"
    rb"thinking|revised_prompt|negative_prompt|generated_text|generatedText|chat_history|chatHistory|conversation|inputText|outputText|partial_json|"
    rb"prompt_text|raw_prompt|full_prompt|llm_input|llm_output|model_output|modelOutput|raw_output|raw_response|last_message|human_input|instruction"
)
_WEAK: Final = (
    rb"text|input|inputs|system|parts|output|outputs|query|question|answer|response|arguments|args|parameters|summary|"
    rb"refusal|reasoning|body|history|context|kwargs|input_value|tool_input|result|data|value|transcript|texts|tool_calls|"
    rb"function_call|turns|cited_text|title|token|document|quote|caption|dialog|dialogue|utterance|reply|delta|message|url|image_url|b64_json|image|audio|file_data"
)
STRONG_NAMES: Final = frozenset(_STRONG.decode().split("|"))
WEAK_NAMES: Final = frozenset(_WEAK.decode().split("|"))
_QUOTES: Final = rb"(?:[\\\"'`]|&quot;|&#3[49];|%22|u002[27])"
_OPENER: Final = rb"([bBrRuUfF]{0,2}\\*[\"'`]|&quot;|&#3[49];|%22|\\+u002[27]|\[|\{)"
_OTHER: Final = rb"[A-Za-z_]\w{0,40}"
_KEY: Final = rb"(?:^|[^\w-]|\\[nrt])(?:(%b)|(%b)|(%b))%b*\]?[ \t]*[:=][ \t]*(?:\r?\n[ \t]*)?%b" % (
    _STRONG,
    _WEAK,
    _OTHER,
    _QUOTES,
    _OPENER,
)

_ROLES: Final = rb"(?:user|assistant|system|tool|human|model|developer|function|ai|bot)"
_CONTEXT: Final = (
    rb"\brole" + _QUOTES + rb"*[ \t]*[:=][ \t]*" + _QUOTES + rb"*" + _ROLES + rb"\b"
    rb"|\b(?:candidates|choices|parts)" + _QUOTES + rb"*[ \t]*[:=][ \t]*\[(?:\s|\\+[nrt])*[{A-Z]"
    rb"|content_block|text_delta|function_call|tool_call|call_id|logprobs?\b|audio_transcript|omni-moderation|"
    rb"\btype"
    + _QUOTES
    + rb"*[ \t]*[:=][ \t]*"
    + _QUOTES
    + rb"*(?:text|input_text|output_text|text_delta|document|thinking|tool_use|tool_result|input_audio)[\\\"'&]"
    rb"|output_text|message_delta|message_start|chat\.completion|response\.(?:created|completed|output)"
    rb"|\bfrom" + _QUOTES + rb"*[ \t]*[:=][ \t]*" + _QUOTES + rb"*(?:human|gpt|chatgpt|system|user|assistant)\b"
    rb"|\b(?:messages|prompt|contents|chat_history|input_messages)"
    + _QUOTES
    + rb"*[ \t]*[:=][ \t]*\[(?:\s|\\+[nrt])*[\\\"'{(A-Z]"
    rb"|\b(?:ChatCompletion|ChatMessage|TextBlock|HumanMessage|AIMessage|SystemMessage|ToolUseBlock|ToolMessage|InputMessage|OutputMessage|ResponseOutput|MessageParam|GenerateContent|UserMessage|AssistantMessage|BaseMessage|ChatPrompt|ContentBlock|TextPart|UserPromptPart|ModelRequest|ModelResponse|TextContent)\w*"
    rb"|chat[./_]completions|/v1/(?:messages|completions|responses|chat|embeddings)|generateContent|invoke_model|converse\("
    rb"|\bmodel"
    + _QUOTES
    + rb"*[ \t]*[:=][ \t]*"
    + _QUOTES
    + rb"*(?:[\w.-]+/)?(?:gpt|claude|gemini|llama|mistral|mixtral|o[134]\b|o[134]-|command|qwen|deepseek|text-|chatgpt|grok|phi|gemma|titan|nova|jamba|smollm|palm|bison)"
    rb"|\b(?:finish_reason|stop_reason|max_tokens|max_output_tokens|maxOutputTokens|tool_calls|tool_choice|tool_use|input_text|output_text|system_prompt|inline_data|system_instruction)"
    + _QUOTES
)
TRIGGER: Final = (
    rb"(?:^|[^\w-]|\\[nrt])(?:" + _STRONG + rb")" + _QUOTES + rb"*\]?[ \t]*[:=]\s*" + _OPENER + rb"|" + _CONTEXT
)
_NEAR: Final = 6000
_VERY_NEAR: Final = 300
_WHOLE: Final = frozenset(
    (
        b"arguments",
        b"args",
        b"input",
        b"parameters",
        b"kwargs",
        b"tool_input",
        b"input_value",
        b"value",
        b"output",
        b"response",
        b"result",
    )
)
_LISTS: Final = frozenset(
    (
        b"content",
        b"contents",
        b"prompt",
        b"prompts",
        b"input",
        b"inputs",
        b"parts",
        b"messages",
        b"texts",
        b"documents",
        b"examples",
        b"history",
        b"chat_history",
        b"conversation",
        b"query",
        b"instructions",
        b"text",
        b"turns",
        b"outputs",
        b"output",
        b"system",
    )
)
# What `content` holds outside a chat: a media type, a file, a number, a viewport.
_ORDINARY: Final = re.compile(
    rb"[\w.+-]+/[\w.+*;= -]+\Z|[\w./\\-]+\.[A-Za-z0-9]{1,5}\Z|[\d.,:x% -]+\Z|[\w-]+=[\w.-]+|\W{0,8}\Z|https?://\S+\Z|[a-z_]{1,20}\Z"
)
_META: Final = re.compile(rb"<(?:meta|link|input|script|param|option)\b[^<>]{0,300}\Z")


class _Contexts:
    """Where a text speaks of a chat."""

    def __init__(self, data: bytes) -> None:
        self._places = [match.start() for match in compiled(_CONTEXT).finditer(data)]

    def near(self, pos: int, reach: int = _NEAR) -> bool:
        index = bisect.bisect_left(self._places, pos - reach)
        return index < len(self._places) and self._places[index] <= pos + reach


def spans(data: bytes) -> Iterator[Span]:
    """Every prompt and message content."""
    contexts = _Contexts(data)
    pattern = compiled(_KEY)
    pos = 0
    while (match := pattern.search(data, pos)) is not None:
        opener = match.start(4)
        pos = opener + 1
        strong = match.group(1)
        name = strong or match.group(2) or b""
        if not name and not contexts.near(opener, _VERY_NEAR):
            continue
        near = contexts.near(opener)
        if not (strong or near) or MARKER.match(data, opener) or _closes(data, match.start(), opener):
            continue
        if data[opener : opener + 3] in (b'"""', b"'''") and data[opener - 1 : opener] in (b" ", b"\t", b"\n"):
            line = data.rfind(b"\n", match.start(), opener)
            if line >= 0:  # the docstring below a definition
                continue
        if not name:
            found = _sentence(data, opener, match.group(3) or b"")
        elif data[opener : opener + 1] in (b"[", b"{"):
            found = _container(data, opener, name, near=near)
        else:
            found = _string(data, match.start(), opener, name, near=near)
        for span in found:
            pos = max(pos, span.end)
            yield span


_FACTS: Final = frozenset(
    b"message msg error errors reason detail details event level logger exception traceback stack file filename path function "
    b"module url method host service component user_agent timestamp time date created status state code type role name id model "
    b"object version line source lineno exc info warning hint note remedy command cmd argv".split()
)
_WORDS: Final = re.compile(rb"[A-Za-z\x80-\xff]{2,}[,;:.]? +[A-Za-z\x80-\xff]{2,}[,;:.]? +[A-Za-z\x80-\xff]{2,}")


def _sentence(data: bytes, opener: int, name: bytes) -> list[Span]:
    """A sentence under a name that nobody knows, in the midst of a chat."""
    quote = quote_at(data, opener)
    if quote is None or name.lower() in _FACTS:
        return []
    end = string_end(data, quote)
    if end - quote.start < _SHORTEST_SENTENCE or not _WORDS.search(data, quote.start, end):
        return []
    return [] if b"[redacted:" in data[quote.start : end] else [Span(quote.start, end, RULE)]


_SHORTEST_SENTENCE: Final = 12


def _closes(data: bytes, key: int, opener: int) -> bool:
    """Whether the quote closes a string that the name stands in: `print("answer: ", text)`."""
    mark = data[opener : opener + 1]
    return mark in (b'"', b"'") and data[key : key + 1] == mark and mark not in data[key + 1 : opener]


def _string(data: bytes, key: int, opener: int, name: bytes, *, near: bool) -> list[Span]:  # noqa: PLR0911 - exceptions, read from the top
    quote = quote_at(data, opener)
    if quote is None:
        return []
    end = string_end(data, quote, spill=near)
    value = data[quote.start : end]
    if not value.strip() or MARKER.fullmatch(value):
        return []
    if not near and (_ORDINARY.match(value) or _META.search(data[max(0, key - 320) : key])):
        return []
    if name == b"message" and _CHATTY.search(data, max(0, key - 2000), end + 2000) is None:
        return []
    if name == b"token" and _LOGPROB.search(data, end, end + 60) is None:
        return []
    if name in _MEDIA and not value.startswith(b"data:") and not _LONG.match(value) and not _WORDS.search(value):
        return []
    if data[end + quote.escapes + 1 : end + quote.escapes + 2] == b";" and data[key : key + 1] in (
        b" ",
        b"\t",
        b"\n",
        b"{",
        b";",
    ):
        return []  # a style sheet
    if name == b"system" and value in (b"linux", b"darwin", b"windows"):
        return []
    return [Span(quote.start, end, RULE)] if end > quote.start else []


_LOGPROB: Final = re.compile(rb"logprob")
_CHATTY: Final = re.compile(rb"chat_history|preamble|conversation_id")
_MEDIA: Final = frozenset((b"url", b"image_url", b"b64_json", b"image", b"audio", b"file_data", b"data"))
_LONG: Final = re.compile(rb"[A-Za-z0-9+/=_-]{8,}(?:\W{0,3}\Z|\.\.\.|\xe2\x80\xa6|[A-Za-z0-9+/=_-]{16})")


def _container(data: bytes, opener: int, name: bytes, *, near: bool) -> list[Span]:
    if data[opener : opener + 1] == b"{":
        if near and name in _WHOLE:
            end = bracket_end(data, opener, spill=True)
            return [Span(opener, end, RULE)] if end - opener > 2 else []  # noqa: PLR2004 - `{}`
        return []
    if name not in _LISTS or not (near or name in (b"content", b"prompt", b"prompts")):
        return []
    return _list_strings(data, opener)


_TOKEN: Final = re.compile(rb"""[\[\]{}()]|[bru]{0,2}\\{0,255}["']""")
_OPENS: Final = (b"[", b"{", b"(")
_IDLE: Final = 40
"""So many brackets and strings without one that stands directly in the list, and it is a list of something else."""


def _list_strings(data: bytes, pos: int) -> list[Span]:
    """The strings that stand directly in a list; what stands in objects inside it is found by its own names."""
    found: list[Span] = []
    depth = 0
    idle = 0
    while idle < _IDLE:
        idle += 1
        match = _TOKEN.search(data, pos)
        if match is None or (depth == 1 and data[pos : match.start()].strip(b" \t\r\n,\\rn")):
            break
        token, pos = match[0], match.end()
        if token in _OPENS:
            depth += 1
        elif token in (b"]", b"}", b")"):
            depth -= 1
            if depth <= 0:
                break
        else:
            quote = quote_at(data, match.start()) or Quote(token[-1:], len(token) - 1, pos)
            end = string_end(data, quote, spill=True)
            if depth == 1 and end > quote.start and not MARKER.fullmatch(data, quote.start, end):
                found.append(Span(quote.start, end, RULE))
                idle = 0
            elif depth > 1 and found == [] and data[match.start() - 1 : match.start()] == b"{":
                return found  # a list of objects
            pos = end + quote.escapes + len(quote.mark)
    return found


_TUPLE: Final = (
    rb"(?:^|[^\w])[\[(]\\*[\"']"
    rb"(?:user|assistant|system|human|ai|developer)\\*[\"'][ \t]*,[ \t]*([bru]{0,2}\\*[\"'])"
)
TUPLE_TRIGGER: Final = _TUPLE


def role_tuples(data: bytes) -> Iterator[Span]:
    """`("user", "what they said")`."""
    contexts = _Contexts(data)
    matches = list(compiled(_TUPLE).finditer(data))
    for match in matches:
        quote = quote_at(data, match.start(1))
        if quote is None:
            continue
        end = string_end(data, quote)
        value = data[quote.start : end]
        if re.fullmatch(_ROLES, value) or MARKER.fullmatch(value):
            continue
        if b" " in value or len(matches) > 1 or contexts.near(quote.start):
            yield Span(quote.start, end, RULE)


_LINE: Final = rb"(?m)^([ \t>|-]*)(?:role[ \t]*:[ \t]*\w+[ \t]*)?[\"']?(content|text|prompt|system|input|instructions|completion|output|message|query|response)[\"']?[ \t]*:[ \t]*(\S)"
LINE_TRIGGER: Final = rb"(?m)^[ \t>-]*\"?role\"?[ \t]*:[ \t]*\"?" + _ROLES + rb"\b|^[ \t-]*messages:[ \t]*$"


_NO_TEXT: Final = re.compile(
    rb"[\[{]|(?:null|~|\d+)\s*(?:\n|\Z)|[A-Za-z_][\w.\[\]]*[ \t]*=[ \t]|(?:typing\.|t\.)?(?:str|int|float|bool|bytes|Any|None|Union|Optional|Iterable|List|Dict|Sequence|Literal|Callable|list|dict|tuple)\b[^\n]{0,120}(?:,|\]|omit|None)?[ \t]*(?:\n|\Z)"
)


def yaml_lines(data: bytes) -> Iterator[Span]:
    """`content: ...` in YAML that has roles, with the deeper lines below it."""
    contexts = _Contexts(data)
    for match in compiled(_LINE).finditer(data):
        pos = match.start(3)
        if not contexts.near(pos) or quote_at(data, pos) is not None or _NO_TEXT.match(data, pos):
            continue
        indent = len(match.group(1) or b"")
        below = block(data, pos, indent)
        first = to_line_end(data, pos)
        scalar = re.match(rb"[|>][+-]?\d?[ \t]*\Z", data[first.start : first.end])
        start = below.start if scalar and below.end > below.start else first.start
        end = max(first.end, below.end)
        if not scalar and MARKER.fullmatch(data, start, end):
            continue
        while data[start : start + 1] in (b" ", b"\t"):
            start += 1
        if end > start and not MARKER.fullmatch(data, start, end):
            yield Span(start, end, RULE)


_TURN: Final = rb"(?m)(?:^|\\n)[ \t>]*(Human|User|Assistant|AI|Bot|ChatGPT|Claude|System|H|A)[ \t]*:"
TRANSCRIPT_TRIGGER: Final = rb"(?m)(?:^|\\n)[ \t>]*(?:Human|User|Assistant|AI|Bot|ChatGPT|Claude)[ \t]*:"
_RECORD: Final = rb"(?m)^(?:Traceback |  File \"|\[?\d{4}-\d\d-\d\d|\[?(?:DEBUG|INFO|WARN|ERROR|CRITICAL)\b|[A-Za-z_.]+(?:Error|Exception)\b)"


def transcripts(data: bytes) -> Iterator[Span]:
    """`Human: ... Assistant: ...`, where both of them speak."""
    turns = list(compiled(_TURN).finditer(data))
    speakers = {turn.group(1) for turn in turns}
    if not (
        speakers & {b"Human", b"User", b"H"} and speakers & {b"Assistant", b"AI", b"Bot", b"ChatGPT", b"Claude", b"A"}
    ):
        return
    for index, turn in enumerate(turns):
        start = turn.end()
        end = turns[index + 1].start() if index + 1 < len(turns) else len(data)
        record = compiled(_RECORD).search(data, start, end)
        end = end if record is None else record.start()
        while start < end and data[start] in b" \t\r\n":
            start += 1
        while end > start and data[end - 1] in b" \t\r\n\"'":
            end -= 1
        if end > start and not MARKER.fullmatch(data, start, end):
            yield Span(start, end, RULE)


_TEMPLATES: Final = (
    (rb"<\|im_start\|>\w+(?:\\n|\s)*", (b"<|im_end|>", b"<|im_start|>")),
    (rb"<\|(?:user|assistant|system|prompter)\|>(?:\\n|\s)*", (b"<|", b"</s>")),
    (rb"<\|start_header_id\|>\w+<\|end_header_id\|>(?:\\n|\s)*", (b"<|eot_id|>", b"<|start_header_id|>")),
    (rb"<start_of_turn>\w+(?:\\n|\s)*", (b"<end_of_turn>", b"<start_of_turn>")),
    (rb"\[INST\](?:\\n|\s)*", (b"[/INST]",)),
    (rb"\[/INST\](?:\\n|\s)*", (b"[INST]", b"</s>")),
    (
        rb"### (?:Instruction|Input|Response|Human|Assistant|User|System)(?::|[ \t]*(?:\\n|\r?\n))(?:\\n|\s)*",
        (b"### ", b"</s>"),
    ),
)
TEMPLATE_TRIGGER: Final = b"|".join(b"(?:" + opening + b")" for opening, _ in _TEMPLATES)


def templates(data: bytes) -> Iterator[Span]:
    """Prompts as they are spelled for the model itself, between its control tokens."""
    for opening, closings in _TEMPLATES:
        matches = list(compiled(opening).finditer(data))
        for index, match in enumerate(matches):
            start = match.end()
            limit = matches[index + 1].start() if index + 1 < len(matches) else len(data)
            ends = [place for closing in closings if (place := data.find(closing, start, limit)) >= 0]
            end = min(ends, default=limit)
            record = compiled(_RECORD).search(data, start, end)
            end = end if record is None else record.start()
            while end > start and data[end - 1] in b" \t\r\n\"'":
                end -= 1
            if end > start and not MARKER.fullmatch(data, start, end):
                yield Span(start, end, RULE)


_PROMPT_LINE: Final = rb"(?m)^[ \t>]*(?:(?:system|user|full|final|raw|the|rendered|llm)[ _])?(?:[Pp]rompt|PROMPT|[Cc]ompletion|[Mm]odel (?:output|response)|[Uu]ser (?:message|input|query)|[Ss]ystem message)[ \t]*:[ \t]*(\S[^\n]*)"
PROMPT_TRIGGER: Final = _PROMPT_LINE


_NO_SENTENCE: Final = re.compile(
    rb"\[redacted:|[{\[]|[\w.]+[\[(]|(?:str|bytes|bool|int|Any|None|list|dict|Callable|Union|Optional|Iterable)\b(?: \||[,)]| =|\[|\Z)"
)


def prompt_lines(data: bytes) -> Iterator[Span]:
    """`Prompt: ...` at the beginning of a line, where a sentence follows."""
    for match in compiled(_PROMPT_LINE).finditer(data):
        value = (match.group(1) or b"").rstrip()
        if value.count(b" ") >= 2 and not _NO_SENTENCE.match(value):  # noqa: PLR2004 - a sentence
            yield Span(match.start(1), match.start(1) + len(value), RULE)
