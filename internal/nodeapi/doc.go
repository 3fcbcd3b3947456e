// Package nodeapi names what Porthole's programs tell each other in Node objects.
package nodeapi

// NetworkBoot is an annotation that `porthole routes` sets on Windows nodes as soon as the pod network is right: the boot in which it is,
// as status.nodeInfo.bootID has it. After a reboot the runtime may call its network ready before that, because the CNI configuration is
// still there. The kubelet therefore waits until the annotation is of its own boot. On nodes without the annotation it does not.
const NetworkBoot = "porthole.dev/network-boot"
