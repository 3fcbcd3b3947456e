// Package vm runs the local cluster in a virtual machine with Debian 13: its kernel, systemd, and cgroup v2
// alone. QEMU uses KVM where this machine has it, and otherwise translates each instruction (TCG), which is
// about ten times slower.
package vm
