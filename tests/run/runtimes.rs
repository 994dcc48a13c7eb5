//! Servers that come as a runtime and a script: Node, Java, and nginx with TLS and with large files.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::process::{Command, Stdio};

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, PATIENCE, Program, has};

/// An address as it stands in a URL.
fn host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(four) => four.to_string(),
        IpAddr::V6(six) => format!("[{six}]"),
    }
}

/// A fetch by curl, on the kernel's stack at the other end.
fn curl(lab: &Lab, program: &mut Program, more: &[&str], url: &str) -> Vec<u8> {
    let mut command = Command::new("curl");
    let patience = PATIENCE.as_secs().to_string();
    command.args(["-gsS", "--retry", "60", "--retry-connrefused", "--retry-delay", "1"]);
    command.args(["-m", &patience]).args(more).arg(url).stdin(Stdio::null());
    let output = lab.net.right.run(|| command.output().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{url}: {errors}; {}", program.told());
    output.stdout
}

#[test]
fn nginx_speaks_tls() {
    require_net_admin!();
    if !has("nginx") || !has("curl") || !has("openssl") {
        return;
    }
    let lab = Lab::new();
    let content = lab.file("big", 3 << 20);
    let certificate = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "cert"])
        .args(["-days", "2", "-subj", "/CN=weever.test"])
        .current_dir(&lab.folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(certificate.status.success(), "{certificate:?}");
    let folder = lab.folder.display();
    let text = format!(
        "worker_processes 2; daemon off; user root; pid {folder}/pid; error_log {folder}/errors info;
         events {{ worker_connections 256; }}
         http {{ access_log off; sendfile on; server {{
           listen 443 ssl; listen [::]:443 ssl; root {folder};
           ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {folder}/cert; ssl_certificate_key {folder}/key; }} }}"
    );
    let config = lab.folder.join("nginx.conf");
    std::fs::write(&config, text).unwrap();
    let mut server = lab.start(&["nginx", "-c", config.to_str().unwrap()]);
    // The listeners of two workers, and the master's, which rest.
    lab.await_listed(" *:443 ", 6);
    for to in BOTH {
        let url = format!("https://{}/big", host(to));
        for version in ["--tlsv1.3", "--tls-max=1.2"] {
            let version: Vec<&str> = version.split('=').collect();
            let got = curl(&lab, &mut server, &[&["-k"], &version[..]].concat(), &url);
            assert!(got == content, "{url}: {} of {} octets", got.len(), content.len());
        }
    }
}

#[test]
fn nginx_serves_a_file_of_a_gigabyte() {
    const LEN: u64 = 1 << 30;
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::new();
    // A hole, but for its end.
    let mut file = std::fs::File::create(lab.folder.join("huge")).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(LEN - 3)).unwrap();
    file.write_all(b"end").unwrap();
    let folder = lab.folder.display();
    let text = format!(
        "worker_processes 1; daemon off; user root; pid {folder}/pid; error_log {folder}/errors info;
         events {{ worker_connections 256; }}
         http {{ access_log off; sendfile on; sendfile_max_chunk 1000m;
           server {{ listen 80; listen [::]:80; root {folder}; }} }}"
    );
    let config = lab.folder.join("nginx.conf");
    std::fs::write(&config, text).unwrap();
    let mut server = lab.start(&["nginx", "-c", config.to_str().unwrap()]);
    // The listeners of the worker, and the master's, which rest.
    lab.await_listed(" *:80 ", 4);
    let mut octets = vec![0; 1 << 20];
    for to in BOTH {
        let mut stream = lab.connect(&mut server, to, 80);
        write!(stream, "GET /huge HTTP/1.0\r\nHost: test\r\n\r\n").unwrap();
        let (mut len, mut end) = (0u64, Vec::new());
        loop {
            let got = stream.read(&mut octets);
            let got = got.unwrap_or_else(|e| panic!("{to}, {len}: {e}; {}", server.told()));
            if got == 0 {
                break;
            }
            len += got as u64;
            end.extend_from_slice(&octets[got.saturating_sub(3)..got]);
            end.drain(..end.len().saturating_sub(3));
        }
        assert!(len > LEN && end == b"end", "{to}: {len} octets, and the last are {end:?}");
    }
}

/// A server of HTTP and an echo of datagrams, by Node.
const NODE: &str = "
const http = require('http'), dgram = require('dgram'), net = require('net');
http.createServer((request, response) => {
  let body = [];
  request.on('data', part => body.push(part));
  request.on('end', () => response.end(Buffer.concat([Buffer.from('node '), ...body])));
}).listen(8080, '::');
net.createServer(socket => socket.pipe(socket)).listen(8081, '::');
const echo = dgram.createSocket('udp6');
echo.on('message', (data, peer) => echo.send(data, peer.port, peer.address));
echo.bind(8082);
";

#[test]
fn node_serves_http_streams_and_datagrams() {
    require_net_admin!();
    if !has("node") || !has("curl") {
        return;
    }
    let lab = Lab::new();
    let content = lab.file("body", 500_000);
    let body = format!("@{}", lab.folder.join("body").display());
    let mut server = lab.start(&["node", "-e", NODE]);
    for to in BOTH {
        let url = format!("http://{}:8080/", host(to));
        let got = curl(&lab, &mut server, &["--data-binary", &body], &url);
        assert!(got == [b"node ", &content[..]].concat(), "{url}: {} octets", got.len());
        let mut stream = lab.connect(&mut server, to, 8081);
        let mut other = stream.try_clone().unwrap();
        let sent = content.clone();
        let writer = std::thread::spawn(move || {
            other.write_all(&sent).unwrap();
            other.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        writer.join().unwrap();
        assert!(got == content, "{to}: {} of {} octets", got.len(), content.len());
        assert_eq!(lab.ask(&mut server, (to, 8082), b"datagram"), b"datagram");
    }
}

/// The JDK's own server of HTTP, which waits by a selector, with a pool of threads.
const JAVA: &str = r#"
import com.sun.net.httpserver.*;
import java.net.*;
import java.nio.*;
import java.nio.channels.*;
import java.util.concurrent.*;
public class Server {
  public static void main(String[] args) throws Exception {
    HttpServer server = HttpServer.create(new InetSocketAddress(8080), 0);
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.createContext("/", exchange -> {
      byte[] body = exchange.getRequestBody().readAllBytes();
      exchange.sendResponseHeaders(200, body.length);
      exchange.getResponseBody().write(body);
      exchange.close();
    });
    server.start();
    DatagramChannel echo = DatagramChannel.open().bind(new InetSocketAddress(8082));
    ByteBuffer data = ByteBuffer.allocate(65536);
    while (true) {
      data.clear();
      SocketAddress peer = echo.receive(data);
      data.flip();
      echo.send(data, peer);
    }
  }
}
"#;

#[test]
fn java_serves_http_and_datagrams() {
    require_net_admin!();
    if !has("java") || !has("curl") {
        return;
    }
    let lab = Lab::new();
    // Java uses IPv6 where the kernel's interfaces do.
    lab.net.left.speak_ipv6().unwrap();
    let content = lab.file("body", 500_000);
    let body = format!("@{}", lab.folder.join("body").display());
    std::fs::write(lab.folder.join("Server.java"), JAVA).unwrap();
    let mut server = lab.start(&["java", "-Xmx128m", "Server.java"]);
    for to in BOTH {
        let url = format!("http://{}:8080/", host(to));
        let got = curl(&lab, &mut server, &["--data-binary", &body], &url);
        assert!(got == content, "{url}: {} of {} octets", got.len(), content.len());
        assert_eq!(lab.ask(&mut server, (to, 8082), b"datagram"), b"datagram");
    }
}
