// Package manifest makes the objects that a cluster needs so that machines can become nodes with Porthole, and
// compares them with those that a cluster has. packaging/helm/porthole makes the same objects with Helm.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Object is an object of the API as its manifest has it.
type Object = map[string]any

// HostGateway is the mode of the pod network in which Linux nodes need routes to the others. In other modes flannel,
// routers or OVN do that.
const HostGateway = "host-gateway"

// Names of the objects.
const (
	namespace   = "kube-system"
	proxier     = "porthole:node-proxier"
	config      = "porthole:config"
	joining     = "porthole:joining"
	configMap   = "porthole"
	linuxRoutes = "porthole-routes"
	rbac        = "rbac.authorization.k8s.io"
	// bootstrappers is kubeadm's group of machines that join with a token and have no certificate yet.
	bootstrappers = "system:bootstrappers:kubeadm:default-node-token"
	nodes         = "system:nodes"
)

// Options say what the objects are for.
type Options struct {
	Mode string // of the pod network, required
	// Pods and Services are the cluster's ranges, of IPv4 and behind a comma of IPv6. Without both there is no
	// DaemonSet.
	Pods, Services string
	Nodes          []string            // names of the nodes that may read services and nodes; none: all nodes
	Image          string              // of the DaemonSet, required if there is one
	PullSecrets    []string            // names of secrets in kube-system for the registry of Image
	Tolerations    []corev1.Toleration // of the DaemonSet; none: it runs on every Linux node
	NoDaemonSet    bool                // Linux nodes have their routes from something else
}

// WithDaemonSet reports whether the objects of o include the DaemonSet for Linux nodes.
func (o Options) WithDaemonSet() bool {
	return o.Mode == HostGateway && !o.NoDaemonSet && o.Pods != "" && o.Services != ""
}

// Validate returns the first mistake.
func (o Options) Validate() error {
	for _, r := range []struct{ flag, text string }{{"--cluster-cidr", o.Pods}, {"--service-cidr", o.Services}} {
		for text := range strings.SplitSeq(r.text, ",") {
			if _, err := netip.ParsePrefix(text); text != "" && err != nil {
				return fmt.Errorf("%s %q is not a range like 10.244.0.0/16", r.flag, text)
			}
		}
	}
	if (o.Pods == "") != (o.Services == "") {
		return errors.New(
			"--cluster-cidr and --service-cidr go together: give both, or --kubeconfig to read them from the cluster")
	}
	if o.WithDaemonSet() && o.Image == "" {
		return errors.New("--image is required for the DaemonSet of Linux nodes")
	}
	return nil
}

// Objects returns the objects in the order in which they are to be made.
func Objects(o Options) []Object {
	list := []Object{
		proxierBinding(o.Nodes),
		object(rbac+"/v1", "Role", config, namespace, Object{"rules": []Object{
			{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "resourceNames": []string{configMap},
				"verbs": []string{"get"}},
		}}),
		object(rbac+"/v1", "RoleBinding", config, namespace, Object{
			"roleRef":  roleRef("Role", config),
			"subjects": []Object{subject("Group", nodes), subject("Group", bootstrappers)},
		}),
		// Whoever has a token can become a node, and then list all nodes. Before that join reads which network they
		// have, and refuses a machine that cannot have it before anything is changed.
		object(rbac+"/v1", "ClusterRole", joining, "",
			Object{"rules": []Object{{"apiGroups": []string{""}, "resources": []string{"nodes"},
				"verbs": []string{"list"}}}}),
		object(rbac+"/v1", "ClusterRoleBinding", joining, "",
			Object{"roleRef": roleRef("ClusterRole", joining), "subjects": []Object{subject("Group", bootstrappers)}}),
		object("v1", "ConfigMap", configMap, namespace, Object{"data": Object{"cluster.yaml": o.facts()}}),
	}
	if o.WithDaemonSet() {
		list = append(list, o.daemonSet()...)
	}
	return list
}

// facts is what joining machines read: how pods reach each other, and the ranges if they are known.
func (o Options) facts() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mode: %s\n", o.Mode)
	if o.Pods != "" {
		fmt.Fprintf(&b, "podSubnet: %s\nserviceSubnet: %s\n", o.Pods, o.Services)
	}
	return b.String()
}

// proxierBinding lets nodes read services, endpoints and nodes with their own certificates: kube-proxy and routes of a
// node have no others. Each node of kubeadm has these rights anyway, through kube-proxy's service account. names: only
// these nodes.
func proxierBinding(names []string) Object {
	subjects := []Object{subject("Group", nodes)}
	if len(names) > 0 {
		subjects = nil
		for _, n := range names {
			subjects = append(subjects, subject("User", "system:node:"+n))
		}
	}
	return object(rbac+"/v1", "ClusterRoleBinding", proxier, "",
		Object{"roleRef": roleRef("ClusterRole", "system:node-proxier"), "subjects": subjects})
}

// daemonSet runs `porthole routes` on Linux nodes that something else made, so that they have routes to the pods of
// the others. It may read nodes and write events, and change no object.
func (o Options) daemonSet() []Object {
	account := Object{"kind": "ServiceAccount", "name": linuxRoutes, "namespace": namespace}
	return []Object{
		object("v1", "ServiceAccount", linuxRoutes, namespace, Object{}),
		object(rbac+"/v1", "ClusterRole", "porthole:linux-routes", "", Object{"rules": []Object{
			{"apiGroups": []string{""}, "resources": []string{"nodes"}, "verbs": []string{"get", "list", "watch"}},
			{"apiGroups": []string{"", "events.k8s.io"}, "resources": []string{"events"},
				"verbs": []string{"create", "patch"}},
		}}),
		object(rbac+"/v1", "ClusterRoleBinding", "porthole:linux-routes", "", Object{
			"roleRef": roleRef("ClusterRole", "porthole:linux-routes"), "subjects": []Object{account},
		}),
		object("apps/v1", "DaemonSet", linuxRoutes, namespace, Object{"spec": Object{
			"selector":       Object{"matchLabels": Object{"app.kubernetes.io/name": linuxRoutes}},
			"updateStrategy": Object{"type": "RollingUpdate", "rollingUpdate": Object{"maxUnavailable": "10%"}},
			"template": Object{
				"metadata": Object{"labels": Object{"app.kubernetes.io/name": linuxRoutes}},
				"spec":     o.podSpec(),
			},
		}}),
	}
}

func (o Options) podSpec() Object {
	// A node whose own service porthole-routes does the same has this label.
	others := []Object{{"key": "porthole.dev/routes", "operator": "NotIn", "values": []string{"service"}}}
	spec := Object{
		"serviceAccountName": linuxRoutes, "hostNetwork": true, "priorityClassName": "system-node-critical",
		"terminationGracePeriodSeconds": 5,
		"nodeSelector":                  Object{"kubernetes.io/os": "linux"},
		"affinity": Object{"nodeAffinity": Object{"requiredDuringSchedulingIgnoredDuringExecution": Object{
			"nodeSelectorTerms": []Object{{"matchExpressions": others}},
		}}},
		"tolerations": o.tolerations(),
		"containers": []Object{{
			"name": "routes", "image": o.Image, "imagePullPolicy": "IfNotPresent",
			"command": []string{"/porthole-routes"},
			"args": []string{"--hostname-override=$(NODE_NAME)", "--mode=" + HostGateway, "--cluster-cidr=" + o.Pods,
				"--service-cidr=" + o.Services,
				"--write-node=false"},
			"env": []Object{{"name": "NODE_NAME",
				"valueFrom": Object{"fieldRef": Object{"fieldPath": "spec.nodeName"}}}},
			"securityContext": Object{
				"runAsUser": 0, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
				"capabilities":   Object{"drop": []string{"ALL"}, "add": []string{"NET_ADMIN"}},
				"seccompProfile": Object{"type": "RuntimeDefault"},
			},
			"resources": Object{"requests": Object{"cpu": "10m", "memory": "20Mi"}},
			"livenessProbe": Object{"httpGet": Object{"host": "127.0.0.1", "port": 10261, "path": "/livez"},
				"initialDelaySeconds": 30},
			"readinessProbe": Object{"httpGet": Object{"host": "127.0.0.1", "port": 10261, "path": "/readyz"}},
		}},
	}

	if len(o.PullSecrets) > 0 {
		var secrets []Object
		for _, s := range o.PullSecrets {
			secrets = append(secrets, Object{"name": s})
		}
		spec["imagePullSecrets"] = secrets
	}
	return spec
}

// tolerations are those of o, or all: a node without routes is cut off from Windows pods.
func (o Options) tolerations() []Object {
	if len(o.Tolerations) == 0 {
		return []Object{{"operator": "Exists"}}
	}
	var list []Object
	for _, t := range o.Tolerations {
		one := Object{}
		for key, value := range map[string]string{"key": t.Key, "operator": string(t.Operator), "value": t.Value,
			"effect": string(t.Effect)} {
			if value != "" {
				one[key] = value
			}
		}
		list = append(list, one)
	}
	return list
}

// object returns an object with our label. namespace "": it has none.
func object(api, kind, name, namespace string, rest Object) Object {
	meta := Object{"name": name, "labels": Object{"app.kubernetes.io/part-of": "porthole"}}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	rest["apiVersion"] = api
	rest["kind"] = kind
	rest["metadata"] = meta
	return rest
}

func roleRef(kind, name string) Object { return Object{"apiGroup": rbac, "kind": kind, "name": name} }

func subject(kind, name string) Object { return Object{"apiGroup": rbac, "kind": kind, "name": name} }

// Print writes the objects as YAML, for `kubectl apply -f -`.
func Print(w io.Writer, objects []Object) error {
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// ParseToleration reads KEY=VALUE:EFFECT, KEY:EFFECT or KEY, as `kubectl taint` writes taints.
func ParseToleration(text string) (corev1.Toleration, error) {
	key, effect, _ := strings.Cut(text, ":")
	key, value, equal := strings.Cut(key, "=")
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Value: value,
		Effect: corev1.TaintEffect(effect)}
	if equal {
		t.Operator = corev1.TolerationOpEqual
	}
	known := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoExecute}
	if key == "" || !slices.Contains(known, t.Effect) {
		return t,
			fmt.Errorf(
				"toleration %q: give KEY=VALUE:EFFECT, KEY:EFFECT or KEY, with the effect NoSchedule, PreferNoSchedule or NoExecute", text)
	}
	return t, nil
}
