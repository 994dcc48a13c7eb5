#!/usr/bin/env python3
"""Does a flood over a veth pair silence the kernel's ICMPv6 in other network namespaces?

Makes three network namespaces: `left` and `right` with a cable between them, and `far` with a loopback only. Floods
`right` from `left` with ICMPv6 echo requests from sources of the link that do not exist, and asks meanwhile and
afterwards whether `ping ::1` is answered in `far`. Needs root and `ip`. With `--weever PATH`, that binary has the
left end and the flood goes to it from the right.
"""
import argparse, os, random, signal, socket, struct, subprocess, sys, tempfile, time

CLONE_NEWNET = 0x40000000
PROCESSORS = sorted(os.sched_getaffinity(0))


def run(*words):
    subprocess.run(words, check=True)


def in_new_namespace(work):
    """A child in a network namespace of its own, which runs `work` for each line that it is sent."""
    (get, put), (answer, say) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(put), os.close(answer)
        import ctypes
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            os._exit(1)
        run("ip", "link", "set", "lo", "up")
        os.write(say, b".")
        while os.read(get, 1):
            os.write(say, work().encode() + b"\n")
        os._exit(0)
    os.close(get), os.close(say)
    os.read(answer, 1)
    return child, lambda: (os.write(put, b"x"), os.read(answer, 4096).decode().strip())[1]


def ping_own():
    """Whether `::1` answers, and how many packets IPv6 has discarded on their way out."""
    raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    raw.settimeout(0.5)
    ident = random.randrange(65536)
    answered = []
    for cpu in PROCESSORS:
        os.sched_setaffinity(0, {cpu})
        try:
            raw.sendto(struct.pack("!BBHHH", 128, 0, 0, ident, cpu), ("::1", 0))
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                data = raw.recv(2048)
                if data[0] == 129 and struct.unpack("!HH", data[4:8]) == (ident, cpu):
                    answered.append(cpu)
                    break
        except OSError:
            pass
    counters = dict(line.split()[:2] for line in open("/proc/self/net/snmp6"))
    return f"::1 answers on processors {answered}, Ip6OutDiscards {counters['Ip6OutDiscards']}"


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo_request(src, dst, macs, size):
    message = struct.pack("!BBHHH", 128, 0, 0, 1, 1) + bytes(size)
    pseudo = src + dst + struct.pack("!II", len(message), 58)
    message = message[:2] + struct.pack("!H", checksum(pseudo + message)) + message[4:]
    return macs + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + src + dst + message


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--seconds", type=float, default=5)
    parse.add_argument("--size", type=int, default=1000)
    parse.add_argument("--sources", type=int, default=600)
    parse.add_argument("--queue", type=int, help="bytes that wait for an unresolved neighbour (unres_qlen_bytes)")
    parse.add_argument("--weever")
    args = parse.parse_args()
    left, at_left = in_new_namespace(ping_own)
    right, at_right = in_new_namespace(ping_own)
    far, at_far = in_new_namespace(ping_own)
    enter = lambda pid, *words: run("nsenter", f"--net=/proc/{pid}/ns/net", *words)
    enter(left, "ip", "link", "add", "left0", "type", "veth", "peer", "name", "right0", "netns", str(right))
    for pid, link, ip in ((left, "left0", "fd77::1/64"), (right, "right0", "fd77::2/64")):
        enter(pid, "ip", "link", "set", link, "address", "02:00:00:00:77:0" + ip[6])
        enter(pid, "ip", "-6", "addr", "add", ip, "dev", link, "nodad")
        enter(pid, "ip", "link", "set", link, "up")
        if args.queue is not None:
            name = f"net.ipv6.neigh.{link}.unres_qlen_bytes={args.queue}"
            enter(pid, "sysctl", "-qw", name)
    time.sleep(2)
    weever = None
    attacker, link, victim, macs = left, "left0", "fd77::2", "020000007702020000007701"
    if args.weever:
        state = tempfile.mkdtemp()
        config = os.path.join(state, "weever.toml")
        open(config, "w").write('dev = "left0"\nshare = "none"\naddr = "fd77::10/64"\n')
        words = ["nsenter", f"--net=/proc/{left}/ns/net", args.weever, "up", "-c", config, "--mode", "interrupt",
                 "--control", os.path.join(state, "sock"), "--state", state]
        weever = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(4)
        attacker, link, victim, macs = right, "right0", "fd77::10", "020000007701020000007702"
    print("before:", at_far())
    flood = os.fork()
    if flood == 0:
        fd = os.open(f"/proc/{attacker}/ns/net", os.O_RDONLY)
        import ctypes
        ctypes.CDLL(None).setns(fd, CLONE_NEWNET)
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind((link, 0))
        dst = socket.inet_pton(socket.AF_INET6, victim)
        prefix = socket.inet_pton(socket.AF_INET6, "fd77::")[:12]
        sources = [prefix + struct.pack("!I", 0x10000 + n) for n in range(args.sources)]
        frames = [echo_request(src, dst, bytes.fromhex(macs), args.size) for src in sources]
        end = time.monotonic() + args.seconds
        while time.monotonic() < end:
            for frame in frames:
                try:
                    out.send(frame)
                except OSError:
                    pass
        os._exit(0)
    for second in range(int(args.seconds)):
        time.sleep(1)
        print(f"flood, {second + 1} s:", at_far())
    os.waitpid(flood, 0)
    for wait in (0, 1, 2, 4, 8, 15):
        time.sleep(wait)
        print(f"after, {wait} s more:", at_far())
    print("right:", at_right())
    if weever:
        weever.send_signal(signal.SIGINT)
        weever.wait()
        print("weever ended:", at_far())
    for pid in (left, right, far):
        os.kill(pid, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
