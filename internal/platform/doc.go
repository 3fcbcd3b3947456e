// Package platform holds what differs between operating systems: the same functions for each, as far as it has the
// thing.
package platform
