// Package vm runs the local cluster in a virtual machine with a distribution of today: Debian 13's kernel and systemd, and cgroup v2 alone.
// QEMU runs it with KVM where this machine has it, and else computes each instruction, ten times slower.
package vm
