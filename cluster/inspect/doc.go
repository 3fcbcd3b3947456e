// Package inspect is what commands that only look at a local cluster need of it: its nodes, what their programs answer,
// and the HNS of its hosts. It imports nothing that makes a cluster, so that programs of such commands stay small (ADR
// 2).
package inspect
