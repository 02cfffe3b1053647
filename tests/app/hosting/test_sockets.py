from __future__ import annotations

import socket

from graphviz_dash.app.hosting.sockets import disable_nagle


def test_accepted_sockets_inherit_no_delay() -> None:
    with socket.socket() as server, socket.socket() as plain:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert disable_nagle() >= 1
        with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        # Those that do not listen are left as they are, and all stay open.
        assert not plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
