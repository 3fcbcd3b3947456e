// Package joinwindows tests `porthole.exe join` and `leave` on emulated Windows hosts, against the control plane of a
// local cluster: the services that it makes run under the host's service manager, come back after kills and reboots,
// and leave nothing behind.
package joinwindows
