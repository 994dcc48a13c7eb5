# Signals while a call waits (signal(7)): the call goes on after handlers with SA_RESTART, and ends after others.


def disturbed(call, restarts, then=None):
    """The result of a call while signals arrive. `then` ends calls that go on."""
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.siginterrupt(signal.SIGUSR1, not restarts)
    main, done = threading.get_ident(), threading.Event()

    def disturb():
        count = 0
        while not done.wait(0.02) and (then is None or count < 5):
            signal.pthread_kill(main, signal.SIGUSR1)
            count += 1
        if then is not None:
            then()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        return call()
    finally:
        done.set()
        thread.join()


def patient(stream):
    stream.settimeout(None)
    return stream


def receiving(call, restarts):
    stream, room = patient(connected()), ctypes.create_string_buffer(100)
    then = (lambda: stream.sendall(b"later")) if restarts else None
    return disturbed(lambda: loud(call, stream.fileno(), room, *((100, 0) if call == "recv" else (100,))), restarts, then)


for call in "recv", "read":
    case(f"{call}, SA_RESTART", lambda: receiving(call, True))
    case(f"{call}, no SA_RESTART", lambda: receiving(call, False))


def datagram_later(restarts):
    sock, room = socket.socket(*UDP), ctypes.create_string_buffer(100)
    sock.connect(ECHO)
    then = (lambda: sock.send(b"later")) if restarts else None
    return disturbed(lambda: loud("recvfrom", sock.fileno(), room, 100, 0, None, None), restarts, then)


case("recvfrom, SA_RESTART", lambda: datagram_later(True))
case("recvfrom, no SA_RESTART", lambda: datagram_later(False))


def accepting(restarts):
    listener = socket.create_server(("", 0))
    call_me = connected()
    then = (lambda: call_me.sendall(b"call %d\n" % listener.getsockname()[1])) if restarts else None
    got = disturbed(lambda: loud("accept", listener.fileno(), None, None), restarts, then)
    return got if isinstance(got, str) else got > 0


case("accept, SA_RESTART", lambda: accepting(True))
case("accept, no SA_RESTART", lambda: accepting(False))


def sending(restarts):
    """Sends more than the buffers hold: the call returns the octets sent before the signal, with either kind of handler."""
    stream, size = patient(connected()), 64 << 20
    room = ctypes.create_string_buffer(size)
    got = disturbed(lambda: loud("send", stream.fileno(), room, size, 0), restarts)
    return "part" if isinstance(got, int) and 0 < got < size else got


case("send, SA_RESTART", lambda: sending(True))
case("send, no SA_RESTART", lambda: sending(False))


def connecting():
    stream = socket.socket(*TCP)
    nobody = PEER.rsplit(".", 1)[0] + ".200"
    address = struct.pack("!BBH4s8x", socket.AF_INET, 0, 9, socket.inet_aton(nobody))
    address = struct.pack("H", socket.AF_INET) + address[2:]
    return disturbed(lambda: loud("connect", stream.fileno(), address, 16), False)


case("connect, no SA_RESTART", connecting)


def with_timeout():
    stream, room = patient(connected()), ctypes.create_string_buffer(100)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 20, 0))
    return disturbed(lambda: loud("recv", stream.fileno(), room, 100, 0), True)


case("recv with SO_RCVTIMEO, SA_RESTART", with_timeout)


def polling(restarts):
    stream = connected()
    entry = ctypes.create_string_buffer(struct.pack("ihh", stream.fileno(), select.POLLIN, 0))
    return disturbed(lambda: loud("poll", entry, 1, 20000), restarts)


def epolling(restarts):
    stream, epoll, room = connected(), select.epoll(), ctypes.create_string_buffer(100)
    epoll.register(stream, select.EPOLLIN)
    return disturbed(lambda: loud("epoll_wait", epoll.fileno(), room, 1, 20000), restarts)


for restarts in True, False:
    case(f"poll, SA_RESTART {restarts}", lambda: polling(restarts))
    case(f"epoll_wait, SA_RESTART {restarts}", lambda: epolling(restarts))


def part_of_all():
    stream, room = patient(connected()), ctypes.create_string_buffer(100)
    stream.sendall(b"half")
    until_readable(stream)
    return disturbed(lambda: loud("recv", stream.fileno(), room, 100, socket.MSG_WAITALL), False)


case("a part of MSG_WAITALL", part_of_all)


def part_despite_restart():
    stream, room = patient(connected()), ctypes.create_string_buffer(100)
    stream.sendall(b"half")
    until_readable(stream)
    return disturbed(lambda: loud("recv", stream.fileno(), room, 100, socket.MSG_WAITALL), True)


case("a part of MSG_WAITALL, SA_RESTART", part_despite_restart)

HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


def handlers():
    told, calls = [], []
    first, second = HANDLER(lambda number: calls.append(("first", number))), HANDLER(lambda number: calls.append(("second", number)))
    address = lambda handler: ctypes.cast(handler, ctypes.c_void_p).value
    set_handler = LIBC.signal
    set_handler.restype, set_handler.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    told.append(set_handler(signal.SIGUSR2, address(first)))
    signal.raise_signal(signal.SIGUSR2)
    told.append(set_handler(signal.SIGUSR2, address(second)) == address(first))
    signal.raise_signal(signal.SIGUSR2)
    told.append(set_handler(signal.SIGUSR2, 1) == address(second))
    signal.raise_signal(signal.SIGUSR2)
    told.append(set_handler(signal.SIGUSR2, 0))
    told.append(set_handler(signal.SIGKILL, address(first)) == ctypes.c_void_p(-1).value)
    return told, calls


case("handlers that programs see", handlers)


def once():
    """A handler that is reset by its signal."""
    SA_RESETHAND = 0x80000000
    handler = HANDLER(lambda number: None)
    action = ctypes.create_string_buffer(struct.pack("P128siP", ctypes.cast(handler, ctypes.c_void_p).value, b"", SA_RESETHAND - (1 << 32), 0))
    found = ctypes.create_string_buffer(len(action))
    told = [loud("sigaction", signal.SIGUSR2, action, None), loud("sigaction", signal.SIGUSR2, None, found)]
    told.append(found.raw[:8] == action.raw[:8])
    flags = struct.unpack_from("i", found.raw, 136)[0] & 0xffffffff
    told.append((flags & SA_RESETHAND != 0, flags & 4))
    signal.raise_signal(signal.SIGUSR2)
    told.append(loud("sigaction", signal.SIGUSR2, None, found))
    told.append(struct.unpack_from("P", found.raw)[0])
    return told


case("a handler for one signal", once)


def broken_pipe(*writes):
    """Writes behind one's own end of a connection."""
    stream, came = connected(), []
    signal.signal(signal.SIGPIPE, lambda *_: came.append(True))
    stream.shutdown(socket.SHUT_WR)
    told = [(told_by(lambda: write(stream)), len(came)) for write in writes]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return told + [(told_by(lambda: writes[0](stream)), len(came))]


case("a signal for each write behind the end", lambda: broken_pipe(
    lambda stream: stream.send(b"x"),
    lambda stream: stream.send(b"x", socket.MSG_NOSIGNAL),
    lambda stream: os.write(stream.fileno(), b"x"),
    lambda stream: os.writev(stream.fileno(), [b"x", b"y"]),
    lambda stream: stream.sendmsg([b"x"]),
    lambda stream: os.sendfile(stream.fileno(), os.open(sys.executable, os.O_RDONLY), 0, 10),
))


def broken_by_peer():
    """The first write behind a reset tells it, the next ones have the signal."""
    stream, came = connected(), []
    signal.signal(signal.SIGPIPE, lambda *_: came.append(True))
    stream.sendall(b"reset\n")
    assert ready(stream, select.POLLHUP)
    told = [(told_by(lambda: stream.send(b"x")), len(came)) for _ in range(2)]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return told


case("a signal for a write behind a reset", broken_by_peer)


def mute_datagrams():
    udp, came = socket.socket(*UDP), []
    udp.connect(ECHO)
    signal.signal(signal.SIGPIPE, lambda *_: came.append(True))
    udp.shutdown(socket.SHUT_WR)
    told = told_by(lambda: udp.send(b"x")), len(came)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return told


case("no signal for a datagram", mute_datagrams)
