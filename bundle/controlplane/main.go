// Command kube is the Kubernetes side of a local cluster in one file: the control plane in one process, and upstream's
// own kubectl, kube-proxy and metrics-server under the names of their programs.
//
//	kube controlplane --config FILE                   etcd, kube-apiserver, kube-controller-manager and kube-scheduler
//	kube kubectl|kube-proxy|metrics-server …           upstream's program of that name
//
// A file called kubectl, kube-proxy or metrics-server that links to this one is that program. Nothing here
// changes what upstream does: each part gets the flags that its own command would get, parsed by its own flag sets.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	genericapiserver "k8s.io/apiserver/pkg/server"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	metricsserver "sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "kube" && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}

	switch name {
	case "controlplane":
		if err := runControlPlane(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "controlplane:", err)
			os.Exit(1)
		}
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	case "kube-proxy":
		os.Exit(cli.Run(kubeproxy.NewProxyCommand()))
	case "metrics-server":
		os.Exit(cli.Run(metricsserver.NewMetricsServerCommand(genericapiserver.SetupSignalHandler())))
	default:
		fmt.Fprintf(os.Stderr, "kube: %q is none of controlplane, kubectl, kube-proxy, metrics-server\n", name)
		os.Exit(2)
	}
}
