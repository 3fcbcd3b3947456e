// Package relay carries connections and datagrams from listening addresses to the backends behind them, in this process.
//
//	client ──TCP──▶ listener ─┐                       ┌─▶ backend     one connection each; splice on Linux
//	                          ├─▶ frontend: Balancer ─┤
//	client ──UDP──▶ listener ─┘                       └─▶ backend     one flow per client's address and port: a socket of
//	                                                                  its own, so that answers find their way back
//
// A frontend has any number of listeners (a node port has one for each address of the node) and one balancer, so that
// affinity holds whichever way a client comes. Changing a frontend never touches open connections; UDP flows leave backends
// that are gone. A backend that does not take a connection costs the client nothing but time: the next one is tried, as
// nothing was sent yet. A reset of one side becomes a reset of the other, the end of one direction the end of that
// direction. Sockets are bounded: connections over the limit wait in the listener's queue, the flow that nobody used for
// longest makes room for a new one, and no frontend may hold more than half of either.
package relay
