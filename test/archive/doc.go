// Package archive tests what users get in `porthole-V-linux-amd64.tar.gz`: the local cluster on a machine that has Go
// nowhere, and in a container.
package archive
