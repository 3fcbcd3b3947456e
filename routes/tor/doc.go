// Package tor is the mode of clusters whose routers know where pods are: the top-of-rack router, or whatever the
// default gateway of the nodes is, has one static route to each pod range through its node. Nodes hold no routes to
// each other.
//
// Export computes the routes that such a router needs, in the form that the router reads.
package tor
