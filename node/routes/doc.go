// Package routes wires one node's part of the network between nodes: it follows the cluster's nodes, makes this node's
// pod network, runs the chosen mode, and reports through the node's condition, events and a status page.
package routes
