# Cases of gVisor's tests of sockets, UDP, TCP, poll and epoll.
MAPPED = f"::ffff:{PEER}"


def option(sock, level, name, *length):
    try:
        return sock.getsockopt(level, name, *length)
    except OSError as error:
        return errno.errorcode[error.errno]


def blocking(kind, seconds=1):
    """A socket that the system has wait, not Python."""
    sock = socket.socket(*kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
    return sock


def asked(count=1):
    """A datagram socket with answers to read."""
    sock = blocking(UDP, 20)
    sock.connect(ECHO)
    for number in range(count):
        sock.send(b"answer %d" % number)
    if count:
        until_readable(sock)
    return sock


# Datagrams without a peer
def fresh_datagrams():
    sock = socket.socket(*UDP)
    sock.setblocking(False)
    return sock.getsockname(), told_by(sock.getpeername, lambda: sock.send(b"x"), lambda: sock.sendmsg([b"x"]), lambda: os.write(sock.fileno(), b"x"), lambda: sock.recv(1))


case("a new datagram socket", fresh_datagrams)


def bound_datagrams():
    sock = socket.socket(*UDP)
    sock.setblocking(False)
    sock.bind(("", 0))
    name = sock.getsockname()
    return name[0], name[1] > 0, told_by(sock.getpeername, lambda: sock.send(b"x"), lambda: sock.recv(1), lambda: sock.bind(("", 0)))


case("a bound datagram socket", bound_datagrams)


def no_listener(bound):
    sock = socket.socket(*UDP)
    sock.setblocking(False)
    if bound:
        sock.bind(("", 0))
    return told_by(lambda: sock.listen(1), sock.accept)


case("datagrams have no listeners", lambda: (no_listener(False), no_listener(True)))


def bad_destinations():
    sock = socket.socket(*UDP)
    six = struct.pack("!HHI16sI", 0, 9100, 0, socket.inet_pton(socket.AF_INET6, "fd77::2"), 0)
    six = struct.pack("H", socket.AF_INET6) + six[2:]
    four = struct.pack("H", socket.AF_INET) + struct.pack("!H4s8x", 9100, socket.inet_aton(PEER))
    send = lambda address, length: loud("sendto", sock.fileno(), b"x", 1, 0, address, length)
    return send(four, 16), send(four, 4), send(four, 15), send(six, 28), told_by(lambda: sock.sendto(b"x", (PEER, 0))), loud("connect", sock.fileno(), four, 4), loud("connect", sock.fileno(), six, 28)


case("bad destinations", bad_destinations)


def no_octets():
    sock = asked(0)
    told = [sock.send(b""), until_readable(sock)]
    count = array.array("i", [7])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return told, count[0], ready(sock, select.POLLIN, 0), sock.recvfrom(10), ready(sock, select.POLLIN, 0)


case("datagrams of no octets", no_octets)


# Datagrams with a peer
def names_of_connected():
    sock = socket.socket(*UDP)
    sock.connect(ECHO)
    name = sock.getsockname()
    return name[0] != "0.0.0.0", name[1] > 0, sock.getpeername()


case("names of connected datagrams", names_of_connected)


def disconnect(sock):
    return loud("connect", sock.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16)


def after_peer(bound):
    sock = socket.socket(*UDP)
    if bound:
        sock.bind(("", 45_991))
    before = sock.getsockname()
    sock.connect(ECHO)
    told = [disconnect(sock), disconnect(sock)]
    return told, sock.getsockname() == before, told_by(sock.getpeername)


case("names after a peer", lambda: (after_peer(False), after_peer(True)))


def from_before():
    sock = blocking(UDP, 20)
    sock.sendto(b"early", ECHO)
    until_readable(sock)
    sock.connect(CLOSED)
    return sock.recvfrom(10)


case("datagrams from before connecting", from_before)


def to_another():
    sock = asked(0)
    told = [sock.sendto(b"stray", (PEER, 9)), sock.send(b"home")]
    return told, sock.recvfrom(10)


case("a datagram to another than the peer", to_another)


def kept_apart():
    sock = asked(0)
    told = [sock.sendmsg([b"a", b"", b"bc"]), sock.send(b"defg"), sock.sendmsg([])]
    parts = [bytearray(1), bytearray(1), bytearray(10)]
    told.append(sock.recvmsg_into(parts)[0])
    return told, parts, sock.recv(100), sock.recv(100)


case("datagrams are kept apart", kept_apart)


def in_turn():
    """Answers to two sockets come mixed, and are read in another order, some of them looked at before."""
    first, second = asked(0), asked(0)
    for number in range(6):
        (first, second)[number % 2].send(b"%d" % number)
    time.sleep(0.2)
    told = [first.recv(9), second.recv(9, socket.MSG_PEEK), first.recv(9), second.recv(9), second.recv(9)]
    second.send(b"last")
    time.sleep(0.2)
    return told, first.recv(9), second.recv(9), second.recv(9), told_by(lambda: first.recv(9, socket.MSG_DONTWAIT))


case("datagrams of two sockets", in_turn)


def shut_before_peer(how):
    sock = blocking(UDP)
    told = told_by(lambda: sock.shutdown(how), lambda: sock.recv(1))
    bound = blocking(UDP)
    bound.bind(("", 0))
    return told, told_by(lambda: bound.shutdown(how), lambda: bound.recv(1), lambda: bound.sendto(b"x", ECHO), lambda: bound.connect(ECHO))


case("shutdown before there is a peer", lambda: [shut_before_peer(how) for how in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)])


def shut_with_answers():
    sock = asked()
    sock.shutdown(socket.SHUT_RD)
    sock.setblocking(False)
    count = array.array("i", [7])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    told = [count[0], sock.recv(3)] + told_by(lambda: sock.recv(3), lambda: sock.recv(3, socket.MSG_DONTWAIT))
    sock.setblocking(True)
    return told, sock.recv(3), ready(sock, select.POLLIN | select.POLLOUT | select.POLLRDHUP, 0)


case("shutdown with answers to read", shut_with_answers)


def shut_meanwhile():
    sock, told = blocking(UDP, 20), []
    sock.connect(ECHO)
    reader = threading.Thread(target=lambda: told.append(sock.recv(10)))
    reader.start()
    time.sleep(0.2)
    sock.shutdown(socket.SHUT_RD)
    reader.join()
    return told


case("shutdown while a thread receives", shut_meanwhile)


def peeked():
    sock = asked(2)
    return sock.recv(100, socket.MSG_PEEK), sock.recvfrom(3, socket.MSG_PEEK), sock.recv(100), sock.recv(100)


case("peeks at datagrams", peeked)


def timed():
    sock = asked(0)
    none = sock.send(b"1"), sock.recvmsg(10, 200)[1]
    sock.setsockopt(socket.SOL_SOCKET, 29, 1)
    sock.send(b"2")
    data, beside, flags, _ = sock.recvmsg(10, 200)
    now = time.time()
    seconds = struct.unpack("ll", beside[0][2])[0]
    return none, data, [(level, kind, len(value)) for level, kind, value in beside], flags, abs(now - seconds) < 30


case("times of arrival", timed)


def no_room_beside():
    sock = asked(0)
    sock.setsockopt(socket.SOL_SOCKET, 29, 1)
    sock.send(b"2")
    return sock.recvmsg(10, 4)[1:3]


case("control messages that have no room", no_room_beside)
case("unsent octets of datagrams", lambda: (lambda there: (fcntl.ioctl(asked(), termios.TIOCOUTQ, there), there[0]))(array.array("i", [7])))


# Both families by one socket
def by_six(kind):
    sock = socket.socket(socket.AF_INET6, kind)
    sock.settimeout(20)
    sock.connect((MAPPED, 9100))
    sock.send(b"mapped")
    return whole(sock, 6), sock.getpeername(), sock.getsockname()[0].startswith("::ffff:")


case("IPv4 by IPv6, a stream", lambda: by_six(socket.SOCK_STREAM))
case("IPv4 by IPv6, datagrams", lambda: by_six(socket.SOCK_DGRAM))


def answered_six():
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.settimeout(20)
    sock.sendto(b"mapped", (MAPPED, 9100))
    return sock.recvfrom(10)


case("IPv4 by IPv6, answers", answered_six)


def six_only(kind):
    sock = socket.socket(socket.AF_INET6, kind)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return told_by(lambda: sock.connect((MAPPED, 9100)))


case("IPv4 by IPv6 only", lambda: (six_only(socket.SOCK_STREAM), six_only(socket.SOCK_DGRAM)))


def accepted_six():
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    listener.settimeout(20)
    connected().sendall(b"call %d\n" % listener.getsockname()[1])
    stream, peer = listener.accept()
    return peer[0], stream.getpeername()[0], stream.getsockname()[0].startswith("::ffff:"), stream.family == socket.AF_INET6


case("IPv4 accepted by IPv6", accepted_six)


# Connections
case("a new stream socket", lambda: (lambda sock: (sock.getsockname(), told_by(sock.getpeername, lambda: sock.sendto(b"x", 0x4000, ECHO), lambda: sock.recv(1))))(socket.socket(*TCP)))


def coalesced():
    stream = connected()
    stream.send(b"first ")
    stream.send(b"second")
    time.sleep(0.5)
    return stream.recv(100)


case("octets in one piece", coalesced)


def no_sender(flags):
    stream, name, length = connected(), ctypes.create_string_buffer(b"z" * 16, 16), ctypes.c_uint(16)
    stream.sendall(b"abc")
    until_readable(stream)
    got = loud("recvfrom", stream.fileno(), ctypes.create_string_buffer(3), 3, flags, name, ctypes.byref(length))
    return got, length.value, name.raw


case("streams have no senders", lambda: (no_sender(0), no_sender(socket.MSG_PEEK)))


def to_elsewhere():
    stream = connected()
    return stream.sendto(b"abc", CLOSED), stream.sendto(b"def", ("127.0.0.1", 9)), whole(stream, 6)


case("sendto of a connection", to_elsewhere)


def nothing_written():
    stream = nonblocking()
    return stream.send(b""), os.write(stream.fileno(), b""), stream.sendmsg([]), stream.sendmsg([b"", b""]), told_by(lambda: stream.recv(1)), loud("recv", stream.fileno(), None, 0, 0), loud("readv", stream.fileno(), None, 0)


case("nothing written, nothing read", nothing_written)


def large(flags, waits):
    stream = connected()
    stream.sendall(b"quiet\n")
    time.sleep(0.1)
    stream.setblocking(waits)
    size = 64 << 20
    sent = stream.send(bytes(size), flags)
    return 0 < sent < size, told_by(lambda: stream.send(bytes(size), socket.MSG_DONTWAIT) < size)[0] in ("EAGAIN", True), ready(stream, select.POLLOUT, 0) in ([], [select.POLLOUT])


case("more than there is room for", lambda: (large(0, False), large(socket.MSG_DONTWAIT, True)))


def large_waiting():
    stream, got = connected(), []
    stream.settimeout(None)
    reader = threading.Thread(target=lambda: got.append(len(whole(stream, 8 << 20))))
    reader.start()
    sent = stream.send(bytes(8 << 20))
    reader.join()
    return sent, got


case("more than there is room for, waiting", large_waiting)


def discarded():
    stream = connected()
    stream.sendall(b"0123456789")
    until_readable(stream)
    time.sleep(0.1)
    room = ctypes.create_string_buffer(b"z" * 8, 8)
    told = [loud("recv", stream.fileno(), room, 3, socket.MSG_TRUNC), room.raw]
    told += [loud("recv", stream.fileno(), None, 3, socket.MSG_TRUNC | socket.MSG_PEEK), loud("recv", stream.fileno(), None, 2, socket.MSG_TRUNC)]
    return told, stream.recv(100)


case("octets discarded", discarded)


def all_of_it():
    stream = connected()
    stream.sendall(b"abc")
    until_readable(stream)
    time.sleep(0.1)
    told = [stream.recv(10, socket.MSG_WAITALL | socket.MSG_DONTWAIT)]
    stream.sendall(b"def")
    stream.shutdown(socket.SHUT_WR)
    return told, stream.recv(10, socket.MSG_WAITALL), stream.recv(10, socket.MSG_WAITALL)


case("MSG_WAITALL with less", all_of_it)


def header_of_message():
    stream = connected()
    stream.sendall(b"abc")
    until_readable(stream)
    part, name, beside = ctypes.create_string_buffer(8), ctypes.create_string_buffer(16), ctypes.create_string_buffer(64)
    parts = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(part), 8))
    message = ctypes.create_string_buffer(struct.pack("PI4xPNPNi4x", ctypes.addressof(name), 16, ctypes.addressof(parts), 1, ctypes.addressof(beside), 64, 77))
    got = loud("recvmsg", stream.fileno(), message, 0)
    fields = struct.unpack("PI4xPNPNi4x", message.raw[:56])
    return got, fields[1], fields[5], fields[6]


case("what recvmsg tells of a stream", header_of_message)


def shut_while_reading(how):
    stream, told = connected(), []
    stream.settimeout(None)
    reader = threading.Thread(target=lambda: told.append(stream.recv(10)))
    reader.start()
    time.sleep(0.2)
    stream.shutdown(how)
    reader.join()
    return told


case("shutdown while a thread reads", lambda: (shut_while_reading(socket.SHUT_RD), shut_while_reading(socket.SHUT_RDWR)))


def after_refusal():
    stream = blocking(TCP, 20)
    told = told_by(lambda: stream.connect(CLOSED), stream.getpeername)
    stream.connect(ECHO)
    stream.sendall(b"second")
    return told, whole(stream, 6)


case("connected after a refusal", after_refusal)


def bound_and_connected(kind):
    sock = socket.socket(socket.AF_INET, kind)
    sock.settimeout(20)
    sock.bind(("", 0))
    port = sock.getsockname()[1]
    sock.connect(ECHO)
    name = sock.getsockname()
    sock.send(b"bound")
    return name[1] == port, name[0] != "0.0.0.0", whole(sock, 5), told_by(lambda: sock.bind(("", 0)))


case("bound and connected", lambda: (bound_and_connected(socket.SOCK_STREAM), bound_and_connected(socket.SOCK_DGRAM)))


def urgent():
    """The peer has the urgent octet apart, and does not echo it."""
    stream = connected()
    told = [stream.send(b"abcX", socket.MSG_OOB), stream.send(b"def")]
    return told, whole(stream, 6), told_by(lambda: asked().send(b"x", socket.MSG_OOB), lambda: socket.socket(*UDP).sendto(b"x", socket.MSG_OOB, ECHO), lambda: stream.send(b"", socket.MSG_OOB))


case("urgent octets", urgent)


# Listeners
def shut_listener():
    listener, told = socket.create_server(("", 0)), []
    listener.settimeout(None)

    def accepts():
        told.extend(told_by(listener.accept))

    waits = threading.Thread(target=accepts)
    waits.start()
    time.sleep(0.2)
    listener.shutdown(socket.SHUT_RDWR)
    waits.join()
    return told, told_by(listener.accept, lambda: listener.listen(1))


case("shutdown while a thread accepts", shut_listener)


def flags_of_accepted():
    listener, told = socket.create_server(("", 0)), []
    listener.setblocking(False)
    told.append(loud("accept4", listener.fileno(), None, None, 0x12345))
    listener.setblocking(True)
    for flags in 0, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC:
        connected().sendall(b"call %d\n" % listener.getsockname()[1])
        fd = loud("accept4", listener.fileno(), None, None, flags)
        told.append((fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK != 0, fcntl.fcntl(fd, fcntl.F_GETFD)))
    return told


case("flags of accepted connections", flags_of_accepted)

INHERITED = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 7)),
    (socket.SOL_SOCKET, socket.SO_RCVBUF, 40_000),
    (socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000),
    (socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0)),
    (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 7),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 9000),
    (socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno"),
    (socket.IPPROTO_IP, socket.IP_TTL, 33),
    (socket.IPPROTO_IP, socket.IP_TOS, 0x28),
]


def inherited(late):
    listener = socket.socket(*TCP)
    listener.settimeout(20)
    set_all = lambda: [listener.setsockopt(*entry) for entry in INHERITED]
    if not late:
        set_all()
    listener.bind(("", 0))
    listener.listen()
    if late:
        set_all()
    connected().sendall(b"call %d\n" % listener.getsockname()[1])
    stream = listener.accept()[0]
    told = [option(stream, level, name, 16) for level, name, _ in INHERITED]
    stream.sendall(b"works")
    return told, whole(stream, 5)


case("options of accepted connections", lambda: inherited(False))
case("options of accepted connections, set late", lambda: inherited(True))


def plain_accepted():
    listener = called_by_peer()
    stream = listener.accept()[0]
    return [option(stream, level, name, 16) for level, name, _ in INHERITED if name not in (socket.SO_RCVBUF, socket.SO_SNDBUF)]


case("options of accepted connections, none set", plain_accepted)


def deferred():
    listener = socket.create_server(("", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
    port = listener.getsockname()[1]
    told = [option(listener, socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT) >= 5]
    connected().sendall(b"call %d\n" % port)
    return told, ready(listener, select.POLLIN, 700)


case("accepted once octets come", deferred)


# Options
case("options of a new connection", lambda: [option(connected(), socket.IPPROTO_TCP, name) for name in (socket.TCP_NODELAY, socket.TCP_MAXSEG, socket.TCP_CORK, socket.TCP_KEEPIDLE, socket.TCP_KEEPCNT, socket.TCP_SYNCNT, socket.TCP_USER_TIMEOUT)])


def values(level, name, *tried):
    stream, told = connected(), []
    for value in tried:
        told.append(told_by(lambda: stream.setsockopt(level, name, value))[0])
        told.append(option(stream, level, name))
    return told


for name, tried in (("TCP_MAXSEG", (87, 1000, 40_000)), ("TCP_USER_TIMEOUT", (10, 0, -1)), ("TCP_KEEPCNT", (0, 3, 128)), ("TCP_KEEPINTVL", (0, 9, 40_000)), ("TCP_SYNCNT", (0, 4, 256)), ("TCP_LINGER2", (5, -1)), ("TCP_WINDOW_CLAMP", (4096,)), ("TCP_NOTSENT_LOWAT", (1000,)), ("TCP_QUICKACK", (1,))):
    if name != "TCP_MAXSEG":
        case(f"values of {name}", lambda: values(socket.IPPROTO_TCP, getattr(socket, name), *tried))
    else:
        case(f"values of {name}", lambda: [told_by(lambda: connected().setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, value)) for value in tried])
case("congestion control of nobody's", lambda: told_by(lambda: connected().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"nobodys")))


def short_options():
    stream = connected()
    return [option(stream, socket.SOL_SOCKET, name, length) for name in (socket.SO_TYPE, socket.SO_ERROR, socket.SO_LINGER) for length in (1, 3, 8)], told_by(lambda: stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, b"\1"), lambda: stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0"), lambda: stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 1_000_000)))


case("options cut short", short_options)


def two_errors():
    sock = socket.socket(*UDP)
    sock.connect(CLOSED)
    sock.send(b"x")
    ready(sock, 0)
    return [errno.errorcode.get(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0) for _ in range(2)], ready(sock, select.POLLIN, 0)


case("an error is told once", two_errors)


def no_file():
    stream = connected()
    fd = stream.fileno()
    return told_by(lambda: os.lseek(fd, 0, 0), lambda: os.pread(fd, 1, 0), lambda: os.pwrite(fd, b"x", 0), lambda: os.fsync(fd), lambda: os.ftruncate(fd, 0))


case("not a file", no_file)


# poll and select
BANDS = select.POLLIN | select.POLLOUT | select.POLLRDNORM | select.POLLWRNORM | select.POLLRDBAND | select.POLLWRBAND | select.POLLPRI | select.POLLRDHUP


def bands():
    stream, sock = connected(), asked()
    stream.sendall(b"x")
    until_readable(stream)
    return ready(connected(), BANDS, 0), ready(stream, BANDS, 0), ready(sock, BANDS, 0), ready(socket.create_server(("", 0)), BANDS, 0)


case("events in bands", bands)


def polls():
    stream, entry = connected(), struct.Struct("ihh")
    poll = lambda *all: (lambda room: (loud("poll", room, len(all), 0), [entry.unpack_from(room, 8 * at)[2] for at in range(len(all))]))(ctypes.create_string_buffer(b"".join(entry.pack(*one) for one in all)))
    out = select.POLLOUT
    return poll((stream.fileno(), out, 7), (-1, out, 7), (999, out, 7), (stream.fileno(), 0, 7)), poll((stream.fileno(), select.POLLIN, 7), (1, 0, 7))


case("lists to poll", polls)


def bad_times():
    stream = connected()
    entry = ctypes.create_string_buffer(struct.pack("ihh", stream.fileno(), select.POLLIN, 0))
    readable = lambda: ctypes.create_string_buffer(struct.pack("Q", 1 << stream.fileno()), 128)
    epoll, event = select.epoll(), ctypes.create_string_buffer(12)
    epoll.register(stream, select.EPOLLIN)
    count = stream.fileno() + 1
    told = []
    for time_of in (struct.pack("ll", 0, 1_000_000_000), struct.pack("ll", -1, 0), struct.pack("ll", 0, -1)):
        told += [loud("ppoll", entry, 1, time_of, None), loud("pselect", count, readable(), None, None, time_of, None), loud("epoll_pwait2", epoll.fileno(), event, 1, time_of, None)]
    for time_of in (struct.pack("ll", -1, 0), struct.pack("ll", 0, -1)):
        told.append(loud("select", count, readable(), None, None, ctypes.create_string_buffer(time_of, 16)))
    return told


case("times that are none", bad_times)


def selects():
    stream = connected()
    closed = os.dup(stream.fileno())
    os.close(closed)
    both = ctypes.create_string_buffer(struct.pack("Q", 1 << stream.fileno() | 1 << closed), 128)
    return loud("select", 64, both, None, None, ctypes.create_string_buffer(16)), loud("select", -1, None, None, None, ctypes.create_string_buffer(16)), loud("select", stream.fileno() + 1, None, None, None, ctypes.create_string_buffer(16))


case("sets to select", selects)


# epoll
def all_writable():
    epoll = select.epoll()
    socks = [socket.socket(*UDP) for _ in range(3)]
    for sock in socks:
        sock.connect(ECHO)
        epoll.register(sock, select.EPOLLIN | select.EPOLLOUT)
    first = sorted(mask for _, mask in epoll.poll(1))
    few = [fd for at in range(3) for fd, _ in epoll.poll(1, 1)]
    return first, len(set(few))


case("epoll, all writable", all_writable)


def edges():
    epoll, stream = select.epoll(), nonblocking()
    epoll.register(stream, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    masks = lambda wait: [mask for _, mask in epoll.poll(wait)]
    told = [masks(1), masks(0.1)]
    for part in b"one", b"two":
        stream.send(part)
        told.append(masks(10))
    time.sleep(0.1)
    epoll.poll(0)
    epoll.modify(stream, select.EPOLLIN | select.EPOLLET)
    told += [masks(0), masks(0), stream.recv(100), masks(0.1)]
    epoll.unregister(stream)
    epoll.register(stream, select.EPOLLOUT | select.EPOLLET | select.EPOLLONESHOT)
    told += [masks(0), masks(0)]
    epoll.modify(stream, select.EPOLLOUT | select.EPOLLET)
    return told + [masks(0), masks(0)]


case("epoll, edges", edges)


def ends():
    epoll, stream = select.epoll(), nonblocking()
    epoll.register(stream, 0)
    stream.send(b"x")
    until_readable(stream)
    told = [epoll.poll(0)]
    stream.send(b"reset\n")
    told += [[mask for _, mask in epoll.poll(10)]]
    return told


case("epoll of nothing hears of the end", ends)


def epoll_misused():
    stream, epoll = connected(), select.epoll()
    event, room = ctypes.create_string_buffer(12), ctypes.create_string_buffer(120)
    epoll.register(stream, select.EPOLLOUT)
    ctl = lambda *arguments: loud("epoll_ctl", *arguments)
    gone = os.dup(stream.fileno())
    os.close(gone)
    file = os.open("/etc/passwd", os.O_RDONLY)
    return [
        ctl(epoll.fileno(), 9, stream.fileno(), event),
        ctl(epoll.fileno(), 1, gone, event),
        ctl(epoll.fileno(), 1, file, event),
        ctl(epoll.fileno(), 1, epoll.fileno(), event),
        ctl(stream.fileno(), 1, stream.fileno(), event),
        ctl(gone, 1, stream.fileno(), event),
        ctl(epoll.fileno(), 3, stream.fileno(), None),
        loud("epoll_wait", epoll.fileno(), room, 0, 0),
        loud("epoll_wait", epoll.fileno(), room, -1, 0),
        loud("epoll_wait", stream.fileno(), room, 1, 0),
        loud("epoll_wait", epoll.fileno(), None, 1, 0),
        loud("epoll_wait", epoll.fileno(), room, 1, 0),
    ]


case("epoll misused, again", epoll_misused)


def closed_in_set():
    stream, epoll = connected(), select.epoll()
    epoll.register(stream, select.EPOLLOUT)
    told = [len(epoll.poll(1))]
    stream.close()
    told.append(epoll.poll(0.1))
    again = connected()
    epoll.register(again, select.EPOLLOUT)
    return told, len(epoll.poll(1))


case("closed in an epoll set", closed_in_set)


def by_duplicate():
    """As libraries do that wait by one descriptor and register by another."""
    epoll, stream = select.epoll(), nonblocking()
    other = select.epoll.fromfd(os.dup(epoll.fileno()))
    third = select.epoll.fromfd(fcntl.fcntl(other.fileno(), fcntl.F_DUPFD_CLOEXEC, 100))
    other.register(stream, select.EPOLLIN)
    stream.send(b"x")
    told = [[mask for _, mask in each.poll(10)] for each in (epoll, third, other)]
    other.close()
    told.append([mask for _, mask in epoll.poll(10)])
    third.modify(stream, select.EPOLLOUT)
    epoll.close()
    return told, [mask for _, mask in third.poll(10)]


case("epoll sets duplicated", by_duplicate)


def added_meanwhile():
    sock, epoll, told = asked(), select.epoll(), []
    waits = threading.Thread(target=lambda: told.append([mask for _, mask in epoll.poll(20)]))
    waits.start()
    time.sleep(0.2)
    epoll.register(sock, select.EPOLLIN)
    waits.join()
    return told


case("added while a thread waits", added_meanwhile)


def nested():
    inner, outer, stream = select.epoll(), select.epoll(), nonblocking()
    inner.register(stream, select.EPOLLIN)
    outer.register(inner, select.EPOLLIN)
    masks = lambda epoll, wait: [mask for _, mask in epoll.poll(wait)]
    told = [masks(outer, 0.1), ready(inner, select.POLLIN, 100), select.select([inner], [], [], 0.1)[0]]
    stream.send(b"inside")
    told += [masks(outer, 10), ready(inner, select.POLLIN), len(select.select([inner], [], [], 10)[0]), masks(inner, 0), masks(outer, 0), stream.recv(10)]
    return told + [masks(inner, 0), masks(outer, 0.1), ready(inner, select.POLLIN, 100)]


case("epoll in epoll", nested)


# Programs that only send
def sends_until_told(sock, most=100):
    """How a program that never reads hears that its peer is gone."""
    told = []
    for _ in range(most):
        time.sleep(0.02)
        try:
            sock.send(b"line")
        except OSError as error:
            told.append(errno.errorcode[error.errno])
            if len(told) == 2:
                break
    return told


def only_writes():
    stream = connected()
    stream.sendall(b"reset\n")
    time.sleep(0.2)
    return sends_until_told(stream)


def only_sends():
    sock = socket.socket(*UDP)
    sock.connect(CLOSED)
    return sends_until_told(sock)


case("programs that only send", lambda: (only_writes(), only_sends()))


# Peers that change
def another_peer(to):
    """Datagrams that wait survive it, whether they were looked at or not."""
    told = []
    for looks in range(3):
        sock = asked(0)
        for number in range(3):
            sock.send(b"%d" % number)
        time.sleep(0.2)
        if looks == 1:
            told.append(ready(sock, select.POLLIN, 0))
        if looks == 2:
            told.append(sock.recv(9))
        sock.connect(to)
        told.append(told_by(*[lambda: sock.recv(9, socket.MSG_DONTWAIT)] * 4))
    return told


case("datagrams from before another peer", lambda: (another_peer(ECHO), another_peer(CLOSED)))


def to_itself():
    """A socket that was connected to a peer, then to one of this host."""
    near = socket.socket(*UDP)
    near.bind(("127.0.0.1", 0))
    near.settimeout(20)
    sock = asked(0)
    sock.send(b"far")
    told = sock.recv(9)
    sock.connect(near.getsockname())
    sock.send(b"near")
    return told, near.recv(9), sock.getpeername() == near.getsockname()


case("a peer of this host after another", to_itself)


# Connections that nobody waits for
def looked_at_late(to):
    sock = socket.socket(*TCP)
    sock.setblocking(False)
    told = told_by(lambda: sock.connect(to))
    time.sleep(0.3)
    return told, told_by(lambda: sock.connect(to), lambda: sock.connect(to), lambda: sock.getpeername()[1])


case("connect again", lambda: looked_at_late(ECHO))


def refused_late():
    sock = socket.socket(*TCP)
    sock.setblocking(False)
    told = told_by(lambda: sock.connect(CLOSED))
    time.sleep(0.3)
    return told, told_by(lambda: sock.connect(CLOSED))


case("connect again after a refusal", refused_late)


def asked_late():
    sock = socket.socket(*TCP)
    sock.setblocking(False)
    told_by(lambda: sock.connect(ECHO))
    time.sleep(0.3)
    return sock.getsockname()[0] != "0.0.0.0", told_by(sock.getpeername, lambda: sock.shutdown(socket.SHUT_WR))


case("names and ends of a connection that nobody waited for", asked_late)


def heard_after_the_end():
    stream = connected()
    stream.shutdown(socket.SHUT_RD)
    stream.send(b"words")
    time.sleep(0.2)
    return stream.recv(9), stream.recv(9)


case("octets after no more are wanted", heard_after_the_end)


def number_of_another():
    """A thread waits for a socket that is closed, and whose number another gets: it must not read from that one."""
    old = blocking(UDP, 1)
    old.connect(ECHO)
    heard = []
    waiting = threading.Thread(target=lambda: heard.extend(told_by(lambda: os.read(number, 99))))
    number = old.fileno()
    waiting.start()
    time.sleep(0.2)
    old.close()
    new = asked(0)
    assert new.fileno() == number
    new.send(b"for the new one")
    waiting.join()
    return b"for the new one" in heard, new.recv(99)


case("a number that another socket gets", number_of_another)


# Connections for a child, whatever its parent has done before
def for_a_child(before):
    listener = socket.create_server(("", 0))
    call = lambda: connected().sendall(b"call %d\n" % listener.getsockname()[1])
    epoll = select.epoll()
    if before == "epoll":
        epoll.register(listener, select.EPOLLIN)
    if before in ("accepted", "epoll"):
        call()
        if before == "epoll":
            assert epoll.poll(20)
        listener.accept()
    call()
    if before == "polled":
        until_readable(listener)
    time.sleep(0.2)
    child = os.fork()
    if child == 0:
        accepted = 0
        listener.settimeout(3)
        for _ in range(5):
            accepted += listener.accept()[0].fileno() > 0
            call()
        os._exit(accepted)
    told = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # The last one is for the parent, which looks again.
    if before == "epoll":
        return told, len(epoll.poll(20)), len(listener.accept())
    listener.settimeout(20)
    return told, len(listener.accept())


case("connections for a child", lambda: [for_a_child(before) for before in ("bound", "polled", "accepted", "epoll")])


def nobody_answers():
    """A connect that waits no longer than it may."""
    sock = socket.socket(*TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 200_000))
    told = told_by(*[lambda: sock.connect((PEER.rsplit(".", 1)[0] + ".77", 9))] * 2)
    # Linux gives up a connection that is being opened.
    return told, told_by(lambda: sock.shutdown(socket.SHUT_RDWR), lambda: sock.connect(ECHO))


case("a peer that does not answer", nobody_answers)
