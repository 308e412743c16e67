"""Makes the description of the package from the README: without its picture and its relative links, which lead nowhere there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE: Final = re.compile(r"^!\[[^\]]*\]\((?!https:)[^)]*\)\n\n?", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)]*)\)")


class ReadmeHook(MetadataHookInterface):
    """Sets `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md, which stands beside this file."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": package_description(text)}


def package_description(readme: str) -> str:
    """The README with the names of its relative links in place of the links."""
    return _LINK.sub(r"\1 (`\2`)", _PICTURE.sub("", readme))
