package platform

// OVSDatabase is where programs reach the database of this host's Open vSwitch. Its Windows service listens on a named
// pipe, and on this address if it is installed with --remote=ptcp:6640:127.0.0.1.
const OVSDatabase = "tcp:127.0.0.1:6640"
