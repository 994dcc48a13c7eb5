//! A QUIC endpoint that knows nothing of weever (quinn), as server and as client, and the kernel's at the other end.
//!
//! This file is both ends: the test starts itself again on weever, as a program of its own.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, fs};

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use weever_testbed::{Fixture, require_net_admin};

use super::lab::{BOTH, Lab, PATIENCE, RIGHT6, has};

const PORT: u16 = 4433;
const NAME: &str = "quic.weever.test";
/// What the program on weever does: `serve`, or the address to ask.
const TASK: &str = "WEEVER_TEST_QUIC";
/// The longest stream, and the number of streams that a client opens at the same time.
const LONGEST: usize = 1 << 20;
const STREAMS: usize = 4;

/// Makes a certificate for the server, which the client trusts.
fn make_certificate(folder: &Path) {
    let config = format!(
        "[req]\ndistinguished_name=name\nx509_extensions=more\nprompt=no\n[name]\nCN={NAME}\n\
         [more]\nsubjectAltName=DNS:{NAME}\n"
    );
    fs::write(folder.join("request"), config).unwrap();
    let openssl = |args: &str| {
        let mut command = Command::new("openssl");
        command.args(args.split(' ')).current_dir(folder).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -outform DER -out \
         certificate -days 2 -config request",
    );
    openssl("pkcs8 -topk8 -nocrypt -in key.pem -outform DER -out key");
}

fn certificate(folder: &Path) -> CertificateDer<'static> {
    fs::read(folder.join("certificate")).unwrap().into()
}

fn server_config(folder: &Path) -> ServerConfig {
    let key = PrivatePkcs8KeyDer::from(fs::read(folder.join("key")).unwrap());
    ServerConfig::with_single_cert(vec![certificate(folder)], key.into()).unwrap()
}

/// Runs a task with an endpoint over a socket.
fn with_endpoint<T>(
    socket: UdpSocket,
    server: Option<ServerConfig>,
    task: impl AsyncFnOnce(Endpoint) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = EndpointConfig::default();
        task(Endpoint::new(config, server, socket, Arc::new(TokioRuntime)).unwrap()).await
    })
}

/// Answers each stream with its octets.
async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await.unwrap();
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    let octets = receive.read_to_end(LONGEST).await.unwrap();
                    send.write_all(&octets).await.unwrap();
                    send.finish().unwrap();
                });
            }
        });
    }
}

/// Sends a megabyte on each of some streams, and expects it back.
async fn ask(mut endpoint: Endpoint, to: SocketAddr, folder: &Path) {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(folder)).unwrap();
    endpoint
        .set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots)).unwrap());
    let connection = endpoint.connect(to, NAME).unwrap().await.unwrap();
    let exchange = async |number: usize| {
        let octets: Vec<u8> = (0..LONGEST).map(|at| (at * 31 + (at >> 9) + number) as u8).collect();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&octets).await.unwrap();
        send.finish().unwrap();
        let answer = receive.read_to_end(LONGEST).await.unwrap();
        assert!(answer == octets, "{} of {} octets", answer.len(), octets.len());
    };
    for number in 0..STREAMS {
        exchange(number).await;
    }
    connection.close(0u32.into(), b"done");
    endpoint.wait_idle().await;
}

fn any(family: IpAddr) -> SocketAddr {
    let any = if family.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    any.parse().unwrap()
}

/// The program on weever; started by the tests below.
#[test]
#[ignore = "a program that other tests start"]
fn program() {
    let task = env::var(TASK).expect("a task");
    let folder = env::current_dir().unwrap();
    if task == "serve" {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)).unwrap();
        return with_endpoint(socket, Some(server_config(&folder)), serve);
    }
    let to: SocketAddr = task.parse().unwrap();
    let socket = UdpSocket::bind(any(to.ip())).unwrap();
    with_endpoint(socket, None, async |endpoint| ask(endpoint, to, &folder).await);
}

/// This file's program, as arguments.
fn itself() -> [String; 5] {
    let this = env::current_exe().unwrap().to_str().unwrap().to_owned();
    [this, "run::quic::program".into(), "--exact".into(), "--ignored".into(), "--nocapture".into()]
}

#[test]
fn a_quic_server_on_weever_answers_the_kernels_clients() {
    require_net_admin!();
    if !has("openssl") {
        return;
    }
    let lab = Lab::new();
    make_certificate(&lab.folder);
    let task = format!("{TASK}=serve");
    let program = itself();
    let mut args = vec!["/usr/bin/env", &task];
    args.extend(program.iter().map(String::as_str));
    let mut server = lab.start(&args);
    lab.await_listed(&format!(":{PORT} "), 1);
    for to in BOTH {
        let socket = lab.net.right.run(|| UdpSocket::bind(any(to)).unwrap());
        let done = with_endpoint(socket, None, async |endpoint| {
            let asked = ask(endpoint, (to, PORT).into(), &lab.folder);
            tokio::time::timeout(PATIENCE, asked).await
        });
        done.unwrap_or_else(|late| panic!("{to}: {late}; {}", server.told()));
    }
}

#[test]
fn a_quic_client_on_weever_asks_the_kernels_server() {
    require_net_admin!();
    if !has("openssl") {
        return;
    }
    let lab = Lab::new();
    make_certificate(&lab.folder);
    let socket = lab.net.right.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)).unwrap());
    let config = server_config(&lab.folder);
    std::thread::spawn(move || with_endpoint(socket, Some(config), serve));
    for to in [IpAddr::from(Fixture::RIGHT), RIGHT6.into()] {
        let mut command = lab.command(&["--require", "--log", "--"]);
        command.args(itself()).env(TASK, SocketAddr::from((to, PORT)).to_string());
        let output = lab.net.left.run(|| command.output().unwrap());
        let told = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.contains("1 passed"), "{to}: {told}{errors}");
    }
}
