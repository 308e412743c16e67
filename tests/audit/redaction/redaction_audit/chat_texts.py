"""Chats that are no single record: streams, reprs of client libraries, tracebacks with their locals, templates."""

import json
from collections.abc import Callable, Iterator

from redaction_audit.chat_contents import fragment, image, sentence
from redaction_audit.chats import Script, written
from redaction_audit.draw import Draw
from redaction_audit.plants import Chat


def _openai_stream(chat: Script) -> str:
    number = chat.draw.fill("chatcmpl-{a29}")
    lines = [
        "data: "
        + json.dumps(
            {
                "id": number,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": chat.say(fragment)}}],
            }
        )
        for _ in range(6)
    ]
    return "\n\n".join([*lines, 'data: {"error": {"message": "overloaded"}}', "data: [DONE]"])


def _openai_tool_stream(chat: Script) -> str:
    pieces = [{"index": 0, "function": {"arguments": chat.say(fragment)}} for _ in range(4)]
    return "\n\n".join(
        "data: " + json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]}, separators=(",", ":"))
        for piece in pieces
    )


def _anthropic_stream(chat: Script) -> str:
    deltas = [{"type": "text_delta", "text": chat.say(fragment)} for _ in range(3)]
    deltas += [
        {"type": "thinking_delta", "thinking": chat.say(fragment)},
        {"type": "input_json_delta", "partial_json": chat.say(fragment)},
    ]
    return "\n".join(
        f"event: content_block_delta\ndata: {json.dumps({'type': 'content_block_delta', 'index': 0, 'delta': delta})}\n"
        for delta in deltas
    )


def _gemini_stream(chat: Script) -> str:
    return "\n\n".join(
        "data: " + json.dumps({"candidates": [{"content": {"parts": [{"text": chat.say(fragment)}], "role": "model"}}]})
        for _ in range(4)
    )


def _responses_stream(chat: Script) -> str:
    return "\n".join(
        f"event: response.output_text.delta\ndata: {json.dumps({'type': 'response.output_text.delta', 'delta': chat.say(fragment)})}\n"
        for _ in range(4)
    )


def _langchain_messages(chat: Script) -> str:
    return (
        f"[SystemMessage(content={chat.say()!r}, additional_kwargs={{}}, response_metadata={{}}), "
        f"HumanMessage(content={chat.say()!r}, id='{chat.draw.some('h', 8)}'), AIMessage(content={chat.say()!r}, tool_calls=[])]"
    )


def _langchain_debug(chat: Script) -> str:
    prompts = json.dumps({"prompts": [f"System: {chat.say()}\nHuman: {chat.say()}"]}, indent=2)
    return f"[llm/start] [chain:RunnableSequence > llm:ChatOpenAI] Entering LLM run with input:\n{prompts}"


def _langchain_generation(chat: Script) -> str:
    said = chat.say()
    return f"LLMResult(generations=[[ChatGeneration(text={said!r}, message=AIMessage(content={said!r}))]], llm_output=None)"


def _openai_repr(chat: Script) -> str:
    return (
        f"ChatCompletion(id='{chat.draw.fill('chatcmpl-{a29}')}', choices=[Choice(finish_reason='length', index=0, logprobs=None, "
        f"message=ChatCompletionMessage(content={chat.say()!r}, refusal=None, role='assistant', tool_calls=["
        f"ChatCompletionMessageToolCall(id='call_1', function=Function(arguments={json.dumps({'query': chat.say()})!r}, name='search'), "
        "type='function')]))], created=1727000000, usage=CompletionUsage(completion_tokens=9, prompt_tokens=12))"
    )


def _anthropic_repr(chat: Script) -> str:
    return (
        f"Message(id='{chat.draw.fill('msg_01{a22}')}', content=[TextBlock(citations=None, text={chat.say()!r}, type='text'), "
        f"ToolUseBlock(id='toolu_1', input={{'reason': {chat.say()!r}}}, name='file', type='tool_use')], model='{chat.model()}', "
        "role='assistant', stop_reason='end_turn', usage=Usage(input_tokens=9, output_tokens=3))"
    )


def _gemini_repr(chat: Script) -> str:
    return f"GenerateContentResponse(candidates=[Candidate(content=Content(parts=[Part(text={chat.say()!r})], role='model'), finish_reason=STOP)])"


def _validation_error(chat: Script) -> str:
    given = {"role": "user", "content": chat.say()}
    return (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ChatRequest\nmessages.0.tool_call_id\n"
        f"  Field required [type=missing, input_value={given!r}, input_type=dict]\n"
        "    For further information visit https://errors.pydantic.dev/2.11/v/missing"
    )


def _source_lines(chat: Script) -> str:
    return (
        'Traceback (most recent call last):\n  File "/srv/app/review.py", line 71, in llm\n    answer = client.messages.create(\n'
        f"        model={chat.model()!r}, system={json.dumps(chat.say())},\n"
        f"        messages=[{{'role': 'user', 'content': {chat.say()!r}}}],\n    )\n"
        "anthropic.BadRequestError: Error code: 400 - {'type': 'error', 'error': {'type': 'invalid_request_error', 'message': 'bad'}}"
    )


def _rich_locals(chat: Script) -> str:
    return (
        f"│ /srv/app/review.py:71 in llm │\n│ ╭──── locals ────╮ │\n│ │ messages = [{{'role': 'user', 'content': {chat.say(sentence)!r}}}] │ │\n"
        f"│ │   prompt = {chat.say(sentence)!r} │ │\n│ │    model = '{chat.model()}' │ │"
    )


def _litellm(chat: Script) -> str:
    messages = [{"role": "system", "content": chat.say()}, {"role": "user", "content": chat.say()}]
    return (
        f"litellm.completion(model='{chat.model()}', messages={messages!r}, temperature=0.0)\n"
        f"POST Request Sent from LiteLLM:\ncurl -X POST \\\nhttps://api.example.com/v1/ \\\n-d '{{'model': 'x', 'messages': {messages!r}}}'"
    )


def _bad_request(chat: Script) -> str:
    echoed = {"messages": [{"role": "user", "content": chat.say()}], "model": chat.model()}
    return f"openai.BadRequestError: Error code: 400 - {{'error': {{'message': 'bad', 'param': None}}, 'request': {echoed!r}}}"


def _prompt_assignment(chat: Script) -> str:
    return f"    prompt = {chat.say()!r}\n    system_prompt={chat.say()!r},\n    response = model.generate(prompt)"


def _input_audio(chat: Script) -> str:
    parts = [
        {"type": "input_audio", "input_audio": {"data": chat.say(image), "format": "wav"}},
        {"type": "text", "text": chat.say()},
    ]
    return json.dumps({"model": chat.model(), "messages": [{"role": "user", "content": parts}]})


def _responses_tool(chat: Script) -> str:
    call = {
        "type": "function_call",
        "name": "search",
        "call_id": "call_1",
        "arguments": json.dumps({"query": chat.say()}),
    }
    return (
        f"{json.dumps(call)}\n{json.dumps({'type': 'function_call_output', 'call_id': 'call_1', 'output': chat.say()})}"
    )


def _gemini_tool(chat: Script) -> str:
    part = {"functionCall": {"name": "search", "args": {"query": chat.say()}}}
    return json.dumps({"candidates": [{"content": {"parts": [part], "role": "model"}}]})


def _logprobs(chat: Script) -> str:
    tokens = [{"token": chat.say(fragment), "logprob": -0.1, "bytes": None} for _ in range(3)]
    return json.dumps({"choices": [{"index": 0, "logprobs": {"content": tokens, "refusal": None}}]})


def _transcript(chat: Script) -> str:
    return json.dumps({"type": "response.audio_transcript.done", "item_id": "item_1", "transcript": chat.say()})


def _moderation(chat: Script) -> str:
    return json.dumps({"model": "omni-moderation-latest", "input": [{"type": "text", "text": chat.say()}]})


def _citations(chat: Script) -> str:
    cited = {"type": "char_location", "cited_text": chat.say(), "document_index": 0}
    return json.dumps({"role": "assistant", "content": [{"type": "text", "text": chat.say(), "citations": [cited]}]})


def _document(chat: Script) -> str:
    source = {"type": "text", "media_type": "text/plain", "data": chat.say()}
    return json.dumps({"role": "user", "content": [{"type": "document", "source": source, "title": "t"}]})


def _tool_result(chat: Script) -> str:
    return json.dumps({"type": "tool_result", "tool_use_id": "toolu_1", "content": chat.say(), "is_error": True})


TEXTS: dict[str, Callable[[Script], str]] = {
    shape.__name__.strip("_").replace("_", "-"): shape
    for shape in (
        _openai_stream, _openai_tool_stream, _anthropic_stream, _gemini_stream, _responses_stream, _langchain_messages,
        _langchain_debug, _langchain_generation, _openai_repr, _anthropic_repr, _gemini_repr, _validation_error, _source_lines,
        _rich_locals, _litellm, _bad_request, _prompt_assignment, _input_audio,
        _responses_tool, _gemini_tool, _logprobs, _transcript, _moderation, _citations, _document, _tool_result,
    )
}  # fmt: skip
_FRAMES = (
    "raw",
    "log",
    "traceback-message",
    "json-1",
    "json-2",
    "json-3",
    "bytes-repr",
    "dataclass-repr",
    "tracker",
    "structlog",
)


def planted_chat_texts(seed: int) -> Iterator[Chat]:
    """All of them; the same for the same seed."""
    draw = Draw(seed + 4)
    for kind, shape in TEXTS.items():
        for frame in ("raw", "raw", *_FRAMES):
            yield written(shape, draw.getrandbits(40), kind, frame, frame)
