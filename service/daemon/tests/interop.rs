//! weever on a LAN with the usual neighbours: kernels in VLANs, kernels that want its addresses,
//! servers of DHCP, routers that advertise, and switches that watch group memberships.

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
