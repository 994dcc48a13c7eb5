//! The host's graph behind each queue of a plan.

use std::path::PathBuf;

use weever_commands_plan::{Format, PlanArgs, make};

/// A flow that gets a queue of its own on `xdp`.
fn args(name: &str) -> PlanArgs {
    let folder = std::env::temp_dir().join(format!("weever-graphs-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |file: &str, text: &str| {
        let path: PathBuf = folder.join(file);
        std::fs::write(&path, text).unwrap();
        path
    };
    let flows = write("flows", "udp *:* -> 10.0.0.1:11211\n");
    let policy = write(
        "policy",
        "objective = \"balance\"\n[[class]]\nname = \"cache\"\nmatch = \"udp dst port 11211\"\n\
         queues = { exclusive = 1 }\n",
    );
    PlanArgs {
        nic: "xdp".into(),
        queues: Some(2),
        flows,
        policy: Some(policy),
        linux: false,
        silicon: false,
        format: Format::Json,
        explain: false,
        graphs: true,
        graph: None,
        dev: "eth0".into(),
        rss_key: None,
        seed: 0,
        keep_going: false,
        output: None,
    }
}

#[test]
fn a_queue_of_one_flow_needs_less_than_the_rest() {
    let made = make(&args("json")).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&made.text).unwrap();
    let graphs = plan["graphs"].as_array().unwrap();
    let steps = |graph: &serde_json::Value, when: &str| graph[when]["steps"].as_u64().unwrap();
    assert_eq!(graphs.len(), 2, "{plan:#}");
    let cache = graphs.iter().find(|g| !g["foreign"].as_array().unwrap().is_empty()).unwrap();
    assert!(steps(cache, "after") * 4 < steps(cache, "before") * 3, "{cache:#}");
    let queue = cache["queue"].as_u64().unwrap() as u32;
    let shown = |queue, format| {
        make(&PlanArgs { graph: Some(queue), graphs: false, format, ..args("one") })
            .map(|made| made.text)
    };
    let text = shown(queue, Format::Text).unwrap();
    assert!(text.contains("RxL4UDPSockets") && text.contains("RxForeign"), "{text}");
    assert!(!text.contains("RxL3ARPClassify") && !text.contains("RxL3ICMPClassify"), "{text}");
    assert!(shown(1 - queue, Format::Text).unwrap().contains("RxL3ARPClassify"));
    assert!(shown(queue, Format::Svg).unwrap().starts_with("<svg"));
    let error = shown(7, Format::Text).unwrap_err().to_string();
    assert_eq!(error, "nothing arrives at queue 7; there are graphs of queues 0, 1");
}

#[test]
fn the_table_for_people_has_a_line_for_each_queue() {
    let made = make(&PlanArgs { format: Format::Text, ..args("text") }).unwrap();
    let (_, table) = made.text.split_once("the host's graph behind each queue:").unwrap();
    assert_eq!(table.trim().lines().take_while(|l| !l.is_empty()).count(), 3, "{}", made.text);
}

#[test]
fn what_a_device_does_on_every_frame_is_not_in_the_graphs() {
    let args = |nic: &str, format| PlanArgs { nic: nic.into(), format, ..args("work") };
    let shown = |nic: &str| {
        let one = PlanArgs { graph: Some(0), graphs: false, ..args(nic, Format::Text) };
        make(&one).unwrap().text
    };
    // A device on Ethernet delivers no frames that end inside their tag.
    let (physical, virtual_) = (shown("connectx5"), shown("ena"));
    let node = "RxL2EtherValidLength";
    assert!(!physical.contains(node) && virtual_.contains(node), "{physical}");
    // This one also records where the headers are.
    assert!(physical.contains("RxL2EtherClassified"), "{physical}");
    // What it says packet by packet leaves the node to the others.
    assert!(physical.contains("RxL4UDPValidChecksum"), "{physical}");
    let text = make(&args("connectx5", Format::Text)).unwrap().text;
    let work = "the work of ConnectX5:\n\
                holds of all that is received: not(frame.len in 0-55)\n\
                of packets that it says so of: pred('tcp.checksum',right), pred('udp.checksum',right)\n\
                filled in when sent: pred('tcp.checksum',right), pred('udp.checksum',right)\n\
                features that have to be on: rx-checksum\n";
    assert!(text.contains(work), "{text}");
    let json = make(&args("ena", Format::Json)).unwrap().text;
    let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(plan["work"]["features"][0], "rx-checksum");
}
