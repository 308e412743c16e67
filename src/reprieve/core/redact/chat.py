"""What people and models say to each other: prompts and message contents under their names, in any payload that holds them."""

from __future__ import annotations

import bisect
import functools
import re
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.names import words
from reprieve.core.redact.patterns import Match, Span, compiled
from reprieve.core.redact.values import MARKER, Quote, bracket_end, quote_at, string_end

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE: Final = "chat"


class Voice(StrEnum):
    """How surely a name holds what was said."""

    SURE = "sure"
    """Nothing else stands under such a name: a prompt, a completion."""
    PLAIN = "plain"
    """A content: also that of a file or a header, if it looks like one."""
    WEAK = "weak"
    """A text or an input: what was said only where a chat is near."""


_SURE: Final = frozenset(
    words("""
    completion completions output_text input_text generated_text system_instruction system_instructions system_message user_message
    assistant_message ai_message human_message bot_message developer_message user_input human_input user_query user_question user_text
    instruction instructions chat_history conversation_history message_history conversation thinking reasoning_content
    page_content partial_json llm_input llm_output llm_response model_output model_response ai_response ai_output assistant_response
    bot_response last_message preamble transcript query_text fulfillment_text response_text answer_text
    message_content chat_message
    """)
)
_PLAIN: Final = frozenset(words("content contents messages raw_output raw_response generation question utterance"))
_WEAK: Final = frozenset(
    words("""
    text input inputs system parts output outputs query answer response arguments args parameters summary refusal reasoning body
    history context kwargs input_value tool_input result data value texts tool_calls function_call turns cited_text title
    token document documents quote caption dialog dialogue reply delta message url image_url b64_json image audio file_data
    template passages sentences source_sentence chunks
    """)
)
_PROMPT_ENDINGS: Final = frozenset(
    words("text template value str string content contents body message messages input raw")
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


@functools.lru_cache(maxsize=4096)
def voice_of(name: bytes) -> Voice | None:
    """What this name says about its value; None for one that says nothing of chats."""
    parts = [part.lower() for part in _CAMEL.split(name.decode("latin-1")) if part]
    whole = "_".join(parts)
    if whole in _SURE:
        return Voice.SURE
    while len(parts) > 1 and parts[-1] in _PROMPT_ENDINGS:
        parts.pop()
    if parts and parts[-1] in ("prompt", "prompts"):
        return Voice.SURE
    if whole in _PLAIN:
        return Voice.PLAIN
    return Voice.WEAK if whole in _WEAK else None


_QUOTES: Final = rb"[\\\"'`]"
_ASSIGN: Final = rb"[ \t]*(?:=>|:=|->|[:=])[ \t]*"
_IS: Final = _QUOTES + rb"*\]?" + _ASSIGN
_GAP: Final = rb"(?:(?:\r?\n|(?:\\+r)?\\+n)[ \t]*)?(?:string\(\d+\)[ \t]*)?"
_OPENER: Final = rb"([bBrRuUfF]{0,2}\\*[\"'`]|\[|\{)"
_LINE_END: Final = rb"(?:\s|\\+[nrt])*"
_KEY: Final = rb"(?:^|\\+[nrt]|[^\w-])([A-Za-z_][\w-]{0,60})" + _IS + _GAP + _OPENER
_STRONG: Final = (
    rb"(?i:prompts?(?:_?(?:text|template|value|str|string|content|message|input))?|completions?|(?:out|in)put_?text|generated_?text|"
    rb"page_?content|reasoning_?content|message_?content|contents?|messages|(?:system|user|assistant|ai|human|bot|last|developer|chat)_?(?:message|instructions?|input|"
    rb"query|question|text)|instructions?|(?:chat|conversation|message)_?history|conversation|thinking|partial_?json|llm_?(?:in|out)put|"
    rb"(?:llm|model|ai|assistant|bot|raw)_?(?:output|response)|preamble|transcript|question|generation|utterance|(?:query|fulfillment|answer|response)_?text)"
)

ROLES: Final = rb"(?:user|assistant|system|tool|human|model|developer|function|ai|bot|chatbot)"
_SAYS: Final = _IS + _GAP + _QUOTES + rb"*"
_CHAT: Final = (
    rb"\b[Rr]ole" + _SAYS + rb"(?i:<?\w*(?:\.|::)|role_)?(?i:" + ROLES + rb")\b"
    rb"|\b(?:candidates|choices|parts|segments)" + _IS + rb"\[" + _LINE_END + rb"[{A-Z]|\bparts ?\{"
    rb"|(?:\b|_)(?:messages|prompts?|contents|chat_history|input_messages|conversations)"
    + _IS
    + rb"\["
    + _LINE_END
    + rb"[\[{(A-Z]"
    rb"|\b(?:messages|prompts?|chat_history|input_messages)" + _IS + rb"\[" + _LINE_END + rb"[\\\"']"
    rb"|\btype"
    + _SAYS
    + rb"(?:text|(?:input|output|summary|reasoning)_text|text_delta|document|thinking|tool_use|tool_result|input_audio|function_call|function_call_output|reasoning|human|ai)[\\\"'&]"
    rb"|content_block|text_delta|output_text|message_delta|message_start|audio_transcript|omni-moderation|\btools/call"
    rb"|\bfrom" + _SAYS + rb"(?:human|gpt|chatgpt|system|user|assistant)\b"
    rb"|\b(?:gen_ai|llm)\.|chat\.completion|\bresponse\.(?:created|completed|output)"
    rb"|\btask" + _SAYS + rb"trans(?:crib|lat)e\b"
    rb"|\bloc" + _IS + rb"\[[^\]\n]*(?:content|prompt|messages|instructions)"
    rb"|\b(?:content|prompt|messages|instructions)\b[\w.]*(?:\r?\n|\\+n)[ \t]+[^\n\\]*input_value="
    rb"|(?:Human|AI|System|User|Assistant|Tool|Base|Input|Output|Chat)Message|ChatCompletion|TextBlock|ThinkingBlock|ToolUseBlock|ResponseOutput|"
    rb"ResponseFunctionToolCall|MessageParam|GenerateContent|ContentBlock|TextPart|UserPromptPart|ToolCallPart|ModelRequest\(|ModelResponse\(|TextContent\b|"
    rb"(?:TextNode|Prompt\w*|Generation\w*|\bPrediction)\((?:\s|\\+n)*[a-z_]+=|LLMResult|AgentAction|AgentFinish"
)
_HINT: Final = (
    rb"\b(?:finish_?[rR]eason|stop_?[rR]eason|max_tokens|max_output_tokens|max_new_tokens|max_gen_len|max_?[tT]okens?(?:Count)?|maxOutputTokens|num_predict|tool_?[cC]alls?|"
    rb"tool_choice|tool_use|inline_data|logprobs?|call_id|tool_call_id|top_p|textGenerationConfig|generationConfig|question|prompts?|instructions?|dialog(?:ue)?|turns|history|tool_use_id|tool_input|tool_result|function_?[cC]all)"
    + _QUOTES
    + rb"+[ \t]*[:=]|\b(?:tool_calls|call_id|max_tokens|function_call|finish_reason|stop_reason)=[\[\"'\w]"
    rb"|chat[./_]completions|/v1/(?:messages|completions|responses|chat|embeddings)|invoke_model|converse\("
    rb"|\bmodel(?:_?[iI]d)?"
    + _SAYS
    + rb"(?:[\w.-]+[/.])?(?:gpt|claude|gemini|gemma|llama|mi[sx]tral|magistral|codestral|o[134]\b|o[134]-|command|qwen|deepseek|text-|chatgpt|grok|phi|titan|nova|jamba|smollm|palm|bison|"
    rb"tts|whisper|dall-e|rerank|embed|voyage|imagen|davinci|babbage|sonar|granite|kimi|glm|falcon|vicuna|zephyr|dbrx|nemotron|olmo|codellama|sora|veo)"
)
TRIGGER: Final = rb"(?:" + _STRONG + _IS + rb"\s*" + _GAP + _OPENER + rb")|" + _CHAT + rb"|" + _HINT
_RECORDS: Final = rb"\n(?:\{|\[?\d{4}-\d\d-\d\d|\[?(?:DEBUG|INFO|WARN|ERROR|CRITICAL)\b)"
_REACH: Final = 6000
_VERY_NEAR: Final = 300


class Near(IntEnum):
    """How surely a place stands in a chat."""

    NO = 0
    HINT = 1
    """A model or a limit of tokens is named: what is no file and no state was said."""
    CHAT = 2
    """Roles, parts or messages: whatever stands there was said."""


class Contexts:
    """Where a text speaks of a chat, and where its records begin."""

    def __init__(self, data: bytes) -> None:
        self._chats = [match.start() for match in compiled(_CHAT).finditer(data)]
        self._hints = [match.start() for match in compiled(_HINT).finditer(data)]
        self._records = [match.start() for match in compiled(_RECORDS).finditer(data)]

    def near(self, start: int, end: int, reach: int = _REACH) -> Near:
        """What stands around a value, in the same record; what stands inside it says nothing about it."""
        before = bisect.bisect_right(self._records, start)
        after = bisect.bisect_left(self._records, end)
        low = max(start - reach, self._records[before - 1] if before else 0)
        high = min(end + reach, self._records[after] if after < len(self._records) else end + reach)
        if _any_around(self._chats, low, start, end, high):
            return Near.CHAT
        return Near.HINT if _any_around(self._hints, low, start, end, high) else Near.NO


def _any_around(places: list[int], low: int, start: int, end: int, high: int) -> bool:
    index = bisect.bisect_left(places, low)
    if index < len(places) and places[index] < start:
        return True
    index = bisect.bisect_left(places, end, index)
    return index < len(places) and places[index] <= high


def spans(data: bytes) -> Iterator[Span]:
    """Every prompt and message content."""
    contexts = Contexts(data)
    pattern = compiled(_KEY)
    pos = 0
    while (match := pattern.search(data, pos)) is not None:
        opener = match.start(2)
        pos = match.end(2) - 1  # the quote bounds a name that it may open with
        name = match.group(1) or b""
        voice = voice_of(name)
        if voice in (None, Voice.WEAK) and contexts.near(opener, opener) is Near.NO:
            continue
        if MARKER.match(data, opener) or _closes(data, match, opener) or _below_definition(data, match, opener):
            continue
        if data[opener : opener + 1] in (b"[", b"{"):
            found = _container(data, opener, name, voice, contexts)
        else:
            found = _string(data, match.start(1), opener, name, contexts)
        for span in found:
            pos = max(pos, span.end)
            yield span


def _closes(data: bytes, match: Match, opener: int) -> bool:
    """Whether the quote closes a string that the name stands in: `print("answer: ", text)`."""
    mark, key = data[opener : opener + 1], match.start()
    return mark in (b'"', b"'") and data[key : key + 1] == mark and mark not in data[key + 1 : opener]


def _below_definition(data: bytes, match: Match, opener: int) -> bool:
    """Whether this is the docstring below a definition."""
    return data[opener : opener + 3] in (b'"""', b"'''") and data.rfind(b"\n", match.start(1), opener) >= 0


def said(data: bytes, opener: int, *, spill: bool) -> tuple[int, int] | None:
    """Where a string begins and ends; a quote right before a letter is an apostrophe, three of them are one mark at any depth."""
    quote = quote_at(data, opener)
    if quote is None:
        return None
    mark = data[quote.start - len(quote.mark) - quote.escapes : quote.start]
    if quote.escapes and data.startswith(mark * 2, quote.start):
        start = quote.start + 2 * len(mark)
        end = data.find(mark * 3, start, start + _LONGEST)
        return start, min(len(data), start + _LONGEST) if end < 0 else end
    end = string_end(data, quote, spill=spill)
    for _ in range(_APOSTROPHES):
        after = end + quote.escapes + len(quote.mark)
        following = data[after : after + 1]
        quoted = data[end - 1 : end] == b"\\" and following == b")"  # an escaped quote inside a repr, then a bracket
        if data[end + quote.escapes : after] != quote.mark or not (following.isalpha() or quoted):
            break
        further = string_end(data, Quote(quote.mark, quote.escapes, after), spill=spill)
        if data[further + quote.escapes : further + quote.escapes + len(quote.mark)] != quote.mark:
            break
        end = further
    return quote.start, end


_APOSTROPHES: Final = 6
_LONGEST: Final = 1 << 16
_MEDIA: Final = frozenset((b"url", b"image_url", b"b64_json", b"image", b"audio", b"file_data", b"data"))
_LONG: Final = re.compile(rb"[A-Za-z0-9+/=_-]{8,}(?:\W{0,3}\Z|\.\.\.|\xe2\x80\xa6|[A-Za-z0-9+/=_-]{16})")
_CHATTY: Final = re.compile(rb"chat_history|preamble|conversation_id")
_WORDS: Final = re.compile(rb"[A-Za-z\x80-\xff]{2,}[,;:.]? +[A-Za-z\x80-\xff]{2,}[,;:.]? +[A-Za-z\x80-\xff]{2,}")
_FILE: Final = re.compile(
    rb"[\w./\\-]+\.[A-Za-z][A-Za-z0-9]{0,4}\Z|[a-z][a-z0-9+.-]{1,12}://\S+\Z|[\d.,:x% -]+\Z|\W{0,8}\Z|[a-z]{2,8}_[A-Za-z0-9]*\d[A-Za-z0-9]*\Z"
)
"""A file, an address, a number or an id."""
_STATE: Final = re.compile(
    rb"(?i)[\w.+-]+/[\w.+*;= -]+\Z|[\w-]+=[\w.-]+\Z|(?:ok|okay|done|success|succeeded|failed|failure|error|stop|true|false|yes|no|none|null|pending|"
    rb"complete|completed|cancell?ed|timeout|running|queued|ready|auto|json|text|json_object|enabled|disabled|required)\Z"
)
_ORDINARY: Final = re.compile(rb"[\w.+-]+/[\w.+*;= -]+\Z|[\w-]+=[\w.-]+|[a-z_]{1,20}\Z")
"""What `content` holds outside a chat: a media type, a viewport, a word."""
_META: Final = re.compile(rb"<(?:meta|link|input|script|param|option)\b[^<>]{0,300}\Z")
_ASKS_PERSON: Final = re.compile(rb"[^\n\\]{0,60}[:>?$#] \Z|(?:none|login|consent|select_account)\Z")
"""What a terminal or a page asks a person with."""
PLACEHOLDERS: Final = re.compile(
    rb"(?:\{\{[^{}]{0,80}\}\}|\{(?:[A-Za-z_][^{}\"]{0,80})?\}|\\[nrt]|%[sdr]|[^\w{}\x80-\xff])*\Z"
)
_DOTTED: Final = re.compile(rb"(?:gen_ai|llm|prompts?|completions?|messages?|input|output)[\w.-]{0,60}\.\Z")
_STYLED: Final = re.compile(rb"\\*[\"'];")
_NOT_BY_HINT: Final = frozenset(
    words("body data value url title result message document kwargs token text_format image template")
)


def ordinary(value: bytes, voice: Voice | None, near: Near, name: bytes) -> bool:
    """Whether a value is one that nobody said, going by how it looks and how sure its place is."""
    if near is Near.CHAT:
        return False
    if voice is Voice.SURE:
        return _FILE.match(value) is not None or _ASKS_PERSON.match(value) is not None
    if near is Near.HINT:
        by_name = voice is Voice.WEAK and name.decode("latin-1").lower() in _NOT_BY_HINT
        return by_name or _FILE.match(value) is not None or _STATE.match(value) is not None
    if _FILE.match(value) or _ORDINARY.match(value):
        return True
    return name.lower() in (b"question", b"generation") and _WORDS.search(value) is None


def _string(data: bytes, key: int, opener: int, name: bytes, contexts: Contexts) -> list[Span]:
    voice = voice_of(name)
    if voice is None:
        return _sentence(data, opener, name, contexts)
    inside = said(data, opener, spill=voice is not Voice.WEAK or contexts.near(opener, opener) is Near.CHAT)
    if inside is None:
        return []
    start, end = inside
    value = data[start:end]
    near = contexts.near(opener, end)
    if data[key - 1 : key] == b"." and _DOTTED.search(data[max(0, key - 100) : key]):
        near = Near.CHAT
    if voice is Voice.WEAK and near is Near.NO:
        return []
    if not value.strip() or MARKER.fullmatch(value) or ordinary(value, voice, near, name):
        return []
    if PLACEHOLDERS.match(value) or value == name or _excepted(data, key, end, name, value):
        return []
    return [Span(start, end, RULE)]


def _excepted(data: bytes, key: int, end: int, name: bytes, value: bytes) -> bool:
    """Names that mean something else just as often, and attributes of pages and styles."""
    if _META.search(data[max(0, key - 320) : key]):
        return True
    if name == b"message":
        return _CHATTY.search(data, max(0, key - 2000), end + 2000) is None
    if name == b"token":
        return data.find(b"logprob", end, end + 60) < 0
    if name in _MEDIA:
        return not value.startswith(b"data:") and not _LONG.match(value) and not _WORDS.search(value)
    if name == b"system":
        return value in (b"linux", b"darwin", b"windows")
    return name == b"content" and _STYLED.match(data, end) is not None and data[key - 1 : key] in b" \t\n{;"


_FACTS: Final = frozenset(
    b"message msg error errors reason detail details event level logger exception traceback stack file filename path function "
    b"module url method host service component user_agent timestamp time date created status state code type role name id model "
    b"object version line source lineno exc info warning hint note remedy command cmd argv description".split()
)
_SHORTEST_SENTENCE: Final = 12


def _sentence(data: bytes, opener: int, name: bytes, contexts: Contexts) -> list[Span]:
    """A sentence under a name that nobody knows, in the midst of a chat."""
    quote = quote_at(data, opener)
    if quote is None or name.lower() in _FACTS:
        return []
    end = string_end(data, quote)
    if end - quote.start < _SHORTEST_SENTENCE or not _WORDS.search(data, quote.start, end):
        return []
    if contexts.near(opener, end, _VERY_NEAR) is not Near.CHAT or b"[redacted:" in data[quote.start : end]:
        return []
    return [Span(quote.start, end, RULE)]


_WHOLE: Final = frozenset((b"arguments", b"args", b"input", b"parameters", b"tool_input", b"input_value"))
_LISTS: Final = frozenset(
    words("""
    content contents prompt prompts input inputs parts messages texts documents examples history chat_history conversation query
    instructions text turns outputs output system passages sentences
    """)
)
_DICT: Final = re.compile(rb"\{(?:\s|\\+[nrt])*(?:\\*[\"']|\w+[:=](?=[^{}\n]{0,60}[\"']))")


def _container(data: bytes, opener: int, name: bytes, voice: Voice | None, contexts: Contexts) -> list[Span]:
    if voice is None:
        return []
    if data[opener : opener + 1] == b"{":
        return _object(data, opener, name, contexts)
    near = contexts.near(opener, opener)
    listed = voice is Voice.SURE or name.decode("latin-1").lower() in _LISTS
    if not listed or (voice is Voice.WEAK and near is Near.NO):
        return []
    found = _list_strings(data, opener)
    if voice is Voice.PLAIN and near is Near.NO:
        return [span for span in found if _WORDS.search(data, span.start, span.end)]
    return [span for span in found if not ordinary(data[span.start : span.end], voice, near, name)]


def _object(data: bytes, opener: int, name: bytes, contexts: Contexts) -> list[Span]:
    """The arguments of a tool, whatever their names."""
    if name not in _WHOLE or not _DICT.match(data, opener):
        return []
    end = bracket_end(data, opener, spill=True)
    near = contexts.near(opener, end)
    if near is Near.NO or (near is Near.HINT and name in (b"parameters", b"input_value")):
        return []
    return [Span(opener, end, RULE)]


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
