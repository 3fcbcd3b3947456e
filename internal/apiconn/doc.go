// Package apiconn loads kubeconfigs and counts requests: what all clients of the API server have in common. It knows
// no kind of object, so that a program has only those that its own client brings.
package apiconn
