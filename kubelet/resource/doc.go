// Package resource gives pods their place in the node's cgroup tree (Linux), and works out what the node can allocate.
package resource
