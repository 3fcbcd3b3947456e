// Package dataplane carries the networks of one emulated Windows host on a Linux kernel: bridges, veths, guest
// namespaces, nftables. It knows nothing of HNS documents; hnsd hands it a desired.State and gets each object's error
// back. The work is done by the packages below it, which README.md draws.
package dataplane
