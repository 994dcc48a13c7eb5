//! `weever plan --nic auto`: a device as it is.

use std::path::PathBuf;

use clap::Parser;
use weever_commands_plan::{PlanArgs, make};
use weever_testbed::{Fixture, require_net_admin};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: PlanArgs,
}

#[test]
fn a_device_without_rules_is_planned_for_by_the_program_and_one_that_is_not_there_is_named() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    let flows = std::env::temp_dir().join(format!("weever-plan-auto-{}", std::process::id()));
    std::fs::write(&flows, "udp dst port 53\n").unwrap();
    let plan = |dev: &str| {
        let flows: &PathBuf = &flows;
        let words = ["weever", "--nic", "auto", "--dev", dev, "--flows"];
        let words = words.into_iter().map(Into::into).chain([flows.clone().into_os_string()]);
        let args = Line::try_parse_from(words).unwrap().args;
        net.left.run(|| make(&args).map_err(|error| error.to_string()))
    };
    let text = plan("left0").unwrap().text;
    assert!(text.starts_with("Xdp (all that it can do), 256 queues"), "{text}");
    let error = plan("right0").unwrap_err();
    assert!(error.contains("`right0`"), "{error}");
    std::fs::remove_file(&flows).unwrap();
}
