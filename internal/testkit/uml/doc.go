// Package uml runs commands on a Linux kernel that is a program: user-mode Linux, of Debian's package user-mode-linux.
// Its kernel has cgroup v2 alone, as the distributions of today, whatever the machine has on which the tests run. It
// boots in a second. It has one processor; programs compute at the machine's speed, and a system call or a new process
// takes many times as long (40 ms for fork and exec).
package uml
