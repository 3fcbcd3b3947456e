// Package serve is the kubelet's HTTPS server: logs, exec, attach, port-forward, pods, statistics and metrics.
//
//	request ─▶ authenticate (client certificate, bearer token) ─▶ authorize (SubjectAccessReview per endpoint) ─▶ handler
//
// It knows pods only by their published views (pod.View), and hands streams to the runtime's own streaming server.
package serve
