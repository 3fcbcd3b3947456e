// Package flannel tests our modes vxlan and host-gateway beside real flanneld: a control plane, two nodes with
// flanneld and two with porthole routes, each in a network namespace, on one switch.
//
//	api 10.99.0.10 ─┐
//	flan1      .11 ─┤ sw0
//	flan2      .12 ─┤       10.244.N.0/24 on each; the address .10 stands for its pods
//	our1       .13 ─┤
//	our2       .14 ─┘
package flannel
