from __future__ import annotations

import socket

import pytest

from kafkeep.dev.ports import HOST, Ports, is_free
from kafkeep.errors import EnvironmentFault


def _listening() -> socket.socket:
    server = socket.socket()
    server.bind((HOST, 0))
    server.listen()
    return server


def test_ports_are_given_once() -> None:
    ports = Ports()
    given = [ports.take() for _ in range(50)]
    assert len(set(given)) == 50
    assert all(is_free(port) for port in given)


def test_port_that_was_asked_for_and_is_taken_is_refused_by_name() -> None:
    with _listening() as server:
        port = server.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"port {port} is taken"):
            Ports().take(port)


def test_previous_port_is_kept_when_free() -> None:
    previous = Ports().take()
    assert Ports().take(previous=previous) == previous


def test_previous_port_is_given_up_when_taken() -> None:
    with _listening() as server:
        previous = server.getsockname()[1]
        assert Ports().take(previous=previous) != previous
