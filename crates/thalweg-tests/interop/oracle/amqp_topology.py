"""AMQP: what is declared, bound, declared again, deleted; and the codes when it is not allowed."""

from amqp_stage import amqp


@amqp
def queue_is_declared_twice_the_same(stage, told):
    channel = stage.channel()
    told(channel.queue(stage.called("q"), durable=True))
    told(channel.queue(stage.called("q"), durable=True))


@amqp
def queue_is_declared_again_otherwise(stage, told):
    channel = stage.channel()
    for short, first, again in [
        ("durable", {"durable": True}, {"durable": False}),
        ("autodelete", {"auto_delete": False}, {"auto_delete": True}),
        ("ttl", {"arguments": {"x-message-ttl": 1000}}, {"arguments": {"x-message-ttl": 2000}}),
        ("nottl", {}, {"arguments": {"x-message-ttl": 2000}}),
        ("ttlgone", {"arguments": {"x-message-ttl": 1000}}, {}),
        ("length", {"arguments": {"x-max-length": 10}}, {"arguments": {"x-max-length": 11}}),
        ("bytes", {"arguments": {"x-max-length-bytes": 10}}, {"arguments": {"x-max-length-bytes": 11}}),
        ("expires", {"arguments": {"x-expires": 60000}}, {"arguments": {"x-expires": 70000}}),
        ("overflow", {"arguments": {"x-overflow": "drop-head"}}, {"arguments": {"x-overflow": "reject-publish"}}),
        ("dlx", {"arguments": {"x-dead-letter-exchange": "a"}}, {"arguments": {"x-dead-letter-exchange": "b"}}),
        ("priority", {"arguments": {"x-max-priority": 5}}, {"arguments": {"x-max-priority": 6}}),
        (
            "single",
            {"arguments": {"x-single-active-consumer": True}},
            {"arguments": {"x-single-active-consumer": False}},
        ),
    ]:
        channel.queue(stage.called(short), **first)
        told(f"{short}: {channel.queue(stage.called(short), **again)}")


@amqp
def queue_arguments_out_of_range(stage, told):
    channel = stage.channel()
    for short, arguments in [
        ("ttl-negative", {"x-message-ttl": -1}),
        ("ttl-text", {"x-message-ttl": "soon"}),
        ("ttl-zero", {"x-message-ttl": 0}),
        ("expires-zero", {"x-expires": 0}),
        ("expires-text", {"x-expires": "later"}),
        ("length-negative", {"x-max-length": -5}),
        ("length-text", {"x-max-length": "many"}),
        ("overflow-unknown", {"x-overflow": "explode"}),
        ("priority-256", {"x-max-priority": 256}),
        ("priority-negative", {"x-max-priority": -1}),
        ("dlx-number", {"x-dead-letter-exchange": 5}),
        ("dlk-without-dlx", {"x-dead-letter-routing-key": "k"}),
        ("type-unknown", {"x-queue-type": "strange"}),
        ("type-classic", {"x-queue-type": "classic"}),
        ("mode-lazy", {"x-queue-mode": "lazy"}),
        ("mode-unknown", {"x-queue-mode": "idle"}),
        ("single-number", {"x-single-active-consumer": 1}),
        ("unknown-argument", {"x-nobody-knows": 1}),
    ]:
        told(f"{short}: {channel.queue(stage.called(short), arguments=arguments)}")


@amqp
def quorum_queue_declares_and_counts(stage, told):
    channel = stage.channel()
    quorum = {"x-queue-type": "quorum"}
    told(channel.queue(stage.called("q"), durable=True, arguments=quorum))
    told(stage.put("", stage.called("q"), "a", delivery_mode=2))
    told(channel.queue(stage.called("transient"), arguments=quorum))
    told(channel.queue(stage.called("exclusive"), durable=True, exclusive=True, arguments=quorum))
    told(channel.queue(stage.called("q"), durable=True))


@amqp
def queue_with_a_name_from_the_broker(stage, told):
    channel = stage.channel()
    told(channel.queue("", exclusive=True))
    told(channel.queue("", exclusive=True))
    # "" names the last queue that this channel declared (0-9-1, queue.bind).
    channel.bind("", "amq.direct", "server-named")
    told(stage.put("amq.direct", "server-named", "a", mandatory=True))
    told(channel.drain(""))


@amqp
def last_declared_queue_without_one(stage, told):
    channel = stage.channel()
    told(channel.bind("", "amq.direct", "k"))
    told(channel.do("basic_get", ""))


@amqp
def queue_names_that_are_reserved(stage, told):
    channel = stage.channel()
    told(channel.queue("amq.mine"))
    told(channel.queue("amq."))
    told(channel.queue("amqmine", exclusive=True))
    told(channel.queue("amq.mine", passive=True))


@amqp
def exchange_names_that_are_reserved(stage, told):
    channel = stage.channel()
    told(channel.exchange("amq.mine"))
    told(channel.exchange("amq.mine", passive=True))
    told(channel.exchange("", passive=True))
    told(channel.exchange("", "direct"))
    told(channel.do("exchange_delete", "amq.topic"))
    told(channel.do("exchange_delete", ""))


@amqp
def exchanges_that_are_there_from_the_start(stage, told):
    channel = stage.channel()
    for name, kind in [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ]:
        told(f"{name}: {channel.exchange(name, kind, durable=True)}")
        told(f"{name} passive: {channel.exchange(name, kind, passive=True)}")
    told(channel.exchange("amq.topic", "direct", durable=True))


@amqp
def exchange_is_declared_again_otherwise(stage, told):
    channel = stage.channel()
    name = stage.called("x")
    told(channel.exchange(name, "direct"))
    told(channel.exchange(name, "direct"))
    told(channel.exchange(name, "fanout"))
    told(channel.exchange(name, "direct", durable=True))
    told(channel.exchange(name, "direct", auto_delete=True))
    told(channel.exchange(name, "direct", internal=True))
    told(channel.exchange(name, "direct", arguments={"alternate-exchange": "amq.fanout"}))
    told(channel.exchange(stage.called("strange"), "strange"))


@amqp
def passive_declares_of_what_is_not_there(stage, told):
    channel = stage.channel()
    told(channel.queue(stage.called("no"), passive=True))
    told(channel.exchange(stage.called("no"), passive=True))


@amqp
def passive_declare_counts_ready_messages_and_consumers(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "abc":
        stage.put("", name, body)
    told(channel.queue(name, passive=True))
    channel.get(name, auto_ack=False)
    told(channel.queue(name, passive=True))
    channel.consume(name, "c")
    channel.receive(2)
    told(channel.queue(name, passive=True))
    # Whatever else a passive declare says is not compared.
    told(channel.queue(name, passive=True, durable=True, exclusive=True))


@amqp
def exclusive_queue_belongs_to_its_connection(stage, told):
    owner, other = stage.channel(), stage.channel()
    name = stage.called("q")
    told(owner.queue(name, exclusive=True))
    told(owner.queue(name, exclusive=True))
    told(other.queue(name, exclusive=True))
    told(other.queue(name, passive=True))
    told(other.queue(name))
    told(other.do("basic_get", name))
    told(other.consume(name, "c"))
    told(other.bind(name, "amq.direct", "k"))
    told(other.do("queue_purge", name))
    told(other.do("queue_delete", name))
    # Anybody may publish to it.
    told(stage.put("", name, "a", mandatory=True))
    told(owner.drain(name))


@amqp
def exclusive_queue_goes_with_its_connection(stage, told):
    owner, other = stage.channel(), stage.channel()
    name = stage.called("q")
    owner.queue(name, exclusive=True)
    owner.connection.close()
    told(other.queue(name, passive=True))
    told(stage.put("", name, "a", mandatory=True))


@amqp
def auto_delete_queue_goes_with_its_last_consumer(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    told(channel.queue(name, auto_delete=True))
    stage.put("", name, "a")
    told(channel.consume(name, "one", auto_ack=True))
    told(channel.consume(name, "two", auto_ack=True))
    told(channel.bodies(1))
    told(channel.do("basic_cancel", "one"))
    told(channel.count(name))
    told(channel.do("basic_cancel", "two"))
    told(channel.count(name))


@amqp
def auto_delete_queue_without_a_consumer_stays(stage, told):
    first, second = stage.channel(), stage.channel()
    name = stage.called("q")
    first.queue(name, auto_delete=True)
    first.connection.close()
    told(second.count(name))


@amqp
def auto_delete_exchange_goes_with_its_last_binding(stage, told):
    channel = stage.channel()
    exchange, queue = stage.called("x"), stage.called("q")
    channel.exchange(exchange, auto_delete=True)
    channel.queue(queue)
    told(channel.bind(queue, exchange, "a"))
    told(channel.bind(queue, exchange, "b"))
    told(channel.do("queue_unbind", queue, exchange, "a"))
    told(channel.exchange(exchange, passive=True))
    told(channel.do("queue_unbind", queue, exchange, "b"))
    told(channel.exchange(exchange, passive=True))


@amqp
def auto_delete_exchange_goes_with_its_last_queue(stage, told):
    channel = stage.channel()
    exchange, queue = stage.called("x"), stage.called("q")
    channel.exchange(exchange, auto_delete=True)
    channel.queue(queue)
    channel.bind(queue, exchange, "a")
    told(channel.do("queue_delete", queue))
    told(channel.exchange(exchange, passive=True))


@amqp
def deletes_with_conditions(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    stage.put("", name, "a")
    told(channel.do("queue_delete", name, if_empty=True))
    told(channel.consume(name, "c"))
    told(channel.do("queue_delete", name, if_unused=True))
    told(channel.do("queue_delete", name))
    told(channel.do("queue_delete", name))
    exchange, queue = stage.called("x"), stage.called("bound")
    channel.exchange(exchange)
    channel.queue(queue)
    channel.bind(queue, exchange, "k")
    told(channel.do("exchange_delete", exchange, if_unused=True))
    told(channel.do("exchange_delete", exchange))
    told(channel.do("exchange_delete", exchange))


@amqp
def purge_counts(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    for body in "abcd":
        stage.put("", name, body)
    channel.get(name, auto_ack=False)
    told(channel.do("queue_purge", name))
    told(channel.do("queue_purge", name))
    channel.raw.basic_nack(1, requeue=True)
    told(channel.settled_count(name, "messages=1"))
    told(channel.do("queue_purge", stage.called("no")))


@amqp
def binds_to_what_is_not_there(stage, told):
    channel = stage.channel()
    channel.queue(stage.called("q"))
    told(channel.bind(stage.called("q"), stage.called("nox"), "k"))
    told(channel.bind(stage.called("noq"), "amq.direct", "k"))
    told(channel.bind(stage.called("q"), "", "k"))
    told(channel.do("queue_unbind", stage.called("q"), "amq.direct", "never"))
    told(channel.do("queue_unbind", stage.called("q"), stage.called("nox"), "never"))
    told(channel.do("queue_unbind", stage.called("noq"), "amq.direct", "never"))
    told(channel.do("queue_unbind", stage.called("q"), "", stage.called("q")))


@amqp
def same_binding_twice_gives_one_copy(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    channel.bind(name, "amq.direct", stage.called("k"))
    channel.bind(name, "amq.direct", stage.called("k"))
    stage.put("amq.direct", stage.called("k"), "once")
    told(channel.drain(name))
    channel.do("queue_unbind", name, "amq.direct", stage.called("k"))
    told(stage.put("amq.direct", stage.called("k"), "gone", mandatory=True))


@amqp
def overlapping_bindings_give_one_copy(stage, told):
    channel = stage.channel()
    name, exchange = stage.called("q"), stage.called("x")
    channel.queue(name)
    channel.exchange(exchange, "topic")
    for key in ["a.*", "a.#", "#", "*.b"]:
        channel.bind(name, exchange, key)
    stage.put(exchange, "a.b", "once")
    told(channel.drain(name))


@amqp
def topic_exchange_matches(stage, told):
    channel = stage.channel()
    exchange = stage.called("x")
    channel.exchange(exchange, "topic")
    patterns = ["a.b.c", "a.*.c", "a.#", "#.c", "#", "*", "*.*", "a.#.c", "#.b.#", "", "*.", ".*", "a..c", "a.b*", "#.#"]
    keys = ["a", "a.b", "a.b.c", "a.b.b.c", "a..c", "", ".", "b", "b.c", "a.c", "x.b.y", "a.", ".a", "a.b*"]
    for number, pattern in enumerate(patterns):
        channel.queue(f"{exchange}.{number}")
        channel.bind(f"{exchange}.{number}", exchange, pattern)
    for key in keys:
        stage.put(exchange, key, f"<{key}>")
    for number, pattern in enumerate(patterns):
        told(f"{pattern!r} takes {' '.join(channel.drain(f'{exchange}.{number}'))}")


@amqp
def direct_exchange_matches_whole_keys(stage, told):
    channel = stage.channel()
    exchange, queue = stage.called("x"), stage.called("q")
    channel.exchange(exchange, "direct")
    channel.queue(queue)
    for key in ["a.*", "#", "", "A"]:
        channel.bind(queue, exchange, key)
    for key in ["a.b", "a.*", "#", "", "a", "A"]:
        stage.put(exchange, key, f"<{key}>")
    told(channel.drain(queue))


@amqp
def fanout_exchange_ignores_keys(stage, told):
    channel = stage.channel()
    exchange = stage.called("x")
    channel.exchange(exchange, "fanout")
    for short in ["one", "two"]:
        channel.queue(stage.called(short))
        channel.bind(stage.called(short), exchange, f"key-{short}")
    told(stage.put(exchange, "else", "a", mandatory=True))
    told([channel.drain(stage.called(short)) for short in ["one", "two"]])


@amqp
def headers_exchange_all_and_any(stage, told):
    channel = stage.channel()
    exchange = stage.called("x")
    channel.exchange(exchange, "headers")
    rules = {
        "all": {"x-match": "all", "a": "1", "b": 2},
        "any": {"x-match": "any", "a": "1", "b": 2},
        "default": {"a": "1", "b": 2},
        "empty": {},
        "empty-any": {"x-match": "any"},
        "exists": {"x-match": "all", "a": None},
        "all-with-x": {"x-match": "all-with-x", "x-kind": "k"},
        "all-x-ignored": {"x-match": "all", "x-kind": "k", "a": "1"},
        "any-with-x": {"x-match": "any-with-x", "x-kind": "k", "a": "1"},
        "bool": {"x-match": "all", "flag": True},
    }
    for short, arguments in rules.items():
        queue = stage.called(short)
        channel.queue(queue)
        told(f"bind {short}: {channel.bind(queue, exchange, '', arguments)}")
    told(f"bind wrong: {channel.bind(stage.called('all'), exchange, '', {'x-match': 'some'})}")
    for body, headers in {
        "none": None,
        "both": {"a": "1", "b": 2},
        "a": {"a": "1"},
        "other-a": {"a": "2"},
        "number-as-text": {"a": "1", "b": "2"},
        "x": {"x-kind": "k"},
        "x-and-a": {"x-kind": "k", "a": "1"},
        "flag": {"flag": True},
        "flag-as-number": {"flag": 1},
    }.items():
        stage.put(exchange, "", body, headers=headers)
    for short in rules:
        told(f"{short} takes {' '.join(channel.drain(stage.called(short)))}")


@amqp
def exchange_to_exchange(stage, told):
    channel = stage.channel()
    source, target, queue = stage.called("source"), stage.called("target"), stage.called("q")
    channel.exchange(source, "topic")
    channel.exchange(target, "direct")
    channel.queue(queue)
    channel.bind(queue, target, "a.b")
    told(channel.do("exchange_bind", target, source, "a.#"))
    told(stage.put(source, "a.b", "through", mandatory=True))
    told(stage.put(source, "a.c", "lost", mandatory=True))
    method, _, body = channel.get(queue)
    told(f"{body} exchange={method.exchange!r} key={method.routing_key!r}")
    told(channel.do("exchange_unbind", target, source, "a.#"))
    told(stage.put(source, "a.b", "no more", mandatory=True))
    told(channel.do("exchange_bind", stage.called("no"), source, "k"))
    told(channel.do("exchange_bind", target, stage.called("no"), "k"))
    told(channel.do("exchange_bind", "", source, "k"))


@amqp
def exchanges_in_a_circle(stage, told):
    channel = stage.channel()
    one, two, queue = stage.called("one"), stage.called("two"), stage.called("q")
    for exchange in (one, two):
        channel.exchange(exchange, "fanout")
    channel.queue(queue)
    channel.bind(queue, two, "")
    told(channel.do("exchange_bind", two, one))
    told(channel.do("exchange_bind", one, two))
    told(stage.put(one, "k", "once", mandatory=True))
    told(channel.drain(queue))


@amqp
def two_ways_to_a_queue_give_one_copy(stage, told):
    channel = stage.channel()
    source, target, queue = stage.called("source"), stage.called("target"), stage.called("q")
    channel.exchange(source, "fanout")
    channel.exchange(target, "fanout")
    channel.queue(queue)
    channel.bind(queue, source, "")
    channel.bind(queue, target, "")
    channel.do("exchange_bind", target, source)
    stage.put(source, "", "once")
    told(channel.drain(queue))


@amqp
def alternate_exchange_takes_what_is_not_routed(stage, told):
    channel = stage.channel()
    main, alternate, queue, other = (stage.called(short) for short in ["main", "alternate", "q", "other"])
    channel.exchange(alternate, "fanout")
    channel.exchange(main, "direct", arguments={"alternate-exchange": alternate})
    channel.queue(queue)
    channel.bind(queue, main, "known")
    channel.queue(other)
    channel.bind(other, alternate, "")
    told(stage.put(main, "known", "a", mandatory=True))
    told(stage.put(main, "unknown", "b", mandatory=True))
    told(channel.drain(queue))
    method, _, body = channel.get(other)
    told(f"{body} exchange={method.exchange!r} key={method.routing_key!r}")
    channel.do("queue_delete", other)
    told(stage.put(main, "unknown", "c", mandatory=True))


@amqp
def alternate_exchange_that_is_not_there(stage, told):
    channel = stage.channel()
    name = stage.called("x")
    told(channel.exchange(name, "direct", arguments={"alternate-exchange": stage.called("no")}))
    told(stage.put(name, "k", "a", mandatory=True))


@amqp
def internal_exchange_takes_no_publish(stage, told):
    channel = stage.channel()
    source, inner, queue = stage.called("source"), stage.called("inner"), stage.called("q")
    channel.exchange(source, "fanout")
    told(channel.exchange(inner, "fanout", internal=True))
    channel.do("exchange_bind", inner, source)
    channel.queue(queue)
    channel.bind(queue, inner)
    told(stage.put(source, "", "through"))
    told(channel.drain(queue))
    told(stage.put(inner, "", "direct"))


@amqp
def default_exchange_routes_by_queue_name(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    told(stage.put("", name, "a", mandatory=True))
    told(stage.put("", stage.called("no"), "b", mandatory=True))
    told(stage.put("", stage.called("no"), "c"))
    method, _, body = channel.get(name)
    told(f"{body} exchange={method.exchange!r} key={method.routing_key!r} left={method.message_count}")


@amqp
def publish_to_an_exchange_that_is_not_there(stage, told):
    channel = stage.channel()
    told(stage.put(stage.called("no"), "k", "a"))
    told(channel.queue(stage.called("q")))


@amqp
def long_and_odd_names(stage, told):
    channel = stage.channel()
    for name in ["x" * 255, "sp ace", "sl/ash", "per%2Fcent", "plus+hash#", "ünï", "a.b.c", "$dollar"]:
        told(f"{name[:12]!r}: {channel.queue(name, exclusive=True)[:20]}")
        told(stage.put("", name, "a", mandatory=True))
        told(channel.drain(name))
        told(channel.bind(name, "amq.direct", name))
        told(stage.put("amq.direct", name, "b", mandatory=True))
        method, _, _ = channel.get(name)
        told(method is not None and method.routing_key == name)


@amqp
def vhosts_are_apart_and_must_be_there(stage, told):
    import pika

    try:
        stage.connection(virtual_host="nowhere")
        told("opened")
    except pika.exceptions.AMQPError as error:
        from amqp_stage import closed

        told(closed(error))


@amqp
def wrong_password(stage, told):
    import pika

    try:
        stage.connection(credentials=pika.PlainCredentials("guest", "wrong"))
        told("opened")
    except pika.exceptions.ProbableAuthenticationError as error:
        told(f"refused {error.args[0]} {error.args[1]}" if len(error.args) > 1 else f"refused {error}")
    except pika.exceptions.AMQPError as error:
        told(f"{type(error).__name__} {error}")
