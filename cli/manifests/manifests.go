// Package manifests is the command that prints what a cluster needs before nodes with Porthole join it, and checks
// whether it has that.
package manifests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cli/version"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/join/manifest"
	"porthole.dev/porthole/node/routes"
)

// limit bounds the requests to a cluster: about ten.
const limit = 30 * time.Second

type options struct {
	manifest.Options
	kubeconfig, registry, output string
	tolerations                  []string
	check                        bool
}

// Command is `porthole manifests`.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "manifests",
		Short: "Print the objects that a cluster needs before nodes with Porthole join it",
		Long: `Prints the objects as YAML: the right of nodes to read services, endpoints and nodes with their own certificates, a ConfigMap that
joining machines read, and in the mode host-gateway a DaemonSet that keeps routes to Windows nodes on Linux nodes. The chart
packaging/helm/porthole makes the same objects.

The DaemonSet needs the ranges of pods and services. --kubeconfig reads them from the cluster, as kubeadm wrote them; else give
--cluster-cidr and --service-cidr. Without them the DaemonSet is left out, and a line on standard error says so.

With --check it prints what the cluster lacks or has otherwise, and which DaemonSets also start on Windows nodes because they name no
operating system. It changes nothing. Exit code: 0 all is there, 1 something is missing or differs.`,
		Example: "  porthole manifests --kubeconfig /etc/kubernetes/admin.conf | kubectl apply -f -\n" +
			"  porthole manifests --cluster-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/12 --registry registry.example.com\n" +
			"  porthole manifests --nodes win01,win02           # rights for these nodes only\n" +
			"  porthole manifests --check --kubeconfig /etc/kubernetes/admin.conf",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.resolve(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), limit)
			defer cancel()
			return o.run(ctx, c.OutOrStdout(), c.ErrOrStderr())
		},
	}

	f := c.Flags()
	f.StringVar(&o.Mode, "mode", manifest.HostGateway,
		"how packets get to other nodes: "+strings.Join(routes.Modes(), ", "))
	f.StringVar(&o.Pods, "cluster-cidr", "",
		"range of all pods, of IPv4 and, behind a comma, of IPv6 if the cluster has both")
	f.StringVar(&o.Services, "service-cidr", "", "range of all services, likewise")
	f.StringSliceVar(&o.Nodes, "nodes", nil, "names of the nodes that get rights; empty: all nodes")
	f.StringVar(&o.Image, "image", "", "image of the DaemonSet; empty: porthole/node of this program's version")
	f.StringVar(&o.registry, "registry", "", "registry of that image, for example registry.example.com/team")
	f.StringSliceVar(&o.PullSecrets, "pull-secret", nil, "secrets in kube-system for that registry")
	f.StringArrayVar(&o.tolerations, "toleration", nil,
		"taint that the DaemonSet tolerates, as KEY=VALUE:EFFECT, KEY:EFFECT or KEY; repeatable; none: all taints")
	f.BoolVar(&o.NoDaemonSet, "no-daemonset", false,
		"without the DaemonSet: Linux nodes have routes from something else, for example flannel's host-gw")
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"administrator's kubeconfig: read the ranges from the cluster; required with --check")
	f.BoolVar(&o.check, "check", false, "compare the cluster with the objects and change nothing")
	f.StringVarP(&o.output, "output", "o", "", "yaml or json; with --check text or json")
	program.Values(c, "mode", routes.Modes()...)
	return c
}

// resolve checks the flags, and fills in what they leave to defaults.
func (o *options) resolve() error {
	if !slices.Contains(routes.Modes(), o.Mode) {
		return fmt.Errorf("--mode %q is not known; known: %s", o.Mode, strings.Join(routes.Modes(), ", "))
	}
	known := []string{"yaml", "json"}
	if o.check {
		known = []string{"text", "json"}
	}
	if o.output == "" {
		o.output = known[0]
	}
	if !slices.Contains(known, o.output) {
		return fmt.Errorf("-o %s: %s are known", o.output, strings.Join(known, " and "))
	}
	if o.check && o.kubeconfig == "" {
		return errors.New(
			"--check needs --kubeconfig: the file with the API server's address and an administrator's credentials")
	}

	if o.Image == "" {
		o.Image = "porthole/node:" + version.Release()
	}
	if o.registry != "" {
		o.Image = strings.TrimSuffix(o.registry, "/") + "/" + o.Image
	}
	for _, text := range o.tolerations {
		t, err := manifest.ParseToleration(text)
		if err != nil {
			return fmt.Errorf("--toleration: %w", err)
		}
		o.Tolerations = append(o.Tolerations, t)
	}
	return nil
}

func (o *options) run(ctx context.Context, out, log io.Writer) error {
	var cluster *kube.Cluster
	if o.kubeconfig != "" {
		var err error
		if cluster, err = kube.NewCluster(o.kubeconfig); err != nil {
			return err
		}
		if err := o.readRanges(ctx, cluster); err != nil {
			return err
		}
	}
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Mode == manifest.HostGateway && !o.NoDaemonSet && !o.WithDaemonSet() {
		fmt.Fprintln(log,
			"porthole: without the DaemonSet that gives Linux nodes routes to Windows nodes: give --kubeconfig, or --cluster-cidr and --service-cidr; "+
				"--no-daemonset if something else makes these routes")
	}

	objects := manifest.Objects(o.Options)
	switch {
	case o.check:
		return o.report(ctx, cluster, objects, out)
	case o.output == "json":
		return encode(out, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}
	return manifest.Print(out, objects)
}

// readRanges fills in the ranges that no flag gave, from what kubeadm wrote. A cluster that kubeadm did not make has
// nothing there.
func (o *options) readRanges(ctx context.Context, cluster *kube.Cluster) error {
	if o.Pods != "" || o.Services != "" {
		return nil
	}
	m, err := cluster.ConfigMap(ctx, types.NamespacedName{Namespace: "kube-system", Name: "kubeadm-config"})
	if err != nil || m == nil {
		return err
	}
	var c struct {
		Networking struct {
			PodSubnet     string `json:"podSubnet"`
			ServiceSubnet string `json:"serviceSubnet"`
		} `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(m.Data["ClusterConfiguration"]), &c); err != nil {
		return fmt.Errorf("ClusterConfiguration in ConfigMap kube-system/kubeadm-config: %w", err)
	}
	if c.Networking.PodSubnet != "" && c.Networking.ServiceSubnet != "" {
		o.Pods = c.Networking.PodSubnet
		o.Services = c.Networking.ServiceSubnet
	}
	return nil
}

// report prints how the cluster differs.
func (o *options) report(ctx context.Context, cluster *kube.Cluster, objects []manifest.Object, out io.Writer) error {
	found, err := manifest.Check(ctx, cluster, objects)
	if err != nil {
		return err
	}

	wrong := slices.ContainsFunc(found, func(f manifest.Finding) bool { return !f.Warning })
	if o.output == "json" {
		if err := encode(out, map[string]any{"ok": !wrong,
			"findings": append([]manifest.Finding{}, found...)}); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			kind := "wrong"
			if f.Warning {
				kind = "warning"
			}
			fmt.Fprintf(out, "%-8s %s\n", kind, f)
		}
		if !wrong {
			fmt.Fprintf(out, "the cluster has all %d objects; next: kubeadm token create --print-join-command\n",
				len(objects))
		}
	}
	if wrong {
		return program.ExitCode(1)
	}
	return nil
}

func encode(out io.Writer, doc any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}
