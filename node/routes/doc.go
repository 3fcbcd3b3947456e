// Package routes wires one node's part of the network between nodes: it follows the cluster's nodes, makes this node's
// pod network, keeps its routes, and tells the cluster and its users how that stands.
package routes
