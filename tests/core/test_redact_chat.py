"""What people and models say never stays, in whatever shape a payload reaches a log."""

import json

import pytest

from reprieve.core.redact import redact

SAID = (
    "Please review this patch for the zebra-garden project",
    'She said "never zebra-garden again" and left',
    "It's the zebra-garden's turn",
    "line one\nline two zebra-garden\n\nline four",
    "tabs\tand \\ backslashes zebra-garden \\n not a newline",
    "emoji 🦓 und Umlaute äöü zebra-garden",
    'mixed \'single\' and "double" zebra-garden {"json": ["inside"]}',
    "ends with a backslash zebra-garden \\",
    "zebra-garden",
    "[zebra-garden] (zebra-garden) {zebra-garden}",
)
WORDS = ("zebra", "garden", "review", "patch", "umlaute", "backslashes", "never", "inside", "line two", "line four")


def payloads(said: str) -> dict[str, object]:
    return {
        "openai": {
            "model": "gpt-4o",
            "messages": [{"role": "system", "content": said}, {"role": "user", "content": said}],
        },
        "parts": {
            "messages": [{"role": "user", "content": [{"type": "text", "text": said}, {"type": "text", "text": said}]}]
        },
        "anthropic": {
            "model": "claude-x",
            "system": said,
            "max_tokens": 10,
            "messages": [{"role": "user", "content": said}],
        },
        "gemini": {
            "contents": [{"role": "user", "parts": [{"text": said}]}],
            "systemInstruction": {"parts": [{"text": said}]},
        },
        "responses": {"model": "gpt-5", "input": said, "instructions": said},
        "input list": {"model": "gpt-5", "input": [said, said]},
        "completion": {"choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]},
        "tool call": {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "find", "arguments": json.dumps({"q": said})}}],
        },
        "tool use": {"role": "assistant", "content": [{"type": "tool_use", "name": "find", "input": {"query": said}}]},
        "prompt": {"prompt": said, "n": 1},
        "output": {
            "object": "response",
            "output": [{"role": "assistant", "content": [{"type": "output_text", "text": said}]}],
        },
        "delta": {"choices": [{"delta": {"role": "assistant", "content": said}}]},
        "thinking": {"role": "assistant", "content": [{"type": "thinking", "thinking": said}]},
        "embedding": {"model": "text-embedding-3", "input": [said]},
        "sharegpt": {"conversations": [{"from": "human", "value": said}, {"from": "gpt", "value": said}]},
    }


def shapes(payload: object) -> dict[str, str]:
    compact = json.dumps(payload, separators=(",", ":"))
    unicode = json.dumps(payload, ensure_ascii=False)
    return {
        "compact": compact,
        "pretty": json.dumps(payload, indent=2),
        "unicode": unicode,
        "repr": repr(payload),
        "escaped once": json.dumps(compact),
        "escaped twice": json.dumps(json.dumps(unicode)),
        "escaped three times": json.dumps(json.dumps(json.dumps(unicode))),
        "repr of json": repr(unicode),
        "repr of escaped json": repr(json.dumps(unicode)),
        "bytes": repr(compact.encode()),
        "in a traceback": f'Traceback (most recent call last):\n  File "/app/x.py", line 3, in ask\n    client.create(**kw)\nValueError: bad request: {payload!r}\n',
        "in a log line": f"2024-05-01 10:00:00,123 ERROR request failed body={compact} status=400\n2024-05-01 10:00:01 INFO next",
    }


def left(clean: str) -> list[str]:
    return [word for word in WORDS if word in clean.lower()]


@pytest.mark.parametrize("kind", payloads(""))
@pytest.mark.parametrize("said", SAID)
def test_nothing_said_stays_in_any_shape_of_a_payload(kind, said):
    bad = {shape: clean for shape, text in shapes(payloads(said)[kind]).items() if left(clean := redact(text))}
    assert bad == {}


@pytest.mark.parametrize("kind", payloads(""))
@pytest.mark.parametrize("fraction", [0.45, 0.6, 0.75, 0.9])
def test_nothing_said_stays_in_a_payload_that_was_cut_off(kind, fraction):
    bad = {}
    for said in SAID:
        for shape, text in shapes(payloads(said)[kind]).items():
            if shape.startswith("in a"):
                continue
            cut = text[: int(len(text) * fraction)]
            if left(clean := redact(cut)):
                bad[shape, said] = (cut, clean)
    assert bad == {}


REPRS = (
    "ChatCompletionMessage(content={r}, refusal=None, role='assistant', audio=None, function_call=None, tool_calls=None)",
    "Message(id='msg_01', content=[TextBlock(text={r}, type='text')], model='claude-x', role='assistant')",
    "messages=[{{'role': 'user', 'content': {r}}}]",
    "HumanMessage(content={r}, additional_kwargs={{}})",
    "[('system', {r}), ('human', {r})]",
    "prompt={r}, temperature=0.2",
    "client.chat.completions.create(model='gpt-4o', messages=[{{'role': 'user', 'content': {r}}}])",
    "Content(parts=[Part(text={r})], role='user')",
    "UserPromptPart(content={r}, timestamp=datetime.datetime(2024, 1, 1))",
    "ResponseOutputMessage(id='x', content=[ResponseOutputText(text={r}, type='output_text')], role='assistant')",
    "ToolUseBlock(id='toolu_1', input={{'query': {r}}}, name='find', type='tool_use')",
    "1 validation error for Ticket\nmessages.0.content\n  Input should be a valid list [type=list_type, input_value={{'role': 'user', 'content': {r}}}, input_type=dict]",
    "Document(page_content={r}, metadata={{}})",
)


@pytest.mark.spec("CRIT-4.5")
@pytest.mark.parametrize("form", REPRS)
def test_nothing_said_stays_in_a_repr(form):
    bad = [clean for said in SAID if left(clean := redact(form.format(r=repr(said))))]
    assert bad == []


TRANSCRIPTS = (
    "\n\nHuman: {s}\n\nAssistant: {s}",
    "Human: {s}\nAssistant: sure, {s}\nHuman: {s}",
    "User: {s}\nAssistant: {s}\n2024-05-01 10:00:00 INFO done",
    "<|im_start|>system\n{s}<|im_end|>\n<|im_start|>user\n{s}<|im_end|>\n<|im_start|>assistant\n",
    "[INST] {s} [/INST] {s}",
    "### Instruction:\n{s}\n\n### Response:\n{s}",
    "Prompt: {s}",
    "messages:\n  - role: user\n    content: {s}\n  - role: assistant\n    content: |\n      {s}\n",
    "- role: system\n  content: >-\n    {s}\n- role: user\n  content: '{s}'\n",
)


@pytest.mark.parametrize("form", TRANSCRIPTS)
def test_nothing_said_stays_in_a_transcript(form):
    bad = [clean for said in (SAID[0], SAID[5]) if left(clean := redact(form.format(s=said)))]
    assert bad == []


def test_ordinary_uses_of_the_words_survive():
    for text in (
        "Content-Type: text/plain; charset=utf-8",
        "content: 12 bytes",
        "content-length: 1234, content-encoding: gzip",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '{"input": "data/file.csv", "output": "out.parquet"}',
        "text/html; q=0.8",
        "prompt_tokens=12, completion_tokens=99, total_tokens=111",
        '{"usage": {"prompt_tokens": 12, "completion_tokens": 3}}',
        "system: linux, input device not found",
        '{"content": "application/json"}',
        "response = await client.get(url, content=content)",
        "messages = [message for message in inbox]",
        'parser.add_argument("--input", "-i")',
        "User: anna logged in",
        "text=None, input=stdin",
    ):
        assert redact(text) == text
