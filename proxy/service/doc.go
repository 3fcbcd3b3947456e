// Package service decides which frontends a node serves and which backends each has, from Services, EndpointSlices and
// the node's zone. It is pure and all modes use it; each mode plans for itself how it serves a frontend.
//
//	Service × IP family × {cluster IP, node port, ingress IP, external IP} × port  =  Frontend
//	EndpointSlices of the service and family, by traffic policy, topology and condition  =  its Backends
//
// The rules are those of upstream's Linux kube-proxy 1.36 (pkg/proxy/topology.go, endpointslicecache.go,
// serviceport.go); where Windows cannot do the same, a Problem says so. A Tracker keeps a compact copy of the objects
// and computes again only the services that changed:
//
//	SetService, SetSlice, SetNode ──▶ Tracker: compact objects, index of frontends ──Take──▶ States of touched services
package service
