package powerloss

// oldKinds are the calls that newer architectures do not have.
var oldKinds map[uint64]syscallKind
