"""What systemd is told of the daemon, where it wants to know (Type=notify)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send a state such as READY=1 to the socket that $NOTIFY_SOCKET names; nothing where it names none."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.sendto(state.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)
