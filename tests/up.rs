//! `weever up` as a process of its own, in a network namespace, with the kernel as the peer.

mod up {
    mod applications;
    mod asked;
    mod life;
    mod privileges;
    mod reload;
    mod stack;
}
