"""Workers in containers, through the command lines of docker and podman."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import UsageError
from reprieve.processes.session import SessionProcess, WardenOptions, is_owner_gone, owner_identity
from reprieve.supervisor.output import PipeReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAMS: Final = ("docker", "podman")
FOLDER: Final = "/run/reprieve"
"""Where task, readiness and result are inside of a container."""
_SUPERVISOR_LABEL: Final = "reprieve.supervisor"
_HOST_LABEL: Final = "reprieve.host"
_TASK_LABEL: Final = "reprieve.task"
_MAX_PROCESSES: Final = 512
_SECONDS_FOR_A_COMMAND: Final = 30.0


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Which container a task runs in."""

    program: str
    image: str
    arguments: tuple[str, ...] = ()
    """Further arguments of `run`, as `--network=none`."""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What the container program says of a container that ended."""

    out_of_memory: bool
    error: str


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """What a command of the container program answered."""

    code: int
    stdout: str
    stderr: str


def require_program(program: str | None) -> str:
    """Return the name of an installed container program, or raise UsageError that says what to do."""
    if program is None:
        raise UsageError("an image needs a container program: set container_program to 'docker' or 'podman'")
    if program not in PROGRAMS:
        raise UsageError(f"container_program is 'docker' or 'podman', not {program!r}")
    if shutil.which(program) is None:
        raise UsageError(f"container_program is {program!r}, which is not on PATH: install it, or leave out the image")
    return program


def container_name() -> str:
    """Make the name of a new container."""
    return f"reprieve-{owner_identity(os.getpid())}-{secrets.token_hex(4)}"


def build_run_command(
    spec: ContainerSpec,
    command: Sequence[str],
    *,
    name: str,
    folder: str,
    environment: Sequence[str],
    memory_bytes: int | None,
    task_id: str,
) -> list[str]:
    """Build the command that runs a container to its end. It names variables and holds none of their values."""
    labels = {
        _SUPERVISOR_LABEL: owner_identity(os.getpid()),
        _HOST_LABEL: socket.gethostname(),
        _TASK_LABEL: task_id,
    }
    built = [spec.program, "run", "--name", name, f"--pids-limit={_MAX_PROCESSES}", f"--volume={folder}:{FOLDER}"]
    built += [f"--label={key}={value}" for key, value in labels.items()]
    if memory_bytes is not None:
        built += [f"--memory={memory_bytes}", f"--memory-swap={memory_bytes}"]
    for each in environment:
        built += ["--env", each]
    return [*built, *spec.arguments, spec.image, *command]


def build_remove_command(program: str, name: str) -> tuple[str, ...]:
    """Build the command that kills and removes a container."""
    at_once = ("--time=0",) if program == "podman" else ()  # it would wait 10 s between SIGTERM and SIGKILL
    return (program, "rm", "--force", "--volumes", *at_once, name)


async def read_state(program: str, name: str, environment: Mapping[str, str]) -> ContainerState | None:
    """Ask how a container ended; None where the program does not know it or does not answer."""
    answer = await run_program([program, "inspect", "--format", "{{json .State}}", name], environment)
    if answer.code != 0:
        return None
    try:
        state: dict[str, Any] = json.loads(answer.stdout)
    except ValueError:
        return None
    return ContainerState(bool(state.get("OOMKilled")), str(state.get("Error") or ""))


async def remove_abandoned(program: str, environment: Mapping[str, str]) -> list[str]:
    """Kill and remove the containers on this host whose supervisor was killed together with its wardens."""
    label = f"label={_HOST_LABEL}={socket.gethostname()}"
    listed = await run_program([program, "ps", "--all", "--quiet", "--no-trunc", "--filter", label], environment)
    removed = []
    for container in listed.stdout.split() if listed.code == 0 else ():
        owner = f'{{{{index .Config.Labels "{_SUPERVISOR_LABEL}"}}}}'
        found = await run_program([program, "inspect", "--format", owner, container], environment)
        if found.code == 0 and is_owner_gone(found.stdout.strip()):
            await run_program(build_remove_command(program, container), environment)
            removed.append(container)
    return removed


async def run_program(
    command: Sequence[str], environment: Mapping[str, str], *, seconds: float = _SECONDS_FOR_A_COMMAND
) -> ProgramOutput:
    """Run a short command and return what it answered. One that takes too long is killed."""
    stdout, stderr = bytearray(), bytearray()
    readers = (PipeReader(stdout.extend), PipeReader(stderr.extend))
    try:
        process = SessionProcess(
            command,
            options=WardenOptions(control_groups=False),
            environment=environment,
            output=(readers[0].write_end, readers[1].write_end),
        )
        for reader in readers:
            reader.hand_over()
        try:
            await asyncio.wait([process.ended], timeout=seconds)
        finally:
            process.kill()
            exit_ = await asyncio.shield(process.exited)
        for reader in readers:
            reader.drain()
    finally:
        for reader in readers:
            reader.close()
    text = stderr.decode(errors="replace") or (exit_.start_error or "")
    return ProgramOutput(exit_.code, stdout.decode(errors="replace"), text)
