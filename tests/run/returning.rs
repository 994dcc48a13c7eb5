//! Programs that have changed their user come back when the stack was started anew.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::unistd::User;
use weever_testbed::{own_bpf_files, require_net_admin};

use super::lab::{BOTH, KERNELS, Lab, PATIENCE, Program, has};

const PYTHON: &str = "/usr/bin/python3";

/// Serves privileged ports by TCP and UDP, as nobody, in itself, in a child, in a child that it has as nobody, or with
/// another root.
const SERVER: &str = "\
import ctypes, os, select, socket, sys
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.bind(('::', 53))
listener = socket.create_server(('::', 80), family=socket.AF_INET6, dualstack_ipv6=True)
def only_in_a_child():
    if os.fork():
        udp.close()
        listener.close()
        os.wait()
        sys.exit()
if sys.argv[1] == 'child':
    only_in_a_child()
if sys.argv[1] == 'root':
    os.makedirs('root/tmp', exist_ok=True)
    os.chmod('root/tmp', 0o777)
    os.chroot('root')
    os.chdir('/')
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
assert os.getresuid() == (65534, 65534, 65534)
# As nginx does (PR_SET_DUMPABLE): others of its user could read its memory (PR_GET_DUMPABLE).
library = ctypes.CDLL(None)
assert library.prctl(4, 1, 0, 0, 0) == 0
assert library.prctl(3, 0, 0, 0, 0) != 1
if sys.argv[1] == 'later':
    only_in_a_child()
streams = []
while True:
    for ready in select.select([udp, listener] + streams, [], [])[0]:
        try:
            if ready is listener:
                streams.append(listener.accept()[0])
            elif ready is udp:
                data, peer = udp.recvfrom(1000)
                udp.sendto(data, peer)
            elif data := ready.recv(1000):
                ready.sendall(data)
            else:
                raise OSError
        except OSError:
            if ready in streams:
                streams.remove(ready)
                ready.close()
";

fn answers(lab: &Lab, server: &mut Program, addresses: [IpAddr; 2]) {
    for to in addresses {
        let mut stream = lab.connect(server, to, 80);
        stream.write_all(b"by a stream").unwrap();
        let mut answer = [0; 11];
        let heard = stream.read_exact(&mut answer);
        heard.unwrap_or_else(|error| panic!("{to}: {error}; {}", server.told()));
        assert_eq!(&answer, b"by a stream");
        assert_eq!(lab.ask(server, (to, 53), b"a datagram"), b"a datagram");
    }
}

#[test]
fn a_server_that_became_nobody_has_its_privileged_ports_at_the_next_stacks() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    for process in ["itself", "child", "later", "root"] {
        let mut lab = Lab::new();
        let mut server = lab.start(&[PYTHON, "-c", SERVER, process]);
        for _ in 0..2 {
            answers(&lab, &mut server, BOTH);
            lab.restart();
        }
        answers(&lab, &mut server, BOTH);
        lab.await_listed(":80 ", 1);
    }
}

#[test]
fn a_child_of_such_a_server_is_no_weaker_where_the_stack_admits_nobody() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::with(&["--apps-users", "65534"]);
    let mut server = lab.start(&[PYTHON, "-c", SERVER, "later"]);
    answers(&lab, &mut server, BOTH);
}

#[test]
fn such_a_server_has_its_ports_of_the_kernels_addresses_again() {
    require_net_admin!();
    if !has("python3") || own_bpf_files().is_err() {
        return println!("skipped: needs python3 and a BPF file system");
    }
    let mut lab = Lab::sharing_ports();
    let mut server = lab.start(&[PYTHON, "-c", SERVER, "itself"]);
    answers(&lab, &mut server, KERNELS);
    lab.kill_stack();
    lab.share_ports();
    lab.await_listed(":80 ", 1);
    answers(&lab, &mut server, KERNELS);
}

/// Debian's nginx: its master is root's and does not serve, its workers are another user's, whom the stack does not admit.
#[test]
fn an_nginx_with_workers_of_another_user_serves_the_next_stacks_clients() {
    require_net_admin!();
    if !has("nginx") || User::from_name("www-data").unwrap().is_none() {
        return println!("skipped: needs nginx and the user www-data");
    }
    let mut lab = Lab::new();
    let content = lab.file("page", 300_000);
    let folder = lab.folder.display();
    let text = format!(
        "user www-data; worker_processes 2; daemon off; pid {folder}/pid;
         error_log {folder}/errors info; events {{ worker_connections 64; }}
         http {{ access_log off; server {{ listen 80; listen [::]:80; root {folder}; }} }}"
    );
    let config = lab.folder.join("nginx.conf");
    std::fs::write(&config, text).unwrap();
    let mut server = lab.start(&["nginx", "-c", config.to_str().unwrap()]);
    for _ in 0..2 {
        for to in BOTH {
            assert_eq!(lab.get(&mut server, to, 80, "/page").1, content);
        }
        lab.restart();
    }
    for to in BOTH {
        assert_eq!(lab.get(&mut server, to, 80, "/page").1, content);
    }
}

/// Debian's haproxy: it changes its root and its user.
#[test]
fn an_haproxy_with_another_root_serves_the_next_stacks_clients() {
    require_net_admin!();
    if !has("haproxy") {
        return;
    }
    let mut lab = Lab::new();
    let folder = lab.folder.display();
    std::fs::create_dir(lab.folder.join("root")).unwrap();
    let text = format!(
        "global\n chroot {folder}/root\n user nobody\n group nogroup\n
         defaults\n mode http\n timeout connect 20s\n timeout client 60s\n timeout server 60s\n
         frontend it\n bind :::80 v4v6\n http-request return status 200 content-type text/plain string there\n"
    );
    let config = lab.folder.join("haproxy.cfg");
    std::fs::write(&config, text).unwrap();
    let mut server = lab.start(&["haproxy", "-f", config.to_str().unwrap()]);
    for _ in 0..2 {
        for to in BOTH {
            assert_eq!(lab.get(&mut server, to, 80, "/").1, b"there", "{}", server.told());
        }
        lab.restart();
    }
    for to in BOTH {
        assert_eq!(lab.get(&mut server, to, 80, "/").1, b"there", "{}", server.told());
    }
}

/// Listens where the stack's programs show their credentials, by the abstract name and by a path in their root, and writes
/// what it is sent.
const SQUATTER: &str = "\
import os, select, socket, sys
all = []
for name in ['\\0weever:' + sys.argv[1] + '.return', 'root' + sys.argv[1] + '.return']:
    all.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    all[-1].bind(name)
    all[-1].listen()
open('squats', 'w').close()
came = set()
while True:
    for place in select.select(all, [], [])[0]:
        stream = place.accept()[0]
        with open('shown', 'ab', 0) as shown:
            shown.write(stream.recv(10000))
        came.add(place)
        if len(came) == 2:
            open('asked', 'w').close()
";

#[test]
fn a_credential_is_shown_to_nobody_who_listens_in_the_stacks_place() {
    require_net_admin!();
    if !has("python3") || !has("setpriv") {
        return;
    }
    let mut lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", SERVER, "root"]);
    answers(&lab, &mut server, BOTH);
    lab.kill_stack();
    std::fs::set_permissions(&lab.folder, PermissionsExt::from_mode(0o777)).unwrap();
    let mut squatter = Command::new("setpriv");
    squatter.args(["--reuid", "65534", "--clear-groups", PYTHON, "-c", SQUATTER]).arg(lab.path());
    squatter.current_dir(&lab.folder);
    let mut squatter = lab.net.left.run(|| squatter.spawn().unwrap());
    let since = Instant::now();
    while !lab.folder.join("asked").exists() {
        let (ended, told) = (squatter.try_wait().unwrap(), server.told());
        assert!(since.elapsed() < PATIENCE && ended.is_none(), "{ended:?}; {told}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(std::fs::read(lab.folder.join("shown")).unwrap(), b"", "a secret was shown");
    squatter.kill().unwrap();
    squatter.wait().unwrap();
    lab.restart();
    answers(&lab, &mut server, BOTH);
    assert_eq!(std::fs::read(lab.folder.join("shown")).unwrap(), b"");
}
