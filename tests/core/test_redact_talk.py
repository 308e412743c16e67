"""What was said goes in every notation, one word too; what only looks like a chat stays."""

import json
import urllib.parse

import pytest

from reprieve.core.redact import redact, redact_mapping

SURE = (
    "prompt", "user_prompt", "systemPrompt", "SYSTEM_PROMPT", "prompt_template", "negative_prompt", "inputText", "outputText", "generated_text",
    "completion", "instructions", "system_instruction", "preamble", "transcript", "gen_ai.prompt.0.content", "llm.input_messages.0.message.content",
)  # fmt: skip
SAID = ("zebra", 'the "zebra" garden', "zebra, naïve 日本語 🚀", "```python\nreturn {'zebra': [1]}\n```")


def escaped(text: str, depth: int) -> str:
    for _ in range(depth):
        text = json.dumps({"detail": text})
    return text


@pytest.mark.parametrize("name", SURE)
@pytest.mark.parametrize("said", SAID)
def test_under_a_name_that_only_chats_have_every_word_goes(name, said):
    for text in (json.dumps({name: said, "id": 7}), f"call({name}={said!r}, n=1)", f"    {name} = {said!r}\n    n = 1"):
        for depth in range(3):
            assert "zebra" not in redact(escaped(text, depth))


NOTATIONS = (
    '{{:role=>"user", :content=>{j}}}',
    '{{"role"=>"user", "content"=>{j}}}',
    "ChatMessage{{role='user', content='it's the zebra's turn', name=null}}",
    "ChatMessage[role=USER, content=zebra it is, name=null]",
    "Message(content=zebra it is, role=user)",
    "{{Role:user Content:zebra it is Name:}}",
    "Message {{ role: User, content: {j}, name: None }}",
    'array(2) {{\n  ["role"]=>\n  string(4) "user"\n  ["content"]=>\n  string(5) {j}\n}}',
    "Array\n(\n    [role] => user\n    [content] => zebra it is\n)",
    "StringPromptValue(text={r})",
    "PromptTemplate(input_variables=['q'], template={r})",
    "LLMResult(generations=[[Generation(text={r})]])",
    "Prediction(\n    reasoning={r},\n    answer={r}\n)",
    '{{"type": "reasoning", "summary": [{{"type": "summary_text", "text": {j}}}]}}',
    '{{"generation": {j}, "stop_reason": "stop"}}',
    '{{"inputs": {j}, "parameters": {{"max_new_tokens": 5}}}}',
    '{{"text": {j}, "language": "en", "segments": [{{"id": 0, "text": {j}}}]}}',
    '{{"question": {j}, "context": {j}, "answer": {j}}}',
    '{{"loc": ["body", "messages", 0, "content"], "msg": "bad", "input": {j}}}',
    "messages.0.content\n  Input should be a valid list [type=list_type, input_value={r}, input_type=str]",
    'SYSTEM_PROMPT = """zebra it is\nand the zebra"""',
    "prompt:\nthe zebra it is today\nand the zebra\n---\nnext",
    "messages:\n  - role: user\n    content: |\n      the zebra\n      it is\nmodel: x\n",
    "user: the zebra\nassistant: zebra",
    "**User:** the zebra\n\n**Assistant:** zebra it is",
    '<message role="user">the zebra</message>',
    "<system_prompt>zebra</system_prompt>",
    "llm --system-prompt 'the zebra' --model x",
    '{{"type": "human", "data": {{"content": {j}}}}}',
    '{{"input": {{"prompt": "a"}}, "output": ["zebra", "b"]}}',
    '{{"instruction": {j}, "input": {j}, "output": {j}}}',
    '{{"text_prompts": [{{"text": {j}, "weight": 1}}]}}',
    '{{"dialog": [{{"speaker": "A", "utterance": {j}}}]}}',
    "\n\nHuman: the zebra\n\nAssistant:",
    "USER: zebra\nASSISTANT: the zebra",
    "[user]: zebra\n[assistant]: the zebra",
    "Thought: look for the zebra\nAction: search\nAction Input: zebra\nObservation: zebra",
    "### Question:\nzebra\n### Answer:\nzebra",
    'Content-Disposition: form-data; name="prompt"\r\n\r\nzebra it is\r\n--abc--',
    'invoke_model(body=\'{{"messages": [{{"role": "user", "content": "a }}] \\\\") zebra ], {{b"}}]}}\')',
)  # fmt: skip


@pytest.mark.spec("CRIT-4.5")
@pytest.mark.parametrize("form", NOTATIONS)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_nothing_said_stays_in_any_languages_notation_at_any_depth(form, depth):
    text = escaped(form.format(j=json.dumps("zebra"), r=repr("zebra")), depth)
    clean = redact(text)
    assert "zebra" not in clean
    assert redact(clean) == clean


@pytest.mark.parametrize("quote", [urllib.parse.quote, urllib.parse.quote_plus])
def test_a_chat_that_was_encoded_for_a_form_goes(quote):
    body = quote(json.dumps({"messages": [{"role": "user", "content": 'my "zebra" it is'}], "user": "u-17"}))
    clean = redact(f"POST body={body}&job=42")
    assert "zebra" not in clean
    assert "u-17" in clean
    assert clean.endswith("&job=42")


@pytest.mark.parametrize(
    "text",
    [
        '{"output": "job failed, call_id=x, request_id=abc-1"}',
        '{"body": "request 7f3c failed", "model": "gpt-4o"}',
        '{"input": "data.csv", "max_tokens": 3}',
        '{"text": "OK", "max_tokens": 3}',
        '{"model": "gpt-4o", "output": "s3://b/out.json"}',
        '{"finish_reason": "stop"}\n{"output": "report.pdf"}',
        '{"role": "user", "content": ""}\n{"output": "the report is done now"}',
        '{"role": "assistant", "content": ""}\n<meta name="description" content="A small test page">',
        '{"msg": "body::after{content:\\"\\\\201C a\\";color:#ff0000}"}',
        'getpass(prompt="Password: ")',
        "def ask():\n    Args:\n        prompt: An optional text to guide the model's style\n",
        '            {\n                "role": "assistant",\n                "content": response.choices[0].message.content,\n            },',
        '    {\n        "role": "system",\n        "content": message,\n    },',
        'last["content"] = f"{last.get(1)}\\n\\n{instruction}"',
        'prompt += f"### User:\\n{user_content}\\n\\n"',
        "authorize?prompt=consent&prompt_id=7",
        '{"prompt_id": "greeting-v2", "prompt_tokens": 12}',
        '{"conversation": "conv_68e1a2", "prompt": "prompts/review.md"}',
    ],
)
def test_what_is_near_a_chat_but_was_not_said_stays(text):
    assert redact(text) == text


@pytest.mark.parametrize(
    "mapping",
    [
        {"input": "data.csv", "max_tokens": 3},
        {"body": "request 7f3c failed", "model": "gpt-4o"},
        {"model": "gpt-4o", "output": "s3://b/x.json"},
    ],
)
def test_a_mapping_keeps_what_only_stands_near_a_chat(mapping):
    assert redact_mapping(mapping) == mapping


def test_a_mapping_is_judged_by_the_same_names():
    clean = redact_mapping({"prompt_template": "zebra", "prompt_id": "greeting-v2", "generatedText": "zebra"})
    assert clean == {
        "prompt_template": "[redacted:chat]",
        "prompt_id": "greeting-v2",
        "generatedText": "[redacted:chat]",
    }
