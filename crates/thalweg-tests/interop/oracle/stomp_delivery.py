"""STOMP: destinations, subscriptions, acknowledgements, transactions, headers, as stomp.py sees them."""

import time

from stomp_stage import stomp, told as shown


def queue_of(stage, short="q"):
    return f"/queue/{stage.called(short)}"


@stomp
def connected_says_who_it_is(stage, told):
    for version in ["1.0", "1.1", "1.2"]:
        headers = stage.session(version).connected.headers
        told(f"{version}: version={headers.get('version')} heart-beat={headers.get('heart-beat')}")
        told(sorted(headers))


@stomp
def wrong_passcode(stage, told):
    session = stage.session(passcode="wrong")
    kind, frame = session.greeting
    told(kind if frame is None else shown(frame))
    told(session.answer())


@stomp
def topic_reaches_every_subscriber(stage, told):
    one, two, sender = stage.session(), stage.session(), stage.session()
    topic = f"/topic/{stage.called('t')}"
    for session in (one, two):
        told(session.do("SUBSCRIBE", id="s", destination=topic))
    told(sender.do("SEND", "hello", destination=topic))
    for session in (one, two):
        frame = session.receive(1)[0]
        told(f"{frame.headers['destination']} {frame.headers['subscription']} {shown(frame)}")


@stomp
def two_subscriptions_of_a_session_get_a_copy_each(stage, told):
    session = stage.session()
    topic = f"/topic/{stage.called('t')}"
    for number in range(2):
        session.do("SUBSCRIBE", id=str(number), destination=topic)
    session.do("SEND", "a", destination=topic)
    told(sorted(frame.headers["subscription"] for frame in session.receive(2)))
    told(session.quiet())


@stomp
def topic_wildcards(stage, told):
    session = stage.session()
    base = stage.called("t")
    for number, pattern in enumerate(["*.x", "#", "a.*", "a.#"]):
        told(session.do("SUBSCRIBE", id=str(number), destination=f"/topic/{base}.{pattern}"))
    for key in ["a", "a.x", "a.x.y", "b.x"]:
        session.do("SEND", key, destination=f"/topic/{base}.{key}")
    got = session.receive(10, 3)
    for number in range(4):
        mine = [f for f in got if f.headers["subscription"] == str(number)]
        told(f"{number}: {[(f.headers['destination'], f.body.decode()) for f in mine]}")


@stomp
def queue_keeps_what_nobody_takes_yet(stage, told):
    sender, taker = stage.session(), stage.session()
    for body in "abc":
        told(sender.do("SEND", body, destination=queue_of(stage)))
    told(taker.do("SUBSCRIBE", id="s", destination=queue_of(stage)))
    frames = taker.receive(3)
    told([(f.headers["destination"], f.body.decode()) for f in frames])


@stomp
def queue_shares_among_subscribers(stage, told):
    one, two, sender = stage.session(), stage.session(), stage.session()
    for session in (one, two):
        session.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    for number in range(10):
        sender.do("SEND", str(number), destination=queue_of(stage))
    told([one.bodies(5), two.bodies(5)])
    told([one.quiet(), two.quiet()])


@stomp
def amq_queue_must_be_there(stage, told):
    session = stage.session()
    told(session.do("SUBSCRIBE", id="s", destination=f"/amq/queue/{stage.called('no')}"))
    session = stage.session()
    told(session.do("SEND", "a", destination=f"/amq/queue/{stage.called('no')}"))
    told(session.do("SEND", "b", destination=queue_of(stage)))
    told(session.do("SEND", "c", destination=f"/amq/queue/{stage.called('q')}"))
    told(session.do("SUBSCRIBE", id="s", destination=f"/amq/queue/{stage.called('q')}"))
    told([(f.headers["destination"], f.body.decode()) for f in session.receive(2)])


@stomp
def exchange_with_a_key(stage, told):
    session = stage.session()
    key = stage.called("k")
    told(session.do("SUBSCRIBE", id="d", destination=f"/exchange/amq.direct/{key}"))
    told(session.do("SUBSCRIBE", id="t", destination=f"/exchange/amq.topic/{stage.name}.#"))
    told(session.do("SUBSCRIBE", id="f", destination="/exchange/amq.fanout"))
    session.do("SEND", "direct", destination=f"/exchange/amq.direct/{key}")
    session.do("SEND", "topic", destination=f"/exchange/amq.topic/{stage.name}.x.y")
    session.do("SEND", "same", destination=f"/topic/{stage.name}.z")
    session.do("SEND", f"fanout of {stage.name}", destination="/exchange/amq.fanout")
    got = [(f.headers["subscription"], f.headers["destination"], f.body.decode()) for f in session.receive(4)]
    told(sorted(got))


@stomp
def exchange_that_is_not_there(stage, told):
    told(stage.session().do("SUBSCRIBE", id="s", destination=f"/exchange/{stage.called('no')}/k"))
    told(stage.session().do("SEND", "a", destination=f"/exchange/{stage.called('no')}/k"))


@stomp
def destinations_that_mean_nothing(stage, told):
    for destination in ["/nowhere/x", "plain", "", "/queue/", "/queue/a/b", "/topic/", "/exchange/", "/queue"]:
        told(f"SEND {destination!r}: {stage.session().do('SEND', 'a', destination=destination)}")
        told(f"SUBSCRIBE {destination!r}: {stage.session().do('SUBSCRIBE', id='s', destination=destination)}")


@stomp
def destinations_with_escapes(stage, told):
    session = stage.session()
    for name in ["a%2Fb", "a%20b", "ünï", "a b", "a%zz"]:
        destination = f"/queue/{stage.name}{name}"
        told(session.do("SEND", name, destination=destination))
        told(session.do("SUBSCRIBE", id=name.encode().hex(), destination=destination))
        frames = session.receive(1, 1)
        told([(f.headers["destination"], f.body.decode()) for f in frames])


@stomp
def what_a_subscription_needs(stage, told):
    told(stage.session().do("SUBSCRIBE", destination=queue_of(stage)))
    told(stage.session("1.1").do("SUBSCRIBE", destination=queue_of(stage)))
    told(stage.session("1.0").do("SUBSCRIBE", destination=queue_of(stage)))
    told(stage.session().do("SUBSCRIBE", id="s"))
    told(stage.session().do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="sometimes"))
    session = stage.session()
    told(session.do("SUBSCRIBE", id="s", destination=queue_of(stage)))
    told(session.do("SUBSCRIBE", id="s", destination=queue_of(stage, "other")))


@stomp
def send_without_a_destination(stage, told):
    told(stage.session().do("SEND", "a"))


@stomp
def acknowledging_one_by_one(stage, told):
    first, second = stage.session(), stage.session()
    for body in "abcd":
        first.do("SEND", body, destination=queue_of(stage))
    told(first.do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="client-individual"))
    frames = first.receive(4)
    told(all("ack" in f.headers for f in frames))
    told(first.do("ACK", id=frames[2].headers["ack"]))
    first.cut()
    time.sleep(0.2)
    second.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    told(second.flagged(3))


@stomp
def acknowledging_all_up_to_one(stage, told):
    first, second = stage.session(), stage.session()
    for body in "abcd":
        first.do("SEND", body, destination=queue_of(stage))
    first.do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="client")
    frames = first.receive(4)
    told(first.do("ACK", id=frames[2].headers["ack"]))
    first.cut()
    time.sleep(0.2)
    second.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    told(second.flagged(1))
    told(second.quiet())


@stomp
def acknowledging_with_older_versions(stage, told):
    for version in ["1.0", "1.1"]:
        session = stage.session(version)
        queue = queue_of(stage, version)
        for body in "ab":
            session.do("SEND", body, destination=queue)
        session.do("SUBSCRIBE", id="s", destination=queue, ack="client")
        frames = session.receive(2)
        told(f"{version}: ack header {'ack' in frames[0].headers}")
        told(session.do("ACK", message_id=frames[1].headers["message-id"], subscription="s"))
        session.cut()
        time.sleep(0.2)
        after = stage.session()
        after.do("SUBSCRIBE", id="s", destination=queue)
        told(after.quiet())


@stomp
def nack_brings_a_message_again(stage, told):
    session, other = stage.session(), stage.session()
    for body in "ab":
        session.do("SEND", body, destination=queue_of(stage))
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="client-individual", prefetch_count="1")
    frame = session.receive(1)[0]
    told(session.do("NACK", id=frame.headers["ack"]))
    again = session.receive(1)[0]
    told(f"{again.body.decode()} redelivered={again.headers.get('redelivered')}")
    told(session.do("NACK", id=again.headers["ack"], requeue="false"))
    told(session.bodies(1))


@stomp
def acknowledging_the_unknown(stage, told):
    for command in ["ACK", "NACK"]:
        told(stage.session().do(command, id="T_s@@session-1@@1"))
        told(stage.session().do(command, id="nonsense"))
        told(stage.session().do(command))
        session = stage.session()
        session.do("SEND", "a", destination=queue_of(stage, command))
        session.do("SUBSCRIBE", id="s", destination=queue_of(stage, command), ack="client")
        frame = session.receive(1)[0]
        session.do("ACK", id=frame.headers["ack"])
        told(session.do(command, id=frame.headers["ack"]))


@stomp
def prefetch_bounds_what_is_unsettled(stage, told):
    session = stage.session()
    for number in range(6):
        session.do("SEND", str(number), destination=queue_of(stage))
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="client-individual", prefetch_count="2")
    frames = session.receive(2)
    told([f.body.decode() for f in frames])
    told(session.quiet())
    session.do("ACK", id=frames[0].headers["ack"])
    told(session.bodies(1))


@stomp
def unsubscribing(stage, told):
    session = stage.session()
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="client")
    session.do("SEND", "a", destination=queue_of(stage))
    told(session.bodies(1))
    told(session.do("UNSUBSCRIBE", id="s"))
    session.do("SEND", "b", destination=queue_of(stage))
    told(session.quiet())
    session.do("SUBSCRIBE", id="again", destination=queue_of(stage))
    told(session.flagged(2))
    told(session.do("UNSUBSCRIBE", id="never"))
    told(stage.session().do("UNSUBSCRIBE"))


@stomp
def transaction_commits_sends(stage, told):
    session, other = stage.session(), stage.session()
    other.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    told(session.do("BEGIN", transaction="t"))
    session.tell("SEND", "a", destination=queue_of(stage), transaction="t")
    told(session.do("SEND", "outside", destination=queue_of(stage)))
    told(other.bodies(1))
    told(other.quiet())
    told(session.do("COMMIT", transaction="t"))
    told(other.bodies(1))


@stomp
def receipt_within_a_transaction(stage, told):
    session = stage.session()
    session.do("BEGIN", transaction="t")
    session.tell("SEND", "a", destination=queue_of(stage), transaction="t", receipt="early")
    time.sleep(0.3)
    session.tell("COMMIT", transaction="t", receipt="late")
    told([session.answers.get(timeout=10)[1].headers["receipt-id"] for _ in range(2)])


@stomp
def transaction_aborts_sends(stage, told):
    session, other = stage.session(), stage.session()
    other.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    session.do("BEGIN", transaction="t")
    session.tell("SEND", "a", destination=queue_of(stage), transaction="t")
    told(session.do("ABORT", transaction="t"))
    session.do("SEND", "b", destination=queue_of(stage))
    told(other.bodies(1))
    told(other.quiet())


@stomp
def transaction_covers_acknowledgements(stage, told):
    for ending in ["COMMIT", "ABORT"]:
        session = stage.session()
        queue = queue_of(stage, ending)
        session.do("SEND", "a", destination=queue)
        session.do("SUBSCRIBE", id="s", destination=queue, ack="client-individual")
        frame = session.receive(1)[0]
        session.do("BEGIN", transaction="t")
        session.tell("ACK", id=frame.headers["ack"], transaction="t")
        told(session.do(ending, transaction="t"))
        session.cut()
        time.sleep(0.2)
        after = stage.session()
        after.do("SUBSCRIBE", id="s", destination=queue)
        told(f"{ending}: {after.quiet()}")


@stomp
def transactions_that_are_not_there(stage, told):
    told(stage.session().do("COMMIT", transaction="no"))
    told(stage.session().do("ABORT", transaction="no"))
    told(stage.session().do("SEND", "a", destination=queue_of(stage), transaction="no"))
    told(stage.session().do("BEGIN"))
    session = stage.session()
    told(session.do("BEGIN", transaction="t"))
    told(session.do("BEGIN", transaction="t"))


@stomp
def transaction_goes_with_its_session(stage, told):
    session, other = stage.session(), stage.session()
    session.do("BEGIN", transaction="t")
    session.tell("SEND", "a", destination=queue_of(stage), transaction="t")
    told(session.do("DISCONNECT"))
    other.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    told(other.quiet())


@stomp
def two_transactions_at_once(stage, told):
    session, other = stage.session(), stage.session()
    other.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    for name in ["one", "two"]:
        session.do("BEGIN", transaction=name)
        session.tell("SEND", name, destination=queue_of(stage), transaction=name)
    session.do("COMMIT", transaction="two")
    told(other.bodies(1))
    session.do("ABORT", transaction="one")
    told(other.quiet())


@stomp
def disconnect_answers_before_it_closes(stage, told):
    session = stage.session()
    told(session.do("DISCONNECT"))
    told(session.answer())


@stomp
def headers_come_back(stage, told):
    session = stage.session()
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    answer = session.do(
        "SEND",
        "a",
        destination=queue_of(stage),
        content_type="text/plain",
        correlation_id="corr",
        reply_to="/queue/answers",
        priority="7",
        persistent="true",
        timestamp="1700000000",
        type="kind",
        app_id="app",
        user_id="guest",
        expiration="60000",
        own="x",
        Case="Kept",
    )
    told(answer)
    told(shown(session.receive(1)[0]))


@stomp
def headers_with_escapes(stage, told):
    for version in ["1.1", "1.2"]:
        session = stage.session(version)
        queue = queue_of(stage, version)
        session.do("SUBSCRIBE", id="s", destination=queue)
        session.do("SEND", "a", destination=queue, colon="a:b", line="a\nb", back="a\\b", space=" a ")
        told(f"{version}: {shown(session.receive(1)[0])}")


@stomp
def message_id_is_the_brokers(stage, told):
    session = stage.session()
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    for _ in range(2):
        session.do("SEND", "a", destination=queue_of(stage))
    told(len({frame.headers["message-id"] for frame in session.receive(2)}))
    told(stage.session().do("SEND", "a", destination=queue_of(stage), message_id="mine"))


@stomp
def body_of_every_byte(stage, told):
    session = stage.session()
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    body = bytes(range(256))
    session.do("SEND", body, destination=queue_of(stage), content_length=str(len(body)))
    frame = session.receive(1)[0]
    told(frame.body == body)
    told(frame.headers.get("content-length"))
    session.do("SEND", b"", destination=queue_of(stage))
    frame = session.receive(1)[0]
    told(f"{frame.body} {frame.headers.get('content-length')}")


@stomp
def body_of_a_megabyte(stage, told):
    session = stage.session()
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    body = bytes(range(256)) * 4096
    told(session.do("SEND", body, destination=queue_of(stage), content_length=str(len(body))))
    told(session.receive(1)[0].body == body)


@stomp
def durable_topic_subscription(stage, told):
    topic = f"/topic/{stage.called('t')}"
    durable = {"id": stage.called("s"), "destination": topic, "durable": "true", "auto_delete": "false"}
    first = stage.session()
    told(first.do("SUBSCRIBE", **durable))
    told(first.do("DISCONNECT"))
    sender = stage.session()
    told(sender.do("SEND", "while away", destination=topic))
    second = stage.session()
    told(second.do("SUBSCRIBE", **durable))
    frame = second.receive(1)[0]
    told(f"{frame.headers['destination']} {frame.body.decode()}")
    third = stage.session()
    told(third.do("SUBSCRIBE", **durable))
    for number in range(4):
        sender.do("SEND", str(number), destination=topic)
    told(sorted(second.bodies(2) + third.bodies(2)))
    told(third.do("UNSUBSCRIBE", id=stage.called("s")))
    told(second.do("UNSUBSCRIBE", id=stage.called("s"), durable="true"))
    sender.do("SEND", "nobody", destination=topic)
    fourth = stage.session()
    told(fourth.do("SUBSCRIBE", **durable))
    told(fourth.quiet())


@stomp
def durable_subscription_needs_an_id(stage, told):
    session = stage.session("1.0")
    told(session.do("SUBSCRIBE", destination=f"/topic/{stage.called('t')}", durable="true"))


@stomp
def request_by_temp_queue(stage, told):
    asker, server = stage.session(), stage.session()
    server.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    told(asker.do("SEND", "q", destination=queue_of(stage), reply_to="/temp-queue/answers", correlation_id="7"))
    request = server.receive(1)[0]
    told(request.headers["reply-to"].split("amq.gen")[0])
    told(server.do("SEND", "a", destination=request.headers["reply-to"], correlation_id="7"))
    answer = asker.receive(1)[0]
    told(f"{answer.headers['subscription']} {answer.headers.get('correlation-id')} {answer.body.decode()}")
    told(answer.headers["destination"].split("amq.gen")[0])


@stomp
def temp_queue_cannot_be_subscribed_to(stage, told):
    told(stage.session().do("SUBSCRIBE", id="s", destination="/temp-queue/x"))
    told(stage.session().do("SEND", "a", destination="/temp-queue/x"))


@stomp
def temp_queue_goes_with_its_session(stage, told):
    asker, server = stage.session(), stage.session()
    server.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    asker.do("SEND", "q", destination=queue_of(stage), reply_to="/temp-queue/answers")
    reply_to = server.receive(1)[0].headers["reply-to"]
    asker.do("DISCONNECT")
    time.sleep(0.2)
    told(server.do("SEND", "late", destination=reply_to))


@stomp
def message_expires(stage, told):
    session = stage.session()
    session.do("SEND", "short", destination=queue_of(stage), expiration="100")
    session.do("SEND", "long", destination=queue_of(stage), expiration="60000")
    time.sleep(0.3)
    session.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    told([f"{f.body.decode()} {f.headers.get('expiration')}" for f in session.receive(1)])
    told(session.quiet())


@stomp
def subscription_sets_the_queue_up(stage, told):
    first = stage.session()
    limits = {"x_max_length": "2", "x_message_ttl": "60000", "x_max_priority": "5"}
    told(first.do("SUBSCRIBE", id="s", destination=queue_of(stage), **limits))
    first.do("UNSUBSCRIBE", id="s")
    for body, priority in [("low", "1"), ("high", "5"), ("middle", "3")]:
        told(first.do("SEND", body, destination=queue_of(stage), priority=priority))
    second = stage.session()
    told(second.do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="client-individual", **limits))


@stomp
def dead_letters_of_a_stomp_queue(stage, told):
    session = stage.session()
    dead = stage.called("dead")
    session.do("SUBSCRIBE", id="dead", destination=f"/queue/{dead}")
    session.do(
        "SUBSCRIBE",
        id="s",
        destination=queue_of(stage),
        ack="client-individual",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=dead,
    )
    session.do("SEND", "a", destination=queue_of(stage), own="x")
    frame = session.receive(1)[0]
    told(session.do("NACK", id=frame.headers["ack"], requeue="false"))
    frame = session.receive(1)[0]
    kept = {k: v for k, v in frame.headers.items() if k.startswith("x-first") or k == "own"}
    told(f"{frame.headers['subscription']} {frame.body.decode()} {sorted(kept.items())}")


@stomp
def exclusive_and_auto_delete_subscriptions(stage, told):
    one, two = stage.session(), stage.session()
    told(one.do("SUBSCRIBE", id="s", destination=queue_of(stage, "e"), exclusive="true"))
    told(two.do("SUBSCRIBE", id="s", destination=queue_of(stage, "e")))
    three = stage.session()
    told(three.do("SUBSCRIBE", id="s", destination=queue_of(stage, "a"), auto_delete="true"))
    told(three.do("UNSUBSCRIBE", id="s"))
    told(three.do("SEND", "a", destination=f"/amq/queue/{stage.called('a')}"))
    told(three.do("SUBSCRIBE", id="t", destination=f"/amq/queue/{stage.called('a')}"))


@stomp
def topic_subscription_with_a_queue_name(stage, told):
    one, two = stage.session(), stage.session()
    topic = f"/topic/{stage.called('t')}"
    for session in (one, two):
        told(session.do("SUBSCRIBE", id="s", destination=topic, **{"x-queue-name": stage.called("shared")}))
    for number in range(4):
        one.do("SEND", str(number), destination=topic)
    told(len(one.bodies(2)) + len(two.bodies(2)))
    told(one.quiet() + two.quiet())


@stomp
def selector_is_taken(stage, told):
    session = stage.session()
    told(session.do("SUBSCRIBE", id="s", destination=queue_of(stage), selector="a = 'b'"))


@stomp
def after_an_error_the_connection_ends(stage, told):
    session = stage.session()
    told(session.do("SEND", "a", destination="/nowhere/x"))
    told(session.answer(within=2))
    session = stage.session()
    told(session.do("SUBSCRIBE", id="s", destination=f"/exchange/{stage.called('no')}/k"))
    told(session.answer(within=2))


@stomp
def commands_that_nobody_knows(stage, told):
    told(stage.session().do("DANCE", destination=queue_of(stage)))


@stomp
def lost_session_gives_back_in_order(stage, told):
    first, second = stage.session(), stage.session()
    for number in range(20):
        first.do("SEND", str(number), destination=queue_of(stage))
    first.do("SUBSCRIBE", id="s", destination=queue_of(stage), ack="client")
    first.receive(20)
    first.cut()
    time.sleep(0.3)
    second.do("SUBSCRIBE", id="s", destination=queue_of(stage))
    told(second.flagged(20))
