"""STOMP: bytes that stomp.py does not send, written by hand."""

import time

from stomp_stage import stomp, told as shown


@stomp
def versions_are_negotiated(stage, told):
    for offered in ["1.0", "1.1", "1.2", "1.0,1.1,1.2", "1.1,1.0", "1.2,9.9", "9.9", ""]:
        wire = stage.wire()
        answer = wire.greet(offered)
        if answer is None or isinstance(answer, str):
            told(f"{offered!r}: {answer}")
        elif answer.cmd == "ERROR":
            told(f"{offered!r}: ERROR {answer.headers.get('message')} version={answer.headers.get('version')}")
        else:
            told(f"{offered!r}: {answer.headers.get('version')}")


@stomp
def connect_without_a_version(stage, told):
    wire = stage.wire()
    wire.send("CONNECT\nlogin:guest\npasscode:guest\n\n\0")
    told(wire.next().headers.get("version"))


@stomp
def stomp_command_connects_too(stage, told):
    wire = stage.wire()
    wire.send("STOMP\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0")
    told(wire.answer())


@stomp
def connect_with_another_host(stage, told):
    for host in ["nowhere", "localhost"]:
        wire = stage.wire()
        wire.send(f"CONNECT\naccept-version:1.2\nhost:{host}\nlogin:guest\npasscode:guest\n\n\0")
        told(f"{host}: {wire.answer()}")


@stomp
def connect_twice(stage, told):
    wire = stage.wire()
    wire.greet()
    wire.send("CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0")
    told(wire.answer())


@stomp
def frames_before_connect(stage, told):
    for frame in ["SEND\ndestination:/queue/x\n\nbody\0", "SUBSCRIBE\nid:1\ndestination:/queue/x\n\n\0", "HELLO\n\n\0"]:
        wire = stage.wire()
        wire.send(frame)
        told(f"{frame.split()[0]}: {wire.answer()}")


@stomp
def lines_may_end_with_carriage_returns(stage, told):
    wire = stage.wire()
    wire.greet()
    queue = f"/queue/{stage.called('q')}"
    wire.send(f"SUBSCRIBE\r\nid:s\r\ndestination:{queue}\r\nreceipt:1\r\n\r\n\0")
    told(wire.answer())
    wire.send(f"SEND\r\ndestination:{queue}\r\nown:x\r\n\r\nbody\0")
    told(wire.answer())


@stomp
def empty_lines_between_frames(stage, told):
    wire = stage.wire()
    wire.greet()
    queue = f"/queue/{stage.called('q')}"
    wire.send(f"\n\n\nSUBSCRIBE\nid:s\ndestination:{queue}\nreceipt:1\n\n\0\n\r\n\n")
    told(wire.answer())
    wire.send(f"\nSEND\ndestination:{queue}\n\nbody\0\n\n")
    told(wire.answer())


@stomp
def frames_in_pieces(stage, told):
    wire = stage.wire()
    wire.greet()
    queue = f"/queue/{stage.called('q')}"
    for byte in f"SUBSCRIBE\nid:s\ndestination:{queue}\nreceipt:1\n\n\0".encode():
        wire.send(bytes([byte]))
    told(wire.answer())
    wire.send(f"SEND\ndestination:{queue}\n\none\0SEND\ndestination:{queue}\n\ntwo\0")
    told([wire.answer(), wire.answer()])


@stomp
def first_of_repeated_headers_counts(stage, told):
    wire = stage.wire()
    wire.greet()
    queue = f"/queue/{stage.called('q')}"
    wire.send(f"SUBSCRIBE\nid:s\ndestination:{queue}\nreceipt:1\n\n\0")
    told(wire.answer())
    wire.send(f"SEND\ndestination:{queue}\ndestination:/queue/other\nown:first\nown:second\n\nbody\0")
    told(wire.answer())


@stomp
def body_with_a_length(stage, told):
    wire = stage.wire()
    wire.greet()
    queue = f"/queue/{stage.called('q')}"
    wire.send(f"SUBSCRIBE\nid:s\ndestination:{queue}\nreceipt:1\n\n\0")
    told(wire.answer())
    wire.send(f"SEND\ndestination:{queue}\ncontent-length:3\n\na\0b\0")
    told(repr(wire.next().body))
    wire.send(f"SEND\ndestination:{queue}\n\nab\0")
    told(repr(wire.next().body))


@stomp
def lengths_that_are_wrong(stage, told):
    for length in ["many", "-1", "2"]:
        wire = stage.wire()
        wire.greet()
        wire.send(f"SEND\ndestination:/queue/{stage.called('q')}\ncontent-length:{length}\nreceipt:1\n\nabc\0")
        told(f"{length}: {wire.answer()}")


@stomp
def escapes_that_are_wrong(stage, told):
    for escape in ["\\t", "\\", "\\x41"]:
        wire = stage.wire()
        wire.greet()
        wire.send(f"SEND\ndestination:/queue/{stage.called('q')}\nown:{escape}\nreceipt:1\n\nabc\0")
        told(f"{escape}: {wire.answer()}")


@stomp
def header_line_without_a_colon(stage, told):
    wire = stage.wire()
    wire.greet()
    wire.send(f"SEND\ndestination:/queue/{stage.called('q')}\nnothing\nreceipt:1\n\nabc\0")
    told(wire.answer())


@stomp
def heart_beats_are_negotiated_and_sent(stage, told):
    wire = stage.wire()
    answer = wire.greet("1.2", "heart-beat:0,200\n")
    told(answer.headers["heart-beat"])
    said = wire.next(1.2)
    deadline = time.monotonic() + 60
    while wire.beats < 3 and time.monotonic() < deadline:
        said = wire.next(1.2)
    told(said)
    told(wire.beats >= 3)


@stomp
def silent_client_is_given_up(stage, told):
    wire = stage.wire()
    told(wire.greet("1.2", "heart-beat:200,0\n").headers["heart-beat"])
    started = time.monotonic()
    told(wire.answer())
    told(time.monotonic() - started < 60)


@stomp
def messages_of_version_one(stage, told):
    wire = stage.wire()
    wire.greet("1.0")
    queue = f"/queue/{stage.called('q')}"
    wire.send(f"SUBSCRIBE\ndestination:{queue}\nreceipt:1\n\n\0")
    told(wire.answer())
    wire.send(f"SEND\ndestination:{queue}\nown:a\\cb\n\nbody\0")
    frame = wire.next()
    told(shown(frame))
    told(sorted(frame.headers))


@stomp
def messages_of_version_two(stage, told):
    wire = stage.wire()
    wire.greet("1.2")
    queue = f"/queue/{stage.called('q')}"
    wire.send(f"SUBSCRIBE\nid:s\nack:client\ndestination:{queue}\nreceipt:1\n\n\0")
    told(wire.answer())
    wire.send(f"SEND\ndestination:{queue}\n\nbody\0")
    told(sorted(wire.next().headers))


@stomp
def receipts_of_every_command(stage, told):
    wire = stage.wire()
    wire.greet()
    queue = f"/queue/{stage.called('q')}"
    for frame in [
        f"SUBSCRIBE\nid:s\ndestination:{queue}\nack:client\nreceipt:1\n\n\0",
        "BEGIN\ntransaction:t\nreceipt:2\n\n\0",
        f"SEND\ndestination:{queue}\ntransaction:t\nreceipt:3\n\nx\0",
        "ABORT\ntransaction:t\nreceipt:4\n\n\0",
        "UNSUBSCRIBE\nid:s\nreceipt:5\n\n\0",
        "DISCONNECT\nreceipt:6\n\n\0",
    ]:
        wire.send(frame)
        answer = wire.next(1)
        what = answer if isinstance(answer, str) else f"{answer.cmd} {answer.headers.get('receipt-id')}"
        told(f"{frame.split()[0]}: {what}")
    told(wire.answer())


@stomp
def receipt_of_connect(stage, told):
    wire = stage.wire()
    answer = wire.greet("1.2", "receipt:c\n")
    told(answer.cmd)
    told(wire.next(0.3))


@stomp
def error_names_the_receipt(stage, told):
    wire = stage.wire()
    wire.greet()
    wire.send("SEND\ndestination:/nowhere\nreceipt:77\n\nx\0")
    frame = wire.next()
    told(f"{frame.cmd} receipt-id={frame.headers.get('receipt-id')} {sorted(frame.headers)}")
