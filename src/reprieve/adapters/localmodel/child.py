"""What runs in the process of the model: serve a file over loopback until the parent closes the pipe or is gone.

Started as a script, with its settings as JSON on one line of its input; answers with one line of JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from typing import Any

_SECONDS_BETWEEN_LOOKS = 1.0


def main() -> None:
    """Serve until nobody is left to serve."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a stop of the whole service is the parent's to handle
        signal.signal(number, signal.SIG_IGN)
    parent, answers = os.getppid(), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever llama.cpp has to say fills no pipe that nobody reads
    settings = json.loads(sys.stdin.readline())
    watcher = threading.Thread(target=_leave_with, args=(parent,), daemon=True)
    watcher.start()  # before the file is loaded, which takes its time
    try:
        server = _serve(settings)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told to the parent
        print(json.dumps({"error": type(error).__name__}), file=answers, flush=True)
        os._exit(1)
    print(json.dumps({"address": server.listening_address}), file=answers, flush=True)
    watcher.join()


def _serve(settings: dict[str, Any]) -> Any:  # noqa: ANN401 - xllamacpp is not typed
    import xllamacpp  # type: ignore[import-untyped] # noqa: PLC0415 - no stubs; after the watcher is there

    params = xllamacpp.CommonParams()
    params.model.path = settings["file"]
    params.model_alias = {settings["name"]}
    params.api_keys = [settings["key"]]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"] * settings["slots"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_threads_http = settings["slots"] + 2
    params.n_batch = params.n_ubatch = 256
    # Nothing grows with the number of asks: no prompts kept aside, no checkpoints.
    params.cache_ram_mib = params.n_ctx_checkpoints = 0
    params.verbosity = 0
    params.ui = params.endpoint_slots = params.warmup = False
    return xllamacpp.Server(params)


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], _SECONDS_BETWEEN_LOOKS)[0] and not os.read(0, 1):
            break
    os._exit(0)


if __name__ == "__main__":
    main()
