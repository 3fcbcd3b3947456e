//go:build !windows

package platform

// OVSDatabase is where programs reach the database of this host's Open vSwitch.
const OVSDatabase = "unix:/var/run/openvswitch/db.sock"
