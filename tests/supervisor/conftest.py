"""Real containers, where podman is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from support.programs import require

TOOLS = ("sh", "sleep", "cat", "echo", "dd", "kill", "touch", "env", "ln", "mkdir", "printf")
IMAGE = "localhost/reprieve-test:1"


@pytest.fixture(scope="session")
def podman_home():
    """Settings and storage of a podman of our own, with one image that holds busybox."""
    require("podman")
    require("runc")
    busybox = require("busybox")
    home = Path(tempfile.mkdtemp(prefix="podman-"))  # short: with a long path podman waits 20 s for every end
    (home / "containers.conf").write_text(
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
        '[containers]\nnetns = "none"\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
    )
    (home / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{home / "storage"}"\nrunroot = "{home / "run"}"\n'
    )
    root = home / "root"
    for folder in ("bin", "dev", "etc", "proc", "run", "sys", "tmp"):
        (root / folder).mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    with tarfile.open(home / "root.tar", "w") as archive:
        archive.add(root, ".")
    environment = {
        **os.environ,
        "CONTAINERS_CONF": str(home / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
    }
    imported = ["podman", "import", str(home / "root.tar"), IMAGE]
    subprocess.run(imported, env=environment, check=True, capture_output=True, timeout=120)
    yield home
    subprocess.run(["podman", "rm", "--all", "--force"], env=environment, check=False, capture_output=True, timeout=120)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def podman(podman_home, monkeypatch):
    """The image, for a test whose environment leads podman to the settings of this run."""
    monkeypatch.setenv("CONTAINERS_CONF", str(podman_home / "containers.conf"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(podman_home / "storage.conf"))
    return IMAGE
