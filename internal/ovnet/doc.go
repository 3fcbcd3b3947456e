// Package ovnet is what the parts of the mode ovn share: the controller of the cluster, the agent of a node and the
// CNI plugin. It has the names and addresses that follow from a node's range, the annotation of pods, and the question
// that the plugin asks the agent.
package ovnet
