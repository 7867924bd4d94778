from __future__ import annotations

import socket

import pytest

from kafkeep.dev.process import HOST, Ports, is_free
from kafkeep.errors import EnvironmentFault


def _listening() -> socket.socket:
    server = socket.socket()
    server.bind((HOST, 0))
    server.listen()
    return server


def test_ports_are_given_once() -> None:
    with Ports() as ports:
        given = [ports.take() for _ in range(50)]
        assert len(set(given)) == 50
        assert all(is_free(port) for port in given)


def test_two_who_choose_at_once_never_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkeep.dev.process._RANGE", range(31_000, 31_100))
    monkeypatch.setattr("kafkeep.dev.process._TRIES", 100)
    with Ports() as one, Ports() as other:
        given = [ports.take() for _ in range(30) for ports in (one, other)]
        assert len(set(given)) == 60
        with socket.create_server((HOST, given[0])):  # as the server does for which it was chosen
            assert not is_free(given[0])


def test_port_that_was_asked_for_and_is_taken_is_refused_by_name() -> None:
    with _listening() as server:
        port = server.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"port {port} is taken"):
            Ports().take(port)


def test_previous_port_is_kept_when_free() -> None:
    with Ports() as ports:
        previous = ports.take()
    assert Ports().take(previous=previous) == previous


def test_previous_port_is_given_up_when_taken() -> None:
    with _listening() as server:
        previous = server.getsockname()[1]
        with Ports() as ports:
            assert ports.take(previous=previous) != previous
