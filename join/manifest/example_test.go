package manifest_test

import (
	"fmt"

	"porthole.dev/porthole/join/manifest"
)

// A cluster whose Linux nodes have their routes from something else needs no DaemonSet: what is left is what a machine
// may read before and after it has joined.
func ExampleObjects() {
	o := manifest.Options{Mode: "host-gateway", Pods: "10.244.0.0/16", Services: "10.96.0.0/12", NoDaemonSet: true}
	if err := o.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	for _, object := range manifest.Objects(o) {
		fmt.Println(object["kind"], object["metadata"].(manifest.Object)["name"])
	}

	o.Services = ""
	fmt.Println(o.Validate())
	// Output:
	// ClusterRoleBinding porthole:node-proxier
	// Role porthole:config
	// RoleBinding porthole:config
	// ClusterRole porthole:joining
	// ClusterRoleBinding porthole:joining
	// ConfigMap porthole
	// --cluster-cidr and --service-cidr go together: give both, or --kubeconfig to read them from the cluster
}
