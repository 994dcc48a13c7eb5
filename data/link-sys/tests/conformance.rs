//! AF_XDP passes the conformance suite of links.

mod common;

use weever_link::conformance::suite;
use weever_link_sys::af_xdp::Attach;
use weever_testbed::require_net_admin;

#[test]
fn af_xdp_in_the_driver_conforms() {
    require_net_admin!();
    suite(|| common::against_the_kernel(|config| config.attach = Attach::Native));
}

#[test]
fn af_xdp_in_the_stack_conforms() {
    require_net_admin!();
    suite(|| common::against_the_kernel(|config| config.attach = Attach::Generic));
}

#[test]
fn af_xdp_with_four_queues_at_both_ends_conforms() {
    require_net_admin!();
    suite(|| common::against_itself(4));
}

#[test]
fn sockets_that_share_a_queue_conform() {
    require_net_admin!();
    suite(|| common::sharing(1, 2));
}

#[test]
fn three_sockets_on_each_of_two_queues_conform() {
    require_net_admin!();
    suite(|| common::sharing(2, 3));
}
