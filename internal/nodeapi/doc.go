// Package nodeapi names what Porthole's programs tell each other in Node objects.
package nodeapi

// ServiceProgrammer is an annotation that `porthole routes` sets on its node when the network's mode programs the
// cluster's services: the program that does, for people. A service proxy must not run beside it. Empty, or none: no
// program is known to.
const ServiceProgrammer = "porthole.dev/service-programmer"

// OVNProgrammer is its value in the mode ovn.
const OVNProgrammer = "OVN load balancers of porthole routes --mode ovn"
