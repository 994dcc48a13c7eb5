//! The settings of a stack: those of `--so_flags`, and those that scripts make by `sysctl`.

use std::net::IpAddr;

use weever_net::SECOND;
use weever_tcp::congestion::Algorithm;
use weever_tcp::{EcnMode, TcpConfig};

/// The stack's ends, as `--so_flags` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) local: Vec<IpAddr>,
    pub(crate) mtu: u16,
}

impl Settings {
    /// `KEY=VALUE` joined by commas; without any, packetdrill's defaults.
    pub(crate) fn parse(flags: &str) -> Result<Settings, String> {
        let mut settings = Settings { local: Vec::new(), mtu: 1500 };
        for part in flags.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong =
                || format!("--so_flags: {part:?}: local=ADDRESS and mtu=BYTES are understood");
            match part.split_once('=') {
                Some(("local", address)) => {
                    settings.local.push(address.parse().map_err(|_| wrong())?);
                }
                Some(("mtu", bytes)) => {
                    let mtu = bytes.parse().ok().filter(|mtu| *mtu >= 68);
                    settings.mtu = mtu.ok_or_else(wrong)?;
                }
                _ => return Err(wrong()),
            }
        }
        if settings.local.is_empty() {
            settings.local =
                ["192.168.0.1", "fd3d:fa7b:d17d::1"].map(|ip| ip.parse().expect("one")).into();
        }
        Ok(settings)
    }

    /// Our address of the same family as the peer's.
    pub(crate) fn source(&self, peer: IpAddr) -> Option<IpAddr> {
        self.local.iter().copied().find(|local| local.is_ipv4() == peer.is_ipv4())
    }

    /// The engine's configuration, with what `read` says of a file below `/proc/sys/net/ipv4`.
    pub(crate) fn config(&self, read: impl Fn(&str) -> Option<String>) -> TcpConfig {
        let number = |name, at: usize| -> Option<u64> {
            read(name)?.split_ascii_whitespace().nth(at)?.parse().ok()
        };
        let on = |name| number(name, 0) != Some(0);
        let defaults = TcpConfig::default();
        // Of the memory that Linux counts for a socket one half is the window (tcp_adv_win_scale 1).
        let window =
            |at| number("tcp_rmem", at).map(|octets| (octets / 2).clamp(2048, 1 << 29) as u32);
        let receive_capacity = window(1).unwrap_or(defaults.receive_capacity);
        TcpConfig {
            mtu: self.mtu,
            sack: on("tcp_sack"),
            timestamps: on("tcp_timestamps"),
            window_scaling: on("tcp_window_scaling"),
            receive_capacity,
            max_receive_capacity: window(2).unwrap_or(0).max(receive_capacity),
            ecn: match number("tcp_ecn", 0) {
                Some(0) => EcnMode::Off,
                Some(1) => EcnMode::Request,
                _ => EcnMode::Accept,
            },
            congestion: match read("tcp_congestion_control").as_deref().map(str::trim) {
                Some("reno") => Algorithm::Reno,
                Some("dctcp") => Algorithm::Dctcp,
                _ => Algorithm::Cubic,
            },
            fin_wait: number("tcp_fin_timeout", 0).map_or(defaults.fin_wait, |s| s * SECOND),
            challenge_acks: number("tcp_challenge_ack_limit", 0)
                .and_then(|most| u32::try_from(most).ok())
                .unwrap_or(u32::MAX),
            ..defaults
        }
    }
}

/// A file of the kernel's settings, as far as it can be read.
pub(crate) fn sysctl(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_their_faults_are_named() {
        let settings = Settings::parse("local=10.0.0.1, mtu=9000,local=fd00::1").unwrap();
        assert_eq!(settings.mtu, 9000);
        assert_eq!(settings.source("192.0.2.1".parse().unwrap()), "10.0.0.1".parse().ok());
        assert_eq!(settings.source("2001:db8::1".parse().unwrap()), "fd00::1".parse().ok());
        assert_eq!(Settings::parse("").unwrap().local.len(), 2);
        for wrong in ["local=here", "mtu=1", "mtu", "speed=1"] {
            assert!(Settings::parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn settings_of_scripts_reach_the_engine() {
        let read = |name: &str| {
            Some(match name {
                "tcp_sack" | "tcp_timestamps" => "0\n".into(),
                "tcp_ecn" => "1\n".into(),
                "tcp_rmem" => "4096\t131072\t6291456\n".into(),
                "tcp_congestion_control" => "reno\n".into(),
                _ => return None,
            })
        };
        let config = Settings::parse("").unwrap().config(read);
        assert!(!config.sack && !config.timestamps && config.window_scaling);
        assert_eq!(config.ecn, EcnMode::Request);
        assert!(matches!(config.congestion, Algorithm::Reno));
        assert_eq!((config.receive_capacity, config.max_receive_capacity), (65_536, 3_145_728));
    }
}
