"""Plays the scenarios against a broker and writes their facts as JSON: `play.py amqp|stomp PORT [WANTED]`."""

import json
import os
import sys


def facts(protocol, port, wanted=""):
    if protocol == "amqp":
        import amqp_delivery  # noqa: F401  (each file registers its scenarios)
        import amqp_frames  # noqa: F401
        import amqp_lifetimes  # noqa: F401
        import amqp_topology  # noqa: F401
        from amqp_stage import Stage, amqp as register
    else:
        import stomp_delivery  # noqa: F401
        import stomp_frames  # noqa: F401
        from stomp_stage import Stage, stomp as register
    return register.play(lambda name: Stage(name, port), wanted)


if __name__ == "__main__":
    json.dump(facts(sys.argv[1], int(sys.argv[2]), *sys.argv[3:4]), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
    sys.stdout.flush()
    # Threads that hang are left behind.
    os._exit(0)
