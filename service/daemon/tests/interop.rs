//! weever on a LAN with what else is on LANs: kernels in VLANs, kernels that want its addresses,
//! servers of DHCP, routers that advertise, and switches that watch who is in which group.

mod common;

mod interop {
    mod conflict;
    mod dhcp;
    mod groups;
    mod redirect;
    mod router;
    mod switch;
    mod tool;
    mod vlan;
}
