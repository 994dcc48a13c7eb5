use std::path::Path;

use weever_service_api::settings::{Default as Unset, Kind, TABLE, find};

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::try_from(Settings::parse(Path::new("weever.toml"), text)?)
}

/// A message without its place, which must be in the file.
fn without_place(message: &str) -> &str {
    let rest =
        message.strip_prefix("weever.toml:").unwrap_or_else(|| panic!("no place: {message}"));
    rest.split_once(": ").unwrap().1
}

fn complaint(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

const GOOD: &str = "dev = \"eth0\"\naddr = \"192.0.2.10/24\"\n";

fn complaint_after_good(text: &str) -> String {
    complaint(&format!("{GOOD}{text}"))
}

#[test]
fn the_least_that_works_has_the_defaults() {
    let config = parse(GOOD).unwrap();
    assert_eq!(config, Config::new("eth0", "192.0.2.10/24".parse().unwrap()));
    assert_eq!(
        (config.interfaces[0].share, config.mode, config.probe),
        (Share::Address, Mode::Adaptive, true)
    );
    assert_eq!(config.services, Services::default());
}

#[test]
fn the_example_with_and_without_what_it_leaves_out_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weever.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    Config::try_from(Settings::parse(&path, &text).unwrap()).unwrap();
    // With every line uncommented, it must still be valid: and every setting is read.
    let is_setting = |line: &str| line.starts_with("#") && !line.starts_with("# ") && line != "#";
    let uncommented: Vec<&str> =
        text.lines().map(|l| if is_setting(l) { &l[1..] } else { l }).collect();
    let full = Settings::parse(&path, &uncommented.join("\n")).unwrap();
    assert!(full.top.has("gateway") && full.top.has("cores") && full.top.has("pool.frames"));
    assert!(!full.tables("route").is_empty() && !full.tables("neighbour").is_empty());
    Config::try_from(full).unwrap();
}

#[test]
fn a_default_that_is_written_changes_nothing() {
    let plain = parse(GOOD).unwrap();
    for setting in TABLE {
        let Unset::Value(default) = setting.default else { continue };
        let value = if setting.kind.is_text() { format!("{default:?}") } else { default.into() };
        let config = parse(&format!("{} = {value}\n{GOOD}", setting.key)).unwrap();
        assert_eq!(config, plain, "{}", setting.key);
    }
}

#[test]
fn the_words_of_the_table_are_those_of_the_types() {
    for (key, words) in [
        ("link", LinkKind::WORDS),
        ("pace", Pace::WORDS),
        ("share", Share::WORDS),
        ("reverse-path", ReversePath::WORDS),
        ("mode", Mode::WORDS),
    ] {
        let Kind::Word(known) = find(key).unwrap().kind else { panic!("{key}") };
        assert_eq!(known.iter().map(|(word, _)| *word).collect::<Vec<_>>(), words, "{key}");
    }
    let of_words = TABLE.iter().filter(|setting| matches!(setting.kind, Kind::Word(_)));
    assert_eq!(of_words.count(), 5);
}

#[test]
fn what_a_device_shared_by_port_has_is_the_kernels_business() {
    let config = parse("dev = \"eth0\"\nshare = \"ports\"\ngateway = \"192.0.2.1\"\n").unwrap();
    assert_eq!(config.interfaces[0].share, Share::Ports);
    assert!(config.interfaces[0].addresses.is_empty() && config.routes.len() == 1);
    for key in
        ["addr = \"192.0.2.10/24\"", "dhcp = true", "slaac = true", "vlan = 5", "link = \"tap\""]
    {
        let complaint = complaint(&format!("dev = \"eth0\"\nshare = \"ports\"\n{key}\n"));
        assert!(complaint.contains("leaves that to the kernel"), "{complaint}");
        assert!(complaint.contains(key.split(' ').next().unwrap()), "{complaint}");
    }
}

#[test]
fn applications_have_ephemeral_ports_of_their_own_where_the_kernel_has_the_addresses() {
    let range = |text: &str| {
        let range = parse(&format!("apps = \"/run/apps\"\ndev = \"eth0\"\n{text}")).unwrap();
        (range.ephemeral_ports().first, range.ephemeral_ports().last, range.apps_keep)
    };
    assert_eq!(range("share = \"ports\"\n"), (61_000, 63_999, 60));
    assert_eq!(range("addr = \"192.0.2.10/24\"\n"), (49_152, 65_535, 60));
    let given = "apps-ephemeral = \"5000-5999\"\napps-keep = 0\n";
    assert_eq!(range(&format!("share = \"ports\"\n{given}")), (5000, 5999, 0));
    let complaint = complaint_after_good("apps-ephemeral = \"5999-5000\"\n");
    assert!(complaint.ends_with("write 5000-5999"), "{complaint}");
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_likely_one() {
    let complaint = complaint_after_good("gatway = \"192.0.2.1\"\n");
    assert_eq!(complaint, "weever.toml:3:1: unknown key `gatway`; did you mean `gateway`?");
    let complaint = complaint_after_good("[services]\necko = 7\n");
    assert_eq!(complaint, "weever.toml:4:1: unknown key `ecko`; did you mean `echo`?");
    let complaint = complaint_after_good("[pool]\nzzz = 7\n");
    assert!(complaint.ends_with("`zzz`; use frames, frame-size, huge-pages, node"), "{complaint}");
    let complaint = complaint_after_good("[service]\necho = 7\n");
    assert!(complaint.ends_with("did you mean `services`?"), "{complaint}");
}

/// Mistakes of newcomers, each with the whole message.
#[test]
fn mistakes_are_answered_with_place_culprit_and_remedy() {
    for (text, message) in [
        (
            "addr = 10.0.0.1/24",
            "1:8: addr = 10.0.0.1/24: text is in quotes; write addr = \"10.0.0.1/24\"",
        ),
        (
            "addr=10.0.0.1/24 # lan",
            "1:6: addr = 10.0.0.1/24 # lan: text is in quotes; write addr = \"10.0.0.1/24\"",
        ),
        ("mode = adaptive", "1:8: mode = adaptive: text is in quotes; write mode = \"adaptive\""),
        ("dev = \"eth0", "1:7: dev = \"eth0: the quote is not closed; write dev = \"eth0\""),
        ("dev =", "1:6: dev has no value; write dev = \"eth0\""),
        (
            "[services]\necho = 7\ngateway = \"10.0.0.1\"",
            "3:1: `gateway` stands below [services] and is read as part of it; move it to the top of \
             the file, above the first line in brackets",
        ),
        (
            "[[interface]]\ndev = \"eth0\"\ndhcp = true\nmode = \"busy\"",
            "4:1: `mode` stands below [[interface]] and is read as part of it; move it to the top of \
             the file, above the first line in brackets",
        ),
        (
            "echo = 7",
            "1:1: `echo` belongs into the table [services]; write services.echo = … here, or [services] \
             above it",
        ),
        (
            "[interface]\ndev = \"eth0\"",
            "1:2: `interface` may be repeated: write [[interface]], in double brackets",
        ),
        ("services = 7", "1:1: `services` is a table: write [services]"),
        (
            "[[route]]\nvia = \"10.0.0.1\"",
            "1:1: a [[route]] without `to`; write to = \"198.51.100.0/24\"",
        ),
        ("cores = \"3-1\"", "1:9: cores = \"3-1\": the range runs backwards; write 1-3"),
        (
            "[services]\necho = 70000",
            "2:8: services.echo = 70000: it is too large; give a UDP port, 1 to 65535",
        ),
        (
            "[services]\necho = 0",
            "2:8: services.echo = 0: it is too small; give a UDP port, 1 to 65535",
        ),
        (
            "[services]\necho = \"7\"",
            "2:8: services.echo = \"7\": it is text; write echo = 7, without quotes",
        ),
        (
            "metrics = \"9464\"",
            "1:11: metrics = \"9464\": it is a port without an address; write 127.0.0.1:9464 for this host \
             only, or 0.0.0.0:9464",
        ),
        (
            "metrics = 9464",
            "1:11: metrics = 9464: it is a number; it is a port without an address; write 127.0.0.1:9464 for \
             this host only, or 0.0.0.0:9464",
        ),
        (
            "addr = \"10.0.0.1\"",
            "1:8: addr = \"10.0.0.1\": the length of its network's prefix is missing; write 10.0.0.1/24",
        ),
        ("dhcp = \"true\"", "1:8: dhcp = \"true\": it is text; write dhcp = true, without quotes"),
        (
            "mode = [\"busy\"]",
            "1:8: mode = [\"busy\"]: it is a list; give busy, adaptive or interrupt, such as mode = \"adaptive\"",
        ),
        ("mode = \"bussy\"", "1:8: mode = \"bussy\": there is no such word; did you mean `busy`?"),
        ("state = \"\"", "1:9: state = \"\": it is empty; give a path"),
    ] {
        assert_eq!(complaint(text), format!("weever.toml:{message}"), "{text}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_reported_in_their_order() {
    let text = "mode = \"bussy\"\nvlan = 70000\nzzz = 1\naddr = [\"x\", \"10.0.0.1/24\", \"y\"]\n";
    let lines: Vec<String> = complaint(text).lines().map(str::to_owned).collect();
    let places: Vec<&str> = lines.iter().map(|line| line.split(": ").next().unwrap()).collect();
    let expected = [
        "weever.toml:1:8",
        "weever.toml:2:8",
        "weever.toml:3:1",
        "weever.toml:4:9",
        "weever.toml:4:29",
    ];
    assert_eq!(places, expected, "{lines:#?}");
}

#[test]
fn a_line_that_is_not_toml_does_not_hide_the_others() {
    let text =
        "dev = \"eth0\"\naddr = 10.0.0.1/24\ngatway = \"10.0.0.2\"\n[services]\necho = 70000\n";
    let lines: Vec<String> = complaint(text).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for (line, part) in lines.iter().zip([
        "2:8: addr = 10.0.0.1/24: text is in quotes",
        "3:1: unknown key `gatway`",
        "5:8: services.echo = 70000",
    ]) {
        assert!(line.starts_with("weever.toml:") && line.contains(part), "{lines:#?}");
    }
    // An open quote ends with its line, one complaint each.
    let lines =
        complaint("dev = \"eth0\naddr = 10.0.0.1\nmtu = x # y\n[[route]]\nvia = \"10.0.0.9\"\n");
    assert_eq!(lines.lines().count(), 4, "{lines}");
}

#[test]
fn values_of_the_wrong_shape_are_named_with_their_line() {
    for (text, line, what) in [
        ("addr = \"10.0.0.1/40\"", "weever.toml:1:", "not an address with a prefix"),
        ("[services]\necho = \"seven\"", "weever.toml:2:", "seven"),
        ("nic = \"8259\"", "weever.toml:1:", "no NIC model `8259`; did you mean 82599?"),
        ("nic = \"ne2000\"", "weever.toml:1:", "use one of xdp, auto, "),
        ("share = \"some\"", "weever.toml:1:", "use address, ports or none"),
        ("[[neighbour]]\naddr = \"10.0.0.2\"\nmac = \"02:00\"", "weever.toml:3:", "\"02:00\""),
        ("dev = \"a\"\ndev = \"b\"", "weever.toml:2:", "duplicate"),
        ("= 3", "weever.toml:1:", "not TOML"),
        ("what is this", "weever.toml:1:", "not TOML"),
        ("addr = [10.0.0.1/24]", "weever.toml:1:", "not a list; write addr = [\"192.0.2.10/24\", "),
    ] {
        let complaint = complaint(text);
        assert!(complaint.starts_with(line) && complaint.contains(what), "{text}: {complaint}");
    }
}

#[test]
fn cores_are_numbers_and_ranges() {
    for (text, cores) in [
        ("cores = 3", &[3][..]),
        ("cores = \"0-1\"", &[0, 1]),
        ("cores = [0, \"2-4\", 7]", &[0, 2, 3, 4, 7]),
    ] {
        assert_eq!(parse(&format!("{text}\n{GOOD}")).unwrap().cores, cores, "{text}");
    }
}

#[test]
fn paths_of_a_file_begin_at_its_directory_and_those_of_the_command_line_here() {
    let text = format!("policy = \"p.toml\"\nstate = \"/var/x\"\n{GOOD}");
    let read = |path: &str| Settings::parse(Path::new(path), &text).unwrap();
    let config = Config::try_from(read("/etc/weever/a.toml")).unwrap();
    assert_eq!(config.policy.unwrap(), Path::new("/etc/weever/p.toml"));
    assert_eq!(config.state.unwrap(), Path::new("/var/x"));
    assert_eq!(Config::try_from(read("a.toml")).unwrap().policy.unwrap(), Path::new("p.toml"));
    let mut over = Settings::default();
    over.add_option("policy", "q.toml").unwrap();
    let config = Config::try_from(read("/etc/weever/a.toml").overridden_by(over)).unwrap();
    assert_eq!(config.policy.unwrap(), Path::new("q.toml"));
    let capture = "link = \"pcap\"\ndev = \"a.pcap\"\naddr = \"10.0.0.1/24\"\n";
    let settings = Settings::parse(Path::new("/tmp/x.toml"), capture).unwrap();
    let interface = Config::try_from(settings).unwrap().interfaces.remove(0);
    assert_eq!((interface.dev.as_str(), interface.name.as_str()), ("/tmp/a.pcap", "a"));
}

#[test]
fn what_is_missing_is_said_with_the_way_to_set_it() {
    let nothing = complaint("");
    assert!(nothing.starts_with("dev is not set") && nothing.contains("\naddr is not set"));
    let no_device = complaint("addr = \"10.0.0.1/8\"");
    assert!(no_device.starts_with("dev is not set") && no_device.contains("--dev"), "{no_device}");
}

#[test]
fn values_that_make_no_sense_are_refused_with_a_remedy() {
    for (text, key) in [
        ("[services]\necho = 7\ndiscard = 7", "services.discard = 7"),
        ("gateway = \"10.9.9.9\"", "gateway = 10.9.9.9"),
        ("gateway = \"192.0.2.10\"", "gateway = 192.0.2.10"),
        ("gateway = \"192.0.2.255\"", "gateway = 192.0.2.255"),
        ("nic = \"82599\"", "nic = 82599"),
        ("nic = \"auto\"\npolicy = \"p\"\nlink = \"tap\"", "nic = auto"),
        ("cores = [0, 1, 0]", "cores = [0, 1, 0]"),
        ("[pool]\nframe-size = 3000", "pool.frame-size = 3000"),
        ("[[route]]\nto = \"10.0.0.0/8\"\nvia = \"10.0.0.1\"", "route.via = 10.0.0.1"),
        ("[[route]]\nto = \"192.0.2.1/24\"\nvia = \"192.0.2.3\"", "route.to = 192.0.2.0/24"),
        (
            "gateway = \"192.0.2.1\"\n[[route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.3\"",
            "route.to = 0.0.0.0/0",
        ),
        (
            "[[neighbour]]\naddr = \"192.0.2.3\"\nmac = \"ff:ff:ff:ff:ff:ff\"",
            "neighbour.mac = ff:ff:ff:ff:ff:ff",
        ),
    ] {
        let complaint = complaint_after_good(text);
        let problem = without_place(&complaint);
        assert!(problem.starts_with(key) && problem.contains("; "), "{text}: {complaint}");
    }
    assert!(complaint("dev = \"a/b\"\naddr = \"10.0.0.1/8\"").contains(":1:7: dev = \"a/b\""));
    assert!(complaint("dev = \"\"\naddr = \"10.0.0.1/8\"").contains("empty"));
    assert!(complaint("dev = \"x\"\naddr = \"10.0.0.0/8\"").contains("network's address"));
}

const TWO: &str = "[[interface]]\ndev = \"eth1\"\naddr = [\"10.1.0.1/16\", \"fd00::1/64\"]\n";

#[test]
fn there_may_be_several_interfaces() {
    let text = format!("{GOOD}forwarding = true\n{TWO}vlan = 5\n{TWO}");
    let error = parse(&text).unwrap_err().to_string();
    let problem = without_place(&error);
    assert!(problem.starts_with("interface.addr = 10.1.0.1/16: another interface"), "{error}");
    let last = "[[interface]]\nname = \"up\"\ndev = \"eth1\"\ndhcp = true\nslaac = true\n";
    let shared = parse(&format!("{GOOD}forwarding = true\n{TWO}vlan = 5\n{last}")).unwrap_err();
    let complaint = shared.to_string();
    assert!(complaint.contains("forwarding = true: eth0 leaves packets"), "{complaint}");
    let (none, text) = ("share = \"none\"\n", format!("{GOOD}forwarding = true\n"));
    let text = format!("{text}{none}{TWO}vlan = 5\n{none}{last}{none}");
    let config = parse(&text).unwrap();
    let names: Vec<&str> = config.interfaces.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["eth0", "eth1.5", "up"]);
    assert_eq!(config.interfaces[1].addresses.len(), 2);
    assert!(config.interfaces[1].has_v6() && config.interfaces[2].has_v6() && config.forwarding);
    assert!(!config.interfaces[0].has_v6());
    // Tables may describe all of them.
    assert_eq!(parse(TWO).unwrap().interfaces.len(), 1);
}

#[test]
fn interfaces_that_are_in_each_others_way_are_refused() {
    for (more, key) in [
        ("dev = \"eth0\"\naddr = \"10.1.0.1/16\"", "interface.name = eth0"),
        ("name = \"b\"\ndev = \"eth0\"\naddr = \"10.1.0.1/16\"", "interface.dev = eth0"),
        ("dev = \"eth1\"\naddr = \"192.0.2.10/16\"", "interface.addr = 192.0.2.10/16"),
        ("dev = \"eth1\"", "addr is not set"),
        ("addr = \"10.1.0.1/16\"", "dev is not set"),
        ("dev = \"eth1\"\naddr = \"10.1.0.1/16\"\nmtu = 60", "interface.mtu = 60"),
        ("dev = \"eth1\"\naddr = \"fd00::1/64\"\nmtu = 1000", "interface.mtu = 1000"),
        ("dev = \"eth1\"\naddr = \"fd00::/64\"", "interface.addr = fd00::/64"),
        ("dev = \"eth1\"\nslaac = true\ngroups = \"10.0.0.1\"", "interface.groups = 10.0.0.1"),
        (
            "dev = \"eth0\"\nvlan = 5\naddr = \"10.1.0.1/16\"\nshare = \"none\"",
            "interface.share = eth0",
        ),
    ] {
        let complaint = complaint_after_good(&format!("[[interface]]\n{more}\n"));
        let is_missing = complaint.contains("is not set");
        let problem = if is_missing { &complaint } else { without_place(&complaint) };
        assert!(problem.starts_with(key) && complaint.lines().count() == 1, "{more}: {complaint}");
    }
}

#[test]
fn what_sorts_packets_is_the_program_unless_a_policy_finds_something_else() {
    assert_eq!(parse(&format!("{GOOD}nic = \"XDP\"")).unwrap().interfaces[0].nic, NicChoice::Xdp);
    for (word, nic) in [("auto", NicChoice::Auto), ("ConnectX5", NicChoice::Model("connectx5"))] {
        let config = parse(&format!("{GOOD}policy = \"p\"\nnic = \"{word}\"")).unwrap();
        assert_eq!(config.interfaces[0].nic, nic);
    }
    let two = "[[interface]]\ndev = \"eth0\"\nvlan = 5\naddr = \"10.1.0.1/16\"\nnic = \"auto\"";
    let complaint = complaint_after_good(&format!("policy = \"p\"\n{two}"));
    assert!(complaint.contains(": interface.nic = eth0: interfaces of one device"), "{complaint}");
}

#[test]
fn routes_say_where_they_lead_in_their_own_family() {
    let six = "addr = [\"192.0.2.10/24\", \"2001:db8::10/64\"]\ndev = \"eth0\"\n";
    let route = |text: &str| format!("{six}[[route]]\n{text}\n");
    for (text, key) in [
        ("to = \"fd00::/8\"\nvia = \"192.0.2.1\"", "route.via = 192.0.2.1"),
        ("to = \"fd00::/8\"\nvia = \"2001:db9::1\"", "route.via = 2001:db9::1"),
        ("to = \"fd00::/8\"", "route.to = fd00::/8"),
        ("to = \"fd00::/8\"\ninterface = \"etho\"", "route.interface = etho"),
    ] {
        let complaint = complaint(&route(text));
        assert!(without_place(&complaint).starts_with(key), "{text}: {complaint}");
    }
    for text in [
        "to = \"fd00::/8\"\nvia = \"2001:db8::1\"",
        "to = \"fd00::/8\"\nvia = \"fe80::1\"\ninterface = \"eth0\"",
        "to = \"198.51.100.0/24\"\ninterface = \"eth0\"",
    ] {
        parse(&route(text)).unwrap();
    }
    let both = format!("{six}gateway = [\"192.0.2.1\", \"2001:db8::1\"]\n");
    let routes = parse(&both).unwrap().routes;
    assert_eq!(routes.iter().map(|r| r.to).collect::<Vec<_>>(), [Prefix::ALL_V4, Prefix::ALL_V6]);
    let twice = format!("{six}gateway = [\"192.0.2.1\", \"192.0.2.2\"]\n");
    assert!(without_place(&complaint(&twice)).starts_with("gateway = 192.0.2.2"));
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "gateway = \"10.0.0.1\"\ncores = [1, 1]\n[services]\necho = 7\ndiscard = 7\n\
                [pool]\nframe-size = 2049\n\
                [[route]]\nto = \"10.0.0.0/8\"\nvia = \"10.0.0.1\"\n\
                [[route]]\nto = \"192.0.2.0/24\"\nvia = \"192.0.2.1\"\n";
    let error = parse(&format!("{GOOD}{text}")).unwrap_err();
    let ConfigError::Several(all) = &error else { panic!("{error}") };
    let keys = |e: &ConfigError| e.to_string().split(' ').nth(1).unwrap().to_owned();
    let keys: Vec<String> = all.iter().map(keys).collect();
    let expected =
        ["gateway", "route.via", "route.to", "services.discard", "cores", "pool.frame-size"];
    assert_eq!(keys, expected, "{error}");
    assert_eq!(error.to_string().lines().count(), all.len());
}

#[test]
fn frames_may_be_larger() {
    let config = parse(&format!("{GOOD}[pool]\nframe-size = 4096\n")).unwrap();
    assert_eq!(config.pool.frame_size, 4096);
}

#[test]
fn a_file_without_an_end_is_refused() {
    let error = Settings::read(Path::new("/dev/zero")).unwrap_err();
    assert!(matches!(error, ConfigError::TooLong { .. }), "{error}");
    assert!(error.to_string().contains("/dev/zero is longer than 16 MiB"), "{error}");
}

#[test]
fn the_command_line_wins_over_the_file_and_the_rest_stays() {
    let file = Settings::parse(Path::new("f"), &format!("{GOOD}[services]\necho = 7\n")).unwrap();
    let mut over = Settings::default();
    over.add_option("dev", "eth1").unwrap();
    over.add_option("services.discard", "9").unwrap();
    assert!(over.add_option("services.echo", "70000").is_err());
    let config = Config::try_from(file.overridden_by(over)).unwrap();
    assert_eq!(config.interfaces[0].dev, "eth1");
    assert_eq!(config.interfaces[0].addresses[0].to_string(), "192.0.2.10/24");
    assert_eq!(
        config.services,
        Services { echo: Some(7), discard: Some(9), ..Services::default() }
    );
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_its_name() {
    let error = Settings::read(Path::new("/nonexistent/weever.toml")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/weever.toml"), "{error}");
}
