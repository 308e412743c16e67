"""What people and models say to each other, line by line: YAML, transcripts, chat templates, elements, forms and bare fields."""

from __future__ import annotations

import bisect
import functools
import re
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.chat import PLACEHOLDERS, ROLES, RULE, Contexts, Near, said
from reprieve.core.redact.patterns import Span, compiled
from reprieve.core.redact.values import MARKER, Value, block, quote_at, to_line_end

if TYPE_CHECKING:
    from collections.abc import Iterator

_ESCAPED_END: Final = re.compile(rb"(?:\\++r)?(\\++)n")
_REACH: Final = 6000
_LONGEST: Final = 1 << 14
_NEARBY: Final = 2000
_RECORD: Final = rb"(?m)^(?:Traceback |  File \"|\[?\d{4}-\d\d-\d\d|\[?(?:DEBUG|INFO|WARN|ERROR|CRITICAL)\b|[A-Za-z_.]+(?:Error|Exception)\b)"


def _lined(data: bytes) -> bytes:
    """The same text, byte for byte as long, with escaped line ends as real ones."""
    if b"\\n" not in data:
        return data
    return _ESCAPED_END.sub(lambda match: b" " * (len(match[0]) - 1) + b"\n", data)


@functools.cache
def _closing(level: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?<!\\)\\{%d}[\"'](?=\s*[,}\])]|\s*(?:\n|\Z))" % level)


def _bound(data: bytes, lines: bytes, start: int, end: int) -> int:
    """Where the string ends at the latest that this stretch stands in, told by the line ends around it."""
    for place in (lines.rfind(b"\n", max(0, start - _REACH), start), lines.find(b"\n", start, start + _REACH)):
        if place >= 0 and data[place : place + 1] == b"n":
            run = data[max(0, place - 64) : place]
            level = len(run) - len(run.rstrip(b"\\")) - 1
            closing = _closing(level).search(data, start, end)
            return end if closing is None else closing.start()
    return end


def _span(data: bytes, start: int, end: int) -> Iterator[Span]:
    """What stands there without the white space around it, unless it is only a marker."""
    while start < end and data[start] in b" \t\r\n":
        start += 1
    while end > start and data[end - 1] in b" \t\r\n":
        end -= 1
    if end > start and not MARKER.fullmatch(data, start, end) and not PLACEHOLDERS.fullmatch(data, start, end):
        yield Span(start, end, RULE)


_ROLE_LINE: Final = (
    rb"(?m)(?:^|\\+n|[\"'])[ \t>|-]*(?:role[ \t]*:|\[role\] =>)[ \t]*[\"']?" + ROLES + rb"[\"']?[ \t\r]*(?:$|\\+[rn])"
)
_LINE: Final = (
    rb"(?m)^([ \t>|-]*)(?:\[(?:content|text)\] =>|(?:content|text|prompt|system|input|instructions|completion|output|message|"
    rb"query|response)[ \t]*:)[ \t]*(\S)"
)
LINE_TRIGGER: Final = _ROLE_LINE + rb"|(?m:^[ \t-]*messages:[ \t]*$)"
_NO_TEXT: Final = re.compile(rb"[\[{]|(?:null|~|\d+)\s*(?:\n|\Z)|[A-Za-z_][\w.\[\]]*[ \t]*=[ \t]")


def yaml_lines(data: bytes) -> Iterator[Span]:
    """`content: ...` near a line that names a role, with the deeper lines below it."""
    roles = [match.start() for match in compiled(LINE_TRIGGER).finditer(data)]
    lines = _lined(data)
    for match in compiled(_LINE).finditer(lines):
        pos = match.start(2)
        index = bisect.bisect_left(roles, pos - _REACH)
        if index >= len(roles) or roles[index] > pos + _REACH:
            continue
        if quote_at(data, pos) is not None or _NO_TEXT.match(lines, pos):
            continue
        # What stands after a real line end may hold a backslash and an n of its own.
        text = data if match.start() == 0 or data[match.start() - 1 : match.start()] == b"\n" else lines
        below = block(text, pos, len(match.group(1) or b""))
        first = to_line_end(text, pos) if text is lines else Value(pos, _line_end(data, pos), quoted=False)
        scalar = re.match(rb"[|>][+-]?\d?[ \t]*\Z", text[first.start : first.end])
        start = below.start if scalar and below.end > below.start else first.start
        end = max(first.end, below.end)
        yield from _span(data, start, end if text is data else _bound(data, lines, pos, end))


def _line_end(data: bytes, pos: int) -> int:
    end = data.find(b"\n", pos)
    return len(data) if end < 0 else end


_SPEAKERS: Final = rb"Human|User|Assistant|AI|Bot|ChatGPT|Claude|System|H|A|user|assistant|system|human|ai|bot|USER|ASSISTANT|SYSTEM|HUMAN|MODEL|Thought|Observation|Action Input|Final Answer"
_TURN: Final = rb"(?m)(?:^|[\s:=(]\\*[\"'])[ \t>*#\[-]*(" + _SPEAKERS + rb")[ \t*\]]*:(?:[ \t*\"'\\]|$)"
TRANSCRIPT_TRIGGER: Final = rb"(?m)(?:^|\\n|[\s:=(]\\*[\"'])[ \t>*#\[-]*(?:Human|User|Assistant|AI|Bot|ChatGPT|Claude|assistant|ai|bot|ASSISTANT|MODEL|Observation|Action Input|Final Answer)[ \t*\]]*:"
_CONTINUED: Final = re.compile(rb"(?:[^\n`]|`(?!``)|```(?:[^`]|`(?!``))*+(?:```\n?)?)*+(?:\n+[ \t>*-][^\n]*)*+")
_PEOPLE: Final = frozenset((b"Human", b"User", b"H", b"user", b"human", b"USER", b"HUMAN", b"Thought"))
_MODELS: Final = frozenset(
    (
        b"Assistant",
        b"AI",
        b"Bot",
        b"ChatGPT",
        b"Claude",
        b"A",
        b"assistant",
        b"ai",
        b"bot",
        b"ASSISTANT",
        b"MODEL",
        b"Observation",
        b"Action Input",
        b"Final Answer",
    )
)


def transcripts(data: bytes) -> Iterator[Span]:
    """`Human: ... Assistant: ...`, where both of them speak."""
    lines = _lined(data)
    turns = list(compiled(_TURN).finditer(lines))
    speakers = {turn.group(1) or b"" for turn in turns}
    # In small letters they are fields as often as speakers: then what the last one says ends with its line, a list or a block of code.
    loud = {speaker for speaker in speakers if not speaker.islower()}
    quiet = speakers - loud
    talking = (loud if loud & _PEOPLE and loud & _MODELS else set()) | (
        quiet if quiet & _PEOPLE and quiet & _MODELS else set()
    )
    turns = [turn for turn in turns if turn.group(1) in talking]
    for index, turn in enumerate(turns):
        start = turn.end()
        end = turns[index + 1].start() if index + 1 < len(turns) else len(data)
        if index + 1 == len(turns) and turn.group(1) in quiet:
            end = _CONTINUED.match(lines, start).end()  # type: ignore[union-attr]  # it matches the empty string too
        yield from _span(data, start, _until_record(data, lines, start, end))


def _until_record(data: bytes, lines: bytes, start: int, end: int) -> int:
    end = _bound(data, lines, start, end)
    record = compiled(_RECORD).search(lines, start, end)
    end = end if record is None else record.start()
    while end > start and data[end - 1] in b" \t\r\n\"'*":
        end -= 1
    return end


_TEMPLATES: Final = (
    (rb"<\|im_start\|>\w+(?:\\n|\s)*", (b"<|im_end|>", b"<|im_start|>")),
    (rb"<\|(?:user|assistant|system|prompter)\|>(?:\\n|\s)*", (b"<|", b"</s>")),
    (rb"<\|start_header_id\|>\w+<\|end_header_id\|>(?:\\n|\s)*", (b"<|eot_id|>", b"<|start_header_id|>")),
    (rb"<start_of_turn>\w+(?:\\n|\s)*", (b"<end_of_turn>", b"<start_of_turn>")),
    (rb"\[INST\](?:\\n|\s)*", (b"[/INST]",)),
    (rb"\[/INST\](?:\\n|\s)*", (b"[INST]", b"</s>")),
    (
        rb"### (?:Instruction|Input|Response|Human|Assistant|User|System|Question|Answer|Context|Prompt)(?::|[ \t]*(?:\\n|\r?\n))(?:\\n|\s)*",
        (b"### ", b"</s>"),
    ),
)
_IN_CODE: Final = re.compile(rb"[\"'](?:[ \t]*[,+)\]]|\Z)")
TEMPLATE_TRIGGER: Final = b"|".join(b"(?:" + opening + b")" for opening, _ in _TEMPLATES)


def templates(data: bytes) -> Iterator[Span]:
    """Prompts as they are spelled for the model itself, between its control tokens."""
    lines = _lined(data)
    for opening, closings in _TEMPLATES:
        matches = list(compiled(opening).finditer(data))
        for index, match in enumerate(matches):
            start = match.end()
            limit = matches[index + 1].start() if index + 1 < len(matches) else len(data)
            ends = [place for closing in closings if (place := data.find(closing, start, limit)) >= 0]
            end = min(ends, default=limit)
            if _IN_CODE.match(data, start):
                continue
            yield from _span(data, start, end if ends else _until_record(data, lines, start, end))


_PROMPT_NAME: Final = (
    rb"(?:(?:system|user|full|final|raw|the|rendered|llm)[ _])?(?:[Pp]rompt|PROMPT|[Cc]ompletion|[Mm]odel (?:output|response)|"
    rb"[Uu]ser (?:message|input|query)|[Ss]ystem (?:message|prompt))"
)
_PROMPT_LINE: Final = rb"(?m)^([ \t>]*)" + _PROMPT_NAME + rb"[ \t]*:[ \t]*(\S[^\n]*)"
_PROMPT_ABOVE: Final = rb"(?m)(?:^|[\s\"'=:>])" + _PROMPT_NAME + rb"[ \t]*:[ \t]*\r?\n([ \t]*[^\s{\[\"'][^\n]*)"
PROMPT_TRIGGER: Final = (
    rb"(?m)(?:^[ \t>]*"
    + _PROMPT_NAME
    + rb"[ \t]*:[ \t]*\S)|(?:^|[\s\"'=:>]|\\+n)"
    + _PROMPT_NAME
    + rb"[ \t]*:[ \t]*(?:\r?\n|(?:\\+r)?\\+n)"
    rb"|\\+n[ \t>]*" + _PROMPT_NAME + rb"[ \t]*:"
)
_NO_SENTENCE: Final = re.compile(
    rb"\[redacted:|[{\[]|[\w.]+[\[(]|(?:str|bytes|bool|int|Any|None|list|dict|Callable|Union|Optional|Iterable)\b(?: \||[,)]| =|\[|\Z)"
)
_DOCUMENTED: Final = re.compile(
    rb"\b(?:Args|Arguments|Parameters|Attributes|Params|Options|Returns|Raises):?[ \t]*\r?\n|:param|\"\"\"|\bdef "
)
_PARAGRAPH: Final = re.compile(rb"\n[ \t\r]*\n|\n-{3}")
_FEW: Final = 2


def prompt_lines(data: bytes) -> Iterator[Span]:
    """`Prompt: ...` at the beginning of a line or right above a paragraph, where a sentence follows."""
    lines = _lined(data)
    for match in compiled(_PROMPT_LINE).finditer(lines):
        start, end = match.start(2), match.end(2)
        if lines.count(b" ", start, end) < _FEW or _NO_SENTENCE.match(lines, start):
            continue
        if match.group(1) and _DOCUMENTED.search(lines, max(0, start - _NEARBY), start):
            continue  # an argument, explained
        yield from _span(data, start, _bound(data, lines, start, end))
    past = 0
    for match in compiled(_PROMPT_ABOVE).finditer(lines):
        start, end = match.start(1), match.end(1)
        if start < past or lines.count(b" ", start, end) < _FEW or _NO_SENTENCE.match(lines, start):
            continue
        if _DOCUMENTED.search(lines, max(0, start - _NEARBY), start):
            continue
        over = _PARAGRAPH.search(lines, start, start + _LONGEST)
        end = min(len(lines), start + _LONGEST) if over is None else over.start()
        past = _until_record(data, lines, start, end)
        yield from _span(data, start, past)


_ELEMENT: Final = rb"<((?:\w+_)?prompt|instructions?|system|user|assistant|human|thinking|completion|user_(?:input|query|message)|message role=\\*[\"']\w+\\*[\"'])>([^<]+)</"
_FORM: Final = rb"name=\\*[\"'](?:\w*prompt|instructions?|input|text|query|messages)\\*[\"'](?:\r?\n|(?:\\+r)?\\+n){2}"
_FLAG: Final = rb"--?(?:[\w-]*prompt|instructions?|system-message|user-message)(?:=|[ \t]+|\\*[\"'],[ \t]*)(\\*[\"'])"
_BARE: Final = (
    rb"\b[Rr]ole[=:] ?(?i:<?(?:\w+\.)?"
    + ROLES
    + rb")\b[,;]? ?(?:\w+[=:][^\s,]*[,;]? ?)*(?:[Cc]ontent|[Tt]ext|[Mm]essage)[=:] ?([^\s\"'\\\[{(=<][^\n]*)"
)
_GO: Final = rb"\bRole:(?i:" + ROLES + rb") (?:\w+:\S* )*Content:"
_BARE_FIRST: Final = rb"\b(?:[Cc]ontent|[Tt]ext)[=:]([^\s\"'\\\[{(=<,][^\n]*?)[,;]? [Rr]ole[=:] ?(?i:" + ROLES + rb")\b"
_STREAM: Final = rb"(?m)(?:^|\\+n|[\"'])0:(\\*\")"
OTHER_TRIGGER: Final = b"|".join((_ELEMENT, _FORM, _FLAG, _BARE, _GO, _BARE_FIRST, _STREAM))
_ENDS_LINE: Final = re.compile(rb"\\*\"[ \t\r]*(?:\n|\Z)")
_GO_FIELD: Final = re.compile(
    rb" (?:Name|MultiContent|FunctionCall|ToolCalls|ToolCallID|Refusal|ReasoningContent|Prefix):"
)
_NEXT_FIELD: Final = re.compile(rb"[,;]? [A-Za-z]\w{0,30}[=:]|[)\]}](?=[\s,;)\]}\"']|\Z)")


def others(data: bytes) -> Iterator[Span]:
    """Elements, parts of forms, options, fields that are shown without quotes, and lines of a stream."""
    lines = _lined(data)
    for match in compiled(_ELEMENT).finditer(data):
        yield from _span(data, match.start(2), match.end(2))
    past = 0
    for match in compiled(_FORM).finditer(data):
        start = match.end()
        if start < past:
            continue
        limit = min(len(data), start + _LONGEST)
        boundary = lines.find(b"\n--", start, limit)
        past = _until_record(data, lines, start, limit if boundary < 0 else boundary)
        yield from _span(data, start, past)
    for pattern in (_FLAG, _STREAM):
        for match in compiled(pattern).finditer(data):
            inside = said(data, match.start(1), spill=False)
            if inside is not None and (pattern is _FLAG or _ENDS_LINE.match(lines, inside[1])):
                yield from _span(data, *inside)
    yield from _bare_fields(data, lines)


def _bare_fields(data: bytes, lines: bytes) -> Iterator[Span]:
    """Fields that Go, Java and Kotlin show without quotes."""
    for match in compiled(_GO).finditer(data):
        field = _GO_FIELD.search(data, match.end(), match.end() + _REACH)
        if field is not None:
            yield from _span(data, match.end(), field.start())
    for match in compiled(_BARE).finditer(lines):
        start, end = match.start(1), match.end(1)
        following = _NEXT_FIELD.search(lines, start, end)
        end = end if following is None else following.start()
        yield from _span(data, start, _bound(data, lines, start, end))
    for match in compiled(_BARE_FIRST).finditer(lines):
        yield from _span(data, match.start(1), match.end(1))


_TUPLE: Final = (
    rb"(?:^|[^\w])[\[(]\\*[\"']"
    rb"(?:user|assistant|system|human|ai|developer)\\*[\"'][ \t]*,[ \t]*([bru]{0,2}\\*[\"'])"
)
TUPLE_TRIGGER: Final = _TUPLE


def role_tuples(data: bytes) -> Iterator[Span]:
    """`("user", "what they said")`."""
    contexts = Contexts(data)
    matches = list(compiled(_TUPLE).finditer(data))
    for match in matches:
        inside = said(data, match.start(1), spill=False)
        if inside is None:
            continue
        value = data[inside[0] : inside[1]]
        if re.fullmatch(ROLES, value) or MARKER.fullmatch(value):
            continue
        if b" " in value or len(matches) > 1 or contexts.near(*inside) is not Near.NO:
            yield Span(*inside, RULE)
