# Urgent data of the peer's: MSG_OOB, SO_OOBINLINE, SIOCATMARK, POLLPRI.
OOB, PEEK = socket.MSG_OOB, socket.MSG_PEEK
SIOCATMARK, MSG_TRUNC, MSG_WAITALL = 0x8905, 0x20, socket.MSG_WAITALL


def urged(words, in_line=False, ended=True):
    """A connection by which words have come from the peer; `!` is before those whose last octet is urgent."""
    stream = nonblocking()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, in_line)
    stream.send(b"urgent " + words + (b" .\n" if ended else b"\n"))
    assert ready(stream, select.POLLRDHUP if ended else select.POLLPRI), "nothing came"
    return stream


def number(stream, request):
    value = array.array("i", [77])
    fcntl.ioctl(stream, request, value)
    return value[0]


def state(stream):
    """Whether it is at the mark, octets before the mark, and events."""
    return LIBC.sockatmark(stream.fileno()), number(stream, SIOCATMARK), number(stream, termios.FIONREAD), ready(stream, select.POLLIN | select.POLLPRI, 0)


def reads(stream, *calls):
    return told_by(*[lambda call=call: stream.recv(*call) for call in calls]), state(stream)


def walk(words, in_line, *calls):
    stream = urged(words, in_line)
    return state(stream), [reads(stream, call) for call in calls]


for line in (False, True):
    name = "in line" if line else "out of line"
    case(f"fresh, {name}", lambda: (lambda stream: (state(stream), reads(stream, (1, OOB), (9, OOB | PEEK), (9,))))(urged(b"", line)))
    case(f"one octet, {name}", lambda: walk(b"!U", line, (9, OOB), (9,), (9,)))
    case(f"one octet unread, {name}", lambda: walk(b"!U", line, (9,), (9, OOB), (9,)))
    case(f"reads end at the mark, {name}", lambda: walk(b"abc !dU ef", line, (9,), (9, OOB), (9, OOB), (9,), (9,)))
    case(f"read before the mark, {name}", lambda: walk(b"abc !dU ef", line, (1, OOB), (9,), (9,), (9,)))
    case(f"never read, {name}", lambda: walk(b"abc !dU ef", line, (9,), (9,), (9,), (1, OOB)))
    case(f"in small reads, {name}", lambda: walk(b"abc !dU ef", line, (3,), (1,), (1,), (1,), (1,), (9,)))
    case(f"exactly to the mark, {name}", lambda: walk(b"abc !dU ef", line, (4,), (4,)))
    case(f"one octet past the mark, {name}", lambda: walk(b"abc !dU ef", line, (5,), (5,)))
    case(f"a second one, {name}", lambda: walk(b"ab !U cd !V ef", line, (9, OOB), (9,), (9,), (9,), (9,)))
    case(f"two side by side, {name}", lambda: walk(b"ab !U !V cd", line, (9,), (9, OOB), (9,), (9,)))
    case(f"a word of urgent octets, {name}", lambda: walk(b"!abcdU ef", line, (2,), (9,), (1, OOB | PEEK), (9,), (9,)))
    case(f"at the end, {name}", lambda: walk(b"abc !U", line, (9,), (9, OOB), (9,)))
    case(f"at the end, unread, {name}", lambda: walk(b"abc !U", line, (9,), (9,), (9, OOB)))
    case(f"peeks, {name}", lambda: walk(b"abc !U ef", line, (9, PEEK), (9, OOB | PEEK), (2,), (9, PEEK), (9, OOB), (9, OOB | PEEK), (9,), (1, PEEK), (9, PEEK), (9,)))
    case(f"everything wanted, {name}", lambda: walk(b"abc !U ef", line, (9, MSG_WAITALL), (2, MSG_WAITALL), (9, MSG_WAITALL)))
    case(f"of no octets, {name}", lambda: walk(b"!U ef", line, (0, OOB | PEEK), (0,), (0, OOB), (0,), (9,)))


def replaced(taken):
    """The second one comes once the first was seen."""
    stream = urged(b"ab !U", ended=False)
    told = [state(stream)]
    told += reads(stream, *[(1, OOB)] * taken)
    stream.send(b"urgent cd !V ef .\n")
    assert ready(stream, select.POLLRDHUP)
    return told, state(stream), reads(stream, (9,)), reads(stream, (1, OOB)), reads(stream, (9,)), reads(stream, (9,))


case("replaced unread", lambda: replaced(0))
case("replaced after it was read", lambda: replaced(1))


def passed_over(in_line, taken):
    """Another one comes where the last one is the next octet."""
    stream = urged(b"ab !U", in_line, ended=False)
    told = reads(stream, (9,), *[(1, OOB)] * taken)
    stream.send(b"urgent !V cd .\n")
    assert ready(stream, select.POLLRDHUP)
    return told, state(stream), reads(stream, (9,)), reads(stream, (9,))


# A change of tcp_check_urg() is proposed, by which later kernels would read it as one of the others.
if tuple(map(int, os.uname().release.split(".")[:2])) <= (6, 18):
    case("passed over", lambda: [passed_over(*each) for each in ((False, 0), (False, 1), (True, 0))])


def changed():
    """SO_OOBINLINE changes what there is."""
    stream = urged(b"ab !U cd")
    told = []
    for in_line in (True, False, True, False):
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, in_line)
        told += [stream.getsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE), state(stream), reads(stream, (1, OOB | PEEK))]
    stream.recv(9)
    for in_line in (True, False, True):
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, in_line)
        told += [state(stream), reads(stream, (9, PEEK))]
    return told


case("in line by turns", changed)


def flags_of(words, *flags):
    stream = urged(words)
    told = []
    for flag, size in flags:
        try:
            data, _, got, name = stream.recvmsg(size, 100, flag)
            told.append((data, got, name))
        except OSError as error:
            told.append(errno.errorcode[error.errno])
    return told


case("flags of recvmsg", lambda: flags_of(b"abc !U ef", (OOB | PEEK, 9), (OOB | PEEK, 0), (0, 9), (OOB, 9), (OOB, 9), (0, 9)))
case("discarded", lambda: (lambda stream: (loud("recv", stream.fileno(), None, 9, MSG_TRUNC), state(stream), loud("recv", stream.fileno(), None, 9, MSG_TRUNC | OOB), state(stream), loud("recv", stream.fileno(), None, 9, MSG_TRUNC), state(stream)))(urged(b"abc !U ef")))
case("nowhere to put it", lambda: (lambda stream: (loud("recv", stream.fileno(), None, 1, OOB), state(stream)))(urged(b"abc !U ef")))


def by_pieces():
    stream = urged(b"abc !U ef")
    first, second = bytearray(2), bytearray(9)
    told = []
    for _ in range(3):
        count = stream.recvmsg_into([first, second])[0]
        told.append((count, bytes(first), bytes(second[: max(count - 2, 0)])))
    return told


case("into several places", by_pieces)


def blocking_read(in_line, *calls):
    stream = urged(b"!U", in_line, ended=False)
    told = reads(stream, *calls)
    stream.settimeout(20)
    late = threading.Timer(0.2, lambda: stream.send(b"later"))
    late.start()
    told += (stream.recv(9), state(stream))
    late.join()
    return told


case("waits behind the mark", lambda: blocking_read(False))
case("waits behind the mark, read", lambda: blocking_read(False, (1, OOB)))
case("does not wait in line", lambda: blocking_read(True))


def not_connected():
    listener = socket.create_server(("", 0))
    fresh = socket.socket(*TCP)
    return told_by(lambda: listener.recv(1, OOB), lambda: fresh.recv(1, OOB), lambda: number(fresh, SIOCATMARK)), LIBC.sockatmark(fresh.fileno())


case("without a connection", not_connected)
case("no urgent data ever", lambda: (lambda stream: (stream.send(b"plain"), until_readable(stream), reads(stream, (1, OOB), (9,))))(nonblocking()))
case("datagrams", lambda: (lambda sock: (sock.settimeout(20), sock.sendto(b"x", ECHO), told_by(lambda: sock.recv(9, OOB))))(socket.socket(*UDP)))


def after_reset():
    stream = urged(b"ab !U", ended=False)
    stream.send(b"reset\n")
    ready(stream, select.POLLHUP)
    return told_by(lambda: stream.recv(1, OOB), lambda: stream.recv(9), lambda: stream.recv(1, OOB))


def after_shutdown(read):
    stream = urged(b"ab !U", ended=False)
    stream.shutdown(socket.SHUT_RD)
    return reads(stream, *[(9,)] * read, (1, OOB | PEEK), (1, OOB), (9,))


case("after a shutdown", lambda: (after_shutdown(0), after_shutdown(1)))


def past_mark(stream):
    stream.send(b"urgent x\n")
    until_readable(stream)
    return stream.recv(9)


# Waiting
def exceptions(stream, wait=0):
    return [len(which) for which in select.select([stream], [], [stream], wait)]


def by_select():
    stream = urged(b"ab !U", ended=False)
    told = [exceptions(stream, 10)]
    stream.recv(1, OOB)
    told.append(exceptions(stream))
    stream.recv(9)
    told += [exceptions(stream), past_mark(stream)]
    stream.send(b"urgent !V\n")
    told += [[len(which) for which in select.select([], [], [stream], 20)], exceptions(stream)]
    stream.recv(1, OOB)
    return told, exceptions(stream)


case("select", by_select)


def by_epoll(how):
    stream, epoll = urged(b"ab !U", ended=False), select.epoll()
    masks = lambda wait=0: [mask for _, mask in epoll.poll(wait)]
    epoll.register(stream, select.EPOLLPRI | select.EPOLLIN | how)
    told = [masks(10), masks()]
    told += [stream.recv(9), masks(), stream.recv(1, OOB), masks(), masks(), past_mark(stream), masks()]
    stream.send(b"urgent !V\n")
    told += [masks(0 if how & select.EPOLLONESHOT else 10)]
    assert ready(stream, select.POLLPRI)
    told.append(state(stream))
    epoll.modify(stream, select.EPOLLPRI | how)
    return told, masks(), masks(), stream.recv(1, OOB), masks()


case("epoll by level", lambda: by_epoll(0))
case("epoll by edge", lambda: by_epoll(select.EPOLLET))
case("epoll once", lambda: by_epoll(select.EPOLLONESHOT))


def lowest():
    stream = urged(b"ab !U cdef", ended=False)
    whole(stream, 0)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 5)
    return reads(stream, (9,), (1, OOB))


case("fewer octets than wanted before the mark", lowest)


# Of a listener
def inherited():
    listener = socket.create_server(("", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    connected().sendall(b"call %d\n" % listener.getsockname()[1])
    stream, _ = listener.accept()
    stream.send(b"urgent ab !U cd .\n")
    assert ready(stream, select.POLLRDHUP)
    return stream.getsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE), reads(stream, (9,), (9,), (9,))


def before_accept(deferred):
    """It comes before the connection is accepted, perhaps by the stack."""
    listener = socket.create_server(("", 0))
    if deferred:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
    connected().sendall(b"call %d ab !U cd .\n" % listener.getsockname()[1])
    stream, _ = listener.accept()
    stream.setblocking(False)
    assert ready(stream, select.POLLRDHUP)
    return state(stream), reads(stream, (9,), (1, OOB), (9,), (9,))


case("accepted connections", lambda: (inherited(), before_accept(False), before_accept(True)))


# Signals
def signalled(setup, trigger, which=signal.SIGURG):
    """The signals that come while the program waits for nothing else."""
    stream, got = nonblocking(), []
    setup(stream)
    for number in (which, signal.SIGUSR1):
        signal.signal(number, lambda number, _: got.append(signal.Signals(number).name))
    for words in trigger:
        before = len(got)
        stream.send(words)
        until = time.monotonic() + 20
        while len(got) == before and time.monotonic() < until:
            time.sleep(0.01)
    return got[: len(trigger)], stream


def owner(stream):
    fcntl.fcntl(stream, fcntl.F_SETOWN, os.getpid())


def owner_group(stream):
    fcntl.fcntl(stream, fcntl.F_SETOWN, -os.getpgrp())


def owner_thread(stream):
    fcntl.fcntl(stream, 15, struct.pack("ii", 0, threading.get_native_id()))


def with_owner(setup):
    got, stream = signalled(setup, [b"urgent ab !U\n", b"urgent !V\n"])
    return got, fcntl.fcntl(stream, fcntl.F_GETOWN) == os.getpid(), reads(stream, (1, OOB))


os.setpgrp()
case("an owner gets SIGURG", lambda: with_owner(owner))
case("a group gets SIGURG", lambda: with_owner(owner_group))
case("a thread gets SIGURG", lambda: with_owner(owner_thread))


def asynchronous(stream):
    owner(stream)
    fcntl.fcntl(stream, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)


def asynchronous_by_ioctl(stream):
    owner(stream)
    fcntl.ioctl(stream, 0x5452, array.array("i", [1]))


def with_number(stream):
    asynchronous(stream)
    fcntl.fcntl(stream, 10, signal.SIGUSR1)


case("SIGIO", lambda: signalled(asynchronous, [b"echo"], signal.SIGIO)[0])
case("SIGIO by ioctl", lambda: signalled(asynchronous_by_ioctl, [b"echo"], signal.SIGIO)[0])
case("another signal", lambda: signalled(with_number, [b"echo"], signal.SIGIO)[0])


def description():
    """What the signal says of the socket."""
    stream = nonblocking()
    asynchronous(stream)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    fcntl.fcntl(stream, 10, signal.SIGUSR1)
    stream.send(b"echo")
    info, limit = (ctypes.c_int * 32)(), (ctypes.c_long * 2)(20, 0)
    mask = (ctypes.c_ulong * 16)(1 << (signal.SIGUSR1 - 1))
    got = LIBC.sigtimedwait(mask, info, limit)
    return got == signal.SIGUSR1, info[6] == stream.fileno(), info[4] & select.POLLIN


case("what a signal says", description)


def in_child():
    """The child has the socket; the owner is the parent."""
    stream, got = nonblocking(), []
    owner(stream)
    signal.signal(signal.SIGURG, lambda *_: got.append("SIGURG"))
    child = os.fork()
    if child == 0:
        stream.send(b"urgent ab !U\n")
        ready(stream, select.POLLPRI)
        os.write(pipe[1], repr(reads(stream, (1, OOB), (9,))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    until = time.monotonic() + 20
    while not got and time.monotonic() < until:
        time.sleep(0.01)
    return got, os.read(pipe[0], 999)


pipe = os.pipe()
case("an owner whose child has the socket", in_child)
