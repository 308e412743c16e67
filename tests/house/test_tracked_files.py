"""The repository holds sources, not what is built from them or downloaded."""

import subprocess
from pathlib import Path

import pytest

from support import programs

ROOT = Path(__file__).parents[2]
MAX_BYTES = 1_000_000


def tracked_files(root):
    """Return every file that git tracks below a folder. Skip the test if the folder is no checkout."""
    if not (root / ".git").exists():
        pytest.skip("this is no git checkout, so no files are tracked (a source distribution, perhaps)")
    command = [programs.require("git"), "-C", str(root), "ls-files", "-z"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        pytest.fail(f"git does not list the files: {done.stderr.strip()}")
    return [root / name for name in done.stdout.split("\0") if name]


def large_files(paths):
    """Return what is wrong with each file that is too large. A file deleted in the work tree is fine."""
    sizes = {path: path.lstat().st_size for path in paths if path.is_symlink() or path.is_file()}
    return [
        f"{path} has {size:,} bytes, more than {MAX_BYTES:,}: run `git rm --cached` on it and let make download"
        " or build it, or store a smaller sample"
        for path, size in sizes.items()
        if size > MAX_BYTES
    ]


def test_no_tracked_file_is_larger_than_a_megabyte():
    assert large_files(tracked_files(ROOT)) == []


def test_a_large_file_is_named_with_its_size_and_what_to_do(tmp_path):
    fits, large = tmp_path / "fits.bin", tmp_path / "tool.whl"
    fits.write_bytes(bytes(MAX_BYTES))
    large.write_bytes(bytes(MAX_BYTES + 1))
    (message,) = large_files([fits, large, tmp_path / "deleted.bin"])
    assert message.startswith(f"{large} has 1,000,001 bytes")
    assert "git rm --cached" in message


def test_outside_of_a_checkout_the_check_is_skipped_with_the_reason(tmp_path):
    with pytest.raises(pytest.skip.Exception, match="no git checkout"):
        tracked_files(tmp_path)
