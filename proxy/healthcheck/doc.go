// Package healthcheck answers load balancers in front of the cluster that ask this node how many endpoints of a
// service it has: healthCheckNodePort of a service with externalTrafficPolicy Local.
//
//	Set(service, check) ─▶ wanted ─┐
//	addresses of the node ─────────┼─▶ plan (pure) ─▶ close, open ─▶ one HTTP server per port and address
//	sockets that are open ─────────┘
//
// The answer has upstream's contents: 200 while the node has endpoints and serves the service, else 503; the number of
// endpoints is in the body and in the header X-Load-Balancing-Endpoint-Weight. A port that cannot be opened is
// reported once and tried again, without an effect on other services.
package healthcheck
