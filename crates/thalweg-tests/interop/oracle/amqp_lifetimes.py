"""AMQP: what ends a message or a queue: age, length, rejection, deletion; and what becomes of it then."""

import time

from amqp_stage import amqp, headers_told, text


def deaths(properties):
    """x-death without its times, one sentence per entry."""
    told = []
    for death in (properties.headers or {}).get("x-death", []):
        rest = {key: value for key, value in death.items() if key != "time"}
        told.append(headers_told(rest) + (" with a time" if "time" in death else " without a time"))
    first = {key: value for key, value in (properties.headers or {}).items() if key.startswith("x-first-death")}
    return told + [headers_told(first)]


def with_dead_letters(stage, short, **arguments):
    """A queue whose dead letters go through an exchange of its own to a queue `dead`."""
    channel = stage.channel()
    exchange, name, dead = stage.called(f"{short}.dlx"), stage.called(short), stage.called(f"{short}.dead")
    channel.exchange(exchange, "fanout")
    channel.queue(dead)
    channel.bind(dead, exchange)
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue(name, arguments={"x-dead-letter-exchange": exchange, **arguments})
    return channel, name, dead


@amqp
def queue_ttl_ends_messages(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    # Long enough to be counted before it ends, on a busy machine, too.
    channel.queue(name, arguments={"x-message-ttl": 1500})
    stage.put("", name, "a")
    told(channel.count(name))
    told(channel.settled_count(name, "messages=0"))


@amqp
def queue_ttl_of_zero_needs_a_waiting_consumer(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-message-ttl": 0})
    told(stage.put("", name, "gone", mandatory=True))
    told(channel.count(name))
    channel.consume(name, "c", auto_ack=True)
    stage.put("", name, "taken")
    told(channel.bodies(1))


@amqp
def message_ttl_ends_a_message(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    stage.put("", name, "short", expiration="100")
    stage.put("", name, "long", expiration="60000")
    stage.put("", name, "none")
    time.sleep(0.3)
    told(channel.count(name))
    got = []
    while (message := channel.get(name))[0] is not None:
        got.append(f"{text(message[2])} expiration={message[1].expiration}")
    told(got)


@amqp
def shorter_of_two_ttls_wins(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-message-ttl": 100})
    stage.put("", name, "message says more", expiration="60000")
    told(channel.settled_count(name, "messages=0"))


@amqp
def expiration_must_be_a_number(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for value in ["soon", "-1", "1.5", "", "0", "99999999999999"]:
        told(f"{value!r}: {stage.put('', name, 'a', expiration=value)}")


@amqp
def unsettled_message_does_not_expire(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-message-ttl": 1000})
    stage.put("", name, "a")
    channel.get(name, auto_ack=False)
    time.sleep(1.2)
    told(channel.count(name))
    channel.raw.basic_nack(1, requeue=True)
    told(channel.settled_count(name, "messages=0"))


@amqp
def expired_message_becomes_a_dead_letter(stage, told):
    channel, name, dead = with_dead_letters(stage, "q")
    stage.put("", name, "a", expiration="50", headers={"own": "x"}, message_id="m", delivery_mode=2)
    # Other than a queue's, a message's own time is looked at when it stands in front; nothing asks here.
    method, properties, body = channel.await_one(dead)
    told(f"{text(body)} exchange={method.exchange!r} key={method.routing_key!r}")
    told(f"expiration={properties.expiration} id={properties.message_id} own={properties.headers.get('own')}")
    for death in deaths(properties):
        told(death)


@amqp
def rejected_message_becomes_a_dead_letter(stage, told):
    channel, name, dead = with_dead_letters(stage, "q")
    for body in "abc":
        stage.put("", name, body)
    for _ in range(3):
        channel.get(name, auto_ack=False)
    channel.raw.basic_reject(1, requeue=False)
    channel.raw.basic_nack(2, requeue=False)
    channel.raw.basic_ack(3)
    told(sorted(channel.drain_when(dead, 2)))


@amqp
def rejected_message_tells_its_death(stage, told):
    channel, name, dead = with_dead_letters(stage, "q")
    channel.exchange(stage.called("in"), "direct")
    channel.bind(name, stage.called("in"), "the-key")
    stage.put(stage.called("in"), "the-key", "a", headers={"CC": ["also"]})
    channel.get(name, auto_ack=False)
    channel.raw.basic_reject(1, requeue=False)
    method, properties, _ = channel.await_one(dead)
    told(f"exchange={method.exchange!r} key={method.routing_key!r}")
    for death in deaths(properties):
        told(death)


@amqp
def dead_letter_key_can_be_set(stage, told):
    channel = stage.channel()
    name, dead = stage.called("q"), stage.called("dead")
    channel.queue(dead)
    channel.queue(name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    stage.put("", name, "a")
    channel.get(name, auto_ack=False)
    channel.raw.basic_reject(1, requeue=False)
    method, properties, body = channel.await_one(dead)
    told(f"{text(body)} exchange={method.exchange!r} key={method.routing_key!r}")
    for death in deaths(properties):
        told(death)


@amqp
def deaths_are_counted(stage, told):
    channel = stage.channel()
    work, wait = stage.called("work"), stage.called("wait")
    channel.queue(work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait})
    channel.queue(
        wait,
        arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work},
    )
    stage.put("", work, "a")
    for attempt in range(3):
        deadline = time.monotonic() + 10
        method = None
        while method is None and time.monotonic() < deadline:
            method, properties, _ = channel.get(work, auto_ack=False)
            time.sleep(0.01)
        told(f"attempt {attempt} redelivered={method.redelivered}")
        for death in deaths(properties):
            told(death)
        channel.raw.basic_reject(method.delivery_tag, requeue=False)


@amqp
def dead_letters_that_only_expire_do_not_circle(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(
        name, arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
    )
    stage.put("", name, "a")
    time.sleep(0.4)
    told(channel.count(name))


@amqp
def dead_letter_exchange_that_is_not_there(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    told(channel.queue(name, arguments={"x-dead-letter-exchange": stage.called("no")}))
    stage.put("", name, "a")
    channel.get(name, auto_ack=False)
    channel.raw.basic_reject(1, requeue=False)
    told(channel.count(name))


@amqp
def full_queue_drops_its_head(stage, told):
    channel, name, dead = with_dead_letters(stage, "q", x_max_length=3)
    for number in range(5):
        told(stage.put("", name, str(number)))
    told(channel.drain(name))
    told(channel.drain_when(dead, 2))


@amqp
def overflow_tells_its_death(stage, told):
    channel, name, dead = with_dead_letters(stage, "q", x_max_length=1)
    for body in "ab":
        stage.put("", name, body)
    _, properties, body = channel.await_one(dead)
    told(text(body))
    for death in deaths(properties):
        told(death)


@amqp
def full_queue_by_bytes_drops_its_head(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-max-length-bytes": 10})
    for body in ["aaaa", "bbbb", "cccc", "dddddddddddd"]:
        stage.put("", name, body, headers={"not": "counted"})
        told(channel.count(name))
    told(channel.drain(name))


@amqp
def full_queue_can_refuse(stage, told):
    channel, name, dead = with_dead_letters(stage, "q", x_max_length=2, x_overflow="reject-publish")
    for number in range(4):
        told(stage.put("", name, str(number)))
    told(channel.drain(name))
    told(channel.count(dead))


@amqp
def full_queue_can_refuse_and_dead_letter(stage, told):
    channel, name, dead = with_dead_letters(stage, "q", x_max_length=2, x_overflow="reject-publish-dlx")
    for number in range(4):
        told(stage.put("", name, str(number)))
    told(channel.drain(name))
    told(channel.drain_when(dead, 2))


@amqp
def one_full_queue_of_two_refuses(stage, told):
    channel = stage.channel()
    full, free = stage.called("full"), stage.called("free")
    channel.exchange(stage.called("x"), "fanout")
    channel.queue(full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue(free)
    for name in (full, free):
        channel.bind(name, stage.called("x"))
    for body in "ab":
        told(stage.put(stage.called("x"), "", body))
    told([channel.drain(full), channel.drain(free)])


@amqp
def unsettled_messages_do_not_count_for_the_length(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-max-length": 2})
    for body in "ab":
        stage.put("", name, body)
    for _ in range(2):
        channel.get(name, auto_ack=False)
    for body in "cd":
        stage.put("", name, body)
    told(channel.count(name))
    channel.raw.basic_nack(2, multiple=True, requeue=True)
    told(channel.settled_count(name, "messages=2"))
    told(channel.drain(name))


@amqp
def length_of_zero_keeps_nothing(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    told(channel.queue(name, arguments={"x-max-length": 0}))
    told(stage.put("", name, "a", mandatory=True))
    told(channel.count(name))
    channel.consume(name, "c", auto_ack=True)
    stage.put("", name, "b")
    told(channel.bodies(1, 2))


@amqp
def priorities_come_first(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-max-priority": 5})
    for body, priority in [("none", None), ("one", 1), ("five", 5), ("nine", 9), ("three", 3), ("one-b", 1), ("zero", 0)]:
        stage.put("", name, body, **({} if priority is None else {"priority": priority}))
    got = []
    while (message := channel.get(name))[0] is not None:
        got.append(f"{text(message[2])}={message[1].priority}")
    told(got)


@amqp
def priorities_without_a_priority_queue(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body, priority in [("one", 1), ("nine", 9)]:
        stage.put("", name, body, priority=priority)
    told(channel.drain(name))


@amqp
def requeued_message_keeps_its_priority(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-max-priority": 5})
    for body, priority in [("low", 1), ("low-b", 1), ("high", 4)]:
        stage.put("", name, body, priority=priority)
    channel.get(name, auto_ack=False)
    channel.get(name, auto_ack=False)
    channel.raw.basic_nack(2, multiple=True, requeue=True)
    channel.settled_count(name, "messages=3")
    told(channel.drain(name))


@amqp
def full_priority_queue_drops_the_least(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-max-priority": 5, "x-max-length": 2})
    for body, priority in [("high", 4), ("low", 1), ("middle", 3)]:
        stage.put("", name, body, priority=priority)
    told(channel.drain(name))


@amqp
def unused_queue_expires(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-expires": 200})
    stage.put("", name, "a")
    deadline = time.monotonic() + 10
    # Asking by passive declare would be use, so a publish asks.
    time.sleep(0.5)
    while (answer := stage.put("", name, "b", mandatory=True)) == "confirmed" and time.monotonic() < deadline:
        time.sleep(0.05)
    told(answer)


@amqp
def queue_in_use_does_not_expire(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name, arguments={"x-expires": 1000})
    channel.consume(name, "c")
    time.sleep(1.5)
    told(channel.count(name))


@amqp
def expired_queue_makes_no_dead_letters(stage, told):
    channel, name, dead = with_dead_letters(stage, "q", x_expires=150)
    stage.put("", name, "a")
    time.sleep(0.6)
    told(channel.count(dead))


@amqp
def deleted_and_purged_messages_are_no_dead_letters(stage, told):
    channel, name, dead = with_dead_letters(stage, "q")
    stage.put("", name, "a")
    channel.do("queue_purge", name)
    stage.put("", name, "b")
    channel.do("queue_delete", name)
    told(channel.count(dead))


@amqp
def redelivery_flag_stays_with_the_queue(stage, told):
    channel, name, dead = with_dead_letters(stage, "q")
    stage.put("", name, "a")
    channel.get(name, auto_ack=False)
    channel.raw.basic_nack(1, requeue=True)
    channel.settled_count(name, "messages=1")
    method, properties, _ = channel.get(name, auto_ack=False)
    told(f"redelivered={method.redelivered} count={(properties.headers or {}).get('x-delivery-count')}")
    channel.raw.basic_nack(method.delivery_tag, requeue=False)
    method, _, _ = channel.await_one(dead)
    told(f"redelivered={method.redelivered}")


@amqp
def quorum_queue_counts_deliveries(stage, told):
    channel = stage.channel()
    name, dead = stage.called("q"), stage.called("dead")
    channel.queue(dead)
    channel.queue(
        name,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead,
        },
    )
    stage.put("", name, "a", delivery_mode=2)
    for _ in range(3):
        deadline = time.monotonic() + 10
        method = None
        while method is None and time.monotonic() < deadline:
            method, properties, _ = channel.get(name, auto_ack=False)
            time.sleep(0.01)
        if method is None:
            told("nothing")
            break
        told(f"redelivered={method.redelivered} count={(properties.headers or {}).get('x-delivery-count')}")
        channel.raw.basic_nack(method.delivery_tag, requeue=True)
    method, properties, body = channel.await_one(dead)
    told(text(body))
    for death in deaths(properties):
        told(death)
