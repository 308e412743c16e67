"""Runs of GitHub Actions, and of forges with the same API: cancelling a run that takes too long.

runs = WorkflowRuns(token)
async with reprieve.timeout_for("github_workflow", stop=lambda: runs.cancel("acme/shop", run_id)):
    await wait_for(run_id)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from reprieve.app.redaction import register_secret
from reprieve.app.retry import attempts
from reprieve.core.backoff import Backoff, require_whole
from reprieve.core.policy import Policy
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from reprieve.ports import Clock

PUBLIC_API: Final = "https://api.github.com"
REQUEST_SECONDS: Final = 2.5
CANCEL_POLICY: Final = Policy(
    name="github.cancel",
    max_attempts=3,
    backoff=Backoff(initial=0.5, multiplier=2.0),
    retry_after_ceiling=1.0,
)
"""Three requests of 2.5 s with their waits stay below the 10 s that a timeout gives to ending its work."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_MAX_RUN_ID: Final = 2**63 - 1
_CONFLICT: Final = 409


class WorkflowRuns:
    """Cancels workflow runs through the API, as the owner of a token."""

    def __init__(self, token: str, *, url: str = PUBLIC_API, clock: Clock | None = None) -> None:
        """Take the token, which redaction knows from now on; `url` is for another forge than github.com."""
        if not token or not (token.isascii() and token.isprintable()) or " " in token:
            raise UsageError("token= is a token of the forge: printable ASCII without spaces")
        if not _is_trustworthy(url):
            raise UsageError("url= is an https address without a user or a query; a token is sent to it")
        register_secret(token, name="token of a forge")
        self._token, self._url, self._clock = token, url.rstrip("/"), clock

    async def cancel(self, repository: str, run_id: int) -> bool:
        """Cancel a run, with up to three requests; False where it had finished before.

        Raises what the last request raised. The run may go on then.
        """
        if _REPOSITORY.fullmatch(repository) is None or {".", ".."} & set(repository.split("/")):
            raise UsageError(f"a repository is OWNER/NAME, not {repository!r}")
        require_whole("run_id", run_id, 1, _MAX_RUN_ID)
        path = f"/repos/{repository}/actions/runs/{run_id}/cancel"
        async for attempt in attempts(CANCEL_POLICY, idempotent=True, clock=self._clock):
            async with attempt:
                return await self._post(path)
        raise AssertionError("unreachable: the last attempt raises")

    async def _post(self, path: str) -> bool:
        import httpx2  # noqa: PLC0415 - loaded when a run has to be cancelled

        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "User-Agent": "reprieve",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        # A redirect is not followed: the token is for this host.
        async with httpx2.AsyncClient(timeout=REQUEST_SECONDS, follow_redirects=False) as client:
            answer = await client.post(self._url + path, headers=headers)
        if answer.status_code == _CONFLICT:
            return False  # it has finished: there is nothing to cancel
        answer.raise_for_status()
        return True


def _is_trustworthy(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
