// Package matrix asks the same questions of two nodes that serve the same objects of one API server: an emulated
// Windows host with our kube-proxy.exe, and a Linux node with upstream's kube-proxy in nftables mode. Who answers, and
// whose address the backend sees, must be the same for every service, frontend, protocol and client. What differs for
// a reason is listed with that reason in known_test.go; anything else fails.
//
//	           out 10.99.0.1, 203.0.113.1                    one such network per node under test, all with the same
//	            │ switch 10.99.0.0/24                        addresses, none connected to another; the API server is
//	   ┌────────┴────────┐                                   reached through the loopback of the node
//	node1 10.99.0.21   node2 10.99.0.22
//	pods 10.244.1.0/24 pods 10.244.2.0/24
//	client .20         r1 … r4 .11 … .14
//	l1 … l4 .11 … .14
//
// l1 and r1 are ready, l2 and r2 terminate but serve, l3 and r3 terminate and do not serve, l4 and r4 are not ready:
// so the endpoint slices say. All of them answer, so an answer tells whom the proxy chose.
//
// What has no Linux node to be compared with is asked of our proxy alone, with the expected answers beside the
// questions: overlay networks (overlay_linux_test.go), dual stack and IPv6 (dual_linux_test.go). TestOverlayUpstream
// asks the same of upstream's kube-proxy.exe on an overlay network; what it does not do is in upstreamMisses.
// TestMatrixOverlay compares ours on an overlay network with the Linux node.
package matrix
