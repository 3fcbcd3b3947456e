// Package routers runs FRR and BIRD as children of a test, in a network namespace that the test made. Their files and
// sockets are in a folder of each router, so that several run beside each other, and beside the machine's own.
package routers
