//! Drivers and their NICs as they behave, for simulated devices: the rules that a driver takes, what it makes of
//! them, and which packets they match. Written from the drivers' sources (named at each variant), apart from the
//! models that plans are made with: tests hold the two against each other.

use weever_graph::Field;
use weever_graph::nic::{FlowType, Form, Forms};

use super::{Action, Match};

/// A driver with the NIC that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// `igb_main.c`, 82576, which takes no rules.
    Igb,
    /// `ixgbe_ethtool.c`, 82599.
    Ixgbe,
    /// `i40e_ethtool.c`, X710.
    I40e,
    /// `ice_ethtool_fdir.c`, E810.
    Ice,
    /// `en_fs_ethtool.c` of mlx5, ConnectX-5.
    Mlx5,
    /// `ena_ethtool.c` in amzn-drivers.
    Ena,
    /// `gve_flow_rule.c`.
    Gve,
    /// `siena/ethtool_common.c` (`efx_ethtool_set_class_rule`) and `siena/farch.c`
    /// (`efx_farch_filter_from_gen_spec`), SFC9020.
    Siena,
}

/// A packet: its fields, as predicates see them, and its forms.
pub struct Packet<'a> {
    /// The value of a field, if the packet has it.
    pub field: &'a dyn Fn(Field) -> Option<u128>,
    /// The forms that apply to it.
    pub forms: Forms,
}

impl Packet<'_> {
    fn has(&self, form: Form) -> bool {
        self.forms.contains(form)
    }

    fn version(&self) -> Option<u8> {
        match (self.field)(Field::EthType) {
            Some(0x0800) => Some(4),
            Some(0x86dd) => Some(6),
            _ => None,
        }
    }

    /// The protocol behind the IP header; of IPv6 with extension headers, the first of these.
    fn protocol(&self) -> Option<u8> {
        let number = (self.field)(Field::Ip4Proto).or_else(|| (self.field)(Field::Ip6Next));
        number.map(|number| number as u8)
    }
}

const TRANSPORTS: [u8; 3] = [6, 17, 132];

impl Profile {
    /// Every profile, with the model of its NIC.
    pub const ALL: [(&str, Profile); 8] = [
        ("82576", Profile::Igb),
        ("82599", Profile::Ixgbe),
        ("x710", Profile::I40e),
        ("e810", Profile::Ice),
        ("connectx5", Profile::Mlx5),
        ("ena", Profile::Ena),
        ("gvnic", Profile::Gve),
        ("sfc9020", Profile::Siena),
    ];

    /// Whether the driver finds locations for rules.
    pub(super) fn chooses(self) -> bool {
        matches!(self, Profile::Mlx5 | Profile::Siena)
    }

    /// The rule that the driver makes of one that it is told, or the error number of its refusal. `others` are
    /// the rules that it has.
    ///
    /// # Errors
    /// EINVAL and EOPNOTSUPP, as the driver.
    pub(super) fn take<'r>(
        self,
        rule: &Match,
        action: Action,
        others: impl Iterator<Item = &'r Match>,
    ) -> Result<Match, i32> {
        use FlowType::{Ether, Ip4, Ip6, Sctp4, Sctp6, Tcp4, Tcp6, Udp4, Udp6};
        let taken: &[FlowType] = match self {
            Profile::Igb => &[],
            Profile::Ixgbe => &[Tcp4, Udp4, Sctp4, Ip4],
            Profile::I40e => &[Tcp4, Udp4, Sctp4, Ip4, Tcp6, Udp6, Sctp6, Ip6],
            Profile::Ice => &[Tcp4, Udp4, Sctp4, Ip4, Tcp6, Udp6, Sctp6, Ip6, Ether],
            Profile::Mlx5 => &[Tcp4, Udp4, Ip4, Tcp6, Udp6, Ip6, Ether],
            Profile::Ena => &[Tcp4, Udp4, Ip4, Tcp6, Udp6, Ip6],
            Profile::Gve => &[Tcp4, Udp4, Sctp4, Tcp6, Udp6, Sctp6],
            Profile::Siena => &[Tcp4, Udp4, Ether],
        };
        let no_drop = matches!(self, Profile::Ena | Profile::Gve);
        if !taken.contains(&rule.flow_type) || (no_drop && action == Action::Drop) {
            return Err(libc::EOPNOTSUPP);
        }
        // flow_type_to_traffic_type
        let is_ip_alone = rule.flow_type.protocol().is_none();
        if self == Profile::Mlx5 && matches!(action, Action::Context { .. }) && is_ip_alone {
            return Err(libc::EINVAL);
        }
        let made = self.normalised(rule);
        self.check_masks(&made)?;
        let agrees = |other: &Match| self.masks(other) == self.masks(&made);
        let together = |other: &&Match| match self {
            Profile::Ixgbe => true,
            Profile::I40e | Profile::Ice => other.flow_type == made.flow_type,
            _ => false,
        };
        match { others }.filter(together).all(agrees) {
            true => Ok(made),
            false => Err(libc::EINVAL),
        }
    }

    /// The rule without the tests that the driver drops without a word.
    fn normalised(self, rule: &Match) -> Match {
        let is_ip = rule.flow_type.ip_version().is_some();
        let dropped = |field: Field| match (self, field) {
            // The mask of a tag has to be all of its 16 bits, of which the number is 12.
            (Profile::I40e, Field::VlanId) => true,
            (Profile::Ice, Field::VlanId) => is_ip,
            (Profile::Ena, Field::Ip4Proto | Field::Ip6Next) => true,
            _ => false,
        };
        let mut made = rule.clone();
        made.fields.retain(|(field, _)| !dropped(*field));
        made
    }

    fn check_masks(self, rule: &Match) -> Result<(), i32> {
        let whole = |(field, key): &(Field, weever_graph::Key)| key.mask == field.full_mask();
        let is_ip = rule.flow_type.ip_version().is_some();
        let possible = match self {
            Profile::I40e | Profile::Ice | Profile::Siena => rule.fields.iter().all(whole),
            _ => rule.fields.iter().filter(|(f, _)| *f == Field::VlanId).all(whole),
        };
        let known = |(field, _): &(Field, _)| match field {
            Field::EthDst | Field::EthSrc => !is_ip,
            Field::Ip4Proto | Field::Ip6Next => self == Profile::Mlx5,
            Field::VlanId => !matches!(self, Profile::Ena | Profile::Gve),
            _ => true,
        };
        match possible && rule.fields.iter().all(known) {
            true if self == Profile::Siena => known_to_siena(rule),
            true => Ok(()),
            false => Err(libc::EINVAL),
        }
    }

    /// What rules that share masks have to agree on; the mask of `ixgbe` has the type of layer 4.
    fn masks(self, rule: &Match) -> (Option<bool>, Vec<(Field, u128)>) {
        let of_type = (self == Profile::Ixgbe).then(|| rule.flow_type.protocol().is_some());
        (of_type, rule.fields.iter().map(|(field, key)| (*field, key.mask)).collect())
    }

    /// Whether the NIC's parser and its rules of a type treat this form in a way that the source tells.
    fn knows(self, form: Form, flow_type: FlowType) -> bool {
        let is_ip4 = flow_type == FlowType::Ip4;
        match self {
            _ if flow_type == FlowType::Ether => form != Form::Stacked,
            // The type of layer 4 is masked out for rules of ip4 alone.
            Profile::Ixgbe => is_ip4 && matches!(form, Form::Options | Form::First | Form::Later),
            // Packet types tell fragments from others.
            Profile::I40e | Profile::Ice => matches!(form, Form::First | Form::Later),
            // Rules are about outer headers; those of ip4 test the EtherType and no type of layer 4.
            Profile::Mlx5 => match form {
                Form::Tunnels => true,
                Form::Options | Form::First | Form::Later => is_ip4,
                Form::Extensions | Form::Stacked => false,
            },
            Profile::Igb | Profile::Ena | Profile::Gve | Profile::Siena => false,
        }
    }

    /// Whether a rule matches a packet; nothing if no source tells.
    pub(super) fn matches(self, rule: &Match, packet: &Packet<'_>) -> Option<bool> {
        let t = rule.flow_type;
        let inner = packet.has(Form::Tunnels) && !self.knows(Form::Tunnels, t);
        if t.ip_version().is_some() && t.ip_version() != packet.version() {
            return (!inner).then_some(false);
        }
        if packet.forms.iter().any(|form| !self.knows(form, t)) {
            return None;
        }
        let fragment = packet.has(Form::First) || packet.has(Form::Later);
        let of_type = match (t.ip_version(), t.protocol()) {
            (Some(_), Some(protocol)) => packet.protocol() == Some(protocol) && !fragment,
            (Some(_), None) if matches!(self, Profile::I40e | Profile::Ice) => {
                fragment || packet.protocol().is_none_or(|p| !TRANSPORTS.contains(&p))
            }
            _ => true,
        };
        let agrees = |(field, key): &(Field, weever_graph::Key)| {
            (packet.field)(*field).is_some_and(|value| value & key.mask == key.value)
        };
        Some(of_type && rule.fields.iter().all(agrees))
    }

    /// Its turn among the rules that match: the lowest wins.
    pub(super) fn turn(self, rule: &Match, location: u32) -> (usize, usize, u32) {
        let ether = usize::from(rule.flow_type == FlowType::Ether);
        match self {
            // A table for each number of fields, the largest first; within one the order is not told.
            Profile::Mlx5 => (ether, usize::MAX - rule.fields.len(), location),
            Profile::Ice => (ether, 0, location),
            // A table for full filters, one for those of a local port, and likewise for stations.
            Profile::Siena => (ether, usize::MAX - rule.fields.len(), location),
            _ => (0, 0, location),
        }
    }
}

/// The hardware has filters for a connection, for a local address and port, for a station with its VLAN, and for a
/// station. Ports are not 0.
fn known_to_siena(rule: &Match) -> Result<(), i32> {
    let fields: Vec<Field> = rule.fields.iter().map(|(field, _)| *field).collect();
    let is_port = |field: &Field| matches!(field, Field::L4Src | Field::L4Dst);
    if rule.fields.iter().any(|(field, key)| is_port(field) && key.value == 0) {
        return Err(libc::EADDRNOTAVAIL);
    }
    let kinds: [&[Field]; 2] = match rule.flow_type {
        FlowType::Ether => [&[Field::EthDst, Field::VlanId], &[Field::EthDst]],
        _ => [
            &[Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst],
            &[Field::Ip4Dst, Field::L4Dst],
        ],
    };
    let is =
        |kind: &&[Field]| kind.len() == fields.len() && kind.iter().all(|f| fields.contains(f));
    if kinds.iter().any(is) { Ok(()) } else { Err(libc::EPROTONOSUPPORT) }
}
