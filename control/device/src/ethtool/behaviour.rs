//! What drivers do when a setting changes: features that they switch along or keep, restarts, rules that go. Of
//! Linux 6.12: `netdev_fix_features` for all, and each driver's `ndo_fix_features`, `ndo_set_features` and
//! `set_channels`. Apart from what models say, which tests hold against it.

use std::collections::BTreeMap;

use super::Profile;

/// Features by name: on or off.
pub(super) type Features = BTreeMap<String, bool>;

const STRIPS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// The side effects of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Consequences {
    /// The link went down for a moment.
    pub(super) restarts: bool,
    /// The rules are gone.
    pub(super) flushes: bool,
    /// The table of the hash is the driver's own again.
    pub(super) forgets_table: bool,
    /// The key of the hash is, too.
    pub(super) forgets_key: bool,
}

impl Profile {
    /// The features that a device starts with, those among them that its driver can switch.
    pub fn features(self) -> BTreeMap<String, bool> {
        let mut on =
            vec!["rx-checksum", "tx-scatter-gather", "tx-tcp-segmentation", "tx-tcp6-segmentation"];
        let mut off = Vec::new();
        match self {
            Profile::Igb | Profile::Ixgbe => off.push("rx-all"),
            Profile::Ice | Profile::Mlx5 => off.push("rx-fcs"),
            _ => {}
        }
        match self {
            Profile::Ice => off.extend(["rx-vlan-stag-hw-parse", "tx-vlan-stag-hw-insert"]),
            Profile::Ixgbe | Profile::Gve => off.push("rx-lro"),
            Profile::Mlx5 => off.extend(["rx-lro", "rx-gro-hw", "rx-all"]),
            // Without a tso_versions of its own.
            Profile::Siena => on.retain(|name| !name.contains("segmentation")),
            _ => {}
        }
        if !matches!(self, Profile::Ena | Profile::Gve | Profile::Siena) {
            on.extend(["rx-vlan-hw-parse", "tx-vlan-hw-insert"]);
        }
        match self {
            Profile::Ice | Profile::Ena | Profile::Siena => {
                on.extend(["tx-checksum-ipv4", "tx-checksum-ipv6"])
            }
            _ => on.push("tx-checksum-ip-generic"),
        }
        if matches!(
            self,
            Profile::Igb | Profile::Ixgbe | Profile::I40e | Profile::Ice | Profile::Mlx5
        ) {
            on.push("tx-udp-segmentation");
        }
        let each = on
            .into_iter()
            .map(|name| (name, true))
            .chain(off.into_iter().map(|name| (name, false)));
        each.map(|(name, on)| (name.to_string(), on)).collect()
    }

    /// The features that a device has where these are wished. `now` are those that it has, and `has_program` whether
    /// an XDP program is attached.
    pub(super) fn made_of(self, wished: &Features, now: &Features, has_program: bool) -> Features {
        let mut made = wished.clone();
        let strips = |features: &Features| STRIPS.iter().any(|name| is_on(features, name));
        match self {
            // igb_fix_features
            Profile::Igb => {
                let on = is_on(&made, "rx-vlan-hw-parse");
                set(&mut made, "tx-vlan-hw-insert", on);
            }
            // ixgbe_fix_features
            Profile::Ixgbe if has_program || !is_on(&made, "rx-checksum") => {
                set(&mut made, "rx-lro", false)
            }
            // ice_fix_features
            Profile::Ice => {
                if is_on(&made, "rx-vlan-hw-parse") || is_on(&made, "tx-vlan-hw-insert") {
                    set(&mut made, "rx-vlan-stag-hw-parse", false);
                    set(&mut made, "tx-vlan-stag-hw-insert", false);
                }
                if is_on(&made, "rx-fcs") && !is_on(now, "rx-fcs") {
                    STRIPS.iter().for_each(|name| set(&mut made, name, false));
                }
                // ice_set_vlan_features: EIO, which leaves all as it is.
                if is_on(&made, "rx-fcs") && strips(&made) {
                    return now.clone();
                }
            }
            // mlx5e_fix_features
            Profile::Mlx5 if has_program => {
                set(&mut made, "rx-lro", false);
                set(&mut made, "rx-gro-hw", false);
            }
            _ => {}
        }
        of_any_device(made)
    }

    /// What follows when features change from one to the other.
    pub(super) fn after_features(self, from: &Features, to: &Features) -> Consequences {
        let restarting: &[&str] = match self {
            Profile::Igb => &["rx-all"],
            Profile::Ixgbe => &["rx-lro", "rx-all"],
            Profile::Ice => &["rx-fcs"],
            Profile::Mlx5 => &["rx-lro", "rx-gro-hw", "rx-fcs"],
            Profile::Gve => &["rx-lro"],
            Profile::I40e | Profile::Ena | Profile::Siena => &[],
        };
        let restarts = restarting.iter().any(|name| from.get(*name) != to.get(*name));
        Consequences { restarts, ..Consequences::default() }
    }

    /// What follows when rules are switched on or off.
    pub(super) fn after_rules(self, on: bool) -> Consequences {
        let restarts = matches!(self, Profile::Ixgbe | Profile::I40e);
        let keeps = matches!(self, Profile::Ixgbe | Profile::Mlx5 | Profile::Ena | Profile::Igb);
        Consequences { restarts, flushes: !on && !keeps, ..Consequences::default() }
    }

    /// What follows when the number of queues changes, or the error number of the driver's refusal.
    pub(super) fn after_queues(self, fewer: bool, has_rules: bool) -> Result<Consequences, i32> {
        let forgets_table = match self {
            Profile::Siena => return Err(libc::EOPNOTSUPP),
            Profile::Ice if has_rules => return Err(libc::EOPNOTSUPP),
            Profile::I40e => fewer,
            Profile::Ena => true,
            _ => false,
        };
        // i40e_clear_rss_config_user
        let forgets_key = self == Profile::I40e && fewer;
        Ok(Consequences { restarts: true, flushes: false, forgets_table, forgets_key })
    }

    /// The size of the hash's table with so many queues, where it follows them.
    pub(super) fn table_size(self, queues: u32) -> Option<usize> {
        // mlx5e_rqt_size
        (self == Profile::Mlx5).then(|| (queues as usize * 2).next_power_of_two().max(256))
    }

    /// Whether the driver makes rules of its own for connections of its host. `has_tcp` is whether a rule of TCP is there.
    pub(super) fn has_own_rules(self, rules_on: bool, flag: Option<bool>, has_tcp: bool) -> bool {
        match self {
            // ixgbe_set_rss_queues, ixgbe_set_features
            Profile::Ixgbe => !rules_on,
            // i40e_atr, i40e_add_del_fdir_tcp
            Profile::I40e => flag != Some(false) && !has_tcp,
            _ => false,
        }
    }
}

/// `netdev_fix_features`.
fn of_any_device(mut made: Features) -> Features {
    let generic = is_on(&made, "tx-checksum-ip-generic");
    let (four, six) = (is_on(&made, "tx-checksum-ipv4"), is_on(&made, "tx-checksum-ipv6"));
    let gathers = is_on(&made, "tx-scatter-gather");
    for (name, possible) in [
        ("tx-tcp-segmentation", gathers && (generic || four)),
        ("tx-tcp6-segmentation", gathers && (generic || six)),
        ("tx-udp-segmentation", generic || (four && six)),
        ("rx-gro-hw", is_on(&made, "rx-checksum") && !is_on(&made, "rx-fcs")),
        ("rx-lro", !is_on(&made, "rx-fcs")),
    ] {
        if !possible {
            set(&mut made, name, false);
        }
    }
    if is_on(&made, "rx-gro-hw") {
        set(&mut made, "rx-lro", false);
    }
    made
}

fn is_on(features: &Features, name: &str) -> bool {
    features.get(name).copied().unwrap_or_default()
}

/// A device without the feature gets none.
fn set(features: &mut Features, name: &str, on: bool) {
    if let Some(now) = features.get_mut(name) {
        *now = on;
    }
}
