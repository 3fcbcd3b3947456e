// Package podnet makes the network that one node's pods are attached to: the CNI configuration for the container
// runtime; on Linux the outbound NAT; on Windows the HNS network and the host's own endpoint in it. What has to be
// made is decided by pure functions, and making it again changes nothing.
package podnet
