//! A stack inside this process, on a device, described by a line of text; the client is the kernel's.

use std::net::UdpSocket;
use std::time::Duration;

use weever_app_library::{QueueConfig, Stack};
use weever_app_sockets::Event;
use weever_testbed::{Fixture, require_net_admin};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_line_of_text_puts_the_stack_into_the_program() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let config = QueueConfig {
        path: "library:dev=left0,addr=10.77.0.10/24".into(),
        ..QueueConfig::default()
    };
    let client = net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(("10.77.0.10", 5353)).unwrap();
    net.left.run(move || {
        let stack = Stack::open(&config).unwrap();
        let queue = stack.queue().unwrap();
        queue.bind_udp("0.0.0.0:5353".parse().unwrap()).unwrap();
        for size in [0, 1, 1000, 4000] {
            client.send(&vec![7; size]).unwrap();
            let datagram = loop {
                if let Some(Event::Datagram(datagram)) = queue.next().unwrap() {
                    break datagram;
                }
                assert!(queue.wait(Some(PATIENCE)).unwrap(), "{size} bytes did not arrive");
            };
            assert_eq!(datagram.len(), size);
            datagram.reply().unwrap();
            queue.commit().unwrap();
            assert_eq!(client.recv(&mut [0; 5000]).unwrap(), size);
        }
        assert!(Stack::open(&config).is_err(), "the device has a stack already");
    });
}
