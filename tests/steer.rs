//! `weever steer` between two kernels: their traffic goes on while it is steered, arrives on the CPUs
//! that the policy names, and everything is as before when it has ended.

mod steer {
    mod flows;
    mod process;
    mod refusals;
    mod verify;
}
