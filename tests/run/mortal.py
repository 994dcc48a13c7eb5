# Makes one program after the other, each with threads and a child, for a test that kills them at any moment. It has no
# sockets itself. A line on standard input says what to do: `new` starts one and prints its number, `end` waits for it.
import encodings.idna  # not while threads run and a child is made
import os
import socket
import sys
import threading

PORT = 9000
PEER = ('10.77.0.2', 9100)


def datagrams(udp):
    while True:
        data, peer = udp.recvfrom(10000)
        udp.sendto(data, peer)


def serve(stream):
    try:
        while data := stream.recv(100000):
            stream.sendall(data)
    except OSError:
        pass
    stream.close()


def connections(listener):
    while True:
        stream = listener.accept()[0]
        threading.Thread(target=serve, args=(stream,), daemon=True).start()


# Connections of its own, made and closed.
def calls():
    while True:
        try:
            with socket.create_connection(PEER) as stream:
                stream.sendall(b'x' * 5000)
                stream.recv(1000)
        except OSError:
            pass


def begin(*works):
    for target, args in works:
        threading.Thread(target=target, args=args, daemon=True).start()


def program():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(('0.0.0.0', PORT))
    listener = socket.create_server(('0.0.0.0', PORT), backlog=50)
    begin((datagrams, (udp,)), (connections, (listener,)), (calls, ()))
    # With the threads at work, and perhaps connections that its parent has.
    if os.fork() == 0:
        begin((connections, (listener,)), (calls, ()))
        datagrams(udp)
    datagrams(udp)


for line in sys.stdin:
    if line == 'new\n':
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            program()
        print(child, flush=True)
    else:
        os.waitpid(child, 0)
        print('ended', flush=True)
