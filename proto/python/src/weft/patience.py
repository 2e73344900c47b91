"""How long to go on asking, and how often."""

from __future__ import annotations

import time


class Patience:
    """Pauses between tries, each twice as long as the one before, until so many seconds are over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Begins anew: something was answered."""
        self._due = time.monotonic() + self._seconds
        self._pause = PAUSE

    def wait(self) -> bool:
        """Waits before the next try; False: there shall be none."""
        if time.monotonic() + self._pause > self._due:
            return False
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, PAUSE_MAX)
        return True


PAUSE = 0.05
PAUSE_MAX = 1.0
