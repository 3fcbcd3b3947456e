// Command kubeadm is upstream's kubeadm and, under their own names, the programs that a control plane made by it runs
// as static pods and as a DaemonSet: kube-apiserver, kube-controller-manager, kube-scheduler, etcd, kube-proxy and
// kubectl. A link of such a name, or the name as the first argument, chooses the program. Tests make images of it; no
// local cluster runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // as upstream's own programs
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
)

// programs by name. Each reads os.Args and returns its exit code.
var programs = map[string]func() int{
	// it ends the process itself
	"kubeadm":                 func() int { kubeadmerrors.HandleError(kubeadm.Run()); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kube-proxy":              func() int { return cli.Run(kubeproxy.NewProxyCommand()) },
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kubectl": func() int {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err) // it ends the process
		}
		return 0
	},
}

func main() {
	run := programs[filepath.Base(os.Args[0])]
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		os.Args = os.Args[1:]
		run = programs[os.Args[0]]
	}
	if run == nil {
		fmt.Fprintf(os.Stderr,
			"%s: not one of kubeadm, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, etcd, kubectl\n", filepath.Base(os.Args[0]))
		os.Exit(2)
	}
	os.Exit(run())
}
