package powerloss

// oldKinds are system calls that newer architectures do not have.
var oldKinds map[uint64]syscallKind
