// Package platform holds what differs between operating systems, behind one interface each.
package platform
