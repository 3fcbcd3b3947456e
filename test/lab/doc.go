// Package lab holds the tests of a whole cluster: `porthole up` in a folder of its own, real pods on Linux and on
// emulated Windows nodes, real packets between them, and processes that are killed. Everything is asked from outside,
// through porthole's own commands, kubectl and the network; nothing here imports a product.
//
// PORTHOLE_LAB_DIR=D keeps the cluster in D and leaves it running for the next run.
package lab
