// Package nodeapi names what Porthole's programs tell each other in Node objects.
package nodeapi

// NetworkBoot is an annotation that `porthole routes` sets on Windows nodes as soon as the pod network is right: the boot in which it is,
// as status.nodeInfo.bootID has it. After a reboot the runtime may call its network ready before that, because the CNI configuration is
// still there. The kubelet therefore waits until the annotation is of its own boot. On nodes without the annotation it does not.
const NetworkBoot = "porthole.dev/network-boot"

// ServiceProgrammer is an annotation that `porthole routes` sets on its node when the network's mode programs the cluster's services: the
// program that does, for people. A service proxy must not run beside it. Empty, or none: no program is known to.
const ServiceProgrammer = "porthole.dev/service-programmer"

// OVNProgrammer is its value in the mode ovn.
const OVNProgrammer = "OVN load balancers of porthole routes --mode ovn"
