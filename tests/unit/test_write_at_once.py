"""A write goes out within the call; a connection with TLS is left as it is."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from kestrelpy.write_at_once import write_at_once


@pytest.mark.parametrize("has_tls", [False, True])
def test_the_limit_is_no_bytes_but_for_tls(has_tls: bool) -> None:
    transport = Mock()
    transport.get_extra_info.side_effect = {"sslcontext": Mock() if has_tls else None}.get

    write_at_once(transport)

    assert [each.kwargs for each in transport.set_write_buffer_limits.call_args_list] == (
        [] if has_tls else [{"high": 0}]
    )
