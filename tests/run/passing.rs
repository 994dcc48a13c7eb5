//! Connections that are accepted in one process and used in another.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, PATIENCE, Program, has};

const PYTHON: &str = "/usr/bin/python3";

/// Reads three octets of each connection and leaves it to a child, which answers with the rest in capitals. With `wait`
/// the parent keeps its descriptor until the child has ended.
const FORKS: &str = "
import os, socket, sys
listener = socket.create_server(('::', 9100), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    stream = listener.accept()[0]
    first = stream.recv(3)
    child = os.fork()
    if child == 0:
        listener.close()
        while data := stream.recv(100000):
            stream.sendall(data.upper())
        stream.sendall(first)
        os._exit(0)
    if sys.argv[1] == 'wait':
        os.waitpid(child, 0)
    stream.close()
";

fn converse(lab: &Lab, server: &mut Program, to: IpAddr) {
    let mut stream = lab.connect(server, to, 9100);
    stream.write_all(b"abcdef").unwrap();
    stream.write_all(&[b'x'; 20_000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    let read = stream.read_to_end(&mut all);
    read.unwrap_or_else(|error| panic!("{error} after {}; {}", all.len(), server.told()));
    let expected = [&b"DEF"[..], &[b'X'; 20_000], b"abc"].concat();
    assert!(all == expected, "{} octets; {}", all.len(), server.told());
}

#[test]
fn a_child_uses_what_its_parent_has_accepted() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    for mode in ["leave", "wait"] {
        let mut server = lab.start(&[PYTHON, "-c", FORKS, mode]);
        for to in BOTH {
            for _ in 0..4 {
                converse(&lab, &mut server, to);
            }
        }
        // The stack knows of its end before the next one's clients come.
        drop(server);
        lab.await_listed("listening", 0);
    }
}

/// The child answers first, then the parent, in turns, by one connection; the last one is a third program.
const TURNS: &str = "
import os, socket, sys
listener = socket.create_server(('::', 9100), family=socket.AF_INET6, dualstack_ipv6=True)
stream = listener.accept()[0]
def turn(name):
    data = b''
    while not data.endswith(b'.'):
        data += stream.recv(1)
    stream.sendall(name + data)
ours, theirs = os.pipe(), os.pipe()
if os.fork() == 0:
    for _ in range(5):
        turn(b'child:')
        os.write(ours[1], b'x')
        os.read(theirs[0], 1)
    os._exit(0)
for _ in range(5):
    os.read(ours[0], 1)
    turn(b'parent:')
    os.write(theirs[1], b'x')
os.wait()
os.dup2(stream.fileno(), 0)
os.dup2(0, 1)
stream.close()
os.execvp('cat', ['cat'])
";

#[test]
fn processes_use_a_connection_in_turns_and_the_next_program_keeps_it() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", TURNS]);
    let mut stream = lab.connect(&mut server, BOTH[0], 9100);
    // All sent at once: each process reads the part for its turn, and leaves the rest.
    let words: Vec<String> = (0..10).map(|number| format!("word{number}.")).collect();
    stream.write_all(words.concat().as_bytes()).unwrap();
    let turn = |(number, word)| format!("{}:{word}", ["child", "parent"][number % 2]);
    let expected = words.iter().enumerate().map(turn).collect::<String>();
    let mut all = vec![0; expected.len()];
    let read = stream.read_exact(&mut all);
    read.unwrap_or_else(|error| panic!("{error} after {all:?}; {}", server.told()));
    assert_eq!(String::from_utf8_lossy(&all), expected);
    stream.write_all(b"and cat\n").unwrap();
    let mut line = [0; 8];
    let read = stream.read_exact(&mut line);
    read.unwrap_or_else(|error| panic!("{error}; {}", server.told()));
    assert_eq!(&line, b"and cat\n");
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"", "the last holder has ended");
}

/// A parent that accepts, reads a little, and sends the connections to a child which it has had before.
const SENDS: &str = "
import os, socket
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
if os.fork() == 0:
    ours.close()
    while True:
        first, fds, flags, _ = socket.recv_fds(theirs, 100, 4)
        assert len(fds) == 2 and flags & socket.MSG_CTRUNC == 0, (fds, flags)
        os.close(fds[1])
        stream = socket.socket(fileno=fds[0])
        while data := stream.recv(100000):
            stream.sendall(data.upper())
        stream.sendall(first)
        stream.close()
listener = socket.create_server(('::', 9100), family=socket.AF_INET6, dualstack_ipv6=True)
plain = os.open('/dev/null', os.O_RDONLY)
while True:
    stream = listener.accept()[0]
    socket.send_fds(ours, [stream.recv(3)], [stream.fileno(), plain])
    stream.close()
";

#[test]
fn a_connection_is_sent_to_another_process() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", SENDS]);
    for _ in 0..5 {
        for to in BOTH {
            converse(&lab, &mut server, to);
        }
    }
}

#[test]
fn dnsmasq_answers_by_tcp() {
    require_net_admin!();
    if !has("dnsmasq") {
        return;
    }
    let lab = Lab::new();
    let options = ["-k", "-p", "5301", "--no-resolv", "--no-hosts", "--user=root", "--pid-file="];
    // For TCP it looks for an interface with the address to which the client connected, unless it is
    // bound to that address.
    let bound = BOTH.map(|to| format!("--listen-address={to}"));
    let address = "--address=/a.weever.test/192.0.2.7";
    let args = [&["dnsmasq"], &options[..], &["--bind-interfaces", address, &bound[0], &bound[1]]];
    let mut server = lab.start(&args.concat());
    let question = b"\xab\xcd\x01\0\0\x01\0\0\0\0\0\0\x01a\x06weever\x04test\0\0\x01\0\x01";
    for to in [BOTH, BOTH].concat() {
        let mut stream = lab.connect(&mut server, to, 5301);
        let len = (question.len() as u16).to_be_bytes();
        for _ in 0..3 {
            stream.write_all(&[&len[..], question].concat()).unwrap();
            let mut len = [0; 2];
            let read = stream.read_exact(&mut len);
            read.unwrap_or_else(|error| panic!("{to}: {error}; {}", server.told()));
            let mut answer = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut answer).unwrap();
            assert!(answer.ends_with(&[0, 4, 192, 0, 2, 7]), "{to}: {answer:?}");
        }
    }
}

/// The number of a user and of its group.
fn user(name: &str) -> Option<(u32, u32)> {
    let all = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut words = all.lines().find_map(|line| line.strip_prefix(&format!("{name}:")))?.split(':');
    words.next();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Where Debian puts PostgreSQL's programs.
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    programs.filter(|folder| folder.join("initdb").exists()).max()
}

#[test]
fn postgresql_serves_each_connection_in_a_child() {
    require_net_admin!();
    let (Some(programs), Some((uid, gid))) = (postgres(), user("postgres")) else {
        eprintln!("skipped: needs postgresql");
        return;
    };
    if !has("psql") || !has("setpriv") {
        return;
    }
    let lab = Lab::with(&["--apps-users", &uid.to_string()]);
    let data = lab.folder.join("data");
    std::fs::create_dir(&data).unwrap();
    chown(&data, Some(uid), Some(gid)).unwrap();
    let (uid, gid) = (uid.to_string(), gid.to_string());
    let path = |name: &str| programs.join(name).to_str().unwrap().to_owned();
    let as_user = ["--reuid", &uid, "--regid", &gid, "--clear-groups"];
    let mut init = Command::new("setpriv");
    init.args(as_user).arg(path("initdb")).arg("-D").arg(&data);
    let made = init.args(["-A", "trust", "-U", "postgres", "--no-sync"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let rules = "host all all 0.0.0.0/0 trust\nhost all all ::/0 trust\n";
    std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    let data = data.to_str().unwrap();
    let server = path("postgres");
    let options = ["-D", data, "-c", "listen_addresses=*", "-c", "unix_socket_directories="];
    let mut server = lab.start(&[&["setpriv"], &as_user[..], &[&server], &options].concat());
    for to in BOTH {
        drop(lab.connect(&mut server, to, 5432));
        let text = "select count(*), sum(length(b)) from (select repeat(i::text, 1000) b from \
                    generate_series(1, 2000) i) t; select repeat('z', 3000000)";
        let to = to.to_string();
        let ask = || {
            let mut client = Command::new("psql");
            client.args(["-h", &to, "-U", "postgres", "-d", "postgres", "-Atc", text]);
            client.env("PGCONNECT_TIMEOUT", "20");
            lab.net.right.run(|| client.output().unwrap())
        };
        let since = Instant::now();
        // It says that it is starting up for a while.
        let answer = loop {
            let answer = ask();
            if answer.status.success() || since.elapsed() > PATIENCE {
                break answer;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        let told = String::from_utf8_lossy(&answer.stdout);
        assert!(answer.status.success(), "{to}: {answer:?}; {}", server.told());
        assert!(told.starts_with("2000|6893000\n"), "{}", &told[..told.len().min(100)]);
        assert!(told.lines().nth(1).is_some_and(|line| line.len() == 3_000_000));
    }
}

/// `ssh` or `sftp` with this key, from the other host.
fn client(lab: &Lab, program: &str, more: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(program);
    command.args(["-q", "-F", "/dev/null", "-i"]).arg(lab.folder.join("key"));
    for option in [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "ConnectTimeout=20",
        "BatchMode=yes",
    ] {
        command.args(["-o", option]);
    }
    command.args(more).current_dir(&lab.folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = lab.net.right.run(|| command.spawn().unwrap());
    let mut to = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || to.write_all(input));
        child.wait_with_output().unwrap()
    })
}

#[test]
fn sshd_serves_sessions_in_sandboxed_and_unprivileged_children() {
    require_net_admin!();
    if !["sshd", "ssh", "sftp", "ssh-keygen"].into_iter().all(has) {
        return;
    }
    let lab = Lab::new();
    for name in ["host", "key"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(lab.folder.join(name));
        assert!(keygen.status().unwrap().success());
    }
    // sshd wants it to be there; the package's service makes it.
    std::fs::create_dir_all("/run/sshd").unwrap();
    // The unprivileged user reads the keys, and writes.
    std::fs::set_permissions(&lab.folder, PermissionsExt::from_mode(0o777)).unwrap();
    let folder = lab.folder.display();
    let config = format!(
        "Port 2222\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/key.pub\nPidFile none\n\
         UsePAM no\nStrictModes no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
    );
    std::fs::write(lab.folder.join("sshd_config"), config).unwrap();
    let content = lab.file("ten", 10_000_000);
    let config = lab.folder.join("sshd_config");
    let program = ["/usr/sbin/sshd", "-D", "-e", "-f", config.to_str().unwrap()];
    let mut server = lab.start(&program);
    for to in BOTH {
        drop(lab.connect(&mut server, to, 2222));
        let at = format!("root@{to}");
        let ssh = |command: &str, input: &[u8]| {
            let done = client(&lab, "ssh", &["-p", "2222", &at, command], input);
            let errors = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{to}, {command}: {errors}");
            done.stdout
        };
        assert_eq!(ssh("echo $((6 * 7))", b""), b"42\n", "{}", server.told());
        assert!(ssh(&format!("cat {folder}/ten"), b"") == content, "down; {}", server.told());
        ssh(&format!("cat > {folder}/up"), &content);
        assert!(std::fs::read(lab.folder.join("up")).unwrap() == content, "up");
    }
    if user("nobody").is_none() {
        return;
    }
    // The session's process is that user's.
    for (number, to) in BOTH.into_iter().enumerate() {
        let batch = format!("get {folder}/ten back\nput back {folder}/by-nobody-{number}\n");
        let at = if to.is_ipv4() { format!("nobody@{to}") } else { format!("nobody@[{to}]") };
        let done = client(&lab, "sftp", &["-b", "-", "-P", "2222", &at], batch.as_bytes());
        assert!(done.status.success(), "{to}: {done:?}; {}", server.told());
        let put = std::fs::read(lab.folder.join(format!("by-nobody-{number}"))).unwrap();
        assert!(put == content, "{to}");
    }
}

#[test]
fn a_connection_ends_with_its_last_holder_even_if_nobody_has_used_it() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let script = "
import os, socket
listener = socket.create_server(('0.0.0.0', 9100))
while True:
    stream = listener.accept()[0]
    stream.recv(1)
    if os.fork() == 0:
        os._exit(0)
    stream.close()
    os.wait()
";
    let mut server = lab.start(&[PYTHON, "-c", script]);
    for _ in 0..5 {
        let mut stream = lab.connect(&mut server, BOTH[0], 9100);
        stream.write_all(b"x").unwrap();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        read.unwrap_or_else(|error| panic!("{error}; {}", server.told()));
    }
}
