// Package relay carries connections and datagrams from listening addresses to the backends behind them, in this
// process.
//
//	client ──TCP──▶ listener ─┐                       ┌─▶ backend     one connection each; splice on Linux
//	                          ├─▶ frontend: Balancer ─┤
//	client ──UDP──▶ listener ─┘                       └─▶ backend     one flow per client's address and port: a socket of
//	                                                                  its own, so that answers find their way back
//
// A frontend has any number of listeners (a node port has one for each address of the node) and one balancer, so that
// affinity holds at all of them. A change of a frontend does not touch open connections; UDP flows to removed backends
// end. If a backend refuses a connection, the next one is tried, since nothing was sent yet; the client only loses
// time. A reset of one side resets the other side, and the end of one direction ends that direction on the other side.
// Sockets are bounded: connections over the limit wait in the listener's queue, a new flow replaces one that was idle
// for long, and no frontend has more than half of either.
package relay
