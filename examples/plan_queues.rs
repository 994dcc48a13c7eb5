//! Plan queues through the API: which filters a NIC needs, so that each flow arrives where a policy
//! wants it.
//!
//! Nothing here touches a device. `weever plan` does the same from files, and `weever steer` carries
//! plans out.
//!
//! ```sh
//! cargo run --example plan_queues
//! ```
#![forbid(unsafe_code)]

use std::error::Error;

use weever_plan::ethtool;
use weever_plan::nic::Nic;
use weever_plan::search::{Options, Plan, Search};

/// Two queues for the urgent traffic; the rest shares the other queues.
const POLICY: &str = r#"
    [[class]]
    name = "cache"
    match = "udp dst port 11211"
    queues = { exclusive = 2 }
"#;

const FLOWS: &str = "
    udp 10.0.0.1:4000 -> 10.0.0.9:11211
    udp 10.0.0.2:4000 -> 10.0.0.9:11211
    tcp 10.0.0.3:4000 -> 10.0.0.9:22
";

/// The plan, and the commands that would bring it onto `eth0`.
fn plan() -> Result<(Plan, Vec<String>), Box<dyn Error>> {
    // A model that ships; `weever_unicorn::load` reads one from a text. `linux_of` takes the
    // features that Linux exposes of the NIC, `of` all that it has.
    let nic = Nic::linux_of(&weever_models::nic("e810")?)?.with_queues(4)?;
    let mut policy =
        weever_policy::policy::parse(POLICY).map_err(|mistakes| mistakes.to_string())?;
    let list = weever_policy::flows::parse(FLOWS.as_bytes());
    let (mut flows, _) = policy.classify(list.flows);
    flows.extend(policy.standing_flows());

    let mut search = Search::new(nic, policy.cost_function(None), Options::default());
    search.run(flows);
    let plan = search.plan();
    let configuration = plan.configuration(search.nic().tables.len());
    let commands = ethtool::commands(search.nic(), &configuration, "eth0");
    Ok((plan, commands))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (plan, commands) = plan()?;
    for flow in &plan.flows {
        println!("{}: {:?}", flow.name, flow.placement);
    }
    for complaint in &plan.complaints {
        println!("the policy is not satisfied: {complaint}");
    }
    println!("{}", commands.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_cache_has_two_queues_of_its_own() {
        let (plan, commands) = super::plan().unwrap();
        assert!(plan.is_acceptable(), "{:?}", plan.complaints);
        let alone = plan.queues.iter().filter(|queue| !queue.other && queue.flows > 0.0);
        assert_eq!(alone.count(), 2, "{:?}", plan.queues);
        assert!(commands.iter().any(|line| line.contains("11211")), "{commands:?}");
    }
}
