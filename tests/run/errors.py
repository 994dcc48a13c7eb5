# The queue of errors of datagram sockets: IP_RECVERR, IPV6_RECVERR, MSG_ERRQUEUE.
IP_RECVERR, IPV6_RECVERR, MSG_ERRQUEUE = 11, 25, 0x2000
FOUR = (socket.AF_INET, CLOSED)
SIX = (socket.AF_INET6, (PEER6, 9))
MAPPED = (socket.AF_INET6, (f"::ffff:{PEER}", 9))


def asking(family, asks=1):
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, asks)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, asks)
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, asks)
    return sock


def error_of(sock):
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def queued(sock, size=100, room=200):
    """The next error: its datagram, flags, where that was to go, and what the control message says."""
    try:
        data, control, flags, name = sock.recvmsg(size, room, MSG_ERRQUEUE)
    except OSError as error:
        return errno.errorcode[error.errno]
    told = []
    for level, kind, value in control:
        number, origin, which, code, _, info, more = struct.unpack("IBBBBII", value[:16])
        family = struct.unpack("H", value[16:18])[0] if len(value) > 16 else None
        offender = value[20:24] if family == socket.AF_INET else value[24:40]
        where = socket.inet_ntop(family, offender) if family else None
        told.append((level, kind, len(value), errno.errorcode.get(number), origin, which, code, info, more, where))
    return data, flags, name[:2], told


def failed(sock):
    assert ready(sock, 0), "no error came"


def unconnected(family, to):
    sock = asking(family)
    sock.sendto(b"nobody is there", to)
    failed(sock)
    told = [ready(sock, select.POLLIN | select.POLLOUT | select.POLLPRI), queued(sock), error_of(sock)]
    return told, queued(sock), ready(sock, select.POLLOUT)


for name, (family, to) in (("four", FOUR), ("six", SIX), ("mapped", MAPPED)):
    case(f"without a peer, {name}", lambda: unconnected(family, to))


def by_calls(family, to, connects, *calls):
    """An error is told by the next call, and stays in the queue."""
    sock = asking(family)
    if connects:
        sock.connect(to)
    sock.sendto(b"first", *[] if connects else [to]) if not connects else sock.send(b"first")
    failed(sock)
    again = lambda: sock.send(b"again") if connects else sock.sendto(b"again", ECHO if family == socket.AF_INET else (PEER6, 9100))
    call = {"recv": lambda: sock.recv(9), "send": again, "error": lambda: error_of(sock)}
    return told_by(*[call[which] for which in calls]), queued(sock)[0], error_of(sock)


for name, (family, to) in (("four", FOUR), ("six", SIX)):
    for connects in (False, True):
        case(f"{name}, connected {connects}", lambda: [by_calls(family, to, connects, *calls) for calls in (("recv", "recv"), ("error", "error"))])
    case(f"{name}, sending", lambda: by_calls(family, to, False, "send", "send"))


def several():
    sock = asking(socket.AF_INET)
    told = []
    for number in range(3):
        sock.sendto(b"datagram %d" % number, CLOSED)
        until = time.monotonic() + 20
        while not (number := error_of(sock)) and time.monotonic() < until:
            time.sleep(0.01)
        told.append(number)
    told += [ready(sock, select.POLLIN | select.POLLOUT)]
    for _ in range(3):
        told += [queued(sock)[0], error_of(sock), ready(sock, select.POLLOUT)]
    return told, queued(sock)


case("several errors", several)


def turned_off():
    sock = asking(socket.AF_INET)
    sock.sendto(b"x", CLOSED)
    failed(sock)
    sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 0)
    told = queued(sock), error_of(sock), ready(sock, select.POLLOUT)
    sock.sendto(b"x", CLOSED)
    return told, ready(sock, 0, 200), queued(sock), error_of(sock)


case("turned off", turned_off)


def not_asked(connects):
    sock = asking(socket.AF_INET, 0)
    if connects:
        sock.connect(CLOSED)
    sock.sendto(b"x", CLOSED) if not connects else sock.send(b"x")
    told = ready(sock, select.POLLIN | select.POLLOUT if connects else 0, 200)
    time.sleep(0.1)
    return told if not connects else ready(sock, select.POLLIN | select.POLLOUT), queued(sock), told_by(lambda: sock.recv(9)), queued(sock)


case("not asked for", lambda: (not_asked(False), not_asked(True)))


def short(size, room):
    sock = asking(socket.AF_INET)
    sock.sendto(b"a longer datagram", CLOSED)
    failed(sock)
    return queued(sock, size, room), queued(sock)


case("without room", lambda: (short(5, 200), short(100, 0), short(0, 8)))
case("nothing there", lambda: (queued(asking(socket.AF_INET)), queued(nonblocking())))


def long_datagram():
    """A router quotes a part of it."""
    sock = asking(socket.AF_INET)
    sock.sendto(bytes(1400), CLOSED)
    failed(sock)
    data = queued(sock, 2000)[0]
    return len(data), data.strip(b"\0")


case("a long datagram", long_datagram)


def too_long(level, name, family, to, asks):
    """Nobody may cut it up. On the kernel's stack the call that sends fails as well."""
    sock = asking(family, asks)
    sock.connect(to)
    sock.setsockopt(level, name, 2)
    told_by(lambda: sock.send(bytes(3000)))
    if not asks:
        return
    failed(sock)
    told = queued(sock)
    return told[0], told[1], told[3], told_by(lambda: sock.send(b"short"))


case("too long, four", lambda: too_long(socket.IPPROTO_IP, 10, socket.AF_INET, ECHO, 1))
case("too long, six", lambda: too_long(socket.IPPROTO_IPV6, 23, socket.AF_INET6, (PEER6, 9100), 1))


def plain_receive():
    sock = asking(socket.AF_INET)
    sock.sendto(b"nobody", CLOSED)
    failed(sock)
    return sock.recvfrom(100, MSG_ERRQUEUE), told_by(lambda: sock.recv(1, MSG_ERRQUEUE))


case("by recvfrom", plain_receive)


def by_epoll(how):
    sock, epoll = asking(socket.AF_INET), select.epoll()
    epoll.register(sock, select.EPOLLIN | how)
    sock.sendto(b"nobody", CLOSED)
    told = [[mask for _, mask in epoll.poll(wait)] for wait in (10, 0)]
    told += [error_of(sock), [mask for _, mask in epoll.poll(0)], queued(sock)[0]]
    return told, epoll.poll(0)


case("epoll", lambda: (by_epoll(0), by_epoll(select.EPOLLET)))


def options_off():
    """Control messages that were asked for, and then not."""
    told = []
    for family, to, level, names in ((socket.AF_INET, ECHO, socket.IPPROTO_IP, (8, 12, 13)), (socket.AF_INET6, (PEER6, 9100), socket.IPPROTO_IPV6, (49, 51, 66))):
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.settimeout(20)
        for on in (1, 0):
            for name in names:
                sock.setsockopt(level, name, on)
            sock.sendto(b"x", to)
            told.append([(level, kind) for level, kind, _ in sock.recvmsg(9, 200)[1]])
    return told


case("control messages on and off", options_off)


def before_datagrams(*flags, reads=0):
    """An error goes before what came earlier, whether it was looked at or not."""
    sock = asking(socket.AF_INET)
    for number in range(3):
        sock.sendto(b"answer %d" % number, ECHO)
    time.sleep(0.2)
    for _ in range(reads):
        sock.recv(100)
    sock.sendto(b"nobody", CLOSED)
    time.sleep(0.2)
    return told_by(*[lambda: sock.recv(100, *flags)] * 2, *[lambda: sock.recv(100)] * 4)


case("an error before datagrams", lambda: (before_datagrams(), before_datagrams(socket.MSG_PEEK), before_datagrams(reads=1), before_datagrams(reads=2)))
