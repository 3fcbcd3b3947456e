// Package storage makes the volumes that come from claims and from storage drivers: it finds out what a volume is, and
// carries out what package steps decides, by calls to the driver and with records on the disk.
package storage
