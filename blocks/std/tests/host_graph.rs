//! The host's graph on the engine: frames in, frames out, and the reasons of drops.

mod host_graph {
    mod answers;
    mod dhcp;
    mod drops;
    mod exhaustion;
    mod forward;
    mod fragments;
    mod igmp;
    mod mld;
    mod neighbours;
    mod runs;
    mod six;
    mod six_errors;
    mod six_floods;
    mod six_router;
}
