# Rare calls and misuse, after the kernel's own tests and gVisor's.
# splice, tee, vmsplice
def splice_out(nonblocking=False):
    stream, (read, write) = connected(), os.pipe()
    os.write(write, b"through a pipe")
    told = [os.splice(read, stream.fileno(), 100, flags=2 if nonblocking else 0), whole(stream, 14)]
    os.write(write, b"0123456789")
    told += [os.splice(read, stream.fileno(), 4), os.splice(read, stream.fileno(), 100), whole(stream, 10)]
    os.close(write)
    return told + [os.splice(read, stream.fileno(), 100)]


if hasattr(os, "splice"):
    case("splice to a connection", splice_out)
    case("splice to a connection, not waiting", lambda: splice_out(True))


def splice_in():
    stream, (read, write) = connected(), os.pipe()
    stream.sendall(b"out of a socket")
    until_readable(stream)
    time.sleep(0.05)
    told = [os.splice(stream.fileno(), write, 6), os.read(read, 100), os.splice(stream.fileno(), write, 100), os.read(read, 100)]
    stream.shutdown(socket.SHUT_WR)
    until_readable(stream)
    return told + [os.splice(stream.fileno(), write, 100)]


def splice_errors():
    stream, (read, write) = connected(), os.pipe()
    os.set_blocking(stream.fileno(), False)
    return told_by(
        lambda: os.splice(stream.fileno(), stream.fileno(), 10),
        lambda: os.splice(stream.fileno(), write, 10),
        lambda: os.splice(read, stream.fileno(), 10, flags=2),
        lambda: os.splice(read, stream.fileno(), 10, offset_src=0),
        lambda: os.splice(read, stream.fileno(), 10, offset_dst=0),
        lambda: os.splice(stream.fileno(), write, 10, offset_src=0),
        lambda: os.splice(stream.fileno(), write, 0),
    )


def splice_full():
    stream, (read, write) = connected(), os.pipe()
    os.set_blocking(stream.fileno(), False)
    told, sent = None, 0
    try:
        while sent < 1 << 28:
            os.write(write, b"x" * 65536)
            moved = 0
            while moved < 65536:
                moved += os.splice(read, stream.fileno(), 65536 - moved)
                sent += 0
            sent += moved
    except OSError as error:
        sent += moved
        told = errno.errorcode[error.errno]
    drained = 0
    while drained < sent:
        until_readable(stream)
        drained += len(stream.recv(1 << 20))
    return told, drained == sent


def splice_datagram():
    sock, (read, write) = socket.socket(*UDP), os.pipe()
    sock.settimeout(20)
    sock.connect(ECHO)
    os.write(write, b"a datagram")
    told = [os.splice(read, sock.fileno(), 100), sock.recv(100)]
    sock.send(b"another")
    until_readable(sock)
    return told + [os.splice(sock.fileno(), write, 100), os.read(read, 100), ready(sock, select.POLLIN, 0)]


if hasattr(os, "splice"):
    case("splice from a connection", splice_in)
    case("splice, misused", splice_errors)
    case("splice until full", splice_full)
    case("splice of datagrams", splice_datagram)
def tees():
    stream, (read, write) = connected(), os.pipe()
    return loud("tee", stream.fileno(), write, 10, 0), loud("vmsplice", stream.fileno(), ctypes.create_string_buffer(16), 1, 0)


case("tee and vmsplice with a connection", tees)


# Urgent data
def urgent_reading():
    stream = connected()
    stream.sendall(b"normal")
    until_readable(stream)
    mark = array.array("i", [7])
    fcntl.ioctl(stream, 0x8905, mark)
    return told_by(lambda: stream.recv(1, socket.MSG_OOB)) + [mark[0], whole(stream, 6)]


case("no urgent data", urgent_reading)


def longest():
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    told = []
    for size in (65_400, 65_450, 65_507):
        sock.sendto(bytes(size), ECHO)
        told.append(len(sock.recv(70_000)))
    return told, told_by(lambda: sock.sendto(bytes(65_508), ECHO))


case("the longest datagrams", longest)


# The end of a connection
def lingering():
    stream = connected()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
    value = struct.unpack("ii", stream.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
    stream.sendall(b"x" * 1000)
    whole(stream, 1000)
    began = time.monotonic()
    stream.close()
    return value, time.monotonic() - began < 10


case("SO_LINGER of some seconds", lingering)


def lingering_in_vain():
    """The peer does not read: the time passes."""
    stream = connected()
    stream.sendall(b"quiet\n")
    time.sleep(0.1)
    stream.setblocking(False)
    try:
        while True:
            stream.send(b"x" * 65536)
    except BlockingIOError:
        pass
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1))
    began = time.monotonic()
    stream.close()
    return time.monotonic() - began >= 0.9


case("SO_LINGER in vain", lingering_in_vain)


def written_before_reset(first):
    """The peer acts on octets that came right before the reset."""
    listener = socket.create_server(("", 0))
    listener.settimeout(10)
    stream = connected()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if first:
        stream.sendall(first)
        whole(stream, len(first))
    stream.sendall(b"call %d\n" % listener.getsockname()[1])
    stream.close()
    return told_by(lambda: bool(listener.accept()))


case("octets right before a reset", lambda: (written_before_reset(b""), written_before_reset(b"before")))


def disconnect(stream):
    return loud("connect", stream.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16)


def connected_anew():
    stream = connected()
    local = stream.getsockname()[1]
    told = [disconnect(stream)] + told_by(stream.getpeername)
    stream.connect(ECHO)
    stream.sendall(b"again")
    return told, whole(stream, 5), stream.getpeername()


case("disconnected, and connected again", connected_anew)


def datagram_disconnected():
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.connect(ECHO)
    told = [disconnect(sock)] + told_by(sock.getpeername, lambda: sock.send(b"x"))
    sock.sendto(b"to", ECHO)
    return told, sock.recv(10)


case("a datagram socket disconnected", datagram_disconnected)


def shut_twice():
    stream = connected()
    told = told_by(lambda: stream.shutdown(socket.SHUT_WR), lambda: until_readable(stream), lambda: stream.shutdown(socket.SHUT_WR))
    told += told_by(lambda: stream.recv(1), lambda: stream.shutdown(socket.SHUT_RD), lambda: stream.recv(1))
    stream = connected()
    return told + [loud("shutdown", stream.fileno(), 99)]


case("shutdown twice", shut_twice)


def shut_datagrams():
    sock = socket.socket(*UDP)
    told = told_by(lambda: sock.shutdown(socket.SHUT_RDWR))
    sock.connect(ECHO)
    told += told_by(lambda: sock.shutdown(socket.SHUT_RD), lambda: sock.recv(1), lambda: sock.shutdown(socket.SHUT_WR), lambda: sock.send(b"x"))
    return told


case("shutdown of datagrams", shut_datagrams)


def shut_both():
    stream = connected()
    stream.shutdown(socket.SHUT_RDWR)
    time.sleep(0.2)
    return ready(stream, select.POLLIN | select.POLLOUT | select.POLLRDHUP), stream.recv(1)


case("shutdown of both", shut_both)


# Misuse
def too_many_parts():
    stream = connected()
    part = struct.pack("PN", 0, 0) * 1025
    message = struct.pack("PIPNPNi", 0, 0, ctypes.addressof(ctypes.create_string_buffer(part)), 1025, 0, 0, 0)
    return loud("writev", stream.fileno(), part, 1025), loud("readv", stream.fileno(), part, -1), loud("sendmsg", stream.fileno(), message, 0)


case("too many parts", too_many_parts)


def nowhere():
    stream, sock = connected(), socket.socket(*UDP)
    sock.connect(ECHO)
    stream.sendall(b"x")
    until_readable(stream)
    return loud("send", stream.fileno(), None, 10, 0), loud("recv", stream.fileno(), None, 10, 0), loud("send", sock.fileno(), None, 10, 0), loud("recv", stream.fileno(), ctypes.create_string_buffer(4), 4, 0)


case("memory at nowhere", nowhere)
case("errors, of which there are none", lambda: told_by(lambda: nonblocking().recv(10, socket.MSG_ERRQUEUE)))


def listener_misused():
    listener, count = socket.create_server(("", 0)), array.array("i", [0])
    return told_by(
        lambda: listener.recv(1),
        lambda: listener.send(b"x"),
        lambda: fcntl.ioctl(listener, termios.FIONREAD, count),
        lambda: fcntl.ioctl(listener, termios.TIOCOUTQ, count),
        lambda: listener.getpeername(),
        lambda: listener.listen(3),
        lambda: listener.connect(ECHO),
    )


case("a listener misused", listener_misused)


def poll_of_new():
    return ready(socket.socket(*TCP), select.POLLIN | select.POLLOUT, 0), ready(socket.socket(*UDP), select.POLLIN | select.POLLOUT, 0)


case("poll of new sockets", poll_of_new)
case("not a socket", lambda: (loud("recv", 0, ctypes.create_string_buffer(1), 1, 0), loud("listen", 0, 1), loud("recv", 99999, None, 0, 0)))


def negative_length():
    stream, value = connected(), ctypes.create_string_buffer(4)
    return loud("getsockopt", stream.fileno(), socket.SOL_SOCKET, socket.SO_ERROR, value, ctypes.byref(ctypes.c_int(-1))), loud("getsockopt", stream.fileno(), socket.SOL_SOCKET, socket.SO_ERROR, None, ctypes.byref(ctypes.c_int(4)))


case("options of a negative length", negative_length)


def short_names():
    stream, room = connected(), ctypes.create_string_buffer(b"z" * 16, 16)
    length = ctypes.c_uint(4)
    told = [loud("getpeername", stream.fileno(), room, ctypes.byref(length)), length.value, room.raw[:2] == struct.pack("H", socket.AF_INET), room.raw[4:]]
    length = ctypes.c_int(-1)
    return told + [loud("getsockname", stream.fileno(), room, ctypes.byref(length))]


case("names cut short", short_names)


# Descriptors and processes
def polled_by_threads():
    stream, told = connected(), []
    others = [stream.dup() for _ in range(3)]
    threads = [threading.Thread(target=lambda other=other: told.append(ready(other, select.POLLIN, 20000))) for other in others]
    [thread.start() for thread in threads]
    time.sleep(0.1)
    stream.sendall(b"x")
    [thread.join() for thread in threads]
    return told


case("duplicates polled by threads", polled_by_threads)


def epolled_by_threads():
    stream, told, epoll = connected(), [], select.epoll()
    other = stream.dup()
    epoll.register(other, select.EPOLLIN | select.EPOLLONESHOT)
    threads = [threading.Thread(target=lambda: told.append(epoll.poll(4) != [])) for _ in range(3)]
    [thread.start() for thread in threads]
    time.sleep(0.1)
    stream.sendall(b"x")
    [thread.join() for thread in threads]
    return sorted(told)


case("one shot among threads", epolled_by_threads)


def outlives(stream, wake):
    """A descriptor of a socket in an epoll set is closed, and a duplicate stays: so does the socket in the set (epoll(7), Q6)."""
    epoll, (read, write) = select.epoll(), os.pipe()
    other, number = stream.dup(), stream.fileno()
    epoll.register(stream, select.EPOLLIN)
    stream.close()
    told = told_by(lambda: epoll.modify(number, 0), lambda: epoll.unregister(number), lambda: epoll.unregister(other))
    wake(other)
    told += [epoll.poll(10) == [(number, select.EPOLLIN)], other.recv(1), epoll.poll(0)]
    # The number is another's.
    os.dup2(read, number)
    epoll.register(number, select.EPOLLIN)
    wake(other)
    told += [len(epoll.poll(10)), os.write(write, b"z"), len(epoll.poll(10)), other.recv(1), len(epoll.poll(0))]
    epoll.unregister(number)
    # Under its own number it is there once more.
    epoll.register(other, select.EPOLLIN | select.EPOLLET)
    wake(other)
    told += [len(epoll.poll(10)), len(epoll.poll(0))]
    other.close()
    told.append(len(epoll.poll(0.1)))
    [os.close(fd) for fd in (read, write, number)]
    return told


def bound_datagrams():
    udp = socket.socket(*UDP)
    udp.bind(("", 0))
    udp.settimeout(20)
    return udp


def by_echo(udp):
    udp.sendto(b"e", ECHO)
    until_readable(udp)


def by_loopback(udp):
    socket.socket(*UDP).sendto(b"l", ("127.0.0.1", udp.getsockname()[1]))
    until_readable(udp)


def streams_echo(stream):
    stream.sendall(b"s")
    until_readable(stream)


case("a connection outlives its descriptor in a set", lambda: outlives(connected(), streams_echo))
case("a datagram socket outlives its descriptor in a set", lambda: outlives(bound_datagrams(), by_echo))
case("a datagram socket of both stacks does", lambda: outlives(bound_datagrams(), by_loopback))


def peers_end_in_a_set(flags):
    stream, epoll = connected(), select.epoll()
    epoll.register(stream, select.EPOLLRDHUP | flags)
    told = [epoll.poll(0)]
    stream.shutdown(socket.SHUT_WR)
    told.append([events for _, events in epoll.poll(10)])
    if not flags & select.EPOLLET:
        # By edge, Linux tells it once more if the acknowledgement of the end comes after it.
        told.append(len(epoll.poll(0)))
    return told + [stream.recv(1)]


case("the peer's end by EPOLLRDHUP", lambda: peers_end_in_a_set(0))
case("the same by edge", lambda: peers_end_in_a_set(select.EPOLLET))
case("the same, with room to send", lambda: peers_end_in_a_set(select.EPOLLOUT | select.EPOLLIN | select.EPOLLONESHOT)[2:])


def duplicated_first(kind, begin):
    """Duplicates of a socket that is not anywhere yet."""
    first = socket.socket(*kind)
    others, epoll = [first.dup(), first.dup()], select.epoll()
    if kind == UDP:
        epoll.register(others[1], select.EPOLLIN)
    begin(first)
    told = [other.getpeername() == first.getpeername() for other in others]
    others[0].send(b"one")
    until_readable(others[1])
    first.close()
    told.append(others[1].recv(100))
    others[0].send(b"two")
    if kind == UDP:
        told.append(len(epoll.poll(10)))
    others[0].close()
    return told + [others[1].recv(100)]


case("duplicates of a datagram socket that is connected then", lambda: duplicated_first(UDP, lambda udp: udp.connect(ECHO)))
case("duplicates of a stream that is connected then", lambda: duplicated_first(TCP, lambda tcp: tcp.connect(ECHO)))


def listened_to_by_a_duplicate():
    first = socket.socket(*TCP)
    other = first.dup()
    first.bind(("", 0))
    first.listen()
    connected().sendall(b"call %d\n" % other.getsockname()[1])
    until_readable(other)
    return other.accept()[0].getpeername()[0] == PEER


case("a duplicate of a socket that listens then", listened_to_by_a_duplicate)


def with_child():
    """posix_spawn and subprocess use vfork."""
    import subprocess
    stream = connected()
    told = [subprocess.run(["/bin/true"]).returncode, os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1]]
    stream.sendall(b"still there")
    return told, whole(stream, 11)


case("children by vfork", with_child)


def ranges_closed():
    kept, closed = connected(), connected()
    first = fcntl.fcntl(closed, fcntl.F_DUPFD, 500)
    told = [loud("close_range", 500, 600, 0)] + told_by(lambda: os.fstat(first))
    told += [loud("close_range", kept.fileno(), kept.fileno(), 4), os.get_inheritable(kept.fileno())]
    closed.sendall(b"open")
    kept.sendall(b"kept")
    return told, whole(closed, 4), whole(kept, 4), loud("close_range", 600, 500, 0)


case("close_range", ranges_closed)


def in_child(what):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.write(write, repr(told_by(what)).encode())
        finally:
            os._exit(0)
    os.close(write)
    told = b""
    while more := os.read(read, 1000):
        told += more
    os.wait()
    return told


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)
    stream = connected()
    stream.sendall(b"nobody")
    return os.getuid(), whole(stream, 6)


def elsewhere():
    os.chroot("/proc")
    stream = connected()
    stream.sendall(b"jailed")
    return whole(stream, 6)


case("setuid in a child", lambda: in_child(as_nobody))
case("chroot in a child", lambda: in_child(elsewhere))


def low_water():
    stream = connected()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 8)
    stream.sendall(b"1234")
    told = [ready(stream, select.POLLIN, 200)]
    stream.sendall(b"5678")
    return told + [ready(stream, select.POLLIN), stream.recv(100)]


case("SO_RCVLOWAT", low_water)


def exclusive():
    stream, epoll = connected(), select.epoll()
    EPOLLEXCLUSIVE = 1 << 28
    epoll.register(stream, select.EPOLLIN | EPOLLEXCLUSIVE)
    return told_by(lambda: epoll.modify(stream, select.EPOLLIN), lambda: select.epoll().register(stream, select.EPOLLIN | EPOLLEXCLUSIVE | select.EPOLLONESHOT))


case("EPOLLEXCLUSIVE misused", exclusive)
case("sendfile from a pipe", lambda: told_by(lambda: os.sendfile(connected().fileno(), os.pipe()[0], None, 10)))


def many_messages():
    sock, count = socket.socket(*UDP), 3
    sock.settimeout(None)
    sock.connect(ECHO)
    parts = [ctypes.create_string_buffer(b"message %d" % n, 9) for n in range(count)]
    lists = [ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(part), 9)) for part in parts]
    entry = lambda at: struct.pack("PI4xPNPNi4xI4x", 0, 0, ctypes.addressof(lists[at]), 1, 0, 0, 0, 0)
    all = ctypes.create_string_buffer(b"".join(map(entry, range(count))))
    told = [loud("sendmmsg", sock.fileno(), all, count, 0)]
    for part in parts:
        part.raw = b"." * 9
    got = 0
    while got < count:
        rest = ctypes.create_string_buffer(b"".join(map(entry, range(got, count))))
        got += LIBC.recvmmsg(sock.fileno(), rest, count - got, 0x10000, None)
    return told, sorted(part.raw for part in parts), loud("recvmmsg", sock.fileno(), all, count, socket.MSG_DONTWAIT, None)


case("several messages", many_messages)


def some_in_time():
    sock = socket.socket(*UDP)
    sock.settimeout(None)
    sock.connect(ECHO)
    room = ctypes.create_string_buffer(9)
    part = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(room), 9))
    entries = ctypes.create_string_buffer(struct.pack("PI4xPNPNi4xI4x", 0, 0, ctypes.addressof(part), 1, 0, 0, 0, 0) * 2)
    wrong = loud("recvmmsg", sock.fileno(), entries, 2, 0, struct.pack("ll", 0, -1))
    sock.send(b"one")
    return wrong, loud("recvmmsg", sock.fileno(), entries, 2, 0, ctypes.create_string_buffer(struct.pack("ll", 0, 1), 16))


case("several messages, in a time", some_in_time)


def as_quic():
    """What a QUIC endpoint asks of a socket: ECN, the local address, segments of one call."""
    SOL_UDP, UDP_SEGMENT, IP_MTU_DISCOVER, PROBE = 17, 103, 10, 3
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    told = told_by(
        lambda: sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1),
        lambda: sock.setsockopt(socket.IPPROTO_IP, 8, 1),
        lambda: sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PROBE),
    )
    sock.bind(("", 0))
    segment, ecn = (SOL_UDP, UDP_SEGMENT, struct.pack("H", 1200)), (socket.IPPROTO_IP, socket.IP_TOS, struct.pack("i", 2))
    told.append(sock.sendmsg([b"q" * 2500], [segment, ecn], 0, ECHO))
    for _ in range(3):
        data, beside, flags, peer = sock.recvmsg(3000, 200)
        told.append((len(data), flags, peer, sorted((level, kind, len(value)) for level, kind, value in beside)))
    return told


case("as QUIC does", as_quic)
