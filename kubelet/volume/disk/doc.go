// Package disk is what volumes need of the node's system, Linux or Windows: mounts, the group that owns files, links,
// and the removal of trees that containers could write to meanwhile. It knows paths and no volumes.
package disk
