//! COREC: several threads receive from one queue (Faltelli et al., seed of `data/ring`).

mod sim;

pub(crate) use sim::run as run_sim;
