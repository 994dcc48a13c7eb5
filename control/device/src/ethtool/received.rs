//! Counters of receive queues, among the statistics that drivers name as they like.

use std::collections::BTreeMap;

/// What drivers put before and behind a receive queue's number in the name of its frames' counter.
const NAMES: [(&str, &str); 7] = [
    // igb, ixgbe, ice, ixgbevf, virtio_net before 6.8
    ("rx_queue_", "_packets"),
    // i40e, iavf
    ("rx-", ".packets"),
    // sfc
    ("rx-", ".rx_packets"),
    // mlx4, mlx5
    ("rx", "_packets"),
    // ena
    ("queue_", "_rx_cnt"),
    // bnxt_en
    ("[", "]: rx_ucast_packets"),
    // nfp
    ("rvec_", "_rx_pkts"),
];

/// The counters by queue; nothing if there are none, or not one for each queue.
pub(super) fn by_queue<N: AsRef<str>>(
    statistics: impl Iterator<Item = (N, u64)>,
) -> Option<Vec<u64>> {
    let mut queues = BTreeMap::new();
    for (name, value) in statistics {
        queues.extend(queue(name.as_ref()).map(|queue| (queue, value)));
    }
    let is_whole = queues.keys().copied().eq(0..queues.len());
    (is_whole && !queues.is_empty()).then(|| queues.into_values().collect())
}

fn queue(name: &str) -> Option<usize> {
    NAMES
        .iter()
        .find_map(|(before, behind)| name.strip_prefix(before)?.strip_suffix(behind)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::by_queue;

    #[test]
    fn counters_of_each_driver_are_found_among_others() {
        for (one, other) in [
            ("rx_queue_0_packets", "rx_queue_1_packets"),
            ("rx-0.packets", "rx-1.packets"),
            ("rx-0.rx_packets", "rx-1.rx_packets"),
            ("rx0_packets", "rx1_packets"),
            ("queue_0_rx_cnt", "queue_1_rx_cnt"),
            ("[0]: rx_ucast_packets", "[1]: rx_ucast_packets"),
            ("rvec_0_rx_pkts", "rvec_1_rx_pkts"),
        ] {
            let all = [("rx_packets", 9), (other, 2), ("rx_queue_0_bytes", 7), (one, 1)];
            assert_eq!(by_queue(all.into_iter()), Some(vec![1, 2]), "{one}");
            assert_eq!(by_queue([(other, 2)].into_iter()), None, "queue 0 is missing");
        }
        assert_eq!(by_queue([("rx_packets", 9), ("tx_queue_0_packets", 1)].into_iter()), None);
    }
}
