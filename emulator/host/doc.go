// Package host makes, finds and removes emulated Windows hosts, and runs programs on them.
//
//	D/hosts/NAME/            the host's folder
//	  host.json              what it is; hosts of a cluster may lack it
//	  prefix/drive_c         its C:, an overlay mount (package wine)
//	  hnsd.sock, hnsd/       control socket and state of its HNS (package hnsd/serve)
//	  run/, logs/            of a host on its own: state of its processes, their output
//	netns porthole-NAME      its network, one link away from the router (package lab)
//
// A host on its own has two processes, wineserver and HNS. Whoever starts and stops them is not part of this package.
// Hosts of a local cluster are found here too, so that programs can be run on them, but are never changed.
package host
