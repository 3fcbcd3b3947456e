package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"porthole.dev/porthole/internal/winbuild"
)

// WindowsHosts lists the cluster's Windows nodes and their versions, from the cache of the API server. A node that
// does not report its version has build 0.
func WindowsHosts(ctx context.Context, client kubernetes.Interface) (hosts []winbuild.Host, err error) {
	list, err := client.CoreV1().Nodes().
		List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelOSStable + "=windows", ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		n := &list.Items[i]
		version, _ := winbuild.ParseVersion(n.Status.NodeInfo.KernelVersion)
		hosts = append(hosts, winbuild.Host{Name: n.Name, Version: version,
			Architecture: n.Status.NodeInfo.Architecture})
	}
	return hosts, nil
}
