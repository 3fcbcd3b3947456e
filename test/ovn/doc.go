// Package ovn tests the mode ovn with Debian's Open vSwitch and OVN on hosts that are network namespaces: real
// databases, real daemons, real Geneve frames, and our controller, agent and CNI plugin. It has no Kubernetes: the
// objects of the API are in memory.
package ovn
