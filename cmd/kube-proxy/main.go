// Command kube-proxy is `porthole kube-proxy` alone, a program that is half as large and so takes less of a node's
// memory.
package main

import (
	"os"

	"porthole.dev/porthole/cli/kubeproxy"
	"porthole.dev/porthole/cli/program"
)

func main() {
	os.Exit(program.Run(program.Root(kubeproxy.Command()), append([]string{"kube-proxy"}, os.Args[1:]...)...))
}
