"""Callbacks and the log: both are told by one queue of events, which the client's own thread fills and never waits for."""

from __future__ import annotations

import inspect
import logging
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from . import _thalweg
from ._words import Connected, Lost, Moved, Multicast, Outcome, Success

logger = logging.getLogger("thalweg")
logger.addHandler(logging.NullHandler())

_MADE: Dict[str, Callable[..., Any]] = {
    "connected": Connected,
    "lost": Lost,
    "moved": Moved,
    "multicast": Multicast,
    "outcome": lambda ticket, success, why: Outcome(ticket, Success(success), why),
}


class Callbacks:
    """Takes the callbacks out of settings, and puts the queue of events there."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        self._called: Dict[str, Callable[[Any], object]] = {}
        for kind in _MADE:
            name = f"on_{kind}"
            callback = settings.pop(name)
            if callback is None:
                continue
            if not callable(callback):
                raise TypeError(f"{name} is a function, not {type(callback).__name__}")
            if inspect.iscoroutinefunction(callback):
                raise TypeError(f"{name} is a plain function: start a task in it")
            self._called[kind] = callback
        self.queue = settings["events"] = _thalweg.EventQueue("outcome" in self._called)

    def follow(self) -> threading.Thread:
        """Calls them in a thread that ends with the client, and does not keep the process from ending."""
        thread = threading.Thread(target=self._run, name="thalweg-events", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while (events := self.queue.wait()) is not None:
            # SystemExit too: here it would end the calls, and nothing else.
            self.tell(events, BaseException)

    def tell(self, events: List[Tuple[int, str, str, Any]], caught: Type[BaseException] = Exception) -> None:
        for level, line, kind, given in events:
            try:
                if line and logger.isEnabledFor(level):
                    logger.log(level, "%s", line)
                callback: Optional[Callable[[Any], object]] = self._called.get(kind)
                if callback is not None:
                    callback(_MADE[kind](*given))
            except caught:
                logger.exception("on_%s raised", kind)
