# Connecting
case("connect blocking", lambda: connected().getpeername())
case("connect refused", lambda: socket.create_connection(CLOSED, timeout=20))


def connect_later():
    stream = socket.socket(*TCP)
    stream.setblocking(False)
    first = stream.connect_ex(ECHO)
    events = ready(stream, select.POLLOUT)
    again = [stream.connect_ex(ECHO) for _ in range(2)]
    return errno.errorcode[first], events, stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), again


case("connect without blocking", connect_later)


def with_the_syn(_):
    stream = socket.socket(*TCP)
    sent = stream.sendto(b"question", socket.MSG_FASTOPEN, ECHO)
    stream.settimeout(20)
    return sent, whole(stream, 8), stream.getpeername(), stream.sendall(b"more"), whole(stream, 4)


# The first one asks for a cookie.
case("octets with the SYN", lambda: [with_the_syn(at) for at in range(3)])


def with_the_syn_refused():
    stream = socket.socket(*TCP)
    stream.sendto(b"question", socket.MSG_FASTOPEN, CLOSED)
    stream.settimeout(20)
    return stream.recv(1)


case("octets with the SYN refused", with_the_syn_refused)


def connects_when_it_writes(_):
    stream = socket.socket(*TCP)
    stream.settimeout(20)
    stream.setsockopt(socket.IPPROTO_TCP, 30, 1)
    stream.connect(ECHO)
    writable = ready(stream, select.POLLOUT)
    return writable, stream.send(b"question"), whole(stream, 8), stream.getpeername()


case("connects when it writes", lambda: [connects_when_it_writes(at) for at in range(2)])


def refused_later():
    stream = socket.socket(*TCP)
    stream.setblocking(False)
    first = stream.connect_ex(CLOSED)
    events = ready(stream, select.POLLOUT)
    error = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return errno.errorcode[first], [mask & select.POLLERR != 0 for mask in events], errno.errorcode[error], stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


case("refusal without blocking", refused_later)
case("connect twice", lambda: connected().connect(ECHO))
case("recv unconnected", lambda: socket.socket(*TCP).recv(1))
case("getpeername unconnected", lambda: socket.socket(*TCP).getpeername())
case("listen connected", lambda: connected().listen())
case("accept unlistening", lambda: nonblocking().accept())


# Octets
def echoed(count):
    stream = connected()
    threading.Thread(target=stream.sendall, args=(b"x" * count,)).start()
    return len(whole(stream, count))


for count in 1, 1460, 100_000, 2_000_000:
    case(f"echo of {count}", lambda: echoed(count))
case("recv nothing there", lambda: nonblocking().recv(10))


def peek():
    stream = connected()
    stream.sendall(b"abcdef")
    until_readable(stream)
    return stream.recv(3, socket.MSG_PEEK), stream.recv(3), whole(stream, 3)


case("peek", peek)


def waitall():
    stream = connected()
    stream.sendall(b"first ")
    until_readable(stream)
    threading.Timer(0.1, stream.sendall, (b"second",)).start()
    return stream.recv(12, socket.MSG_WAITALL)


case("wait for all", waitall)


def scattered():
    stream = connected()
    stream.sendmsg([b"one ", b"", b"two ", b"three"])
    return whole(stream, 13)


case("gathered", scattered)


def into_parts():
    stream = connected()
    stream.sendall(b"abcdefgh")
    until_readable(stream)
    time.sleep(0.05)
    parts = [bytearray(3), bytearray(0), bytearray(10)]
    return stream.recvmsg_into(parts)[0], parts


case("scattered", into_parts)
case("recv of zero octets", lambda: (connected().sendall(b"x"), connected().recv(0)))


def counts():
    stream = connected()
    stream.sendall(b"12345")
    until_readable(stream)
    time.sleep(0.05)
    there = array.array("i", [0])
    fcntl.ioctl(stream, termios.FIONREAD, there)
    unsent = array.array("i", [-1])
    fcntl.ioctl(stream, termios.TIOCOUTQ, unsent)
    return there[0], unsent[0]


case("counts", counts)


def by_file():
    stream = connected()
    with open("/etc/passwd", "rb") as file:
        sent = os.sendfile(stream.fileno(), file.fileno(), 3, 100)
        return sent == len(whole(stream, 100)), file.tell()


case("sendfile", by_file)
case("read and write", lambda: (lambda s: (os.write(s.fileno(), b"plain"), until_readable(s), os.read(s.fileno(), 100)))(connected()))


# Ends
def half_closed():
    stream = connected()
    stream.sendall(b"last")
    stream.shutdown(socket.SHUT_WR)
    got = whole(stream, 4), stream.recv(10), stream.recv(10)
    try:
        stream.send(b"more")
    except OSError as error:
        return got, errno.errorcode[error.errno]


case("half close", half_closed)


def events_of_end():
    stream = connected()
    stream.shutdown(socket.SHUT_WR)
    until_readable(stream)
    return ready(stream, select.POLLIN | select.POLLOUT | select.POLLRDHUP)


case("events of an end", events_of_end)


def reset():
    stream = connected()
    stream.sendall(b"reset\n")
    told = []
    for _ in range(2):
        try:
            told.append(stream.recv(10))
        except OSError as error:
            told.append(errno.errorcode[error.errno])
    try:
        stream.send(b"x")
    except OSError as error:
        told.append(errno.errorcode[error.errno])
    return told


case("reset", reset)


def reset_events():
    stream = connected()
    stream.sendall(b"reset\n")
    ready(stream, 0)
    return ready(stream, select.POLLIN | select.POLLOUT)


case("events of a reset", reset_events)


def shut_reading():
    stream = connected()
    stream.shutdown(socket.SHUT_RD)
    return stream.recv(10)


case("shutdown of reading", shut_reading)
case("shutdown unconnected", lambda: socket.socket(*TCP).shutdown(socket.SHUT_WR))


# Descriptors
def duplicate():
    stream = connected()
    other = stream.dup()
    stream.sendall(b"both")
    stream.close()
    return whole(other, 4), other.getpeername()


case("dup", duplicate)


def inherited_flag():
    stream = connected()
    other = stream.dup()
    fcntl.fcntl(stream, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        os.read(other.fileno(), 1)
    except OSError as error:
        return errno.errorcode[error.errno], fcntl.fcntl(other, fcntl.F_GETFL) & os.O_NONBLOCK != 0


case("flags are the connection's", inherited_flag)


def over_another():
    stream, pipe = connected(), os.pipe()
    os.dup2(pipe[0], stream.fileno())
    os.write(pipe[1], b"pipe")
    return os.read(stream.fileno(), 10)


case("dup2 over a connection", over_another)


def refused_over():
    """What is refused closes nothing."""
    stream, epoll, null = connected(), select.epoll(), os.open("/dev/null", os.O_RDONLY)
    epoll.register(stream, select.EPOLLIN)
    told = [loud("dup2", 999, over) for over in (stream.fileno(), epoll.fileno())]
    told += [loud("dup3", null, over, 0o12345) for over in (stream.fileno(), epoll.fileno())]
    told += [loud("dup3", stream.fileno(), stream.fileno(), 0), loud("dup2", stream.fileno(), stream.fileno()) == stream.fileno()]
    stream.sendall(b"there")
    return told, len(epoll.poll(10)), whole(stream, 5)


case("dup2 refused", refused_over)


def low_numbers():
    """A program has all low numbers for itself, as shells with `exec 9<file` rely on."""
    stream, datagrams, null = connected(), socket.socket(*UDP), os.open("/dev/null", os.O_RDWR)
    datagrams.connect(ECHO)
    datagrams.settimeout(20)
    own = {stream.fileno(), datagrams.fileno(), null}
    numbers = [number for number in range(3, 200) if number not in own]
    told = {os.dup2(null, number) == number for number in numbers}
    stream.sendall(b"octets")
    datagrams.send(b"datagram")
    told = [told, whole(stream, 6), datagrams.recv(10)]
    for number in numbers:
        os.close(number)
    with connected() as another:
        another.sendall(b"more")
        return told, whole(another, 4)


case("low numbers are the program's", low_numbers)


def closed():
    stream = connected()
    os.close(os.dup(stream.fileno()))
    stream.sendall(b"open")
    return whole(stream, 4)


case("a duplicate is closed", closed)


# Options
def options():
    stream = connected()
    told = [stream.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_TYPE, socket.SO_DOMAIN, socket.SO_PROTOCOL, socket.SO_ACCEPTCONN, socket.SO_ERROR)]
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    told.append(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    told.append(stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    told.append(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1))
    return told


case("options", options)


def how_it_is():
    stream = connected()
    stream.sendall(b"0123456789")
    whole(stream, 10)
    info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 248)
    received, = struct.unpack_from("Q", info, 128)
    segment, = struct.unpack_from("I", info, 16)
    round_trip, = struct.unpack_from("I", info, 68)
    return info[0], received, 1000 < segment < 1500, round_trip > 0


case("TCP_INFO", how_it_is)


def chosen():
    stream = connected()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 30_000)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 30_000)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    stream.sendall(b"q" * 100)
    told = [stream.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
    return told, stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 5), len(whole(stream, 100))


case("buffers and congestion control", chosen)


def accepted_room():
    stream, _ = called_by_peer().accept()
    stream.setblocking(False)
    # SO_BUF_LOCK: nobody has chosen a size.
    return stream.getsockopt(socket.SOL_SOCKET, 72), stream.send(bytes(17000))


case("room of an accepted connection", accepted_room)


def more_to_come():
    stream = connected()
    told = [stream.send(b"be", socket.MSG_MORE), stream.send(b"gun ", socket.MSG_MORE), stream.send(b"and ended")]
    return told, whole(stream, 15)


case("MSG_MORE", more_to_come)
case("an option that is none", lambda: connected().setsockopt(socket.IPPROTO_TCP, 999, 1))
case("a value that is none", lambda: connected().setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 0))


def patience(direction):
    stream = socket.create_connection(ECHO)
    stream.setblocking(True)
    stream.setsockopt(socket.SOL_SOCKET, direction, struct.pack("ll", 0, 100_000))
    return stream.recv(1)


case("SO_RCVTIMEO", lambda: patience(socket.SO_RCVTIMEO))


# Waiting
def levels_and_edges():
    stream, told = nonblocking(), []
    level, edge, once = select.epoll(), select.epoll(), select.epoll()
    level.register(stream, select.EPOLLIN)
    edge.register(stream, select.EPOLLIN | select.EPOLLET)
    once.register(stream, select.EPOLLIN | select.EPOLLONESHOT)
    stream.send(b"some")
    for sets in level, edge, once, level, edge, once:
        told.append([mask for _, mask in sets.poll(0.2 if told and len(told) > 2 else 10)])
    once.modify(stream, select.EPOLLIN | select.EPOLLONESHOT)
    told.append([mask for _, mask in once.poll(10)])
    stream.recv(100)
    told.append([mask for _, mask in level.poll(0.1)])
    stream.send(b"more")
    told.append([mask for _, mask in edge.poll(10)])
    return told


case("levels, edges, one shot", levels_and_edges)


def mixed():
    stream, pipe, epoll = nonblocking(), os.pipe(), select.epoll()
    epoll.register(stream, select.EPOLLIN)
    epoll.register(pipe[0], select.EPOLLIN)
    os.write(pipe[1], b"x")
    first = [fd == pipe[0] for fd, _ in epoll.poll(10)]
    stream.send(b"y")
    until_readable(stream)
    both = sorted(fd == pipe[0] for fd, _ in epoll.poll(10))
    epoll.unregister(pipe[0])
    return first, both, [fd == stream.fileno() for fd, _ in epoll.poll(10)]


case("epoll of both kinds", mixed)


def closed_before():
    """A number is in a set with what it named before, which was closed."""
    stream, epoll, (read, write) = nonblocking(), select.epoll(), os.pipe()
    epoll.register(read, select.EPOLLIN)
    os.close(read)
    os.dup2(stream.fileno(), read)
    told = told_by(lambda: epoll.modify(read, select.EPOLLIN), lambda: epoll.unregister(read), lambda: epoll.register(read, select.EPOLLIN))
    stream.send(b"x")
    told += [len(epoll.poll(10)), *told_by(lambda: epoll.register(read, select.EPOLLIN), lambda: epoll.unregister(read))]
    os.close(read)
    return told


case("numbers that were in an epoll set before", closed_before)


def crowded(streams, pipes, places):
    """More descriptors are ready than one wait has places for, for as long as it takes: all of them have their turn."""
    epoll, all = select.epoll(), [nonblocking() for _ in range(streams)] + [os.pipe() for _ in range(pipes)]
    for each in all:
        read, write = each if isinstance(each, tuple) else (each.fileno(), each.fileno())
        epoll.register(read, select.EPOLLIN)
        os.write(write, b"x")
        until_readable(read)
    told = [epoll.poll(10, places) for _ in range(40)]
    return max(len(events) for events in told), len({fd for events in told for fd, _ in events})


case("epoll with few places", lambda: [crowded(*each) for each in ((1, 1, 1), (3, 1, 2), (1, 3, 1), (1, 4, 3), (9, 2, 3))])


def misused():
    stream, epoll, told = nonblocking(), select.epoll(), []
    for call in (lambda: epoll.modify(stream, 1), lambda: epoll.register(stream, 1), lambda: epoll.register(stream, 1), lambda: epoll.unregister(stream), lambda: epoll.unregister(stream)):
        try:
            told.append(call())
        except OSError as error:
            told.append(errno.errorcode[error.errno])
    return told


case("epoll misused", misused)


def registered_before():
    stream, epoll = socket.socket(*TCP), select.epoll()
    stream.setblocking(False)
    stream.connect_ex(ECHO)
    epoll.register(stream, select.EPOLLOUT | select.EPOLLIN)
    return [mask for _, mask in epoll.poll(10)]


case("registered while connecting", registered_before)


def selected():
    stream, pipe = connected(), os.pipe()
    nothing = select.select([stream, pipe[0]], [], [], 0)[0]
    writable = select.select([], [stream], [], 10)[1] == [stream]
    stream.send(b"x")
    return nothing, writable, select.select([stream, pipe[0]], [], [], 10)[0] == [stream]


case("select", selected)


def selected_by_number():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    stream, (read, write) = connected(), os.pipe()
    stream.sendall(b"x")
    os.write(write, b"x")
    until_readable(stream)
    low, high, pipe = stream.fileno(), fcntl.fcntl(stream, fcntl.F_DUPFD, 1500), fcntl.fcntl(read, fcntl.F_DUPFD, 1600)
    room = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("FDSize"))

    def by(count, *fds):
        # Bits that are beyond the table's room mean nothing.
        bits = bytearray(8192)
        bits[room // 8:] = b"\xff" * (8192 - room // 8)
        for fd in fds:
            bits[fd // 8] |= 1 << fd % 8
        sets = (ctypes.c_char * 8192).from_buffer(bits)
        told = loud("select", count, sets, None, None, ctypes.create_string_buffer(struct.pack("ll", 0, 100_000)))
        return told, [bits[fd // 8] >> fd % 8 & 1 for fd in fds], bits[room // 8:].count(0xff) == 8192 - room // 8

    told = [by(high + 1, high), by(high + 1, high, low), by(high, high, low), by(pipe + 1, high, low, pipe), by(pipe + 1, pipe)]
    told += [by(1 << 16, high, pipe), by(low + 1, low), by(-1, low), by(high + 1, low, 999)]
    stream.recv(1)
    told += [by(high + 1, high, low), by(pipe + 1, high, pipe)]
    os.close(high)
    os.close(pipe)
    return told


case("select of high numbers", selected_by_number)


def full():
    stream, sent = nonblocking(), 0
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        while sent < 1 << 28:
            sent += stream.send(b"x" * 65536)
    except BlockingIOError:
        blocked = ready(stream, select.POLLOUT, 100) == []
    drained = 0
    while drained < sent:
        until_readable(stream)
        drained += len(stream.recv(1 << 20))
    return sent > 0, drained == sent, ready(stream, select.POLLOUT)


case("full, and drained", full)


def interrupted():
    signal.signal(signal.SIGALRM, lambda *_: None)
    stream = connected()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    threading.Timer(0.4, stream.send, (b"later",)).start()
    return stream.recv(10)


case("a signal while waiting", interrupted)


def between_threads():
    stream, told = connected(), []
    reader = threading.Thread(target=lambda: told.append(stream.recv(10)))
    reader.start()
    time.sleep(0.1)
    stream.send(b"across")
    reader.join()
    return told


case("one thread reads, another writes", between_threads)


# Datagrams
def datagram(count):
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.sendto(b"d" * count, ECHO)
    got, peer = sock.recvfrom(70_000)
    return len(got), peer


for count in 0, 1, 1472, 1473, 9000:
    case(f"datagram of {count}", lambda: datagram(count))
case("datagram too long", lambda: socket.socket(*UDP).sendto(b"x" * 65_508, ECHO))
case("datagram to nowhere", lambda: socket.socket(*UDP).send(b"x"))


def cut():
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.connect(ECHO)
    told = []
    for _ in range(3):
        sock.send(b"0123456789")
    told.append(sock.recv(4))
    told.append(sock.recv(4, socket.MSG_PEEK))
    told.append(sock.recv_into(bytearray(4), 4, socket.MSG_TRUNC))
    got, _, flags, peer = sock.recvmsg(4)
    return told, got, flags, peer


case("datagrams cut", cut)


def in_parts():
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.connect(ECHO)
    told = [sock.send(b"be", socket.MSG_MORE), sock.send(b"gun ", socket.MSG_MORE), sock.send(b"and ended")]
    other = socket.socket(*UDP)
    other.settimeout(20)
    told.append(other.sendto(b"one ", socket.MSG_MORE, ECHO))
    told.append(other.sendto(b"datagram", ECHO))
    return told, sock.recv(100), other.recv(100)


case("a datagram in parts", in_parts)


def cut_into_several(by_message):
    SOL_UDP, UDP_SEGMENT = 17, 103
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.connect(ECHO)
    if by_message:
        sent = sock.sendmsg([b"x" * 150, b"y" * 100], [(SOL_UDP, UDP_SEGMENT, struct.pack("H", 100))])
    else:
        sock.setsockopt(SOL_UDP, UDP_SEGMENT, 100)
        sent = sock.send(b"x" * 150 + b"y" * 100)
    got = [sock.recv(1000) for _ in range(3)]
    return sent, [len(part) for part in got], b"".join(got) == b"x" * 150 + b"y" * 100


case("UDP_SEGMENT by option", lambda: cut_into_several(False))
case("UDP_SEGMENT by message", lambda: cut_into_several(True))


def unreachable():
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.connect(CLOSED)
    sock.send(b"x")
    try:
        sock.recv(10)
    except OSError as error:
        return errno.errorcode[error.errno]


case("port unreachable", unreachable)


def reconnected():
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.connect(CLOSED)
    sock.connect(ECHO)
    sock.send(b"second")
    return sock.recv(10), sock.getpeername()


case("connected again", reconnected)


def next_datagram():
    sock = socket.socket(*UDP)
    sock.settimeout(20)
    sock.connect(ECHO)
    sock.send(b"123")
    until_readable(sock)
    there = array.array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, there)
    return there[0], ready(sock, select.POLLIN | select.POLLOUT)


case("FIONREAD of a datagram", next_datagram)
case("bind twice", lambda: (lambda a: (a.bind(("", 0)), a.bind(("", 0))))(socket.socket(*UDP)))


def taken():
    first, second = socket.socket(*UDP), socket.socket(*UDP)
    first.bind(("", 0))
    second.bind(("", first.getsockname()[1]))


case("a port that is taken", taken)
case("an address of nobody's", lambda: socket.socket(*UDP).bind(("192.0.2.77", 0)))


# Listening
def listening():
    listener = socket.create_server(("", 0))
    port = listener.getsockname()[1]
    listener.setblocking(False)
    told = []
    try:
        listener.accept()
    except OSError as error:
        told.append(errno.errorcode[error.errno])
    told.append(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    near = socket.create_connection(("127.0.0.1", port))
    told.append(ready(listener, select.POLLIN))
    stream, peer = listener.accept()
    stream.send(b"near")
    told.append((near.recv(10), peer[0]))
    return told


case("a listener, by loopback", listening)
case("listen on a port that is taken", lambda: (lambda a: socket.create_server(("", a.getsockname()[1])))(socket.create_server(("", 0))))
