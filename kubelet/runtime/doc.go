// Package runtime talks CRI to the container runtime. It turns pods into CRI configs, CRI answers into observed.Runtime
// snapshots, and follows the runtime's events. Labels and annotations have upstream's names, so a node can change
// between kubelets without restarting a container: they are the only database of what runs.
package runtime
