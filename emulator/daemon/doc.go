// Package daemon has what the services of an emulated host that programs call over package wire have in common: hnsd
// and hcsd.
package daemon
