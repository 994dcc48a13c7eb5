//! A program that was compiled with `_FORTIFY_SOURCE`, as distributions compile theirs: where it knows the size of a
//! buffer, it calls other functions, which check the length.

use std::io::{Read, Write};
use std::process::Command;

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, has};

/// Echoes datagrams, and two messages of each connection.
const SOURCE: &str = "
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int bound(int type) {
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(9100) };
    int fd = socket(AF_INET6, type, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) != 0) exit(1);
    return fd;
}

int main(int count, char **arguments) {
    int udp = bound(SOCK_DGRAM), listener = bound(SOCK_STREAM);
    if (count != 3 || listen(listener, 8) != 0) return 2;
    /* Known only as it runs: otherwise the compiler checks the lengths itself. */
    size_t most = strtoul(arguments[1], NULL, 10);
    nfds_t all = strtoul(arguments[2], NULL, 10);
    char octets[64];
    struct pollfd waits[2] = { { udp, POLLIN, 0 }, { listener, POLLIN, 0 } };
    for (int round = 0;; round++) {
        int ready = round % 2 ? ppoll(waits, all, NULL, NULL) : poll(waits, all, -1);
        if (ready < 1) return 3;
        if (waits[0].revents) {
            struct sockaddr_in6 peer;
            socklen_t len = sizeof peer;
            ssize_t got = recvfrom(udp, octets, most, 0, (struct sockaddr *)&peer, &len);
            if (got < 0 || sendto(udp, octets, (size_t)got, 0, (struct sockaddr *)&peer, len) != got) return 4;
        }
        if (waits[1].revents) {
            int stream = accept(listener, NULL, NULL);
            ssize_t got = recv(stream, octets, most, 0);
            if (got < 1 || send(stream, octets, (size_t)got, 0) != got) return 5;
            got = read(stream, octets, most);
            if (got < 1 || write(stream, octets, (size_t)got) != got) return 6;
            close(stream);
        }
    }
}
";

/// What such a program calls instead of the plain functions.
const CALLED: [&str; 5] =
    ["__poll_chk", "__ppoll_chk", "__recvfrom_chk", "__recv_chk", "__read_chk"];

#[test]
fn functions_that_check_lengths_are_weevers_too() {
    require_net_admin!();
    if !has("cc") {
        return;
    }
    let lab = Lab::new();
    let (source, program) = (lab.folder.join("fortified.c"), lab.folder.join("fortified"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-o"]);
    let compiled = compiler.arg(&program).arg(&source).output().unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    let octets = std::fs::read(&program).unwrap();
    let names = |name: &str| octets.windows(name.len()).any(|part| part == name.as_bytes());
    if !CALLED.iter().any(|name| names(name)) {
        return println!("skipped: this C library has no functions that check lengths");
    }
    for name in CALLED {
        assert!(names(name), "the program does not call {name}");
    }
    let mut server = lab.start(&[program.to_str().unwrap(), "64", "2"]);
    for to in BOTH {
        for message in [b"one", b"two"] {
            assert_eq!(lab.ask(&mut server, (to, 9100), message), message);
        }
        for _ in 0..2 {
            let mut stream = lab.connect(&mut server, to, 9100);
            for message in [b"one", b"two"] {
                stream.write_all(message).unwrap();
                let mut answer = [0; 3];
                let read = stream.read_exact(&mut answer);
                read.unwrap_or_else(|error| panic!("{to}: {error}; {}", server.told()));
                assert_eq!(&answer, message);
            }
        }
    }
}
