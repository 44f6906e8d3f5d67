"""AMQP: publish, get, consume, settle, credit, transactions; what comes again, and in which order."""

import datetime

import pika

from amqp_stage import amqp, closed, properties_told, text


@amqp
def every_property_comes_back(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    put = stage.put(
        "",
        name,
        "a",
        content_type="text/plain",
        content_encoding="identity",
        delivery_mode=2,
        priority=7,
        correlation_id="corr",
        reply_to="answers",
        expiration="60000",
        message_id="id-1",
        timestamp=1700000000,
        type="kind",
        user_id="guest",
        app_id="app",
        headers={
            "text": "t",
            "number": 5,
            "big": 2**40,
            "negative": -3,
            "true": True,
            "bytes": b"\x00\xff",
            "none": None,
            "list": [1, "two", [3]],
            "table": {"inner": "x"},
            "time": datetime.datetime(2020, 1, 2, 3, 4, 5),
        },
    )
    told(put)
    _, properties, _ = channel.get(name)
    told(properties_told(properties))


@amqp
def message_without_properties(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    stage.put("", name, "")
    method, properties, body = channel.get(name)
    told(f"{body} {properties_told(properties)!r} redelivered={method.redelivered} left={method.message_count}")


@amqp
def user_id_must_be_the_user(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    told(stage.put("", name, "a", user_id="guest"))
    told(stage.put("", name, "a", user_id="somebody"))


@amqp
def get_counts_down(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "abc":
        stage.put("", name, body)
    for _ in range(4):
        method, _, body = channel.get(name)
        told("empty" if method is None else f"{text(body)} left={method.message_count} tag={method.delivery_tag}")
    told(channel.do("basic_get", stage.called("no")))


@amqp
def body_of_a_megabyte(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    body = bytes(range(256)) * 4096
    told(stage.put("", name, body))
    _, _, got = channel.get(name)
    told(len(got))
    told(got == body)


@amqp
def mandatory_publish_is_returned_before_its_confirm(stage, told):
    connection = stage.connection()
    channel = connection.channel()
    order = []
    channel.confirm_delivery()
    channel.add_on_return_callback(
        lambda _c, method, properties, body: order.append(
            f"return {method.reply_code} {method.reply_text} {text(body)} {properties_told(properties)}"
        )
    )
    try:
        channel.basic_publish(
            "amq.direct", stage.called("no"), b"a", pika.BasicProperties(headers={"h": "v"}, delivery_mode=2), True
        )
        order.append("confirmed")
    except pika.exceptions.UnroutableError as error:
        method = error.messages[0].method
        order.append(f"unroutable {method.reply_code} {method.reply_text}")
        order.append(properties_told(error.messages[0].properties))
    told(order)


@amqp
def unsettled_messages_come_again_flagged_in_order(stage, told):
    first, second = stage.channel(), stage.channel()
    name = stage.called("q")
    first.queue(name)
    for number in range(10):
        stage.put("", name, str(number))
    first.consume(name, "c")
    told(first.flagged(10))
    first.raw.basic_ack(3)
    first.raw.basic_ack(7)
    told(second.settled_count(name, "consumers=1"))
    first.raw.close()
    told(second.settled_count(name, "messages=8"))
    second.consume(name, "c")
    told(second.flagged(8))


@amqp
def lost_connection_requeues(stage, told):
    first, second = stage.channel(), stage.channel()
    name = stage.called("q")
    first.queue(name)
    for body in "abc":
        stage.put("", name, body)
    first.consume(name, "c")
    first.receive(3)
    first.cut()
    told(second.settled_count(name, "messages=3 consumers=0"))
    second.consume(name, "c")
    told(second.flagged(3))


@amqp
def requeued_messages_go_to_the_front(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "abcde":
        stage.put("", name, body)
    for _ in range(3):
        channel.get(name, auto_ack=False)
    channel.raw.basic_nack(2, requeue=True)
    channel.settled_count(name, "messages=3")
    told(channel.drain(name))
    channel.raw.basic_nack(3, multiple=True, requeue=True)
    channel.settled_count(name, "messages=2")
    told(channel.drain(name))


@amqp
def rejected_and_acknowledged_are_gone(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "abcdef":
        stage.put("", name, body)
    for _ in range(6):
        channel.get(name, auto_ack=False)
    channel.raw.basic_ack(1)
    channel.raw.basic_reject(2, requeue=False)
    channel.raw.basic_nack(3, requeue=False)
    channel.raw.basic_ack(5, multiple=True)
    channel.raw.close()
    told(channel.settled_count(name, "messages=1"))
    told(channel.drain(name))


@amqp
def unknown_delivery_tags(stage, told):
    name = stage.called("q")
    stage.channel().queue(name)
    for verb, arguments in [
        ("basic_ack", {"delivery_tag": 1}),
        ("basic_ack", {"delivery_tag": 1, "multiple": True}),
        ("basic_nack", {"delivery_tag": 9}),
        ("basic_reject", {"delivery_tag": 9}),
        ("basic_ack", {"delivery_tag": 0}),
        ("basic_ack", {"delivery_tag": 0, "multiple": True}),
        ("basic_nack", {"delivery_tag": 0, "multiple": True}),
    ]:
        channel = stage.channel()
        getattr(channel.raw, verb)(**arguments)
        # What follows on the same channel tells how the broker took it.
        told(f"{verb} {arguments}: {channel.do('queue_declare', name, passive=True)}")


@amqp
def acknowledging_twice(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    stage.put("", name, "a")
    channel.get(name, auto_ack=False)
    channel.raw.basic_ack(1)
    channel.raw.basic_ack(1)
    told(channel.do("queue_declare", name, passive=True))


@amqp
def acknowledging_on_another_channel(stage, told):
    connection = stage.connection()
    one, two = stage.channel(connection), stage.channel(connection)
    name = stage.called("q")
    one.queue(name)
    stage.put("", name, "a")
    one.get(name, auto_ack=False)
    two.raw.basic_ack(1)
    told(two.do("queue_declare", name, passive=True))
    one.raw.basic_ack(1)
    told(one.do("queue_declare", name, passive=True))


@amqp
def acknowledging_what_needs_none(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    stage.put("", name, "a")
    told(channel.get(name, auto_ack=True)[0].delivery_tag)
    channel.raw.basic_ack(1)
    told(channel.do("queue_declare", name, passive=True))


@amqp
def recover_brings_everything_again(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "abc":
        stage.put("", name, body)
    channel.consume(name, "c")
    told(channel.flagged(3))
    told(channel.do("basic_recover", requeue=True))
    told(channel.flagged(3))


@amqp
def recover_without_requeue(stage, told):
    channel = stage.channel()
    told(channel.do("basic_recover", requeue=False))


@amqp
def prefetch_bounds_what_is_unsettled(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for number in range(8):
        stage.put("", name, str(number))
    channel.raw.basic_qos(prefetch_count=3)
    channel.consume(name, "c")
    got = channel.receive(3)
    told([text(body) for _, _, body in got])
    told(channel.quiet())
    channel.raw.basic_ack(got[1][0].delivery_tag, multiple=True)
    told(channel.bodies(2))
    told(channel.quiet())
    channel.raw.basic_qos(prefetch_count=10)
    told(channel.quiet())


@amqp
def prefetch_counts_per_consumer_or_per_channel(stage, told):
    for is_global in (False, True):
        channel = stage.channel()
        names = [stage.called(f"{is_global}{n}") for n in range(2)]
        for name in names:
            channel.queue(name)
            for number in range(5):
                stage.put("", name, str(number))
        channel.raw.basic_qos(prefetch_count=2, global_qos=is_global)
        for name in names:
            channel.consume(name, name)
        channel.receive(4 if not is_global else 2)
        told(f"global={is_global} more={len(channel.quiet())}")


@amqp
def prefetch_size_is_not_there(stage, told):
    channel = stage.channel()
    told(channel.do("basic_qos", prefetch_size=1024))


@amqp
def consumers_take_turns(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    channel.consume(name, "one", auto_ack=True)
    channel.consume(name, "two", auto_ack=True)
    for number in range(10):
        stage.put("", name, str(number))
    got = channel.receive(10)
    shares = {tag: [text(b) for m, _, b in got if m.consumer_tag == tag] for tag in ("one", "two")}
    told({tag: len(share) for tag, share in shares.items()})
    told(shares)


@amqp
def consumer_priorities_are_served_first(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    channel.raw.basic_qos(prefetch_count=2)
    told(channel.consume(name, "low"))
    told(channel.consume(name, "high", arguments={"x-priority": 10}))
    for number in range(4):
        stage.put("", name, str(number))
    got = channel.receive(4)
    told({tag: [text(b) for m, _, b in got if m.consumer_tag == tag] for tag in ("low", "high")})
    told(channel.consume(name, "wrong", arguments={"x-priority": "high"}))


@amqp
def exclusive_consumer_stands_alone(stage, told):
    one, two = stage.channel(), stage.channel()
    name = stage.called("q")
    one.queue(name)
    told(one.consume(name, "one", exclusive=True))
    told(two.consume(name, "two"))
    one.do("basic_cancel", "one")
    told(two.consume(name, "two"))
    told(one.consume(name, "three", exclusive=True))


@amqp
def single_active_consumer_hands_over(stage, told):
    one, two = stage.channel(), stage.channel()
    name = stage.called("q")
    one.queue(name, arguments={"x-single-active-consumer": True})
    one.consume(name, "one")
    two.consume(name, "two")
    for body in "ab":
        stage.put("", name, body)
    told(one.bodies(2))
    told(two.quiet())
    one.connection.close()
    told(two.flagged(2))
    stage.put("", name, "c")
    told(two.flagged(1))
    told(two.consume(name, "exclusive", exclusive=True))


@amqp
def consumer_tags(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    told(channel.consume(name, "same"))
    try:
        channel.raw._impl.basic_consume(name, lambda *_: None, consumer_tag="same")
        told("asked")
    except pika.exceptions.DuplicateConsumerTag:
        told("the client forbids it")
    told(channel.consume(stage.called("no"), "c"))
    told(channel.do("basic_cancel", "never"))


@amqp
def cancelled_consumer_keeps_what_is_unsettled(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "ab":
        stage.put("", name, body)
    channel.consume(name, "c")
    channel.receive(2)
    # The blocking adapter's own cancel would give unsettled messages back itself.
    channel.raw._impl.basic_cancel("c")
    told(channel.settled_count(name, "consumers=0"))
    channel.raw.basic_ack(1)
    channel.cut()
    channel = stage.channel()
    method, _, body = channel.await_one(name)
    told(f"{text(body)} redelivered={method.redelivered}")


@amqp
def consumer_hears_that_its_queue_is_deleted(stage, told):
    channel, other = stage.channel(), stage.channel()
    name = stage.called("q")
    channel.queue(name)
    channel.consume(name, "c")
    told(other.do("queue_delete", name))
    channel.receive(1, 2) if not channel.cancelled else None
    told(channel.cancelled)


@amqp
def no_local_is_ignored(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    channel.consume(name, "c", auto_ack=True, arguments={})
    channel.put("", name, "own")
    told(channel.bodies(1))


@amqp
def confirms_come_in_order_and_count_up(stage, told):
    connection = stage.connection()
    channel = connection.channel()
    name = stage.called("q")
    channel.queue_declare(name)
    highest = []
    channel._impl.confirm_delivery(
        lambda frame: highest.append((type(frame.method).__name__, frame.method.delivery_tag, frame.method.multiple))
    )
    for number in range(20):
        channel._impl.basic_publish("", name, str(number).encode(), pika.BasicProperties(delivery_mode=2))
    deadline = 100
    while (not highest or highest[-1][1] < 20) and deadline:
        connection.process_data_events(0.05)
        deadline -= 1
    told({kind for kind, _, _ in highest})
    told([tag for _, tag, _ in highest] == sorted(tag for _, tag, _ in highest))
    told(highest[-1][1])
    told(stage.channel(connection).count(name))


@amqp
def confirms_and_transactions_exclude_each_other(stage, told):
    one, two = stage.channel(), stage.channel()
    told(one.do("tx_select"))
    told(one.do("confirm_delivery"))
    told(two.do("confirm_delivery"))
    told(two.do("tx_select"))


@amqp
def commit_without_select(stage, told):
    channel = stage.channel()
    told(channel.do("tx_commit"))
    told(channel.do("tx_rollback"))


@amqp
def transaction_commits_publishes(stage, told):
    channel, other = stage.channel(), stage.channel()
    name = stage.called("q")
    channel.queue(name)
    channel.do("tx_select")
    for body in "ab":
        channel.raw.basic_publish("", name, body.encode())
    told(other.count(name))
    told(channel.do("tx_commit"))
    told(other.count(name))
    channel.raw.basic_publish("", name, b"c")
    told(channel.do("tx_rollback"))
    told(channel.do("tx_commit"))
    told(other.drain(name))


@amqp
def transaction_commits_settlements(stage, told):
    channel, other = stage.channel(), stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "abc":
        stage.put("", name, body)
    channel.do("tx_select")
    for _ in range(3):
        channel.get(name, auto_ack=False)
    channel.raw.basic_ack(1)
    channel.raw.basic_nack(2, requeue=False)
    told(channel.do("tx_rollback"))
    channel.raw.basic_ack(1)
    told(channel.do("tx_commit"))
    channel.raw.close()
    told(other.settled_count(name, "messages=2"))
    told(other.drain(name))


@amqp
def transaction_does_not_cover_deliveries(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    stage.put("", name, "a")
    channel.do("tx_select")
    channel.get(name, auto_ack=True)
    told(channel.do("tx_rollback"))
    told(channel.count(name))


@amqp
def closing_a_channel_rolls_its_transaction_back(stage, told):
    channel, other = stage.channel(), stage.channel()
    name = stage.called("q")
    channel.queue(name)
    channel.do("tx_select")
    channel.raw.basic_publish("", name, b"a")
    channel.raw.close()
    told(other.count(name))


@amqp
def copies_by_header(stage, told):
    channel = stage.channel()
    names = [stage.called(short) for short in ["main", "copy", "blind"]]
    for name in names:
        channel.queue(name)
    told(stage.put("", names[0], "a", headers={"CC": [names[1]], "BCC": [names[2]], "own": "x"}))
    for name in names:
        method, properties, body = channel.get(name)
        told(f"{body} key={method.routing_key} {properties_told(properties)}" if method else "nothing")
    told(stage.put("", names[0], "b", headers={"CC": "no list"}))


@amqp
def direct_reply_to_answers(stage, told):
    asker, server = stage.channel(), stage.channel()
    name = stage.called("q")
    server.queue(name)
    told(asker.queue("amq.rabbitmq.reply-to", passive=True))
    told(asker.consume("amq.rabbitmq.reply-to", "r", auto_ack=True))
    told(asker.put("", name, "question", reply_to="amq.rabbitmq.reply-to", correlation_id="7"))
    _, properties, _ = server.await_one(name)
    told(properties.reply_to.startswith("amq.rabbitmq.reply-to."))
    told(server.put("", properties.reply_to, "answer", mandatory=True, correlation_id=properties.correlation_id))
    method, answered, body = asker.receive(1)[0]
    told(f"{body} {answered.correlation_id} exchange={method.exchange!r} redelivered={method.redelivered}")
    probe = server.queue(properties.reply_to, passive=True)
    told(probe)
    asker.connection.close()
    told(server.settled_count(properties.reply_to, "closed"))
    told(stage.put("", properties.reply_to, "late", mandatory=True))


@amqp
def direct_reply_to_has_rules(stage, told):
    channel = stage.channel()
    told(channel.consume("amq.rabbitmq.reply-to", "r", auto_ack=False))
    told(channel.put("", stage.called("q"), "a", reply_to="amq.rabbitmq.reply-to"))
    told(channel.consume("amq.rabbitmq.reply-to", "r", auto_ack=True))
    told(channel.consume("amq.rabbitmq.reply-to", "s", auto_ack=True))
    told(channel.queue("amq.rabbitmq.reply-to"))


@amqp
def binary_keys_and_bodies(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    body = bytes(range(256))
    stage.put("", name, body)
    told(channel.get(name)[2] == body)


@amqp
def channel_flow_from_a_client(stage, told):
    channel = stage.channel()
    told(channel.do("flow", True))
    told(channel.do("flow", False))


@amqp
def many_channels_of_a_connection(stage, told):
    connection = stage.connection()
    name = stage.called("q")
    channels = [connection.channel() for _ in range(50)]
    channels[0].queue_declare(name)
    for number, channel in enumerate(channels):
        channel.basic_publish("", name, str(number).encode())
        one = stage.channel(connection)
    bodies = one.drain_when(name, 50)
    told(len(bodies))
    told(sorted(map(int, bodies)) == list(range(50)))


@amqp
def negotiated_limits(stage, told):
    connection = stage.connection(heartbeat=10, channel_max=7, frame_max=8192)
    told(f"channels {connection._impl.params.channel_max} frame {connection._impl.params.frame_max}")
    for _ in range(7):
        connection.channel()
    try:
        connection.channel(8)
        told("opened an eighth")
    except Exception as error:
        told(f"an eighth: {type(error).__name__}")


@amqp
def server_says_what_it_can(stage, told):
    connection = stage.connection()
    properties = connection._impl.server_properties
    told(sorted(key for key, value in properties["capabilities"].items() if value))
    told(sorted(properties))


@amqp
def immediate_is_not_there(stage, told):
    connection = stage.connection()
    channel = connection.channel()
    method = pika.spec.Basic.Publish(exchange="", routing_key="k", mandatory=False, immediate=True)
    channel._impl._send_method(method, (pika.BasicProperties(), b"a"))
    try:
        for _ in range(40):
            connection.process_data_events(0.05)
        told("open")
    except pika.exceptions.AMQPError as error:
        told(closed(error))
