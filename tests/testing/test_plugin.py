"""The pytest plugin, in a pytest of its own that knows nothing but the installed package."""

from __future__ import annotations

import subprocess
import sys

USER_TEST = """
import smtplib
import socket
import urllib.error
import urllib.request

import pytest

from reprieve.testing import Answer, Phase, trusting_context


def test_recovers(flaky_http):
    flaky_http.next(503)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(flaky_http.url())
    caught.value.close()
    with urllib.request.urlopen(flaky_http.url()) as response:
        assert response.status == 200


def test_secure(flaky_https):
    with urllib.request.urlopen(flaky_https.url(), context=trusting_context()) as response:
        assert response.status == 200


def test_mail(flaky_smtp):
    flaky_smtp.next(Phase.MAIL, Answer(451))
    with smtplib.SMTP(flaky_smtp.host, flaky_smtp.port) as client, pytest.raises(smtplib.SMTPSenderRefused):
        client.sendmail("a@example.org", ["b@example.org"], "x")


def test_refused(refusing_port):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", refusing_port))
"""


def test_the_fixtures_are_there_once_the_package_is_installed(tmp_path):
    (tmp_path / "test_user.py").write_text(USER_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "4 passed" in run.stdout
