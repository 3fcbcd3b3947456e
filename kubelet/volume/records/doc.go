// Package records knows what the node has of the volumes of storage drivers: where they are below the kubelet's folder,
// what is written down of each there, and which pods use it.
package records
