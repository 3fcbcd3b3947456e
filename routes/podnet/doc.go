// Package podnet makes the network that one node's pods are plugged into: the CNI configuration for the container
// runtime; on Linux the outbound NAT; on Windows the HNS network and the host's own endpoint in it. What it makes is
// decided by pure functions of Options, and making it again changes nothing.
package podnet
