// Package serve is the kubelet's HTTPS server: logs, exec, attach, port-forward, pods, statistics and metrics.
//
//	request ─▶ who (client certificate, bearer token) ─▶ may they (SubjectAccessReview per endpoint) ─▶ handler
//
// It reads only published views of pods, and hands streams to the runtime's own streaming server.
package serve
