# One case a line: its name and its result. Run on both stacks; the lines are compared.
import array, ctypes, errno, fcntl, os, resource, select, signal, socket, struct, sys, termios, threading, time

PEER, PEER6 = sys.argv[1:3]
ECHO = (PEER, 9100)
CLOSED = (PEER, 9)
LIBC = ctypes.CDLL(None, use_errno=True)
TCP = (socket.AF_INET, socket.SOCK_STREAM)
UDP = (socket.AF_INET, socket.SOCK_DGRAM)


def case(name, what):
    try:
        told = what()
    except OSError as error:
        told = errno.errorcode.get(error.errno, type(error).__name__)
    print(f"{name}: {told}", flush=True)


def connected():
    stream = socket.create_connection(ECHO, timeout=20)
    stream.settimeout(20)
    return stream


def nonblocking():
    stream = connected()
    stream.setblocking(False)
    return stream


def ready(stream, events, wait=10000):
    poll = select.poll()
    poll.register(stream, events)
    return [mask for _, mask in poll.poll(wait)]


def until_readable(stream):
    assert ready(stream, select.POLLIN), "nothing came"


def whole(stream, count):
    got = b""
    while len(got) < count:
        more = stream.recv(count - len(got))
        if not more:
            break
        got += more
    return got


def loud(call, *arguments):
    """A call of the C library by itself: Python would try again."""
    got = getattr(LIBC, call)(*arguments)
    return got if got >= 0 else errno.errorcode[ctypes.get_errno()]


def told_by(*calls):
    told = []
    for call in calls:
        try:
            told.append(call())
        except OSError as error:
            told.append(errno.errorcode.get(error.errno, type(error).__name__))
    return told


def called_by_peer():
    """A listener to which the peer connects, and the port of it."""
    listener = socket.create_server(("", 0))
    connected().sendall(b"call %d\n" % listener.getsockname()[1])
    return listener
