"""What the scenarios of one protocol stand on: their register, the facts they state, and what makes facts comparable.

A scenario is a function that plays against a broker and returns a list of facts: sentences that must be the same for every
broker that does the same. Names that a broker makes up are replaced by what kind of name they are.
"""

import re
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

# Long enough for a busy machine; a scenario that waits for something that comes does not wait this long.
PATIENCE_S = 10
# How long something that must not come is waited for.
QUIET_S = 0.25
AT_ONCE = 8

MADE_UP = [
    (re.compile(r"amq\.gen-[\w-]+"), "amq.gen-…"),
    (re.compile(r"amq\.ctag-[\w-]+"), "amq.ctag-…"),
    (re.compile(r"stomp-subscription-[\w-]+"), "stomp-subscription-…"),
    (re.compile(r"amq\.rabbitmq\.reply-to\.[\w+/=.-]+"), "amq.rabbitmq.reply-to.…"),
    (re.compile(r"ctag\d+\.[0-9a-f]+"), "ctag…"),
]


def plain(text):
    for pattern, kind in MADE_UP:
        text = pattern.sub(kind, text)
    return " / ".join(line for line in text.splitlines() if line)


class Register:
    """Scenarios of one protocol by name, in the order in which they are written."""

    def __init__(self):
        self.scenarios = {}

    def __call__(self, function):
        assert function.__name__ not in self.scenarios, f"{function.__name__} is there twice"
        self.scenarios[function.__name__] = function
        return function

    def play(self, open_stage, wanted=""):
        """Facts by scenario; a scenario that breaks off states that as its last fact."""
        facts = {}
        lock = threading.Lock()

        def one(name):
            told, stage = [], open_stage(name)

            def act():
                try:
                    self.scenarios[name](stage, told.append)
                except Exception as error:  # the fact is that it broke off
                    told.append(f"broke off: {type(error).__name__}: {error}")
                    if wanted:
                        traceback.print_exc()
                stage.close()

            # A library that waits for ever must not make the others wait.
            actor = threading.Thread(target=act, daemon=True)
            actor.start()
            actor.join(PATIENCE_S * 3)
            if actor.is_alive():
                told.append("hangs")
            with lock:
                facts[name] = [plain(str(fact)) for fact in told]

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, [name for name in self.scenarios if wanted in name]))
        return {name: facts[name] for name in self.scenarios if name in facts}
